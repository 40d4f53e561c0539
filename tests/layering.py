#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enforces the layers of DESIGN.md: a folder may include only what stands to its right, and what that may include.
No headers include each other in a circle. In src/ and shredder/ it looks at calls, too: files do not call each other in a circle,
also not through functions and macros of headers, some functions are for few files, and no file has more than its share.

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
    "trace": ["base"],
    "simt": ["base"],
    "format": ["base"],
    "hash": ["simt"],
    "parity": ["simt"],
    "dev": ["simt", "trace"],
    "task": ["simt"],
    "space": ["dev", "parity", "format", "hash"],
    "cache": ["space"],
    "journal": ["cache", "format", "hash", "task"],
    "alloc": ["journal"],
    "dedup": ["journal", "alloc", "hash"],
    "dir": ["journal", "alloc", "hash"],
    "inode": ["dir", "dedup", "task"],
    "data": ["inode", "dedup"],
    "fs": ["data"],
    "ring": ["fs"],
    "device": ["fs"],
    "gpu": ["ring"],
    "engine": ["ring", "gpu", "device"],
    "fsck": ["fs", "print"],
    "client": ["engine", "gpu4fs"],
    "preload": ["client"],
    "fuse": ["engine", "client"],
    "cli": ["engine", "client", "preload", "fuse", "fsck", "print", "shredder", "trace"],
}
# Folders beside src/, by their first component. gpu4fs and shredder are the public headers, include/NAME/; the folders of
# shredder/, some of which are called as those of src/ are, stand here as shredder/NAME.
OTHER = {
    "gpu4fs": [],
    "shredder": [],
    "shredder/chunk": ["hash", "simt", "base", "shredder"],
    "shredder/store": ["shredder/chunk", "parity"],
    "shredder/site": ["shredder/store"],
    "shredder/cli": ["shredder/site", "print"],
    "bench": ["gpu4fs", "shredder", "shredder/store", "hash", "parity"],
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
    if path.parts[0] in ("shredder", "bench") and (root / "shredder" / target).is_file():
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


MOST_LINES = 900
MOST_FUNCTIONS = 45  # that a header offers
# In src/inode, src/data, src/fs and what stands above only these files may call these functions: one place where contents come from a device, one where they go
# there, one where they get an address, one between pointers and the allocator.
ONLY = {
    ("g4_space_read", "g4_space_write", "g4_space_submit", "g4_space_collect", "g4_space_transfer"): (
        "data/fetch.c", "data/store.c", "data/bounce.c", "data/bounce_stage.c", "fs/resize.c", "fs/super.c", "fs/mount_host.c"),
    ("g4_space_fetch",): ("data/fetch.c",),
    ("g4_alloc_claim",): ("data/place.c",),
    ("g4_alloc_publish", "g4_alloc_free", "g4_alloc_metadata", "g4_alloc_reserved_metadata", "g4_alloc_free_metadata"): (
        "data/extent.c",),
    ("g4_map_set",): ("data/publish.c", "data/pipeline.c", "data/allocate.c", "data/resum.c"),
}
# What makes an address of a number of struct g4_layout: for src/format/layout.h alone.
FROM_LAYOUT = re.compile(r"g4_address_from\([^;,]*?(?:(?:journal|groups|alloc|root|data|backup)_address\b|g4_layout_end\()")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
OURS = r"((?:g4[cp]?|gpu4fs|shredder|store|backup|site|cli|digests?|mounted)_\w+)"  # names that files offer to others
DEFINITION = re.compile(rf"^(?!static|#|\s)(?![^\n;{{}}]*\bstatic\b)[^\n;{{}}]*?\b{OURS}\([^;{{}}]*?\)\n\{{", re.M)
CALL = re.compile(r"\b(g4_\w+)\(")
WORD = re.compile(r"\bG4_\w+\b")  # may be a macro
MENTION = re.compile(rf"(?<!struct )(?<!\.)(?<!->)\b{OURS}\b")  # a table of operations leads to them as a call does
BODY = re.compile(r"^([^\n;{}#][^;{}]*)\n\{\n(.*?)^\}", re.M | re.S)  # a definition's head and its body
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\([^)\n]*\)((?:[^\n]*\\\n)*[^\n]*)", re.M)
PASTED = re.compile(r"\w+[ ]*##|##[ ]*\w+")
OFFER = re.compile(r"^(?:[A-Z]\w+ )*[a-z][\w \*]*?\b([a-z]\w+)\([^;{}]*\)(?:;|\n\{)", re.M)


def without_comments(text):
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)


def sources(root):
    """The sources of src/ and shredder/, without comments and strings, by their paths from the root."""
    texts = {}
    for folder in [f"src/{name}" for name in SRC] + [name for name in OTHER if name.startswith("shredder/")]:
        for file in sorted((root / folder).rglob("*.c*")):
            texts[str(file.relative_to(root))] = STRING.sub('""', without_comments(file.read_text(errors="replace")))
    return texts


def headers(root):
    """What functions and macros of headers call: header -> name -> names. Static ones of a header stand there as ''."""
    called = {}
    for top in ("src", "shredder"):
        for file in sorted((root / top).rglob("*.h")):
            text = STRING.sub('""', without_comments(file.read_text(errors="replace")))
            own = called.setdefault(str(file.relative_to(root)), {})
            for name, body in MACRO.findall(text):
                body = PASTED.sub("", body)
                own.setdefault(name, set()).update(MENTION.findall(body) + WORD.findall(body))
            for head, body in BODY.findall(MACRO.sub("", text)):
                names = re.findall(rf"\b{OURS}\(", head)
                own.setdefault(names[0] if names else "", set()).update(MENTION.findall(body) + WORD.findall(body))
    return called


def find_circles(calls):
    """Lists of files that call each other in a circle, the first one again at the end. calls: file -> file -> function."""
    state, circles = {}, []

    def visit(file, way):
        state[file] = "open"
        for other in calls.get(file, {}):
            if state.get(other) == "open":
                circles.append((way + [file, other])[(way + [file]).index(other):])
            elif other not in state:
                visit(other, way + [file])
        state[file] = "done"

    for file in calls:
        if file not in state:
            visit(file, [])
    return circles


def find_calls(texts, inline):
    """(calls, home): file -> file -> function, and function -> its file. A header is a file; a source that uses its own header calls
    what that calls. What each build has its own of (simt/cpu, simt/cuda, ...) has no home."""
    calls, home, mentioned = {}, {}, {}
    for header, names in inline.items():
        for name in names:
            home[name] = None if name in home or not name else header
        mentioned[header] = set().union(*names.values())
    for file, text in texts.items():
        for name in DEFINITION.findall(text):
            home[name] = None if name in home else file
        mentioned[file] = set(MENTION.findall(text) + WORD.findall(text))
    for file, names in mentioned.items():
        own, seen = str(pathlib.PurePath(file).with_suffix(".h")), set()
        while names:
            seen |= names
            names = set().union(*(inline[own].get(name, ()) for name in names if home.get(name) == own != file)) - seen
        for name in sorted(seen):
            if (home.get(name) or file) not in (file, own):
                calls.setdefault(file, {}).setdefault(home[name], name)
    return calls, home


def check_calls(root):
    """Problems with who calls whom."""
    texts, problems = sources(root), []
    calls, home = find_calls(texts, headers(root))
    folders = list(SRC)
    for file, text in texts.items():
        for match in CALL.finditer(text):
            name, line = match[1], text.count("\n", 0, match.start()) + 1
            for names, files in ONLY.items():
                top, folder, own = file.split("/", 2)
                above = top == "src" and folders.index(folder) >= folders.index("inode")
                if above and name in names and f"{folder}/{own}" not in files and home.get(name) != file:
                    problems.append(f"{file}:{line}: {name}() is for {', '.join(files)}")
        for match in FROM_LAYOUT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{file}:{line}: an address of the layout is a function of format/layout.h")
    for circle in find_circles(calls):
        way = "; ".join(f"{a} calls {calls[a][b]}() of {b}" for a, b in zip(circle, circle[1:]))
        problems.append(f"{circle[0]}:1: files call each other in a circle: {way}")
    return problems


def check_header_circles(root):
    """Problems with headers that include each other. The parts of simt.h for each build include it to compile alone."""
    headers = {}
    for top in ("src", "include", "shredder"):
        for file in sorted((root / top).rglob("*.h")):
            matches = [INCLUDE.match(line) for line in file.read_text(errors="replace").splitlines()]
            targets = [match[2] for match in matches if match]
            places = [[root / top / target, root / "src" / target, file.parent / target] for target in targets]
            found = [next((str(place.relative_to(root)) for place in options if place.is_file()), None)
                     for options in places]
            name = str(file.relative_to(root))
            whole = "src/simt/simt.h" if name.startswith("src/simt/") else None
            headers[name] = {other: "" for other in found if other and other != whole}
    return [f"{circle[0]}:1: headers include each other in a circle: {', '.join(circle)}"
            for circle in find_circles(headers)]


def check_sizes(root):
    """Problems with how much is in one file of src/, shredder/ and include/."""
    problems = []
    for file in sorted(file for top in ("src", "shredder", "include") for file in (root / top).rglob("*") if file.suffix in SUFFIXES):
        text, path = file.read_text(errors="replace"), file.relative_to(root)
        lines, functions = text.count("\n"), len(OFFER.findall(without_comments(text)))
        if lines > MOST_LINES:
            problems.append(f"{path}:1: {lines} lines, {MOST_LINES} at most: it has more than one subject")
        if file.suffix in (".h", ".cuh", ".hpp") and functions > MOST_FUNCTIONS:
            problems.append(f"{path}:1: {functions} functions, {MOST_FUNCTIONS} at most: a header for each subject")
    return problems


def check_names(root):
    """ONLY speaks of functions and files that there are."""
    texts = sources(root)
    problems = [f"tests/layering.py:1: src/{file} of ONLY is not there"
                for files in ONLY.values() for file in files if f"src/{file}" not in texts]
    declared = {name for file in (root / "src").glob("*/*.h") for name in CALL.findall(file.read_text(errors="replace"))}
    problems += [f"tests/layering.py:1: {name}() of ONLY is not there"
                 for names in ONLY for name in names if name not in declared]
    return problems


# (file, its text, a part of the message that must come or None when the file is fine)
SAMPLES = [
    ("src/base/ok.c", '#include "base/ok.h"\n#include <stdio.h>\n#include <sys/stat.h>\n', None),
    ("src/base/up.c", '#include "simt/simt.h"\n', "base/ may not include simt/"),
    ("src/format/hash.c", '#include "hash/hash.h"\n', "format/ may not include hash/"),
    ("src/dev/space.c", '\n\n  #  include <space/space.h>\n', "3: dev/ may not include space/"),
    ("src/cache/far.c", '#include "parity/parity.h"\n#include "base/base.h"\n', None),
    ("src/dir/dedup.c", '#include "dedup/ddt.h"\n', "dir/ may not include dedup/"),
    ("src/fs/all.c", '#include "alloc/alloc.h"\n#include "dir/dir.h"\n#include "dedup/ddt.h"\n', None),
    ("src/data/up.c", '#include "inode/inode.h"\n#include "fs/command.h"\n', "data/ may not include fs/"),
    ("src/inode/up.c", '#include "data/map.h"\n', "inode/ may not include data/"),
    ("src/ring/up.c", '#include "engine/engine.h"\n', "ring/ may not include engine/"),
    ("src/ring/aside.c", '#include "gpu/gpu.h"\n', "ring/ may not include gpu/"),
    ("src/gpu/up.c", '#include "ring/ring.h"\n#include "engine/engine.h"\n', "gpu/ may not include engine/"),
    ("src/engine/all.c", '#include "ring/ring.h"\n#include "gpu/gpu.h"\n#include "device/caller.h"\n', None),
    ("src/fs/up.c", '#include "engine/engine.h"\n', "fs/ may not include engine/"),
    ("src/fs/public.c", '#include <gpu4fs/gpu4fs.h>\n', "fs/ may not include gpu4fs/"),
    ("src/client/client.c", '#include "gpu4fs/gpu4fs.h"\n#include "fs/command.h"\n#include "ring/ring.h"\n', None),
    ("src/fuse/cli.c", '#include "cli/cli.h"\n', "fuse/ may not include cli/"),
    ("src/simt/cpu/cpu.c", '#include "base/base.h"\n#include "own.h"\n', None),
    ("src/simt/cpu/own.h", "", None),
    ("src/simt/cuda/climb.c", '#include "../../fs/command.h"\n', "climbs out"),
    ("src/simt/lanes/lost.c", '#include "lost.h"\n', "not in this folder"),
    ("src/hash/system.c", '#include "linux/fs.h"\n', "names no folder"),
    ("src/extra/x.c", "", "no layer"),
    ("src/fs/b.c", "G4_FN int g4_b(void)\n{\n\treturn g4_c();\n}\n", None),
    ("src/fs/c.c", "G4_FN int g4_c(int a,\n\t     int b)\n{\n\treturn g4_d();\n}\n", None),
    ("src/inode/d.c", "G4_FN int g4_d(void)\n{\n\t/* not as g4_b() */\n\treturn g4_e();\n}\n", None),
    ("src/data/ring.c", "G4_FN int g4_f(void)\n{\n\treturn g4_g();\n}\n", "g4_f() of src/data/ring.c"),
    ("src/data/ring2.c", "G4_FN int g4_g(void)\n{\n\treturn g4_f();\n}\n", None),
    ("src/journal/low.c", "G4_FN int g4_low(void)\n{\n\treturn g4_high();\n}\n", None),
    ("src/cache/high.c", "G4_FN int g4_high(void)\n{\n\treturn g4_space_write();\n}\n", None),
    ("src/ring/past.c", "G4_FN int g4_past(void)\n{\n\treturn g4_space_write();\n}\n", "is for data/fetch.c"),
    ("src/dir/a.h", '#include "dir/b.h"\n', "a.h, src/dir/b.h, src/dir/c.h, src/dir/a.h"),
    ("src/dir/b.h", '#include "dir/c.h"\n', None),
    ("src/dir/c.h", '#include "a.h"\n', None),
    ("src/fuse/table.c", "const void *const g4_ops[] = {g4_op};\n\nvoid g4_shared(void)\n{\n}\n", None),
    ("src/fuse/op.c", "void g4_op(void)\n{\n\tg4_shared();\n}\n", "calls g4_op() of src/fuse/op.c"),
    ("src/journal/user.c", "G4_FN int g4_user(void)\n{\n\treturn g4_in_header();\n}\n", None),
    ("src/journal/inline.h", "G4_FN G4_INLINE int g4_in_header(void)\n{\n\treturn g4_below();\n}\n", "user.c calls g4_in_header() of"),
    ("src/journal/below.c", "G4_FN int g4_below(void)\n{\n\treturn g4_user();\n}\n", None),
    ("src/alloc/one.h", "#define G4_ONE(x) g4_two##x + \\\n\tg4_one(x)\n", "one.c calls g4_three() of src/alloc/three.c"),
    ("src/alloc/one.c", "G4_FN int g4_one(void)\n{\n\treturn g4_three();\n}\n", None),
    ("src/alloc/three.c", "G4_FN int g4_three(void)\n{\n\treturn G4_ONE(3);\n}\n", None),
    ("src/dir/pure.h", "G4_FN G4_INLINE int g4_pure(int a)\n{\n\treturn a;\n}\nG4_FN int g4_impure(void);\n", None),
    ("src/dir/pure.c", "G4_FN int g4_impure(void)\n{\n\treturn g4_pure(1) + g4_own();\n}\n", None),
    ("src/dir/own.c", "G4_FN int g4_own(void)\n{\n\treturn g4_pure(2);\n}\n", None),
    ("src/dedup/way.h", "G4_FN G4_INLINE int g4_way(void)\n{\n\treturn g4_far();\n}\n", None),
    ("src/dedup/way.c", "G4_FN int g4_home(void)\n{\n\treturn g4_way();\n}\n", None),
    ("src/dedup/far.c", "G4_FN int g4_far(void)\n{\n\treturn g4_home();\n}\n", "way.c calls g4_far() of"),
    ("src/alloc/number.c", "G4_FN static void f(void)\n{\n\tg(g4_address_from(fs->meta.layout.data_address));\n}\n", "3: an address of the layout"),
    ("src/alloc/length.c", "G4_FN static uint64_t f(void)\n{\n\treturn layout->backup_address - layout->data_address;\n}\n", None),
    ("src/simt/cpu/both.h", "G4_INLINE int g4_both(void)\n{\n\treturn g4_lanes();\n}\n", None),
    ("src/simt/lanes/both.c", "int g4_both(void)\n{\n\treturn 0;\n}\n", None),
    ("src/simt/lanes/lanes.c", "int g4_lanes(void)\n{\n\treturn g4_both();\n}\n", None),
    ("src/alloc/long.c", "\n" * 901, "901 lines"),
    ("src/cli/long.c", "\n" * 901, "901 lines"),
    ("src/simt/cuda/long.c", "\n" * 901, "901 lines"),
    ("src/fsck/many.h", "".join(f"bool g4_{k}(int a);\n" for k in range(46)), "46 functions"),
    ("src/alloc/many.h", "".join(f"G4_FN int g4_{k}(int a);\n" for k in range(46)), "46 functions"),
    ("include/gpu4fs/many.h", "".join(f"GPU4FS_API int gpu4fs_{k}(int a);\n" for k in range(46)), "46 functions"),
    ("src/alloc/some.h", "".join(f"G4_FN int g4_{k}(int a);\n" for k in range(45)), None),
    ("src/data/own.c", "G4_FN static int f(void)\n{\n\n\treturn g4_map_set(\n", "4: g4_map_set() is for"),
    ("src/data/extent.c", "G4_FN static int f(void)\n{\n\treturn g4_alloc_free(\n", None),
    ("include/gpu4fs/gpu4fs.h", '#include "base/base.h"\n', "gpu4fs/ may not include base/"),
    ("shredder/chunk/chunk.c", '#include "hash/hash.h"\n#include "chunk/chunk.h"\n#include "simt/simt.h"\n', None),
    ("shredder/cli/own.c", '#include "cli/own.h"\n', None),
    ("shredder/cli/own.h", "", None),
    ("shredder/cli/theirs.c", '#include "cli/cli.h"\n', "shredder/cli/ may not include cli/"),
    ("shredder/store/fs.c", '#include "format/format.h"\n', "shredder/store/ may not include format/"),
    ("shredder/store/below.c", '#include "chunk/chunk.h"\n#include "hash/hash.h"\n#include "parity/parity.h"\n', None),
    ("shredder/chunk/parity.c", '#include "parity/parity.h"\n', "shredder/chunk/ may not include parity/"),
    ("shredder/chunk/chunk.h", "", None),
    ("shredder/store/store.h", "", None),
    ("shredder/chunk/up.c", '#include "store/store.h"\n', "shredder/chunk/ may not include shredder/store/"),
    ("shredder/other/x.c", "", "no layer"),
    ("shredder/store/one.c", "int store_one(void)\n{\n\treturn backup_two();\n}\n", "store_one() of shredder/store/one.c"),
    ("shredder/store/two.c", "int backup_two(void)\n{\n\treturn store_one();\n}\n", None),
    ("shredder/cli/look.c", "int cli_look(void)\n{\n\treturn store_one() + cli_own();\n}\n", None),
    ("shredder/cli/named.c", "void cli_own(struct store_one *x)\n{\n\tx->cli_look = 1;\n}\n", None),
    ("shredder/site/long.c", "\n" * 901, "901 lines"),
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
        problems += check_calls(root) + check_sizes(root) + check_header_circles(root)
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
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, files, includes = check(root)
    problems += check_calls(root) + check_sizes(root) + check_header_circles(root) + check_names(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"layering: {files} files, {includes} includes, {len(problems)} against the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
