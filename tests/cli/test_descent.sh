#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What walks trees (src/cli/descent.c, for cp -r, export and find): trees deeper than the stack and the descriptors that there are, by
# any number of threads, interrupted, damaged; what a copy replaces.
. "$(dirname "$0")/lib.sh"

LEVELS=12000

# a path of that many directories, which import makes; 60 levels hold a file as well
echo text >file
deep=$(printf '/d%.0s' $(seq $LEVELS))
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 256M disk.img
exits 0 "a file gets below $LEVELS directories" "$gpu4fs" import --image disk.img file "/deep$deep"
for level in 1 63 64 65 1000; do
	exits 0 "... and one below $level" "$gpu4fs" import --image disk.img file "/deep${deep:0:$((2 * level))}"
done
wanted=$((LEVELS + 1))
# shellcheck disable=SC2317 # exits calls it
few() { # few COMMAND...: with few descriptors and a small stack
	(ulimit -Sn 150 && ulimit -Hn 150 && ulimit -s 512 && exec "$@")
}
exits 0 "cp -a of it" few "$gpu4fs" cp -av -j 8 --image disk.img /deep /copy
equals "... copies all of it" "$wanted directories, 6 other names" "$(cat .out)"
exits 0 "export of the copy" few "$gpu4fs" export -v -j 8 --image disk.img /copy out
equals "... copies all of it" "$wanted directories, 6 other names, 30 bytes" "$(cat .out)"
equals "... to one path" "$wanted 6" "$(find out -type d | wc -l) $(find out -type f | wc -l)"
exits 0 "find in it" few "$gpu4fs" find -j 2 --image disk.img -n file /deep
equals "... finds all of them, with their whole paths" "6 $((2 * LEVELS + 10)) /deep$deep/file" \
	"$(wc -l <.out) $(awk '{ print length }' .out | sort -n | tail -n 1) $(grep -xF "/deep$deep/file" .out)"
exits 0 "rm -r of it" "$gpu4fs" rm -rv --image disk.img /deep /copy
equals "... removes all of it" "$((2 * (wanted + 6))) names removed" "$(cat .out)"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img

# the walk is ahead of those who copy, with a directory open for each name that waits
mkdir wide
for k in $(seq 300); do mkdir "wide/$k" && echo "$k" >"wide/$k/file"; done
truncate -s 64M wide/large && head -c 24M /dev/urandom >wide/0
exits 0 "a wide tree gets in" "$gpu4fs" import --image disk.img wide /wide
exits 0 "it is exported with few descriptors" few "$gpu4fs" export -v -j 2 --image disk.img /wide wide.back
equals "... and all of it is" "301 directories, 302 other names" "$(cut -d, -f1,2 .out)"
equals "... as it was" "" "$(diff -r wide wide.back)"

# files with several names stay such below paths that are longer than one may be
cat >far.py <<'PYTHON'
"""One file with three names: far.py FOLDER"""
import os, sys

os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
for k in range(60):
    os.mkdir("a name that is as long as it takes" * 6)
    os.chdir("a name that is as long as it takes" * 6)
open("one", "w").write("text")
os.link("one", "two")
os.link("one", "../three")
PYTHON
exits 0 "a file with names far below" python3 far.py far
exits 0 "... gets in" "$gpu4fs" import -j 1 --image disk.img far /far
exits 0 "... is copied" "$gpu4fs" cp -a --image disk.img /far /far.copy
for tree in far far.copy; do
	exits 0 "... is exported" "$gpu4fs" export --image disk.img "/$tree" "$tree.back"
	equals "... has its names, and is one" "3 1" \
		"$(find "$tree.back" -type f -links 3 | wc -l) $(find "$tree.back" -type f -printf '%i\n' | sort -u | wc -l)"
done

# a tree of all kinds of files is the same whoever copies it
mkdir -p tree/sub/empty
for k in $(seq 40); do
	mkdir "tree/dir$k"
	for n in $(seq 30); do echo "$k $n" >"tree/dir$k/file$n"; done
	ln -s "file$k" "tree/dir$k/link"
	ln "tree/dir$k/file1" "tree/sub/another$k"
	ln "tree/dir$k/file2" "tree/dir$k/its other"
done
mkfifo tree/sub/pipe
chmod 500 tree/sub/empty
touch -d '2001-02-03 04:05:06.789' tree/dir*/file* tree/dir* tree/sub
all() { # all FOLDER: contents, modes, owners, times, links
	tar --sort=name --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime -C "$1" -cf - . | sha256sum
}
exits 0 "a tree gets in" "$gpu4fs" import --image disk.img tree /tree
for jobs in 1 16; do
	exits 0 "it is exported by $jobs threads" "$gpu4fs" export -v -j $jobs --image disk.img /tree "tree$jobs"
	equals "... and is counted" "43 directories, 1321 other names" "$(cut -d, -f1,2 .out)"
	equals "... as it was" "$(all tree)" "$(all "tree$jobs")"
	exits 0 "it is copied by $jobs threads" "$gpu4fs" cp -av -j $jobs --image disk.img /tree "/again$jobs"
	equals "... and is counted" "43 directories, 1321 other names" "$(cat .out)"
	exits 0 "... exported" "$gpu4fs" export --image disk.img "/again$jobs" "again$jobs"
	equals "... as it was" "$(all tree)" "$(all "again$jobs")"
done
exits 0 "it is copied onto its copy" "$gpu4fs" cp -a --image disk.img /tree/. /again1
exits 0 "... exported" "$gpu4fs" export --image disk.img /again1 again
equals "... as it was" "$(all tree)" "$(all again)"
exits 2 "cp with no threads" "$gpu4fs" cp -j 0 --image disk.img /tree /x
one_sentence "... fails with one sentence"
exits 2 "export with no threads" "$gpu4fs" export -j 0 --image disk.img /tree x
one_sentence "... fails with one sentence"

# a name that makes room keeps what it has until the copy is there
mkdir old new full
echo old >old/one && ln old/one old/other && ln -s one old/link && ln -s one old/to-link
echo new >new/one && echo new >new/link && ln -s other new/other && ln new/one new/to-link
head -c 12M /dev/urandom >full/large
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 22M small.img
exits 0 "old names get in" "$gpu4fs" import --image small.img old /old
exits 0 "new ones as well" "$gpu4fs" import --image small.img new /new
exits 0 "... and a large file" "$gpu4fs" import --image small.img full /full
exits 1 "a copy that does not fit over one of two names" "$gpu4fs" cp -a --reflink=never --image small.img /full/large /old/one
says "... says so" 'No space left'
exits 1 "... over a link" "$gpu4fs" cp -a --reflink=never --image small.img /full/large /old/link
says "... says so" 'No space left'
exits 0 "what was there" "$gpu4fs" export --image small.img /old old.back
touch -r old old.back # the directory was written to
equals "... is there, and nothing else" "$(all old)" "$(all old.back)"
exits 0 "new names over old ones" "$gpu4fs" cp -a --image small.img /new/. /old
exits 0 "... exported" "$gpu4fs" export --image small.img /old new.back
equals "... are the new ones, and nothing else" "$(all new)" "$(all new.back)"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n small.img

# an image that says that a directory is below itself
cat >loop.py <<'PYTHON'
"""The first name in the leaf at an address leads to another inode: loop.py IMAGE ADDRESS INODE"""
import struct, sys

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

with open(sys.argv[1], "r+b") as image:
    image.seek(int(sys.argv[2]))
    page = bytearray(image.read(4096))
    struct.pack_into("<I", page, 8, struct.unpack_from("<I", page, 8)[0])
    struct.pack_into("<Q", page, 64, int(sys.argv[3]))
    page[8:12] = bytes(4)
    struct.pack_into("<I", page, 8, crc32c(page))
    image.seek(int(sys.argv[2]))
    image.write(page)
PYTHON
mkdir -p loop/a/b loop/a/b/c && echo text >loop/file
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M loop.img
exits 0 "directories get in" "$gpu4fs" import --image loop.img loop /loop
run "$gpu4fs" find --json --max-depth 0 --image loop.img /loop
inode=$(json_value 'd["names"][0]["inode"]')
run "$gpu4fs" dump --json --dir /loop/a/b loop.img
exits 0 "one of them becomes the first" python3 loop.py loop.img "$(json_value 'd["tree"][0]["address"]')" "$inode"
exits 1 "export of it ends" timeout 60 "$gpu4fs" export -v --image loop.img /loop loop.back
says "... says what is wrong" 'a/b: is damaged on the device; .gpu4fs fsck. of'
equals "... and copies the rest" "3 1" "$(find loop.back -type d | wc -l) $(find loop.back -type f | wc -l)"
exits 1 "cp -a of it ends" timeout 60 "$gpu4fs" cp -a --image loop.img /loop /copy
says "... says what is wrong" '/loop/a/b: is damaged on the device; .gpu4fs fsck. of'
exits 1 "find in it ends" timeout 60 "$gpu4fs" find --image loop.img /loop
says "... says what is wrong" '/loop/a/b: is damaged on the device; .gpu4fs fsck. of'
equals "... and finds the rest, once" "/loop /loop/a /loop/a/b /loop/file" "$(sort .out | paste -sd ' ')"
exits 1 "du of it ends" timeout 60 "$gpu4fs" du --json --image loop.img /loop
says "... says what is wrong" '1 directory below it could not be read'
equals "... and sums up the rest, once" "3 1" "$(json_value 'str(d["names"][0]["directories"]) + " " + str(d["names"][0]["files"])')"
exits 1 "rm -r of it ends" timeout 60 "$gpu4fs" rm -r -j 2 --image loop.img /loop
says "... says what is wrong" '/loop: is damaged on the device; .gpu4fs fsck. of'

# A directory of which all pages are damaged: what is wrong is said once, and what to do, not for each name that comes too late.
mkdir rotten && (cd rotten && seq -f 'a name that takes some room of a page, %.0f' 300 | xargs -d '\n' touch)
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M rotten.img
exits 0 "names get in" "$gpu4fs" import --image rotten.img rotten /rotten
cp rotten.img whole.img
run "$gpu4fs" dump --json --dir /rotten rotten.img
for address in $(json_value '" ".join(str(page["address"]) for page in d["tree"] if page["level"] == 0)'); do
	printf xxxx | dd of=rotten.img bs=1 seek=$((address + 2000)) conv=notrunc status=none
done
cp rotten.img again.img
exits 1 "import into it" "$gpu4fs" import -j 1 --image again.img rotten /rotten
says "... says what is wrong" "^gpu4fs import: /rotten/a name.*: is damaged on the device; 'gpu4fs fsck' of"
equals "... and not of each name" True "$(python3 -c "print($(wc -l <.err) <= 3)")"
says "... and that not all is there" "^gpu4fs import: again.img: ended in an error, .* 'gpu4fs fsck' says"
for words in "dedup run --image rotten.img" "rm -r -j 1 --image rotten.img /rotten" "cp -r -j 1 --image rotten.img /rotten /copy"; do
	cp rotten.img again.img
	# shellcheck disable=SC2086 # they are words
	exits 1 "${words%% *} of it" "$gpu4fs" ${words/rotten.img/again.img}
	says "... says what to do" "/rotten: is damaged on the device; 'gpu4fs fsck' of"
done
for at in 4096 $((32 * 1024 * 1024 - 4096)); do
	printf xxxx | dd of=whole.img bs=1 seek=$((at + 100)) conv=notrunc status=none
done
for words in "find --image whole.img /" "info whole.img" "df whole.img" "status whole.img" "dump whole.img" "tune -L x whole.img" "scrub start whole.img"; do
	# shellcheck disable=SC2086 # they are words
	exits 1 "${words%% *} of what has no good superblock" "$gpu4fs" $words
	says "... says what to do" "; 'gpu4fs fsck' says what can be repaired$"
	one_sentence "... in one sentence"
done
equals "... df without a table" "" "$("$gpu4fs" df whole.img 2>/dev/null)"

# interrupted
cat >interrupt.py <<'PYTHON'
"""A command that is interrupted at a place: interrupt.py output|FOLDER COMMAND...

output: when its first line is read, for which it has to have more than a pipe takes; else when a name comes into the folder, which may be
too late. What it says goes to this program's output.
"""
import ctypes, os, signal, subprocess, sys

where, command = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
watch = None
if where != "output":
    watch = libc.inotify_init1(os.O_CLOEXEC)
    assert watch >= 0 and libc.inotify_add_watch(watch, where.encode(), 0x100) > 0  # IN_CREATE
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
if watch is None:
    first = process.stdout.readline()
else:
    first = b""
    os.read(watch, 4096)
process.send_signal(signal.SIGINT)
sys.stdout.buffer.write(first + process.stdout.read())
sys.exit(process.wait())
PYTHON
mkdir many
(cd many && seq -f 'a name that is as long as names may be, or nearly, %.0f' 4000 | xargs -d '\n' touch)
exits 0 "many names get in" "$gpu4fs" import --image disk.img many /many
exits 1 "find, interrupted" python3 interrupt.py output "$gpu4fs" find -j 2 --image disk.img /many
says "... says so" interrupted
equals "... and has not all" True "$(python3 -c "print($(wc -l <.out) < 4000)")"
exits 1 "find as JSON, interrupted" python3 interrupt.py output bash -c 'exec "$@" 2>/dev/null' - "$gpu4fs" find --json --image disk.img /many
equals "... is whole, and says so" False "$(json_value 'd["complete"]')"
mkdir interrupted # whether the interruption is in time or not
run python3 interrupt.py interrupted "$gpu4fs" export -v --image disk.img /many interrupted
equals "export, interrupted" True "$(python3 -c "print(($status, $(grep -c "export: interrupted" .out)) in ((1, 1), (0, 0)))")"
equals "... and counts what is done" True "$(python3 -c "print($status == 0 or $(grep -c '^0 directories, ' .out) == 1)")"
equals "... has whole files" "" "$(find interrupted -type f ! -name 'a name that*')"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
finish
