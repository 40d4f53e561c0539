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

exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M disk.img
exits 0 "attr get --image of the root" "$gpu4fs" attr get --image disk.img /
says "... shows the default" 'checksum default'
exits 0 "attr set --image checksum=" "$gpu4fs" attr set --image disk.img checksum=xxh3 /
is_json "attr get --image --json" "$gpu4fs" attr get --json --image disk.img /
equals "... shows it" "xxh3" "$(json_value 'd["files"][0]["checksum"]')"
exits 1 "attr set of no checksum" "$gpu4fs" attr set --image disk.img checksum=md5 /
says "... tells what there is" "crc32c, none and default are, and not 'md5'"
exits 0 "the image has the feature now" "$gpu4fs" info disk.img
says "... in its list" 'sums'
exits 0 "attr set --image dedup=" "$gpu4fs" attr set --image disk.img dedup=on /
exits 0 "... is kept" "$gpu4fs" attr get --json --image disk.img /
equals "... shows it" "on" "$(json_value 'd["files"][0]["dedup"]')"
exits 0 "attr set --image dedup=domain" "$gpu4fs" attr set --image disk.img dedup=domain /
exits 0 "... is kept" "$gpu4fs" attr get --json --image disk.img /
equals "... shows it" "domain" "$(json_value 'd["files"][0]["dedup"]')"
exits 0 "the image has the feature now" "$gpu4fs" info disk.img
says "... in its list" 'domains'
exits 0 "dump of the directory" "$gpu4fs" dump disk.img inode /
says "... shows the number" 'domain  *1$'
exits 1 "a word that there is not" "$gpu4fs" attr set --image disk.img dedup=yes /
exits 1 "sums that there are not" "$gpu4fs" attr set --image disk.img checksum=md5 /
one_sentence "... fails with one sentence"
exits 1 "of a file that is not there" "$gpu4fs" attr set --image disk.img checksum=none /missing
one_sentence "... fails with one sentence"
exits 1 "of an image that is none" "$gpu4fs" attr set --image file checksum=none /
one_sentence "... fails with one sentence"
exits 1 "of another file system's file" "$gpu4fs" attr set checksum=none file
one_sentence "... fails with one sentence"
exits 2 "flags in an image" "$gpu4fs" attr set --image disk.img +i /
exits 0 "fsck has nothing against it" "$gpu4fs" fsck -f -n disk.img
finish
