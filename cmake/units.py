#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts sources together into units: a file that includes several of them is compiled in a fraction of their time, most of which
is that of headers. Usage: units.py FOLDER SIZE SOURCE..., in the source tree: writes FOLDER/0.c and so on, each of at most SIZE
sources, and prints their names, separated by semicolons.

Two sources that would disturb each other are never in one unit: they have different things of one name at file scope (a static
function, a type, a constant), or one has a macro or a static variable whose name is anything else in the other one, or a static
function whose name is a variable there."""
import functools
import os
import re
import sys

HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|_Atomic\s*\(.*?\)")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
AGGREGATE = re.compile(r"\b(struct|union|enum)\s*(\w*)\s*$")
CONSTANT = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)")
FUNCTION = re.compile(r"(\w+)\s*\(")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.DOTALL)
LESS = re.compile(r"(\w+)\s*<(?![<=])")
WORD = re.compile(r"[A-Za-z_]\w*")
UNCALLED = re.compile(r"(?<![.>\w])[A-Za-z_]\w*\b(?!\s*\()")
FOLDERS = ("", "src", "include", "shredder", "tests", "tests/support", "tests/crash")


def declarations(text):
    """What stands at file scope: (all before a body or a semicolon, the body)."""
    depth = start = body = 0
    for match in re.finditer(r"[{};]", text):
        char, at = match.group(), match.start()
        if char == "{":
            if depth == 0:
                body = at
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                yield text[start:body], text[body + 1 : at]
                start = at + 1
        elif depth == 0:
            yield text[start:at], ""
            start = at + 1


class File:
    """words: all that are in it, uncalled: those of them that name no function called there; names, alone: those at file scope and
    what they are, alone those that no word may be; functions: its static ones."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            raw = file.read()
        self.path = path
        self.includes = [path for path in (found(path, name) for name in INCLUDE.findall(raw)) if path]
        text = HIDDEN.sub(" ", raw)
        self.words = set(WORD.findall(text))
        self.less = set(LESS.findall(text))
        self.uncalled = set(UNCALLED.findall(text))
        self.functions = set()
        self.tags = set()
        self.names = {}
        self.alone = dict(DEFINE.findall(text))
        of_type = []  # of "static struct {...} name", which is two of these
        for head, body in declarations(DIRECTIVE.sub("", text)):
            head = ATTRIBUTE.sub("", head)
            words = of_type + WORD.findall(head)
            of_type = []
            aggregate = AGGREGATE.search(head)
            if aggregate and body:
                self.names[aggregate.group(2)] = path
                self.tags.add(aggregate.group(2))
                if aggregate.group(1) == "enum":
                    self.names.update(dict.fromkeys(CONSTANT.findall(body), path))
            if aggregate and body:
                of_type = [word for word in words if word in ("static", "typedef")]
            elif "typedef" in words:
                self.names[words[-1]] = path
            elif "static" in words:
                function = FUNCTION.search(head)
                if function:
                    self.names[function.group(1)] = path
                    self.functions.add(function.group(1))
                else:
                    variable = VARIABLE.search(head.strip())
                    if variable:
                        self.alone[variable.group(1)] = path
        self.names.pop("", None)


def found(by, name):
    for folder in (os.path.dirname(by), *FOLDERS):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(path):
            return path
    return None


@functools.lru_cache(None)
def parsed(path):
    return File(path)


class Source:
    """The same of a source with the headers that it includes; of these, macros and variables are everybody's."""

    def __init__(self, path):
        self.path = path
        self.alone = parsed(path).alone
        self.tags = parsed(path).tags
        self.less = parsed(path).less
        self.uncalled = parsed(path).uncalled
        self.functions = parsed(path).functions
        self.words = set()
        self.names = {}
        left, seen = [path], set()
        while left:
            file = parsed(left.pop())
            if file.path not in seen:
                seen.add(file.path)
                self.words |= file.words
                self.names |= file.names
                left += file.includes

    def disturbs(self, other):
        return bool(
            any(other.names[name] != self.names[name] for name in self.names.keys() & other.names.keys())
            or self.tags & other.less  # where nvcc expects the arguments of a template
            or other.tags & self.less
            or self.functions & other.uncalled
            or other.functions & self.uncalled
            or any(other.alone.get(name) != self.alone[name] for name in self.alone.keys() & other.words)
            or any(self.alone.get(name) != other.alone[name] for name in other.alone.keys() & self.words)
        )


def write(path, text):
    """Leaves a file that has this text alone: what is made of it is not made again."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    folder, size = sys.argv[1], int(sys.argv[2])
    units = []
    for source in map(Source, map(os.path.relpath, sys.argv[3:])):
        for unit in units:
            if len(unit) < size and not any(source.disturbs(other) for other in unit):
                unit.append(source)
                break
        else:
            units.append([source])
    os.makedirs(folder, exist_ok=True)
    for number, unit in enumerate(units):
        write(f"{folder}/{number}.c", "".join(f'#include "{os.path.abspath(source.path)}"\n' for source in unit))
    print(";".join(f"{folder}/{number}.c" for number in range(len(units))), end="")


main()
