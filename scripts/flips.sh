#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every bit of an image's metadata flipped, and every 64th of its contents (tests/corrupt/flips.c), a process on each processor.
# Usage: flips.sh [--slice I/N] [PROGRAM]
# --slice: the I-th part, from 1, of N: all of them together are everything. PROGRAM: build/release/tests/flips.
set -euo pipefail
part=1 parts=1
if [[ ${1:-} == --slice ]]; then
	if [[ ! ${2:-} =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || ((BASH_REMATCH[1] > BASH_REMATCH[2])); then
		echo "flips.sh: --slice takes I/N, from 1/N to N/N" >&2
		exit 2
	fi
	part=${BASH_REMATCH[1]} parts=${BASH_REMATCH[2]}
	shift 2
fi
program=${1:-$(dirname "$0")/../build/release/tests/flips}
[[ -x $program ]] || { echo "flips.sh: there is no program '$program'" >&2 && exit 2; }
jobs=$(nproc)
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-flips.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export FLIPS_FULL=1 FLIPS_SLICES=$((parts * jobs)) folder program
# shellcheck disable=SC2016 # expanded by the shell that xargs starts; mounts that are refused are no findings
if seq $(((part - 1) * jobs)) $((part * jobs - 1)) | xargs -P "$jobs" -I {} bash -c \
	'FLIPS_SLICE={} "$program" >"$folder/{}" 2>&1 || { cat "$folder/{}"; exit 1; }'; then
	cat "$folder"/* | awk '/^(metadata|contents|places|versions):/ { count[$1] += $2; what[$1] = $3 }
		END { for (name in count) print name, count[name], what[name] }' | sort
	echo "part $part of $parts: no bit and no page was taken for what was written"
else
	echo "part $part of $parts: FAILED" >&2
	exit 1
fi
