#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the JUnit file that CTest wrote.

Usage: junit_count.py FILE              prints "PASSED FAILED SKIPPED"
       junit_count.py --failures FILE   prints the failed tests and the end of what each said
"""

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


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--failures"]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    cases = [(case, verdict(case)) for case in tree.parse(arguments[0]).getroot().iter("testcase")]
    if "--failures" in sys.argv:
        for case, result in cases:
            if result == "failed":
                print(f"FAILED {case.get('name')} ({float(case.get('time', 0)):.1f} s)")
                for line in (case.findtext("system-out") or "did not run").strip().splitlines()[-12:]:
                    print(f"  | {line}")
        return 0
    print(*(sum(result == kind for _, result in cases) for kind in ("passed", "failed", "skipped")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
