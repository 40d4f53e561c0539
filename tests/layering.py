#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enforces the layers of DESIGN.md: a folder may include only what stands to its right, and what that may include.

Usage: layering.py              check the tree this script lies in
       layering.py --self-test  check that violations are found
       layering.py --table      print what each folder may include
"""

import pathlib
import re
import sys
import tempfile

# Folder -> what it may include directly. The right to include is transitive.
SRC = {
    "base": [],
    "print": ["base"],
    "simt": ["base"],
    "format": ["base"],
    "hash": ["simt"],
    "parity": ["simt"],
    "dev": ["simt"],
    "task": ["simt"],
    "raid": ["dev", "parity", "format"],
    "cache": ["raid"],
    "journal": ["cache", "format", "hash", "task"],
    "alloc": ["journal"],
    "dedup": ["journal", "alloc", "hash"],
    "dir": ["journal", "alloc", "hash"],
    "fs": ["dedup", "dir"],
    "engine": ["fs"],
    "fsck": ["fs", "print"],
    "client": ["engine", "gpu4fs"],
    "fuse": ["engine", "client"],
    "cli": ["engine", "client", "fuse", "fsck", "print"],
}
# Folders beside src/, by their first component. gpu4fs and shredder are the public headers, include/NAME/; the folders of
# shredder/, some of which are called as those of src/ are, stand here as shredder/NAME.
OTHER = {
    "gpu4fs": [],
    "shredder": [],
    "shredder/chunk": ["hash", "simt", "base", "shredder"],
    "shredder/store": ["shredder/chunk"],
    "shredder/cli": ["shredder/store", "print"],
    "bench": ["gpu4fs", "shredder"],
}
DIRECT = {**SRC, **OTHER}
SUFFIXES = {".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".hpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def closure(folder):
    """Everything `folder` may include, itself included."""
    allowed, queue = set(), [folder]
    while queue:
        name = queue.pop()
        if name not in allowed:
            allowed.add(name)
            queue.extend(DIRECT[name])
    return allowed


ALLOWED = {folder: closure(folder) for folder in DIRECT}


def folder_of(path):
    """The layer a file belongs to, by its path in the tree; None: not a layer (tests, docs); "": unknown folder."""
    parts = path.parts
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 and parts[1] in SRC else ""
    if parts[0] == "include":
        return parts[1] if len(parts) > 2 and parts[1] in ("gpu4fs", "shredder") else ""
    if parts[0] == "shredder":
        folder = "/".join(parts[:2])
        return folder if len(parts) > 2 and folder in OTHER else ""
    if parts[0] == "bench":
        return "bench"
    return None


def check_include(root, path, folder, quote, target):
    """The rule that an include line breaks, or None."""
    parts = pathlib.PurePosixPath(target).parts
    if ".." in parts:
        return f'"{target}" climbs out of its folder; write the path from src/ or include/'
    first = parts[0]
    own_tree = root / path.parts[0]
    if len(parts) == 1:
        if quote == '"' and not (root / path.parent / target).is_file():
            return f'"{target}" is not in this folder; write the path from src/ or include/'
        return None
    if path.parts[0] == "shredder" and (own_tree / target).is_file():
        known = "shredder/" + first  # shredder/ has folders that src/ has, too
    elif first in ALLOWED:
        known = first
    elif path.parts[0] in ("shredder", "bench") and (own_tree / first).is_dir():
        return None
    elif quote == '"':
        return f'"{target}" names no folder of src/ or include/; system headers are written <{target}>'
    else:
        return None
    if known in ALLOWED[folder]:
        return None
    may = ", ".join(sorted(ALLOWED[folder] - {folder})) or "no other folder"
    return f'{folder}/ may not include {known}/ ("{target}"); it may include {may}'


def check(root):
    """Returns (problems, files, includes) for the tree at root."""
    problems, files, includes = [], 0, 0
    for top in ("include", "src", "shredder", "bench"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root)
            folder = folder_of(path)
            if folder == "":
                problems.append(f"{path}:1: this folder is no layer; DESIGN.md lists the layers, tests/layering.py too")
                continue
            files += 1
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                includes += 1
                rule = check_include(root, path, folder, match[1], match[2])
                if rule:
                    problems.append(f"{path}:{number}: {rule}")
    return problems, files, includes


# (file, its text, a part of the message that must come or None when the file is fine)
SAMPLES = [
    ("src/base/ok.c", '#include "base/ok.h"\n#include <stdio.h>\n#include <sys/stat.h>\n', None),
    ("src/base/up.c", '#include "simt/simt.h"\n', "base/ may not include simt/"),
    ("src/format/hash.c", '#include "hash/hash.h"\n', "format/ may not include hash/"),
    ("src/dev/raid.c", '\n\n  #  include <raid/raid.h>\n', "3: dev/ may not include raid/"),
    ("src/cache/far.c", '#include "parity/parity.h"\n#include "base/base.h"\n', None),
    ("src/dir/dedup.c", '#include "dedup/ddt.h"\n', "dir/ may not include dedup/"),
    ("src/fs/all.c", '#include "alloc/alloc.h"\n#include "dir/dir.h"\n#include "dedup/ddt.h"\n', None),
    ("src/fs/up.c", '#include "engine/engine.h"\n', "fs/ may not include engine/"),
    ("src/fs/public.c", '#include <gpu4fs/gpu4fs.h>\n', "fs/ may not include gpu4fs/"),
    ("src/client/client.c", '#include "gpu4fs/gpu4fs.h"\n#include "fs/command.h"\n', None),
    ("src/fuse/cli.c", '#include "cli/cli.h"\n', "fuse/ may not include cli/"),
    ("src/simt/cpu/cpu.c", '#include "base/base.h"\n#include "own.h"\n', None),
    ("src/simt/cpu/own.h", "", None),
    ("src/simt/cuda/climb.c", '#include "../../fs/command.h"\n', "climbs out"),
    ("src/simt/lanes/lost.c", '#include "lost.h"\n', "not in this folder"),
    ("src/hash/system.c", '#include "linux/fs.h"\n', "names no folder"),
    ("src/extra/x.c", "", "no layer"),
    ("include/gpu4fs/gpu4fs.h", '#include "base/base.h"\n', "gpu4fs/ may not include base/"),
    ("shredder/chunk/chunk.c", '#include "hash/hash.h"\n#include "chunk/chunk.h"\n#include "simt/simt.h"\n', None),
    ("shredder/cli/own.c", '#include "cli/own.h"\n', None),
    ("shredder/cli/own.h", "", None),
    ("shredder/cli/theirs.c", '#include "cli/cli.h"\n', "shredder/cli/ may not include cli/"),
    ("shredder/store/fs.c", '#include "format/format.h"\n', "shredder/store/ may not include format/"),
    ("shredder/store/below.c", '#include "chunk/chunk.h"\n#include "hash/hash.h"\n', None),
    ("shredder/chunk/chunk.h", "", None),
    ("shredder/store/store.h", "", None),
    ("shredder/chunk/up.c", '#include "store/store.h"\n', "shredder/chunk/ may not include shredder/store/"),
    ("shredder/other/x.c", "", "no layer"),
    ("bench/bench.c", '#include <gpu4fs/gpu4fs.h>\n', None),
    ("bench/inside.c", '#include "engine/engine.h"\n', "bench/ may not include engine/"),
]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text, _ in SAMPLES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        problems, _, _ = check(root)
    wrong = 0
    for name, _, expected in SAMPLES:
        found = [problem for problem in problems if problem.startswith(name + ":")]
        if (len(found) != 1 or expected not in found[0]) if expected else found:
            print(f"layering self-test: {name}: expected {expected!r}, found {found}", file=sys.stderr)
            wrong += 1
    print(f"layering self-test: {len(SAMPLES) - wrong} of {len(SAMPLES)} samples judged rightly")
    return wrong == 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 0 if self_test() else 1
    if sys.argv[1:] == ["--table"]:
        for folder, allowed in ALLOWED.items():
            print(f"{folder:16} {' '.join(sorted(allowed - {folder}))}")
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    problems, files, includes = check(pathlib.Path(__file__).resolve().parent.parent)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"layering: {files} files, {includes} includes, {len(problems)} against the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
