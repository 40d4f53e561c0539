#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the results of bench/raid.sh: one JSON file, and from that file alone tables and plots.

raid.py collect FOLDER [KEY=VALUE]...  reads FOLDER/PART/PEER.ROUND: in levels what gpu4fs bench --json prints, in stripes, sizes and guest
                                       raid_bench's lines; a peer is SYSTEM-LEVEL or SYSTEM-LEVEL-STRIPE. Prints the JSON array
raid.py table FILE.json                prints the tables
raid.py plot FILE.json FOLDER          draws FOLDER/raid-*.png

Exit status: 0, also when a target is missed; 1 when something could not be read or drawn.
"""
import json
import pathlib
import statistics
import sys

from common import bars, commit, lines, machine, number, parse_size, ratio, report, times

METRICS = ["seq_write", "seq_read", "rand_read_4k", "rand_write_4k", "fsync_p50", "fsync_p99"]
LEVELS = ["one", "0", "1", "5", "6"]
BESIDE = {"1": ["btrfs-1", "btrfs-10"]}
NAMES = {"gpu4fs": "gpu4fs", "md": "MD, ext4", "btrfs": "Btrfs"}
GUEST_ROWS = [("calls", "write", "sequential write"), ("calls", "read", "sequential read"), ("small", "random read", "random 4 KiB read"),
              ("small", "random write", "random 4 KiB write"), ("small", "fsync p50", "overwrite + fsync, p50"),
              ("small", "fsync p99", "overwrite + fsync, p99")]
BTRFS_STRIPE = 64 << 10  # it has no other


# ---------------------------------------------------------------------------------------------------- collect


def results_of(folder):
    """[(peer, round, path)]; none where the part was left out."""
    return [(*path.name.rsplit(".", 1), path) for path in sorted(folder.iterdir())] if folder.is_dir() else []


def collect_levels(folder):
    results = {}
    for peer, turn, path in results_of(folder):
        for record in json.loads(path.read_text())["results"]:
            metric = results.setdefault(record["metric"], {"unit": record["unit"]})
            metric.setdefault(peer, {})[int(turn)] = (record["value"], record["cpu_seconds"])
    records = []
    for level in LEVELS:
        for metric in METRICS:
            measured = results.get(metric, {})
            key = f"gpu4fs-{level}"
            if key not in measured:
                continue
            names = [p for p in BESIDE.get(level, [f"btrfs-{level}"]) + ["gpu4fs-one"] if p in measured and p != key]
            median = {p: statistics.median(v for v, _ in measured[p].values()) for p in [key] + names}
            cpu = {p: round(statistics.median(c for _, c in measured[p].values()), 3) for p in [key] + names}
            ratios = {p: round(ratio(measured["unit"], median[key], median[p]), 4) for p in names}
            # every row beside Btrfs at its level; small synced writes on parity beside one disk as well
            wanted = {p: 0.5 if p == "gpu4fs-one" else 1.0 for p in names
                      if p != "gpu4fs-one" or (metric == "fsync_p50" and level == "5")}
            records.append({
                "bench": "raid", "part": "levels", "level": level, "metric": metric, "unit": measured["unit"], "ours": median[key],
                "peers": {p: median[p] for p in names}, "ratios": ratios, "targets": wanted,
                "met": all(ratios[p] >= least for p, least in wanted.items()), "cpu_seconds": cpu[key],
                "peers_cpu_seconds": {p: cpu[p] for p in names},
                "rounds": {"ours" if p == key else p: [v for v, _ in measured[p].values()] for p in [key] + names},
            })
    return records


def collect_lines(part, folder):
    values = {}
    for peer, _, path in results_of(folder):
        for line in path.read_text().splitlines():
            figure, series, x, *rest = line.split("\t")
            values.setdefault((peer, figure, series, int(x)), []).append([float(word) for word in rest])
    records = []
    for (peer, figure, series, x), rounds in values.items():
        system, level, *stripe = peer.split("-")
        value, cpu, kernel = (statistics.median(column) for column in zip(*rounds))
        if stripe or part == "stripes":
            stripe = [parse_size(stripe[0]) if stripe else BTRFS_STRIPE]
        records.append({"bench": "raid", "part": part, "system": system, "level": level, "stripe_bytes": stripe[0] if stripe else None,
                        "figure": figure, "series": series, "x": x, "unit": "us" if series.startswith("fsync") else "MB/s", "value": value,
                        "cpu_seconds": round(cpu, 4), "kernel_threads_seconds": round(kernel, 4), "rounds": [r[0] for r in rounds]})
    return records


def collect(folder, settings):
    folder = pathlib.Path(folder)
    records = collect_levels(folder / "levels")
    for part in ("stripes", "sizes", "guest"):
        records += collect_lines(part, folder / part)
    if not records:
        sys.exit("raid.py: no results of gpu4fs")
    same = {"settings": settings, "machine": machine(), "commit": commit()}
    return [record | same for record in records]


# ---------------------------------------------------------------------------------------------------- table


def of_part(records, part, **wanted):
    return [r for r in records if r["part"] == part and all(r[key] == value for key, value in wanted.items())]


def find(records, **wanted):
    return next((r for r in records if all(r[key] == value for key, value in wanted.items())), None)


def levels_of(records):
    return [level for level in LEVELS if any(r["level"] == level for r in records)]


def seconds(record):
    return f"{record['cpu_seconds']:.2f} + {record['kernel_threads_seconds']:.2f}"


def table_levels(records):
    print(f"{'level':<6}{'metric':<15}{'unit':<6}{'gpu4fs':>10}{'CPU s':>8}  beside")
    for record in records:
        beside = ", ".join(f"{peer} {number(value)} ({times(record['ratios'][peer])}"
                           f", CPU {record['peers_cpu_seconds'][peer]})" for peer, value in record["peers"].items())
        missed = "" if record["met"] else "  missed"
        print(f"{record['level']:<6}{record['metric']:<15}{record['unit']:<6}{number(record['ours']):>10}"
              f"{record['cpu_seconds']:>8}  {beside}{missed}")


def table_stripes(records):
    print("\nBy stripe length, MB/s in calls of 1 MiB (by Btrfs's, whose stripe is 64K); CPU s: of the process + of kernel threads")
    print(f"{'level':<6}{'stripe':>8}{'write':>18}{'CPU s':>14}{'read':>18}{'CPU s':>14}")
    for level in levels_of(records):
        own = [r for r in records if r["level"] == level]
        btrfs = {series: find(own, system="btrfs", series=series) for series in ("write", "read")}
        for system, stripe in sorted({(r["system"], r["stripe_bytes"]) for r in own}, key=lambda pair: (pair[0] == "btrfs", pair[1])):
            row = f"{level:<6}{'Btrfs' if system == 'btrfs' else f'{stripe >> 10}K':>8}"
            for series in ("write", "read"):
                record, beside = find(own, system=system, stripe_bytes=stripe, series=series), btrfs[series]
                by = f" ({times(record['value'] / beside['value'])})" if beside and system != "btrfs" else ""
                row += f"{number(record['value']) + by:>18}{seconds(record):>14}"
            print(row)


def memory_copy(records):
    found = [r["value"] for r in records if r["figure"] == "memory"]
    return statistics.median(found) if found else None


def table_sizes(records):
    copy = memory_copy(records)
    print(f"\nMemory copy, what no file system is faster than: {number(copy)} MB/s" if copy else "")
    for figure, across in (("calls", "by the KiB of a call"), ("files", "by MiB in all")):
        own = [r for r in records if r["figure"] == figure]
        sizes = sorted({r["x"] for r in own})
        print(f"\n{'Write and read' if figure == 'calls' else 'Write files'}, MB/s (by Btrfs's) {across}; CPU s of all: "
              "of the process + of kernel threads")
        unit = 10 if figure == "calls" else 20
        print(f"{'level':<6}{'what':<10}" + "".join(f"{x / (1 << unit):>16g}" for x in sizes) + f"{'gpu4fs CPU s':>16}{'Btrfs CPU s':>16}")
        for level in levels_of(own):
            for series in dict.fromkeys(r["series"] for r in own):
                row = f"{level:<6}{series:<10}"
                cells = {s: {r["x"]: r for r in own if (r["level"], r["series"], r["system"]) == (level, series, s)} for s in NAMES}
                for x in sizes:
                    ours, beside = cells["gpu4fs"].get(x), cells["btrfs"].get(x)
                    by = f" ({times(ours['value'] / beside['value'])})" if ours and beside else ""
                    row += f"{(number(ours['value']) if ours else '-') + by:>16}"
                for system in ("gpu4fs", "btrfs"):
                    all_seconds = {k: sum(r[k] for r in cells[system].values()) for k in ("cpu_seconds", "kernel_threads_seconds")}
                    row += f"{seconds(all_seconds) if cells[system] else '-':>16}"
                print(row)


def table_guest(records):
    print("\nIn a virtual machine whose processors are emulated: ratios and CPU count, not figures. By the others' (above 1: gpu4fs is better);"
          "\nCPU s: of the process + of kernel threads")
    print(f"{'level':<6}{'what':<24}{'unit':<6}{'gpu4fs':>9}{'CPU s':>14}" + "".join(f"{NAMES[s]:>18}{'CPU s':>14}" for s in ("md", "btrfs")))
    for level in levels_of(records):
        for figure, series, what in GUEST_ROWS:
            cells = {s: find(records, level=level, figure=figure, series=series, system=s) for s in NAMES}
            ours = cells["gpu4fs"]
            if not ours:
                continue
            row = f"{level:<6}{what:<24}{ours['unit']:<6}{number(ours['value']):>9}{seconds(ours):>14}"
            for system in ("md", "btrfs"):
                peer = cells[system]
                by = peer and f"{number(peer['value'])} ({times(ratio(ours['unit'], ours['value'], peer['value']))})"
                row += f"{by or '-':>18}{seconds(peer) if peer else '-':>14}"
            print(row)


def table(records):
    print(f"{records[0]['machine']['cpu']}, {records[0]['machine']['cores']} processors; {records[0]['settings']}")
    for part, show in (("levels", table_levels), ("stripes", table_stripes), ("sizes", table_sizes), ("guest", table_guest)):
        own = of_part(records, part)
        if own:
            show(own)


# ---------------------------------------------------------------------------------------------------- plot


def plot_stripes(records, folder):
    ends = (min(r["stripe_bytes"] for r in records) / 1024, max(r["stripe_bytes"] for r in records) / 1024)
    for series in ("write", "read"):
        shown = []
        for level in levels_of(records):
            own = [r for r in records if r["level"] == level and r["series"] == series]
            shown.append((f"gpu4fs, {level}", [(r["stripe_bytes"] / 1024, r["value"]) for r in own if r["system"] == "gpu4fs"]))
            btrfs = find(own, system="btrfs")
            shown.append((f"Btrfs, {level}, 64K", [(x, btrfs["value"]) for x in ends] if btrfs else []))
        lines(folder / f"raid-stripes-{series}.png", f"{series.capitalize()}s by stripe length (6.2)", "KiB of a stripe", "MB/s", shown, wide=True)


def plot_sizes(records, folder):
    copy = memory_copy(records)
    for level in levels_of(records):
        for figure, title, across, unit in (("calls", "by size of a call (6.3, 6.7, 6.12)", "KiB of a call", 1 << 10),
                                            ("files", "files written at once (6.4, 6.8, 6.13)", "MiB in all", 1 << 20)):
            own = [r for r in records if r["level"] == level and r["figure"] == figure]
            shown = [(f"{NAMES[s]}, {series}", [(r["x"] / unit, r["value"]) for r in own if (r["system"], r["series"]) == (s, series)])
                     for s in NAMES for series in dict.fromkeys(r["series"] for r in own)]
            if copy and own:
                shown.append(("memory copy", [(x / unit, copy) for x in sorted({r["x"] for r in own})]))
            lines(folder / f"raid-{figure}-{level}.png", f"Level {level}, {title}", across, "MB/s", shown, log=True, wide=True)


def plot_guest(records, folder):
    for figure, series, what in GUEST_ROWS:
        own = [r for r in records if (r["figure"], r["series"]) == (figure, series)]
        cells = [(level, [find(own, level=level, system=s) for s in NAMES]) for level in levels_of(own)]
        unit = own[0]["unit"] if own else ""
        bars(folder / f"raid-guest-{series.replace(' ', '-')}.png", f"{what.capitalize()}, emulated machine", unit, list(NAMES.values()),
             [(level, [r and r["value"] for r in row]) for level, row in cells])
    rows = []
    for level in levels_of(records):
        own = [r for r in records if r["level"] == level and (r["figure"], r["series"]) in {row[:2] for row in GUEST_ROWS[:-1]}]
        rows.append((level, [sum(r["cpu_seconds"] + r["kernel_threads_seconds"] for r in own if r["system"] == s) for s in NAMES]))
    bars(folder / "raid-guest-cpu.png", "CPU of all rows, emulated machine (6.6, 6.10, 6.15)", "seconds", list(NAMES.values()), rows)


def plot(records, folder):
    for part, draw in (("stripes", plot_stripes), ("sizes", plot_sizes), ("guest", plot_guest)):
        own = of_part(records, part)
        if own:
            draw(own, folder)
    own = of_part(records, "levels")
    rows = [(level, [sum(r["cpu_seconds"] for r in own if r["level"] == level),
                     sum(r["peers_cpu_seconds"].get(f"btrfs-{level}", 0) for r in own if r["level"] == level)]) for level in levels_of(own)]
    bars(folder / "raid-cpu.png", "CPU of all rows, without kernel threads", "seconds", ["gpu4fs", "Btrfs"], rows)


if __name__ == "__main__":
    report(__doc__, collect, table, plot)
