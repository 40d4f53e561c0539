#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs rm: what it refuses, and what is left when it is killed. What it removes: tests/fuse/test_cp.sh, where there are trees, and tests/engine/test_clear.c.
. "$(dirname "$0")/lib.sh"

touch empty
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M disk.img
exits 2 "without a file system" "$gpu4fs" rm /a
one_sentence "... fails with one sentence"
says "... that leads to rm(1) for what is mounted" 'rm(1)'
exits 2 "with two" "$gpu4fs" rm --image disk.img --socket s /a
exits 2 "without a name" "$gpu4fs" rm --image disk.img
exits 2 "with no threads" "$gpu4fs" rm -j 0 --image disk.img /a
one_sentence "... fails with one sentence"
exits 1 "of an image that is none" "$gpu4fs" rm --image empty /a
one_sentence "... fails with one sentence"
exits 1 "of what is not there" "$gpu4fs" rm --image disk.img /a
one_sentence "... fails with one sentence"
says "... that names it" /a
exits 0 "of what is not there, with -f" "$gpu4fs" rm -f --image disk.img /a
for name in / /. // /.. /a/../ . ''; do
	exits 1 "of '$name'" "$gpu4fs" rm -rf --image disk.img "$name"
	one_sentence "... fails with one sentence"
	says "... that says so" 'is not removed'
done
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img

# ---- of what is served, killed in the middle: who removes goes on from step to step, until some of the tree is gone
mkdir -p tree/{100..199}
(cd tree && for d in *; do touch "$d"/{1..200}; done)
mkdir beside
echo stays >beside/stays
exits 0 "mkfs" "$gpu4fs" mkfs -q --force --size 128M disk.img
exits 0 "a tree comes in" "$gpu4fs" import --image disk.img tree /tree
exits 0 "... and something beside it" "$gpu4fs" import --image disk.img beside /beside
"$gpu4fs" serve --socket "$work/socket" disk.img >serve.out 2>&1 &
server=$!
until [ -S "$work/socket" ] || ! kill -0 $server 2>/dev/null; do sleep 0.01; done
left() { "$gpu4fs" find --socket "$work/socket" /tree 2>/dev/null | wc -l; }
all=$(left) some=0 now=$all
equals "all of it is there" 20101 "$all"
"$gpu4fs" rm -r -j 1 --socket "$work/socket" /tree >rm.out 2>&1 &
removing=$!
while [ "$now" -eq "$all" ] && kill -0 $removing 2>/dev/null; do
	kill -CONT $removing
	sleep 0.005
	kill -STOP $removing
	now=$(left)
done
kill -KILL $removing
wait $removing
equals "it was killed" 137 $?
some=$(left)
[ "$some" -gt 0 ] && [ "$some" -lt "$all" ]
report $? "... in the middle: of $all names $some are left"
exits 0 "what is left can be removed" "$gpu4fs" rm -r --socket "$work/socket" /tree
equals "... and is gone" 0 "$(left)"
exits 0 "what stood beside it is there" "$gpu4fs" export --socket "$work/socket" /beside out
equals "... with its contents" stays "$(cat out/stays)"
kill "$server"
wait "$server"
equals "the server ends well" 0 $?
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
finish
