#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""setfattr, getfattr, setfacl and getfacl as far as the tests use them, for machines without the packages attr and acl.

Usage: attr.py PROGRAM ARGUMENT...
    setfattr -n NAME -v VALUE FILE | -x NAME FILE
    getfattr [--only-values] [-n NAME] FILE
    setfacl [-d] -m u:UID:PERMISSIONS,g:GID:PERMISSIONS FILE
    getfacl -cn FILE
"""
import errno
import os
import stat
import struct
import sys

TAGS = {"user": 2, "group": 8}  # entries with an id, of linux/posix_acl.h
USER_OBJ, GROUP_OBJ, MASK, OTHER = 1, 4, 16, 32
NO_ID = 0xFFFFFFFF
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def setfattr(arguments):
    if arguments[0] == "-x":
        os.removexattr(arguments[2], arguments[1])
    else:
        os.setxattr(arguments[4], arguments[1], arguments[3].encode())


def getfattr(arguments):
    path = arguments[-1]
    if "-n" not in arguments:
        print("# file: %s\n%s" % (path, "\n".join(sorted(os.listxattr(path)))))
        return
    name = arguments[arguments.index("-n") + 1]
    value = os.getxattr(path, name).decode()
    if "--only-values" in arguments:
        sys.stdout.write(value)
    else:
        print('# file: %s\n%s="%s"' % (path, name, value))


def bits(text):
    return sum(value for letter, value in (("r", 4), ("w", 2), ("x", 1)) if letter in text)


def setfacl(arguments):
    path, mode = arguments[-1], stat.S_IMODE(os.stat(arguments[-1]).st_mode)
    entries = {(USER_OBJ, NO_ID): mode >> 6 & 7, (GROUP_OBJ, NO_ID): mode >> 3 & 7, (OTHER, NO_ID): mode & 7}
    for entry in arguments[arguments.index("-m") + 1].split(","):
        kind, number, permissions = entry.split(":")
        entries[TAGS[{"u": "user", "g": "group"}[kind]], int(number)] = bits(permissions)
    mask = 0
    for (tag, _), permissions in entries.items():
        mask |= permissions if tag in (GROUP_OBJ, *TAGS.values()) else 0
    entries[MASK, NO_ID] = mask
    value = struct.pack("<I", 2)
    for (tag, number), permissions in sorted(entries.items()):
        value += struct.pack("<HHI", tag, permissions, number)
    os.setxattr(path, DEFAULT if "-d" in arguments else ACCESS, value)


def getfacl(arguments):
    value = os.getxattr(arguments[-1], ACCESS)
    for at in range(4, len(value), 8):
        tag, permissions, number = struct.unpack_from("<HHI", value, at)
        word = next((word for word, known in TAGS.items() if known == tag), "other")
        text = "".join(letter if permissions & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        print("%s:%s:%s" % (word, number if number != NO_ID else "", text))


try:
    {"setfattr": setfattr, "getfattr": getfattr, "setfacl": setfacl, "getfacl": getfacl}[sys.argv[1]](sys.argv[2:])
except OSError as error:
    sys.exit("No such attribute" if error.errno == errno.ENODATA else error.strerror)
