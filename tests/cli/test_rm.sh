#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs rm: what it refuses. What it removes: tests/fuse/test_cp.sh, where there are trees, and tests/engine/test_clear.c.
. "$(dirname "$0")/lib.sh"

touch empty
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M disk.img
exits 2 "without a file system" "$gpu4fs" rm /a
one_sentence "... fails with one sentence"
says "... that leads to rm(1) for what is mounted" 'rm(1)'
exits 2 "with two" "$gpu4fs" rm --image disk.img --socket s /a
exits 2 "without a name" "$gpu4fs" rm --image disk.img
exits 2 "with no threads" "$gpu4fs" rm -j 0 --image disk.img /a
one_sentence "... fails with one sentence"
exits 1 "of an image that is none" "$gpu4fs" rm --image empty /a
one_sentence "... fails with one sentence"
exits 1 "of what is not there" "$gpu4fs" rm --image disk.img /a
one_sentence "... fails with one sentence"
says "... that names it" /a
exits 0 "of what is not there, with -f" "$gpu4fs" rm -f --image disk.img /a
for name in / /. // /.. /a/../ . ''; do
	exits 1 "of '$name'" "$gpu4fs" rm -rf --image disk.img "$name"
	one_sentence "... fails with one sentence"
	says "... that says so" 'is not removed'
done
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
finish
