#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What cp copies on a mount is shared: it takes no space, and is a file of its own.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

free_kib() {
	sync -f "$mnt"
	df -k --output=avail "$mnt" | tail -n 1
}
make_image 256M
mount_image
head -c 50001000 /dev/urandom >"$mnt/a"
before=$(free_kib)
check "cp" cp "$mnt/a" "$mnt/b"
after=$(free_kib)
check "... takes no space for what is there ($((before - after)) KiB)" test $((before - after)) -lt 2000
check "... and has the same contents" cmp "$mnt/a" "$mnt/b"
cp -r "$mnt/b" "$mnt/c"
check "a change of the copy" dd if=/dev/zero of="$mnt/b" bs=4096 count=3 seek=500 conv=notrunc status=none
check "... is not in the other" cmp "$mnt/a" "$mnt/c"
check "... and in the copy" test "$(dd if="$mnt/b" bs=4096 skip=500 count=3 status=none | tr -d '\0' | wc -c)" -eq 0
rm "$mnt/a"
unmount_image
fsck_image
mount_image
check "the original may go" cmp -n 2048000 "$mnt/b" "$mnt/c"
rm "$mnt/b" "$mnt/c"
# but for slabs that workgroups keep: on a GPU there are many
check "... and with the last copy all space is free" free_again $(((before + 40000) / 4))
unmount_image
fsck_image
finish
