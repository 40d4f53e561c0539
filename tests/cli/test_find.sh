#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs find (src/cli/cmd_find.c): what find(1) says of the tree that was imported, of an image and of a server; what it refuses.
. "$(dirname "$0")/lib.sh"

mkdir -p tree/a/b/c tree/many tree/empty
head -c 300000 /dev/zero >tree/a/large.bin
echo small >tree/a/Small.txt
echo text >tree/a/b/more.txt
: >"tree/a/b/with
line end"
mkfifo tree/a/fifo
ln -s large.bin tree/a/link
ln -s a tree/to-a
for i in $(seq 300); do : >"tree/many/file$i"; done
touch -d '10 days ago' tree/a/b/more.txt tree/many/file7
python3 - <<'PYTHON' # a path that is longer than a path may be
import os
os.chdir("tree")
for k in range(200):
    if k % 10 == 3: # which is found again after all below its neighbour
        os.makedirs("other/below")
        open("other/below/file", "w").close()
    os.mkdir("n" * 40)
    os.chdir("n" * 40)
open("deepest", "w").close()
PYTHON
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 256M disk.img
exits 0 "a tree gets in" "$gpu4fs" import --image disk.img tree /top

# host FIND-ARGUMENTS...: what find(1) lists, with zeros at the ends of names
host() {
	(cd tree && find . "$@" -print0) | sed -z 's|^\.|/top|' | sort -z >wanted
}
same() { # same NAME ARGUMENTS...
	local name=$1
	shift
	exits 0 "$name" "$gpu4fs" find -z --image disk.img "$@" /top
	sort -z .out >got
	cmp -s wanted got
	report $? "... as find(1) has it"
}
host
same "all of it"
same "all of it by one thread" -j 1
same "all of it by many" --jobs=16
host -name '*.txt'
same "names like a pattern" --name '*.txt'
host -iname 'sMALL*'
same "... of any letters" -i 'sMALL*'
host -name '*
*'
same "names with line ends" -n '*
*'
for type in f d l p; do
	host -type $type
	same "type $type" -t $type
done
host '(' -type f -o -type l ')'
same "two types" --type f,l
host -type f -size +100000c
same "large files" --size +100000
host -type f -size -5c
same "small files" --size -5
host -type f -size 300000c
same "files of one size" --size=300000
host -type f -mtime +5
same "old files" -t f --changed-before 5d
host -type f -mtime -5
same "new files" -t f --changed-within 1w -n '*'
for depth in 0 1 2 100 101 102; do
	host -maxdepth $depth
	same "$depth names below" --max-depth $depth
done
host -type f -name 'file1*' -size -1c
same "several conditions" -t f -n 'file1*' --size -1

exits 0 "a file" "$gpu4fs" find --image disk.img /top/a/Small.txt
equals "... is listed" /top/a/Small.txt "$(cat .out)"
exits 0 "a link is not followed" "$gpu4fs" find --image disk.img /top/to-a
equals "... but listed" /top/to-a "$(cat .out)"
exits 0 "the root" "$gpu4fs" find --image disk.img --max-depth 1 /
equals "... has what is in it" "/ /top" "$(sort .out | paste -sd ' ')"
is_json "JSON" "$gpu4fs" find --json --image disk.img -n large.bin /top
equals "... has attributes" "['/top/a/large.bin', 'file', 300000, True]" \
	"$(json_value '[d["names"][0]["name"], d["names"][0]["type"], d["names"][0]["size_bytes"], d["complete"]]')"
exits 1 "what is not there" "$gpu4fs" find --image disk.img /none
one_sentence "... fails with one sentence"
exits 1 "one of two is not there" "$gpu4fs" find --image disk.img /none /top/empty
equals "... the other is listed" /top/empty "$(cat .out)"
run "$gpu4fs" find --json --image disk.img /none
equals "... JSON says that it is not all" False "$(json_value 'd["complete"]')"
"$gpu4fs" find --image disk.img / >/dev/full 2>.err
status=$?
: >.out
equals "a full device" 1 $status
one_sentence "... fails with one sentence"

exits 2 "without a file system" "$gpu4fs" find /top
says "... that leads to find(1) for what is mounted" 'find(1)'
exits 2 "without a name" "$gpu4fs" find --image disk.img
for bad in "-t x" "-t ," "--size=+" "--size=ten" "--changed-within=5" "--changed-within=d" "--changed-before=-1d" "--max-depth=-1" "-j 0"; do
	# shellcheck disable=SC2086 # an option and its argument
	exits 2 "'$bad'" "$gpu4fs" find $bad --image disk.img /top
	one_sentence "... fails with one sentence"
done

# a server's, and what may not be read
"$gpu4fs" serve --socket "$work/socket" disk.img >serve.out 2>&1 &
server=$!
until [ -S "$work/socket" ] || ! kill -0 $server 2>/dev/null; do
	sleep 0.1
done
exits 0 "of a server" "$gpu4fs" find -z --socket "$work/socket" /top
host
sort -z .out >got
cmp -s wanted got
report $? "... as find(1) has it"
kill $server
wait $server
finish
