#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the JUnit file that CTest wrote.

Usage: junit_count.py FILE              prints "PASSED FAILED SKIPPED"
       junit_count.py --failures FILE   prints the failed tests: what says why, and the end of what each said
       junit_count.py --costs FILE      prints the processor time of all tests and of each, user's and system's, dearest first
       junit_count.py --self-test
"""

import re
import sys
import xml.etree.ElementTree as tree


def verdict(case):
    """CTest writes status run, fail, disabled or notrun; notrun is a skip only when the test itself asked for it."""
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    if status == "notrun":
        reason = case.find("skipped")
        message = reason.get("message", "") if reason is not None else ""
        return "skipped" if message.startswith("SKIP_") else "failed"
    return "failed"


# What says why a test failed: of shell scripts, cmocka, sanitizers, assert(3), the engine's own assertions, watch.py.
TELLING = re.compile(
    r"^not ok|\[  ERROR   \]|\[   LINE   \]|\[  FAILED  \] [^0-9]|"
    r"Sanitizer: |runtime error: |[Aa]ssertion .*failed|^watch\.py: "
)
MOST_LINES = 12

# tests/watch.py says it at the end.
COST = re.compile(r"^processor time: ([0-9.]+) s user, ([0-9.]+) s system$", re.MULTILINE)


def costs(cases):
    """[(seconds of processor time, those in the kernel, wall time, name)], the dearest first."""
    found = []
    for case in cases:
        said = COST.findall(case.findtext("system-out") or "")
        user, system = map(float, said[-1]) if said else (0.0, 0.0)
        found.append((user + system, system, float(case.get("time", 0)), case.get("name")))
    return sorted(found, reverse=True)


def excerpt(text):
    """At most so many lines that tell what was wrong, the first ones, and then as many of the end."""
    lines = text.strip().splitlines()
    end = max(0, len(lines) - MOST_LINES)
    telling = [line for line in lines[:end] if TELLING.search(line)]
    shown = telling[:MOST_LINES]
    if len(telling) > len(shown):
        shown.append(f"... {len(telling) - len(shown)} more like these")
    if shown:
        shown.append("...")
    return shown + lines[end:]


def self_test():
    passed = [f"ok {n} fine" for n in range(100)]
    cases = [
        ("a short one is shown as it is", ["a", "b"], ["a", "b"]),
        ("of a long one that says nothing, the end", passed, passed[-12:]),
        ("what failed comes first", ["not ok 1 bad", *passed], ["not ok 1 bad", "...", *passed[-12:]]),
        ("each line once", [*passed, "not ok 101 bad"], [*passed[-11:], "not ok 101 bad"]),
        (
            "of a program's, where and why",
            ["[  ERROR   ] --- 1 != 0", "[   LINE   ] --- a.c:1: error:", "[  FAILED  ] this", *passed],
            ["[  ERROR   ] --- 1 != 0", "[   LINE   ] --- a.c:1: error:", "[  FAILED  ] this", "...", *passed[-12:]],
        ),
        (
            "of a sanitizer's, its summary",
            ["==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", "    #0 0x1 in f", *passed],
            ["==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", "...", *passed[-12:]],
        ),
        (
            "no more than fit",
            [*(f"not ok {n}" for n in range(20)), *passed],
            [*(f"not ok {n}" for n in range(12)), "... 8 more like these", "...", *passed[-12:]],
        ),
    ]
    failed = 0
    for name, lines, wanted in cases:
        good = excerpt("\n".join(lines)) == wanted
        print(f"{'ok' if good else 'not ok'} - {name}")
        failed += not good
    return failed != 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--failures", "--costs")]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    cases = [(case, verdict(case)) for case in tree.parse(arguments[0]).getroot().iter("testcase")]
    if "--failures" in sys.argv:
        for case, result in cases:
            if result == "failed":
                print(f"FAILED {case.get('name')} ({float(case.get('time', 0)):.1f} s)")
                for line in excerpt(case.findtext("system-out") or "did not run"):
                    print(f"  | {line}")
        return 0
    if "--costs" in sys.argv:
        each = costs(case for case, _ in cases)
        print(f"{sum(cost for cost, *_ in each):8.0f} s of processor time, the kernel's of it, passed, test")
        for cost, system, wall, name in each:
            print(f"{cost:8.1f} {system:8.1f} {wall:8.1f}  {name}")
        return 0
    print(*(sum(result == kind for _, result in cases) for kind in ("passed", "failed", "skipped")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
