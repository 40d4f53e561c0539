#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of the fuzz targets: a single edit each, spread over places, bytes and kinds (fuzz.h).

Usage: seeds.py FOLDER
"""
import pathlib
import random
import struct
import sys

EDITS = 256
KINDS = 7


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    choose = random.Random(1)
    for number in range(EDITS):
        edit = struct.pack("<HHBBHQ", choose.randrange(65536), 8 * (number % 64), number % KINDS, number // KINDS % 2,
                           choose.randrange(65536), choose.choice([0, 1, 0xff, 2**32 - 1, 2**64 - 1, choose.randrange(2**63)]))
        (folder / f"edit-{number:03}").write_bytes(edit)


main()
