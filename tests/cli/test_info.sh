#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs info: what a superblock says, of either copy, and what it refuses.
. "$(dirname "$0")/lib.sh"

"$gpu4fs" mkfs -q -L "my label" --uuid 00112233-4455-6677-8899-aabbccddeeff --size 64M a.img
exits 0 "info" "$gpu4fs" info a.img
says "... the label" "my label"
says "... the UUID" 00112233-4455-6677-8899-aabbccddeeff
is_json "... as JSON" "$gpu4fs" info --json a.img
equals "... the same" "my label 00112233-4455-6677-8899-aabbccddeeff $((64 << 20))" \
	"$(json_value "d['label'] + ' ' + d['uuid'] + ' ' + str(d['size_bytes'])")"
poke a.img 4096 "$(printf '00%.0s' $(seq 64))"
exits 0 "without the first superblock" "$gpu4fs" info --json a.img
equals "... it is as the second says" "my label" "$(json_value "d['label']")"
cp a.img b.img
poke b.img $(((64 << 20) - 4096)) "$(printf '00%.0s' $(seq 64))"
exits 1 "without both" "$gpu4fs" info b.img
one_sentence "... is told in one sentence"
exits 1 "no such device" "$gpu4fs" info none.img
one_sentence "... is told in one sentence"
exits 1 "a directory that is no mount" "$gpu4fs" info .
one_sentence "... is told in one sentence"
"$gpu4fs" mkfs -q --dedup --size 64M c.img
exits 0 "an image that deduplicates" "$gpu4fs" info --json c.img
equals "... its features have names" "htree sums shared listed buffered" "$(json_value "' '.join(d['features_incompat'])")"
exits 2 "no device" "$gpu4fs" info
exits 2 "an unknown option" "$gpu4fs" info --frobnicate a.img
finish
