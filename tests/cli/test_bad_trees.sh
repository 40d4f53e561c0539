#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Commands on trees (src/cli/cmd_cp.c, cmd_import.c, cmd_rm.c, cmd_find.c, cmd_du.c) where something is wrong: they are killed in the middle, the device is full
# before the tree is copied, two directories of an image have one leaf.
. "$(dirname "$0")/lib.sh"

used() { # used IMAGE: its pages in use, once the checker has found nothing wrong
	exits 0 "$1 is clean" "$gpu4fs" fsck -f -n "$1"
	pages=$(grep -o '[0-9]*/[0-9]* pages used' .out)
}

# ---- killed in the middle: what is there is a valid tree, which can be removed, and then nothing is left of it
mkdir -p tree/{100..149}
for d in tree/*; do for f in {1..60}; do echo "$d/$f"; done >"$d/list" && touch "$d"/{1..60}; done
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 64M served.img
exits 0 "a tree comes in" "$gpu4fs" import --image served.img tree /tree
used served.img
before=$pages
"$gpu4fs" serve --socket "$work/socket" served.img >serve.out 2>&1 &
server=$!
until [ -S "$work/socket" ] || ! kill -0 $server 2>/dev/null; do sleep 0.01; done
there() { "$gpu4fs" find --socket "$work/socket" "$1" 2>/dev/null | wc -l; }
# killed TREE COMMAND...: stopped again and again until some of the tree is there, and then killed
killed() {
	local tree=$1 now=0
	shift
	"$@" >killed.out 2>&1 &
	local child=$!
	while [ "$now" -lt 100 ] && kill -0 $child 2>/dev/null; do
		kill -CONT $child
		sleep 0.005
		kill -STOP $child
		now=$(there "$tree")
	done
	kill -KILL $child
	wait $child
	equals "$2 is killed" 137 $?
	now=$(there "$tree")
	[ "$now" -gt 0 ] && [ "$now" -lt 3101 ]
	report $? "... in the middle: $now of 3101 names are there"
}
killed /copy "$gpu4fs" cp -a -j 2 --socket "$work/socket" /tree /copy
killed /import "$gpu4fs" import -j 2 --socket "$work/socket" tree /import
for what in copy import; do
	exits 0 "what is there of /$what is exported" "$gpu4fs" export --socket "$work/socket" /$what $what
	(cd $what && find . -name list -size +0 -exec cmp {} ../tree/{} \;) >differs 2>&1
	equals "... what has contents has them" "" "$(grep -v EOF differs)"
	exits 0 "... and is removed" "$gpu4fs" rm -r --socket "$work/socket" /$what
done
exits 0 "the tree is copied again, as a whole" "$gpu4fs" cp -av --socket "$work/socket" /tree /copy
equals "... all of it" "51 directories, 3050 other names" "$(cat .out)"
exits 0 "... and removed" "$gpu4fs" rm -r --socket "$work/socket" /copy
kill "$server"
wait "$server"
equals "the server ends well" 0 $?
used served.img
[ "${pages%%/*}" -le "${before%%/*}" ]
report $? "... and nothing is left of what was killed: $pages, $before before"

# ---- a device that is full before a tree is copied
mkdir -p big/{1..6}
for d in big/*; do for f in {1..5}; do head -c 400000 /dev/urandom >"$d/$f"; done; done
# what is written and not yet stored counts for more than it will take, so that writes are cut short and go on: that is no full device
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 22M full.img
exits 0 "more than half of what there is room for comes in" "$gpu4fs" import -j 1 --image full.img big /big
used full.img
before=$pages
exits 1 "a copy of it" "$gpu4fs" cp -r --reflink=never -j 1 --image full.img /big /copy
says "... says what is wrong" '^gpu4fs cp: /[^ ]*: No space left on device'
equals "... of each name once" "" "$(sort .err | uniq -d)"
exits 0 "what is there" "$gpu4fs" export --image full.img /copy full
equals "... is whole, and not all" "" "$( (cd full && find . -type f -exec cmp {} ../big/{} \;) 2>&1)"
[ "$(find full -type f | wc -l)" -lt 30 ] && [ "$(find full -type f | wc -l)" -gt 5 ]
report $? "... but some ($(find full -type f | wc -l) of 30 files)"
exits 0 "... can be removed" "$gpu4fs" rm -r --image full.img /copy
used full.img
[ "${pages%%/*}" -le "${before%%/*}" ]
report $? "... and nothing is left of it: $pages, $before before"

# ---- two directories with one leaf: their index pages have the same hashes, for their names are the same
cat >share.py <<'PYTHON'
"""The second entry of the index page that Y begins with leads to the second leaf of X: share.py IMAGE X.json Y.json"""
import json, struct, sys

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

x, y = (json.load(open(name))["tree"] for name in sys.argv[2:])
assert len(x) >= 4 and [p["first_hash"] for p in x] == [p["first_hash"] for p in y]
with open(sys.argv[1], "r+b") as image:
    image.seek(y[0]["address"])
    page = bytearray(image.read(4096))
    assert struct.unpack_from("<IIQ", page, 80) == (y[2]["first_hash"], 0, y[2]["address"])
    struct.pack_into("<Q", page, 88, x[2]["address"])
    page[8:12] = bytes(4)
    struct.pack_into("<I", page, 8, crc32c(page))
    image.seek(y[0]["address"])
    image.write(page)
PYTHON
mkdir -p twins/x twins/y
touch twins/{x,y}/"number "{1..300}
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M twins.img
exits 0 "two directories with the same names come in" "$gpu4fs" import -j 1 --image twins.img twins /t
"$gpu4fs" dump --json --dir /t/x twins.img >x.json
"$gpu4fs" dump --json --dir /t/y twins.img >y.json
exits 0 "one gets a leaf of the other" python3 share.py twins.img x.json y.json
# shared STATUS COMMAND...: on a copy of the image; ends, and what it leaves can be mended, and is clean then
shared() {
	local wanted=$1
	shift
	cp twins.img shared.img
	exits "$wanted" "$1 of it" timeout 60 "$gpu4fs" "$1" --image shared.img "${@:2}"
	cp .err said
	[ "$wanted" -eq 0 ] || says "... says what is wrong" "gpu4fs $1: "
	run timeout 60 "$gpu4fs" find --image shared.img /t
	[ "$status" -lt 2 ]
	report $? "... and so does a look at what is left"
	exits 1 "... which is repaired" timeout 60 "$gpu4fs" fsck --repair shared.img
	exits 0 "... and clean" "$gpu4fs" fsck -f -n shared.img
}
shared 0 find /t
shared 0 du /t
shared 0 cp -a /t /copy
shared 1 cp -a /t/y/. /t/x
grep -q 'are the same file' said
report $? "... by name"
shared 0 export /t out
shared 0 rm -r /t/y
shared 0 rm -r /t/x
shared 1 rm -r -j 2 /t
shared 1 rm -r -j 1 /t # of two threads one may come when the other has stopped all changes, and what was found was found behind both
grep -q 'rm: /t: is damaged on the device; .gpu4fs fsck. of' said
report $? "... not that nothing can be written any more"
finish
