#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs tune changes label and UUID, and nothing else: all pages are still the file system's own.
. "$(dirname "$0")/lib.sh"

value() { # value KEY: of info
	"$gpu4fs" info --json a.img | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}

exits 0 "mkfs" "$gpu4fs" mkfs -q -L before --size 64M a.img
exits 0 "a label" "$gpu4fs" tune -L "a new name" a.img
equals "... is there" "a new name" "$(value label)"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck a.img
uuid=00112233-4455-6677-8899-aabbccddeeff
exits 0 "a UUID" "$gpu4fs" tune --uuid "$uuid" a.img
equals "... is there" "$uuid" "$(value uuid)"
equals "... and the label still" "a new name" "$(value label)"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck a.img
exits 0 "a random one" "$gpu4fs" tune -U random -L "" a.img
[ "$(value uuid)" != "$uuid" ]
report $? "... is another"
equals "... and there is no label" "" "$(value label)"
exits 0 "it can be used" "$gpu4fs" bench --size 1M --files 10 --dirs 1 --random-ops 10 --fsyncs 1 --cached-reads 10 a.img
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck a.img
"$gpu4fs" mkfs -q -f --checksum none --size 64M sums.img
exits 0 "sums of files" "$gpu4fs" tune --checksum xxh3 sums.img
equals "... are the default from then on" xxh3 "$("$gpu4fs" info --json sums.img |
	python3 -c "import json, sys; print(json.load(sys.stdin)['data_checksums'])")"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck sums.img
exits 0 "... files of before get them" "$gpu4fs" scrub start --add-sums sums.img
says "... which is counted" "0 pages were given sums"
exits 0 "none any more" "$gpu4fs" tune --checksum none sums.img
equals "... is the default" none "$("$gpu4fs" info --json sums.img |
	python3 -c "import json, sys; print(json.load(sys.stdin)['data_checksums'])")"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck sums.img
exits 0 "pages are shared" "$gpu4fs" tune --dedup on sums.img
equals "... and the checksums stay" "none on" "$("$gpu4fs" info --json sums.img |
	python3 -c "import json, sys; d = json.load(sys.stdin); print(d['data_checksums'], d['deduplication'])")"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck sums.img
exits 2 "neither on nor off" "$gpu4fs" tune --dedup default sums.img
quota() { # of info; none: it says nothing
	"$gpu4fs" info --json "$1" | python3 -c "import json, sys; print(json.load(sys.stdin).get('deduplication_quota_bytes', 'none'))"
}
equals "there is no quota" none "$(quota sums.img)"
exits 0 "a quota for what pages are found by" "$gpu4fs" tune --dedup-quota 64M sums.img
equals "... is there" 67108864 "$(quota sums.img)"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck sums.img
exits 0 "another change" "$gpu4fs" tune --dedup off sums.img
equals "... leaves it" 67108864 "$(quota sums.img)"
for size in 0 4095 -1 64X "" nothing 99999999999T; do
	exits 2 "no quota: '$size'" "$gpu4fs" tune --dedup-quota "$size" sums.img
	says "... which is said" "'$size' is no quota: none and sizes from 4K on are"
done
equals "... and nothing has changed" 67108864 "$(quota sums.img)"
exits 0 "more than any device has" "$gpu4fs" tune --dedup-quota 1000000T sums.img
exits 0 "... can be used" "$gpu4fs" bench --size 1M --files 10 --dirs 1 --random-ops 10 --fsyncs 1 --cached-reads 10 sums.img
exits 0 "none" "$gpu4fs" tune --dedup-quota none sums.img
equals "... is none" none "$(quota sums.img)"
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck sums.img
exits 2 "no algorithm" "$gpu4fs" tune --checksum md5 sums.img
exits 2 "only one that starts adds sums" "$gpu4fs" scrub resume --add-sums sums.img
exits 2 "... or is of one file" "$gpu4fs" scrub resume --only / sums.img
exits 1 "... that is there" "$gpu4fs" scrub start --only /none sums.img
says "... which is said" "/none: no such file"
exits 0 "the root is a directory" "$gpu4fs" scrub start --only / sums.img
poke a.img 4096 "$(printf '00%.0s' $(seq 128))"
exits 0 "the second superblock says the same" "$gpu4fs" info a.img
exits 1 "... and fsck makes the first from it" "$gpu4fs" fsck -y a.img
exits 0 "... for good" "$gpu4fs" fsck a.img

exits 2 "nothing to change" "$gpu4fs" tune a.img
exits 2 "no UUID" "$gpu4fs" tune -U 123 a.img
exits 2 "a label that is too long" "$gpu4fs" tune -L "$(printf 'x%.0s' $(seq 64))" a.img
exits 2 "no device" "$gpu4fs" tune -L x
exits 1 "no file system" "$gpu4fs" tune -L x /dev/null
truncate -s 64M empty.img
exits 1 "none in a file" "$gpu4fs" tune -L x empty.img
one_sentence "... is told in one sentence"
finish
