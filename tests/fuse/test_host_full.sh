#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sparse image in a file system that becomes full: writing ends, and what was synced can be read, also after a mount that
# finds no room to replay the journal.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs dd mount timeout

host=$work/host
mkdir "$host"
mount -t tmpfs -o size=24m none "$host" 2>/dev/null || skip "a file system of its own for the image takes root"
image=$host/image
end_host() {
	if is_mounted; then
		"$gpu4fs" umount "$mnt" >/dev/null 2>&1 || umount --lazy "$mnt"
	fi
	umount --lazy "$host"
	cleanup
}
trap end_host EXIT

fill_host() {
	dd if=/dev/zero of="$host/filler" bs=4k oflag=append conv=notrunc 2>/dev/null
	[[ $(stat -f -c %a "$host") -eq 0 ]]
}
synced() { # FILE...: each holds its own name
	local file
	for file; do
		[[ $(cat "$mnt/$file") == "$file" ]] || return 1
	done
}
is_read_only() {
	grep " $mnt fuse.gpu4fs " /proc/self/mounts | grep -q ' ro,'
}
mount_with_words() {
	"$gpu4fs" mount "$image" "$mnt" >"$work/words" 2>&1
}

check "a sparse image" "$gpu4fs" mkfs -q --size 256M "$image"
mount_image
for file in one two; do
	echo "$file" >"$mnt/$file"
done
sync -f "$mnt/one"
check "synced" sync "$mnt/one" "$mnt/two"
check "the host becomes full" fill_host
# each directory takes pages that the image has no blocks for yet
for n in $(seq 2000); do
	mkdir "$mnt/dir$n" 2>/dev/null || break
	sync "$mnt/dir$n" 2>/dev/null || break
done
check_not "writing ends" mkdir "$mnt/late"
until_read_only() {
	until is_read_only; do
		sleep 0.05
	done
}
access_of() {
	"$gpu4fs" info "$mnt" | sed -n 's/^access *//p'
}
check "... and the mount shows it" until_read_only
same "... and so does info" "read-only after an error" "$(access_of)"
refuses "... and it is not remounted for writing" "after an error" "$gpu4fs" mount -o remount,rw "$image" "$mnt"
check "what was synced can be read" synced one two
"$gpu4fs" umount "$mnt" >/dev/null 2>&1

check "it mounts" mount_with_words
check "... and says why it is read-only" grep -q 'mounted read-only: there was no room' "$work/words"
check "... as /proc/mounts does" is_read_only
same "... and info" "read-only" "$(access_of)"
check "... with what was synced" synced one two
check_not "... and nothing can be written" touch "$mnt/three"
unmount_image
check "also with -o ro" "$gpu4fs" mount -o ro "$image" "$mnt"
check "... with what was synced" synced one two
unmount_image
rm "$host/filler"
mount_image
check "with room it can be written again" touch "$mnt/three"
same "... says info" "read-write" "$(access_of)"
check "... and nothing is lost" synced one two
unmount_image
finish
