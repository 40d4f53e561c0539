#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every option that --help names, of a command or behind -o, stands in the manual page and is offered by both completions;
# and these offer nothing that --help does not know.
top=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
shredder=$(dirname "$gpu4fs")/shredder
[ -x "$shredder" ] || shredder=$(dirname "$(dirname "$gpu4fs")")/bin/shredder

mkdir help
"$gpu4fs" help >overview 2>&1
commands=$(awk '/^  [a-z]+ / && $1 != "help" && $1 != "version" {print $1}' overview | xargs)
for command in $commands; do
	"$gpu4fs" "$command" --help >"help/gpu4fs-$command"
done
"$shredder" help >overview 2>&1
commands=$(awk '/^  [a-z-]+ / && $1 != "help" && $1 != "version" {print $1}' overview | xargs)
for command in $commands; do
	"$shredder" "$command" --help >"help/shredder-$command" 2>/dev/null || rm -f "help/shredder-$command"
done

cat >compare.py <<'PYTHON'
"""Compares the options of one command: compare.py SOURCE-TREE PROGRAM COMMAND WHERE"""
import pathlib, re, sys

top, program, command, where = pathlib.Path(sys.argv[1]), *sys.argv[2:]
text = pathlib.Path(f"help/{program}-{command}").read_text()


def options_of(help_text):
    """Options that stand at the beginning of a line, after one blank or more."""
    found = set()
    for line in help_text.splitlines():
        match = re.match(r"\s+((?:-\w|--[a-z][a-z-]*)(?:(?: [A-Z][^ ,]*)?, (?:-\w|--[a-z][a-z-]*))*)", line)
        if match:
            found |= set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", match.group(1)))
    return found


def mount_words(help_text):
    """Words behind -o: lower case, with or without a value."""
    found = set()
    part = help_text
    if command == "mount":
        part = help_text[help_text.index("Mount options:"):].split("\n\n")[0]
        lines = [line[:33] for line in part.splitlines()[1:]]
    else:
        start = part.index("-o OPTION,...")
        lines = [re.sub(r"\([^)]*\)", "", part[start + 13 : part.index("--help", start)].replace("\n", " "))]
    for line in lines:
        for word in re.split(r"[ ,]+", line):
            match = re.fullmatch(r"([a-z_]+)(=.*)?", word)
            if match and (match.group(2) or command == "mount" or word in ("ro", "discard")):
                found.add(match.group(1))
    return found


def manual():
    if program == "shredder":
        pages = ["shredder.1"]
    else:
        pages = ["gpu4fs.8"] + [f"{command}.gpu4fs.8"] * (top / f"man/{command}.gpu4fs.8").exists()
    return "\n".join((top / "man" / page).read_text() for page in pages)


def in_manual(option, pages):
    name = option.lstrip("-").replace("-", r"\\?-")
    dashes = r"\\-" if option.startswith("--") else ""
    return re.search(rf"(?:Fl|,|\|)\s*(?:\w+ , )?{dashes}{name}\b|Fl \w*{name}" if not dashes else rf"\\-{name}\b", pages)


def bash_part(script):
    if program == "shredder":
        shared = re.search(r'local shared="([^"]*)"', script).group(1)
        part = re.search(rf'{command}:-\*\) _shredder_words "\$current" "([^"]*)"', script).group(1)
        return set((part.replace("$shared", shared)).split())
    for names, body in re.findall(r'^\t((?:\w+:-\* ?\|? ?)+)\)\s*_gpu4fs_words "\$current" "([^"]*)"', script, re.M):
        if f"{command}:" in names:
            return set(body.split())
    return set()


def zsh_shredder():
    """Options that completions/_shredder offers; arrays that commands share stand in the place of their names."""
    script = (top / "completions/_shredder").read_text()
    script = script[script.index("_shredder_command()") :]
    arrays = dict(re.findall(r"^\tlocal -a (\w+)=\((.*?)\)$(?=\n\t(?:local|case) )", script, re.S | re.M))
    body = re.search(rf"^\t{command}\)(.*?);;", script, re.S | re.M).group(1)
    while names := set(re.findall(r"\$(\w+)", body)):
        for name in names:
            body = body.replace(f"${name}", arrays[name])
    body = re.sub(r"_command_names -e|_arguments -S|\[[^\]]*\]", " ", body)
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", body))


def zsh_part(script):
    if command == "attr":
        return set(re.findall(r"--?[a-zA-Z][a-z-]*", script[script.index("_gpu4fs_attr()") : script.index("_gpu4fs_dump_which()")]))
    body = re.search(rf"^\t{command}\)(.*?);;", script[script.index("_gpu4fs_command()") :], re.S | re.M).group(1)
    body = re.sub(r"\[[^\]]*\]", " ", body.replace("$common", "--help --version"))
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", body))


options = options_of(text) | {"--help"}
problems = []
if where == "manual":
    pages = manual()
    problems = [option for option in sorted(options) if not in_manual(option, pages)]
elif where == "bash":
    offered = bash_part((top / f"completions/{program}.bash").read_text())
    problems = sorted(option for option in options - offered if option.startswith("--") or command in ("mount",))
    problems += [f"{option} (unknown to --help)" for option in sorted(offered - options - {"--version"})]
elif where == "zsh" and program == "shredder":
    offered = zsh_shredder()
    problems = sorted(options - offered) + [f"{option} (unknown to --help)" for option in sorted(offered - options)
                                            if option not in text]
elif where == "zsh":
    offered = zsh_part((top / "completions/_gpu4fs").read_text())
    problems = sorted(options - offered)
elif where == "words":
    words = mount_words(text)
    pages = manual() + (top / "man/mount.gpu4fs.8").read_text()
    completions = {name: (top / "completions" / name).read_text() for name in ("gpu4fs.bash", "_gpu4fs")}
    assert len(words) > 5, words
    for word in sorted(words):
        if not re.search(rf"\b{word}\b", pages):
            problems.append(f"{word} (manual)")
        if command == "mount":
            problems += [f"{word} ({name})" for name, script in completions.items()
                         if not re.search(rf"(?<![\w-]){word}\b", script[script.index("_gpu4fs_mount_options()"):][:1500])]
print(*problems, sep=", ", end="")
PYTHON

for page in help/*; do
	name=${page#help/}
	program=${name%%-*}
	command=${name#*-}
	case $name in
	gpu4fs-* | shredder-chunk | shredder-dedup-ratio | shredder-bench) places="manual bash zsh" ;;
	*) places=zsh ;; # others share lines of the manual and of the bash completion
	esac
	for where in $places; do
		equals "$program $command: nothing is missing in $where" "" \
			"$(python3 compare.py "$top" "$program" "$command" "$where" 2>&1)"
	done
done
# values that bash completes: values OPTION of mkfs
values() {
	bash -c '. "$1/completions/gpu4fs.bash"; COMP_WORDS=(gpu4fs mkfs "$2" ""); COMP_CWORD=3; _gpu4fs; echo "${COMPREPLY[*]}"' - "$top" "$1"
}
equals "levels are completed" "none 0 1 5 6 triple quadruple" "$(values --raid 2>&1)"
equals "... and checksums" "none blake3 xxh3 crc32c" "$(values --checksum 2>&1)"
for command in mount serve; do
	equals "what $command takes behind -o is told everywhere" "" \
		"$(python3 compare.py "$top" gpu4fs "$command" words 2>&1)"
done
finish
