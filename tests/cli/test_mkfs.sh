#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What mkfs makes and what it refuses.
. "$(dirname "$0")/lib.sh"

exits 0 "--size creates a file" "$gpu4fs" mkfs --size 64M a.img
equals "... of that size" $((64 * 1024 * 1024)) "$(stat -c %s a.img)"
exits 0 "... that fsck likes" "$gpu4fs" fsck a.img
exits 0 "the size may follow the device" "$gpu4fs" mkfs -q b.img 20M
equals "... and is used" $((20 * 1024 * 1024)) "$(stat -c %s b.img)"
equals "-q prints nothing" 0 "$(stat -c %s .out)"
exits 1 "a file that does not exist needs a size" "$gpu4fs" mkfs c.img
says "... as the message says" 'size'
exits 1 "a gpu4fs image is not overwritten" "$gpu4fs" mkfs a.img
says "... and the message says what it holds" 'holds gpu4fs already'
one_sentence "... in one sentence"
exits 0 "--force overwrites it" "$gpu4fs" mkfs --force a.img
exits 1 "an existing file keeps its size" "$gpu4fs" mkfs --size 32M a.img
exits 0 "... unless forced" "$gpu4fs" mkfs --force --size 32M a.img
equals "... then it changes" $((32 * 1024 * 1024)) "$(stat -c %s a.img)"
exits 0 "... and fsck likes it" "$gpu4fs" fsck a.img

truncate -s 4M small.img
exits 1 "a device that is too small" "$gpu4fs" mkfs small.img
one_sentence "... in one sentence"
says "... that tells the least size" 'small.img: .*at least 8 MiB'
exits 0 "the smallest device" "$gpu4fs" mkfs -q --size 8M least.img
exits 0 "... is fine" "$gpu4fs" fsck least.img
exits 1 "a new file that is too small" "$gpu4fs" mkfs --size 1M new-small.img
[ ! -e new-small.img ]
report $? "... is not left behind"
exits 1 "a new file of a few bytes" "$gpu4fs" mkfs new-small.img 100
says "... is told the least size" 'at least 8 MiB'
exits 1 "a new file in a directory that is missing" "$gpu4fs" mkfs missing/new.img 64M
one_sentence "... in one sentence"
says "... that tells so" 'missing/new.img: .*directory does not exist'
if [ "$(id -u)" -ne 0 ]; then
	truncate -s 64M readonly.img
	chmod a-w readonly.img
	exits 1 "a file that can not be written" "$gpu4fs" mkfs readonly.img
fi

exits 0 "label and UUID" "$gpu4fs" mkfs -f -L 'my data' -U 01234567-89AB-cdef-0123-456789abcdef --json a.img
equals "... label" "my data" "$(json_value 'd["label"]')"
equals "... UUID" "01234567-89ab-cdef-0123-456789abcdef" "$(json_value 'd["uuid"]')"
exits 0 "--preallocate" "$gpu4fs" mkfs -q --preallocate --size 32M full.img
[ "$(stat -c %b full.img)" -ge 65536 ]
report $? "... gives an image file all of its blocks"
exits 0 "... and fsck likes it" "$gpu4fs" fsck full.img
exits 1 "--preallocate of what is no file" "$gpu4fs" mkfs -q --preallocate mem:32M
one_sentence "... is refused in one sentence"
exits 1 "--preallocate of more than there is" "$gpu4fs" mkfs -q --preallocate --size 4E huge.img
one_sentence "... is refused in one sentence"
[ ! -e huge.img ]
report $? "... and the file is not left behind"
exits 2 "a label that is too long" "$gpu4fs" mkfs -f -L "$(printf 'x%.0s' $(seq 64))" a.img
exits 2 "a UUID that is none" "$gpu4fs" mkfs -f -U frob a.img
exits 2 "a size that is none" "$gpu4fs" mkfs --size frob x.img
for size in 10X 0 1.5; do
	exits 2 "$size behind the device" "$gpu4fs" mkfs x.img "$size"
	says "... is told to be no size" "'$size' is no size: .*512M"
done
exits 0 "a journal size" "$gpu4fs" mkfs -f -J 2M --json a.img
equals "... is used" $((2 * 1024 * 1024)) "$(json_value 'd["journal_bytes"]')"
exits 1 "a journal that is too large" "$gpu4fs" mkfs -f -J 16M a.img
exits 1 "a journal that is too small" "$gpu4fs" mkfs -f -J 4K a.img
exits 0 "owner and mode of the root" "$gpu4fs" mkfs -q -f --owner 1000:100 --mode 1777 a.img
run "$gpu4fs" dump --json a.img inode 1
equals "... are stored" "1000 100 0o1777" "$(json_value 'd["uid"], d["gid"], oct(d["mode"])' | tr -d "(),'")"
exits 1 "two devices that are not there" "$gpu4fs" mkfs one.img two.img
for algorithm in blake3 xxh3 crc32c none; do
	exits 0 "--checksum=$algorithm" "$gpu4fs" mkfs -q -f --checksum=$algorithm --size 32M sums.img
	run "$gpu4fs" info --json sums.img
	equals "... is in the superblock" "$algorithm" "$(json_value 'd["data_checksums"]')"
	exits 0 "... and fsck is content" "$gpu4fs" fsck -f -n sums.img
done
exits 0 "--dedup" "$gpu4fs" mkfs -q -f --dedup --size 32M sums.img
exits 0 "... is there" "$gpu4fs" info --json sums.img
equals "... goes by BLAKE3" "blake3 on" "$(json_value 'd["data_checksums"] + " " + d["deduplication"]')"
exits 2 "... which takes no value" "$gpu4fs" mkfs -q -f --dedup on sums.img 32M
says "... that would be a device" "takes no value"
equals "... nor makes one" "" "$(ls on 2>/dev/null)"
exits 0 "... or by what it is told" "$gpu4fs" mkfs -q -f --dedup --checksum=xxh3 --size 32M sums.img
exits 2 "... but not by nothing" "$gpu4fs" mkfs -q -f --dedup --checksum=none --size 32M sums.img
exits 0 "--dedup-quota" "$gpu4fs" mkfs -q -f --dedup --dedup-quota 1M --size 32M sums.img
run "$gpu4fs" info --json sums.img
equals "... is in the superblock" 1048576 "$(json_value 'd["deduplication_quota_bytes"]')"
exits 0 "... and fsck is content" "$gpu4fs" fsck -f -n sums.img
exits 2 "... of less than a page" "$gpu4fs" mkfs -q -f --dedup --dedup-quota 1K --size 32M sums.img
says "... which is said" "'1K' is no quota: none and sizes from 4K on are"
exits 2 "a checksum that there is not" "$gpu4fs" mkfs --checksum=md5 --size 32M sums.img

foreign() { # foreign NAME IMAGE: mkfs refuses it and says what it is
	run "$gpu4fs" mkfs "$2"
	equals "refuses $1" 1 "$status"
	says "... and names it" "holds .*$1"
	exits 0 "... unless forced" "$gpu4fs" mkfs -q --force "$2"
}
for type in ext2 ext3 ext4 xfs btrfs; do
	command -v "mkfs.$type" >/dev/null || continue
	rm -f foreign.img
	truncate -s 512M foreign.img
	"mkfs.$type" foreign.img >/dev/null 2>&1 || continue
	foreign "${type/xfs/XFS}" foreign.img
done
if command -v mkswap >/dev/null; then
	rm -f foreign.img
	truncate -s 64M foreign.img
	mkswap foreign.img >/dev/null 2>&1
	foreign "swap space" foreign.img
fi
magic() { # magic NAME OFFSET HEX-BYTES [OFFSET HEX-BYTES]
	rm -f foreign.img
	truncate -s 64M foreign.img
	poke foreign.img "$2" "$3"
	[ $# -lt 5 ] || poke foreign.img "$4" "$5"
	foreign "$1" foreign.img
}
magic LUKS 0 4c554b53babe
magic LVM2 512 4c4142454c4f4e45 536 4c564d3220303031
magic RAID 4096 fc4e2ba9
magic RAID $((64 * 1024 * 1024 - 65536)) fc4e2ba9
magic "ISO 9660" 32769 4344303031
magic NTFS 3 4e54465320202020
magic FAT 82 4641543332
magic ZFS $((128 * 1024)) 0cb1ba0000000000
magic GPT 512 4546492050415254
magic MBR 446 8001010083feffff3f000000 510 55aa
finish
