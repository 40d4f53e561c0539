#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Duplicates that are stored already: `gpu4fs dedup run` beside duperemove on XFS and Btrfs, in turns, on the same image: wall time,
# processor time, memory, what it freed. Each begins with nothing cached, and contents are compared with the source afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
	cat <<'TEXT'
usage: bench/dedup.sh [OPTION]...

  --rounds=N      how often each is measured; the median counts [3]
  --tree=DIR      a tree, which is stored twice [/usr/share/doc]
  --mib=N         size of a file of random data, which is stored twice, the second time
                  4 KiB further [512]
  --image-mib=N   size of the image file [4096]
  --folder=DIR    where the image and that file lie [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --help          show this
TEXT
}

rounds=3 tree=/usr/share/doc mib=512 image_mib=4096 folder=build/bench build=build/release
for argument in "$@"; do
	case $argument in
	--rounds=*) rounds=${argument#*=} ;;
	--tree=*) tree=${argument#*=} ;;
	--mib=*) mib=${argument#*=} ;;
	--image-mib=*) image_mib=${argument#*=} ;;
	--folder=*) folder=${argument#*=} ;;
	--build=*) build=${argument#*=} ;;
	--help)
		usage
		exit
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
done
mkdir -p "$folder"
build=$(realpath "$build")
tree=$(realpath "$tree")
work=$(mktemp -d "$(realpath "$folder")/dedup.XXXXXX")
image=$work/image
mkdir "$work/mnt" "$work/source"
# shellcheck source=bench/mounts.sh
. bench/mounts.sh
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ $(id -u) -ne 0 ]]; then
	say "mounting other file systems needs root"
	exit 1
fi
for program in duperemove /usr/bin/time mkfs.xfs mkfs.btrfs; do
	if [[ -z $(type -P "$program") ]]; then
		say "$program is missing"
		exit 1
	fi
done

# The second copy comes from outside, too: inside one file system cp(1) shares.
fill() {
	cp -a --reflink=never "$work/source" "$work/mnt/first" &&
		cp -a --reflink=never "$work/source" "$work/mnt/second" &&
		cat "$work/page" "$work/source/random" >"$work/mnt/second/random" && sync
}

used() {
	sync --file-system "$work/mnt"
	df --block-size=1 --output=used "$work/mnt" | tail -n 1
}

# timed COMMAND...: wall, user and system seconds and KiB of memory in the file `time`
timed() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	/usr/bin/time --output="$work/time" --format="%e %U %S %M" "$@" >>"$work/log" 2>&1
}

again() { # again PEER: mounted anew, so that all is written and counted
	unmount_peer && mount_peer "$1"
}

same_contents() {
	diff -r --no-dereference "$work/source" "$work/mnt/first" && diff -r --no-dereference --exclude=random "$work/source" "$work/mnt/second" &&
		cat "$work/page" "$work/source/random" | cmp - "$work/mnt/second/random"
}

# The peers: blocks of 4 KiB as gpu4fs has them and parts of extents, and duperemove's defaults, which find less.
deduplicate() {
	case $1 in
	gpu4fs) timed "$build/bin/gpu4fs" dedup run --image "$image" ;;
	gpu4fs-compare) timed "$build/bin/gpu4fs" dedup run --compare --image "$image" ;;
	*-4k) timed duperemove -d -r -q -b 4096 --dedupe-options=partial "$work/mnt" ;;
	*) timed duperemove -d -r -q "$work/mnt" ;;
	esac
}

# It is the condition of an if: nothing ends it but its own `return`.
measure() {
	local peer=$1 format=${1%%-*} type=${1%%-*} before after

	if [[ $type == gpu4fs ]]; then format=inprocess-blake3 type=fuse; fi
	format_peer "$format" && mount_peer "$type" && fill && again "$type" || return 1
	before=$(used) || return 1
	if [[ $type == fuse ]]; then unmount_peer; else again "$type"; fi || return 1
	deduplicate "$peer" || return 1
	if [[ $type == fuse ]]; then mount_peer fuse; else again "$type"; fi || return 1
	after=$(used) || return 1
	same_contents || return 1
	echo "$peer $(<"$work/time") $before $after" >>"$work/results"
	release_peer
}

dd if=/dev/urandom of="$image" bs=1M count="$image_mib" conv=fsync status=none
cp -a "$tree" "$work/source/tree"
dd if=/dev/urandom of="$work/source/random" bs=1M count="$mib" status=none
dd if=/dev/urandom of="$work/page" bs=4096 count=1 status=none
peers=(gpu4fs gpu4fs-compare xfs-4k btrfs-4k xfs-128k btrfs-128k)
for ((round = 0; round < rounds; round++)); do
	for ((i = 0; i < ${#peers[@]}; i++)); do
		peer=${peers[(i + round) % ${#peers[@]}]}
		if ! measure "$peer" >>"$work/log" 2>&1; then
			say "it failed on $peer; the last lines that were written:"
			tail -n 10 "$work/log" >&2
			exit 1
		fi
		say "round $round: $peer"
	done
done

python3 - "$work/results" "$rounds" <<'PYTHON'
import statistics, sys

values = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        peer, *numbers = line.split()
        values.setdefault(peer, []).append([float(number) for number in numbers])
print(f"medians of {sys.argv[2]} rounds in turns")
print(f"{'':16} {'wall s':>8} {'CPU s':>8} {'MiB':>8} {'used MiB':>9} {'freed MiB':>10} {'x gpu4fs':>9}")
ours = statistics.median(numbers[0] for numbers in values["gpu4fs"])
for peer, rows in values.items():
    wall, cpu, memory, used, freed = (
        statistics.median(f(*row) for row in rows)
        for f in (
            lambda wall, user, system, kib, before, after: wall,
            lambda wall, user, system, kib, before, after: user + system,
            lambda wall, user, system, kib, before, after: kib / 1024,
            lambda wall, user, system, kib, before, after: before / 2**20,
            lambda wall, user, system, kib, before, after: (before - after) / 2**20,
        )
    )
    print(f"{peer:16} {wall:8.2f} {cpu:8.2f} {memory:8.0f} {used:9.0f} {freed:10.0f} {wall / ours:9.1f}")
PYTHON
