#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --json is JSON wherever it is offered.
. "$(dirname "$0")/lib.sh"

is_json "mkfs" "$gpu4fs" mkfs --json --size 200M -L "$(printf 'quote " back \\ tab \t end \xff')" a.img
is_json "info" "$gpu4fs" info --json a.img
equals "... its size is a number" $((200 * 1024 * 1024)) "$(json_value 'd["size_bytes"]')"
equals "... its state is clean" clean "$(json_value 'd["state"]')"
is_json "df" "$gpu4fs" df --json a.img
equals "... used and free make the size" True \
	"$(json_value '[f["used_bytes"] + f["free_bytes"] == f["size_bytes"] for f in d["filesystems"]][0]')"
exits 0 "df -h" "$gpu4fs" df -h a.img
says "... has a title for each column" '^device  *size  *used  *free  *use%  *mounted on$'
equals "... and is as df" "$("$gpu4fs" df a.img)" "$(cat .out)"
exits 0 "df -b" "$gpu4fs" df -b a.img
says "... has bytes" '^a.img  *[0-9]*  *[0-9]*  *[0-9]*  *[0-9]*% *$'
exits 1 "df of two, of which one is none" "$gpu4fs" df none.img a.img
equals "... has titles and a line" 2 "$(wc -l <.out)"
is_json "fsck" "$gpu4fs" fsck --json a.img
equals "... without problems" "0 []" "$(json_value 'd["problem_count"], d["problems"]' | tr -d '(),')"
equals "... with the root" 1 "$(json_value 'd["directories"]')"
is_json "attr get" "$gpu4fs" attr get --json a.img
is_json "attr list" "$gpu4fs" attr list --json .
for what in "" superblock "superblock backup" journal root groups "group 0" "group 3" "inode 1" "inode /" "dir /" \
	"map /" "xattr /" "block 0" "block 4096" "block 8192"; do
	# shellcheck disable=SC2086 # the words are separate arguments
	is_json "dump $what" "$gpu4fs" dump --json a.img $what
done
poke a.img 4200 ff
is_json "fsck of a damaged image" "$gpu4fs" fsck --json a.img
equals "... names the kind" superblock "$(json_value 'd["problems"][0]["kind"]')"
is_json "info from the second superblock" "$gpu4fs" info --json a.img
finish
