#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Shredder with other chunkers on this machine: speed in memory, speed on a tree, and how much is found twice.

usage: shredder.py [OPTION]...

  --build=DIR       where shredder is built [build/release]
  --tree=DIR        what is read end to end [/usr/share]
  --generations=DIR,DIR...   generations of one tree, for the dedup ratio [commits of this repository]
  --rounds=N        how often everything is measured; the median counts [3]
  --size=SIZE       bytes that are chunked in memory [256M]
  --folder=DIR      for what the peers write; it needs three times the space of the tree [build/bench]
  --quick           one round of little, to see that everything runs

DEDUP_BENCH  a folder with your own build of dedup-bench (VectorCDC): dedup.exe and the configurations config_*/*.conf that
             are to be measured, with 8 KiB chunks. Without it these peers are left out.

Writes build/bench/shredder.json and a plot beside it. Exit status: 0, also when a target is missed; 1 when something
could not be measured. bench/README.md says what the numbers mean.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from common import bars, commit, machine, ratio

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = {"rabin": 3.0, "gear": 4.0}  # GB/s on one core, cuts alone


def fail(text):
    sys.exit(f"shredder.py: {text}")


def say(text):
    print(f"shredder.py: {text}", file=sys.stderr)


def run(*words, env=None, cwd=None):
    """(standard output, wall seconds, CPU seconds) of a command that must succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(w) for w in words], capture_output=True, env={**os.environ, **(env or {})}, cwd=cwd)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return done.stdout.decode(errors="replace"), wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median(values):
    return statistics.median(values) if values else None


class Table:
    """What was measured: metric and who -> values of the rounds."""

    def __init__(self):
        self.values, self.cpu = {}, {}

    def add(self, metric, who, value, cpu=None):
        self.values.setdefault(metric, {}).setdefault(who, []).append(value)
        if cpu is not None:
            self.cpu.setdefault(metric, {}).setdefault(who, []).append(cpu)

    def record(self, metric, unit, ours, target=None, engine="cpu", settings=None):
        who = self.values.get(metric, {})
        if ours not in who:
            return None
        value = median(who[ours])
        return {
            "bench": "shredder", "engine": engine, "metric": metric, "unit": unit, "ours": value,
            "peers": {name: median(v) for name, v in who.items() if name != ours},
            "target": target, "met": None if target is None else value >= target["at_least"],
            "cpu_seconds": median(self.cpu.get(metric, {}).get(ours, [])),
            "peers_cpu_seconds": {n: median(v) for n, v in self.cpu.get(metric, {}).items() if n != ours},
            "rounds": who, "settings": settings or {},
        }


# ---------------------------------------------------------------------------------------------------- in memory


def measure_memory(table, shredder, options, best):
    """Kernels on random bytes. Metrics: ALGORITHM_THREADS[_digests]; peers are the slower kernels."""
    out, _, _ = run(shredder, "bench", "--json", "--size", options["size"], "--rounds", 3)
    for row in json.loads(out):
        metric = f"{row['algorithm']}_{row['threads']}_thread{'s' if row['threads'] > 1 else ''}"
        if row["digests"]:
            metric += "_digests"
        who = "ours" if row["kernel"] == best else f"{row['kernel']} kernel"
        table.add(metric, who, row["gb_per_s"], row["cpu_seconds"])


def measure_dedup_bench(table, folder, work):
    """The chunkers of the user's dedup-bench on one file of random bytes, by their own clock, one thread."""
    program = pathlib.Path(folder).resolve() / "dedup.exe"
    configs = sorted(pathlib.Path(folder).resolve().glob("config_*/*.conf"))
    data = work / "random"
    data.mkdir(exist_ok=True)
    if not (data / "bytes").exists():
        (data / "bytes").write_bytes(os.urandom(1 << 28))
    for config in configs:
        text = re.sub(r"^output_file=.*$", f"output_file={work}/hashes", config.read_text(), flags=re.M)
        (work / "conf").write_text(text)
        try:
            out, _, _ = run(program, data, work / "conf")
            speed = float(re.search(r"Chunking Throughput \(MB/sec\): ([0-9.]+)", out)[1]) / 1000
        except (RuntimeError, OSError, TypeError) as error:
            say(f"{config.name} is left out: {error}")
            continue
        name = "dedup-bench " + re.sub(r"_8kb$", "", config.stem)
        for metric in ("rabin_1_thread", "gear_1_thread"):
            table.add(metric, name, speed)


# ------------------------------------------------------------------------------------------------------- a tree


def tree_bytes(tree):
    """Bytes of its regular files, each read once so that all find it in the page cache."""
    total = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    while part := file.read(1 << 20):
                        total += len(part)
    return total


def peers_of_tree(tree, work):
    """Name -> (commands that prepare it, the command that reads everything again and finds all of it known)."""
    repos = {name: work / name for name in ("restic", "borg", "casync")}
    env = {"RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": str(work / "cache"), "BORG_BASE_DIR": str(work / "borg-base"),
           "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"}
    restic = ["restic", "-q", "-r", repos["restic"], "--compression", "off"]
    backup = [*restic, "backup", "--force", tree]
    borg = ["borg", "create", "--compression", "none", "--files-cache", "disabled"]
    casync = ["casync", "make", f"--store={repos['casync']}.castr", f"{repos['casync']}.caidx", tree]
    known = {
        "restic": ([[*restic, "init", "--repository-version", "2"], backup], backup),
        "borg": ([["borg", "init", "-e", "none", repos["borg"]], [*borg, f"{repos['borg']}::first", tree]],
                 [*borg, f"{repos['borg']}::{{now:%Y%m%d%H%M%S%f}}", tree]),
        "casync": ([casync], casync),
    }
    return env, {name: commands for name, commands in known.items() if shutil.which(name)}


def measure_tree(table, shredder, tree, rounds, work):
    size = tree_bytes(tree)
    env, peers = peers_of_tree(tree, work)
    for name in ("restic", "borg", "casync"):
        if name not in peers:
            say(f"{name} is left out: it is not installed")
    for name, (prepare, _) in list(peers.items()):
        try:
            for command in prepare:
                run(*command, env=env)
        except RuntimeError as error:
            say(f"{name} is left out: {error}")
            del peers[name]
    for _ in range(rounds):
        for algorithm in ("rabin", "gear"):
            _, wall, cpu = run(shredder, "dedup-ratio", "--no-direct", "-b", 13, "-a", algorithm, "--json", tree)
            table.add("tree", "ours" if algorithm == "rabin" else "ours, gear", size / 1e9 / wall, cpu)
        for name, (_, command) in peers.items():
            _, wall, cpu = run(*command, env=env)
            table.add("tree", name, size / 1e9 / wall, cpu)
    return size


# ------------------------------------------------------------------------------------------------------ quality


def commits_of_this_repository(work):
    """The oldest commit, the one in the middle and the newest, as folders."""
    log = run("git", "rev-list", "--reverse", "HEAD", cwd=ROOT)[0].split()
    folders = []
    for commit in dict.fromkeys((log[0], log[len(log) // 2], log[-1])):
        folder = work / f"commit-{commit[:8]}"
        folder.mkdir()
        subprocess.run(f"git archive {commit} | tar -x -C '{folder}'", shell=True, check=True, cwd=ROOT)
        folders.append(str(folder))
    return folders


def measure_quality(table, shredder, generations, work):
    """Bytes per unique byte, at the same expected chunk size."""
    for algorithm in ("rabin", "gear"):
        out, _, _ = run(shredder, "dedup-ratio", "--json", "-a", algorithm, *generations)
        table.add(f"dedup_ratio_{algorithm}", "ours", json.loads(out)["total"]["ratio"])
    out, _, _ = run(shredder, "dedup-ratio", "--json", "-a", "gear", "--normalization", "none", *generations)
    table.add("dedup_ratio_gear", "not normalised", json.loads(out)["total"]["ratio"])
    if shutil.which("casync"):
        store = work / "quality.castr"
        for generation in generations:
            run("casync", "make", f"--store={store}", "--chunk-size=8192", work / "quality.caidx", generation)
        say(f"casync keeps {sum(1 for _ in store.rglob('*.cacnk'))} chunks of the generations")


# ------------------------------------------------------------------------------------------------------- output


def print_table(records):
    print(f"{'metric':26} {'unit':6} {'ours':>8}  {'target':14} peers (ours is so many times better)")
    for r in records:
        target = "" if r["target"] is None else f">= {r['target']['at_least']:g} {'met' if r['met'] else 'MISSED'}"
        peers = ", ".join(f"{n} {v:.3g} ({r['ours'] / v:.2f})" for n, v in sorted(r["peers"].items()) if v)
        print(f"{r['metric']:26} {r['unit']:6} {r['ours']:8.3f}  {target:14} {peers}")


def plot(records, png):
    bars_of = {}
    for r in records:
        if r["metric"] in ("rabin_1_thread", "gear_1_thread"):
            algorithm = r["metric"].split("_")[0]
            bars_of[f"Shredder {algorithm}"] = r["ours"]
            for name, value in r["peers"].items():
                bars_of[name if name.startswith("dedup-bench") else f"{algorithm}, {name}"] = value
    rows = sorted(bars_of.items(), key=lambda row: -row[1])
    bars(png, "One core, cuts of random bytes in memory (longer is better)", "GB/s", ["GB/s"],
         [(name, [value]) for name, value in rows], log=True, texts=[f"{value:.2f}" for _, value in rows])


def parse(words):
    options = {"build": str(ROOT / "build/release"), "tree": "/usr/share", "generations": "", "rounds": "3", "size": "256M",
               "folder": str(ROOT / "build/bench")}
    for word in words:
        name, _, value = word.partition("=")
        if word == "--help":
            print(__doc__.strip())
            sys.exit(0)
        elif word == "--quick":
            options.update(rounds="1", size="16M", tree="/usr/include")
        elif name[2:] in options and name.startswith("--") and value:
            options[name[2:]] = value
        else:
            fail(f"option '{word}' is not known; --help lists them")
    if not options["rounds"].isdigit() or int(options["rounds"]) == 0:
        fail("--rounds takes a number")
    return options


def main(words):
    options = parse(words)
    shredder = pathlib.Path(options["build"]).resolve() / "bin/shredder"
    if not shredder.exists():
        fail(f"{shredder} is missing; run: make bench")
    os.makedirs(options["folder"], exist_ok=True)
    results = ROOT / "build/bench"
    results.mkdir(parents=True, exist_ok=True)
    table, rounds = Table(), int(options["rounds"])
    kernels = [row["kernel"] for row in json.loads(run(shredder, "bench", "--json", "--size", "1M", "--rounds", 1)[0])]
    best = [k for k in ("portable", "avx2", "avx512") if k in kernels][-1]
    with tempfile.TemporaryDirectory(dir=options["folder"], prefix="shredder.") as folder:
        work = pathlib.Path(folder)
        for _ in range(rounds):
            measure_memory(table, shredder, options, best)
            if os.environ.get("DEDUP_BENCH"):
                measure_dedup_bench(table, os.environ["DEDUP_BENCH"], work)
        if not os.environ.get("DEDUP_BENCH"):
            say("dedup-bench is left out: name your build of it in DEDUP_BENCH")
        generations = [g for g in options["generations"].split(",") if g] or commits_of_this_repository(work)
        measure_quality(table, shredder, generations, work)
        size = measure_tree(table, shredder, options["tree"], rounds, work)
    settings = {"kernel": best, "size": options["size"], "tree": options["tree"], "tree_bytes": size,
                "generations": [os.path.basename(g) for g in generations]}
    records = []
    for metric in sorted(table.values):
        algorithm = metric.split("_")[0]
        target = {"at_least": TARGETS[algorithm]} if metric.endswith("_1_thread") and algorithm in TARGETS else None
        unit = "ratio" if metric.startswith("dedup") else "GB/s"
        records.append(table.record(metric, unit, "ours", target, settings=settings))
    where = {"machine": machine(), "commit": commit()}
    records = [r | {"ratios": {n: ratio(r["unit"], r["ours"], v) for n, v in r["peers"].items()}} | where
               for r in records if r is not None]
    (results / "shredder.json").write_text(json.dumps(records, indent=1) + "\n")
    print_table(records)
    plot(records, results / "shredder-memory.png")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError, RuntimeError, subprocess.CalledProcessError) as error:
        fail(repr(error))
