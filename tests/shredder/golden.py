#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes golden.h: cuts of small streams, computed from docs/shredder.md alone, in another language than the library's.

Usage: golden.py | clang-format > golden.h
"""

WINDOW = 48
MASK64 = (1 << 64) - 1


def stream(seed, count):
    """SplitMix64's outputs as little-endian bytes, every fourth KiB a copy of the first one."""
    out = bytearray()
    while len(out) < count:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK64
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    for at in range(4096, count - 1024, 4096):
        out[at : at + 1024] = out[:1024]
    return bytes(out[:count])


def gear_table():
    state, table = 0xA4093822299F31D0, []
    for _ in range(256):
        state = (state + 0x9E3779B97F4A7C15) & MASK64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        table.append((z ^ (z >> 31)) >> 32)
    return table


GEAR = gear_table()


def rabin(data, i, polynomial):
    window = (bytes(WINDOW) + data[max(0, i - WINDOW + 1) : i + 1])[-WINDOW:]
    value = int.from_bytes(window, "big")
    degree = polynomial.bit_length() - 1
    while value.bit_length() > degree:
        value ^= polynomial << (value.bit_length() - 1 - degree)
    return value


def gear(data, i):
    return sum(GEAR[data[i - k] if i >= k else 0] << k for k in range(32)) & 0xFFFFFFFF


def cuts(data, p):
    found, start, end = [], 0, 1
    hashes = [rabin(data, i, p["polynomial"]) if "polynomial" in p else gear(data, i) for i in range(len(data))]
    while end <= len(data):
        length, value, reason = end - start, hashes[end - 1], 0
        if "polynomial" in p:
            candidate = value % (1 << p["bits"]) == p["marker"]
        else:
            bits = p["bits"] + p["v"] if length < p["normal"] else p["bits"] - p["v"]
            candidate = value >> (32 - bits) == 0
        if length >= p["min"] and candidate:
            reason = 1
        elif length == p["max"]:
            reason = 2
        elif end == len(data):
            reason = 3
        if reason:
            raw = end
            while p["delimiter"] and end < len(data) and end - raw < p["record"] and data[end - 1] != p["delimiter"][0]:
                end += 1
            found.append((end, hashes[end - 1], reason))
            start = end
        end += 1
    return found


CASES = [
    {"name": "rabin", "bits": 10, "polynomial": 0x1243F6A93, "marker": 0x85A308D3 & 1023, "min": 256, "max": 8192},
    {"name": "rabin_53", "bits": 11, "polynomial": 0x3DA3358B4DC173, "marker": 5, "min": 1, "max": MASK64},
    {"name": "gear", "bits": 10, "v": 2, "normal": 1024, "min": 256, "max": 8192},
    {"name": "rabin_lines", "bits": 10, "polynomial": 0x1243F6A93, "marker": 0x85A308D3 & 1023, "min": 256, "max": 2048,
     "delimiter": b"\n", "record": 300},
]


def main():
    data = stream(2012, 40000)
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Made by golden.py: cuts of its stream by the rule of docs/shredder.md. */")
    print('#ifndef SHREDDER_GOLDEN_H\n#define SHREDDER_GOLDEN_H\n\n#include "model.h"\n')
    for case in CASES:
        case.setdefault("delimiter", b"")
        case.setdefault("record", 0)
        print(f"static const struct model_cut golden_{case['name']}[] = {{")
        for end, value, reason in cuts(data, case):
            print(f"\t{{{end}, 0x{value:x}, {reason}}},")
        print("};")
    print("\n#endif")


if __name__ == "__main__":
    main()
