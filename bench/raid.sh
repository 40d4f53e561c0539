#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several disks: gpu4fs in-process beside Btrfs on loop devices, level by level, in turns, on the same files: sequential and random
# data, and a 4 KiB overwrite with fsync, also beside one disk. Prints a table, and leaves build/bench/raid.json. bench/README.md says
# what the numbers mean. Leaves nothing mounted and no image behind, also when it is interrupted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/raid.sh [OPTION]... [-- OPTION-OF-GPU4FS-BENCH]...

  --rounds=N      how often each is measured; the median counts [3]
  --disk-mib=N    size of each of the six files [2048]
  --folder=DIR    where they lie; it needs that much space [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --levels=LIST   of one,0,1,10,5,6 [all]; 10 is Btrfs alone, whose 1 is beside ours, too
  --quick         one round of a small workload, to see that everything runs
  --help          show this

One disk, four for levels 0, 1, 10 and 5 (3 + 1), six for 6 (4 + 2).
TEXT
}

# shellcheck source=bench/mounts.sh
. bench/mounts.sh

disks_of() {
	case ${1#*-} in
	one) echo 1 ;;
	6) echo 6 ;;
	*) echo 4 ;;
	esac
}

# Of a peer's disks: the files, or the loop devices.
names() {
	local count
	count=$(disks_of "$1")
	if [[ $1 == gpu4fs-* ]]; then
		seq -f "$work/disk%g" 1 "$count"
	else
		head -n "$count" "$work/loops"
	fi
}

mount_disks() {
	[[ $1 == gpu4fs-* ]] || mount -t btrfs -o nodiscard "$(head -n 1 "$work/loops")" "$work/mnt"
}

# The sub-command finds work and build in the environment.
if [[ ${1:-} == remount ]]; then
	: "${work:?}" "${build:?}"
	exec >>"$work/log" 2>&1
	unmount_peer "$2"
	mount_disks "$2"
	exit
fi

attach() {
	local disk
	: >"$work/loops"
	for disk in $(seq 1 "$(disks_of "$1")"); do
		losetup --find --show "${loop_options[@]}" "$work/disk$disk" >>"$work/loops" || return 1
	done
}

detach() {
	local loop
	unmount_peer "$1" || return 1
	[[ -e $work/loops ]] || return 0
	while read -r loop; do
		loop_is_free "$loop" || losetup --detach "$loop" || return 1
		wait_for 30 loop_is_free "$loop" || return 1
	done <"$work/loops"
	rm "$work/loops"
}

format_disks() {
	local level=${1#*-} names
	mapfile -t names < <(names "$1")
	case $1 in
	gpu4fs-one) "$build/bin/gpu4fs" mkfs --force --quiet --checksum=none "${names[@]}" ;;
	gpu4fs-*) "$build/bin/gpu4fs" mkfs --force --quiet --checksum=none --raid="$level" "${names[@]}" ;;
	btrfs-one) mkfs.btrfs -q -f -K -d single -m single "${names[@]}" ;;
	btrfs-0) mkfs.btrfs -q -f -K -d raid0 -m raid0 "${names[@]}" ;;
	btrfs-1) mkfs.btrfs -q -f -K -d raid1 -m raid1 "${names[@]}" ;;
	btrfs-10) mkfs.btrfs -q -f -K -d raid10 -m raid10 "${names[@]}" ;;
	btrfs-5) mkfs.btrfs -q -f -K -d raid5 -m raid1 "${names[@]}" ;;
	btrfs-6) mkfs.btrfs -q -f -K -d raid6 -m raid1c3 "${names[@]}" ;;
	esac
}

# run_bench PEER FILE: the workload once
run_bench() {
	local options=(--json "${workload[@]}") target=$work/mnt status=0
	if [[ $1 == gpu4fs-* ]]; then
		target=$(names "$1" | paste -sd,)
	else
		options+=("--remount=$root/bench/raid.sh remount $1")
	fi
	set -m # a process group of its own, so that an interrupt ends all of it
	"$build/bin/gpu4fs" bench "${options[@]}" "$target" >"$2" 2>>"$work/log" </dev/null &
	job=$!
	set +m
	wait "$job" || status=1
	job=
	return "$status"
}

# measure PEER ROUND: twice, so that the host has allocated what is written, whoever has punched holes; the second one counts
measure() {
	local started=$SECONDS
	[[ $1 == gpu4fs-* ]] || attach "$1" || return 1
	if ! { format_disks "$1" && mount_disks "$1"; } >>"$work/log" 2>&1 ||
		! run_bench "$1" /dev/null || ! run_bench "$1" "$work/results/$1.$2"; then
		say "the workload failed on $1; the last lines that were written:"
		tail -n 10 "$work/log" >&2
		return 1
	fi
	detach "$1" >>"$work/log" 2>&1 || return 1
	say "round $2: $1, $((SECONDS - started)) s"
}

rounds=3 disk_mib=2048 folder=build/bench build=build/release levels=one,0,1,10,5,6
workload=(--dirs=1 --files=100 --passes=1 --size=1G --random-ops=16384 --cached-reads=1000 --fsyncs=1000)
arguments=("$@")
while [[ $# -gt 0 ]]; do
	case $1 in
	--rounds=*) rounds=${1#*=} ;;
	--disk-mib=*) disk_mib=${1#*=} ;;
	--folder=*) folder=${1#*=} ;;
	--build=*) build=${1#*=} ;;
	--levels=*) levels=${1#*=} ;;
	--quick)
		rounds=1 disk_mib=768
		workload=(--dirs=1 --files=100 --passes=1 --size=128M --random-ops=4096 --cached-reads=1000 --fsyncs=100)
		;;
	--help)
		usage
		exit
		;;
	--)
		shift
		workload+=("$@")
		break
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
	shift
done
if [[ ! $rounds =~ ^[1-9][0-9]*$ || ! $disk_mib =~ ^[1-9][0-9]*$ || ! ,$levels =~ ^(,(one|0|1|10|5|6))+$ ]]; then
	usage >&2
	exit 2
fi
if [[ $(id -u) -ne 0 ]]; then
	say "mounting other file systems and emptying caches need root"
	exit 1
fi
# Mounts of our own: a process elsewhere that copies the mounts it sees would keep ours, and their devices, in use.
if [[ -z ${G4_BENCH_PRIVATE-} ]] && unshare --mount true 2>/dev/null; then
	G4_BENCH_PRIVATE=yes exec unshare --mount --propagation private "$root/bench/raid.sh" "${arguments[@]}"
fi
mkdir -p "$folder" build/bench
build=$(realpath "$build")
if [[ ! -x $build/bin/gpu4fs ]]; then
	say "$build/bin/gpu4fs is missing; run: make"
	exit 1
fi
work=$(mktemp -d "$(realpath "$folder")/raid.XXXXXX")
export work build
mkdir "$work/mnt" "$work/results"

# shellcheck disable=SC2317 # called by trap
end() {
	local status=$?
	trap '' INT TERM
	set +e
	if [[ -n $job ]]; then
		kill -TERM -- "-$job" 2>/dev/null
		wait "$job" 2>/dev/null
		job=
	fi
	detach any >/dev/null 2>&1
	(exit "$status")
	clean_up
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ $(df --output=avail --block-size=1M "$work" | tail -n 1) -lt $((6 * disk_mib + 256)) ]]; then
	say "$folder has no room for six files of $disk_mib MiB; see --folder"
	exit 1
fi
peers=()
reason=$(missing btrfs)
[[ -z $reason ]] || say "Btrfs is left out: $reason"
IFS=, read -ra list <<<"$levels"
for level in "${list[@]}"; do
	[[ $level == 10 ]] || peers+=("gpu4fs-$level")
	[[ -n $reason ]] || peers+=("btrfs-$level")
done
say "writing six files of $disk_mib MiB of random data"
for disk in 1 2 3 4 5 6; do
	dd if=/dev/urandom of="$work/disk$disk" bs=1M count="$disk_mib" conv=fsync status=none
done
for ((round = 1; round <= rounds; round++)); do
	for ((i = 0; i < ${#peers[@]}; i++)); do
		measure "${peers[(i + round - 1) % ${#peers[@]}]}" "$round" || exit 1
	done
done
bench/raid.py collect "$work/results" "disk_mib=$disk_mib" "workload=${workload[*]}" >"$work/raid.json"
mv "$work/raid.json" build/bench/raid.json
bench/raid.py table build/bench/raid.json
