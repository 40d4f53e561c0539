#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs trace: what a command does with files is recorded, and replayed through caches.
. "$(dirname "$0")/lib.sh"

mkdir data
head -c 20000 /dev/zero >data/a

if ! "$gpu4fs" trace record -o none.trace true >.out 2>.err && grep -q 'not permitted' .err; then
	echo "skipped: nobody may be traced here"
	exit 77
fi
exits 0 "a command is recorded" "$gpu4fs" trace record -o cat.trace cat data/a
equals "... and its output is its own" 20000 "$(wc -c <.out)"
exits 0 "a trace is shown" "$gpu4fs" trace show cat.trace
says "... with the file's pages" "^r [0-9]* 0 20480$"
exits 3 "the command's status is ours" "$gpu4fs" trace record -o x.trace sh -c 'exit 3'
exits 143 "... or its signal" "$gpu4fs" trace record -o x.trace sh -c 'kill $$'
exits 127 "a command that is not there" "$gpu4fs" trace record -o x.trace ./nothing
one_sentence "... is named"
exits 126 "one that is no program" "$gpu4fs" trace record -o x.trace ./data
exits 1 "a place that is not there" "$gpu4fs" trace record -o nowhere/x.trace true
one_sentence "... is named"
exits 1 "nor such a directory" "$gpu4fs" trace record -d nowhere -o x.trace true
exits 1 "a full disk is told" "$gpu4fs" trace record -o /dev/full cat data/a
# shellcheck disable=SC2016 # what is in single quotes is other shells'
{
	exits 7 "who is asked to end asks the command" "$gpu4fs" trace record -o x.trace \
		sh -c 'cat data/a; trap "exit 7" TERM; kill -TERM $PPID; while :; do :; done'
	exits 7 "... also when a terminal goes" "$gpu4fs" trace record -o x.trace \
		sh -c 'cat data/a; trap "exit 7" HUP; kill -HUP $PPID; while :; do :; done'
	exits 0 "... and has a trace to its end" "$gpu4fs" trace show x.trace
	says "... of what that did" "^r [0-9]* 0 20480$"
	exits 5 "... and what the command has left behind ends" "$gpu4fs" trace record -o x.trace sh -c '
		recorder=$PPID
		(while kill -0 $$ 2>/dev/null; do :; done; kill -TERM $recorder; while :; do :; done) &
		exit 5'
	exits 3 "who ignores the ends of children" sh -c 'trap "" CHLD; exec "$@"' sh "$gpu4fs" trace record -o x.trace sh -c 'exit 3'
	exits 0 "the command ignores what its caller ignores" sh -c 'trap "" TERM HUP INT PIPE; exec "$@"' sh "$gpu4fs" trace record -o x.trace \
		sh -c 'kill -TERM $$; kill -HUP $$; kill -INT $$; kill -PIPE $$'
	exits 143 "... and no more than that" "$gpu4fs" trace record -o x.trace sh -c 'kill -TERM $$'
	exits 141 "... of what a recorder ignores, either" "$gpu4fs" trace record -o x.trace sh -c 'kill -PIPE $$'
}
exits 0 "what is on others is left out" "$gpu4fs" trace record -d /proc --text -o x.trace cat data/a
equals "..." "" "$(grep -v '^#' x.trace)"


# The first access that a script makes to its file is to a page that is gone then; it tells the file's number.
cat >calls.py <<'PYTHON'
import mmap, os, sys

fd = os.open("data/b", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.pwrite(fd, b"m", 7777 << 12)
os.ftruncate(fd, 20000)
exec(sys.argv[1])
PYTHON
recorded() { # recorded NAME WANTED PYTHON: the accesses to fd
	run "$gpu4fs" trace record -d data -o one.trace python3 -S -E -I -B calls.py "$3"
	[ "$status" -eq 0 ] || cat "$work/.err"
	equals "$1" "$2" "$("$gpu4fs" trace show one.trace | awk '
		$1 == "w" && $3 == 7777 * 4096 { file = $2; next }
		file && $2 == file { print $1 $3 / 4096 "+" $4 / 4096 }' | xargs)"
}
recorded "read and write go where the offset is" "r2+1 w2+2 r3+1" \
	'os.lseek(fd, 8192, 0); os.read(fd, 10); os.write(fd, b"x" * 5000); os.read(fd, 1)'
recorded "what reads nothing is no access" "r4+1" 'os.lseek(fd, 19000, 0); os.read(fd, 100000); os.read(fd, 10)'
recorded "what fails is none" "" 'os.close(os.open("data/b", os.O_WRONLY)); os.lseek(fd, 30000, 0); os.read(fd, 1)'
recorded "pread and pwrite have one of their own" "r0+1 w4+1 r3+1" \
	'os.pread(fd, 1, 0); os.pwrite(fd, b"y", 16384); os.preadv(fd, [bytearray(1)], 12288)'
recorded "vectors" "r0+1 w0+2 r1+1" \
	'os.readv(fd, [bytearray(2), bytearray(3)]); os.writev(fd, [b"x" * 4096, b"y"]); os.preadv(fd, [bytearray(1)], 4097)'
recorded "appending" "w4+1" 'os.write(os.open("data/b", os.O_WRONLY | os.O_APPEND), b"z" * 5)'
recorded "a child has the same offset" "r1+1 r2+1" \
	'os.lseek(fd, 8191, 0); os.fork() or (os.read(os.dup(fd), 1), os._exit(0)); os.wait(); os.read(fd, 1)'
recorded "a mapped file" "r2+2" 'mmap.mmap(fd, 8192, prot=mmap.PROT_READ, offset=8192)'
recorded "... as far as it reaches" "r4+1" 'mmap.mmap(fd, 3616, prot=mmap.PROT_READ, offset=16384)'
recorded "copy_file_range" "r1+1" 'os.copy_file_range(fd, os.open("data/c", 66), 4096, 4096, 8192)'
"$gpu4fs" trace show one.trace | tail -n 1 | grep -q '^w [0-9]* 8192 4096$'
report $? "... to where it goes"
recorded "sendfile" "r2+1" 'os.sendfile(os.open("/dev/null", 1), fd, 8192, 4096)'
recorded "another file of the same name is another file" "r0+1" \
	'os.pread(fd, 1, 0); os.unlink("data/b"); f = os.open("data/b", 66); os.write(f, b"1"); os.pread(f, 1, 0)'
recorded "threads" "r3+1" 'import threading; t = threading.Thread(target=os.pread, args=(fd, 1, 12288)); t.start(); t.join()'

"$gpu4fs" mkfs -q --size 64M --owner "$(id -u):$(id -g)" a.img
exits 0 "what reaches a device is recorded" "$gpu4fs" bench --size 4M --files 50 --dirs 1 --random-ops 50 --fsyncs 5 --cached-reads 5 \
	trace:device.trace:a.img
exits 0 "... and fsck finds nothing" "$gpu4fs" fsck -n trace:device.trace:a.img
exits 0 "... which leaves the trace alone" "$gpu4fs" trace replay --json --policy lru,min device.trace
equals "... with reads and writes" True "$(json_value "d['page_accesses'] > d['page_writes'] > 1000")"
exits 1 "memory has no requests" "$gpu4fs" mkfs -q trace:x.trace:mem:64M
one_sentence "... which is told"

# ---- what reaches a block device
exits 1 "a device that is not there" "$gpu4fs" trace record --device ./nothing -o x.trace true
one_sentence "... is named"
exits 1 "what is no device" "$gpu4fs" trace record --device a.img -o x.trace true
says "... is told" "a.img: is no block device"
loop=""
instances=/sys/kernel/tracing/instances
[ -d "$instances" ] || instances=/sys/kernel/debug/tracing/instances
if [ "$(id -u)" -eq 0 ] && [ -w "$instances" ]; then
	truncate -s 64M disk.img
	loop=$(losetup --find --show --partscan disk.img 2>.err) && trap 'losetup --detach "$loop"; rm -rf "$work"' EXIT
fi
# shellcheck disable=SC2016 # what is in single quotes is other shells'
if [ -n "$loop" ]; then
	requests() { # requests DEVICE PYTHON: with the device's blocks, past the page cache
		exits 0 "$3" "$gpu4fs" trace record --device "$1" -o block.trace python3 -S -E -I -B -c "
import mmap, os, sys
fd = os.open('$loop', os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 16384)
$2"
		"$gpu4fs" trace show block.trace | awk '$1 != "#" { print $1 $3 / 4096 "+" $4 / 4096 }' | xargs >shown
	}
	has() { # has NAME ACCESSES: one after the other, others may be between (udev looks at what was written)
		grep -q " ${2// / .* *}" <<<" $(cat shown)"
		report $? "$1"
	}
	requests "$loop" "os.preadv(fd, [page], 40960); os.pwritev(fd, [page], 4096); os.fsync(fd)" "requests of a disk are recorded"
	has "... those that were made" "r10+4 w1+4"
	if addpart "$loop" 2 67584 32768 2>.err && [ -b "${loop}p2" ]; then
		requests "${loop}p2" "
os.preadv(fd, [page], 1 << 20); os.preadv(fd, [page], (67584 << 9) + 8192); os.preadv(fd, [page], 67584 + 32768 << 9)" \
			"requests of a partition"
		has "... are its own, by its own offsets" "r2+4"
		! grep -q "r256+4" shown
		report $? "... and no others"
		delpart "$loop" 2
	fi
	exits 3 "the command's status is ours" "$gpu4fs" trace record --device "$loop" -o x.trace sh -c 'exit 3'
	exits 143 "... or its signal" "$gpu4fs" trace record --device "$loop" -o x.trace sh -c 'kill $$'
	exits 143 "who is asked to end asks the command" "$gpu4fs" trace record --device "$loop" -o x.trace \
		sh -c 'trap "exit 143" TERM; kill -TERM $PPID; while :; do :; done'
	exits 127 "a command that is not there" "$gpu4fs" trace record --device "$loop" -o x.trace ./nothing
	one_sentence "... is named"
	exits 1 "a full disk is told" "$gpu4fs" trace record --device "$loop" -o /dev/full \
		dd if="$loop" of=/dev/null bs=4096 iflag=direct count=50000
	exits 137 "a recorder that is killed" sh -c 'exec "$0" "$@"' "$gpu4fs" trace record --device "$loop" -o x.trace sh -c 'kill -KILL $PPID'
	exits 0 "... is followed by others" "$gpu4fs" trace record --device "$loop" -o x.trace true
	left() { # left NAME: no instance is there of a process that has ended
		equals "$1" "" "$(find "$instances" -maxdepth 1 -name 'gpu4fs.*' -printf '%f\n' | while IFS=. read -r _ pid _; do
			kill -0 "$pid" 2>/dev/null || echo "$pid"
		done)"
	}
	left "... and what it left in the kernel is gone"
	mkdir "$instances/gpu4fs.1.$$" # of one in a namespace of processes
	exits 0 "one whose number somebody has" "$gpu4fs" trace record --device "$loop" -o x.trace true
	! [ -d "$instances/gpu4fs.1.$$" ]
	report $? "... leaves none"
	exits 0 "... but one that records stays" "$gpu4fs" trace record --device "$loop" -o x.trace \
		"$gpu4fs" trace record --device "$loop" -o y.trace true

	echo keep >keep.trace
	exits 1 "no device" "$gpu4fs" trace record --device ./nothing -o keep.trace true
	equals "... and the file stays as it is" keep "$(cat keep.trace)"

	# signals that a caller ignores, and the command has as the caller has them
	# shellcheck disable=SC2317 # `exits` calls it
	ignoring() { # ignoring SIGNAL COMMAND...
		timeout -s KILL 60 python3 -S -E -I -c 'import os, signal, sys
for i in range(1, signal.NSIG):
    if i not in (signal.SIGKILL, signal.SIGSTOP, 32, 33): signal.signal(i, signal.SIG_DFL)
signal.signal(int(sys.argv[1]), signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])' "$@"
	}
	for signal in 2 3 13 17; do
		exits 0 "a caller that ignores signal $signal" ignoring "$signal" "$gpu4fs" trace record --device "$loop" -o x.trace \
			grep SigIgn /proc/self/status
		# but for 32 and 33, which are the C library's: under ThreadSanitizer the first is ignored
		ignored=$((16#$(awk '{ print $2 }' .out) & ~(3 << 31)))
		equals "... whose command has that" "$((1 << (signal - 1)))" "$ignored"
	done
	many=(dd "if=$loop" of=/dev/null bs=4096 iflag=direct count=5000)
	exits 1 "who reads the trace goes away" bash -c '"$@" | head -n 1; exit "${PIPESTATUS[0]}"' _ \
		"$gpu4fs" trace record --device "$loop" --text -o /dev/stdout "${many[@]}"
	says "... which is told" "/dev/stdout: could not be written"
	exits 1 "a trace that is too large" bash -c 'ulimit -f 1; "$@" 2>&1 | cat; exit "${PIPESTATUS[0]}"' _ \
		"$gpu4fs" trace record --device "$loop" --text -o large.trace "${many[@]}"
	says "... is told" "large.trace: could not be written"
	left "... and nothing is left in the kernel"

	# a pipe that is full: the trace is written when the command has ended, and waits there
	mkfifo pipe
	exec 9<>pipe
	python3 -S -E -I -c 'import os, sys
os.set_blocking(9, False)
for bytes in (4096, 1):
    try:
        while True: os.write(9, b"#" * bytes)
    except BlockingIOError: pass
os.set_blocking(9, True)'
	"$gpu4fs" trace record --device "$loop" --text -o pipe touch ran 2>.err 9<&- &
	recorder=$!
	until [ -e ran ] && [ -z "$(cat "/proc/$recorder/task/$recorder/children")" ] && grep -q '^State:.[SZ]' "/proc/$recorder/status"; do :; done
	kill -TERM "$recorder"
	timeout -s KILL 60 cat <pipe 9<&- >piped &
	reader=$!
	wait "$recorder"
	equals "who is asked to end after the command has ended" 0 $?
	exec 9<&-
	wait "$reader"
	grep -q '# r or w, file, offset, bytes$' piped
	report $? "... has written the trace"
	left "... and leaves nothing in the kernel"

	# somebody's options for all instances
	options=${instances%instances}options
	exec 8<"$options"
	flock 8 # another one of this test would put back what this one sets
	before=$(cat "$options/context-info" "$options/overwrite" "$options/hex")
	restore_options() {
		read -r -d '' context overwrite hex <<<"$before"
		echo "$context" >"$options/context-info"
		echo "$overwrite" >"$options/overwrite"
		echo "$hex" >"$options/hex"
	}
	trap 'restore_options; losetup --detach "$loop"; rm -rf "$work"' EXIT
	echo 0 >"$options/context-info"
	echo 0 >"$options/overwrite"
	echo 1 >"$options/hex"
	requests "$loop" "os.preadv(fd, [page], 40960)" "requests where somebody has set options of all tracing"
	has "... are recorded" "r10+4"
	restore_options
	exec 8<&-
else
	echo "# no devices recorded: that takes root, tracefs and loop devices"
fi
if ! [ -w "$instances" ] && [ -b /dev/loop0 ]; then
	exits 1 "who may not record a device" "$gpu4fs" trace record --device /dev/loop0 -o x.trace true
	one_sentence "... is told"
fi

cat >small.trace <<'TRACE'
# file, offset, length
r 1 0 8192
w 2 0 4096
r 1 0 4096
r 2 4096 1
r 1 4096 4096
TRACE
value() { # value POLICY SIZE WAYS KEY
	"$gpu4fs" trace replay --json --policy "$1" --size "$2" --ways "$3" small.trace >.out && json_value "d['results'][0]['$4']"
}
is_json "a replay is JSON" "$gpu4fs" trace replay --json small.trace
equals "... with all policies, sizes and ways" 168 "$(json_value "len(d['results'])")"
equals "... which counts pages" "5 6 1 16384" \
	"$(json_value "d['accesses'], d['page_accesses'], d['page_writes'], d['distinct_bytes']" | tr -d '(),')"
equals "two pages, least recently used" 0 "$(value lru 8K full hits)"
equals "... three" 1 "$(value lru 12K full hits)"
equals "... Belady's bound" 1 "$(value min 8K full hits)"
equals "... all" 2 "$(value lru 100% full hits)"
equals "... of reads" 0.4 "$(value lru 100% full read_hit_ratio)"
equals "a cache has whole sets" 8192 "$(value lru 12K 2 size_bytes)"
exits 0 "as text" "$gpu4fs" trace replay small.trace
says "... with its columns" "second-chance.*s3-fifo.*min"
exits 0 "for gnuplot" "$gpu4fs" trace replay --plot --policy lru,min --size 8K,12K --ways 1,full small.trace
equals "... columns and blocks" "MiB lru min 0.0078125 0.166667 0.166667" "$(sed -n 2,3p .out | xargs)"
equals "..." 2 "$(grep -c '^$' .out)"

for bad in "" "nothing" "replay" "show" "replay a b" "replay --policy none small.trace" "replay --policy lru, small.trace" \
	"replay --size 1 small.trace" "replay --size 101% small.trace" "replay --size 0% small.trace" "replay --ways 0 small.trace" \
	"replay --ways -1 small.trace" "replay --json --plot small.trace" "record true" "record -o x" "record -d . --device x -o x true" "replay --device x small.trace" "show --json small.trace" \
	"replay -o x small.trace" "record --ways 8 -o x true" "--json replay small.trace"; do
	# shellcheck disable=SC2086 # words
	exits 2 "wrong usage: trace $bad" "$gpu4fs" trace $bad
	one_sentence "... in one sentence"
done
exits 1 "a trace that is not there" "$gpu4fs" trace replay nothing.trace
one_sentence "... is named"
echo "r 1 2" >bad.trace
exits 1 "one that is none" "$gpu4fs" trace replay bad.trace
says "... is told by its line" "bad.trace: line 1 is not"
: >empty.trace
exits 0 "one without accesses" "$gpu4fs" trace replay empty.trace
exits 1 "a directory" "$gpu4fs" trace show .
one_sentence "... is no trace"
finish
