#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the results of bench/run.sh: one JSON file, and from that file alone a table and plots.

report.py collect FOLDER [KEY=VALUE]...  reads FOLDER/PEER.ROUND (gpu4fs bench --json), prints the JSON array
report.py table FILE.json                prints the table
report.py plot FILE.json FOLDER          draws FOLDER/NAME-*.png

Exit status: 0, also when a target is missed; 1 when something could not be read or drawn.
"""
import json
import pathlib
import statistics
import sys

from common import bars, commit, machine, number, ratio, report, times

ENGINES = {"inprocess": "in-process", "fuse": "FUSE", "preload": "interception", "inprocess-blake3": "in-process, BLAKE3",
           "inprocess-xxh3": "in-process, XXH3", "inprocess-crc32c": "in-process, CRC-32C"}
# what sums cost: the same measurements, judged against those without
COSTS = {"inprocess-blake3": "cost of BLAKE3", "inprocess-xxh3": "cost of XXH3", "inprocess-crc32c": "cost of CRC-32C"}
PEERS = ["ext4", "xfs", "btrfs", "btrfs-xxhash", "btrfs-blake2", "passthrough_hp"]
BESIDE = {"in-process, BLAKE3": "btrfs-blake2", "in-process, XXH3": "btrfs"}  # who is to be slower in every row
SMALL = ["small_write", "small_read"]
METADATA = ["create", "stat", "lookup", "rename", "unlink"]
BATCHES = ["batch_create", "batch_stat", "batch_unlink"]  # behind system calls: one by one
DEEP = ["deep_mkdir", "deep_stat"]  # behind system calls: mkdirat and openat a level
DATA = ["seq_write", "seq_read", "rand_write_4k", "rand_read_4k", "cached_read_4k"]
LATENCY = ["fsync_p50", "fsync_p99"]
METRICS = METADATA + BATCHES + DEEP + DATA + SMALL + LATENCY


def target_of(engine, metric):
    """What the project asks for: a ratio to a peer (above 1 is better), an absolute limit, or nothing."""
    if engine in BESIDE:
        return {"peer": BESIDE[engine], "ratio": 1.0} if metric != "lookup" else None
    if engine == "FUSE" and metric in SMALL + BATCHES + DEEP:
        return None
    if engine == "FUSE":
        return {"peer": "passthrough_hp", "ratio": 1.5 if metric in METADATA else 1.0}
    if metric == "cached_read_4k":
        return {"at_most": 1000}
    if metric in LATENCY:
        return {"peer": "ext4", "ratio": round(1 / 1.5, 3)}
    if metric in ("seq_write", "seq_read"):
        return {"peer": "ext4", "ratio": 1.0}
    if metric in METADATA and metric != "lookup":  # nothing can be forgotten in-process: no fair comparison
        return {"peer": "ext4", "ratio": 3.0}
    if metric in BATCHES:
        return {"peer": "ext4", "ratio": 3.0}
    if metric in DEEP:
        return {"peer": "ext4", "ratio": 2.0}
    return None


def cost_target(key, metric, without, settings):
    """What sums may cost; `without`: the median without them. Hashing alone is measured by run.sh."""
    rate = float(settings.get("hash_gb_s_" + key.split("-")[1], 0)) * 1000
    if metric == "fsync_p50":
        return {"peer": "inprocess", "ratio": round(1 / 1.1, 3)}
    if metric == "seq_write" and rate:
        return {"at_least": round(0.95 / (1 / without + 1 / rate), 1)}
    return None


def reaches(unit, target, ours, peer):
    """True, False, or None when there is nothing to compare with."""
    if target is None:
        return None
    if "at_least" in target:
        return ours >= target["at_least"]
    if "at_most" in target:
        return ours <= target["at_most"]
    value = ratio(unit, ours, peer)
    return None if value is None else value >= target["ratio"]


# ---------------------------------------------------------------------------------------------------- collect


def read_results(folder):
    """{metric: {"unit": ..., peer: {round: (value, cpu_seconds)}}}"""
    results = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        peer, turn = path.name.rsplit(".", 1)
        for record in json.loads(path.read_text())["results"]:
            metric = results.setdefault(record["metric"], {"unit": record["unit"]})
            metric.setdefault(peer, {})[int(turn)] = (record["value"], record["cpu_seconds"])
    return results


def judge(measured, key, engine, metric, names, target):
    """A record of `metric` as `key` has it, beside the peers `names`."""
    unit = measured["unit"]
    median = {p: statistics.median(v for v, _ in measured[p].values()) for p in [key] + names}
    cpu = {p: round(statistics.median(c for _, c in measured[p].values()), 3) for p in [key] + names}
    against = target.get("peer") if target else None
    each = [reaches(unit, target, value, measured.get(against, {}).get(turn, (None,))[0])
            for turn, (value, _) in measured[key].items()]
    return {
        "bench": "filesystem",
        "engine": engine,
        "metric": metric,
        "unit": unit,
        "ours": median[key],
        "peers": {p: median[p] for p in names},
        "ratios": {p: round(ratio(unit, median[key], median[p]), 4) for p in names},
        "target": target,
        "met": reaches(unit, target, median[key], median.get(against)),
        "rounds_that_met": each.count(True),
        "cpu_seconds": cpu[key],
        "peers_cpu_seconds": {p: cpu[p] for p in names},
        "rounds": {"ours" if p == key else p: [v for v, _ in measured[p].values()] for p in [key] + names},
    }


def collect(folder, settings):
    results = read_results(folder)
    same = {"settings": settings, "machine": machine(), "commit": commit()}
    records = []
    for key, engine in ENGINES.items():
        for metric in METRICS:
            measured = results.get(metric, {})
            if key in measured:
                names = [peer for peer in PEERS if peer in measured]
                records.append(judge(measured, key, engine, metric, names, target_of(engine, metric)) | same)
    for key, engine in COSTS.items():
        for metric in METRICS:
            measured = results.get(metric, {})
            if key in measured and "inprocess" in measured:
                without = statistics.median(v for v, _ in measured["inprocess"].values())
                target = cost_target(key, metric, without, settings)
                records.append(judge(measured, key, engine, metric, ["inprocess"], target) | same)
    if not records:
        sys.exit("report.py: no results of gpu4fs")
    return records


# ---------------------------------------------------------------------------------------------------- table


def target_text(record):
    target = record["target"]
    if target is None:
        return "-"
    if "at_most" in target:
        return f"<= {target['at_most']} {record['unit']}"
    if "at_least" in target:
        return f">= {target['at_least']} {record['unit']}"
    return f"{target['ratio']:.2f}x {target['peer']}"


def verdict(record):
    if record["met"] is None:
        return ""
    count, met = len(record["rounds"]["ours"]), record["rounds_that_met"]
    word = "met" if record["met"] else "missed"
    return word if met in (0, count) else f"{word} ({met} of {count} rounds)"


def table(records):
    where = records[0]["machine"]
    peers = [p for p in PEERS if any(p in r["peers"] for r in records)]
    rounds = len(records[0]["rounds"]["ours"])
    print(f"\n{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {records[0]['commit'][:12]}")
    print(f"Medians of {rounds} round{'s' if rounds > 1 else ''}. Every file system had the same image file of "
          f"{records[0]['settings'].get('image_mib', '?')} MiB, written in full before.")
    print("Ratios are gpu4fs to the others; above 1 gpu4fs is better. CPU s: user and system time of the workload and")
    print("of a FUSE server; kernel threads (loop devices, write-back) are not counted.")
    for engine in [*ENGINES.values(), *COSTS.values()]:
        rows = [r for r in records if r["engine"] == engine]
        if not rows:
            continue
        beside = [p for p in ["inprocess", *PEERS] if any(p in r["peers"] for r in rows)]
        print(f"\n{'gpu4fs ' + engine:<26}{'gpu4fs':>9}" + "".join(f"{p:>15}" for p in beside) +
              f"{'CPU s':>8}  {'target':<21}result")
        for r in rows:
            print(f"{r['metric']:<18}{r['unit']:>6}{number(r['ours']):>11}" +
                  "".join(f"{times(r['ratios'].get(p)):>15}" for p in beside) +
                  f"{r['cpu_seconds']:>8.2f}  {target_text(r):<21}{verdict(r)}".rstrip())
        judged = [r for r in rows if r["met"] is not None]
        print(f"{sum(r['met'] for r in judged)} of {len(judged)} targets met")
    engines = [e for e in ENGINES.values() if any(r["engine"] == e for r in records)]
    print("\nMeasured" + " " * 16 + "".join(f"{name:>20}" for name in [*engines, *peers]))
    for metric in METRICS:
        by_engine = {r["engine"]: r for r in records if r["metric"] == metric}
        if not by_engine:
            continue
        any_record = next(iter(by_engine.values()))
        cells = [by_engine[e]["ours"] if e in by_engine else None for e in engines]
        cells += [any_record["peers"].get(p) for p in peers]
        print(f"{metric:<18}{any_record['unit']:>6}" + "".join(f"{'-' if c is None else number(c):>20}" for c in cells))
    print("\nCPU seconds" + " " * 13 + "".join(f"{name:>20}" for name in [*engines, *peers]))
    for metric in METRICS:
        by_engine = {r["engine"]: r for r in records if r["metric"] == metric}
        if not by_engine or metric == "fsync_p99":  # of the same calls as fsync_p50
            continue
        any_record = next(iter(by_engine.values()))
        cells = [by_engine[e]["cpu_seconds"] if e in by_engine else None for e in engines]
        cells += [any_record["peers_cpu_seconds"].get(p) for p in peers]
        print(f"{metric:<24}" + "".join(f"{'-' if c is None else format(c, '.2f'):>20}" for c in cells))


# ---------------------------------------------------------------------------------------------------- plot

def plot(records, name, folder):
    bench = records[0]["bench"]
    png = pathlib.Path(folder) / f"{bench}-{name}.png"
    metrics, label, title = {
        "metadata": (METADATA, "operations per second", "Metadata (longer is better)"),
        "data": ([m for m in DATA if m != "cached_read_4k"], "MB/s", "Data (longer is better)"),
        "latency": (["fsync_p50", "fsync_p99", "cached_read_4k"], "microseconds", "Latency (shorter is better)"),
    }[name]
    peers = [p for p in PEERS if any(p in r["peers"] for r in records)]
    engines = [e for e in ENGINES.values() if any(e == r["engine"] for r in records)]
    rows = []
    for metric in metrics:
        by_engine = {r["engine"]: r for r in records if r["metric"] == metric}
        if not by_engine:
            continue
        any_record = next(iter(by_engine.values()))
        scale = 1e-3 if any_record["unit"] == "ns" else 1
        cells = [by_engine[e]["ours"] if e in by_engine else None for e in engines]
        cells += [any_record["peers"].get(p) for p in peers]
        rows.append((metric, [c and c * scale for c in cells]))
    bars(png, title, label, [f"gpu4fs {e}" for e in engines] + peers, rows, log=True)


def plot_all(records, folder):
    for name in ("metadata", "data", "latency"):
        plot(records, name, folder)


if __name__ == "__main__":
    report(__doc__, collect, table, plot_all)
