#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when device code uses a function or variable that no device object defines.

Usage: device_symbols.py [--readelf PROGRAM] FOLDER...   (folders with the .cubin files of nvcc --keep)
"""

import argparse
import pathlib
import subprocess
import sys

# What the CUDA run-time system itself provides.
SYSTEM = {"vprintf", "__assertfail", "malloc", "free"}


def symbols(readelf, cubin):
    """Yields (name, defined) for every global function and object of a device object."""
    text = subprocess.run([readelf, "--symbols", "--wide", str(cubin)], check=True, capture_output=True, text=True)
    for line in text.stdout.splitlines():
        field = line.split()
        if len(field) == 8 and field[0][:-1].isdigit() and field[3] in ("FUNC", "OBJECT", "NOTYPE"):
            if field[4] == "GLOBAL":
                yield field[7], field[6] != "UND"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()

    defined = set(SYSTEM)
    used = {}
    count = 0
    for folder in arguments.folders:
        cubins = sorted(pathlib.Path(folder).glob("*.cubin"))
        if not cubins:
            print(f"device_symbols: no .cubin in {folder}", file=sys.stderr)
            return 1
        for cubin in cubins:
            for name, is_defined in symbols(arguments.readelf, cubin):
                count += 1
                if is_defined:
                    defined.add(name)
                else:
                    used.setdefault(name, set()).add(cubin.name)
    missing = sorted(set(used) - defined)
    for name in missing:
        print(f"device_symbols: {name} is used in {', '.join(sorted(used[name]))} but defined nowhere", file=sys.stderr)
    if not missing:
        print(f"device_symbols: {count} symbols, all resolved")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
