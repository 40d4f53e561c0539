#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the results of bench/gpu/run.sh: one JSON file, and from that file alone a table and plots.

report.py collect FOLDER [KEY=VALUE]...  reads FOLDER/*.json, prints the JSON array
report.py table FILE.json                prints the table
report.py plot FILE.json FOLDER          draws FOLDER/gpu-NAME.png; also of what tests/gpu/shredder_speed printed alone

FOLDER has, as far as there are any: mem.json, dax.json, sets-LEVEL.json, sets-LEVEL-rebuilt.json, dedup.json, sums-CHECKSUM.json, scrub-CHECKSUM.json (tests/gpu/gpu_bench), embedded.json, connected.json, ext4.json,
xfs.json, btrfs.json (bench_clients), fuse.workload.json and those of the peers (gpu4fs bench --json), shredder.json
(tests/gpu/shredder_speed).
Exit status: 0, also when a target is missed; 1 when something could not be read or drawn.
"""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from common import bars, commit, lines, number, ratio, report, times, where  # noqa: E402

ENGINES = {"mem": "cuda", "sums-none": "cuda, sums", "sums-xxh3": "cuda, sums", "sums-blake3": "cuda, sums",
           "scrub-xxh3": "cuda, sums", "scrub-blake3": "cuda, sums", "dedup": "cuda, dedup", "dax": "cuda, dax",
           **{f"sets-{level}{what}": f"cuda, RAID {level}" for level in ("0", "1", "5", "6") for what in ("", "-rebuilt")}, "embedded": "library",
           "connected": "library, connected", "fuse": "FUSE"}
PEERS = ["ext4", "xfs", "btrfs"]
NOBODY = "peers only"  # the engine of figures that only peers have


# ---------------------------------------------------------------------------------------------------- collect


def read_rows(path):
    """Its array; of a program that died the rows that it had finished."""
    if not path.exists():
        return []
    text = path.read_text()
    try:
        return json.loads(text)
    except ValueError:
        end = len(text)
        while (end := text.rfind("}", 0, end)) >= 0:
            try:
                return json.loads(text[:end + 1] + "]")
            except ValueError:
                continue
        return []


def read_workload(path):
    """Of gpu4fs bench. It does not know what the machine did meanwhile."""
    try:
        return json.loads(path.read_text())["results"] if path.exists() else []
    except ValueError:
        return []  # it printed nothing to the end


def question(metric):
    """What a metric asks, whatever the size of the files and the number of commands that are under way."""
    return re.sub(r" of \d+ [KMG]iB|, depth \d+$", "", metric)


def answers_of_peers(folder):
    """{question: {peer: row}}; of two ways to write or read the better one."""
    answers = {}
    for peer in PEERS:
        for row in read_rows(folder / f"{peer}.json") + read_workload(folder / f"{peer}.workload.json"):
            known = answers.setdefault(question(row["metric"]), {})
            if peer not in known or ratio(row["unit"], row["value"], known[peer]["value"]) > 1:
                known[peer] = row
    return answers


def record(engine, row, peers):
    """row: {"ours", ...} of gpu_bench, or {"value", ...}; None: only peers have it."""
    any_row = row or next(iter(peers.values()))
    ours = row and row.get("ours", row.get("value"))
    return {
        "bench": "gpu",
        "engine": engine,
        "metric": any_row["metric"],
        "unit": any_row["unit"],
        "ours": ours,
        "peers": {p: r["value"] for p, r in peers.items()},
        "ratios": {p: ratio(any_row["unit"], ours, r["value"]) for p, r in peers.items()},
        "target": row and row.get("target"),
        "met": row and row.get("met"),
        "seconds": row and row.get("seconds"),
        "cpu_seconds": row and row["cpu_seconds"],
        "clients_cpu_seconds": row and row.get("clients_cpu_seconds"),
        "busy_seconds": row and row.get("busy_seconds"),
        "peers_seconds": {p: r.get("seconds") for p, r in peers.items()},
        "peers_cpu_seconds": {p: r["cpu_seconds"] for p, r in peers.items()},
        "peers_busy_seconds": {p: r.get("busy_seconds") for p, r in peers.items()},
        "peers_how": {p: r["how"] for p, r in peers.items() if r.get("how")},
    }


def collect(folder, settings):
    folder = pathlib.Path(folder)
    answers, records, asked = answers_of_peers(folder), [], set()
    for part, engine in ENGINES.items():
        for row in read_rows(folder / f"{part}.json") + read_workload(folder / f"{part}.workload.json"):
            asked.add(question(row["metric"]))
            records.append(record(engine, row, answers.get(question(row["metric"]), {})))
    records += [record(NOBODY, None, peers) for metric, peers in answers.items() if metric not in asked]
    for row in read_rows(folder / "shredder.json"):
        row["ratios"] = {p: ratio(row["unit"], row["ours"], v) for p, v in row["peers"].items()}
        records.append(row)
    if not records:
        sys.exit("report.py: there are no results")
    common = {"settings": settings, "machine": where(), "commit": settings.pop("commit", "") or commit()}
    return [r | common for r in records]


# ---------------------------------------------------------------------------------------------------- table


def share(seconds, wall):
    """Processor seconds a second: so many cores."""
    return "-" if seconds is None or not wall else f"{seconds / wall:.2f}"


def target_text(r):
    if not r["target"]:
        return "-"
    (kind, value), = r["target"].items()
    return f"{'<=' if kind == 'at_most' else '>='} {value:g} {'met' if r['met'] else 'missed'}"


def peer_text(r, peer):
    """The figure, how it was reached, and the cores that were busy meanwhile."""
    if peer not in r["peers"]:
        return "-"
    how = {"O_DIRECT": " d", "buffered": " b"}.get(r["peers_how"].get(peer), "")
    return f"{number(r['peers'][peer])}{how} ({share(r['peers_busy_seconds'][peer], r['peers_seconds'][peer])})"


def table_of_gpu(records):
    peers = [p for p in PEERS if any(p in r["peers"] for r in records)]
    print("cores: processor seconds a second while it was measured. own: of the engine (cuda), or of the program with its")
    print("clients, and of a server; clients: threads that wait for the cuda engine; all: the whole machine, kernel threads too.")
    print("Ratios are gpu4fs to the others; above 1 gpu4fs is better.")
    for engine in [*dict.fromkeys(ENGINES.values())]:
        rows = [r for r in records if r["engine"] == engine]
        if not rows:
            continue
        print(f"\n{'gpu4fs ' + engine:<46}{'':>5}{'gpu4fs':>10}{'CPU s':>8}{'cores: own':>12}{'clients':>9}{'all':>7}" +
              "".join(f"{p:>9}" for p in peers) + "  target")
        for r in rows:
            print(f"{r['metric']:<46}{r['unit']:>5}{number(r['ours']):>10}{r['cpu_seconds']:>8.3f}" +
                  f"{share(r['cpu_seconds'], r['seconds']):>12}{share(r['clients_cpu_seconds'], r['seconds']):>9}" +
                  f"{share(r['busy_seconds'], r['seconds']):>7}" +
                  "".join(f"{times(r['ratios'].get(p)):>9}" for p in peers) + f"  {target_text(r)}")
        judged = [r for r in rows if r["met"] is not None]
        if judged:
            print(f"{sum(r['met'] for r in judged)} of {len(judged)} targets met")
    if not peers:
        return
    print(f"\n{'Measured (cores, all); d: O_DIRECT, b: buffered':<51}" + "".join(f"{p:>22}" for p in peers))
    known = set()
    for r in records:
        if r["peers"] and question(r["metric"]) not in known:
            known.add(question(r["metric"]))
            print(f"{question(r['metric']):<46}{r['unit']:>5}" + "".join(f"{peer_text(r, p):>22}" for p in peers))


def table_of_shredder(records):
    print(f"\n{'Shredder':<70}{'':>6}{'ours':>10}{'CPU s':>8}  target")
    for r in records:
        print(f"{r['metric']:<70}{r['unit']:>6}{number(r['ours']):>10}{r['cpu_seconds']:>8.3f}  {target_text(r)}".rstrip())


def table(records):
    at, settings = records[0]["machine"], records[0]["settings"]
    print(f"\n{at['gpu'] or 'no GPU'}, {at['cpu']}, {at['cores']} cores, Linux {at['kernel']}; commit {records[0]['commit'][:12]}")
    print(f"Peers, dax: and the library had devices of {settings.get('image_mib', '?')} MiB, the peers and dax: on tmpfs, and "
          f"files of {settings.get('file_mib', '?')} MiB.")
    gpu, shredder = [[r for r in records if (r["bench"] == "gpu") == is_gpu] for is_gpu in (True, False)]
    if gpu:
        table_of_gpu(gpu)
    if shredder:
        table_of_shredder(shredder)
    for key in ("left_out", "failed"):
        if settings.get(key):
            print(f"\n{key.replace('_', ' ')}: {settings[key]}")


# ---------------------------------------------------------------------------------------------------- plots


def plot_against_peers(records, name, questions, title, label, folder, log=True, value=None):
    """A group for each question, a bar for each engine and peer."""
    engines = list(dict.fromkeys(ENGINES.values()))
    rows = []
    for metric, short in questions.items():
        asked = [r for r in records if question(r["metric"]) == metric]
        cells = []
        for engine in engines:  # with several depths, the first: the deepest
            mine = [r for r in asked if r["engine"] == engine]
            cells.append((value(mine[0], None) if value else mine[0]["ours"]) if mine else None)
        for peer in PEERS:
            theirs = [r for r in asked if peer in r["peers"]]
            cells.append((value(theirs[0], peer) if value else theirs[0]["peers"][peer]) if theirs else None)
        rows.append((short, cells))
    bars(folder / f"gpu-{name}.png", title, label, [f"gpu4fs {e}" for e in engines] + PEERS, rows, log=log)


def busy_cores(r, peer):
    busy, wall = (r["peers_busy_seconds"][peer], r["peers_seconds"][peer]) if peer else (r["busy_seconds"], r["seconds"])
    if not peer and r["clients_cpu_seconds"] is not None and busy is not None:
        busy = max(0, busy - r["clients_cpu_seconds"])
    return busy / wall if busy and wall else None


LATENCY = {"null command, depth 1, p50": "null command", "stat of a cached path, depth 1, p50": "stat, p50",
           "stat of a cached path, depth 1, p99": "stat, p99", "4 KiB cached read, depth 1, p50": "4 KiB cached read"}
RATES = {"stat of a cached path, 8 clients": "stat", "create in many directories, 8 clients": "create",
         "create, 64 names a call, 8 clients": "create, 64 a call", "stat, 64 names a call, 8 clients": "stat, 64 a call",
         "4 KiB random read, 8 host clients": "4 KiB cached read"}
DATA = {"write 64 files": "write", "read 64 files": "read"}
METADATA = {name: name for name in ("create", "stat", "lookup", "rename", "unlink")}


def plot_gpu(records, folder):
    plot_against_peers(records, "latency", LATENCY, "One call at a time (shorter is better)", "microseconds", folder)
    plot_against_peers(records, "rates", RATES, "Eight clients (longer is better)", "million calls a second", folder)
    plot_against_peers(records, "data", DATA, "64 files, eight clients (longer is better)", "GB/s", folder, log=False)
    plot_against_peers(records, "fuse", METADATA, "gpu4fs bench on a mount (longer is better)", "operations a second", folder)
    plot_against_peers(records, "cpu", RATES | DATA, "Cores of the host that are busy meanwhile, without clients that poll for the "
                       "cuda engine (shorter is better)", "cores", folder, log=False, value=busy_cores)
    plot_workgroups(records, folder)
    plot_deduplication(records, folder)
    kernel = [r for r in records if r["engine"] == "cuda" and " kernel, " in r["metric"] and r["unit"] == "M/s" and r["ours"]]
    bars(folder / "gpu-kernel.png", "Calls from a kernel (longer is better)", "million calls a second", ["M/s"],
         [(r["metric"].replace(" from a kernel", ""), [r["ours"]]) for r in kernel], log=True,
         texts=[number(r["ours"]) for r in kernel])


def points_of(records, pattern):
    """{name: [(x, y)]} of metrics that a pattern with the groups `name` and `x` knows, and perhaps `unit`."""
    series = {}
    for r in records:
        match = re.fullmatch(pattern + r"(, blake3)?", r["metric"])
        if match and r["ours"]:
            scale = 1024 if match.groupdict().get("unit") == "MiB" else 1
            series.setdefault(match["name"], []).append((int(match["x"]) * scale, r["ours"]))
    return list(series.items())


def plot_workgroups(records, folder):
    """As the directories document draws them: a line for each figure and number of lanes, over workgroups."""
    series = points_of(records, r"(?P<name>.*): (?P<x>\d+) workgroups")
    for name, kind in (("lookups", "wide lookup"), ("creates", "create"), ("null", "null command")):
        lines(folder / f"gpu-workgroups-{name}.png", "From kernels (higher is better)", "workgroups", "million a second",
              [(s, points) for s, points in series if s.startswith(kind)], log=True)


def plot_deduplication(records, folder):
    """The figures 6.5 to 6.13 of the document, where it has them; the rates of tables are of the 4 KiB pages that are looked for."""
    files = r"pipeline, {} of (?P<x>\d+) (?P<unit>[KM]iB), (?P<name>[a-z ]+)"
    rising = r"pipeline, (?P<x>\d) files?(?: side by side)? of 64 MiB, (?P<name>[a-z ]+)"
    for name, title, across, wide, pattern in (
            ("table-empty", "Pages looked for, and inserted, in an empty table", "pages at a time", True,
             r"(?P<name>empty table(?:, the same page)?), (?P<x>\d+) pages"),
            ("table-growing", "Pages inserted into a table that grows", "pages in the table", False,
             r"(?P<name>growing table, files a step \d+), (?P<x>\d+) pages"),
            ("pipeline-one", "One file at a time, written to its fsync", "KiB of a file", True, files.format("1 file")),
            ("pipeline-eight", "Eight files side by side, written to their fsync", "KiB of a file", True,
             files.format("8 files side by side")),
            ("pipeline-rising", "Files of 64 MiB side by side, written to their fsync", "files", False, rising)):
        lines(folder / f"gpu-{name}.png", f"{title} (higher is better)", across, "GB/s", points_of(records, pattern), wide=wide,
              log=wide)


def plot_shredder(records, folder):
    """The steps of the FAST'12 document beside ours, with speed-ups over the host alone; and data in the GPU's memory."""
    by_metric = {r["metric"]: r for r in records}
    steps = by_metric.get("rabin from host memory, the document's steps")
    if steps:
        rates = steps["peers"] | {"this engine": steps["ours"]}
        host = rates["host only, 16 threads"]
        bars(folder / "shredder-gpu-steps.png", "Rabin chunking of data in host memory (speed-up over threads on the host)", "GB/s",
             ["GB/s"], [(name, [rate]) for name, rate in rates.items()],
             texts=[f"{rate:.3g} GB/s, {rate / host:.1f}x" for rate in rates.values()])
    rows = [(m.replace(", data in VRAM", "").replace(" of every chunk", "").replace("minimum and maximum", "min, max"), r["ours"],
             f"{r['ours']:.0f}" + (f" (target {r['target']['at_least']})" if r["target"] else ""))
            for m, r in by_metric.items() if m.endswith("data in VRAM")]
    if "rabin kernel alone" in by_metric:
        basic = by_metric["rabin kernel alone"]["peers"]["basic"]
        rows.insert(0, ("document's basic kernel", basic, f"{basic:.0f}"))
    bars(folder / "shredder-gpu-vram.png", "Data in the GPU's memory", "GB/s", ["GB/s"], [(name, [v]) for name, v, _ in rows],
         texts=[text for _, _, text in rows])


def plot(records, folder):
    folder.mkdir(parents=True, exist_ok=True)
    plot_gpu([r for r in records if r["bench"] == "gpu"], folder)
    plot_shredder([r for r in records if r["bench"] != "gpu"], folder)


if __name__ == "__main__":
    report(__doc__, collect, table, plot)
