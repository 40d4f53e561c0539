#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Immutable and append-only files as their users and their kernel meet them; generations; renames that leave a whiteout.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
((UID == 0)) || skip "only root can set these flags"

make_image
mount_image
cd "$mnt" || exit 1

# Prints a line for each case: what was done | what is expected | what is found.
cat >"$work/cases.py" <<'PYTHON'
import ctypes, errno, os, stat, subprocess, sys, time

gpu4fs = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)


def said(call, *arguments):
    try:
        result = call(*arguments)
        return "done" if result is None else str(result)
    except OSError as error:
        return errno.errorcode[error.errno]


def flags(how, path):
    subprocess.check_call([gpu4fs, "attr", "set", how, path])


def case(text, expected, found):
    print("%s|%s|%s" % (text, expected, found))


source = os.open("source", os.O_RDWR | os.O_CREAT)
os.write(source, b"s" * 20000)
for how, what in ("i", "immutable"), ("a", "append-only"):
    kept = how == "i"
    file = os.open(what, os.O_RDWR | os.O_CREAT)
    os.write(file, b"d" * 10000)  # waits in the kernel's cache, and so do its times
    os.chmod(what, 0o600)
    flags("+" + how, what)
    case("copy_file_range into an %s file" % what, "EPERM" if kept else "4096",
         said(os.copy_file_range, source, file, 4096, 0, 0))
    time.sleep(0.02)  # the kernel's clock has gone on: what it thinks of the next call is newer than the flag
    case("another, later", "EPERM" if kept else "4096", said(os.copy_file_range, source, file, 4096, 0, 4096))
    case("fsync of what was written before it was %s" % what, "done", said(os.fsync, file))
    case("the contents of the %s file" % what, 10000 - (0 if kept else 8192), open(what, "rb").read().count(b"d"))
    case("ftruncate of an %s file" % what, "EPERM", said(os.ftruncate, file, 1))
    case("touch of an %s file" % what, "EPERM" if kept else "done", said(os.utime, what))
    case("setting times of an %s file" % what, "EPERM", said(os.utime, what, (1, 2)))
    case("close of an %s file" % what, "done", said(os.close, file))
    flags("-" + how, what)
# who may only write, through the kernel's cache
writer = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(writer, b"before ")
flags("+i", "log")
case("a write to a file that is immutable by now", "EPERM", said(os.write, writer, b"after"))
os.stat("log")
case("the next one, after stat", "EPERM", said(os.write, writer, b"after"))
case("fstat by the writer", "done", "done" if os.fstat(writer).st_size == 7 else "wrong")
case("fsync by the writer", "done", said(os.fsync, writer))
case("its contents", "before ", open("log").read())
flags("-i", "log")
case("a write when it is not any more", "6", said(os.write, writer, b"again "))
os.close(writer)
case("its contents now", "before again ", open("log").read())
os.mkdir("directory")
before = os.stat("directory").st_ctime_ns
time.sleep(0.02)  # one tick of the kernel's clock, which stamps files
flags("+d", "directory")
case("flags change the time of change", True, os.stat("directory").st_ctime_ns > before)

open("one", "w").write("one")
case("renaming with a whiteout", 0, libc.renameat2(-100, b"one", -100, b"directory/two", 4))
found = os.lstat("one")
case("it is a device 0:0", (stat.S_IFCHR, 0, 1), (found.st_mode, found.st_rdev, found.st_nlink))
case("the file is there", "one", open("directory/two").read())
case("both names are listed", 2, os.listdir(".").count("one") + os.listdir("directory").count("two"))
case("exchange and whiteout", -1, libc.renameat2(-100, b"one", -100, b"directory/two", 6))
PYTHON
check "all cases run" sh -c "python3 '$work/cases.py' '$gpu4fs' >'$work/cases'"
while IFS='|' read -r text expected found; do
	same "$text" "$expected" "$found"
done <"$work/cases"

generation() {
	"$gpu4fs" attr get --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["files"][0]["generation"])'
}
: >first
first=$(generation first)
check "attr get shows the generation" test -n "$first"
rm first
: >second
check "a file that is made later has another" test "$first" != "$(generation second)"

unmount_image
fsck_image
finish
