#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figure 18 of the FAST'12 document: the bandwidth of a backup by how similar images are, emulated in memory as there.

usage: similarity.py [OPTION]...

  --build=DIR          where similarity_bench is built [build/release]
  --engines=A,B        of portable, avx2, avx512, cpu, cuda; the first one is the baseline [portable,cpu]
  --size=SIZE          bytes of the master image [256M]
  --segment=SIZE       of which it consists [1M]
  --similarity=N,N     percent of the segments that stay, each drawn by itself [0,10,25,50,75,90,95,100]
  --threads=N          of each engine; 0: one a processor [0]
  --memory=KIND        of the image: locked, as the document's, or pageable; `locked` is for cuda alone, others have pageable [locked]
  --senders=N          threads that copy new chunks to the site, beside the one that looks up; 0: that one does [2]
  --rounds=N           everything N times; the median counts [3]
  --quick              little of everything, to see that it runs

The site has the chunks of a master image. An image is made of it by replacing each segment with a probability; then time is
measured: cutting (minimum and maximum on), BLAKE3, a look-up of each chunk, and the chunk or a pointer into the memory of the
site, which must make the same image of them. `portable` is the document's pthreads version: the same cuts by scalar code on all
processors. The document feeds at most 1.25 GB/s (10 Gbit/s); here nothing limits the input. Figures are of wall time, and of
processor time in brackets.

Writes similarity.json and similarity.png into build/bench. Exit status: 0; 1 when an engine that was named cannot run, which
is said, or failed.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys

from common import bars, commit, machine, number, times

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DOCUMENT = "2.5 times the pthreads version, 1.25 GB/s at most (the generator's rate)"


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        sys.exit(f"similarity.py: '{text}' is no size")
    return int(match[1]) * UNITS[match[2]]


def options(words):
    settings = {"build": "build/release", "engines": "portable,cpu", "size": "256M", "segment": "1M",
                "similarity": "0,10,25,50,75,90,95,100", "threads": "0", "rounds": "3", "memory": "locked",
                "senders": "2"}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if word == "--quick":
            settings.update(size="8M", segment="256K", similarity="0,90", rounds="1")
        elif not word.startswith("--") or name not in settings or not value:
            sys.exit(__doc__ if word in ("-h", "--help") else f"similarity.py: what is '{word}'? --help tells")
        else:
            settings[name] = value
    return settings


def measure(settings, engine, percents):
    """Rows of one engine, or None: it cannot run here."""
    program = pathlib.Path(settings["build"]) / "bin/similarity_bench"
    done = subprocess.run([program, engine, settings["threads"], str(size(settings["size"])), str(size(settings["segment"])),
                           settings["rounds"], settings["memory"] if engine == "cuda" else "pageable", settings["senders"],
                           *[f"{1 - percent / 100:.4f}" for percent in percents]],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"similarity.py: {engine} is left out: {done.stderr.strip()}", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = []
    for percent, probability in zip(percents, [line["probability"] for line in lines[:len(percents)]]):
        rounds = [line for line in lines if line["probability"] == probability]
        median = {key: statistics.median(line[key] for line in rounds)
                  for key in ("bytes", "seconds", "cpu_seconds", "chunks", "new_chunks", "new_bytes")}
        rows.append({"similarity": percent, "engine": engine, "kernel": rounds[0]["kernel"], "threads": rounds[0]["threads"],
                     "min_bytes": rounds[0]["min_bytes"], "max_bytes": rounds[0]["max_bytes"], **median,
                     "gb_per_s": median["bytes"] / median["seconds"] / 1e9,
                     "gb_per_cpu_s": median["bytes"] / median["cpu_seconds"] / 1e9})
    return rows


def main():
    settings = options(sys.argv[1:])
    percents = [float(text) for text in settings["similarity"].split(",")]
    if not all(0 <= percent <= 100 for percent in percents):
        sys.exit("similarity.py: a similarity is between 0 and 100 percent")
    results = {engine: measure(settings, engine, percents) for engine in settings["engines"].split(",")}
    engines = [engine for engine, rows in results.items() if rows]
    if not engines:
        return 1
    print(f"GB/s (GB/s of processor time) of a backup, {settings['size']} in segments of {settings['segment']}")
    print("similarity  new data  " + "  ".join(f"{engine:>16}" for engine in engines))
    table = []
    for i, percent in enumerate(percents):
        rows = [results[engine][i] for engine in engines]
        cells = [f"{number(row['gb_per_s'])} ({number(row['gb_per_cpu_s'])})" for row in rows]
        against = [times(row["gb_per_s"] / rows[0]["gb_per_s"]) for row in rows[1:]]
        print(f"{percent:9.0f}%  {100 * rows[0]['new_bytes'] / rows[0]['bytes']:7.1f}%  " +
              "  ".join(f"{cell:>16}" for cell in cells) + "  " + " ".join(against))
        table.append((f"{percent:.0f}%", [row["gb_per_s"] for row in rows]))
    print(f"the document's figure 18: {DOCUMENT}")
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    record = {"bench": "similarity", "commit": commit(), "machine": machine(), "settings": settings, "document": DOCUMENT,
              "rows": [row for engine in engines for row in results[engine]]}
    (folder / "similarity.json").write_text(json.dumps(record, indent=1) + "\n")
    bars(folder / "similarity.png", "Backup by similarity (FAST'12, figure 18)", "GB/s", engines, table)
    return 0 if len(engines) == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
