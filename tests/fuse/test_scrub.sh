#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs scrub: of a mount and of an image; what is damaged is named, what was killed goes on, and orders are obeyed.
# Of cli/health.c.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

status() { # status EXPRESSION: of `status` in JSON, as s
	"$gpu4fs" scrub status --json "$mnt" 2>/dev/null | python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"
}
flip() { # flip FILE PAGE: a bit of a page of a file of the mount, behind its back
	local address
	address=$("$gpu4fs" map --json "$1" | python3 -c "
import json, sys
for e in json.load(sys.stdin)['files'][0]['extents']:
    if e['offset'] <= $2 * 4096 < e['offset'] + e['length']:
        print(e['address'] + $2 * 4096 - e['offset'])")
	python3 -c "
import sys
with open('$image', 'r+b') as f:
    f.seek($address + 99)
    byte = f.read(1)[0]
    f.seek($address + 99)
    f.write(bytes([byte ^ 4]))"
}

truncate -s 64M "$image"
"$gpu4fs" mkfs --checksum blake3 --quiet "$image" || exit 1
mount_image
mkdir -p "$mnt/a/b"
head -c 3M /dev/urandom >"$mnt/a/b/file"
head -c 5000 /dev/urandom >"$mnt/small"
sync "$mnt"
same "there was none" "None" "$(status "s.get('scrub')")"
check "a whole file system" "$gpu4fs" scrub start --now --wait "$mnt"
same "is read" "done 0 100" "$(status "s['scrub']['state'], s['scrub']['damaged_pages'], s['scrub']['percent']" | tr -d "(),'")"
flip "$mnt/a/b/file" 500
flip "$mnt/a/b/file" 501
refuses "damage is found" "/a/b/file: bytes 2048000 to 2056191" "$gpu4fs" scrub start --now --wait "$mnt"
same "and named" "/a/b/file data 2048000 8192" \
	"$(status "*(s['findings'][0][k] for k in ('path', 'what', 'offset', 'bytes'))")"
same "once" 1 "$(status "len(s['findings'])")"

# so slow that it does not end by itself
check "one that is limited" "$gpu4fs" scrub start --now --rate 4096 "$mnt"
refuses "there is one at a time" "already" "$gpu4fs" scrub start "$mnt"
same "runs" running "$(status "s['scrub']['state']")"
"$gpu4fs" scrub pause "$mnt" >/dev/null
same "pauses" paused "$(status "s['scrub']['state']")"
number=$(status "s['scrub']['number']")
check "the server is killed" kill -KILL "$(server_pid)"
umount "$mnt" || umount --lazy "$mnt"
mount_image
same "it is the same, and paused, after that" "$number paused" \
	"$(status "s['scrub']['number'], s['scrub']['state']" | tr -d "(),'")"
"$gpu4fs" scrub resume "$mnt" >/dev/null
same "it is resumed" running "$(status "s['scrub']['state']")"
check "the server is killed while it runs" kill -KILL "$(server_pid)"
umount "$mnt" || umount --lazy "$mnt"
mount_image
same "it goes on by itself" running "$(status "s['scrub']['state']")"
refuses "without a limit it ends, and has found the same" "/a/b/file" "$gpu4fs" scrub resume --rate 0 --wait "$mnt"
same "once" "1 2" "$(status "len(s['findings']), s['scrub']['damaged_pages']" | tr -d "(),")"
check "another one" "$gpu4fs" scrub start --rate 4096 "$mnt"
"$gpu4fs" scrub cancel "$mnt" >/dev/null
same "is cancelled" cancelled "$(status "s['scrub']['state']")"
refuses "what is over can not go on" "no scrub that goes on" "$gpu4fs" scrub resume "$mnt"
if ((UID == 0)) && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	refuses "not by everybody" "not permitted" setpriv --reuid=nobody --clear-groups "$gpu4fs" scrub start "$mnt"
fi
met=$(status "s['damaged_pages_met']")
check "damage was counted" test "$met" -ge 4
same "info of the mount says so, too" "$met" \
	"$("$gpu4fs" info --json "$mnt" | python3 -c "import json, sys; print(json.load(sys.stdin)['damaged_pages_met'])")"
unmount_image
fsck_image
same "and of the image" "$met" \
	"$("$gpu4fs" info --json "$image" | python3 -c "import json, sys; print(json.load(sys.stdin)['damaged_pages_met'])")"
mount_image
same "and is after a remount" "$met" "$(status "s['damaged_pages_met']")"
unmount_image

# an image
refuses "an image is scrubbed, too" "/a/b/file: bytes 2048000 to 2056191" "$gpu4fs" scrub start "$image"
refuses "its lines in the log name the file" "the path is '/a/b/file'" "$gpu4fs" scrub start "$image"
refuses "and says so later" "2 damaged pages" "$gpu4fs" scrub status "$image"
# one that was killed while it ran goes on when its image is mounted, and ends by itself when it will
truncate -s 64M "$image.2"
"$gpu4fs" mkfs --checksum crc32c --quiet "$image.2" || exit 1
first=$image
image=$image.2
mount_image
head -c 900K /dev/urandom >"$mnt/file"
sync "$mnt"
check "one with a limit" "$gpu4fs" scrub start --now --rate 4096 "$mnt"
check "is killed while it runs" kill -KILL "$(server_pid)"
umount "$mnt" || umount --lazy "$mnt"
for action in "resume --rate 0" "resume --rate 1G" "pause" "cancel"; do
	cp "$image" "$image.copy"
	# shellcheck disable=SC2086 # words
	check "$action, when it may be over already" "$gpu4fs" scrub $action "$image.copy"
done
cp "$image" "$image.copy"
check "without a limit it ends" "$gpu4fs" scrub resume --rate 0 "$image.copy"
for action in resume pause cancel; do
	refuses "$action, when it was over before" "no scrub that goes on" "$gpu4fs" scrub "$action" "$image.copy"
done
rm "$image" "$image.copy"
image=$first

# fsck
refuses "fsck compares contents when it is asked to" \
	"/a/b/file: bytes 2048000 to 2052095, at 0x[0-9a-f]*: .*blake3 expected [0-9a-f]*, found [0-9a-f]*" \
	"$gpu4fs" fsck --data "$image"
fsck_image "and only then"
"$gpu4fs" fsck --data --json -j 3 "$image" >"$work/out"
same "with the status of a problem" 4 $?
same "in JSON, too" "2 2 ['/a/b/file', '/a/b/file'] [2048000, 2052096] 64" "$(python3 -c "
import json, sys
d = json.load(sys.stdin)
p = [p for p in d['problems'] if p['kind'] == 'data']
print(d['problem_count'], d['data']['pages_damaged'], [q['path'] for q in p], [q['offset'] for q in p],
      len(p[0]['expected']))" <"$work/out")"
sum=$(sha256sum <"$image")
"$gpu4fs" fsck --data --repair "$image" >"$work/out"
same "a repair repairs none of it" 4 $?
same "and changes nothing" "$sum" "$(sha256sum <"$image")"
"$gpu4fs" fsck --data -p "$image" >"$work/out"
same "nor does -p skip it" 4 $?
refuses "what is no action" "none of start" "$gpu4fs" scrub begin "$image"

# files of before: they get sums where they lie
"$gpu4fs" mkfs --checksum none --force --quiet "$image" || exit 1
mount_image
head -c 3M /dev/urandom >"$mnt/file"
head -c 9000 /dev/urandom >"$mnt/small"
before=$(cat "$mnt/file" "$mnt/small" | sha256sum)
unmount_image
check "a file system is to have sums" "$gpu4fs" tune --checksum blake3 "$image"
mount_image
check "one file of before gets them" "$gpu4fs" scrub start --add-sums --only /small --now --wait "$mnt"
same "it alone" "3 False" "$(status "s['scrub']['pages_given_sums'], s['scrub']['of_everything']" | tr -d "(),")"
refuses "no other file" "No such file" "$gpu4fs" scrub start --only /none "$mnt"
check "all others do" "$gpu4fs" scrub start --add-sums --now --wait "$mnt"
same "all of them" "768 True" "$(status "s['scrub']['pages_given_sums'], s['scrub']['of_everything']" | tr -d "(),")"
same "they are what they were" "$before" "$(cat "$mnt/file" "$mnt/small" | sha256sum)"
flip "$mnt/file" 500
flip "$mnt/small" 1
unmount_image
mount_image
refuses "from then on damage is noticed" "Input/output error" sha256sum "$mnt/file"
refuses "of small files, too" "Input/output error" sha256sum "$mnt/small"
unmount_image
finish
