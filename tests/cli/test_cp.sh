#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs cp: what it refuses. What it copies: tests/fuse/test_cp.sh, where there are files.
. "$(dirname "$0")/lib.sh"

touch empty
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M disk.img
exits 2 "without a file system" "$gpu4fs" cp /a /b
one_sentence "... fails with one sentence"
says "... that leads to cp(1) for what is mounted" 'cp(1)'
exits 2 "with two" "$gpu4fs" cp --image disk.img --socket s /a /b
exits 2 "without a target" "$gpu4fs" cp --image disk.img /a
exits 2 "with another word for when" "$gpu4fs" cp --reflink=often --image disk.img /a /b
one_sentence "... fails with one sentence"
exits 1 "of an image that is none" "$gpu4fs" cp --image empty /a /b
one_sentence "... fails with one sentence"
exits 1 "of a socket that is none" "$gpu4fs" cp --socket empty /a /b
one_sentence "... fails with one sentence"
exits 1 "of what is not there" "$gpu4fs" cp --image disk.img /a /b
one_sentence "... fails with one sentence"
says "... that names it" /a
exits 1 "of a directory without -r" "$gpu4fs" cp --image disk.img / /b
one_sentence "... fails with one sentence"
exits 1 "of several to what is no directory" "$gpu4fs" cp --image disk.img /a /b /c
one_sentence "... fails with one sentence"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img
finish
