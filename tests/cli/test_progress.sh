#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Progress bars: on a terminal, after a second, gone at the end; nowhere else.
. "$(dirname "$0")/lib.sh"

# on_terminal COMMAND...: standard error is a terminal; what comes there goes to .err, standard output to .out
on_terminal() {
	python3 - "$@" >"$work/.out" 2>"$work/.err" <<'PYTHON'
import os, pty, subprocess, sys
outer, inner = pty.openpty()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=inner)
os.close(inner)
while True:
    try:
        text = os.read(outer, 65536)
    except OSError:  # the last writer is gone
        break
    if not text:
        break
    sys.stderr.buffer.write(text)
sys.exit(process.wait())
PYTHON
	status=$?
}

# 4 KiB reads from memory: how many take two seconds or more here
reads=200000
took=0
while [ "$took" -lt 2000 ]; do
	reads=$((reads * 4))
	started=$(date +%s%N)
	run "$gpu4fs" bench --size 1M --dirs 1 --files 1 --fsyncs 1 --random-ops 1 --cached-reads "$reads" mem:32M
	took=$((($(date +%s%N) - started) / 1000000))
	equals "$reads reads" 0 "$status"
done
equals "without a terminal there is no bar" "" "$(cat .err)"
on_terminal "$gpu4fs" bench --size 1M --dirs 1 --files 1 --fsyncs 1 --random-ops 1 --cached-reads "$reads" mem:32M
equals "on a terminal" 0 "$status"
says "... there is one" 'measuring \[[#.]\{40\}\] *[0-9]* %'
equals "... it never shrinks" True "$(python3 -c 'import re, sys
shares = [int(s) for s in re.findall(rb"(\d+) %", open(".err", "rb").read())]
print(shares == sorted(shares) and 0 < len(shares) and shares[-1] <= 100)')"
equals "... and is cleared at the end" True "$(python3 -c 'print(open(".err", "rb").read().endswith(b"\r\x1b[K"))')"
equals "... apart from the table" 20 "$(wc -l <.out)"
on_terminal "$gpu4fs" mkfs -q --size 64M quick.img
equals "what is done at once" 0 "$status"
equals "... shows none" "" "$(cat .err)"
# Trees: a library says that standard error is a terminal, and that two seconds pass as soon as somebody has asked. So whoever tells at all
# tells once, and what is done takes no longer than it does.
if nm -D "$gpu4fs" | grep -q '__asan_\|__tsan_'; then
	echo "# of trees nothing is tried: what a sanitizer is in loads no library before it"
	finish
fi
cat >soon.c <<'SOURCE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static int calls = -1; /* of the clock, since somebody has asked */

int isatty(int fd)
{
	if (fd == STDERR_FILENO)
		__atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
	return fd == STDERR_FILENO;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	const int rc = real(clock, time);

	if (clock == CLOCK_MONOTONIC && __atomic_load_n(&calls, __ATOMIC_RELAXED) >= 0 &&
	    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) > 0)
		time->tv_sec += 2;
	return rc;
}
SOURCE
exits 0 "the library is made" cc -shared -fPIC -O -o soon.so soon.c
soon() { LD_PRELOAD=$work/soon.so "$@"; }

# shown NAME TEXT: the last run has shown that, and has cleared it at the end, and printed nothing else there
shown() {
	equals "$1" True "$(python3 -c 'import re, sys
text = open(sys.argv[1], "rb").read()
print(re.fullmatch(rb"(\r" + sys.argv[2].encode() + rb"\x1b\[K)+\r\x1b\[K", text) is not None or text)' "$work/.err" "$2")"
}

mkdir -p tree/sub blocked/tree
touch tree/{1..200} tree/sub/{1..50}
touch blocked/tree/sub
run "$gpu4fs" mkfs -q --size 64M tree.img
exits 0 "import on a terminal" soon "$gpu4fs" import -j 1 --image tree.img tree /tree
shown "... tells how far it is" 'import: [0-9]+ names, 0 MiB'
exits 0 "a tree in the way of another one" "$gpu4fs" import --image tree.img blocked /blocked
exits 0 "export" soon "$gpu4fs" export -j 1 --image tree.img /tree out
shown "... does" 'export: [0-9]+ names, 0 MiB'
exits 0 "cp" soon "$gpu4fs" cp -r -j 1 --image tree.img /tree /copy
shown "... does" 'cp: [0-9]+ names'
exits 0 "du" soon "$gpu4fs" du -j 1 --image tree.img /tree
shown "... does" 'du: [0-9]+ files?, [0-9]+ director(y|ies)'
soon "$gpu4fs" find -j 1 --image tree.img /tree >found 2>.err
equals "find with its names in a file" 252 "$(wc -l <found)"
shown "... does" 'find: [0-9]+ names?'
soon "$gpu4fs" find -j 1 --image tree.img /tree 2>.err | cat >found
equals "... with its names in a pipe" 252 "$(wc -l <found)"
equals "... does not: they are seen there" "" "$(cat .err)"
exits 0 "rm" soon "$gpu4fs" rm -r -j 1 --image tree.img /copy
shown "... does" 'rm: [0-9]+ names?'
exits 1 "what goes wrong on the way" soon "$gpu4fs" rm -r --image tree.img /tree/1 /none /tree
equals "... is said on a line of its own" True "$(python3 -c 'import re
print(re.search(rb"\x1b\[K\r\x1b\[Kgpu4fs rm: /none: [^\r\n]*\n", open(".err", "rb").read()) is not None)')"
exits 0 "a tree again" "$gpu4fs" import --image tree.img tree /tree
for words in "cp -r" "cp -r --preserve=flags"; do
	# shellcheck disable=SC2086 # they are words
	exits 1 "$words over what is a file there" soon "$gpu4fs" $words -j 1 --image tree.img /tree /blocked
	equals "... says so on a line of its own" True "$(python3 -c 'import re
text = open(".err", "rb").read()
print(re.search(rb"\x1b\[K\r\x1b\[Kgpu4fs cp: /blocked/tree/sub: [^\r\n]*\n", text) is not None and b"names\x1b[Kgpu4fs" not in text or text)')"
done
for words in "import tree /t" "find /t" "rm -r /t"; do
	# shellcheck disable=SC2086 # they are words
	set -- $words
	exits 0 "$1 without a terminal" "$gpu4fs" "$1" --image tree.img "${@:2}"
	equals "... says nothing of it" "" "$(cat .err)"
done
# A signal in the middle of a file, by a library that sends it when the first bytes of "large" are read or written.
cat >signal.c <<'SOURCE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void look(int fd)
{
	char link[64], name[4096];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	const ssize_t bytes = readlink(link, name, sizeof(name) - 1);
	name[bytes > 0 ? bytes : 0] = 0;
	if (bytes > 6 && strcmp(name + bytes - 6, "/large") == 0)
		raise(SIGINT);
}

#define CALL(result, name, arguments, passed)                                                                        \
	result name arguments                                                                                        \
	{                                                                                                            \
		result(*real) arguments = dlsym(RTLD_NEXT, #name);                                                   \
		look(fd);                                                                                            \
		return real passed;                                                                                  \
	}
CALL(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes))
CALL(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
CALL(ssize_t, pread64, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
CALL(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
CALL(ssize_t, pwrite, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL(ssize_t, pwrite64, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
SOURCE
exits 0 "the library is made" cc -shared -fPIC -O -o signal.so signal.c
mkdir one
head -c 8M /dev/zero | tr '\0' x >one/large
exits 1 "import, ended in a file" env LD_PRELOAD="$work/signal.so" "$gpu4fs" import -j 1 --image tree.img one /one
equals "... says so once" "gpu4fs import: interrupted" "$(cat .err)"
equals "... without that file" "" "$("$gpu4fs" find --image tree.img -n large /one)"
exits 0 "it goes in" "$gpu4fs" import --image tree.img one /two
exits 1 "export, ended in a file" env LD_PRELOAD="$work/signal.so" "$gpu4fs" export -j 1 --image tree.img /two two
equals "... says so once" "gpu4fs export: interrupted" "$(cat .err)"
equals "... without that file" "" "$(find two -type f)"
exits 0 "the image is clean" "$gpu4fs" fsck -n tree.img
finish
