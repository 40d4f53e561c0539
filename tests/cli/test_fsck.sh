#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fsck of a fresh image, and of fresh images with damage. A damaged page has a wrong checksum.
. "$(dirname "$0")/lib.sh"

run "$gpu4fs" mkfs --size 200M good.img
exits 0 "a fresh image" "$gpu4fs" fsck good.img
says "... has no problem" 'no problem found'
exits 0 "-n" "$gpu4fs" fsck -n good.img
exits 0 "-p skips what is clean" "$gpu4fs" fsck -p good.img
says "... and says so" '^good.img: clean$'
exits 0 "-p -f does not" "$gpu4fs" fsck -p -f good.img
says "... and says what it found" 'no problem found'
sum=$(sha256sum <good.img)
run "$gpu4fs" fsck good.img
equals "a check changes nothing" "$sum" "$(sha256sum <good.img)"

run "$gpu4fs" dump --json good.img superblock
root=$(json_value 'd["first_superblock"]["root_address"]')
groups=$(json_value 'd["first_superblock"]["groups_address"]')
alloc=$(json_value 'd["first_superblock"]["alloc_address"]')
journal=$(json_value 'd["first_superblock"]["journal_address"]')
run "$gpu4fs" dump --json good.img inode 1
slab=$(json_value 'd["inode"] // 4096 * 4096')

damaged() { # damaged NAME KIND ADDRESS
	cp good.img bad.img
	poke bad.img $(($3 + 1000)) 5a
	exits 4 "$1" "$gpu4fs" fsck bad.img
	run "$gpu4fs" fsck --json bad.img
	equals "... is of the kind $2" True "$(json_value "'$2' in d['problems_by_kind']")"
	exits 1 "... which --repair puts right" "$gpu4fs" fsck --repair bad.img
	says "... and says what it did" 'repaired: .*[1-9][0-9]* \(things\? put right\|doubtful\|lost\)'
	exits 0 "... for good" "$gpu4fs" fsck bad.img
}
damaged "the first superblock" superblock 4096
cp good.img bad.img
poke bad.img $((4096 + 1000)) 5a
run "$gpu4fs" fsck bad.img
equals "what has problems is not called clean" "" "$(grep -i ': clean' .out)"
run "$gpu4fs" fsck -y bad.img
says "one thing is one thing" 'repaired: 1 thing put right, 0 doubtful, 0 lost'
flock --exclusive good.img "$gpu4fs" fsck -n good.img >.out 2>.err
equals "an image that another program has can be looked at" 0 $?
says "... which is said" 'in use by process [0-9]* (flock)\|in use by process [0-9]* (gpu4fs)'
flock --exclusive good.img "$gpu4fs" fsck -y good.img >.out 2>.err
equals "... and not repaired" 8 $?
one_sentence "... in one sentence"
flock --exclusive good.img "$gpu4fs" info --json good.img >.out 2>.err
equals "info says it, too" True "$(json_value "d['in_use'].startswith('in use by process')")"
run "$gpu4fs" info --json good.img
equals "... and nothing else" False "$(json_value "'in_use' in d")"
damaged "the second superblock" superblock $((200 * 1024 * 1024 - 4096))
damaged "the journal's header" journal "$journal"
damaged "the group descriptors" group_descriptors "$groups"
damaged "an allocation map" allocation_map "$alloc"
damaged "the root block" root "$root"
damaged "the root directory's slab" slab "$slab"

cp good.img bad.img
poke bad.img $((4096 + 1000)) 5a
poke bad.img $((200 * 1024 * 1024 - 4096 + 1000)) 5a
exits 8 "without any superblock there is nothing to check" "$gpu4fs" fsck bad.img
one_sentence "... in one sentence"
says "... which names a way out" 'find-superblock'
exits 16 "-p does not go that way" "$gpu4fs" fsck -p --find-superblock bad.img
exits 4 "one can be made" "$gpu4fs" fsck --find-superblock bad.img
exits 8 "... which a check does not write" "$gpu4fs" fsck bad.img
exits 4 "... nor does --dry-run" "$gpu4fs" fsck --find-superblock --dry-run bad.img
exits 8 "... indeed not" "$gpu4fs" fsck bad.img
exits 1 "... but a repair" "$gpu4fs" fsck --find-superblock --repair bad.img
says "... which tells what is lost" 'lost: the label'
exits 0 "... for good" "$gpu4fs" fsck bad.img
cp good.img bad.img
poke bad.img 4096 "$(printf '%08192d' 0)"
poke bad.img $((200 * 1024 * 1024 - 4096)) "$(printf '%08192d' 0)"
poke bad.img 1080 53ef # of ext2
sum=$(sha256sum <bad.img)
exits 4 "the signature of another file system" "$gpu4fs" fsck --find-superblock bad.img
says "... is named" 'holds ext2'
run "$gpu4fs" fsck --find-superblock --json bad.img
equals "... in JSON too" True "$(json_value "any('holds ext2' in p['text'] for p in d['problems'])")"
exits 4 "... and by --dry-run" "$gpu4fs" fsck --find-superblock --dry-run bad.img
says "... as well" 'holds ext2'
exits 8 "... and is not overwritten" "$gpu4fs" fsck --find-superblock --repair bad.img
one_sentence "... in one sentence"
says "... which names it" 'holds ext2'
says "... and the tool that removes it" 'wipefs'
is_json "... also in JSON" "$gpu4fs" fsck --find-superblock -y --json bad.img
equals "... indeed not" "$sum" "$(sha256sum <bad.img)"
exits 1 "... but with --force" "$gpu4fs" fsck --find-superblock --repair --force bad.img
exits 0 "... for good" "$gpu4fs" fsck bad.img
truncate -s 300M bad.img
poke bad.img $((4096 + 1000)) 5a
exits 1 "the second superblock is found after the device has grown" "$gpu4fs" fsck --repair bad.img
truncate -s 100M bad.img
exits 8 "a device that is too small" "$gpu4fs" fsck bad.img
says "... is told how large it was" "should have $((200 * 1024 * 1024))"

exits 0 "contents of a fresh image" "$gpu4fs" fsck --data good.img
says "... are said to be compared" '0 pages of contents compared, 0 of them damaged'
run "$gpu4fs" fsck --data --json good.img
equals "... in JSON, too" 0 "$(json_value "d['data']['pages_damaged']")"
exits 0 "-p compares what is clean, if it is to" "$gpu4fs" fsck -p --data good.img
says "... and says what it found" 'no problem found'
for jobs in 0 65 -1 x 2x ''; do
	exits 16 "'$jobs' threads" "$gpu4fs" fsck -j "$jobs" good.img
done
run "$gpu4fs" fsck -j 1 good.img
one=$(cat .out)
run "$gpu4fs" fsck --jobs=5 good.img
equals "five threads say what one says" "$one" "$(cat .out)"
finish
