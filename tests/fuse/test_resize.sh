#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs resize: a mount grows while it is written to, an image grows and shrinks, and what is refused is told.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
! on_gpu || skip "with engine=cuda a mount does not grow while it is in use"

size_of_mount() {
	"$gpu4fs" df --json "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["filesystems"][0]["size_bytes"] >> 20)'
}
between() { # between LOW HIGH NUMBER
	(($1 <= $3 && $3 <= $2)) || { echo "$3" && false; }
}

make_image 32M
mount_image
head -c 20M /dev/urandom >"$mnt/first"
sync "$mnt/first"
sum=$(sha256sum <"$mnt/first")
check "df knows how small it is" between 24 32 "$(size_of_mount)"
check "it grows while it is mounted" "$gpu4fs" resize "$mnt" 200M
same "it says how large it is now" 1 "$(grep -c " 209715200 bytes" "$work/out")"
same "so does the file" $((200 << 20)) "$(stat -c %s "$image")"
check "df knows" between 190 200 "$(size_of_mount)"
check "there is room now" dd if=/dev/urandom of="$mnt/second" bs=1M count=100 conv=fsync status=none
second=$(sha256sum <"$mnt/second")
refuses "a mount does not shrink" "unmounted" "$gpu4fs" resize "$mnt" 100M
refuses "nor grow without end" "largest possible" "$gpu4fs" resize "$mnt" 100T
same "the file is as it was" $((200 << 20)) "$(stat -c %s "$image")"
refuses "not by its image's name" "is mounted on" "$gpu4fs" resize "$image" 300M
if ((UID == 0)) && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	refuses "not by everybody" "not permitted" setpriv --reuid=nobody --clear-groups "$gpu4fs" resize "$mnt" 300M
fi
unmount_image
fsck_image "fsck finds nothing after it has grown"

refuses "it does not shrink below what is in use" "smallest possible size, for something in use ends there, and nothing is moved" "$gpu4fs" resize "$image" 32M
least=$(sed -n 's/.* \([0-9]*\) bytes, is the smallest.*/\1/p' "$work/out")
fsck_image "a refusal changes nothing"
check "it shrinks to what it said" "$gpu4fs" resize "$image" "$least"
same "so does the file" "$least" "$(stat -c %s "$image")"
fsck_image "fsck finds nothing after it has shrunk"
check "it grows while it is not mounted" "$gpu4fs" resize "$image" 300M
fsck_image "fsck finds nothing after that"
mount_image
same "what was there is whole" "$sum" "$(sha256sum <"$mnt/first")"
same "all of it" "$second" "$(sha256sum <"$mnt/second")"
check "and there is room" dd if=/dev/zero of="$mnt/third" bs=1M count=150 conv=fsync status=none
unmount_image
fsck_image "fsck finds nothing at the end"

dd if=/dev/zero of="$image" bs=4096 seek=1 count=1 conv=notrunc status=none
check "its second superblock is where it belongs" "$gpu4fs" info "$image"
"$gpu4fs" fsck -y "$image" >"$work/out" 2>&1
fsck_image "fsck finds nothing after that"
truncate -s 400M "$image"
check "without a size it takes the device's" "$gpu4fs" resize "$image"
fsck_image "fsck finds nothing after that, either"
dd if=/dev/zero of="$image" bs=4096 seek=1 count=1 conv=notrunc status=none
dd if=/dev/zero of="$image" bs=4096 seek=$((400 * 256 - 1)) count=1 conv=notrunc status=none
"$gpu4fs" fsck -y --find-superblock "$image" >"$work/out" 2>&1
fsck_image "an image that was resized is found without superblocks"
mount_image
same "with what was in it" "$sum" "$(sha256sum <"$mnt/first")"
unmount_image

# a controller has no path: its size is known to the server alone
truncate -s 500M "$image"
file=$image image=emu:$image
mount_image
check "without a size a mount takes all of its controller" "$gpu4fs" resize "$mnt"
check "df knows" between 480 500 "$(size_of_mount)"
refuses "which has no more" "not supported" "$gpu4fs" resize "$mnt" 600M
same "what was there is whole" "$sum" "$(sha256sum <"$mnt/first")"
unmount_image
image=$file
fsck_image "fsck finds nothing after that"
finish
