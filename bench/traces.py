#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hit ratios of caches on what programs do with files: gpu4fs trace record and replay.

traces.py record FOLDER [OPTION]...     records FOLDER/WORKLOAD-FILESYSTEM.trace, or with --level=block ...-FILESYSTEM.block.trace
                                        (root: it mounts)
traces.py replay FOLDER [--build=DIR]   replays all traces there, prints a JSON array
traces.py table FILE.json               prints the table
traces.py plot FILE.json FOLDER         draws hit ratios by size, a picture for each workload

  --build=DIR         where gpu4fs is built [build/release]
  --on=NAME,...       ext4, btrfs, gpu4fs, or here: FOLDER's own file system [ext4,btrfs,gpu4fs]
  --only=NAME,...     compile, packages, database, epoch [all]
  --level=NAME        file: what programs ask for; block: what reaches the device [file]
  --memory=MIB        with --level=block: memory for the programs and the kernel's page cache of what they use, a control group's
                      limit [compile 24, packages 96, others 32]
  --scale=N           percent of the work [100]

compile   part of the engine with gcc -O0, headers of the system included, an archive of it, and what make does after
          a header has changed: everything once more
packages  dpkg-deb -x of packages in apt's cache, or in --packages=DIR, newer files over older ones, and all read for their sums
database  SQLite with its usual cache of 2 MB: rows by an index, some often, some changed, and a scan of all now and then
epoch     files of 4 to 128 KiB, each read once in an epoch, in another order in each of three; an index before each batch
mixed     database and epoch at the same time, from their traces

What is recorded is what programs ask the file system for, before any cache. Programs and libraries are not on the file systems
that are recorded. Ratios do not depend on the speed or load of a machine. Exit status: 1 when something could not be done.

At block level it is what is left of that below the page cache: a loop device by `trace record --device`, of a gpu4fs its device
`trace:`, below an engine's cache of 2 MiB. The file system is mounted anew before, and synced at the end. What writes back, and when, is
the kernel's choice, so traces of two runs differ. Replayed as FILESYSTEM.reads are the same traces without their writes.
"""
import json
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys

from common import commit, machine

TOP = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ["compile", "packages", "database", "epoch"]
WAYS = ["8", "full"]
SIZES = "0.5%,1%,2%,5%,10%,20%,40%,80%"
KNOWN = ["clock", "second-chance", "lru", "sieve", "s3-fifo", "s3-fifo-1", "arc", "clock-pro", "srrip", "drrip"]  # the bound and fifo beside them
IMAGE_BYTES = 3 << 30
MEMORY_MIB = {"compile": 24, "packages": 96, "database": 32, "epoch": 32}


def say(text):
    print(f"traces: {text}", file=sys.stderr)


def call(*words, **more):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, **more)


# ------------------------------------------------------------------ workloads: each prepares, and gives the command to record


def compile_part(place, work, share):
    for name in ("src", "include"):
        shutil.copytree(TOP / name, place / name)
    # headers of the system as well: where the compiler looks for them, without fixed places
    includes = subprocess.run(["gcc", "-E", "-Wp,-v", "-x", "c", "/dev/null"], check=True, capture_output=True, text=True)
    folders = [line.strip() for line in includes.stderr.splitlines() if line.startswith(" /")]
    system = place / "system"
    flags = ["-nostdinc"]
    sources = sorted((place / "src").glob("[a-j]*/*.c"))
    sources = [source for source in sources if "avx" not in source.name and source.parent.name not in ("cli", "fsck", "fuse", "gpu")]
    sources = sources[:max(4, len(sources) * share // 100)]
    needed = set()
    own = ["gcc", "-M", "-D_GNU_SOURCE", "-include", str(TOP / "cmake/gnu_source.h"), f"-I{TOP}/src", f"-I{TOP}/include"]
    for source in sources:
        listed = subprocess.run(own + [str(TOP / source.relative_to(place))], check=True, capture_output=True, text=True)
        needed.update(word for word in listed.stdout.replace("\\\n", " ").split() if word.startswith("/usr"))
    for n, folder in enumerate(folders):
        flags.append(f"-isystem {system}/{n}")
        for name in needed:
            if name.startswith(folder + "/") and not any(name.startswith(f + "/") and len(f) > len(folder) for f in folders):
                target = system / str(n) / name[len(folder) + 1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, target)
    shutil.copy(TOP / "cmake/gnu_source.h", place / "gnu_source.h")
    lines = ["set -e", "for turn in 1 2; do"]
    for source in sources:
        lines.append(f"gcc -c -O0 -g -w -D_FILE_OFFSET_BITS=64 -include {place}/gnu_source.h {' '.join(flags)} -I{place}/src "
                     f"-I{place}/include -o {source.with_suffix('.o')} {source}")
    objects = " ".join(str(source.with_suffix(".o")) for source in sources)
    lines += [f"rm -f {place}/all.a", f"ar rcs {place}/all.a {objects}", f"ld -r -o {place}/all.o {objects}", "done"]
    script = work / "compile.sh"
    script.write_text("\n".join(lines) + "\n")
    return ["sh", script]


def packages(place, work, share, folder):
    found = sorted(folder.glob("*.deb"), key=lambda path: path.stat().st_size)
    found = [path for path in found if path.stat().st_size > 20000][-700:-100]  # not the few that are larger than all others
    chosen = random.Random(1).sample(found, min(len(found), max(4, 80 * share // 100)))
    if not chosen:
        raise FileNotFoundError(f"no packages in {folder}; name another one: --packages=DIR")
    (place / "archives").mkdir()
    for path in chosen:
        shutil.copy(path, place / "archives")
    script = work / "packages.sh"
    script.write_text(f"""set -e
for turn in 1 2; do
    for package in {place}/archives/*.deb; do
        dpkg-deb -x "$package" {place}/root
    done
    find {place}/root -type f -exec md5sum {{}} + >{place}/sums.$turn
done
""")
    return ["sh", script]


def database(place, work, share):
    rows, queries = 2000 * share, 600 * share
    rng = random.Random(2)
    name = place / "data.db"
    db = sqlite3.connect(name)
    db.execute("create table t (id integer primary key, name text, body blob)")
    db.executemany("insert into t values (?, ?, ?)", ((i, f"{rng.getrandbits(64):x}", rng.randbytes(200)) for i in range(rows)))
    db.execute("create index by_name on t (name)")
    db.commit()
    names = [row[0] for row in db.execute("select name from t order by id")]
    db.close()
    lines = []
    for n in range(queries):
        which = min(int(rng.paretovariate(0.6)) - 1, rows - 1) if rng.random() < 0.8 else rng.randrange(rows)
        which = which * 7919 % rows  # those that are asked for often do not lie side by side
        if n % (queries // 4) == queries // 8:
            lines.append("select count(*), sum(length(body)) from t;")
        elif n % 10 == 0:
            lines.append(f"update t set body = randomblob(200) where id = {which};")
        else:
            lines.append(f"select id, body from t where name = '{names[which]}';")
    script = work / "queries.sql"
    script.write_text("\n".join(lines) + "\n")
    return ["sh", "-c", f"sqlite3 {name} <{script} >/dev/null"]


def epoch(place, work, share):
    rng = random.Random(3)
    count = 40 * share
    (place / "samples").mkdir()
    for n in range(count):
        (place / f"samples/{n}").write_bytes(rng.randbytes(min(4096 + int(rng.expovariate(1 / 24000)), 131072)))
    (place / "index").write_bytes(rng.randbytes(count * 64))
    script = work / "epoch.py"
    script.write_text(f"""import random
rng = random.Random(4)
order = list(range({count}))
for turn in range(3):
    rng.shuffle(order)
    for at in range(0, len(order), 32):
        with open("{place}/index", "rb", buffering=0) as index:
            for n in order[at:at + 32]:
                index.seek(n * 64)
                index.read(64)
        for n in order[at:at + 32]:
            with open(f"{place}/samples/{{n}}", "rb", buffering=0) as file:
                file.read()
""")
    return ["python3", "-S", "-E", script]


# ------------------------------------------------------------------ file systems


class Mount:
    """A file system of its own for the time: in a file in `work`, mounted at work/mnt."""

    def __init__(self, kind, work, gpu4fs):
        self.kind, self.gpu4fs, self.image, self.place = kind, gpu4fs, work / "image", work / "mnt"
        self.loop = None

    def __enter__(self):
        self.place.mkdir()
        if self.kind == "here":
            return self
        with open(self.image, "wb") as image:
            image.truncate(IMAGE_BYTES)
        if self.kind == "gpu4fs":
            call(self.gpu4fs, "mkfs", "-q", "-f", self.image)
        else:
            call(f"mkfs.{self.kind}", "-q", self.image)
        self.mount()
        return self

    def mount(self, trace=None):
        if self.kind == "gpu4fs":
            call(self.gpu4fs, "mount", *(["-o", "cache=2M", f"trace:{trace}:{self.image}"] if trace else [self.image]), self.place)
            return
        found = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", self.image], check=True, capture_output=True, text=True)
        self.loop = found.stdout.strip()
        call("mount", "-t", self.kind, self.loop, self.place)

    def unmount(self):
        if self.kind == "gpu4fs":
            call(self.gpu4fs, "umount", self.place)
        elif self.place.is_mount():
            call("umount", self.place)
        if self.loop:
            call("losetup", "--detach", self.loop)
            self.loop = None

    def __exit__(self, *_):
        if self.kind != "here":
            self.unmount()
        shutil.rmtree(self.place)
        self.image.unlink(missing_ok=True)


class Group:
    """A control group with so much memory, of either version."""

    def __init__(self, mib):
        places = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
        top = next(place for place in places if (place / "cgroup.procs").exists())
        self.path = top / f"gpu4fs-traces.{os.getpid()}"
        self.limit = ("memory.limit_in_bytes" if top.name == "memory" else "memory.max", mib << 20)

    def __enter__(self):
        self.path.mkdir()
        (self.path / self.limit[0]).write_text(str(self.limit[1]))
        return self.path / "cgroup.procs"

    def __exit__(self, *_):
        self.path.rmdir()


def record_blocks(mount, name, trace, command, options):
    """What reaches the device, where programs and the page cache have little memory together."""
    mount.unmount()
    trace.unlink(missing_ok=True)
    mount.mount(trace)
    with Group(int(options["memory"] or MEMORY_MIB[name])) as group:
        words = ["sh", "-ec", f'echo $$ >{group}; "$@"; sync -f {mount.place}', "sh", *command]
        call(*([] if mount.kind == "gpu4fs" else [mount.gpu4fs, "trace", "record", "--device", mount.loop, "-o", trace]), *words)


def record(folder, options):
    gpu4fs = pathlib.Path(options["build"]).resolve() / "bin/gpu4fs"
    share = int(options["scale"])
    for kind in options["on"].split(","):
        for name in options["only"].split(","):
            work = folder / f"work-{kind}-{name}"
            work.mkdir(parents=True)
            try:
                with Mount(kind, work, gpu4fs) as mount:
                    say(f"{name} on {kind}, {options['level']} level")
                    more = [pathlib.Path(options["packages"])] if name == "packages" else []
                    command = {"compile": compile_part, "packages": packages, "database": database,
                               "epoch": epoch}[name](mount.place, work, share, *more)
                    if options["level"] == "block":
                        record_blocks(mount, name, folder / f"{name}-{kind}.block.trace", command, options)
                        continue
                    wanted = ["-d", mount.place] if kind != "here" else []
                    call(gpu4fs, "trace", "record", *wanted, "-o", folder / f"{name}-{kind}.trace", *command)
            finally:
                shutil.rmtree(work, ignore_errors=True)


# ------------------------------------------------------------------ replaying


def mix(gpu4fs, one, other, to):
    """Two traces at the same time: the accesses of both, in proportion."""
    lines = []
    for n, path in enumerate((one, other)):
        text = subprocess.run([gpu4fs, "trace", "show", path], check=True, capture_output=True, text=True).stdout
        words = [line.split() for line in text.splitlines() if line[0] != "#"]
        lines += [((at + 0.5) / len(words), n, f"{op} {2 * int(file) + n} {rest[0]} {rest[1]}")
                  for at, (op, file, *rest) in enumerate(words)]
    to.write_text("".join(line + "\n" for _, _, line in sorted(lines)))


def reads_of(gpu4fs, path, to):
    """The reads of a trace alone: what a cache sees that written pages do not come into."""
    text = subprocess.run([gpu4fs, "trace", "show", path], check=True, capture_output=True, text=True).stdout
    to.write_text("".join(line + "\n" for line in text.splitlines() if line[0] == "r"))


def replay(folder, options):
    gpu4fs = pathlib.Path(options["build"]).resolve() / "bin/gpu4fs"
    kinds = {path.stem.split("-")[1] for path in folder.glob("*.trace")}
    for kind in sorted(kind for kind in kinds if not kind.endswith(".reads")):
        parts = [folder / f"database-{kind}.trace", folder / f"epoch-{kind}.trace"]
        if all(part.exists() for part in parts):
            mix(gpu4fs, *parts, folder / f"mixed-{kind}.trace")
    for path in folder.glob("*.block.trace"):
        reads_of(gpu4fs, path, path.with_name(path.name.replace(".block.", ".reads.")))
    same = {"bench": "traces", "machine": machine(), "commit": commit()}
    records = []
    for path in sorted(folder.glob("*.trace")):
        say(path.name)
        found = json.loads(subprocess.run([gpu4fs, "trace", "replay", "--json", "--ways", ",".join(WAYS), "--size", SIZES, path],
                                          check=True, capture_output=True, text=True).stdout)
        workload, kind = path.stem.split("-")
        whole = {key: found[key] for key in ("accesses", "page_accesses", "page_writes", "distinct_bytes")}
        for percent, results in by_size(found["results"]):
            records.append({"workload": workload, "on": kind, **whole, "percent": percent, "size_bytes": results[0]["size_bytes"],
                            "ratios": {w: {r["policy"]: r["hit_ratio"] for r in results if ways_of(r) == w}
                                       for w in WAYS}, **same})
    return records


def ways_of(result):
    return "full" if result["fully_associative"] else str(result["ways"])


def by_size(results):
    """For each size of SIZES, in their order, the results of all ways. Sizes may be rounded to sets."""
    sizes = SIZES.split(",")
    policies = len({r["policy"] for r in results})
    for n, size in enumerate(sizes):
        yield size, [r for ways in range(len(WAYS))
                     for r in results[(ways * len(sizes) + n) * policies:(ways * len(sizes) + n + 1) * policies]]


def best(ratios):
    return max(KNOWN, key=lambda name: ratios[name])


def table(records):
    shown = ["clock", "second-chance", "lru", "sieve", "s3-fifo", "s3-fifo-1", "arc", "clock-pro", "drrip", "min"]
    print(f"{'hit ratio, %: 8 ways':39}" + "".join(f"{name:>10}" for name in [*shown[:1], "2nd-ch.", *shown[2:]])
          + "  full: best        bound")
    for r in records:
        eight, full = r["ratios"]["8"], r["ratios"]["full"]
        size = f"{r['percent']}, {r['size_bytes'] / 2**20:.1f} MiB"
        print(f"{r['workload']:10}{r['on']:13}{size:>16}" + "".join(f"{100 * eight[name]:10.1f}" for name in shown)
              + f"{100 * full[best(full)]:7.1f} {best(full):13}{100 * full['min']:5.1f}")
    print("\n8 ways: points behind the best policy, by workload on average, then at most")
    names = list(dict.fromkeys(r["workload"] for r in records))
    for policy in KNOWN:
        lost = {name: [100 * (r["ratios"]["8"][best(r["ratios"]["8"])] - r["ratios"]["8"][policy])
                       for r in records if r["workload"] == name] for name in names}
        every = [value for values in lost.values() for value in values]
        print(f"{policy:14}" + "".join(f"{name:>10}{sum(values) / len(values):6.1f}{max(values):6.1f}" for name, values in lost.items())
              + f"   all {sum(every) / len(every):5.2f}, within 1 in {sum(value <= 1 for value in every)} of {len(every)}")


PLOT = """set terminal pngcairo size 1100,520 noenhanced font "sans,11"
set output "{png}"
set title "{title}"
set ylabel "hit ratio, %"
set xlabel "cache, MiB"
set logscale x
set grid ytics lc rgb "#dddddd"
set key outside right top
set border 3
set tics nomirror out
$data << END
{data}
END
plot for [i=2:{last}] $data using 1:i with linespoints title columnheader(i)
"""


def plot(records, folder):
    if not shutil.which("gnuplot"):
        say("nothing is drawn: there is no gnuplot")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for workload, kind in sorted({(r["workload"], r["on"]) for r in records}):
        rows = [r for r in records if (r["workload"], r["on"]) == (workload, kind)]
        columns = [(ways, name) for ways in ("8", "full") for name in ("clock", "sieve", "s3-fifo-1", "arc", "min")]
        lines = [" ".join(["MiB"] + [f'"{name}, {ways} ways"' if ways == "8" else f'"{name}, {ways}"' for ways, name in columns])]
        lines += [" ".join([f"{r['size_bytes'] / 2**20:.4g}"] + [f"{100 * r['ratios'][w][p]:.4g}" for w, p in columns]) for r in rows]
        png = folder / f"traces-{workload}-{kind}.png"
        script = PLOT.format(png=png, title=f"{workload} on {kind}", data="\n".join(lines), last=1 + len(columns))
        subprocess.run(["gnuplot"], input=script, text=True, check=True)
        print(png)


def main():
    words = sys.argv[1:]
    options = {"build": "build/release", "on": "ext4,btrfs,gpu4fs", "only": ",".join(WORKLOADS), "scale": "100", "level": "file", "memory": "",
               "packages": "/var/cache/apt/archives"}
    places = []
    for word in words[1:]:
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in options:
            options[name] = value
        elif word.startswith("--"):
            sys.exit(f"traces.py: {word} is no option")
        else:
            places.append(pathlib.Path(word).resolve())
    known = {"record": 1, "replay": 1, "table": 1, "plot": 2}
    if not words or words[0] not in known or len(places) != known[words[0]]:
        print(__doc__, file=sys.stderr)
        return 2
    if options["level"] not in ("file", "block") or (options["level"] == "block" and "here" in options["on"].split(",")):
        sys.exit("traces.py: --level is file or block, and block level wants a file system of its own")
    if words[0] == "record":
        record(places[0], options)
    elif words[0] == "replay":
        json.dump(replay(places[0], options), sys.stdout, indent=1)
        print()
    elif words[0] == "table":
        table(json.loads(places[0].read_text()))
    else:
        plot(json.loads(places[0].read_text()), places[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
