#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Binds to libshredder.so with ctypes alone, as any language with a C interface can, and compares with docs/shredder.md.

Usage: test_python.py LIBRARY
"""

import ctypes
import pathlib
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_uint8, c_uint32, c_uint64, c_void_p

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden  # noqa: E402


class Params(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("algorithm", c_uint32),
        ("mask_bits", c_uint32),
        ("normalization", c_uint32),
        ("polynomial", c_uint64),
        ("marker", c_uint64),
        ("min_bytes", c_uint64),
        ("max_bytes", c_uint64),
        ("normal_bytes", c_uint64),
        ("delimiter_bytes", c_uint32),
        ("reserved", c_uint32),
        ("delimiter", c_uint8 * 32),
        ("record_bytes", c_uint64),
        ("record", c_void_p),
        ("record_user", c_void_p),
    ]


class Options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("engine", c_char_p),
        ("threads", c_uint32),
        ("buffers", c_uint32),
        ("buffer_bytes", c_uint64),
        ("params", POINTER(Params)),
        ("gpus", POINTER(c_uint32)),
        ("gpus_count", c_uint32),
        ("reserved", c_uint32),
    ]


class Chunk(Structure):
    _fields_ = [
        ("offset", c_uint64),
        ("length", c_uint64),
        ("fingerprint", c_uint64),
        ("data", c_void_p),
        ("cut", c_uint32),
        ("reserved", c_uint32),
        ("digest", c_uint8 * 32),
    ]


def bind(path):
    library = ctypes.CDLL(path)
    library.shredder_open.argtypes = [POINTER(Options), POINTER(c_void_p)]
    library.shredder_begin_buffer.argtypes = [c_void_p, c_char_p, c_uint64]
    library.shredder_begin_push.argtypes = [c_void_p]
    library.shredder_push.argtypes = [c_void_p, c_char_p, c_uint64]
    library.shredder_push.restype = c_int64
    library.shredder_push_end.argtypes = [c_void_p]
    library.shredder_next.argtypes = [c_void_p, POINTER(Chunk)]
    library.shredder_close.argtypes = [c_void_p]
    library.shredder_close.restype = None
    library.shredder_strerror.argtypes = [c_int]
    library.shredder_strerror.restype = c_char_p
    return library


def take(library, chunker, data, found):
    """Appends what shredder_next() gives; its last result."""
    chunk = Chunk()
    while (result := library.shredder_next(chunker, byref(chunk))) == 1:
        found.append((chunk.offset, chunk.length, chunk.fingerprint, chunk.cut, bytes(chunk.digest)))
        if chunk.data:
            part = ctypes.string_at(chunk.data, chunk.length)
            assert part == data[chunk.offset : chunk.offset + chunk.length], "the chunk's bytes"
    return result


def chunk_buffer(library, chunker, data):
    found = []
    assert library.shredder_begin_buffer(chunker, data, len(data)) == 0
    assert take(library, chunker, data, found) == 0
    return found


def chunk_pieces(library, chunker, data):
    found, at = [], 0
    assert library.shredder_begin_push(chunker) == 0
    while at < len(data):
        piece = data[at : at + 1777]
        at += library.shredder_push(chunker, piece, len(piece))
        take(library, chunker, data, found)
    assert library.shredder_push_end(chunker) == 0
    assert take(library, chunker, data, found) == 0
    return found


def main():
    library = bind(sys.argv[1])
    params = Params(size=ctypes.sizeof(Params), mask_bits=10)
    options = Options(size=ctypes.sizeof(Options), engine=b"cpu", threads=2, buffer_bytes=8192)
    options.params = ctypes.pointer(params)
    chunker = c_void_p()
    result = library.shredder_open(byref(options), byref(chunker))
    assert result == 0, library.shredder_strerror(result)

    data = golden.stream(1, 20000)
    wanted = golden.cuts(data, dict(golden.CASES[0], delimiter=b"", record=0))
    for chunks in (chunk_buffer(library, chunker, data), chunk_pieces(library, chunker, data)):
        assert [(offset + length, fingerprint, cut) for offset, length, fingerprint, cut, _ in chunks] == wanted
        assert [chunk[0] for chunk in chunks] == [0] + [end for end, _, _ in wanted[:-1]]
        assert len({chunk[4] for chunk in chunks}) == len({data[c[0] : c[0] + c[1]] for c in chunks}), "digests"
    library.shredder_close(chunker)

    params.polynomial = 1 << 32
    result = library.shredder_open(byref(options), byref(chunker))
    assert library.shredder_strerror(result) == b"the polynomial is reducible", result
    options.size = 1
    assert library.shredder_strerror(library.shredder_open(byref(options), byref(chunker))).startswith(b"the structure")


if __name__ == "__main__":
    main()
