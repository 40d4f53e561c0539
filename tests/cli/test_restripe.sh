#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs restripe of a set of disks that is not mounted: files go to where their policy says, and nothing else changes.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

truncate -s 64M a b c
exits 0 "copies, and room" "$gpu4fs" mkfs -q --raid 1 --unassigned 60% --checksum xxh3 a b c
exits 0 "RAID 5 for some of it" "$gpu4fs" disk assign --raid 5 --size 20M a b c
mkdir -p tree/d/e
head -c 5000000 /dev/urandom >tree/large
head -c 70000 /dev/urandom >tree/d/small
echo tiny >tree/d/tiny
head -c 9000 /dev/urandom >tree/d/e/other
ln tree/d/small tree/d/e/again
ln -s large tree/link
exits 0 "files" "$gpu4fs" import --image a,b,c tree /tree

exits 2 "without a place" "$gpu4fs" restripe
exits 2 "of two" "$gpu4fs" restripe --image a,b,c --socket s
exits 2 "an option that there is not" "$gpu4fs" restripe --what
exits 0 "all is where it belongs" "$gpu4fs" restripe --image a,b,c --json
same() { # same NAME WANTED FOUND
	[ "$2" = "$3" ] || echo "'$3', not '$2'" >>"$work/.err"
	[ "$2" = "$3" ]
	report $? "$1"
}
same "so nothing moves" "4 0 0 0 False" \
	"$(json_value 'd["files"], d["moved_bytes"], d["left_shared_bytes"], d["left_damaged_bytes"], d["ended_early"]' | tr -d '(),')"
exits 1 "a level that there is not" "$gpu4fs" restripe --raid 6 --image a,b,c /tree
says "... which is told" "disk assign"
exits 1 "what is no level" "$gpu4fs" restripe --raid 7 --image a,b,c /tree/large
exits 1 "a path that there is not" "$gpu4fs" restripe --image a,b,c /no
exits 0 "one file asks for it" "$gpu4fs" attr set --image a,b,c raid=5 /tree/d/small
exits 0 "which is told" "$gpu4fs" restripe -n --json --image a,b,c
same "with what is elsewhere" "4 73728" "$(json_value 'd["files"], d["elsewhere_bytes"]' | tr -d '(),')"
exits 2 "and changes nothing" "$gpu4fs" restripe --dry-run --raid 5 --image a,b,c
exits 0 "and goes there" "$gpu4fs" restripe --json --image a,b,c /tree/d
same "by whichever name" "3 73728" "$(json_value 'd["files"], d["moved_bytes"]' | tr -d '(),')"
"$gpu4fs" serve --socket serve.socket a b c >serve.out 2>&1 &
server=$!
until [[ -s serve.out ]]; do
	kill -0 "$server" 2>/dev/null || break
	sleep 0.05
done
exits 0 "what a server has" "$gpu4fs" restripe --raid 5 --json --socket serve.socket /tree/d/e
same "moves as well" "2 12288" "$(json_value 'd["files"], d["moved_bytes"]' | tr -d '(),')"
kill "$server"
wait "$server"
exits 0 "a tree" "$gpu4fs" restripe --raid 5 --json --image a,b,c /tree
same "what was there stays" "4 5001216" "$(json_value 'd["files"], d["moved_bytes"]' | tr -d '(),')"
exits 0 "again" "$gpu4fs" restripe --json --image a,b,c
same "there is nothing left" 0 "$(json_value 'd["moved_bytes"]')"
exits 0 "directories ask for it as well" "$gpu4fs" attr get --json --image a,b,c /tree/d/e
same "..." 5 "$(json_value 'd["files"][0]["raid"]')"
exits 0 "nothing is wrong" "$gpu4fs" fsck --data a b c
exits 0 "out again" "$gpu4fs" export --image a,b,c /tree out
exits 0 "as it was" diff -r --no-dereference tree out
mkdir big
head -c 22000000 /dev/urandom >big/full
exits 0 "more than the level has" "$gpu4fs" import --image a,b,c big /big
exits 1 "does not fit" "$gpu4fs" restripe --raid 5 --json --image a,b,c /big/full
says "which is told" "no space in chunks of its level"
same "one was left out, and some of it moved" "False 1 True" \
	"$(json_value 'd["ended_early"], d["files_left_out"], d["moved_bytes"] > 1000000' | tr -d '(),')"
exits 0 "back" "$gpu4fs" restripe --raid default --image a,b,c
exits 0 "nothing is wrong after that" "$gpu4fs" fsck --data a b c
exits 0 "out" "$gpu4fs" export --image a,b,c /big big2
exits 0 "it is whole" cmp big/full big2/full
exits 0 "room for others" "$gpu4fs" rm -r --image a,b,c /big
mkdir several
head -c 22000000 /dev/urandom >several/"$(printf 'a\nlarge one')"
head -c 100000 /dev/urandom >several/small
exits 0 "one that fits behind one that does not" "$gpu4fs" import --image a,b,c several /several
exits 0 "both ask for it" "$gpu4fs" attr set --image a,b,c raid=5 "/several/$(printf 'a\nlarge one')" /several/small
chmod 400 a b c
exits 0 "looking changes nothing" "$gpu4fs" restripe -n --json --image a,b,c
same "both are elsewhere" "22106112" "$(json_value 'd["elsewhere_bytes"]')"
chmod 600 a b c
exits 1 "one does not fit" "$gpu4fs" restripe --json --image a,b,c /several
says "it is told by a name that is one line" 'a.x0alarge one: there is no space'
one_sentence "... in one sentence"
same "the other one is moved" "1 1" "$(json_value 'd["files"], d["files_left_out"]' | tr -d '(),')"
exits 0 "all of it" "$gpu4fs" restripe -n --json --image a,b,c /several/small
same "... which is where it belongs" 0 "$(json_value 'd["elsewhere_bytes"]')"
exits 0 "nothing is wrong with either" "$gpu4fs" fsck --data a b c
exits 0 "out they come" "$gpu4fs" export --image a,b,c /several several2
exits 0 "... whole" diff -r several several2
exits 0 "the large one goes" "$gpu4fs" rm -r --image a,b,c /several
finish
