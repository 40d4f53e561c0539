#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fsx of xfstests (https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git), through the mount and through the library: reads and writes that are
# all the engine's, and mappings, with which the file becomes the kernel's. $FSX is the program, which has to know its own option -T: in January
# 2026 that was missing in its call of getopt_long().
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
[[ -n ${FSX-} ]] || skip "\$FSX names no fsx"
[[ -x $FSX ]] || skip "$FSX is no program"
"$FSX" -T 2>&1 | grep -q 'invalid option' && skip "$FSX does not know -T"
operations=20000

# exercise NAME SEED COMMAND...: -T: not RWF_DONTCACHE, which is for the kernel
exercise() {
	local name=$1 seed=$2
	shift 2
	mkdir "$mnt/$name"
	check "$name: $operations operations" "$@" -q -T -S "$seed" -N $operations -P "$work" "$mnt/$name/file"
}

make_image
mount_shared
exercise "mount" 1 "$FSX" -R -W
# -J -B -0: not the requests that it tries before the first operation, where it has them, and that make a file the kernel's
plain=(-R -W -J -B -0)
exercise "library, read and written" 2 run "$FSX" "${plain[@]}"
exercise "library, opened anew all the time" 3 run "$FSX" "${plain[@]}" -c 20
# a file that is the kernel's meanwhile is one of FUSE, which has neither COLLAPSE_RANGE nor INSERT_RANGE (-C, -I)
exercise "library, mapped" 4 run "$FSX" -C -I
exercise "library, mapped and opened anew" 5 run "$FSX" -C -I -c 20
# three at once on one server, each with a file of its own: two through the library
mkdir "$mnt/together"
pids=()
run "$FSX" -q -T "${plain[@]}" -S 8 -N $operations -P "$work" "$mnt/together/one" >"$work/together.1" 2>&1 &
pids+=($!)
run "$FSX" -q -T "${plain[@]}" -S 9 -N $operations -P "$work" "$mnt/together/two" >"$work/together.2" 2>&1 &
pids+=($!)
"$FSX" -q -T -S 10 -N $operations -P "$work" "$mnt/together/mount" >"$work/together.3" 2>&1 &
pids+=($!)
for i in "${!pids[@]}"; do
	check "together: number $((i + 1)), $operations operations" wait "${pids[i]}"
	sed 's/^/#   /' "$work/together.$((i + 1))" | tail -n 5
done
check "the engine reads" test 0 -lt "$(traced preadv engine "$FSX" -q -T "${plain[@]}" -S 7 -N 100 -P "$work" "$mnt/traced")"
check "and writes" test 0 -lt "$(traced pwritev engine "$FSX" -q -T "${plain[@]}" -S 7 -N 100 -P "$work" "$mnt/traced")"
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
