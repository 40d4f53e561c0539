# SPDX-License-Identifier: Apache-2.0
"""Time stamps of a mount are of one clock: times.py DIRECTORY. What was made or changed later is not older."""
import ctypes
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
STATX = {"x86_64": 332, "aarch64": 291}[os.uname().machine]


def times(path):
    """Nanoseconds: access, birth, change, modification."""
    buffer = ctypes.create_string_buffer(256)
    if libc.syscall(STATX, -100, path.encode(), 0x100, 0xfff, buffer) < 0:  # AT_SYMLINK_NOFOLLOW
        raise OSError(ctypes.get_errno(), path)
    stamps = [struct.unpack_from("=qI", buffer, 64 + 16 * i) for i in range(4)]
    return [seconds * 10**9 + ns for seconds, ns in stamps]


def make(path, data=b"x"):
    with open(path, "wb") as file:
        file.write(data)


def main(directory):
    wrong = {"modified before it was born": 0, "changed before it was born": 0, "older than what was made before it": 0}
    for i in range(200):
        path = "%s/new%d" % (directory, i)
        make(path)
        _, birth, change, modification = times(path)
        wrong["modified before it was born"] += modification < birth
        wrong["changed before it was born"] += change < birth
    for i in range(300):
        paths = ["%s/%d.%s" % (directory, i, suffix) for suffix in ("empty", "c", "d", "o", "last")]
        make(paths[0], b"")
        make(paths[1])
        os.mkdir(paths[2])
        make(paths[3])
        os.symlink("x", paths[4])
        stamps = [times(path)[3] for path in paths]
        wrong["older than what was made before it"] += stamps != sorted(stamps)
    for text, count in wrong.items():
        print("%s: %d" % (text, count))
    return 1 if any(wrong.values()) else 0


sys.exit(main(sys.argv[1]))
