#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several disks: gpu4fs in-process beside Btrfs on loop devices, level by level, in turns, on the same files; by stripe length, by the size
# of a call and by files written at once, as the RAID document has it; and both beside ext4 on MD in a virtual machine. Prints tables,
# draws, and leaves build/bench/raid.json. bench/README.md says what the numbers mean. Leaves nothing mounted and no image behind, also
# when it is interrupted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/raid.sh [OPTION]... [-- OPTION-OF-GPU4FS-BENCH]...

  --parts=LIST    of levels,stripes,sizes,guest [all]: all rows of gpu4fs bench; stripe lengths;
                  sizes of a call, files at once, and memory copy; a virtual machine with MD
  --rounds=N      how often each is measured; the median counts [3; guest: 1]
  --disk-mib=N    size of each of the six files [2048]
  --folder=DIR    where they lie; it needs that much space [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --levels=LIST   of one,0,1,10,5,6 [all]; 10 is Btrfs alone, whose 1 is beside ours, too
  --quick         one round of a small workload, to see that everything runs
  --help          show this

One disk, four for levels 0, 1, 10 and 5 (3 + 1), six for 6 (4 + 2). Options behind -- are of the part levels.
TEXT
}

# shellcheck source=bench/mounts.sh
. bench/mounts.sh

# shellcheck source=bench/raid_peers.sh
. bench/raid_peers.sh

# The sub-command finds work and build in the environment.
if [[ ${1:-} == remount ]]; then
	: "${work:?}" "${build:?}"
	exec >>"$work/log" 2>&1
	remount_disks "$2"
	exit
fi

# turn PART ROUND PEER TIMES PROGRAM...: measures PEER, the last of so many times counts
turn() {
	local started=$SECONDS
	measure "$3" "$work/results/$1/$3.$2" "$4" "$root/bench/raid.sh" "${@:5}" || exit 1
	say "round $2, $1: $3, $((SECONDS - started)) s"
}

# in_turns PART TIMES PROGRAM...: all of peers, beginning with another one in each round
in_turns() {
	local round i
	mkdir "$work/results/$1"
	for ((round = 1; round <= rounds; round++)); do
		for ((i = 0; i < ${#peers[@]}; i++)); do
			turn "$1" "$round" "${peers[(i + round - 1) % ${#peers[@]}]}" "${@:2}"
		done
	done
}

# add_peers LEVEL [STRIPE...]: gpu4fs, with each stripe length, and Btrfs
add_peers() {
	local stripe
	if [[ $# -gt 1 ]]; then
		for stripe in "${@:2}"; do
			peers+=("gpu4fs-$1-$stripe")
		done
	elif [[ $1 != 10 ]]; then
		peers+=("gpu4fs-$1")
	fi
	[[ -n $no_btrfs ]] || peers+=("btrfs-$1")
}

# Twice, so that the host has allocated what is written, whoever has punched holes; the second one counts.
measure_levels() {
	local level
	peers=()
	for level in "${list[@]}"; do
		add_peers "$level"
	done
	in_turns levels 2 "$build/bin/gpu4fs" bench --json "${workload[@]}"
}

measure_stripes() {
	local level
	peers=()
	for level in "${list[@]}"; do
		[[ $level != [056] ]] || add_peers "$level" 16K 64K 256K 1M
	done
	[[ ${#peers[@]} -eq 0 ]] || in_turns stripes 1 "$build/bin/raid_bench" --parts=calls --calls=1024 --size="$stripes_mib"
}

measure_sizes() {
	local level
	peers=()
	for level in "${list[@]}"; do
		[[ $level == 10 ]] || add_peers "$level"
	done
	[[ ${#peers[@]} -eq 0 ]] || in_turns sizes 1 "$build/bin/raid_bench" --parts=memory,calls,files --calls=4,16,64,256,1024,4096 --size="$sizes_mib"
}

guest_levels() {
	local level text=
	for level in "${list[@]}"; do
		[[ $level == 10 ]] || text+=,$level
	done
	echo "${text#,}"
}

# In memory where there is room: what the emulated disks cost is the same for everyone then.
measure_guest() {
	local status=0 where=$work
	mkdir "$work/results/guest"
	[[ $(df --output=avail --block-size=1M /dev/shm 2>/dev/null | tail -n 1) -lt 4096 ]] || where=/dev/shm
	guest=$(mktemp -d "$where/raid.XXXXXX")
	set -m
	env work="$guest" rounds=1 levels="$(guest_levels)" \
		options="$guest_options" disk_mib=384 bench/raid_guest.sh "$work/results/guest" >"$work/guest" </dev/null &
	job=$!
	set +m
	wait "$job" || status=$?
	job=
	rm -rf "$guest"
	if [[ $status -eq 77 ]]; then
		say "MD in a virtual machine is left out: $(<"$work/guest")"
	elif [[ $status -ne 0 ]]; then
		say "the virtual machine failed; what it had measured before counts"
		failed=1
	fi
}

rounds=3 disk_mib=2048 folder=build/bench build=build/release levels=one,0,1,10,5,6 parts=levels,stripes,sizes,guest guest='' failed=0
workload=(--dirs=1 --files=100 --passes=1 --size=512M --random-ops=8192 --cached-reads=1000 --fsyncs=1000)
stripes_mib=256 sizes_mib=128
guest_options="--parts=memory,calls,small --calls=1024 --size=64 --ops=1024 --fsyncs=100"
arguments=("$@")
while [[ $# -gt 0 ]]; do
	case $1 in
	--parts=*) parts=${1#*=} ;;
	--rounds=*) rounds=${1#*=} ;;
	--disk-mib=*) disk_mib=${1#*=} ;;
	--folder=*) folder=${1#*=} ;;
	--build=*) build=${1#*=} ;;
	--levels=*) levels=${1#*=} ;;
	--quick)
		rounds=1 disk_mib=512 stripes_mib=32 sizes_mib=16
		workload=(--dirs=1 --files=100 --passes=1 --size=64M --random-ops=1024 --cached-reads=1000 --fsyncs=100)
		guest_options="--parts=memory,calls,small --calls=1024 --size=8 --ops=256 --fsyncs=20"
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
if [[ ! $rounds =~ ^[1-9][0-9]*$ || ! $disk_mib =~ ^[1-9][0-9]*$ || ! ,$levels =~ ^(,(one|0|1|10|5|6))+$ ||
	! ,$parts =~ ^(,(levels|stripes|sizes|guest))+$ ]]; then
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
if [[ ! -x $build/bin/gpu4fs || ! -x $build/bin/raid_bench ]]; then
	say "$build/bin/gpu4fs or raid_bench is missing; run: cmake --build $build --target product raid_bench"
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
	[[ -z $guest ]] || rm -rf "$guest"
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
no_btrfs=$(missing btrfs)
[[ -z $no_btrfs ]] || say "Btrfs is left out: $no_btrfs"
IFS=, read -ra list <<<"$levels"
if [[ $parts != guest ]]; then
	say "writing six files of $disk_mib MiB of random data"
	for disk in 1 2 3 4 5 6; do
		dd if=/dev/urandom of="$work/disk$disk" bs=1M count="$disk_mib" conv=fsync status=none
	done
fi
for part in ${parts//,/ }; do
	case $part in
	levels) measure_levels ;;
	stripes) measure_stripes ;;
	sizes) measure_sizes ;;
	guest) [[ -z $(guest_levels) ]] || measure_guest ;;
	esac
done
bench/raid.py collect "$work/results" "disk_mib=$disk_mib" "workload=${workload[*]}" "stripes_mib=$stripes_mib" "sizes_mib=$sizes_mib" \
	"guest=$guest_options" >"$work/raid.json"
mv "$work/raid.json" build/bench/raid.json
bench/raid.py plot build/bench/raid.json build/bench
bench/raid.py table build/bench/raid.json
exit "$failed"
