#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs attr on files of any file system: what can not be shown is one sentence, and no heading without contents.
. "$(dirname "$0")/lib.sh"

mkdir dir
touch file dir/one
for command in "list file" "list missing" "get missing"; do
	# shellcheck disable=SC2086 # two words
	exits 1 "attr $command" "$gpu4fs" attr $command
	one_sentence "... fails with one sentence"
	says "... that names it" "${command#* }"
	equals "... and prints nothing else" "" "$(cat .out)"
done
is_json "attr list --json of a file" "$gpu4fs" attr list --json file
equals "... is an empty list" "[]" "$(json_value 'd["files"]')"
exits 1 "attr list of a file and a directory" "$gpu4fs" attr list file dir
says "... lists the directory" 'name one$'
equals "... under one heading" 1 "$(grep -c '^files' .out)"
exits 0 "attr get of a file" "$gpu4fs" attr get file
says "... shows it" 'path file'
exits 2 "attr set without a file" "$gpu4fs" attr set +i
exits 2 "attr set of what is no flag" "$gpu4fs" attr set +z file
finish
