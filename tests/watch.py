#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test and ends it when it no longer progresses, however slow the machine is.

Usage: watch.py [--idle SECONDS] [--work SECONDS] COMMAND [ARGUMENT]...
       watch.py --self-test

A limit of wall time fails on a machine that is slow or has other work. So two others count:

--idle  Nothing has happened for so long: no process of the test was running or waited for a disk, and together they used
        less than a hundredth of that in processor time. This is a deadlock.
--work  The test has used so much processor time. This is an endless loop.

A test that is ended gets told what each of its threads was doing. The exit status is the command's, or 124. The last line of
the output is the processor time that the test took, for scripts/junit_count.py; it lacks that of servers that outlive it.
"""

import os
import resource
import select
import signal
import sys
import time

PERIOD = 5.0  # seconds between two looks
TICK = os.sysconf("SC_CLK_TCK")


def processes():
    """{process: (parent, state, processor seconds of it and of its children that ended)}"""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            field = text[text.rindex(")") + 2 :].split()
            found[int(name)] = (int(field[1]), field[0], sum(map(int, field[11:15])) / TICK)
    return found


def family(root):
    """The process, its children and theirs, as processes() has them."""
    known = processes()
    members = {root} if root in known else set()
    while True:
        more = {pid for pid, (parent, _, _) in known.items() if parent in members} - members
        if not more:
            return {pid: known[pid] for pid in members}
        members |= more


def threads(pid):
    """One line for each thread of a process: name, state, what it waits for."""
    for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        line = f"{pid}/{thread}"
        for name in ("comm", "stat", "wchan", "syscall"):
            try:
                with open(f"/proc/{pid}/task/{thread}/{name}", encoding="utf-8", errors="replace") as file:
                    text = file.read().strip()
            except OSError:
                text = "?"
            if name == "stat":
                text = text[text.rindex(")") + 2 :][:1] if ")" in text else "?"
            line += f" {text}"
        yield line


def is_active(pid, state):
    """Whether a process, or one of its threads, runs or waits for a disk."""
    if state in "RD":
        return True
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True  # it has ended just now
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if text[text.rindex(")") + 2] in "RD":
            return True
    return False


class Child:
    """The test's process. Every test starts this program: so neither subprocess nor argparse, which take longer than all else here."""

    def __init__(self, command):
        os.closerange(3, 65536)
        # Python ignores these, and what it starts would.
        self.pid = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
        self.ends = select.poll()
        self.ends.register(os.pidfd_open(self.pid), select.POLLIN)

    def wait(self, seconds):
        """Its exit status, or None when it has not ended so soon."""
        if not self.ends.poll(None if seconds is None else seconds * 1000):
            return None
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 128 - status if status < 0 else status

    def end(self, why):
        """Says why and where the test hangs, and kills it with all that belongs to it."""
        members = family(self.pid)
        print(f"watch.py: {why}; its threads (name, state, waits in, system call):", flush=True)
        for pid in sorted(members):
            try:
                for line in threads(pid):
                    print("    " + line, flush=True)
            except OSError:
                pass
        # A script gets the time to unmount what it has mounted.
        for pid in [pid for pid in sorted(members) if pid != self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.kill(self.pid, signal.SIGTERM)
        if self.wait(30) is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(None)
        return 124


def watch(command, idle, work):
    child = Child(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(child.end("interrupted")))
    period = min(PERIOD, idle / 10)
    since, used_then = time.monotonic(), 0.0
    while True:
        status = child.wait(period)
        if status is not None:
            return status
        members = family(child.pid)
        used = sum(seconds for _, _, seconds in members.values())
        now = time.monotonic()
        if used > work:
            return child.end(f"the test has used {used:.0f} s of processor time, more than {work:.0f}")
        if used - used_then > idle / 100 or any(is_active(pid, state) for pid, (_, state, _) in members.items()):
            since, used_then = now, used
        elif now - since > idle:
            return child.end(f"nothing has happened for {idle:.0f} s")


def self_test():
    import subprocess  # pylint: disable=import-outside-toplevel

    python = [sys.executable, "-c"]
    tests = [
        ("a status is passed on", [*python, "import sys; sys.exit(77)"], 77, 60, 60),
        ("a signal too", [*python, "import os; os.abort()"], 128 + signal.SIGABRT, 60, 60),
        ("a deadlock ends", [*python, "import threading; threading.Event().wait()"], 124, 1, 60),
        ("also of a child", ["sh", "-c", "sleep 1000; true"], 124, 1, 60),
        ("an endless loop ends", [*python, "while True: pass"], 124, 60, 1),
        ("one of a child, too", ["sh", "-c", "while :; do :; done & wait"], 124, 60, 1),
        # Longer than --idle, but it works: by 20 ms of every 200.
        (
            "a slow test goes on",
            [
                *python,
                "import time\n"
                "for _ in range(15):\n"
                "    end = time.process_time() + 0.02\n"
                "    while time.process_time() < end: pass\n"
                "    time.sleep(0.18)\n",
            ],
            0,
            1,
            60,
        ),
    ]
    failed = 0
    for name, command, wanted, idle, work in tests:
        found = subprocess.run(
            [sys.executable, __file__, "--idle", str(idle), "--work", str(work), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        print(f"{'ok' if found == wanted else 'not ok'} - {name}: {found}")
        failed += found != wanted
    return failed != 0


def main():
    limits = {"--idle": 120.0, "--work": 900.0}
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    while len(arguments) > 1 and arguments[0] in limits:
        limits[arguments[0]] = float(arguments[1])
        arguments = arguments[2:]
    if not arguments or arguments[0].startswith("-"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    status = watch(arguments, limits["--idle"], limits["--work"])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time: {used.ru_utime:.2f} s user, {used.ru_stime:.2f} s system", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
