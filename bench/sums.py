#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums of 4 KiB pages by one core: BLAKE3, XXH3-128 and CRC-32C beside b3sum, libxxhash and Fletcher-4.

usage: sums.py [OPTION]...

  --build=DIR    where sums_bench is built [build/release]
  --rounds=N     how often everything is measured, in turns; the median counts [5]
  --mib=N        memory that is gone through, and the size of b3sum's file [512]
  --folder=DIR   for that file; it should lie in memory [/dev/shm]

All figures are of processor time. b3sum gets its file from the page cache, by mmap and by read(), and the faster way counts: `b3sum` is
all of its time; of `b3sum user time` page faults and read()'s copying, which leaves the data in the cache, are not part. Where
b3sum or libxxhash is not installed, they are left out and the target cannot be judged.

Writes build/bench/sums.json (bench/README.md says what the fields are). Exit status: 0, also when a target is missed; 1 when
something could not be measured.
"""
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import commit, machine, ratio, times

ROOT = pathlib.Path(__file__).resolve().parent.parent
# metric, our row, peers' rows, target: at least this ratio to the first peer
METRICS = [
    ("BLAKE3 of 4 KiB pages", "BLAKE3", ["b3sum", "b3sum user time"], 1.2),
    ("XXH3-128 of 4 KiB pages", "XXH3-128", ["XXH3-128 libxxhash", "XXH3-128 portable", "Fletcher-4"], None),
    ("CRC-32C of 4 KiB pages", "CRC-32C", ["CRC-32C portable"], None),
]


def options(words):
    settings = {"build": "build/release", "rounds": "5", "mib": "512", "folder": "/dev/shm"}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in settings or not value:
            sys.exit(__doc__ if word in ("-h", "--help") else f"sums.py: what is '{word}'? --help tells")
        settings[name] = value
    return settings


def b3sum(path, bytes_there, how):
    """GB/s of all processor time, and of user time. The kernel counts that in ticks: the file is hashed several times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["b3sum", "--num-threads", "1", *how, *[path] * 4], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return 4 * bytes_there / 1e9 / (user + system), 4 * bytes_there / 1e9 / user


def measure(settings):
    """row -> list of GB/s, one a round"""
    mib, rows = int(settings["mib"]), {}
    program = ROOT / settings["build"] / "bin" / "sums_bench"
    with tempfile.NamedTemporaryFile(dir=settings["folder"]) as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
        file.flush()
        for _ in range(int(settings["rounds"])):
            printed = subprocess.run([program, "-m", str(mib)], check=True, capture_output=True, text=True).stdout
            for line in printed.splitlines():
                row, value = line.split("\t")
                rows.setdefault(row, []).append(float(value))
            if shutil.which("b3sum"):
                rates = [b3sum(file.name, mib << 20, how) for how in ([], ["--no-mmap"])]
                rows.setdefault("b3sum, memory", []).append(max(rate for rate, _ in rates))
                rows.setdefault("b3sum user time, cache", []).append(max(rate for _, rate in rates))
    return rows


def report(rows, settings):
    records = []
    for metric, ours, peers, target in METRICS:
        for where in ("memory", "cache"):
            medians = {peer: statistics.median(rows[f"{peer}, {where}"]) for peer in peers if f"{peer}, {where}" in rows}
            value = statistics.median(rows[f"{ours}, {where}"])
            ratios = {peer: ratio("GB/s", value, median) for peer, median in medians.items()}
            aim = {"peer": peers[0], "ratio": target} if target and where == "memory" else None
            met = ratios[peers[0]] >= target if aim and peers[0] in ratios else None
            records.append({"bench": "sums", "engine": "cpu", "metric": f"{metric}, {where}", "unit": "GB/s",
                            "ours": value, "peers": medians, "ratios": ratios, "target": aim, "met": met,
                            "rounds": rows[f"{ours}, {where}"], "settings": settings, "machine": machine(),
                            "commit": commit()})
            print(f"{metric + ', ' + where:34} {value:7.2f} GB/s   " +
                  ", ".join(f"{peer} {medians[peer]:.2f} ({times(ratios[peer])})" for peer in medians) +
                  ("" if not aim else f"   target {target}: " + {None: "no peer", True: "met", False: "missed"}[met]))
    return records


def main():
    settings = options(sys.argv[1:])
    records = report(measure(settings), settings)
    target = ROOT / "build/bench/sums.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
