#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Shredder's backup with restic, borg and casync on this machine, on the same trees, one after the other.

usage: backup.py [OPTION]...

  --build=DIR        where shredder is built [build/release]
  --tree=DIR         the system tree [/usr/share]
  --commits=N        generations of this repository's sources, the newest N commits that git has, evenly spread [10]
  --image=SIZE       bytes of a generated disk image [512M]
  --images=N         generations of it; each has 10 % of its segments replaced [5]
  --files=N          tiny files [100000]
  --folder=DIR       for everything that is written; five times the size of the trees [build/bench/backup]
  --only=A,B         of tree, sources, image, tiny
  --tools=A,B        of shredder, restic, borg, borg-zstd, casync
  --threads=N        shredder's; the others choose
  --secret=WHAT      shredder's: password, as the others have, or key: a key file, which needs no Argon2id [password]
  --rounds=N         everything N times, with new repositories; another tool begins in each [1]
  --quick            little of everything, to see that it runs

Each tool saves with encryption and compression as it does by default (casync has no encryption; borg uses lz4, borg-zstd zstd,3).
The page cache is warm for all: each tree is read once before. Restored trees are compared with the source. Writes backup.json into
build/bench; exit status 1 when a tool failed or a restore was wrong. bench/README.md says what the numbers mean.
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

import common

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEGMENT = 65536
# Runs a command as a child of its own and writes its exit code, processor seconds and kilobytes of memory. Between fork and exec a child counts
# its parent's memory as its own, so the parent must be small.
LAUNCHER = """
import os, sys
child = os.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as result:
    print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=result)
"""
RIVALS = ("restic", "borg", "borg-zstd")  # they compress and encrypt, as Shredder does
# How many times better than the best of them, in wall time and in CPU time; of sizes than the smallest, of memory than restic.
TIMES = {"first": 3, "second": 3, "restore": 2}
SIZE, MEMORY = 1, 2


class Tool:
    """One program with a repository of its own. Commands are lists; `{...}` is filled in."""

    def __init__(self, name, folder, environment, commands, here=False):
        self.name, self.folder, self.commands, self.here = name, folder, commands, here
        self.environment = {**os.environ, **environment}
        self.generation, self.failed = 0, False

    def run(self, what, **words):
        """Wall seconds, processor seconds, megabytes; None: it cannot do that."""
        total = [0.0, 0.0, 0.0]
        steps = self.commands.get(what)
        if steps is None:
            return None
        for step in steps:
            words.update(repo=self.folder / "repo", generation=self.generation)
            command = [str(word).format(**words) for word in step]
            with open(self.folder / "log", "ab") as log:
                began = time.monotonic()
                subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, self.folder / "usage", *command], env=self.environment,
                               stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=words.get("target"), check=True)
                seconds = time.monotonic() - began
            code, processor, kilobytes = (self.folder / "usage").read_text().split()
            if code != "0":
                print(f"backup.py: {self.name} {what} failed with {code}; see {self.folder}/log", file=sys.stderr)
                self.failed = True
                return None
            total[0] += seconds
            total[1] += float(processor)
            total[2] = max(total[2], int(kilobytes) / 1024)
        if what == "backup":
            self.generation += 1
        return total

    def size(self):
        return sum(f.stat().st_size for f in (self.folder / "repo").rglob("*") if f.is_file() and not f.is_symlink())


def make_tools(options, folder):
    shredder = str((pathlib.Path(options["build"]) / "bin/shredder").resolve())
    threads = ["--threads", options["threads"]] if options["threads"] else []
    secret = {"SHREDDER_PASSWORD": "bench"}
    if options["secret"] == "key":
        secret = {"SHREDDER_KEY_FILE": str(folder / "key")}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "key").write_bytes(os.urandom(64))
    borg = {"init": [["borg", "init", "--encryption=repokey-blake2", "{repo}"]],
            "backup": [["borg", "create", "{repo}::{generation}", "{source}"]],
            "restore": [["borg", "extract", "{repo}::{last}"]],
            "check": [["borg", "check", "--verify-data", "{repo}"]],
            "prune": [["borg", "prune", "--keep-last=1", "{repo}"], ["borg", "compact", "{repo}"]]}
    borg_zstd = {**borg, "backup": [["borg", "create", "--compression=zstd,3", "{repo}::{generation}", "{source}"]]}
    all_commands = {
        "shredder": (secret, {
            "init": [[shredder, "init", "-r", "{repo}"]],
            "backup": [[shredder, "backup", "-r", "{repo}", *threads, "{source}"]],
            "restore": [[shredder, "restore", "-r", "{repo}", *threads, "latest", "--target", "{target}"]],
            "check": [[shredder, "check", "-r", "{repo}", "--read-data"]],
            "prune": [[shredder, "forget", "-r", "{repo}", "--keep-last", "1", "--prune"]]}),
        "restic": ({"RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": "{folder}/cache"}, {
            "init": [["restic", "init", "-r", "{repo}"]],
            "backup": [["restic", "backup", "-q", "-r", "{repo}", "{source}"]],
            "restore": [["restic", "restore", "-q", "-r", "{repo}", "latest", "--target", "{target}"]],
            "check": [["restic", "check", "-q", "-r", "{repo}", "--read-data"]],
            "prune": [["restic", "forget", "-q", "-r", "{repo}", "--keep-last", "1", "--prune"]]}),
        "borg": ({"BORG_PASSPHRASE": "bench", "BORG_BASE_DIR": "{folder}/base"}, borg),
        "borg-zstd": ({"BORG_PASSPHRASE": "bench", "BORG_BASE_DIR": "{folder}/base"}, borg_zstd),
        "casync": ({}, {
            "init": [["mkdir", "{repo}"]],
            "backup": [["casync", "make", "--store={repo}/store.castr", "{repo}/{generation}.caidx", "{source}"]],
            "restore": [["casync", "extract", "--store={repo}/store.castr", "{repo}/{last}.caidx", "{target}"]]}),
    }
    tools = []
    for name in options["tools"]:
        if name not in all_commands:
            sys.exit(f"backup.py: there is no tool '{name}'")
        environment, commands = all_commands[name]
        own = folder / name
        own.mkdir(parents=True)
        if shutil.which(commands["backup"][0][0]) is None:
            print(f"backup.py: {name} is not installed; it is left out", file=sys.stderr)
            continue
        tools.append(Tool(name, own, {k: v.format(folder=own) for k, v in environment.items()}, commands))
    return tools


def read_all(path):
    """Brings a tree into the page cache, and tells its size."""
    total = files = 0
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                files += 1
                with open(full, "rb") as file:
                    while data := file.read(1 << 20):
                        total += len(data)
    return total, files


def find_restored(target, source):
    """Where a tool has put the tree: the whole path below the target, or its content right there."""
    below = pathlib.Path(str(target) + str(source))
    return below if below.exists() else target


class Bench:
    def __init__(self, options):
        self.options, self.failed = options, False
        self.values = {}  # (workload, metric, what) -> tool -> the rounds' values

    def add(self, workload, tool, metric, result):
        if result is None:
            return
        values = {"MB": result / 1e6} if isinstance(result, int) else {"s": result[0], "CPU s": result[1], "MB of memory": result[2]}
        for what, value in values.items():
            self.values.setdefault((workload, metric, what), {}).setdefault(tool.name, []).append(value)
        print(f"{workload:8} {metric:10} {tool.name:10} " + "  ".join(f"{v:9.2f} {w}" for w, v in values.items()), flush=True)

    def measure(self, workload, source, generations, turn):
        """generations: functions that bring `source` to its next state; the first one makes it. turn: who begins."""
        folder = pathlib.Path(self.options["folder"]) / workload
        tools = make_tools(self.options, folder)
        tools = tools[turn % len(tools):] + tools[:turn % len(tools)]
        for tool in tools:
            tool.run("init")
        for number, make in enumerate(generations):
            make()
            total, files = read_all(source)
            if number == 0:
                print(f"{workload}: {total / 1e6:.0f} MB in {files} files", flush=True)
            metric = "first" if number == 0 else "second" if number == 1 else f"number {number + 1}"
            for tool in tools:
                self.add(workload, tool, metric, tool.run("backup", source=source))
        for tool in tools:
            self.add(workload, tool, "unchanged", tool.run("backup", source=source))
            self.add(workload, tool, "size", tool.size())
        for tool in tools:
            target = folder / f"out-{tool.name}"
            target.mkdir()
            self.add(workload, tool, "restore", tool.run("restore", target=target, last=tool.generation - 1))
            restored = find_restored(target, source)
            if subprocess.run(["diff", "-r", "--no-dereference", str(source), str(restored)], capture_output=True).returncode:
                print(f"backup.py: what {tool.name} restored is not what was saved", file=sys.stderr)
                self.failed = True
            shutil.rmtree(target)
        for tool in tools:
            self.add(workload, tool, "check", tool.run("check"))
        for tool in tools:
            self.add(workload, tool, "prune", tool.run("prune"))
            self.add(workload, tool, "pruned", tool.size())
        self.failed = self.failed or any(tool.failed for tool in tools)
        shutil.rmtree(folder)

    def records(self):
        """Medians, as bench/README.md describes them."""
        rows = []
        for (workload, metric, what), who in self.values.items():
            if "shredder" not in who:
                continue
            rivals = {n: v for n, v in who.items() if n in (("restic",) if what == "MB of memory" else RIVALS)}
            wanted = SIZE if what == "MB" else MEMORY if what == "MB of memory" else TIMES.get(metric)
            medians = {name: statistics.median(values) for name, values in who.items()}
            ratios = {name: value / medians["shredder"] for name, value in medians.items() if name != "shredder"}
            row = {"bench": "backup", "engine": "cpu", "metric": f"{workload} {metric}", "unit": what,
                   "ours": round(medians["shredder"], 3),
                   "peers": {n: round(v, 3) for n, v in medians.items() if n != "shredder"},
                   "ratios": {n: round(v, 2) for n, v in ratios.items()}, "rounds": who, "target": None, "met": None}
            if wanted is not None and rivals:
                best = min(ratios[name] for name in rivals)
                row.update(target={"peer": min(rivals, key=ratios.get), "ratio": wanted}, met=best >= wanted)
            rows.append(row)
        return rows


def print_targets(rows):
    for row in rows:
        if row["target"] is not None:
            target = row["target"]
            print(f"{row['metric']:18} {row['unit']:13} {row['ours']:9.2f}  {row['ratios'][target['peer']]:6.2f} times better "
                  f"than {target['peer']:9} (wanted: {target['ratio']}) {'met' if row['met'] else 'MISSED'}")


def source_generations(folder, count):
    revisions = subprocess.run(["git", "-C", str(ROOT), "rev-list", "--first-parent", "--reverse", "HEAD"], check=True,
                               capture_output=True, text=True).stdout.split()
    count = min(count, len(revisions))
    chosen = [revisions[len(revisions) - 1 - i * (len(revisions) - 1) // max(count - 1, 1) // 2] for i in range(count)][::-1]

    def make(revision):
        def step():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
            if archive.wait() != 0:
                sys.exit("backup.py: git archive failed")
        return step
    return [make(revision) for revision in chosen]


def image_generations(folder, size, count):
    """Half of the segments are random, half text-like; as in the Shredder document (7.3), a generation replaces some of them."""
    numbers = random.Random(1)  # every round has the same images
    words = [bytes(numbers.choices(b"abcdefghijklmnopqrstuvwxyz", k=numbers.randint(2, 9))) + b" " for _ in range(4000)]

    def segment():
        if numbers.random() < 0.5:
            return numbers.randbytes(SEGMENT)
        return b"".join(numbers.choices(words, k=SEGMENT // 4))[:SEGMENT]

    def first():
        folder.mkdir(parents=True)
        with open(folder / "image", "wb") as image:
            for _ in range(size // SEGMENT):
                image.write(segment())

    def later():
        with open(folder / "image", "r+b") as image:
            for number in range(size // SEGMENT):
                if numbers.random() < 0.1:
                    image.seek(number * SEGMENT)
                    image.write(segment())
    return [first] + [later] * (count - 1)


def tiny_generations(folder, count):
    def first():
        for i in range(count):
            if i % 1000 == 0:
                (folder / f"{i // 1000}").mkdir(parents=True)
            (folder / f"{i // 1000}" / f"{i}").write_text(f"file {i}\n" * (1 + i % 50))

    def second():
        for i in range(0, count, 100):
            (folder / f"{i // 1000}" / f"{i}").write_text(f"changed {i}\n" * (1 + i % 50))
    return [first, second]


def measure_workload(bench, workload, source, turn):
    options = bench.options
    if workload == "tree":
        bench.measure("tree", pathlib.Path(options["tree"]).resolve(), [lambda: None], turn)
    elif workload == "sources":
        bench.measure("sources", source, source_generations(source, int(options["commits"])), turn)
    elif workload == "image":
        bench.measure("image", source, image_generations(source, common.parse_size(options["image"]), int(options["images"])), turn)
    elif workload == "tiny":
        bench.measure("tiny", source, tiny_generations(source, int(options["files"])), turn)
    else:
        sys.exit(f"backup.py: there is no workload '{workload}'")


def main():
    options = {"build": str(ROOT / "build/release"), "tree": "/usr/share", "commits": "10", "image": "512M", "images": "5",
               "files": "100000", "folder": str(ROOT / "build/bench/backup"), "only": "tree,sources,image,tiny",
               "tools": "shredder,restic,borg,borg-zstd,casync", "threads": "", "rounds": "1",
               "secret": "password"}
    common.take_options(options, {"tree": str(ROOT / "src"), "commits": "3", "image": "16M", "images": "2", "files": "1000"}, __doc__)
    if not options["rounds"].isdigit() or int(options["rounds"]) == 0:
        sys.exit("backup.py: --rounds takes a number")
    if options["secret"] not in ("password", "key"):
        sys.exit("backup.py: --secret is password or key")
    options["tools"] = options["tools"].split(",")
    folder = pathlib.Path(options["folder"]).resolve()
    options["folder"] = folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bench = Bench(options)
    for turn in range(int(options["rounds"])):
        for workload in options["only"].split(","):
            measure_workload(bench, workload, folder / "source", turn)
            shutil.rmtree(folder / "source", ignore_errors=True)
    settings = {k: v if isinstance(v, (str, list)) else str(v) for k, v in options.items() if k != "folder"}
    where = {"settings": settings, "machine": common.machine(), "commit": common.commit()}
    rows = bench.records()
    results = ROOT / "build/bench"
    results.mkdir(parents=True, exist_ok=True)
    (results / "backup.json").write_text(json.dumps([row | where for row in rows], indent=1) + "\n")
    print_targets(rows)
    return 1 if bench.failed else 0


sys.exit(main())
