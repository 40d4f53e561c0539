#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Wrong usage and devices that can not be used: one clear sentence and the right exit status.
. "$(dirname "$0")/lib.sh"

for command in mkfs info dump attr; do
	exits 2 "$command without a device" "$gpu4fs" "$command"
	one_sentence "... in one sentence"
	exits 2 "$command with an unknown option" "$gpu4fs" "$command" --frobnicate x
	one_sentence "... in one sentence"
done
for command in "info" "status" "resize" "scrub status" "tune -L label" "disk pause"; do
	# shellcheck disable=SC2086 # words of a command
	exits 1 "$command of a directory without a mount" "$gpu4fs" $command "$work"
	says "... is told so" "no gpu4fs file system is mounted there"
	one_sentence "... in one sentence"
done
exits 1 "mount without a device" "$gpu4fs" mount
exits 1 "mount with an unknown option" "$gpu4fs" mount -o frobnicate disk.img /mnt
says "... names it" frobnicate
exits 32 "mount -o remount of what is not mounted" "$gpu4fs" mount -o remount,ro disk.img "$work"
says "... says so" 'is not a mount of gpu4fs'
exits 1 "umount without a directory" "$gpu4fs" umount
exits 32 "mount on a directory that is missing" "$gpu4fs" mount disk.img "$work/missing"
one_sentence "... in one sentence"
exits 32 "mount on a file" "$gpu4fs" mount disk.img /dev/null
exits 32 "umount of a directory that is missing" "$gpu4fs" umount "$work/missing"
exits 32 "umount of a directory without a mount" "$gpu4fs" umount "$work"
one_sentence "... in one sentence"
exits 32 "umount of what is not gpu4fs" "$gpu4fs" umount /proc
says "... names its type" 'type proc'
exits 16 "fsck without a device" "$gpu4fs" fsck
exits 16 "fsck with an unknown option" "$gpu4fs" fsck --frobnicate disk.img
exits 16 "fsck with -n and -y" "$gpu4fs" fsck -n -y disk.img
exits 2 "dump with an unknown structure" "$gpu4fs" dump disk.img frobs
exits 2 "dump inode without a number" "$gpu4fs" dump disk.img inode

for device in missing.img /dev/null "$work" mem:frob; do
	exits 1 "info of $device" "$gpu4fs" info "$device"
	one_sentence "... in one sentence"
	exits 8 "fsck of $device" "$gpu4fs" fsck "$device"
	one_sentence "... in one sentence"
done

truncate -s 64M empty.img
exits 1 "info of an empty file" "$gpu4fs" info empty.img
says "... says that there is no file system" 'no gpu4fs superblock'
exits 32 "mount of an empty file" "$gpu4fs" mount empty.img "$work"
one_sentence "... in one sentence"
says "... that names the file" 'empty.img: .*no gpu4fs superblock'
exits 8 "fsck of an empty file" "$gpu4fs" fsck empty.img
exits 1 "df of an empty file" "$gpu4fs" df empty.img
exits 1 "dump of an empty file" "$gpu4fs" dump empty.img
truncate -s 5000 tiny.img
exits 1 "info of a tiny file" "$gpu4fs" info tiny.img
one_sentence "... in one sentence"
exits 1 "df of a directory elsewhere" "$gpu4fs" df /proc

exits 0 "an image" "$gpu4fs" mkfs -q --size 64M good.img
# more memory than any machine has: were it not refused, the mount would take what there is
exits 32 "a cache larger than the memory, of a mount" "$gpu4fs" mount -o cache=1E good.img "$work"
one_sentence "... is refused in one sentence"
says "... that says so" "1 EiB is more than this machine's memory"
exits 1 "... of serve" "$gpu4fs" serve --socket s -o cache=1E good.img
says "... says so, too" "1 EiB is more than this machine's memory"
exits 32 "a second tier larger than that, of a mount" "$gpu4fs" mount -o tier=1E,engine=cuda good.img "$work"
says "... says so, too" "1 EiB is more than this machine's memory"
most=$(awk '/^MemTotal:/ {print int($2 / 4 * 3)}' /proc/meminfo)
exits 32 "a cache and a second tier, each of three quarters of it" "$gpu4fs" mount -o "cache=${most}K,tier=${most}K" good.img "$work"
says "... says so, too" "a sum of .* is more than this machine's memory"
exits 1 "... of bench" "$gpu4fs" bench --cache 1E good.img
says "... says so, too" "1 EiB is more than this machine's memory"
exits 1 "an inode that is not there" "$gpu4fs" dump good.img inode /missing
exits 1 "an inode number that can not be" "$gpu4fs" dump good.img inode 12345
exits 1 "a group that is not there" "$gpu4fs" dump good.img group 99
exits 1 "a block beyond the end" "$gpu4fs" dump good.img block 0x7fffffffffff

cp good.img short.img
truncate -s 32M short.img
exits 1 "info of a truncated image" "$gpu4fs" info short.img
says "... says so" 'smaller than the file system'
cp good.img newer.img
poke newer.img 4136 02000000
poke newer.img $((64 * 1024 * 1024 - 4096 + 40)) 02000000
exits 1 "info of a newer image" "$gpu4fs" info newer.img
says "... says so" 'newer gpu4fs'
if command -v mkfs.ext4 >/dev/null; then
	truncate -s 64M ext4.img
	mkfs.ext4 -q ext4.img
	exits 1 "info of an ext4 image" "$gpu4fs" info ext4.img
	says "... names what it is" 'holds ext4'
	exits 32 "mount of an ext4 image" "$gpu4fs" mount ext4.img "$work"
	says "... names what it is, too" 'ext4.img holds ext4, not gpu4fs'
fi
if [ -e /dev/full ]; then
	"$gpu4fs" info good.img >/dev/full 2>.err
	equals "output that can not be written is an error" 1 $?
fi
finish
