# SPDX-License-Identifier: Apache-2.0
"""Writes a file with asynchronous O_DIRECT writes while others read it through the page cache, and reads it through the
page cache whenever the writes are complete: stale.py FILE ROUNDS. Fails at the first byte that is not the last written."""
import ctypes
import mmap
import os
import platform
import signal
import sys

WRITES = 20
BYTES = 32768
SETUP, SUBMIT, GETEVENTS = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4)}[platform.machine()]


class Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_uint32),
                ("opcode", ctypes.c_uint16), ("reqprio", ctypes.c_int16), ("fd", ctypes.c_uint32),
                ("buf", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("offset", ctypes.c_int64),
                ("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("obj", ctypes.c_uint64), ("res", ctypes.c_int64), ("res2", ctypes.c_int64)]


libc = ctypes.CDLL(None, use_errno=True)


def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read_for_ever(path):
    fd = os.open(path, os.O_RDONLY)
    while True:
        os.pread(fd, WRITES * BYTES, 0)


def main(path, rounds):
    with open(path, "wb") as file:
        file.write(bytes(WRITES * BYTES))
    readers = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            read_for_ever(path)
        readers.append(pid)
    try:
        write_and_look(path, rounds)
    finally:
        for pid in readers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def write_and_look(path, rounds):
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    seen = os.open(path, os.O_RDONLY)
    memory = mmap.mmap(-1, BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    context = ctypes.c_uint64(0)
    events = (Event * WRITES)()
    call(SETUP, WRITES, ctypes.byref(context))
    blocks = [Iocb(opcode=1, fd=fd, buf=address, nbytes=BYTES, offset=i * BYTES) for i in range(WRITES)]
    pointers = (ctypes.POINTER(Iocb) * WRITES)(*[ctypes.pointer(block) for block in blocks])
    for turn in range(rounds):
        memory[:] = bytes([turn % 255 + 1]) * BYTES
        if call(SUBMIT, context, ctypes.c_long(WRITES), pointers) != WRITES:
            raise OSError("not all were submitted")
        call(GETEVENTS, context, ctypes.c_long(WRITES), ctypes.c_long(WRITES), events, None)
        if any(event.res != BYTES for event in events):
            raise OSError("a write failed: %s" % [event.res for event in events])
        found = os.pread(seen, WRITES * BYTES, 0)
        if found != bytes([turn % 255 + 1]) * (WRITES * BYTES):
            sys.exit("round %d: %d of %d bytes are old" %
                     (turn, sum(byte != turn % 255 + 1 for byte in found), len(found)))


main(sys.argv[1], int(sys.argv[2]))
