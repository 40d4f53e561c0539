#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A backup cut and hashed by a GPU beside one by the processor: the same trees in memory, one after the other.

usage: backup_gpu.py [OPTION]...

  --build=DIR        where shredder is built [build/cuda]
  --engines=A,B      of cpu, cuda, auto and the CPU's kernels [cpu,cuda]
  --only=A,B         of image (one file), images (one for each two processors), small (files of 4 to 100 KiB) [image,images,small]
  --size=SIZE        bytes of each tree, half of which compress to half [8G]
  --repository=A,B   of plain (no encryption, zstd level -100) and full (encryption, level 3) [plain,full]
  --threads=N        0: one a processor [0]
  --rounds=N         everything N times, with new repositories; another engine begins in each; medians count [3]
  --folder=DIR       a folder in memory, with room for the tree and a repository [/dev/shm]
  --out=DIR          where results go [build/bench]
  --quick            little of everything, to see that it runs

`first`: into an empty repository. `known`: the same tree once more, all of it read (--force), nothing of it new: reading, cutting, hashing and
looking up alone, which is what a GPU takes over. `changed`: a tenth of the tree's 1 MiB segments are new. GB/s of what was read, by the
wall; in brackets processors that were busy. Before the rounds, the engines' chunks are compared: the second one must find nothing new.

Writes backup_gpu.json. Exit status: 0; 1 when something failed or an engine made other chunks; 3: an engine that was named cannot run here.
"""
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

from common import commit, machine, parse_size, take_options

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEGMENT = 1 << 20
SMALL = (4 << 10, 100 << 10)


def contents(count):
    """Half of it random, half digits of random numbers."""
    half = count // 2
    return os.urandom(count - half) + os.urandom((half + 1) // 2).hex().encode()[:half]


def write_part(job):
    path, at, size = job
    with open(path, "r+b") as file:
        file.seek(at)
        for done in range(0, size, SEGMENT):
            file.write(contents(min(SEGMENT, size - done)))


def write_small(job):
    folder, count, seed = job
    sizes = random.Random(seed)
    folder.mkdir(parents=True)
    for i in range(count):
        (folder / str(i)).write_bytes(contents(sizes.randint(*SMALL)))


def make_large(pool, paths, size):
    jobs = []
    part = 64 * SEGMENT
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(size)
        jobs += [(path, at, min(part, size - at)) for at in range(0, size, part)]
    pool.map(write_part, jobs, 1)


def make_tree(pool, kind, folder, size):
    if kind == "image":
        make_large(pool, [folder / "image"], size)
    elif kind == "images":
        count = max(2, os.cpu_count() // 2)
        make_large(pool, [folder / f"image-{i}" for i in range(count)], size // count)
    elif kind == "small":
        files = max(1, size // (sum(SMALL) // 2))
        folder.mkdir(parents=True)
        pool.map(write_small, [(folder / str(i), min(1000, files - i), i) for i in range(0, files, 1000)], 1)
    else:
        sys.exit(f"backup_gpu.py: there is no tree '{kind}'")


def change_tree(pool, kind, folder):
    """A tenth of the segments, or of the files, gets other contents."""
    numbers = random.Random(7)
    if kind == "small":
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if numbers.random() < 0.1:
                path.write_bytes(contents(path.stat().st_size))
        return
    jobs = []
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        jobs += [(path, at, min(SEGMENT, size - at)) for at in range(0, size, SEGMENT) if numbers.random() < 0.1]
    pool.map(write_part, jobs, 16)


class Shredder:
    def __init__(self, options, folder):
        self.program = str((pathlib.Path(options["build"]) / "bin/shredder").resolve())
        self.folder, self.threads = folder, options["threads"]
        (folder / "key").write_bytes(os.urandom(64))

    def words(self, kind):
        return ["--no-encryption"] if kind == "plain" else [f"--key-file={self.folder}/key"]

    def init(self, repository, kind):
        shutil.rmtree(repository, ignore_errors=True)
        subprocess.run([self.program, "init", "-r", repository, *self.words(kind)], check=True, stdout=subprocess.DEVNULL)

    def backup(self, repository, kind, engine, tree):
        """The summary, with CPU seconds; ends the program when it failed or another engine did it."""
        threads = ["--threads", self.threads] if self.threads != "0" else []
        level = "-100" if kind == "plain" else "3"
        before = os.times()
        began = time.monotonic()
        done = subprocess.run([self.program, "backup", "--json", "--force", "-r", repository, "--engine", engine, "--level", level, *threads,
                               *self.words(kind), tree], capture_output=True, text=True, env={**os.environ, "XDG_STATE_HOME": str(self.folder)})
        wall, after = time.monotonic() - began, os.times()
        if done.returncode != 0:
            sys.exit(f"backup_gpu.py: {engine} failed: {done.stderr}")
        if "using the CPU" in done.stderr:
            print(f"backup_gpu.py: {engine}: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(3)
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return {**json.loads(done.stdout), "wall": wall, "cpu_seconds": cpu}


def compare_engines(shredder, repository, engines, tree):
    """New bytes are those of directories alone: what is younger than two seconds is marked in them."""
    shredder.init(repository, "full")
    for number, engine in enumerate(engines):
        result = shredder.backup(repository, "full", engine, tree)
        if number > 0 and result["new_bytes"] > result["files"] * 400 + 100000:
            sys.exit(f"backup_gpu.py: {engine} made other chunks than {engines[0]}: {result['new_bytes']} new bytes")


def measure(options, shredder, tree_kind, folder, rows):
    tree, repository = folder / "tree", folder / "repository"
    engines = options["engines"]
    with multiprocessing.Pool() as pool:
        make_tree(pool, tree_kind, tree, parse_size(options["size"]))
    compare_engines(shredder, repository, engines, tree)
    for kind in options["repository"]:
        found = {}
        for number in range(int(options["rounds"])):
            turn = number % len(engines)
            for engine in engines[turn:] + engines[:turn]:
                shredder.init(repository, kind)
                for step in ("first", "known"):
                    found.setdefault((step, engine), []).append(shredder.backup(repository, kind, engine, tree))
            # the same old generation for all
            old = folder / "old"
            shutil.rmtree(old, ignore_errors=True)
            os.rename(repository, old)
            with multiprocessing.Pool() as pool:
                change_tree(pool, tree_kind, tree)
            for engine in engines[turn:] + engines[:turn]:
                shutil.copytree(old, repository)
                found.setdefault(("changed", engine), []).append(shredder.backup(repository, kind, engine, tree))
                shutil.rmtree(repository)
            shutil.rmtree(old)
        for (step, engine), results in sorted(found.items(), key=lambda item: item[0][0]):
            middle = {key: statistics.median(r[key] for r in results) for key in ("wall", "cpu_seconds", "read_bytes", "new_bytes", "gpu_bytes")}
            row = {"bench": "backup_gpu", "tree": tree_kind, "repository": kind, "step": step, "engine": engine, **middle,
                   "gb_per_s": middle["read_bytes"] / middle["wall"] / 1e9, "processors": middle["cpu_seconds"] / middle["wall"],
                   "rounds": [r["wall"] for r in results]}
            rows.append(row)
            print(f"{tree_kind:7} {kind:6} {step:8} {engine:9} {row['gb_per_s']:7.2f} GB/s [{row['processors']:5.1f}]  "
                  f"wall {middle['wall']:7.2f} s  CPU {middle['cpu_seconds']:7.2f} s  by the GPU {middle['gpu_bytes'] / 1e9:6.2f} GB", flush=True)
    shutil.rmtree(tree)
    shutil.rmtree(repository, ignore_errors=True)


def main():
    options = {"build": str(ROOT / "build/cuda"), "engines": "cpu,cuda", "only": "image,images,small", "size": "8G", "repository": "plain,full",
               "threads": "0", "rounds": "3", "folder": "/dev/shm", "out": str(ROOT / "build/bench")}
    take_options(options, {"size": "64M", "rounds": "1"}, __doc__)
    for name in ("engines", "only", "repository"):
        options[name] = options[name].split(",")
    folder = pathlib.Path(options["folder"]) / f"shredder-backup-gpu.{os.getpid()}"
    folder.mkdir()
    rows = []
    try:
        shredder = Shredder(options, folder)
        for kind in options["only"]:
            measure(options, shredder, kind, folder, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    where = {"settings": options, "machine": machine(), "commit": commit()}
    out = pathlib.Path(options["out"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "backup_gpu.json").write_text(json.dumps([row | where for row in rows], indent=1) + "\n")


main()
