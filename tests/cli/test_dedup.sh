#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs dedup: what it refuses, and an empty file system. What it shares: tests/fuse/test_dedup.sh, where there are files.
. "$(dirname "$0")/lib.sh"

touch empty
exits 0 "mkfs" "$gpu4fs" mkfs -q --checksum=blake3 --size 32M disk.img
exits 2 "without anything to do" "$gpu4fs" dedup --image disk.img
one_sentence "... fails with one sentence"
exits 2 "with something else to do" "$gpu4fs" dedup shrink --image disk.img
one_sentence "... fails with one sentence"
says "... that names it" shrink
exits 2 "without a file system" "$gpu4fs" dedup run
one_sentence "... fails with one sentence"
for order in run estimate stats; do
	exits 1 "$order of another file system's directory" "$gpu4fs" dedup "$order" .
	one_sentence "... fails with one sentence"
	exits 1 "$order of what is not there" "$gpu4fs" dedup "$order" ./nothing
	one_sentence "... fails with one sentence"
done
exits 2 "prune of a directory alone" "$gpu4fs" dedup prune .
one_sentence "... fails with one sentence"
exits 2 "with two" "$gpu4fs" dedup run --image disk.img --socket s /
for size in 0 100 often; do
	exits 2 "with $size of memory" "$gpu4fs" dedup run --memory $size --image disk.img
	one_sentence "... fails with one sentence"
done
exits 2 "with a rate that is none" "$gpu4fs" dedup run --rate often --image disk.img
exits 2 "an estimate with a rate" "$gpu4fs" dedup estimate --rate 1M --image disk.img
exits 2 "statistics that compare" "$gpu4fs" dedup stats --compare --image disk.img
exits 2 "prune with a socket" "$gpu4fs" dedup prune --socket s
exits 2 "prune of a part" "$gpu4fs" dedup prune --image disk.img /a
one_sentence "... fails with one sentence"
exits 2 "a run with --mount" "$gpu4fs" dedup run --mount .
one_sentence "... fails with one sentence"
exits 1 "counts of what is not mounted" "$gpu4fs" dedup stats --mount .
one_sentence "... fails with one sentence"
exits 1 "prune of what is not mounted" "$gpu4fs" dedup prune --mount .
exits 1 "prune of an image that is none" "$gpu4fs" dedup prune --image empty
one_sentence "... fails with one sentence"
is_json "prune of an image as JSON" "$gpu4fs" dedup prune --json --image disk.img
equals "... has nothing to do" 0 "$(json_value 'd["pruned_pages"]')"
is_json "prune of what is old as JSON" "$gpu4fs" dedup prune --older-than 4w --json --image disk.img
equals "... in days" 28 "$(json_value 'd["older_than_days"]')"
equals "... has nothing to do" 0 "$(json_value 'd["pruned_pages"]')"
for age in 0d 30 d -1d 1h 30d5 99999999999d; do
	exits 2 "prune of what is older than $age" "$gpu4fs" dedup prune --older-than "$age" --image disk.img
	one_sentence "... fails with one sentence"
done
exits 1 "prune of what is older than days are" "$gpu4fs" dedup prune --older-than 999999d --image disk.img
one_sentence "... fails with one sentence"
exits 2 "statistics of what is old" "$gpu4fs" dedup stats --older-than 1d --image disk.img
exits 1 "of an image that is none" "$gpu4fs" dedup run --image empty
one_sentence "... fails with one sentence"
exits 1 "of a socket that is none" "$gpu4fs" dedup run --socket empty
one_sentence "... fails with one sentence"
exits 1 "of what is not there" "$gpu4fs" dedup run --image disk.img /a
says "... that names it" /a
for order in run estimate stats; do
	exits 0 "$order of a file system without files" "$gpu4fs" dedup "$order" --image disk.img
	is_json "... as JSON" "$gpu4fs" dedup "$order" --json --image disk.img
	equals "... has none" 0 "$(json_value 'd["files"]')"
done
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
finish
