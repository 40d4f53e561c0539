#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source of the engine, the checker, the command line and Shredder has a test that is named for it, which an engineer who changes
the source finds; and the files and functions that "Where is ..." of CONTRIBUTING.md names are there.

Of src/FOLDER/NAME.c that is tests/files/FOLDER/test_NAME.c, or test_NAME.c or test_FOLDER_NAME.c in tests/unit/ or tests/engine/;
of src/FOLDER/PART/NAME.c tests/unit/PART/test_NAME.c. Of the checker the folder's name must be in it: its subjects are the engine's.
Of src/cli/NAME.c or cmd_NAME.c it is test_NAME.sh in tests/cli/, tests/fuse/ or tests/preload/, with or without an s behind it; of
shredder/FOLDER/NAME.c test_NAME or test_FOLDER_NAME in tests/shredder/. Of these two a test may be of several sources, whose names,
FOLDER/NAME.c, stand among its first lines.
Where NAME is a subject and a part of it (blake3_group), a test named for the subject will do; so will one named for a folder that
is one subject. The engine's host files need none.

Usage: named.py              check the tree this script lies in
       named.py --self-test  check that what is missing is found
"""

import pathlib
import re
import sys
import tempfile

ONE_SUBJECT = ("dedup",)  # folders
ENGINE = ("hash format parity dev task space cache journal alloc dedup dir inode data fs ring device").split()
SHREDDER = ("chunk", "store", "site", "cli")
HEAD_LINES = 20
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.M)


def sources(root):
    """TOP/FOLDER/NAME of every source that needs a test of its name."""
    found = []
    for folder in ENGINE + ["fsck", "cli"]:
        for file in sorted((root / "src" / folder).rglob("*.c")):
            if not file.stem.endswith("_host") or folder not in ENGINE:
                found.append(file.relative_to(root).with_suffix("").as_posix())
    for folder in SHREDDER:
        found += [file.relative_to(root).with_suffix("").as_posix() for file in sorted((root / "shredder" / folder).glob("*.c"))]
    return found


def candidates(source):
    """Paths below tests/ that name a source, the nearest first."""
    top, folder, *parts = source.split("/")
    name = parts[-1].removeprefix("cmd_")
    names = [name] + [name[:at] for at in range(len(name) - 1, 0, -1) if name[at] == "_"]
    for known in names:
        if top == "shredder":
            for called in (known, f"{folder}_{known}"):
                yield f"shredder/test_{called}.c"
                yield f"shredder/test_{called}.sh"
        elif folder == "cli":
            for where in ("cli", "fuse", "preload"):
                yield f"{where}/test_{known}.sh"
                yield f"{where}/test_{known}s.sh"
        else:
            yield f"files/{folder}/test_{known}.c"
            for flat in ("unit", "engine"):
                if folder != "fsck":
                    yield f"{flat}/test_{known}.c"
                yield f"{flat}/test_{folder}_{known}.c"
                if len(parts) > 1:
                    yield f"{flat}/{parts[-2]}/test_{known}.c"
    if folder in ONE_SUBJECT:
        yield f"engine/test_{folder}.c"


def heads(root):
    """TOP/FOLDER/NAME of sources of the command line and of Shredder that the first lines of their tests name."""
    found = set()
    for folder in ("cli", "fuse", "preload", "shredder"):
        top = "shredder" if folder == "shredder" else "src"
        for test in (root / "tests" / folder).glob("test_*"):
            told = re.findall(r"\b(\w+/\w+)\.c\b", "".join(test.read_text().splitlines(True)[:HEAD_LINES]))
            found.update(f"{top}/{name}" for name in told if top == "shredder" or name.startswith("cli/"))
    return found


def check(root):
    problems, named, told = [], 0, heads(root)
    for source in sources(root):
        if source in told or any((root / "tests" / path).is_file() for path in candidates(source)):
            named += 1
        else:
            problems.append(f"{source}.c:1: no test is named for it, such as tests/{next(candidates(source))}")
    for test in sorted((root / "tests" / "files").glob("*/test_*.c")):
        source = f"{test.parent.name}/{test.stem[5:]}"
        if not (root / "src" / f"{source}.c").is_file():
            problems.append(f"tests/files/{test.parent.name}/{test.name}:1: src/{source}.c is not there")
    return problems, named


def check_where(root):
    """Problems with "Where is ...": each file is there, and each function in one of its row or of a row before."""
    file = root / "CONTRIBUTING.md"
    text = file.read_text() if file.is_file() else ""
    begin = text.find("## Where is")
    if begin < 0:
        return [f"{file.name}:1: it does not say where things are"]
    problems, known = [], ""
    for row in ROW.finditer(text, begin, text.find("\n## ", begin + 1)):
        line = text.count("\n", 0, row.start()) + 1
        for name in re.findall(r"`([\w.]+/[\w./]+)`", row[2]):
            if not (root / name).exists():
                problems.append(f"{file.name}:{line}: {name} is not there")
            elif (root / name).is_file() and not name.endswith((".md", ".py")):
                known += (root / name).read_text()
        problems += [f"{file.name}:{line}: {name}() is in none of these files" for name in re.findall(r"`(\w+)\(\)`", row[2])
                     if not re.search(rf"^\w[^\n;]*\b{name}\(", known, re.M)]
    return problems


def self_test():
    files = ["src/hash/a.c", "src/hash/b_part.c", "src/hash/c_host.c", "src/data/d.c", "src/data/e.c", "src/dev/nvme/f.c",
             "src/dev/nvme/g.c", "src/fsck/e.c", "src/fsck/y.c", "src/cli/cmd_h.c", "src/cli/cmd_i.c", "shredder/store/j_part.c",
             "shredder/store/k.c", "shredder/store/l.c", "src/hash/c.c", "tests/files/hash/test_a.c", "tests/unit/test_b.c", "tests/engine/test_data_d.c",
             "tests/files/data/test_x.c", "tests/unit/nvme/test_f.c", "tests/engine/test_y.c", "tests/files/fsck/test_e.c",
             "tests/cli/test_h.sh", "tests/shredder/test_store_j.c", "tests/shredder/test_h.sh"]
    expected = ["src/hash/c.c:1", "src/data/e.c:1", "src/dev/nvme/g.c:1", "src/fsck/y.c:1", "src/cli/cmd_i.c:1", "shredder/store/k.c:1",
                "tests/files/data/test_x.c:1"]
    where = ["md:4: src/none.c", "md:5: g4_none()"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
        (root / "src/hash/a.c").write_text("G4_FN int g4_there(int a,\n\t     int b)\n{\n\treturn g4_none();\n}\n")
        (root / "tests/shredder/test_h.sh").write_text("# of store/l.c, hash/c.c\n")
        (root / "CONTRIBUTING.md").write_text("## Where is …\n| what | where |\n| it | `src/hash/a.c`: `g4_there()` |\n"
                                              "| it | `src/none.c` |\n| it | `src/hash/a.c`: `g4_there()`, `g4_none()` |\n"
                                              "\n## Code\n| no | `src/no.c` |\n")
        problems, named = check(root)
        found = check_where(root)
    good = named == 8 and len(problems) == len(expected) and all(
        sum(part in problem for problem in problems) == 1 for part in expected)
    good = good and len(found) == len(where) and all(sum(part in problem for problem in found) == 1 for part in where)
    print("named self-test: " + ("good" if good else f"{named} named, {problems}, {found}"))
    return good


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 0 if self_test() else 1
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, named = check(root)
    problems += check_where(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"named: {named} sources have tests of their names, {len(problems)} against the rule")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
