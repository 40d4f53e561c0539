#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NVMe document's figures 6.2 to 6.9 on this machine: queues by block size, under load, and the cache by kind of hit and miss.

usage: nvme.py [OPTION]...             measures, prints the table, draws
       nvme.py table FILE.json
       nvme.py plot FILE.json FOLDER

  --build=DIR        where nvme_bench and cache_bench are built [build/release]
  --out=DIR          for nvme.json and nvme-*.png, and for a file to be read and written meanwhile [build/bench]
  --parts=NAME,...   memory, disk, load, cache [all]
  --seconds=S        of each row [0.1]
  --sizes=BYTES,...  of a request, at most 1 MiB [512 to 64 KiB by twos, 256 KiB, 1 MiB]
  --mib=N            memory that is the emulated controller's medium [64]
  --file-mib=N       of the file, written in full first [256]
  --threads=N        under load [64]
  --samples=N        of each kind of hit and miss [20000]
  --gpu=FILE,...     measures nothing: the rows that tests/gpu/nvme -f -o and gpu_bench -o ... acquire have written on a machine with a GPU,
                     to nvme-gpu.json and nvme-gpu-*.png
  --quick            shows in some seconds that everything runs

memory  the emulated controller over memory: raw queues, pairs of queues (tickets, many lanes), and the driver (slots, requests, retries). Who
        waits is the controller, so that each way is code of one thread: what a layer adds shows also where there is no processor to spare,
        and rates are of the thread's processor time. Bandwidth and requests a second with 32 under way (6.2, 6.3, 6.5, 6.6), latency with one (6.4, 6.7).
disk    a file on this machine's disk, without the page cache: the same over it, beside the kernel's io_uring and pread (32 threads). The
        emulated controller executes one command at a time, so with 32 under way it is no match for the kernel, as a drive would be.
load    many threads with one request each (6.8): the driver's queues as above; lanes as a GPU's have them, in one queue and in four by the
        mapper, with the controller's thread. The document has 8 192 lanes of a GPU, and so has --gpu.
cache   one thread (6.9; there with 8 192 lanes, and misses read a drive): the cache alone, whose pages come from nowhere, and reads of 4 KiB of a
        mount whose image is memory.

The document's numbers, of a Samsung 980 PRO filled with random data and an RTX A4500, are drawn beside ours, as far as its text has
them. Hit ratios of replayed traces (6.10, 6.11) are traces.py's. Exit status: 1 when something could not be measured or drawn.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import common
from common import boxes, commit, lines, number, where

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["memory", "disk", "load", "cache"]
SIZES = [512 << n for n in range(8)] + [256 << 10, 1 << 20]
LOAD_MOST = 64 << 10
MANY = 32  # requests under way for bandwidth
ORDERS = ["random", "sequential"]
NAMES = {"raw": "raw queue", "pair": "pair", "driver": "driver", "lanes": "lanes", "mapped": "lanes, mapper", "uring": "kernel, io_uring",
         "pread": "kernel, pread"}
WAYS = {"memory": ["raw", "pair", "driver"], "disk": ["raw", "driver", "uring", "pread"], "load": ["driver", "lanes", "mapped"]}
KINDS = ["hit", "peeked hit", "locked hit", "cold miss", "clean miss", "borrowed", "tier hit", "dirty"]
ON = {"memory": "emulated controller over memory", "disk": "a file on disk"}

# What the document's text says: GiB/s at most, requests/s of a trimmed drive (6.1), and boxes in us as common.boxes() has them.
BANDWIDTH = {"read": {"raw queue": 3.75, "virtual queues": 3.25}, "write": {"raw queue": 2.2, "virtual queues": 2.0}}
REQUESTS = 1e6
LATENCY = {"raw queue": [None, None, 100, None, None, None], "virtual queues": [None, None, 290, None, None, None]}
LOAD = {"read": [200, 1e3, None, 100e3, None, None], "write": [200, 100e3, None, 1e6, None, None]}
MISS = [1e3, 10e3, None, 100e3, None, 10e6]
CACHE = {"hit": [2, None, 1e3, None, None, None], "locked hit": [5e3, 100e3, None, 500e3, None, 10e6], "cold miss": MISS, "clean miss": MISS, "dirty": MISS}


# ------------------------------------------------------------------ measuring


def rows_of(program, words):
    """What a program prints, an object of JSON a line."""
    text = subprocess.run([str(program), *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def queues(options, part, words):
    rows = rows_of(ROOT / options["build"] / "bin/nvme_bench",
                   ["-j", "-i", "-s", options["seconds"], "-m", options["mib"], "-w", ",".join(WAYS[part]), *words])
    return [row | {"figure": part, "under_way": row["threads"] * row["depth"]} for row in rows]


def by_size(options, part, more):
    rows = []
    for op in ("read", "write"):
        for order in ORDERS:
            words = ["-b", options["sizes"], "-d", f"1,{MANY}", "-o", op]
            rows += queues(options, part, words + (["-q"] if order == "sequential" else []) + more)
    return rows


def on_disk(options, out):
    path = out / "nvme.file"
    try:
        with open(path, "wb") as file:  # all of it there before: nothing is allocated, and nothing reads as zeros
            for _ in range(int(options["file-mib"])):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        return by_size(options, "disk", ["-f", str(path)])
    finally:
        path.unlink(missing_ok=True)


def under_load(options):
    sizes = ",".join(size for size in options["sizes"].split(",") if int(size) <= LOAD_MOST)
    return [row for op in ("read", "write") for row in queues(options, "load", ["-b", sizes, "-t", options["threads"], "-o", op])]


def cached(options):
    rows = rows_of(ROOT / options["build"] / "bin/cache_bench", ["--json", f"--samples={options['samples']}"])
    return [row | {"figure": "cache"} for row in rows if row["level"] != "clock"]


def measure(options, out):
    rows = []
    for part in options["parts"].split(","):
        print(f"nvme: {part}", file=sys.stderr)
        rows += {"memory": lambda: by_size(options, part, []), "disk": lambda: on_disk(options, out),
                 "load": lambda: under_load(options), "cache": lambda: cached(options)}[part]()
    return rows


# ------------------------------------------------------------------ a GPU's


def gpu_queues(row):
    """A row of tests/gpu/nvme, in the words of nvme_bench."""
    many = row["controllers"] > 1
    return {key: row[key] for key in ("way", "op", "bytes", "controllers", "queues", "requests_s")} | {
        "figure": "load" if many else "memory", "medium": "memory", "order": "random", "threads": row["lanes"], "depth": row["depth"],
        "under_way": row["lanes"] * row["depth"], "ns": row["ns"][:4] + row["ns"][-2:]}


def gpu_rows(paths):
    rows, boxes_of_lanes = [], {}
    places = ["minimum", "25 %", "p50", "75 %", "p99.9", "maximum"]
    for path in paths:
        for row in json.loads(pathlib.Path(path).read_text()):
            acquired = re.fullmatch(r"a cached page, (.+), (\d+) warps, ([^,]+)", row.get("metric", ""))
            if acquired:
                found = boxes_of_lanes.setdefault(f"{acquired[1]}, {acquired[2]} warps", [None] * len(places))
                found[places.index(acquired[3])] = 1e3 * row["ours"]
            elif row.get("way") in NAMES and row["wrong"] == 0 and row["requests_s"] > 0:
                rows.append(gpu_queues(row))
    rows += [{"figure": "cache", "level": level, "kind": "hit", "ns": ns, "of_kind": None, "asked": None}
             for level, ns in boxes_of_lanes.items()]
    if not rows:
        raise ValueError("no rows of figures in " + ", ".join(map(str, paths)))
    return rows


# ------------------------------------------------------------------ the table


def size_name(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def rate(value):
    return number(value) if value >= 0.1 else f"{value:.2g}"


def microseconds(row):
    return [ns / 1e3 for ns in row["ns"]]


def requests(row):
    """A second. Where one thread is reader and controller, of its processor time: what others do on the machine is not in it."""
    return row["requests_cpu_s"] if row["figure"] == "memory" and row["engine"] == "cpu" else row["requests_s"]


def bandwidth(row):
    return requests(row) * row["bytes"] / (1 << 30)


def chosen(records, **wanted):
    return [r for r in records if all(r.get(key) == value for key, value in wanted.items())]


def present(records, key, order):
    found = {r[key] for r in records}
    return [name for name in order if name in found]


def table_of_sizes(records, figure, op, order, many):
    """Each way's bandwidth and requests with many under way, or its latency with one."""
    rows = [r for r in chosen(records, figure=figure, op=op, order=order) if (r["under_way"] > 1) == many]
    if not rows:
        return
    ways = present(rows, "way", NAMES)
    what = "GiB/s (thousand requests/s)" if many else "latency in us: median (99.9 %)"
    print(f"\n{'Reads' if op == 'read' else 'Writes'}, {order}, {ON.get(figure, figure)}, {rows[0]['under_way']} under way: {what}")
    print(f"{'':10}" + "".join(f"{NAMES[way]:>24}" for way in ways))
    for size in sorted({r["bytes"] for r in rows}):
        cells = ""
        for way in ways:
            found = chosen(rows, way=way, bytes=size)
            if not found:
                cells += f"{'-':>24}"
            elif many:
                cells += f"{rate(bandwidth(found[0]))} ({number(requests(found[0]) / 1e3)})".rjust(24)
            else:
                cells += f"{number(microseconds(found[0])[2])} ({number(microseconds(found[0])[4])})".rjust(24)
        print(f"{size_name(size):10}" + cells)


def show_box(name, values):
    cells = "".join(f"{'-' if value is None else number(value):>12}" for value in values)
    print(f"{name:44}{cells}")


HEAD = f"{'us':44}" + "".join(f"{name:>12}" for name in ("minimum", "25 %", "median", "75 %", "99.9 %", "maximum"))


def table(records):
    first = records[0]
    at = first["machine"]
    print(f"\n{at.get('gpu') or at['cpu']}, {at['cores']} cores, Linux {at['kernel']}; commit {first['commit'][:12]}; {first['settings']}")
    for figure in ("memory", "disk"):
        for op in ("read", "write"):
            for order in ORDERS:
                table_of_sizes(records, figure, op, order, True)
            table_of_sizes(records, figure, op, "random", False)
            if chosen(records, figure=figure, op=op):
                most = ", ".join(f"{name} {value}" for name, value in BANDWIDTH[op].items())
                print(f"document: at most {most} GiB/s, 1 million requests/s of a trimmed drive; latency: raw queue 100, virtual queues 290")
    for op in ("read", "write"):
        rows = chosen(records, figure="load", op=op)
        if rows:
            print(f"\n{'Reads' if op == 'read' else 'Writes'} under load, {rows[0]['under_way']} callers\n{HEAD}")
            for row in rows:
                show_box(f"{NAMES[row['way']]}, {size_name(row['bytes'])}, {number(row['requests_s'] / 1e3)} thousand/s", microseconds(row))
            show_box("document, 8 192 lanes, all sizes", LOAD[op])
    rows = chosen(records, figure="cache")
    if rows:
        print(f"\nA page by kind of hit and miss\n{HEAD}")
        for row in rows:
            show_box(f"{row['level']}: {row['kind']}", microseconds(row))
        for kind in present(rows, "kind", CACHE):
            show_box(f"document, 8 192 lanes: {kind}", CACHE[kind])


# ------------------------------------------------------------------ pictures


def across(sizes, name, value):
    """The document's, for all sizes."""
    return f"document: {name}", [(min(sizes), value), (max(sizes), value)]


def draw_rates(records, start, title, figure, op):
    rows = [r for r in chosen(records, figure=figure, op=op) if r["under_way"] > 1]
    sizes = [r["bytes"] for r in rows]
    if not rows:
        return
    number_of = "6.2, 6.5" if op == "read" else "6.3, 6.6"
    ways = [(way, order) for way in present(rows, "way", NAMES) for order in present(rows, "order", ORDERS)]
    for what, label, value, document in (
            ("bandwidth", "GiB/s", bandwidth, [across(sizes, f"{name}, at most {most}", most) for name, most in BANDWIDTH[op].items()]),
            ("requests", "thousand requests/s", lambda r: requests(r) / 1e3, [across(sizes, "trimmed drive, at most (6.1)", REQUESTS / 1e3)])):
        name = f"{start}-{op}-{what}.png"
        series = [(f"{NAMES[way]}, {order}", [(r["bytes"], value(r)) for r in chosen(rows, way=way, order=order)]) for way, order in ways]
        lines(name, f"{title}, {op}s, {rows[0]['under_way']} under way ({number_of})", "bytes of a request", label,
              series + document, log=True, wide=True)


def draw_boxes(png, title, rows, document):
    """By size, for each way; document: [(name, box)]."""
    ways = present(rows, "way", NAMES)
    groups = []
    for size in sorted({r["bytes"] for r in rows}):
        found = [chosen(rows, way=way, bytes=size) for way in ways]
        groups.append((size_name(size), [microseconds(f[0]) if f else None for f in found] + [box for _, box in document]))
    boxes(png, title, "us", [NAMES[way] for way in ways] + [f"document: {name}" for name, _ in document], groups)


def draw_cache(png, title, rows):
    if any(len(chosen(rows, kind=r["kind"])) > 2 for r in rows):  # a GPU's: one kind, by lanes
        document = [("document: 8 192 lanes", CACHE["hit"])]
        boxes(png, title, "us", ["a cached page"], [(name, [box]) for name, box in [(r["level"], microseconds(r)) for r in rows] + document])
        return
    levels = ["cache", "pread", "pwrite"]
    groups = [(kind, [next((microseconds(r) for r in chosen(rows, kind=kind, level=level)), None) for level in levels] + [CACHE.get(kind)])
              for kind in present(rows, "kind", KINDS)]
    boxes(png, title, "us", ["cache alone", "read of 4 KiB", "write of 4 KiB", "document: 8 192 lanes"], groups)


def plot(records, folder):
    folder.mkdir(parents=True, exist_ok=True)
    gpu = records[0]["engine"] == "cuda"
    start, who = folder / ("nvme-gpu" if gpu else "nvme"), "a GPU's lane" if gpu else "CPU"
    for figure in ("memory", "disk"):
        for op in ("read", "write"):
            name = start if figure == "memory" else f"{start}-disk"
            title = f"{who}, {ON[figure]}"
            draw_rates(records, name, title, figure, op)
            draw_boxes(f"{name}-{op}-latency.png", f"{title}, random {op}s, one under way (6.4, 6.7)",
                       chosen(records, figure=figure, op=op, order="random", under_way=1), list(LATENCY.items()))
    for op in ("read", "write"):
        rows = chosen(records, figure="load", op=op)
        if rows:
            draw_boxes(f"{start}-load-{op}.png", f"{'GPU' if gpu else 'CPU'}, random {op}s, {rows[0]['under_way']} callers with one each (6.8)",
                       rows, [("8 192 lanes", LOAD[op])])
    rows = chosen(records, figure="cache")
    if rows:
        draw_cache(f"{start}-cache.png", f"{'GPU' if gpu else 'CPU, one thread'}, a page by kind of hit and miss (6.9)", rows)


# ------------------------------------------------------------------ the run


def run():
    options = {"build": "build/release", "out": "build/bench", "parts": ",".join(PARTS), "seconds": "0.1", "mib": "64", "file-mib": "256",
               "threads": "64", "samples": "20000", "sizes": ",".join(map(str, SIZES)), "gpu": ""}
    common.take_options(options, {"seconds": "0.01", "mib": "4", "file-mib": "8", "threads": "8", "samples": "1000", "sizes": "512,4096,65536"},
                        __doc__)
    if not set(options["parts"].split(",")) <= set(PARTS):
        sys.exit(f"nvme.py: the parts are {', '.join(PARTS)}")
    out = pathlib.Path(options["out"])
    out.mkdir(parents=True, exist_ok=True)
    rows = gpu_rows(options["gpu"].split(",")) if options["gpu"] else measure(options, out)
    same = {"settings": {k: v for k, v in options.items() if k not in ("build", "out")} if not options["gpu"] else {},
            "machine": where(), "commit": commit()}
    records = [{"bench": "nvme", "engine": "cuda" if options["gpu"] else "cpu"} | row | same for row in rows]
    (out / ("nvme-gpu.json" if options["gpu"] else "nvme.json")).write_text(json.dumps(records, indent=1) + "\n")
    table(records)
    plot(records, out)


def main():
    words = sys.argv[1:]
    try:
        if len(words) == 2 and words[0] == "table":
            table(json.loads(pathlib.Path(words[1]).read_text()))
        elif len(words) == 3 and words[0] == "plot":
            plot(json.loads(pathlib.Path(words[1]).read_text()), pathlib.Path(words[2]))
        else:
            run()
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"nvme.py: {error!r}")


if __name__ == "__main__":
    main()
