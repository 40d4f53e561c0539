#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make bench` runs: the workload of `gpu4fs bench` on gpu4fs and on other file systems, in turns, on the same image
# file; then a table, build/bench/filesystem.json and plots. bench/README.md says what the numbers mean.
# Leaves nothing mounted and no image behind, also when it is interrupted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/run.sh [OPTION]... [-- OPTION-OF-GPU4FS-BENCH]...

  --rounds=N      how often each file system is measured; the median counts [3]
  --image-mib=N   size of the image file [4096]
  --folder=DIR    where the image lies; it needs that much space [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --peers=LIST    of inprocess,fuse,preload,ext4,xfs,btrfs,passthrough_hp [all]
  --sums=LIST     gpu4fs in-process with sums, too, of blake3,xxh3,crc32c, beside Btrfs with
                  xxhash and blake2 [none]
  --quick         one round of a small workload, to see that everything runs
  --help          show this

PASSTHROUGH_HP  the program passthrough_hp of libfuse's examples, where it is not in PATH

`gpu4fs bench --help` lists the options of the workload.
TEXT
}

# shellcheck source=bench/mounts.sh
. bench/mounts.sh

# The sub-command finds work, image and build in the environment.
if [[ ${1:-} == remount ]]; then
	: "${work:?}" "${image:?}" "${build:?}"
	exec >>"$work/log" 2>&1
	unmount_peer "$2"
	mount_peer "$2"
	exit
fi

# measure PEER ROUND: one run into $work/results/PEER.ROUND; false when it fails
measure() {
	local peer=$1 round=$2 started=$SECONDS target=$work/mnt
	local options=(--json "${workload[@]}") through=() status=0
	sync --file-system "$image"
	format_peer "$peer" >>"$work/log" 2>&1 && mount_peer "$peer" >>"$work/log" 2>&1 || return 1
	case $peer in
	inprocess | inprocess-*) target=$image ;;
	*) options+=("--remount=$root/bench/run.sh remount $peer") ;;
	esac
	if [[ $peer == fuse || $peer == preload || $peer == passthrough_hp ]]; then
		options+=("--server=$work/server")
	fi
	[[ $peer != preload ]] || through=(run -m "$work/socket=$work/mnt" "$build/bin/gpu4fs")
	set -m # a process group of its own, so that an interrupt ends all of it
	"$build/bin/gpu4fs" "${through[@]}" bench "${options[@]}" "$target" >"$work/results/$peer.$round" 2>>"$work/log" </dev/null &
	job=$!
	set +m
	wait "$job" || status=1
	job=
	release_peer >>"$work/log" 2>&1 || exit 1
	[[ $status -eq 0 ]] && say "round $round: $peer, $((SECONDS - started)) s"
}

# run_peer PEER ROUND: a peer that fails is left out, gpu4fs must not fail
run_peer() {
	[[ -z ${failed[$1]-} ]] || return 0
	measure "$1" "$2" && return
	say "the workload failed on $1; the last lines that were written:"
	tail -n 10 "$work/log" >&2
	[[ $1 != inprocess* && $1 != fuse && $1 != preload ]] || exit 1
	failed[$1]=yes
	release_peer >>"$work/log" 2>&1 || exit 1
	rm -f "$work/results/$1".*
}

# ---- the run
rounds=3 image_mib=4096 folder=build/bench build=build/release sums=
wanted=inprocess,fuse,preload,ext4,xfs,btrfs,passthrough_hp
workload=(--dirs=8 --files=2000 --passes=4 --size=1G --random-ops=16384 --cached-reads=500000 --fsyncs=1000)
arguments=("$@")
while [[ $# -gt 0 ]]; do
	case $1 in
	--rounds=*) rounds=${1#*=} ;;
	--image-mib=*) image_mib=${1#*=} ;;
	--folder=*) folder=${1#*=} ;;
	--build=*) build=${1#*=} ;;
	--peers=*) wanted=${1#*=} ;;
	--sums=*) sums=${1#*=} ;;
	--quick)
		rounds=1 image_mib=1024
		workload=(--dirs=8 --files=500 --passes=1 --size=128M --random-ops=4096 --cached-reads=50000 --fsyncs=100)
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
if [[ ! $rounds =~ ^[1-9][0-9]*$ || ! $image_mib =~ ^[1-9][0-9]*$ ]]; then
	say "--rounds and --image-mib take a number"
	exit 2
fi
if [[ -n $sums && ! ,$sums =~ ^(,(blake3|xxh3|crc32c))+$ ]]; then
	say "--sums takes blake3, xxh3 and crc32c, with commas between them"
	exit 2
fi
if [[ $(id -u) -ne 0 ]]; then
	say "mounting other file systems and emptying caches need root"
	exit 1
fi
# Mounts of our own: a process elsewhere that copies the mounts it sees would keep ours, and their devices, in use.
if [[ -z ${G4_BENCH_PRIVATE-} ]] && unshare --mount true 2>/dev/null; then
	G4_BENCH_PRIVATE=yes exec unshare --mount --propagation private "$root/bench/run.sh" "${arguments[@]}"
fi

mkdir -p "$folder" build/bench
build=$(realpath "$build")
if [[ ! -x $build/bin/gpu4fs ]]; then
	say "$build/bin/gpu4fs is missing; run: make bench"
	exit 1
fi
work=$(mktemp -d "$(realpath "$folder")/run.XXXXXX")
image=$work/image
export work image build
mkdir "$work/mnt" "$work/lower" "$work/results"

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ $(df --output=avail --block-size=1M "$work" | tail -n 1) -lt $((image_mib + 256)) ]]; then
	say "$folder has no room for an image of $image_mib MiB; see --folder"
	exit 1
fi
declare -A failed=()
rates=() # of hashing, one core
if [[ -n $sums ]]; then
	wanted+=,inprocess-${sums//,/,inprocess-}
	[[ ,$wanted, != *,btrfs,* ]] || wanted+=,btrfs-xxhash,btrfs-blake2
	if [[ -x $build/bin/sums_bench ]]; then
		while IFS=$'\t' read -r row rate; do
			case $row in
			"BLAKE3, memory") rates+=("hash_gb_s_blake3=$rate") ;;
			"XXH3-128, memory") rates+=("hash_gb_s_xxh3=$rate") ;;
			"CRC-32C, memory") rates+=("hash_gb_s_crc32c=$rate") ;;
			esac
		done < <("$build/bin/sums_bench")
	fi
fi
choose_peers "$wanted"

fill_image "$image_mib"
allocated=$(stat --format=%b "$image")
for ((round = 1; round <= rounds; round++)); do
	for ((i = 0; i < ${#peers[@]}; i++)); do
		run_peer "${peers[(i + round - 1) % ${#peers[@]}]}" "$round"
	done
done
[[ $(stat --format=%b "$image") -ge $allocated ]] || say "warning: somebody punched holes into the image"

bench/report.py collect "$work/results" "image_mib=$image_mib" "workload=${workload[*]-}" "${rates[@]}" >"$work/filesystem.json"
mv "$work/filesystem.json" build/bench/filesystem.json
bench/report.py plot build/bench/filesystem.json build/bench
bench/report.py table build/bench/filesystem.json
