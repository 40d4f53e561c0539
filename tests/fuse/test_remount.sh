#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tree survives unmounting and mounting again, read-only too; umount returns only when the image may be opened.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs tar sha256sum python3
attribute_programs

make_image
mount_image
tar -C /usr/include -cf - linux 2>/dev/null | tar -C "$mnt" -xf -
head -c 20000000 /dev/urandom >"$mnt/random"
setfattr -n user.name -v value "$mnt/random"
ln "$mnt/random" "$mnt/second"
touch -d '2010-10-10 10:10:10.101010101 UTC' "$mnt/linux"
sums() {
	(cd "$mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}
facts() {
	(cd "$mnt" && find . ! -name lost+found -printf '%p %y %m %U %G %n %s %T@ %l\n' | sort)
}
sums >"$work/sums1"
facts >"$work/facts1"

for round in 1 2 3; do
	# Without a pause: a daemon that still wrote would make the next mount fail or find a dirty image.
	unmount_image "round $round: unmount"
	fsck_image "round $round: fsck right after umount finds nothing"
	mount_image
	sums >"$work/sums2"
	facts >"$work/facts2"
	check "round $round: contents are equal" cmp "$work/sums1" "$work/sums2"
	check "round $round: attributes are equal" diff "$work/facts1" "$work/facts2"
done
same "an extended attribute is there" value "$(getfattr --only-values -n user.name "$mnt/random" 2>/dev/null)"
if ((UID == 0)); then
	umount "$mnt"
	check "a mount right after umount(8) waits for the old server" "$gpu4fs" mount "$image" "$mnt"
	sums >"$work/sums2"
	check "contents are equal" cmp "$work/sums1" "$work/sums2"
fi
refuses "the image is not mounted twice" "is mounted on $mnt" "$gpu4fs" mount "$image" "$work"
refuses "nor measured" "is mounted on $mnt" "$gpu4fs" bench --size 1M "$image"
unmount_image

mount_image ro
sums >"$work/sums2"
check "read-only: contents are equal" cmp "$work/sums1" "$work/sums2"
refuses "read-only: a write is refused" "read-only" touch "$mnt/new"
refuses "read-only: a removal is refused" "read-only" rm -f "$mnt/random"
unmount_image "read-only: unmount"

if ((UID == 0)); then
	mount_image ro
	refuses "a read-only mount is not remounted for writing" "was mounted read-only" \
		"$gpu4fs" mount -o remount,rw "$image" "$mnt"
	refuses "it stays read-only" "read-only" touch "$mnt/new"
	unmount_image
	mount_image
	exec 5>"$mnt/open"
	refuses "remount,ro needs that nobody writes" "open for writing" "$gpu4fs" mount -o remount,ro "$image" "$mnt"
	echo kept >&5
	exec 5>&-
	check "remount,ro" "$gpu4fs" mount -o remount,ro "$image" "$mnt"
	refuses "a write is refused" "read-only" touch "$mnt/new"
	same "reading works" kept "$(cat "$mnt/open")"
	check "remount,rw with what mount(8) repeats" "$gpu4fs" mount \
		-o "remount,rw,relatime,user_id=0,group_id=0,default_permissions,allow_other" "$image" "$mnt"
	check "writing works again" rm "$mnt/open"
	check "remount,noexec" "$gpu4fs" mount -o remount,noexec "$image" "$mnt"
	same "it is shown" 1 "$(findmnt -n -o OPTIONS "$mnt" | tr , '\n' | grep -cx noexec)"
	unmount_image
fi

mount_image noatime,noexec,nosuid,nodev,cache=64M,commit=1,threads=2
same "mount options are shown" 4 \
	"$(findmnt -n -o OPTIONS "$mnt" | tr , '\n' | grep -cxE 'noatime|noexec|nosuid|nodev')"
sums >"$work/sums2"
check "with a small cache and two threads: contents are equal" cmp "$work/sums1" "$work/sums2"
unmount_image
mount_image nowriteback,readdirplus=no
head -c 5000000 /dev/urandom >"$work/data"
check "without the write-back cache: write" cp "$work/data" "$mnt/data"
check "without the write-back cache: read" cmp "$work/data" "$mnt/data"
unmount_image
fsck_image
finish
