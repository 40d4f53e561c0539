#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Block devices as sources: what is named is read as a file with its size, zeros become holes; what is met in a tree stays a device.
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
trap 'losetup -d "$device"; rm -rf "$work"' EXIT
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
