#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a program may no longer do once others have changed it: set-id bits and capabilities, in the ways that a kernel has.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
((UID == 0)) || skip "only root can be another user"

make_image
mount_image
cd "$mnt" || exit 1

# Prints a line for each case: what was done | what is expected | what is found.
cat >"$work/cases.py" <<'PYTHON'
import ctypes, mmap, os, stat, struct

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
modes = {"allocate": 0, "allocate-keep": 1, "punch": 3, "zero": 16, "zero-keep": 17}
ways = list(modes) + ["copy", "write", "direct", "truncate", "truncating-open"]
page = mmap.mmap(-1, 4096)


def change(how, path):
    if how == "list":
        entries = [(1, 7), (4, 7), (32, 7)]
        text = b"".join(struct.pack("<HHI", tag, bits, 0xffffffff) for tag, bits in entries)
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + text)
        return
    flags = {"truncating-open": os.O_TRUNC, "direct": os.O_DIRECT}.get(how, 0)
    fd = os.open(path, os.O_RDWR | flags)
    if how in modes and libc.fallocate(fd, modes[how], 65536, 65536):
        raise OSError(ctypes.get_errno(), how)
    if how == "copy":
        assert os.copy_file_range(os.open("source", os.O_RDONLY), fd, 10000, 0, 4096) > 0
    if how == "write":
        os.pwrite(fd, b"x", 100)
    if how == "direct":
        assert os.pwritev(fd, [page], 0) == 4096
    if how == "truncate":
        os.ftruncate(fd, 1000)
    os.close(fd)


def change_as(uid, gid, how, path):
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        change(how, path)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def mode_after(uid, gid, how, path, mode):
    os.chmod(path, mode)
    os.stat(path)  # the kernel knows the mode now
    failed = change_as(uid, gid, how, path)
    return "failed" if failed else "%o" % stat.S_IMODE(os.stat(path).st_mode)


def make(path):
    with open(path, "wb") as file:
        file.write(os.urandom(196608))


make("source")
for how in ways:
    make("file")
    for before, after in ((0o6666, "666"), (0o6676, "676"), (0o6766, "766"), (0o6777, "777"), (0o2777, "777")):
        print("%s of %o by a stranger|%s|%s" % (how, before, after, mode_after(1000, 1000, how, "file", before)))
        print("%s of %o by root|%o|%s" % (how, before, before, mode_after(0, 0, how, "file", before)))
    os.chown("file", 0, 1000)  # set-gid of who is in the group, where the group may not execute
    print("%s of 2666 by a member|2666|%s" % (how, mode_after(1000, 1000, how, "file", 0o2666)))
    os.unlink("file")
    make("able")  # and capabilities go with anybody's change
    os.setxattr("able", "security.capability", struct.pack("<5I", 0x2000001, 1 << 10, 0, 0, 0))
    failed = change_as(0, 0, how, "able")
    print("capabilities after %s by root||%s" % (how, "failed" if failed else " ".join(os.listxattr("able"))))
    os.unlink("able")
for what in "file", "directory":
    if what == "file":
        make("listed")
    else:
        os.unlink("listed")
        os.mkdir("listed")
    os.chown("listed", 100, 100)
    print("a list for a %s by its owner|2777|%s" % (what, mode_after(100, 100, "list", "listed", 0o2755)))
    print("the same of one not in the group|777|%s" % mode_after(100, 101, "list", "listed", 0o2755))
PYTHON
check "all cases run" sh -c "python3 '$work/cases.py' >'$work/cases'"
while IFS='|' read -r text expected found; do
	same "$text" "$expected" "$found"
done <"$work/cases"

unmount_image
fsck_image
finish
