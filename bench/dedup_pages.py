#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of 4 KiB for bench/dedup.sh, on standard output: page n has contents of its own, the same in every run.

Usage: dedup_pages.py FIRST COUNT                     pages FIRST and following
       dedup_pages.py --files COUNT DIRECTORY         files of 1 to 16384 bytes there, 200 in a folder
       dedup_pages.py FIRST COUNT KNOWN PERCENT ROW   so many in a hundred are of pages 0 to KNOWN, in rows of ROW, the others from FIRST on
"""

import os
import random
import sys

PAGE_BYTES = 4096


def numbers(first, count, known, percent, row):
    choose = random.Random(first)
    while count > 0:
        some = min(row, count)
        if choose.randrange(100) < percent:
            begin = choose.randrange(known - some + 1)
        else:
            begin, first = first, first + some
        yield from range(begin, begin + some)
        count -= some


def files(count, top):
    choose = random.Random(0)
    for number in range(count):
        folder = f"{top}/{number // 200}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{number}", "wb") as file:
            file.write(choose.randbytes(choose.randrange(1, 4 * PAGE_BYTES + 1)))


def main():
    if sys.argv[1] == "--files":
        files(int(sys.argv[2]), sys.argv[3])
        return
    first, count, known, percent, row = [int(word) for word in sys.argv[1:]] + [0, 0, 128][len(sys.argv) - 3:]
    for number in numbers(first, count, known, percent, row):
        sys.stdout.buffer.write(random.Random(number).randbytes(PAGE_BYTES))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 6):
        sys.exit(__doc__)
    main()
