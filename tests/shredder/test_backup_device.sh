#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Block devices as sources: what is named is read as a file with its size, zeros become holes; what is met in a tree stays a device.
# As targets: the contents of one file, only what differs, nothing behind it, and no device that is in use or too small.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
if [ "$(id -u)" -ne 0 ]; then
	echo "# skipped: only root has loop devices"
	exit 77
fi
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key

# data, a part of a MiB, zeros, data over an odd border, zeros to the end, which is in the middle of a MiB
noise 3500000 1 >image
truncate -s $((40 << 20)) image
noise 5000000 2 | dd of=image bs=1M seek=21 conv=notrunc status=none
truncate -s $(((64 << 20) + 12288)) image
if ! device=$(losetup --find --show image 2>errors); then
	echo "# skipped: no loop device: $(head -n 1 errors)"
	exit 77
fi
# twelve KiB larger, no multiple of a MiB either, and full of something else
noise $(((64 << 20) + 24576)) 3 >other
cp other before
target=$(losetup --find --show other) || target=
trap 'losetup -d "$device"; [ -z "$target" ] || losetup -d "$target"; rm -rf "$work"' EXIT
exits 0 "there is a second device" test -b "$target"
ln -s "$device" link
exits 0 "init" "$shredder" init

exits 0 "backup of a device" "$shredder" backup --json "$device"
equals "its size is the file's" "$(stat -c %s image)" "$(json_value 'd["bytes"]')"
exits 0 "restore" "$shredder" restore latest:"$(dirname "$device")" --target out
exits 0 "what comes back is what the device holds" cmp image "out/$(basename "$device")"
equals "... as a file" "regular file" "$(stat -c %F "out/$(basename "$device")")"
equals "... with holes where zeros are" yes "$([ "$(du -k "out/$(basename "$device")" | cut -f 1)" -lt 20000 ] && echo yes)"
exits 0 "check" "$shredder" check --read-data

# its times tell nothing: it is read again
printf changed | dd of="$device" bs=1 seek=30000000 conv=notrunc,fsync status=none
exits 0 "second generation" "$shredder" backup --json "$device"
equals "... is read, and little of it is new" True "$(json_value 'd["unchanged_files"] == 0 and 0 < d["new_bytes"] < 8 << 20')"
exits 0 "restore over the first one" "$shredder" restore latest:"$(dirname "$device")" --target out
exits 0 "... writes what changed" cmp image "out/$(basename "$device")"

# onto a device
size=$(stat -c %s image)
file=latest:$device
exits 0 "a dry run onto a device" "$shredder" restore "$file" --onto "$target" --dry-run
exits 0 "... writes nothing" cmp before "$target"
exits 0 "restore onto a device" "$shredder" restore "$file" --onto "$target"
exits 0 "... which holds the file now" cmp -n "$size" image "$target"
exits 0 "... and behind it what it held" cmp -i "$size" before "$target"
equals "... and stays a device of its owner" "$(stat -c '%F %u %g %a' "$device")" "$(stat -c '%F %u %g %a' "$target")"
exits 0 "once more" "$shredder" restore --json "$file" --onto "$target"
equals "... writes nothing that is there" 0 "$(json_value 'd["written_bytes"]')"
# as one that was cut off leaves it: a part is not there yet, data and a hole
dd if=before of="$target" bs=1M skip=24 seek=24 count=9 conv=notrunc,fsync status=none
exits 0 "one that goes on" "$shredder" restore --json "$file" --onto "$target"
equals "... writes what was missing" True "$(json_value '0 < d["written_bytes"] < 12 << 20')"
exits 0 "... and ends with the file" cmp -n "$size" image "$target"

# a sparse file whose holes end within a block of the device
noise 5000 4 >sparse
truncate -s 20000001 sparse
exits 0 "backup of a sparse file" "$shredder" backup sparse
cat before >"$target"
exits 0 "restore of it onto a device" "$shredder" restore latest:"$work/sparse" --onto "$target"
exits 0 "... its holes are zeros" cmp -n 20000001 sparse "$target"
exits 0 "... and nothing else is" cmp -i 20000001 before "$target"

cp before "$work/plain"
exits 1 "onto a file" "$shredder" restore latest:"$work/sparse" --onto "$work/plain"
one_sentence "onto a file"
exits 0 "... which stays as it was" cmp before "$work/plain"
exits 1 "a directory onto a device" "$shredder" restore latest:"$work" --onto "$target"
one_sentence "a directory onto a device"
truncate -s 4M small
losetup -d "$target"
target=$(losetup --find --show small)
exits 1 "onto a device that is too small" "$shredder" restore latest:"$work/sparse" --onto "$target"
says "onto a device that is too small" "nothing was changed"
exits 0 "... nothing was" cmp -n 4194304 /dev/zero "$target"
exits 0 "backup of a small file" "$shredder" backup key
exits 1 "onto a device that is in use" python3 - "$target" "$shredder" restore latest:"$work/key" --onto "$target" <<'END'
import os, subprocess, sys
held = os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)
sys.exit(subprocess.call(sys.argv[2:]))
END
says "onto a device that is in use" "is in use"
exits 0 "... nothing was written" cmp -n 4194304 /dev/zero "$target"
exits 2 "--onto with --target" "$shredder" restore latest:"$work/key" --onto "$target" --target out
one_sentence "--onto with --target"

# a link to a device that is named, as LVM makes them
exits 0 "backup of a link to a device" "$shredder" backup "$work/link"
exits 0 "restore of it" "$shredder" restore latest:"$work" --target linked
exits 0 "... is what the device holds" cmp image linked/link

# not named: a node, and a link
mkdir tree
cp -a "$device" tree/node
ln -s "$device" tree/link
exits 0 "a tree with a device" "$shredder" backup tree
exits 0 "its restore" "$shredder" restore latest:"$work/tree" --target tree2
equals "a device in a tree stays one" "block special file" "$(stat -c %F tree2/node)"
equals "a link in a tree stays one" "symbolic link" "$(stat -c %F tree2/link)"
finish
