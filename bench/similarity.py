#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figure 18 of the FAST'12 document: the bandwidth of a backup by how similar images are, emulated in memory as there.

usage: similarity.py [OPTION]...

  --build=DIR          where similarity_bench is built [build/release]
  --engines=A,B        of portable, avx2, avx512, cpu, cuda, cuda-dma; the first one is the baseline [portable,cpu]
  --size=SIZE          bytes of the master image [1G]
  --segment=SIZE       of which it consists [1M]
  --similarity=N,N     percent of the segments that stay, each drawn by itself [0,10,25,50,75,90,95,100]
  --threads=N          of each engine; 0: one a processor [0]
  --buffer-size=SIZE   of the ring; 0: the engine's default [0]
  --memory=KIND        of the image and the site: locked, as the document's, or pageable; `locked` is for GPUs alone, others
                       have pageable [locked]
  --senders=N          threads that copy new chunks to the site, beside the one that looks up; 0: that one does [3]
  --rounds=N           everything N times; the median counts [3]
  --out=DIR            where results go [build/bench]
  --quick              little of everything, to see that it runs

The site has the chunks of a master image. An image is made of it by replacing each segment with a probability; then time is
measured: cutting (minimum and maximum on), BLAKE3, a look-up of each chunk in the index of Shredder's backup, 64 at a time, and
the chunk or a pointer into the memory of the site, which must make the same image of them. `portable` is the document's
pthreads version: the same cuts by scalar code on all processors. The document feeds at most 1.25 GB/s (10 Gbit/s); here nothing
limits the input.

New chunks go to the site by threads that copy them, or with `cuda-dma` by copy engines of the GPU in the place of a network card,
which takes bytes from memory without a processor; they bring them to the GPU and back, so PCIe carries new bytes twice on the
way in. Figures are of wall time, with the processors that were busy in brackets.

Below the table: GB/s that each stage would give alone, so the lowest one limits. `transfer` and `kernel` are the GPU's (of other
engines: of all threads together), `store` the host's part beside them, `lookup` and `add` the index, `copy` the senders together,
`caller` the processor time of the thread that takes chunks, looks them up and hands them on; `begin` and `send wait` are
the microseconds before the first chunk and after the last one. Last, where index_bench is built (G4_TESTS): million look-ups a
second of the index alone, in memory, by all processors.

Targets: 20 GB/s on a GPU at 0 to 90 % similarity with less than two processors busy; 20 million look-ups a second.

Writes similarity.json and similarity.png. Exit status: 0; 1 when an engine that was named cannot run, which is said, or failed.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from common import bars, commit, machine, number, times

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DOCUMENT = "2.5 times the pthreads version, 1.25 GB/s at most (the generator's rate)"
TARGET = {"at_least_gb_per_s": 20, "processors_below": 2, "similarity_up_to": 90}
LOOKUPS_TARGET = 20  # million a second
COUNTED = ("bytes", "seconds", "cpu_seconds", "chunks", "new_chunks", "new_bytes")
STAGES = ("transfer", "kernel", "store", "lookup", "add", "copy", "caller_cpu")
# Runs of new chunks are never read again soon: memcpy() goes past the cache from here on, not from some MiB on.
ENVIRONMENT = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x40000"}


def size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        sys.exit(f"similarity.py: '{text}' is no size")
    return int(match[1]) * UNITS[match[2]]


def options(words):
    settings = {"build": "build/release", "engines": "portable,cpu", "size": "1G", "segment": "1M",
                "similarity": "0,10,25,50,75,90,95,100", "threads": "0", "buffer-size": "0", "rounds": "3", "memory": "locked",
                "senders": "3", "out": str(ROOT / "build/bench")}
    quick = False
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if word == "--quick":
            settings.update(size="8M", segment="256K", similarity="0,90", rounds="1")
            quick = True
        elif not word.startswith("--") or name not in settings or not value:
            sys.exit(__doc__ if word in ("-h", "--help") else f"similarity.py: what is '{word}'? --help tells")
        else:
            settings[name] = value
    return settings, quick


def run(program, *words):
    """Its output, or None: it could not run, and said why."""
    try:
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT)
    except OSError as error:
        return None, str(error)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip())


def judge(row):
    """Whether a GPU's row meets the target; None: it has none."""
    if not row["engine"].startswith("cuda") or row["similarity"] > TARGET["similarity_up_to"]:
        return None
    return row["gb_per_s"] >= TARGET["at_least_gb_per_s"] and row["processors"] < TARGET["processors_below"]


def measure(settings, engine, percents):
    """Rows of one engine, or None: it cannot run here."""
    name, _, way = engine.partition("-")
    out, why = run(pathlib.Path(settings["build"]) / "bin/similarity_bench", name, settings["threads"],
                   size(settings["buffer-size"]), size(settings["size"]), size(settings["segment"]), settings["rounds"],
                   settings["memory"] if name == "cuda" else "pageable", way or settings["senders"],
                   *[f"{1 - percent / 100:.4f}" for percent in percents])
    if out is None:
        print(f"similarity.py: {engine} is left out: {why}", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in out.splitlines()]
    rows = []
    for percent, probability in zip(percents, [line["probability"] for line in lines[:len(percents)]]):
        rounds = [line for line in lines if line["probability"] == probability]
        median = {key: statistics.median(line[key] for line in rounds) for key in COUNTED}
        stages = {key: statistics.median(line["stages"][key] for line in rounds) for key in rounds[0]["stages"]}
        row = {"similarity": percent, "engine": engine,
               **{key: rounds[0][key] for key in ("kernel", "threads", "buffers", "buffer_bytes", "min_bytes", "max_bytes")},
               **median,
               "gb_per_s": median["bytes"] / median["seconds"] / 1e9,
               "gb_per_cpu_s": median["bytes"] / median["cpu_seconds"] / 1e9,
               "processors": median["cpu_seconds"] / median["seconds"],
               "stage_seconds": stages,
               "stage_gb_per_s": {key: median["bytes"] / stages[key] / 1e9 if stages[key] else None for key in STAGES},
               "lookups_m_per_s": median["chunks"] / stages["lookup"] / 1e6 if stages["lookup"] else None}
        rows.append({**row, "met": judge(row)})
    return rows


def measure_index(settings, quick):
    """Rows of million look-ups a second, by how many threads; None: index_bench cannot run."""
    threads = os.cpu_count() or 1
    out, why = run(pathlib.Path(settings["build"]) / "bin/index_bench", "-t", threads, "-m", 1024,
                   100000 if quick else 5000000)
    if out is None:
        print(f"similarity.py: the index alone is left out: {why}", file=sys.stderr)
        return None
    rows = [{"what": "known" if what == "together" else "new", "threads": int(count), "m_per_s": float(wall),
             "m_per_cpu_s": float(cpu)}
            for what, wall, cpu, count in re.findall(r"^(together|new) +([\d.]+) M/s +([\d.]+) M/s of CPU +(\d+) threads",
                                                     out, re.M)]
    return [{**row, "target": LOOKUPS_TARGET if row["threads"] == threads else None,
             "met": row["m_per_s"] >= LOOKUPS_TARGET if row["threads"] == threads else None} for row in rows]


def print_table(settings, percents, engines, results):
    print(f"GB/s (processors busy) of a backup, {settings['size']} in segments of {settings['segment']}")
    print("similarity  new data  " + "  ".join(f"{engine:>16}" for engine in engines))
    for i, percent in enumerate(percents):
        rows = [results[engine][i] for engine in engines]
        cells = [f"{number(row['gb_per_s'])} ({number(row['processors'])})" for row in rows]
        against = [times(row["gb_per_s"] / rows[0]["gb_per_s"]) for row in rows[1:]]
        missed = [row["engine"] for row in rows if row["met"] is False]
        print(f"{percent:9.0f}%  {100 * rows[0]['new_bytes'] / rows[0]['bytes']:7.1f}%  " +
              "  ".join(f"{cell:>16}" for cell in cells) + "  " + " ".join(against) +
              (f"  target missed: {', '.join(missed)}" if missed else ""))


def print_stages(percents, engines, results):
    print("\nGB/s of each stage alone; us; million look-ups a second by one thread")
    print(f"{'engine':>10} {'similar':>8}" + "".join(f"{name.removesuffix('_cpu'):>10}" for name in STAGES) +
          f"{'begin':>10}{'send wait':>10}{'look-ups':>10}")
    for engine in engines:
        for percent, row in zip(percents, results[engine]):
            rates = "".join(f"{'-' if rate is None else number(rate):>10}" for rate in row["stage_gb_per_s"].values())
            ends = "".join(f"{1e6 * row['stage_seconds'][name]:10.0f}" for name in ("begin", "send_wait"))
            print(f"{engine:>10} {percent:7.0f}%{rates}{ends}{number(row['lookups_m_per_s'] or 0):>10}")


def main():
    settings, quick = options(sys.argv[1:])
    percents = [float(text) for text in settings["similarity"].split(",")]
    if not all(0 <= percent <= 100 for percent in percents):
        sys.exit("similarity.py: a similarity is between 0 and 100 percent")
    results = {engine: measure(settings, engine, percents) for engine in settings["engines"].split(",")}
    engines = [engine for engine, rows in results.items() if rows]
    if not engines:
        return 1
    print_table(settings, percents, engines, results)
    print_stages(percents, engines, results)
    index = measure_index(settings, quick)
    for row in index or []:
        print(f"index, {row['what']:5} chunks, {row['threads']:3} threads: {number(row['m_per_s'])} M/s, "
              f"{number(row['m_per_cpu_s'])} M/s of processor time" +
              (f"  target {'met' if row['met'] else 'missed'}" if row["target"] else ""))
    print(f"the document's figure 18: {DOCUMENT}")
    folder = pathlib.Path(settings["out"])
    folder.mkdir(parents=True, exist_ok=True)
    record = {"bench": "similarity", "commit": commit(), "machine": machine(), "settings": settings, "document": DOCUMENT,
              "target": TARGET, "rows": [row for engine in engines for row in results[engine]], "index": index}
    (folder / "similarity.json").write_text(json.dumps(record, indent=1) + "\n")
    table = [(f"{percent:.0f}%", [results[engine][i]["gb_per_s"] for engine in engines]) for i, percent in enumerate(percents)]
    bars(folder / "similarity.png", "Backup by similarity (FAST'12, figure 18)", "GB/s", engines, table)
    return 0 if len(engines) == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
