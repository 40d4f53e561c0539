#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CTest tests fuzz.regressions.*: runs every input of a folder, and once more: it must do the same.
# Usage: regressions.sh PROGRAM FOLDER
set -euo pipefail

first=$("$1" "$2"/*)
second=$("$1" "$2"/* 2>/dev/null)
echo "$first"
if [[ $first != "$second" ]]; then
	echo "another run left something else:"
	echo "$second"
	exit 1
fi
