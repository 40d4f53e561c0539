#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A set of disks under everything that it survives, at random, for so long:

    torture_sets.py [--seconds N] [--seed N] [--work DIRECTORY] GPU4FS

Two workers write, rename, cut, share and read files of a mount, each knows what it has, and compares. Meanwhile, and in between,
disks rot, are taken out, come back, are replaced, added and removed; the file system is scrubbed, deduplicated, checked, repaired, mounted
anew, and its server is killed. Never more at a time than the level bears. Each seed is a set of its own: level, sums, deduplication, stripes. Exit
status 0: nothing was lost; 1: it says what, and leaves the disks and a log of all that was done; 77: nothing can be mounted here.

What disks may do is decided in class Torture: `rotten` are those that may have wrong pages that nobody has mended, `away` those that have missed
something. A disk that was rebuilt while another one was rotten may have been made of wrong pages: it is rotten as well. A kill while one is rotten
leaves rows with parity to a recovery that believes what several parities make (docs/roadmap.md), so that is left out there.
"""
import argparse, errno, json, os, random, shutil, subprocess, sys, tempfile, threading, time, traceback

PAGE = 4096
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ESHUTDOWN)
FIRST_PAGE = 2  # of what rots: before it are superblocks, which say whose disk it is
MOST_DISKS = 9


class Lost(Exception):
    """Something is not what it has to be."""


class Ended(Exception):
    """The server was killed."""


class File:
    def __init__(self, contents):
        self.now = contents
        self.maybe = []  # what it was since it was durable; empty: it is
        self.name_durable = False

    def becomes(self, contents):
        self.maybe.append(self.now)
        self.now = contents


def page_of(contents, number):
    return contents[number * PAGE:(number + 1) * PAGE]


def may_be(found, versions):
    """After a crash: of each page one of the versions, cut or filled with zeros by a version's size."""
    if not any(len(found) == len(v) for v in versions):
        # the size of one version, or where a page of one ends that was written before its size was
        if len(found) > max(len(v) for v in versions):
            return False
    for number in range((len(found) + PAGE - 1) // PAGE):
        page = page_of(found, number)
        pages = [page_of(v, number) for v in versions]
        if page in pages or not any(page):
            continue
        for at, byte in enumerate(page):
            if byte and not any(at < len(p) and p[at] == byte for p in pages):
                return False
    return True


class Worker(threading.Thread):
    """Works until it is told to stop. Its files stay in `world`, which the next worker goes on with."""

    def __init__(self, world, top, seed):
        super().__init__(daemon=True)
        self.world, self.top, self.random = world, top, random.Random(seed)
        self.stop = threading.Event()
        self.error = None
        self.ended = False

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
        except Ended:
            self.ended = True
        except BaseException as e:  # what it is, is told by who joins
            self.error = e
            self.trace = traceback.format_exc()

    def path(self, name):
        return os.path.join(self.top, name)

    def contents(self, most):
        r = self.random
        count = r.randrange(0, most)
        parts = []
        while count > 0:
            some = min(count, r.choice((1, 2, 7)))
            kind = r.random()
            if kind < 0.3:  # what others have, too
                parts += [self.world.pool[r.randrange(len(self.world.pool))] for _ in range(some)]
            elif kind < 0.4:
                parts.append(bytes(PAGE * some))
            else:
                parts.append(r.randbytes(PAGE * some))
            count -= some
        return b"".join(parts) + r.randbytes(r.choice((0, 0, 1, 100, 700, 4000)))

    def system(self, call):
        """None: there is no space."""
        try:
            return call()
        except OSError as e:
            if e.errno in GONE or (e.errno in (errno.EIO, errno.EINTR) and self.world.killing.is_set()):
                raise Ended() from e
            if e.errno == errno.ENOSPC:
                return None
            raise

    def write(self, name, offset, data, truncate=False):
        def call():
            fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if truncate else 0), 0o644)
            try:
                at = 0
                while at < len(data):
                    at += os.pwrite(fd, data[at:], offset + at)
            finally:
                os.close(fd)
            return True
        return self.system(call)

    def read(self, name):
        def call():
            with open(self.path(name), "rb", buffering=0) as f:
                return f.readall()
        return self.system(call)

    def fsync(self, name):
        def call():
            fd = os.open(self.path(name), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            return True
        return self.system(call)

    def drop(self, name):
        """There was no space in the middle of something: nobody knows what it has."""
        file = self.world.files[self.top].pop(name, None)
        self.world.ghost(self.top, name, file)
        self.world.wild.add((self.top, name))
        self.system(lambda: os.path.exists(self.path(name)) and os.unlink(self.path(name)))

    def make_room(self):
        files = self.world.files[self.top]
        for name in self.random.sample(sorted(files), len(files) // 2):
            self.unlink(name)

    def unlink(self, name):
        self.world.ghost(self.top, name, self.world.files[self.top].pop(name))
        self.system(lambda: os.unlink(self.path(name)))

    def compare(self, name):
        found, file = self.read(name), self.world.files[self.top][name]
        if found != file.now:
            raise Lost("%s has %d bytes, %d expected; first page that differs: %s" % (
                self.path(name), len(found), len(file.now),
                [n for n in range(max(len(found), len(file.now)) // PAGE + 1)
                 if page_of(found, n) != page_of(file.now, n)][:1]))

    def step(self):
        r, files = self.random, self.world.files[self.top]
        name = "f%u" % r.randrange(40)
        file = files.get(name)
        what = r.random()
        if file is None:
            data = self.contents(r.choice((2, 20, 20, 150)))
            self.world.ghost(self.top, name, File(b""))
            files[name] = File(b"")
            files[name].becomes(data)
            if self.write(name, 0, data) is None:
                self.drop(name)
                self.make_room()
        elif what < 0.25:
            data = self.contents(12)
            offset = r.randrange(len(file.now) + 3 * PAGE) // r.choice((1, 1, PAGE)) if data else 0
            before = file.now.ljust(offset, b"\0")
            if data:
                file.becomes(before[:offset] + data + before[offset + len(data):])
                if self.write(name, offset, data) is None:
                    self.drop(name)
                    self.make_room()
        elif what < 0.3:
            size = r.randrange(len(file.now) + 2 * PAGE)
            file.becomes(file.now[:size].ljust(size, b"\0"))
            if self.system(lambda: os.truncate(self.path(name), size) or True) is None:
                self.drop(name)
        elif what < 0.38:
            other = "f%u" % r.randrange(40)
            if other != name:
                self.world.ghost(self.top, name, file)
                if other in files:
                    self.world.ghost(self.top, other, files[other])
                file.name_durable = False
                self.world.ghost(self.top, other, file)
                files[other] = files.pop(name)
                if self.system(lambda: os.rename(self.path(name), self.path(other)) or True) is None:
                    raise Lost("a rename without space")
        elif what < 0.45:
            self.unlink(name)
        elif what < 0.6:
            count = len(file.maybe)
            if self.fsync(name) is None:
                raise Lost("fsync of %s: no space" % self.path(name))
            del file.maybe[:count]
        elif what < 0.63:
            self.sync_names()
        else:
            self.compare(name)

    def sync_names(self):
        """Everything of the directory is durable behind this."""
        world, names = self.world, list(self.world.files[self.top])
        for name in names:
            if self.fsync(name) is None:
                raise Lost("fsync: no space")
        if self.fsync(".") is None:
            raise Lost("fsync: no space")
        for name in names:
            file = world.files[self.top][name]
            file.maybe, file.name_durable = [], True
        world.ghosts[self.top].clear()
        world.wild = {w for w in world.wild if w[0] != self.top}


class World:
    """What workers have written."""

    def __init__(self, tops, rng):
        self.files = {top: {} for top in tops}
        self.ghosts = {top: {} for top in tops}  # name: what it had, or may have, since names were durable
        self.wild = set()  # of these nobody knows what they may have
        self.pool = [rng.randbytes(PAGE) for _ in range(64)]
        self.killing = threading.Event()

    def ghost(self, top, name, file):
        ghosts = self.ghosts[top].setdefault(name, [])
        if file is not None:
            ghosts.append(file)

    def adopt(self, top):
        """After a crash: what is there is one of what there may be, and counts from now on."""
        files, ghosts = self.files[top], self.ghosts[top]
        found = set(os.listdir(top))
        for name, file in files.items():
            if name not in found and file.name_durable and name not in ghosts:
                raise Lost("%s/%s was durable and is gone" % (top, name))
        after = {}
        for name in found:
            candidates = ([files[name]] if name in files else []) + ghosts.get(name, [])
            if not candidates and (top, name) not in self.wild:
                raise Lost("%s/%s should not be there" % (top, name))
            with open(os.path.join(top, name), "rb") as f:
                data = f.read()
            versions = [v for c in candidates for v in [c.now] + c.maybe]
            if (top, name) not in self.wild and not may_be(data, versions):
                raise Lost("%s/%s, of %d bytes, has what it never had" % (top, name, len(data)))
            if len(versions) == 1 and data != versions[0]:
                raise Lost("%s/%s was durable and is another one" % (top, name))
            after[name] = File(data)
        self.files[top] = after
        ghosts.clear()
        # it has been read from a file system that was recovered: that is durable, but what the worker syncs next says so
        for file in after.values():
            file.name_durable = True
        self.wild = {w for w in self.wild if w[0] != top}


LEVELS = (("none", 2, 0), ("0", 3, 0), ("1", 2, 1), ("1", 4, 1), ("1", 4, 2), ("5", 3, 1), ("5", 5, 1), ("6", 4, 2), ("6", 6, 2),
          ("triple", 6, 3), ("quadruple", 7, 4))


class Torture:
    def __init__(self, gpu4fs, work, seed, only):
        self.gpu4fs, self.work, self.random = gpu4fs, work, random.Random(seed)
        self.log_file = open(os.path.join(work, "log"), "w", buffering=1)
        self.mnt = os.path.join(work, "mnt")
        os.mkdir(self.mnt)
        r = self.random
        levels = [l for l in LEVELS if only in (None, l[0])]
        self.level, count, self.bears = r.choice(levels)
        self.parity = self.level in ("5", "6", "triple", "quadruple")
        self.sums = r.choice(("blake3", "crc32c", "xxh3", "none"))
        self.made, self.counts = 0, {}
        self.disks = [self.new_disk() for _ in range(count)]
        self.rotten, self.away, self.server = set(), set(), None
        self.taken = {}  # disks that are missing, by the name that they had
        how = ["--raid", self.level, "--checksum", self.sums]
        if self.level == "1":
            how += ["--copies", str(self.bears + 1)]
        elif self.level != "none" and r.random() < 0.6:
            how += ["--stripe", r.choice(("16K", "64K"))]
        self.dedup = self.sums != "none" and r.random() < 0.5
        how += ["--dedup"] if self.dedup else []
        other = {"1": "56"[self.bears - 1:][:1], "5": "1", "6": "1"}.get(self.level)
        self.leveled = other if count > self.bears + 1 and r.random() < 0.4 else None
        how += ["--unassigned", "50"] if self.leveled else []
        self.how = how
        self.workers = []
        self.say("seed %d: %s, %d disks" % (seed, " ".join(how), count))
        print("seed %d: mkfs %s, %d disks" % (seed, " ".join(how), count), flush=True)
        self.tops = [os.path.join(self.mnt, "w%u" % n) for n in range(2)]
        self.world = World(self.tops, r)

    def start(self):
        self.run("mkfs", "--quiet", *self.how, *self.disks)
        self.mount()
        for top in self.tops:
            os.mkdir(top)
        if self.leveled:
            self.run("disk", "assign", "--raid", self.leveled, self.mnt)
            self.run("attr", "set", "raid=" + self.leveled, self.tops[1])
        self.sync_all()

    # ---- programs

    def say(self, text):
        self.log_file.write("%s %s\n" % (time.strftime("%H:%M:%S"), text))

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def run(self, *command, may=(0,), words=""):
        """The exit status, which is one of `may`, or else what is said has these words."""
        done = subprocess.run([self.gpu4fs, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                              cwd=self.work, errors="replace")
        self.said = done.stdout
        self.say("%s: %d\n%s" % (" ".join(os.path.basename(c) for c in command), done.returncode, done.stdout[-6000:]))
        if done.returncode not in may and not (words and words in done.stdout):
            raise Lost("%s: %d\n%s" % (" ".join(command), done.returncode, done.stdout[-3000:]))
        return done.returncode

    def new_disk(self, mebibytes=None):
        name = os.path.join(self.work, "disk%u" % self.made)
        self.made += 1
        with open(name, "wb") as f:
            f.truncate((mebibytes or self.random.choice((48, 48, 56))) << 20)
        return name

    def present(self):
        return [d for d in self.disks if d not in self.taken]

    def mount(self):
        r = self.random
        options = ["commit=%s" % r.choice((1, 5, 3600)), "cache=%s" % r.choice(("8M", "16M", "256M"))]
        names = [d for d in self.present() if d not in self.stale_out]
        if self.away:
            options.append("degraded")
        if r.random() < 0.3:
            options.append("nowriteback")
        r.shuffle(names)
        self.say("mount -o %s %s" % (",".join(options), " ".join(os.path.basename(n) for n in names)))
        log = open(os.path.join(self.work, "server.log"), "a")
        self.server = subprocess.Popen([self.gpu4fs, "mount", "-f", "-o", ",".join(options), *names, self.mnt], stdout=log,
                                       stderr=log, cwd=self.work)
        log.close()
        while not os.path.ismount(self.mnt):
            if self.server.poll() is not None:
                raise Lost("mount -o %s %s: %d\n%s" % (",".join(options), " ".join(names), self.server.returncode, self.server_log()))
            time.sleep(0.01)

    def server_log(self):
        with open(os.path.join(self.work, "server.log")) as f:
            return f.read()[-3000:]

    # those that the set has gone on without: a mount is not given them
    @property
    def stale_out(self):
        return {d for d in self.away if d not in self.building}

    building = frozenset()

    def look(self):
        """What has become of the disks, by what they say."""
        target = [self.mnt] if self.server else self.present()
        self.run("status", "--json", *target, may=(0, 1))
        told = json.loads(self.said[self.said.index("{"):])
        states = {d["device"]: d["state"] for d in told["disks"] if d.get("device")}
        self.building = {d for d, s in states.items() if s == "rebuilding"}
        active = {d for d in self.disks if states.get(d) == "active"}
        back = self.away & active
        if back and self.rotten and self.bears:
            self.rotten |= back  # made of what may have been wrong
        self.away = set(self.disks) - active
        if len(self.away) > self.bears:
            raise Lost("%s are not used any more: %s" % (self.away, states))
        return states

    def unmount(self):
        self.run("umount", self.mnt)
        if self.server.wait(timeout=600) != 0:
            raise Lost("the server ended with %d\n%s" % (self.server.returncode, self.server_log()))
        self.server = None

    # ---- workers

    def begin(self):
        self.world.killing.clear()
        self.workers = [Worker(self.world, top, self.random.random()) for top in self.tops]
        for w in self.workers:
            w.start()

    def end(self, killed=False):
        for w in self.workers:
            w.stop.set()
        for w in self.workers:
            w.join(600)
            if w.is_alive():
                raise Lost("a worker hangs")
        for w in self.workers:
            if w.error:
                raise Lost("a worker: %r\n%s" % (w.error, w.trace))
            if w.ended and not killed:
                raise Lost("the server is gone\n" + self.server_log())
        self.workers = []

    def verify(self):
        """Everything, as the devices have it."""
        for top in self.tops:
            worker = Worker(self.world, top, 0)
            if set(os.listdir(top)) != set(self.world.files[top]):
                raise Lost("%s has other names: %s" % (top, set(os.listdir(top)) ^ set(self.world.files[top])))
            for name in self.world.files[top]:
                worker.compare(name)
        self.count("verified")

    def sync_all(self):
        for top in self.tops:
            Worker(self.world, top, 0).sync_names()

    # ---- what happens to disks

    def may_lose(self):
        """So many more disks may become wrong or go away."""
        return self.bears - len(self.rotten | self.away)

    def rot(self, last=False):
        """
        Pages of some disks. Of rows with parity once until a scrub: what is written to a page that has rotted leaves parity by which it is another
        one, and if that rotted again nothing would have it. And of one disk alone, but at the end: a scrub mends contents of several, and not what
        is nobody's in their rows (docs/roadmap.md).
        """
        rows = self.parity or self.leveled
        if rows and self.rotten:
            return
        more = [d for d in self.disks if d not in self.away | self.rotten]
        self.random.shuffle(more)
        most = 1 if rows and not last else self.may_lose()
        some = more[:most if last else self.random.randint(1, most)] if self.may_lose() > 0 else []
        for disk in some or sorted(self.rotten):
            self.rot_disk(disk)
            self.rotten.add(disk)

    def rot_disk(self, disk):
        pages = os.path.getsize(disk) // PAGE - 1
        share = self.random.choice((0.001, 0.02, 0.5, 1))
        count = 0
        with open(disk, "r+b", buffering=0) as f:
            for page in range(FIRST_PAGE, pages):
                if self.random.random() >= share:
                    continue
                at = page * PAGE + self.random.randrange(PAGE)
                byte = os.pread(f.fileno(), 1, at)
                if not byte[0] and share > 0.1 and not any(os.pread(f.fileno(), PAGE, page * PAGE)):
                    continue
                os.pwrite(f.fileno(), bytes([byte[0] ^ 1 << self.random.randrange(8)]), at)
                count += 1
        self.say("%s rots: %d pages" % (os.path.basename(disk), count))
        self.count("rot")

    def can_rot(self):
        return self.bears > 0 and self.sums != "none"

    def offline(self):
        if self.may_lose() < 1 or self.away:
            return
        disk = self.random.choice([d for d in self.disks if d not in self.rotten])
        self.run("disk", "offline", self.mnt, disk)
        self.look()
        self.count("offline")

    def online(self):
        """A disk that has missed something comes back, or another one in its place."""
        if not self.away or self.building:
            return
        disk, wait = sorted(self.away)[0], ["--wait"] if self.random.random() < 0.5 else []
        if self.random.random() < 0.5:
            new = self.new_disk(56)
            self.run("disk", "replace", "--now", *wait, self.mnt, new, may=(0, 1) if self.world.killing.is_set() else (0,))
            os.unlink(disk)
            self.taken.pop(disk, None)
            self.disks[self.disks.index(disk)] = new
            self.away = (self.away - {disk}) | {new}
            self.count("replace")
        else:
            while self.run("disk", "online", "--now", *wait, self.mnt, disk, words="under way") != 0:
                time.sleep(0.05)
            self.count("online")
        self.look()

    def whole(self):
        """Mounted. All disks are there and up to date."""
        while self.away:
            if not self.building:
                self.online()
            self.look()
            time.sleep(0.05)

    def scrub(self):
        """All that is wrong is mended."""
        self.whole()
        self.run("scrub", "cancel", self.mnt, may=(0, 1))
        for _ in range(3):
            if self.run("scrub", "start", "--now", "--wait", self.mnt, may=(0, 1)) == 0:
                break
        else:
            raise Lost("three scrubs have not mended what is rotten\n" + self.said)
        self.rotten = set()
        self.count("scrub")

    # ---- turns

    def busy(self):
        """While workers work."""
        r = self.random
        self.begin()
        for _ in range(r.randrange(1, 4)):
            time.sleep(r.random() * 0.4)
            what = r.choice(("scrub", "dedup", "offline", "online", "online", "rot", "nothing", "add", "balance"))
            if what == "scrub":
                self.run("scrub", "start", "--now", self.mnt, may=(0, 1))
                self.count("scrub beside")
            elif what == "dedup":
                self.run("dedup", "run", self.mnt, may=(0, 1) if self.rotten else (0,))
                self.count("dedup")
            elif what == "offline":
                self.offline()
            elif what == "online":
                self.online()
            elif what == "rot" and self.can_rot() and not self.building:
                self.rot()
            elif what == "add" and len(self.disks) < MOST_DISKS and not self.away and not self.rotten:
                new = self.new_disk()
                self.run("disk", "add", self.mnt, new)
                self.disks.append(new)
                self.count("add")
            elif what == "balance" and not self.parity and not self.leveled and not self.away and not self.rotten:
                if r.random() < 0.5 and len(self.disks) > self.bears + 3:
                    old = r.choice(self.disks)
                    if self.run("disk", "remove", "--now", "--wait", self.mnt, old, may=(0, 1)) == 0:
                        self.disks.remove(old)
                        os.unlink(old)
                        self.count("remove")
                else:
                    self.run("disk", "rebalance", "--now", "--wait", self.mnt, may=(0, 1))
                    self.count("rebalance")
        time.sleep(r.random() * 0.4)

    def kill(self):
        self.world.killing.set()
        time.sleep(self.random.random() * 0.05)
        self.server.kill()
        self.server.wait()
        self.end(killed=True)
        self.server = None
        self.run("umount", self.mnt, may=(0, 2))
        if os.path.ismount(self.mnt):
            raise Lost("the mount of a killed server stays")
        self.say("killed")
        self.count("kill")
        self.killed = True

    killed = False

    def between(self):
        """While it is not mounted."""
        r, rotten = self.random, bool(self.rotten)
        for _ in range(r.randrange(0, 3)):
            names = [d for d in self.present() if d not in self.stale_out]
            degraded = ["--degraded"] if self.away else []
            what = r.choice(("fsck", "fsck", "repair", "repair", "data", "rot", "scrub", "rebuild", "take"))
            if what == "fsck":
                self.run("fsck", "-n", "-f", *names, may=(0, 4) if rotten else (0,))
            elif what == "repair":
                self.run("fsck", "-y", *degraded, *names, may=(0, 1, 4) if rotten else (0,))
            elif what == "data":
                self.run("fsck", "-n", "--data", *names, may=(0, 4) if rotten else (0,))
            elif what == "rot" and self.can_rot() and not self.building and not (self.killed and self.parity):
                self.rot()
                rotten = True
            elif what == "scrub" and not (self.killed and self.building):
                self.run("scrub", "start", *degraded, ",".join(names), may=(0, 1) if rotten else (0,),
                         words="is there already")
            elif what == "rebuild" and self.away:
                disk = sorted(self.away)[0]
                if disk in self.taken or (r.random() < 0.5 and not self.building):
                    new = self.new_disk(56)
                    self.run("disk", "replace", *[d for d in self.present() if d != disk], new)
                    if os.path.exists(disk):
                        os.unlink(disk)
                    self.taken.pop(disk, None)
                    self.disks[self.disks.index(disk)] = new
                else:
                    self.run("disk", "rebuild", *self.present(), words="no disk of its file system is stale")
                self.look()
            elif what == "take" and self.may_lose() > 0 and not self.away:
                disk = r.choice([d for d in self.disks if d not in self.rotten])
                self.away = {disk}
            else:
                continue
            self.count("unmounted " + what)

    def turn(self):
        r = self.random
        self.busy()
        # a kill while a job of disks has its words to say: those orders have returned
        if r.random() < 0.35 and not (self.rotten and (self.parity or self.leveled)):
            self.look()
            self.kill()
        else:
            self.end()
            if r.random() < 0.3:
                for how in ("ro", "rw"):
                    self.run("mount", "-o", "remount," + how, self.disks[0], self.mnt)
                self.count("remount")
            self.look()
            self.unmount()
        self.between()
        self.mount()
        if self.killed:
            for top in self.tops:
                self.world.adopt(top)
            self.killed = False
            self.count("recovered")
        self.look()
        self.verify()
        if r.random() < 0.5:
            self.sync_all()
        if self.rotten and r.random() < 0.6:
            self.scrub()
            self.verify()
        elif r.random() < 0.3:
            self.whole()
        if not self.rotten and not self.away and r.random() < 0.3:
            self.unmount()
            self.run("fsck", "-n", "-f", "--data", *self.disks)
            self.count("whole and clean")
            self.mount()

    def finish(self):
        self.scrub()
        self.verify()
        self.unmount()
        self.run("fsck", "-n", "-f", "--data", *self.disks)
        if self.can_rot():
            self.rot(last=True)
            if self.random.random() < 0.5:
                self.run("fsck", "-y", *self.disks, may=(0, 1))
            self.mount()
            self.verify()
            self.unmount()
        self.log_file.close()

    def close(self):
        for w in self.workers:
            w.stop.set()
        if self.server:
            self.server.kill()
            self.server.wait()
            subprocess.run([self.gpu4fs, "umount", self.mnt], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def one(gpu4fs, parent, seed, until, only):
    """A set of its own. Whether nothing was lost."""
    work = os.path.abspath(tempfile.mkdtemp(prefix="torture-%d-" % seed, dir=parent))
    t = None
    try:
        t = Torture(gpu4fs, work, seed, only)
        t.start()
        turns = 0
        while time.monotonic() < until:
            t.turn()
            turns += 1
        t.finish()
        print("seed %d: %d turns: %s" % (seed, turns, ", ".join("%s %d" % c for c in sorted(t.counts.items()))), flush=True)
    except (Lost, OSError, subprocess.TimeoutExpired) as e:
        if t:
            t.say("LOST\n" + traceback.format_exc())
        print("seed %d: LOST: %s\nsee %s" % (seed, e if isinstance(e, Lost) else traceback.format_exc(), work), flush=True)
        return False
    finally:
        if t:
            t.close()
    shutil.rmtree(work)
    return True


def main():
    arguments = argparse.ArgumentParser(description="A set of disks under everything that it survives.")
    arguments.add_argument("gpu4fs")
    arguments.add_argument("--seconds", type=int, default=60)
    arguments.add_argument("--each", type=int, default=40, help="seconds of one set, then comes the next seed")
    arguments.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    arguments.add_argument("--work", help="where the disks are made")
    arguments.add_argument("--level")
    a = arguments.parse_args()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        print("skipped: /dev/fuse is missing or closed to this user")
        return 77
    end = time.monotonic() + a.seconds
    seed = a.seed
    good = True
    while good and time.monotonic() < end:
        good = one(os.path.abspath(a.gpu4fs), a.work, seed, min(end, time.monotonic() + a.each), a.level)
        seed += 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
