#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs dedup --chunks: what is the same at other places of a page is told and stays, what is the same at the same place is shared, in as
# much memory as it is given.
. "$(dirname "$0")/lib.sh"

exits 2 "statistics have no chunks" "$gpu4fs" dedup stats --chunks --image disk.img
one_sentence "... fails with one sentence"
exits 2 "in too little memory" "$gpu4fs" dedup estimate --chunks --memory 128K --image disk.img
one_sentence "... fails with one sentence"

# 2000 pages; a part of a page further; three pages further; changed in place, which leaves 99 pages that are a's no more
mkdir tree
python3 - <<'PYTHON'
import random

random = random.Random(1)
a = random.randbytes(8192000)
files = {
    "a": a,
    "unaligned": random.randbytes(100) + a,
    "aligned": random.randbytes(3 * 4096) + a,
    "changed": a[:2500000] + random.randbytes(400000) + a[2900000:],
    "small": b"x" * 3000,
}
for name, contents in files.items():
    with open(f"tree/{name}", "wb") as file:
        file.write(contents)
PYTHON
chunk() { # chunk KEY ARGUMENT...: of what dedup says of chunks, which has to succeed
	local key=$1
	shift
	"$gpu4fs" dedup "$@" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['chunks']['$key'])"
}
between() { # between NAME LEAST FOUND MOST
	[ "$2" -le "$3" ] && [ "$3" -le "$4" ] || echo "found $3, not $2 to $4" >>"$work/.err"
	[ "$2" -le "$3" ] && [ "$3" -le "$4" ]
	report $? "$1"
}
begin() { # begin CHECKSUM
	exits 0 "mkfs" "$gpu4fs" mkfs -q -f --checksum="$1" --size 128M disk.img
	exits 0 "a tree" "$gpu4fs" import --image disk.img tree /
}
is_whole() { # contents and structure are what they were
	exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
	rm -rf out
	exits 0 "... and can be read" "$gpu4fs" export --image disk.img / out
	exits 0 "... with the contents that were there" diff -r tree out
}

# What begins elsewhere loses at most a chunk at each end of a difference, and a chunk has 64 KiB at most.
chunk=65536
for sum in blake3 none; do
	begin $sum
	is_json "an estimate with $sum" "$gpu4fs" dedup estimate --json --chunks --image disk.img
	aligned=$(json_value 'd["chunks"]["aligned_bytes"]') unaligned=$(json_value 'd["chunks"]["unaligned_bytes"]')
	between "... finds what is shifted by a part of a page" $((8192000 - 2 * chunk)) "$unaligned" 8192000
	between "... and what pages can share" $((8192000 + 7792000 - 6 * chunk)) "$aligned" $((8192000 + 7792000))
	equals "... which is all that is twice there" True \
		"$(json_value 'd["chunks"]["duplicate_bytes"] == sum(d["chunks"][k + "_bytes"] for k in ("aligned", "unaligned", "partial_page"))')"
	equals "... of all files" True "$(json_value 'd["chunks"]["cut_bytes"] == d["data_bytes"] > 32000000')"
	equals "... each as often in little memory" "$aligned" "$(chunk aligned_bytes estimate --chunks --memory 256K --image disk.img)"
	equals "... and elsewhere in a page" "$unaligned" "$(chunk unaligned_bytes estimate --chunks --memory 256K --image disk.img)"
	between "... by several passes" 3 "$(chunk passes estimate --chunks --memory 256K --image disk.img)" 20

	is_json "a run with $sum" "$gpu4fs" dedup run --json --chunks --memory 1M --image disk.img
	equals "... shares at least what pages can share" True "$(json_value "d['shared_bytes'] >= $aligned")"
	equals "... of what has sums, without chunks" "$([ $sum = none ] && echo False || echo True)" \
		"$(json_value "d['chunks']['shared_bytes'] == 0")"
	equals "... all of it" 0 "$(json_value "d['different_bytes'] + d['failed_bytes']")"
	is_json "afterwards" "$gpu4fs" dedup estimate --json --chunks --image disk.img
	equals "... nothing is left that pages can share" 0 "$(json_value 'd["chunks"]["aligned_bytes"]')"
	equals "... and the rest is what it was" "$unaligned" "$(json_value 'd["chunks"]["unaligned_bytes"]')"
	equals "... and it is free" True "$(json_value "d['data_bytes'] - d['stored_bytes'] >= $aligned")"
	is_whole
done

# Zeros are no chunks, and become holes also where nothing but reading tells of them
head -c 4096000 /dev/zero >tree/zeros
head -c 5000 /dev/urandom >>tree/zeros
for sum in blake3 none; do
	begin $sum
	is_json "an estimate of zeros with $sum" "$gpu4fs" dedup estimate --json --chunks --image disk.img /zeros
	equals "... knows them" "4096000 0 8192" \
		"$(json_value 'd["zero_bytes"], d["chunks"]["duplicate_bytes"], d["chunks"]["cut_bytes"]' | tr -d "(),")"
	is_json "a run" "$gpu4fs" dedup run --json --chunks --memory 256K --image disk.img
	equals "... makes holes of them" "4096000 0" "$(json_value 'd["hole_bytes"], d["failed_bytes"]' | tr -d "(),")"
	is_json "... which take no space" "$gpu4fs" dedup stats --json --image disk.img /zeros
	equals "... any more" 8192 "$(json_value 'd["stored_bytes"]')"
	is_whole
done

# Copies by reference are one copy: neither they nor what is unaligned to them counts again
exits 0 "a copy by reference" "$gpu4fs" cp --reflink --image disk.img /unaligned /again
equals "... is no other copy" "$unaligned" "$(chunk duplicate_bytes estimate --chunks --image disk.img /a /unaligned /again)"
exits 0 "... of what can be shared" "$gpu4fs" cp --reflink --image disk.img /small /small2
equals "... neither" 0 "$(chunk duplicate_bytes estimate --chunks --image disk.img /small /small2)"

# One chunk thousands of times, more than fit into that memory: at 1024 places of pages, and at one
rm -r tree
mkdir tree
python3 - <<'PYTHON'
import random

for period in 2500, 4096:
    with open(f"tree/{period}", "wb") as file:
        file.write(random.Random(4).randbytes(period) * 3000)
PYTHON
begin none
between "one chunk in a row" 5900 "$(chunk count estimate --chunks --image disk.img)" 6100
for file in 2500 4096; do
	is_json "... of a file with a period of $file" "$gpu4fs" dedup estimate --json --chunks --image disk.img /$file
	json_value '{k: v for k, v in d["chunks"].items() if k != "passes"}' >much
	is_json "... in little memory" "$gpu4fs" dedup estimate --json --chunks --memory 256K --image disk.img /$file
	between "... by few passes" 2 "$(json_value 'd["chunks"]["passes"]')" 8
	json_value '{k: v for k, v in d["chunks"].items() if k != "passes"}' >little
	exits 0 "... counts the same" diff much little
	between "... of which all but one are duplicates" $((file * 2990)) "$(python3 -c 'print(eval(open("much").read())["duplicate_bytes"])')" $((file * 3000))
done
exits 0 "a run in little memory" "$gpu4fs" dedup run --chunks --memory 256K --image disk.img
equals "... shares what pages can share" 0 "$(chunk aligned_bytes estimate --chunks --image disk.img)"
is_whole
finish
