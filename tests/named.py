#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source of the engine has a test that is named for it, which an engineer who changes the source finds.

Of src/FOLDER/NAME.c that is tests/files/FOLDER/test_NAME.c, or test_NAME.c or test_FOLDER_NAME.c in tests/unit/ or tests/engine/;
of src/FOLDER/PART/NAME.c tests/unit/PART/test_NAME.c.
Where NAME is a subject and a part of it (blake3_group), a test named for the subject will do; so will one named for a folder that
is one subject. Host files need none.

Usage: named.py              check the tree this script lies in
       named.py --self-test  check that what is missing is found
"""

import pathlib
import sys
import tempfile

ONE_SUBJECT = ("dedup",)  # folders
ENGINE = ("hash format parity dev space cache journal alloc dedup dir inode data fs ring device").split()


def sources(root):
    """FOLDER/NAME of every source of the engine that is not the host's alone."""
    found = []
    for folder in ENGINE:
        for file in sorted((root / "src" / folder).rglob("*.c")):
            if not file.stem.endswith("_host"):
                found.append(str(file.relative_to(root / "src").with_suffix("")))
    return found


def candidates(source):
    """Paths below tests/ that name a source, the nearest first."""
    parts = source.split("/")
    folder, name = parts[0], parts[-1]
    names = [name] + [name[:at] for at in range(len(name) - 1, 0, -1) if name[at] == "_"]
    for known in names:
        yield f"files/{folder}/test_{known}.c"
        for flat in ("unit", "engine"):
            yield f"{flat}/test_{known}.c"
            yield f"{flat}/test_{folder}_{known}.c"
            if len(parts) > 2:
                yield f"{flat}/{parts[-2]}/test_{known}.c"
    if folder in ONE_SUBJECT:
        yield f"engine/test_{folder}.c"


def check(root):
    problems, named = [], 0
    for source in sources(root):
        if any((root / "tests" / path).is_file() for path in candidates(source)):
            named += 1
        else:
            problems.append(f"src/{source}.c:1: no test is named for it, such as tests/{next(candidates(source))}")
    for test in sorted((root / "tests" / "files").glob("*/test_*.c")):
        source = f"{test.parent.name}/{test.stem[5:]}"
        if not (root / "src" / f"{source}.c").is_file():
            problems.append(f"tests/files/{test.parent.name}/{test.name}:1: src/{source}.c is not there")
    return problems, named


def self_test():
    files = ["src/hash/a.c", "src/hash/b_part.c", "src/hash/c_host.c", "src/data/d.c", "src/data/e.c", "src/dev/nvme/f.c",
             "src/dev/nvme/g.c", "tests/files/hash/test_a.c", "tests/unit/test_b.c", "tests/engine/test_data_d.c",
             "tests/files/data/test_x.c", "tests/unit/nvme/test_f.c", "tests/engine/test_y.c"]
    expected = ["src/data/e.c:1", "src/dev/nvme/g.c:1", "tests/files/data/test_x.c:1"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
        problems, named = check(root)
    good = named == 4 and len(problems) == len(expected) and all(
        sum(part in problem for problem in problems) == 1 for part in expected)
    print("named self-test: " + ("good" if good else f"{named} named, {problems}"))
    return good


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 0 if self_test() else 1
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, named = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"named: {named} sources have tests of their names, {len(problems)} against the rule")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
