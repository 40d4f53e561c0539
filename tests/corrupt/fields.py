#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of all fields of the structures in headers of src/format: a field that is added there is corrupted, too.

Usage: fields.py OUTPUT HEADER...
Each line is FIELD(struct, member, bytes of one element). A member that is a struct of ours is left to that struct's own lines.
"""
import re
import sys

BYTES = {"g4_le64": 8, "g4_le32": 4, "g4_le16": 2, "uint8_t": 1, "g4_ptr": 8, "struct g4_sums_places": 1}


def fields(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for struct in re.finditer(r"^struct (g4_\w+) \{(.*?)^\};", text, flags=re.S | re.M):
        if not any(word in struct[2] for word in ("g4_le", "struct g4_block_header")):
            continue  # not a structure of the disk
        for member in re.finditer(r"\b(g4_le\d+|uint8_t|struct g4_sums_places)\s+(\w+)((?:\[\w+\])*)", struct[2]):
            yield struct[1], member[2], BYTES[member[1]]


def main():
    found = []
    for name in sys.argv[2:]:
        with open(name, encoding="utf-8") as header:
            of_header = list(fields(header.read()))
        if len(of_header) < (100 if name.endswith("format.h") else 10):
            sys.exit(f"fields.py: the structures of {name} are not written as they were")
        found += of_header
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for struct, member, size in found:
            out.write(f"FIELD({struct}, {member}, {size})\n")


main()
