#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the results of bench/raid.sh: one JSON file, and from that file alone a table.

raid.py collect FOLDER [KEY=VALUE]...  reads FOLDER/PEER-LEVEL.ROUND (gpu4fs bench --json), prints the JSON array
raid.py table FILE.json                prints the table

Exit status: 0, also when a target is missed; 1 when something could not be read.
"""
import json
import pathlib
import statistics
import sys

from common import commit, machine, number, ratio, times

METRICS = ["seq_write", "seq_read", "rand_read_4k", "rand_write_4k", "fsync_p50", "fsync_p99"]
LEVELS = ["one", "0", "1", "5", "6"]
BESIDE = {"1": ["btrfs-1", "btrfs-10"]}


def read_results(folder):
    """{metric: {"unit": ..., peer: {round: (value, cpu_seconds)}}}"""
    results = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        peer, turn = path.name.rsplit(".", 1)
        for record in json.loads(path.read_text())["results"]:
            metric = results.setdefault(record["metric"], {"unit": record["unit"]})
            metric.setdefault(peer, {})[int(turn)] = (record["value"], record["cpu_seconds"])
    return results


def collect(folder, settings):
    results = read_results(folder)
    same = {"settings": settings, "machine": machine(), "commit": commit()}
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
                "bench": "raid", "level": level, "metric": metric, "unit": measured["unit"], "ours": median[key],
                "peers": {p: median[p] for p in names}, "ratios": ratios, "targets": wanted,
                "met": all(ratios[p] >= least for p, least in wanted.items()), "cpu_seconds": cpu[key],
                "peers_cpu_seconds": {p: cpu[p] for p in names},
                "rounds": {"ours" if p == key else p: [v for v, _ in measured[p].values()] for p in [key] + names},
            } | same)
    if not records:
        sys.exit("raid.py: no results of gpu4fs")
    return records


def table(records):
    print(f"{records[0]['machine']['cpu']}, {records[0]['machine']['cores']} processors; {records[0]['settings']}")
    print(f"{'level':<6}{'metric':<15}{'unit':<6}{'gpu4fs':>10}{'CPU s':>8}  beside")
    for record in records:
        beside = ", ".join(f"{peer} {number(value)} ({times(record['ratios'][peer])}"
                           f", CPU {record['peers_cpu_seconds'][peer]})" for peer, value in record["peers"].items())
        missed = "" if record["met"] else "  missed"
        print(f"{record['level']:<6}{record['metric']:<15}{record['unit']:<6}{number(record['ours']):>10}"
              f"{record['cpu_seconds']:>8}  {beside}{missed}")


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "collect":
        settings = dict(word.split("=", 1) for word in sys.argv[3:])
        json.dump(collect(sys.argv[2], settings), sys.stdout, indent=1)
        print()
    elif len(sys.argv) == 3 and sys.argv[1] == "table":
        table(json.loads(pathlib.Path(sys.argv[2]).read_text()))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
