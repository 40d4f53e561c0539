#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of several processes that work on the same files: coherence.py DIRECTORY NUMBER ROUNDS. Each step checks what the others left."""
import fcntl
import os
import sys

top, number, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(top)
with open("/dev/urandom", "rb") as source:
    noise = source.read(8192)


def add_to_counter():
    """Read, add, write, under a lock: nobody may see an old value."""
    fd = os.open("counter", os.O_RDWR | os.O_CREAT, 0o644)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    value = int(os.pread(fd, 20, 0) or b"0")
    os.pwrite(fd, b"%d" % (value + 1), 0)
    assert int(os.pread(fd, 20, 0)) == value + 1
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
    os.close(fd)


def exchange_versions(turn):
    """Whole files under one name, replaced all the time: a reader finds one version, of one length, with its own text all over."""
    own = f"version.{number}"
    fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, b"%06d\n" % (turn * 10 + number) * (100 + turn % 7))
    os.close(fd)
    os.rename(own, "version")
    fd = os.open("version", os.O_RDONLY)
    size = os.fstat(fd).st_size
    text = os.read(fd, 1 << 20)
    os.close(fd)
    assert len(text) == size and len(set(text.split())) == 1 and size // 7 in range(100, 107), (size, text[:20])


def claim_names(turn):
    """Of all who make a name exclusively one succeeds."""
    try:
        os.close(os.open(f"claim.{turn}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        assert os.stat(f"claim.{turn}").st_nlink == 1
        return 0
    return 1


def come_and_go(turn):
    """Names of one's own appear and are gone at once, in listings as well."""
    name = f"own.{number}"
    os.mkdir(name)
    os.close(os.open(f"{name}/f{turn}", os.O_WRONLY | os.O_CREAT, 0o644))
    assert name in os.listdir(".") and os.listdir(name) == [f"f{turn}"]
    os.unlink(f"{name}/f{turn}")
    os.rmdir(name)
    assert name not in os.listdir(".") and not os.path.exists(name)


claims = 0
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for turn in range(rounds):
    add_to_counter()
    exchange_versions(turn)
    claims += claim_names(turn)
    come_and_go(turn)
    os.write(log, b"%d.%d\n" % (number, turn))
print(claims)
