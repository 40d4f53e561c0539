#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of a fuzz target: edits (fuzz.h), or the steps of a ring's client (fuzz_ring.c).

Usage: seeds.py TARGET FOLDER
"""
import pathlib
import random
import re
import struct
import sys

EDITS = 256
KINDS = 7


def edits():
    """A single edit each, spread over places, bytes and kinds."""
    choose = random.Random(1)
    for number in range(EDITS):
        yield f"edit-{number:03}", struct.pack(
            "<HHBBHQ", choose.randrange(65536), 8 * (number % 64), number % KINDS, number // KINDS % 2,
            choose.randrange(65536), choose.choice([0, 1, 0xff, 2**32 - 1, 2**64 - 1, choose.randrange(2**63)]))


COMMANDS = [name.lower() for name in re.findall(r"^\tX\(context, (\w+), ", (
    pathlib.Path(__file__).resolve().parents[2] / "src/fs/command.h").read_text(), re.MULTILINE)]
NODES = "root public mine inline folder link loop pipe theirs kept secret their_folder root_only new".split()
NAMES = ("mine inline folder link loop pipe kept secret new new_too a b public theirs empty . .. / public/mine public/link "
         "public/loop/x theirs/secret ../theirs/kept a/b name_7 name_31 user.mine user.new user.large trusted.x "
         "security.capability acl_access acl_default user. nothing.x bytes_255 bytes_256 bytes_1000 bytes_4097").split()
COMMAND, QUEUE, SET_RING, SET_DATA, SET_TAIL, NEIGHBOUR, LEAVE, CRASH = range(8)
SPOIL, NESTED, DATA, TAIL = 1, 2, 4, 8
READ, WRITE, APPEND, TRUNC, DIRECT = 1, 2, 4, 8, 128
BARE = 16  # text: nodes are named without seals
REGULAR = 0o100644
DATA_BYTES = 128 << 10


def step(op="nop", kind=COMMAND, node="root", node2="root", name="empty", name2="empty", handle=0, handle2=0, flags=0, mask=0,
         mode=0, cred=0, text=0, data=0, offset=0, length=0, arg=0, patch_at=0, patch_bytes=0, hook=0, patch=0):
    index = COMMANDS.index(op) if isinstance(op, str) else op
    return struct.pack("<8BIIHBBIQQQHBBIQ", kind, index, NODES.index(node), NODES.index(node2), handle, handle2,
                       NAMES.index(name), NAMES.index(name2), flags, mask, mode, cred, text, data, offset, length, arg,
                       patch_at, patch_bytes, hook, 0, patch)


def open_file(name="mine", flags=READ | WRITE, **more):
    return step("create", node="public", name=name, flags=flags, mode=REGULAR, text=8, **more)


def transfer(op, **more):
    return step(op, **{"length": 9000, "data": 4096, **more})


AS_ROOT = step(kind=LEAVE, patch=1)


def sequences():
    """By name, what a client does; later steps name the handles of earlier ones by their number."""
    yield "files", [
        open_file(), transfer("write"), transfer("read"), transfer("read", offset=1 << 20), step("getattr", text=8),
        step("setattr", mask=8, offset=5000, text=8), step("fallocate", offset=8192, length=65536),
        step("fallocate", flags=3, offset=4096, length=8192), step("seek", flags=4), step("seek", flags=3, offset=70000),
        step("fsync"), step("fsync", flags=1), open_file("new", handle=1),
        step("copy_range", handle2=1, length=20000, arg=100), transfer("read", handle=1),
        open_file("new", READ | WRITE | APPEND), transfer("write", handle=2), step("release", handle=1),
        step("release", handle=1), transfer("read", handle=1)]
    yield "large", [
        open_file(flags=READ | WRITE | DIRECT), transfer("write", length=90 << 10, data=0, offset=4096),
        transfer("read", length=90 << 10, data=0, offset=4096), transfer("write", length=2**64 - 8, data=16),
        transfer("read", length=8, data=DATA_BYTES - 4), transfer("write", length=100 << 10, data=0),
        step("syncfs"), step(kind=CRASH)]
    yield "names", [
        step("lookup", node="public", name="mine", text=8), step("resolve", name="public/link", text=8),
        step("resolve", name="public/loop/x"), step("readlink", node="link", length=100),
        step("mknod", node="public", name="new", mode=REGULAR, text=8), step("mkdir", node="public", name="a", mode=0o755, text=8),
        step("symlink", node="public", name="b", name2="bytes_1000"), step("link", node="mine", node2="public", name2="new_too"),
        step("rename", node="public", name="new", node2="public", name2="b"),
        step("rename", node="public", name="a", node2="folder", name2="bytes_255", flags=1),
        step("unlink", node="public", name="b"), step("rmdir", node="folder", name="name_7"),
        step("readdir", node="folder", length=4096), step("readdir", node="folder", length=4096, flags=1, offset=20),
        step("tmpfile", node="public", mode=0o600, flags=3, text=8), transfer("write", handle=0), step("statfs", length=200),
        step("access", node="mine", flags=6), step("forget", node="mine")]
    yield "attributes", [
        step("setxattr", node="mine", name="user.new", length=60), step("setxattr", node="mine", name="user.large", length=60000),
        step("getxattr", node="mine", name="user.large", length=65536), step("getxattr", node="mine", name="user.mine"),
        step("listxattr", node="mine", length=65536), step("removexattr", node="mine", name="user.large"),
        step("setxattr", node="mine", name="acl_access", length=44), step("setxattr", node="folder", name="acl_default", length=44),
        step("create", node="folder", name="new", mode=REGULAR, flags=3), step("mkdir", node="folder", name="a", mode=0o777),
        step("access", node="mine", flags=4), step("setattr", node="mine", mask=1, mode=0o100640),
        step("getxattr", node="mine", name="acl_access", length=100), step("getxattr", node="secret", name="user.mine", length=400),
        step("setattr", node="mine", mask=1, mode=0o100600, text=8), step("setattr", node="mine", mask=0x7fe, data=1000)]
    yield "forbidden", [
        step("create", node="theirs", name="secret", flags=READ, mode=REGULAR), step("open", node="secret", flags=READ),
        step("open", node="kept", flags=WRITE), step("open", node="kept", flags=READ), transfer("read"), transfer("write"),
        step("unlink", node="theirs", name="kept"), step("setattr", node="kept", mask=8), step("readdir", node="their_folder", length=4096),
        step("mknod", node="public", name="new", mode=0o020600), step("lookup", node="public", name="mine", cred=4),
        step("getattr", handle=7, node="mine", text=8 | BARE), step("unlink", node="public", name="mine", text=BARE),
        transfer("read", handle=7, node="secret"), transfer("read", handle=8, node="secret", patch=1 << 32 | 3)]
    yield "side-by-side", [
        open_file(), step("read", kind=QUEUE, length=60000, hook=NESTED), step("read", kind=QUEUE, length=60000, hook=NESTED),
        step("release", kind=QUEUE, hook=NESTED), step("fsync"), open_file(),
        step("read", kind=QUEUE, handle=1, length=9000, hook=NESTED | DATA), step("release", handle=1), open_file()]
    yield "spoiled", [
        open_file(hook=SPOIL), transfer("write", hook=SPOIL | DATA), transfer("read", hook=SPOIL),
        step("setxattr", node="mine", name="user.new", length=600, hook=SPOIL, text=4, data=9000),
        step("lookup", node="public", name="bytes_255", hook=SPOIL), step("lookup", node="public", name="mine", text=5),
        step("lookup", node="public", name="mine", text=6), step("lookup", node="public", name="bytes_1000", text=7),
        step("nop", patch=2**64 - 1, patch_bytes=8), step(kind=SET_RING, data=4096 + 256, patch=2**63),
        step(kind=SET_DATA, mode=511, patch=0x0101010101010101), step(kind=SET_TAIL, patch=3),
        step("nop", hook=TAIL, patch=7), step(kind=SET_TAIL, patch=1000), open_file()]
    yield "batches", [
        step("batch", node="public", name="mine", mask=7, mode=REGULAR, flags=2), step("batch", node="public", name="new", mask=8 * 2 + 7, mode=0o755),
        step("batch", node="public", name="a/b", name2="new", mask=8 * 6 + 7, mode=REGULAR, flags=3, data=4096),
        step("batch", node="theirs", name="kept", mask=8 * 3 + 7, mode=0o777, flags=2), step("batch", node="secret", name="mine", mask=7),
        step("batch", node="public", name="new", mask=7, mode=REGULAR, flags=2, arg=0xff << 32 | 11),
        step("batch", node="public", name="new", mask=7, mode=REGULAR, flags=2, arg=0xff << 32 | 13, hook=SPOIL | DATA),
        step("batch", node="public", name="public/link", mask=7, length=2**32 + 8), step("batch", node="public", mask=3, length=40),
        step("batch", node="public", name="mine", mask=7, data=DATA_BYTES - 16), step("batch", node="public", text=BARE, mask=3),
        step("tally", length=4000), step("tally", node="folder", length=200, data=9), step("tally", node="folder", length=70000, offset=2**40),
        step("tally", node="their_folder", length=4000), step("tally", node="mine", length=4000), step("tally", length=70),
        step("batch", node="folder", name="theirs/secret", mask=8 + 7, flags=7), step(kind=CRASH)]
    yield "quotas", [open_file(name) for name in ("mine", "inline", "new", "new_too", "a")] + [
        step("release", handle=2), open_file("a"), step("fallocate", handle=0, length=2**40),
        step("fallocate", handle=0, length=14 << 20), step("fallocate", handle=1, length=2**63 - 1),
        transfer("write", handle=1, offset=2**63 - 4096), step(kind=NEIGHBOUR, offset=2), step(kind=NEIGHBOUR, op=1),
        step(kind=NEIGHBOUR, op=2, offset=2), transfer("write", handle=3, length=90000)]
    yield "root", [
        AS_ROOT, open_file(cred=2), open_file("new", cred=4), open_file("new_too", cred=6), transfer("write", handle=1),
        step("open", node="secret", flags=READ), transfer("read", handle=1), step("mknod", node="public", name="a", mode=0o020600, offset=259),
        step("setattr", node="mine", mask=6, data=1000, text=8), step("unlink", node="theirs", name="kept"), step(kind=LEAVE)]


def varint(value):
    parts = b""
    while value >= 0x80:
        parts += bytes([value & 0x7f | 0x80])
        value >>= 7
    return parts + bytes([value])


def string(text):
    return varint(len(text)) + text


def store_inputs():
    """One valid thing for each of the backup's parsers (fuzz_store.c), whose number comes first."""
    identity = bytes(range(32))
    content = varint(2) + varint(20 << 1 | 1) + varint(5 << 1) + identity

    def entry(name, kind, flags, rest):
        return string(name) + bytes([kind, flags]) + varint(0o644) + varint(0) * 2 + varint(10) + varint(999999999) + varint(0) * 3 + rest

    pieces = varint(1) + varint(100 << 1) + identity
    rest = {1: varint(25) + content, 2: pieces, 3: string(b"/a/b"), 4: varint(1) + varint(3), 5: varint(7) * 2, 6: b"", 7: b""}
    for kind, tail in rest.items():
        yield f"entry-{kind}", b"\0" + entry(b"name", kind, 0, tail)
    attributes = varint(3) + varint(2) + varint(1) + string(b"user.a") + string(b"value")
    yield "entry-attributes", b"\0" + entry(b"a", 6, 3, attributes) + entry(b"b", 7, 4, b"")
    list_of = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in ((1, 6, 2**32 - 1), (2, 7, 1), (8, 4, 1), (4, 4, 2**32 - 1)))
    yield "entry-list", b"\0" + entry(b"a", 6, 2, varint(1) + string(b"system.posix_acl_access") + string(list_of))
    yield "entry-accessed", b"\0" + string(b"a") + bytes([6, 8]) + varint(0o644) + varint(0) * 2 + varint(10) + varint(5) + varint(0) * 3 + varint(9) + varint(999999999)
    yield "entry-parent", b"\0" + entry(b"..", 6, 0, b"")
    texts = varint(1) + string(b"/home")
    owners = varint(3) + b"\0" + varint(0) + string(b"root") + b"\0" + varint(1000) + string(b"ann") + b"\1" + varint(0) + string(b"wheel")
    yield "snapshot-owners", b"\1" + varint(10) + varint(0) + string(b"host") + string(b"user") + varint(0) * 2 + texts * 2 + b"\0" + \
        pieces + varint(1) * 5 + string(b"program") + owners
    yield "snapshot", b"\1" + varint(10) + varint(0) + string(b"host") + string(b"user") + varint(0) * 2 + texts * 2 + b"\1" + \
        identity + pieces + varint(1) * 5 + string(b"program")
    blobs = varint(2) + b"\1" + identity + varint(100) + varint(90) + b"\2" + identity + varint(50) + varint(300)
    yield "header", b"\2" + blobs
    yield "body", b"\3\0" + struct.pack("<Q", 5) + b"plain"
    yield "body-zstd", b"\3\1" + struct.pack("<Q", 3) + bytes.fromhex("28b52ffd2003190000616263")
    yield "pack", b"\4" + varint(1) + b"\1" + identity + varint(36) + varint(90)
    yield "pattern", b"\5" + b"/a/**/[b-d]?*.o!" + b"/a/x/y/bqq.o/ccc"
    yield "rest-list", b"\6" + b'[{"name": "%s", "size": 12}, {"size":7,"name":"%s","more":"x"}]' % (b"0a" * 32, b"ff" * 32)
    yield "address", b"\7" + b"rest:https://user:secret@host:8000/a@b/"
    key = b"sha256//" + b"A" * 43 + b"="
    yield "clients", b"\x08" + b"# who\nann " + key + b" home/ann append-only quota=5G\nbob " + key + b" home/bob\n"
    yield "parity", b"\x09\3some bytes that are a file"
    for version in range(5):  # what a repository has beside packs and snapshots; the kind, and the version less one times four
        yield f"config-{version + 1}", bytes([10, 4 * version]) + bytes(24) + b"\1\x12" + bytes(32) + b"\2" * (version > 0)
    yield "index", bytes([10, 13]) + varint(1) + identity + varint(1000) + blobs
    yield "index-group", bytes([10, 5]) + varint(1) + identity + varint(1000) + varint(2) + b"\3" + varint(100) + varint(2) + \
        b"\1" + identity + varint(40) + b"\1" + bytes(reversed(identity)) + varint(50)
    yield "lock", bytes([10, 14, 0]) + struct.pack("<qQQ", 1700000000, 4000, 12345) + string(b"boot") + string(b"host") + string(b"user")
    yield "key", bytes([10, 15, 1, 0, 0, 0]) + struct.pack("<II", 3, 65536) + bytes(16) + struct.pack("<q", 1) + b"user@host".ljust(64, b"\0") + bytes(72)
    yield "notes", bytes([11]) + varint(4096 << 1 | 1) * 3 + varint(5 << 1) + identity
    yield "requests", bytes([12]) + b"data/%s\nindex/\nconfig\nbytes=0-99\nbytes 5-9/10\nbytes=7-18446744073709551615\n" % (b"0a" * 32)


def traces():
    """Two bytes for the cache, and a file of each format."""
    cache = bytes([7, 0])
    yield "text", cache + b"# a comment\nr 1 0 4096\nw 1 4095 2\n\nr 18446744073709551615 9223372036854771712 4095 # last\nw 2 0 99999\n"
    accesses = b"".join(varint((pages - 1) * 4 + other * 2 + write) + (varint(3) if other else b"") + varint(distance)
                        for pages, other, write, distance in ((1, 0, 0, 0), (8, 1, 1, 40), (8, 0, 0, 15), (300, 0, 1, 2**40), (1, 0, 0, 2**40 + 9)))
    yield "binary", cache + b"G4TRACE1" + accesses
    yield "cut", cache + b"G4TRACE1" + accesses[:-1]
    yield "sets", bytes([30, 4]) + b"".join(b"%c 1 %d 4096\n" % (b"rw"[i % 2], i * i % 61 * 4096) for i in range(24))
    head = b"kworker/u8:6-21742   [001] ..... 63773.930054: block_bio_queue: 7,1 "
    yield "kernel", bytes([90, 0]) + b"# tracer: nop\n" + head + b"RAM 1064 + 8 [dd]\n" + head + b"FWFS 4096 + 6144 [jbd2/loop1-8]\n" + \
        head + b"DS 0 + 8 [x]\nCPU:1 [LOST 27 EVENTS]\n" + head + b"W 18446744073709551615 + 8 [x]\n"


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "fuzz_ring":
        inputs = ((name, b"".join(steps)) for name, steps in sequences())
    elif sys.argv[1] == "fuzz_store":
        inputs = store_inputs()
    elif sys.argv[1] == "fuzz_trace":
        inputs = traces()
    else:
        inputs = edits()
    for name, data in inputs:
        (folder / name).write_bytes(data)


main()
