#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One image is used once, under whatever names it has: hard links, bind mounts, dax:, loop devices and their partitions.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
((UID == 0)) || skip "loop devices need root"
needs losetup addpart mkfs.ext4 python3

other=$work/other
third=$work/third
mkdir "$other" "$third"
loops=() loop="" second=""

attach() { # attach VARIABLE FILE [OPTIONS...]: a loop device over FILE
	local -n into=$1
	local file=$2
	shift 2
	into=$(losetup --find --show "$@" "$file" 2>"$work/out") || skip "no loop device: $(<"$work/out")"
	loops+=("$into")
}

detach() {
	losetup --detach "$1"
	local kept=() loop
	for loop in "${loops[@]}"; do
		[[ $loop == "$1" ]] || kept+=("$loop")
	done
	loops=("${kept[@]}")
}

cleanup_all() {
	cd /
	for dir in "$third" "$other" "$mnt"; do
		while mountpoint -q "$dir"; do
			"$gpu4fs" umount "$dir" >/dev/null 2>&1 || umount --lazy "$dir" || break
		done
	done
	for loop in "${loops[@]}"; do
		losetup --detach "$loop"
	done
	cleanup
}
trap cleanup_all EXIT

# Nothing opens DEVICE for writing while the same bytes are in use under another name.
all_refuse() { # all_refuse TEXT DEVICE
	local options
	for options in -w -r; do
		refuses "$1: mount $options" "in use\|mounted on\|attached" "$gpu4fs" mount "$options" "$2" "$other"
		! mountpoint -q "$other" || "$gpu4fs" umount "$other"
	done
	refuses "$1: mkfs --force" "in use\|mounted on\|attached" "$gpu4fs" mkfs --force "$2"
	refuses "$1: fsck -y" "in use\|mounted on\|attached" "$gpu4fs" fsck -f -y "$2"
}

can_hold() { # can_hold DEVICE: it can be opened as mount(2) of any file system would
	python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$1"
}

make_image 64M

mount_image
echo kept >"$mnt/file"
attach loop "$image"
all_refuse "a loop device over a mounted image" "$loop"
attach second "$loop"
all_refuse "a loop device over that" "$second"
detach "$second"
detach "$loop"
ln "$image" "$work/hard"
ln -s "$image" "$work/soft"
all_refuse "a hard link" "$work/hard"
all_refuse "a symbolic link" "$work/soft"
all_refuse "dax:" "dax:$image"
mkdir "$work/bound"
mount --bind "$work" "$work/bound"
all_refuse "another mount of its directory" "$work/bound/image"
umount "$work/bound"
unmount_image

attach loop "$image"
attach second "$image"
check "a loop device is mounted" "$gpu4fs" mount "$loop" "$mnt"
all_refuse "the file under a mounted loop device" "$image"
all_refuse "... by its hard link" "$work/hard"
all_refuse "... by dax:" "dax:$image"
all_refuse "another loop device over it" "$second"
check_not "... which no other file system gets either" can_hold "$second"
check "its file is there" grep -q kept "$mnt/file"
unmount_image
check "... and is free when it is unmounted" can_hold "$second"
detach "$second"

mount_image
check_not "an idle loop device over a mounted image is not for others" can_hold "$loop"
unmount_image "an image with an idle loop device: unmount"
check "... until it is unmounted" can_hold "$loop"

rm "$work/hard"
mv "$image" "$work/gone"
exec 4<"$work/gone"
rm "$work/gone"
check "the loop device of a file without a name is mounted" "$gpu4fs" mount "$loop" "$mnt"
all_refuse "... and found by the file" /proc/self/fd/4
unmount_image
exec 4<&-
detach "$loop"
rm "$work/soft"

make_image 64M
"$gpu4fs" serve --socket "$work/socket" "$image" >"$work/served" 2>&1 &
server=$!
until grep -q serving "$work/served" || ! kill -0 "$server" 2>/dev/null; do
	sleep 0.05
done
ln "$image" "$work/linked"
refuses "a served image: mkfs with another size" "in use" "$gpu4fs" mkfs --force --size 32M "$work/linked"
same "... which it does not get" $((64 * 1024 * 1024)) "$(stat -c %s "$image")"
attach loop "$image"
all_refuse "a loop device over a served image" "$loop"
kill "$server"
wait "$server"
detach "$loop"

# A disk with two partitions: mounted side by side, but not together with the whole.
truncate -s 160M "$work/disk"
attach loop "$work/disk" --partscan # with it, detaching takes the partitions away
addpart "$loop" 1 2048 131072
addpart "$loop" 2 133120 131072
"$gpu4fs" mkfs -q "${loop}p1"
"$gpu4fs" mkfs -q "${loop}p2"
check "a partition is mounted" "$gpu4fs" mount "${loop}p1" "$mnt"
all_refuse "the whole of its disk" "$loop"
all_refuse "the file under that" "$work/disk"
attach second "$work/disk" --offset $((2048 * 512)) --sizelimit $((131072 * 512))
all_refuse "a loop device over the same part" "$second"
detach "$second"
check "its neighbour is mounted, too" "$gpu4fs" mount "${loop}p2" "$other"
check "... and unmounted" "$gpu4fs" umount "$other"
attach second "$work/disk" --offset $((133120 * 512)) --sizelimit $((131072 * 512))
check "a loop device over the neighbour is mounted, too" "$gpu4fs" mount "$second" "$other"
refuses "... and keeps the neighbour" "in use\|mounted on" "$gpu4fs" mount "${loop}p2" "$third"
check "... and unmounted" "$gpu4fs" umount "$other"
detach "$second"
unmount_image

mkfs.ext4 -q -F "${loop}p1"
mount "${loop}p1" "$mnt"
all_refuse "a file with a partition that another file system has mounted" "$work/disk"
umount "$mnt"
detach "$loop"
finish
