#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs mount: what it refuses, with the statuses of mount(8), before anything is mounted. What mounts do: tests/fuse.
. "$(dirname "$0")/lib.sh"

refuses() { # refuses STATUS NAME ARGUMENT...
	local status=$1 name=$2
	shift 2
	exits "$status" "$name" "$gpu4fs" mount "$@"
	one_sentence "... is refused in one sentence"
}

mkdir there
"$gpu4fs" mkfs -q --size 64M a.img
truncate -s 64M empty.img
refuses 1 "no directory" a.img
refuses 1 "no device"
refuses 1 "an unknown option" -o frobnicate a.img there
refuses 1 "no size of a cache" -o cache=much a.img there
refuses 1 "no engine" -o engine=abacus a.img there
refuses 1 "no number of queues" -o gpu_queues=0 a.img there
refuses 1 "too many queues" -o engine=cuda,gpu_queues=25 a.img there
refuses 32 "queues for a GPU without one" -o gpu_queues=4 emu:drive:a.img there
says "... is told in one that names what it needs" "needs engine=cuda or auto"
for option in ro noatime; do
	exits 32 "no file system, -o $option" "$gpu4fs" mount -o "$option" empty.img there
	one_sentence "... is told in one sentence"
	exits 32 "... no such device" "$gpu4fs" mount -o "$option" none.img there
	one_sentence "... is told in one sentence"
	exits 32 "... no such directory" "$gpu4fs" mount -o "$option" a.img nowhere
	one_sentence "... is told in one sentence"
done
exits 0 "the image is what it was" "$gpu4fs" fsck a.img
finish
