#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints all that a restore must bring back of a tree, a line a file; names are quoted. Usage: manifest.py DIRECTORY

Type, mode, owner, modification time to the nanosecond, size, digest, target, device number, which names are one file, extended
attributes (access control lists are among them), and of sparse files where their data begins."""

import hashlib
import os
import stat
import sys


BLOCK = 4096  # no file system has holes within one


def content(path, bytes_there):
    digest = hashlib.sha256()
    if bytes_there <= BLOCK:
        fd = os.open(path, os.O_RDONLY)
        data = os.read(fd, BLOCK)
        os.close(fd)
        if data.count(0) != len(data):
            digest.update(b"0:")
            digest.update(data)
        return digest.hexdigest()[:32]
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while at < size:  # data only: the holes of a large sparse file take long to read
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            os.lseek(file.fileno(), at, os.SEEK_SET)
            while at < end:
                data = file.read(min(end - at, 1 << 20))
                if data.count(0) != len(data):  # zeros that are stored and holes are the same content
                    digest.update(b"%d:" % at)
                    digest.update(data)
                at += len(data)
    return digest.hexdigest()[:32]


def attributes(path):
    names = sorted(os.listxattr(path, follow_symlinks=False))
    return ",".join(f"{name}={os.getxattr(path, name, follow_symlinks=False).hex()}" for name in names)


def main():
    top = os.path.normpath(os.fsencode(sys.argv[1]))
    below = len(os.path.join(top, b""))
    first = {}
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in [b"."] + sorted(folders + files):
            path = os.path.join(folder, name)
            if name == b"." and folder != top:
                continue
            st = os.lstat(path)
            shown = path[below:]
            fields = [repr(shown), stat.filemode(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, attributes(path)]
            if not stat.S_ISDIR(st.st_mode) and st.st_nlink > 1:
                name_before = first.setdefault((st.st_dev, st.st_ino), shown)
                if name_before != shown:  # names outside of the tree are not in a backup of it
                    fields.append("same as " + repr(name_before))
            if stat.S_ISREG(st.st_mode):
                fields += [st.st_size, content(path, st.st_size)]
            elif stat.S_ISLNK(st.st_mode):
                fields.append(repr(os.readlink(path)))
            elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
                fields.append(st.st_rdev)
            print(*fields)


main()
