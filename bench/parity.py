#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parity by one core beside ISA-L: 1 to 4 parities of 4 and 10 chunks of data.

usage: parity.py [OPTION]...

  --build=DIR    where parity_bench is built [build/release]
  --rounds=N     how often everything is measured; the median counts [3]
  --seconds=S    of processor time for each figure and round [0.1]
  --mib=N        memory that "memory" goes through [256]

Figures are GB/s of data, in processor time. Ours and ISA-L's take turns of a millisecond in one process, and the median of each one's
turns counts. "cache" makes one stripe again and again, "memory" goes through the memory stripe by stripe. The peer is the fastest that
ISA-L has: ec_encode_data(), and for one parity xor_gen(), for two pq_gen(), all of which make the same bytes. The target is 0.9 times
that. Where libisal.so.2 is not installed it cannot be judged.

Writes build/bench/parity.json (bench/README.md says what the fields are). Exit status: 0, also when a target is missed; 1 when
something could not be measured.
"""
import json
import pathlib
import statistics
import subprocess
import sys

from common import commit, machine, ratio, times

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHUNKS = [4, 10]
BYTES = [4096, 65536, 1 << 20]
TARGET = 0.9


def options(words):
    settings = {"build": "build/release", "rounds": "3", "seconds": "0.1", "mib": "256"}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in settings or not value:
            sys.exit(__doc__ if word in ("-h", "--help") else f"parity.py: what is '{word}'? --help tells")
        settings[name] = value
    return settings


def measure(settings, k, size):
    """(m, where) -> name -> list of GB/s, one a round"""
    program, rows = ROOT / settings["build"] / "bin" / "parity_bench", {}
    for _ in range(int(settings["rounds"])):
        command = [program, "-t", settings["seconds"], "-m", settings["mib"], "-k", str(k), "-b", str(size)]
        m = 0
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
            row, value = line.split("\t")
            if row == "m":
                m = int(value)
                continue
            name, where = row.split(", ")
            rows.setdefault((m, where), {}).setdefault(name, []).append(float(value))
    return rows


def report(settings):
    records = []
    for size in BYTES:
        for k in CHUNKS:
            for (m, where), rates in sorted(measure(settings, k, size).items()):
                medians = {name: statistics.median(values) for name, values in rates.items()}
                ours = medians.pop("ours")
                best = max(medians, key=medians.get, default=None)
                # each round's ratio: what disturbs a round disturbs both
                each = [a / b for a, b in zip(rates["ours"], rates[best])] if best else []
                met = statistics.median(each) >= TARGET if each else None
                metric = f"{k}+{m}, {size // 1024} KiB, {where}"
                records.append({"bench": "parity", "engine": "cpu", "metric": metric, "unit": "GB/s", "ours": ours,
                                "peers": medians,
                                "ratios": {name: ratio("GB/s", ours, value) for name, value in medians.items()},
                                "target": {"peer": best, "ratio": TARGET} if best else None, "met": met,
                                "rounds_that_met": sum(one >= TARGET for one in each), "rounds": rates["ours"],
                                "settings": settings, "machine": machine(), "commit": commit()})
                print(f"{metric:24} {ours:7.2f} GB/s   " +
                      ", ".join(f"{name} {value:.2f} ({times(ours / value)})" for name, value in medians.items()) +
                      "   " + {None: "no peer", True: "met", False: "missed"}[met], flush=True)
    return records


def main():
    settings = options(sys.argv[1:])
    records = report(settings)
    target = ROOT / "build/bench/parity.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
