#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034 # gpu4fs is for the tests
# What the tests of the command line share. A test sources this with the program's path in $1, calls check functions,
# and ends with `finish`. Each check prints "ok" or "not ok"; finish exits non-zero when one was not.

gpu4fs=$(realpath "${1:?usage: $0 PATH-OF-GPU4FS}")
checks=0
failures=0
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-cli.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
python=$(python3 -c 'import sys; print(sys.executable)') # what python3 is may be a script that looks for it, which takes longer
PATH=$(dirname "$python"):$PATH

report() { # report STATUS NAME
	checks=$((checks + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $checks $2"
	else
		failures=$((failures + 1))
		echo "not ok $checks $2"
		sed 's/^/# /' "$work/.out" "$work/.err" 2>/dev/null | head -n 20
	fi
}

run() { # run COMMAND...: output to .out and .err, exit status to $status
	"$@" >"$work/.out" 2>"$work/.err"
	status=$?
}

exits() { # exits STATUS NAME COMMAND...
	local wanted=$1 name=$2
	shift 2
	run "$@"
	[ "$status" -eq "$wanted" ] || echo "exit status $status, not $wanted" >>"$work/.err"
	[ "$status" -eq "$wanted" ]
	report $? "$name"
}

says() { # says NAME PATTERN: of the last run's output or messages
	cat "$work/.out" "$work/.err" | grep -q -e "$2"
	report $? "$1"
}

one_sentence() { # one_sentence NAME: the last run failed with one line, or two when the second says where help is
	[ "$(grep -vc -e '--help' "$work/.err")" -eq 1 ] && ! grep -q 'Assertion\|Sanitizer\|runtime error' "$work/.err"
	report $? "$1"
}

is_json() { # is_json NAME COMMAND...
	local name=$1
	shift
	run "$@"
	python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/.out" 2>>"$work/.err"
	report $? "$name"
}

json_value() { # json_value EXPRESSION: of the last run's output, bound to d
	python3 -c "import json, os, sys; d = json.load(sys.stdin); print($1)" <"$work/.out"
}

equals() { # equals NAME WANTED FOUND
	[ "$2" = "$3" ] || echo "found '$3', not '$2'" >>"$work/.err"
	[ "$2" = "$3" ]
	report $? "$1"
}

# Overwrites bytes of a file: poke FILE OFFSET HEX-BYTES
poke() {
	local bytes
	# shellcheck disable=SC2001 # every pair of digits, which no expansion can do
	bytes=$(sed 's/../\\x&/g' <<<"$3")
	printf '%b' "$bytes" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

finish() {
	echo "1..$checks"
	[ "$failures" -eq 0 ]
	exit $?
}
