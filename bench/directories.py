#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the results of bench/directories.sh: one JSON file, and from that file alone a table and plots.

directories.py collect FOLDER [KEY=VALUE]...  reads FOLDER/PEER.ROUND (directories_bench), prints the JSON array
directories.py table FILE.json                prints the table
directories.py plot FILE.json FOLDER          draws FOLDER/directories-FIGURE.png

Exit status: 0, also when a target is missed; 1 when something could not be read or drawn.
"""
import pathlib
import re
import statistics
import sys

from common import bars, commit, lines, machine, number, report, times

PEERS = ["inprocess", "fuse", "ext4", "xfs", "btrfs"]
NAMES = {"inprocess": "gpu4fs", "fuse": "gpu4fs, FUSE"}
# figure: unit, what is on the axis of x, title with the document's figure
FIGURES = {
    "base": ("us", "threads", "One call, base latency (15)"),
    "start": ("ms", "", "Mount to first answer (16)"),
    "chain": ("ms", "levels", "Making a chain of directories (17)"),
    "deep": ("ms", "levels", "256 look-ups of the last directory of a chain (18, 19)"),
    "wide": ("ms", "subdirectories", "512 look-ups in a directory (20, 21)"),
    "make": ("ms", "subdirectories", "Making directories in one directory (22)"),
    "own": ("ms", "subdirectories", "Making directories, each thread in one of its own (6.2)"),
    "makers": ("M/s", "threads", "Making files in one directory"),
    "list": ("M/s", "threads", "Listing a directory"),
    "tree": ("s", "", "A tree of files"),
}
TARGETS = {"deep": 2.0}  # of the library to ext4, one thread, the longest x
THREADS = re.compile(r"(?:(.*), )?(\d+) threads?")


def split(series):
    """The way and the number of threads of a series; None: it has none."""
    match = THREADS.fullmatch(series)
    return (match[1] or "", int(match[2])) if match else (series, None)


def collect(folder, settings):
    values = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        peer = path.name.rsplit(".", 1)[0]
        for line in path.read_text().splitlines():
            figure, series, x, value = line.split("\t")
            x = 0 if figure == "start" else int(x)  # all mounts are of one kind
            values.setdefault((figure, series, x, peer), []).append(float(value))
    if not values:
        sys.exit("directories.py: no results")
    same = {"settings": settings, "machine": machine(), "commit": commit()}
    return [{"bench": "directories", "figure": figure, "unit": FIGURES[figure][0], "peer": peer, "series": series, "x": x,
             "value": statistics.median(all_values), "rounds": all_values} | same
            for (figure, series, x, peer), all_values in values.items()]


def best(records, peer, threads):
    """{x: the best way's value}; the trees' series are what is done, and taken as x."""
    found = {}
    for record in records:
        way, count = split(record["series"])
        if record["peer"] == peer and count == threads:
            x = way if record["figure"] == "tree" else record["x"]
            better = max if record["unit"] == "M/s" else min
            found[x] = better(found[x], record["value"]) if x in found else record["value"]
    return found


def table(records):
    where = records[0]["machine"]
    peers = [p for p in PEERS if any(r["peer"] == p for r in records)]
    print(f"\n{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {records[0]['commit'][:12]}; "
          f"{records[0]['settings']}")
    print("Medians. In brackets: how many times as good the library in this process is. Of several ways the best counts.")
    for figure, (unit, across, title) in FIGURES.items():
        own = [r for r in records if r["figure"] == figure]
        for threads in sorted({split(r["series"])[1] for r in own}, key=lambda n: n or 0):
            cells = {p: best(own, p, threads) for p in peers}
            many = f", {threads} thread{'s' if threads > 1 else ''}" if threads else ""
            print(f"\n{title}{many}, {unit}\n{across:<16}" + "".join(f"{NAMES.get(p, p):>20}" for p in peers))
            for x in sorted({x for p in peers for x in cells[p]}):
                ours = cells.get("inprocess", {}).get(x)
                row = ""
                for peer in peers:
                    value = cells[peer].get(x)
                    if value is None:
                        row += f"{'-':>20}"
                        continue
                    ratio = None if ours is None else ours / value if unit == "M/s" else value / ours
                    row += f"{number(value)}{'' if peer == 'inprocess' else f' ({times(ratio)})':>10}".rjust(20)
                print(f"{x or '':<16}{row}")
            if threads == 1 and figure in TARGETS and cells.get("ext4") and cells.get("inprocess"):
                x = max(cells["ext4"])
                ratio = cells["ext4"][x] / cells["inprocess"][x]
                print(f"target at {x}: {TARGETS[figure]:.1f}x ext4: {'met' if ratio >= TARGETS[figure] else 'missed'}")


def points(records, figure, peer, series):
    return [(r["x"], r["value"]) for r in records
            if r["figure"] == figure and r["peer"] == peer and r["series"] == series]


def plot(records, folder):
    for figure, (unit, across, title) in FIGURES.items():
        png = pathlib.Path(folder) / f"directories-{figure}"
        own = [r for r in records if r["figure"] == figure]
        peers = [p for p in PEERS if any(r["peer"] == p for r in own)]
        if not own:
            continue
        if not across:
            rows = sorted({r["series"] for r in own})
            bars(f"{png}.png", title, unit, [NAMES.get(p, p) for p in peers],
                 [(s or "mount", [next((r["value"] for r in own if (r["peer"], r["series"]) == (p, s)), None) for p in peers])
                  for s in rows])
            continue
        pairs = sorted({(PEERS.index(r["peer"]), *split(r["series"])) for r in own}, key=str)

        def line(place, way, threads):
            peer = PEERS[place]
            series = way if threads is None else (f"{way}, " if way else "") + f"{threads} thread{'s' if threads > 1 else ''}"
            return ", ".join(filter(None, (NAMES.get(peer, peer), series))), points(own, figure, peer, series)

        lines(f"{png}.png", title, across, unit, [line(*p) for p in pairs if p[2] in (None, 1)], log=figure in ("deep", "chain"))
        if any(p[2] not in (None, 1) for p in pairs):
            lines(f"{png}-threads.png", f"{title}, by threads", across, unit,
                  [line(*p) for p in pairs if PEERS[p[0]] in ("inprocess", "ext4")], log=figure == "deep")


if __name__ == "__main__":
    report(__doc__, collect, table, plot)
