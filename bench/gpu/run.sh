#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make bench-gpu` runs on a machine with an NVIDIA GPU: the CUDA engine by itself and as programs see it, and in the
# same run ext4, XFS and Btrfs on loop devices over tmpfs; then a table, gpu.json and plots. bench/README.md says what the
# numbers mean. A part that fails does not keep the others from running; it is named at the end, and the exit status is 1.
# Leaves nothing mounted, also when it is interrupted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/gpu/run.sh [OPTION]... [-- BENCHMARK-OF-GPU_BENCH...]

  --only=LIST      parts, of mem,sums,dedup,dax,sets,directories,embedded,connected,ext4,xfs,btrfs,fuse,shredder,nvme [all]
  --build=DIR      where gpu4fs is built with the preset cuda, perhaps by another machine; without it,
                   build/cuda is brought up to date
  --out=DIR        for gpu.json, gpu-*.png and gpu.log [build/bench]
  --file-mib=N     size of each of 64 files, but for the part mem [256]; less where memory is short
  --limit=SECONDS  for everything [540]; a program that then runs is ended, as is one after 90 seconds (directories: 180), and
                   its part has failed
  --engine=NAME    of the parts directories, embedded, connected and fuse: with cpu they run without a GPU [cuda]
  --commit=HASH    what was built, where there is no git
  --quick          little work, to see that everything runs
  --help           show this
TEXT
}

# shellcheck source=bench/mounts.sh
. bench/mounts.sh
loop_options=() # over tmpfs, whose pages are the device

# ---- running

# limited FILE COMMAND...: appends its output to the file; false when it fails, or takes too much of the time
limited() {
	local left=$((limit - SECONDS)) status=0
	if ((left < 1)); then
		echo "no time is left" >>"$work/log"
		return 1
	fi
	((left <= part_limit)) || left=$part_limit
	set -m # a process group of its own, so that an interrupt ends all of it
	timeout -k 5 "$left" "${@:2}" >>"$1" 2>>"$work/log" </dev/null &
	job=$!
	set +m
	wait "$job" || status=$?
	job=
	[[ $status -ne 124 ]] || echo "stopped after $left s" >>"$work/log"
	return "$status"
}

# On tmpfs of its own: /dev/shm may be small. All of it is there before anything is measured, as page-locked memory is.
need_image() {
	if ! mounted "$work/tmpfs"; then
		mount -t tmpfs -o "size=$((image_mib + 64))m,mode=700" gpu4fs-bench "$work/tmpfs" || return 1
	fi
	fallocate --length "$((image_mib << 20))" "$image" &&
		dd if=/dev/zero of="$image" bs=1M count=8 conv=notrunc status=none # no file system is in it any more
}

# ---- the parts: each leaves rows in $work/results

part_mem() {
	local device_mib file=$mem_file_mib
	device_mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1) || return 1
	while ((file > 16 && 64 * file + 2 * 8192 > device_mib * 9 / 10)); do file=$((file / 2)); done
	limited "$work/log" "$build/tests/gpu/gpu_bench" -d "mem:$((64 * file + 8192))M" -c 8192 -f "$file" -o "$work/results/mem.json" \
		"${benchmarks[@]}"
}

# Host memory to and from files, single writes and cached reads without and with sums; a scrub of 32 GiB.
part_sums() {
	local checksum status=0
	for checksum in none xxh3 blake3; do
		limited "$work/log" "$build/tests/gpu/gpu_bench" -d "mem:$((64 * file_mib + 8192))M" -c 4096 -f "$file_mib" -k "$checksum" \
			-o "$work/results/sums-$checksum.json" random single stream || status=1
	done
	for checksum in xxh3 blake3; do
		limited "$work/log" "$build/tests/gpu/gpu_bench" -d mem:44G -k "$checksum" -o "$work/results/scrub-$checksum.json" scrub || status=1
	done
	return "$status"
}

# The table of contents by itself; new and known pages from host memory; the document's figures.
part_dedup() {
	limited "$work/log" "$build/tests/gpu/gpu_bench" -d "mem:$((80 * file_mib + 8192))M" -c 4096 -f "$file_mib" -k blake3 -u \
		-o "$work/results/dedup.json" table insert dedup pipeline
}

part_dax() {
	need_image && limited "$work/log" "$build/tests/gpu/gpu_bench" -d "dax:$image" -c 2048 -f "$file_mib" -o "$work/results/dax.json" stream
}

# Sets of disks on a tmpfs at each level: streams, a disk that is lost, and made again.
part_sets() {
	local status=0 plan level count gib file=$((file_mib < 48 ? file_mib : 48)) disks
	need_image && rm "$image" && mount -o remount,size=22g "$work/tmpfs" || return 1
	for plan in "0 4 2" "1 2 5" "5 4 3" "6 6 3"; do
		read -r level count gib <<<"$plan"
		disks=$(seq -s, -f "dax:$work/tmpfs/disk%g" 1 "$count")
		limited "$work/log" "$build/tests/gpu/gpu_bench" -d "$disks" -c 4096 -f "$file" -r "$level" -g "$gib" -k none \
			-o "$work/results/sets-$level.json" stream || status=1
		rm -f "$work"/tmpfs/disk*
		[[ $level != 0 ]] || continue
		limited "$work/log" "$build/tests/gpu/gpu_bench" -d "$disks" -x "dax:$work/tmpfs/disk$((count + 1))" -c 1024 -f "$file" -r "$level" -g "$gib" -k none \
			-o "$work/results/sets-$level-rebuilt.json" rebuild || status=1
		rm -f "$work"/tmpfs/disk*
	done
	return "$status"
}

# The figures of the directories document, one command at a time, beside other file systems: a table and plots of its own.
part_directories() {
	local part_limit=180
	need_image && rm "$image" && : >"$out/gpu-directories.txt" && limited "$out/gpu-directories.txt" bench/directories.sh "--engine=$engine" --rounds=1 --parts=figures --tree=0 \
		--peers=inprocess,ext4,xfs,btrfs "--image-mib=$directories_mib" "--levels=$levels" "--names=$names" "--folder=$work/tmpfs" "--build=$build" \
		"--out=$out/directories"
}

clients() {
	local names=$((image_mib * 5)) # so that ext4, which has an inode for 16 KiB, has enough of them
	((names <= 60000)) || names=60000
	limited "$work/log" "$build/bin/bench_clients" "--file-mib=$file_mib" "--names=$names" "--seconds=$seconds" \
		"--output=$work/results/$1.json" "${@:2}"
}

part_embedded() {
	clients embedded "--engine=$engine" "mem:${image_mib}M"
}

socket_or_ended() {
	[[ -S $work/socket ]] || server_ended
}

part_connected() {
	local status=0
	"$build/bin/gpu4fs" serve --socket "$work/socket" -o "engine=$engine,cache=$((8 * file_mib))M" "mem:${image_mib}M" \
		>>"$work/log" 2>&1 </dev/null &
	echo $! >"$work/server"
	wait_for 60 socket_or_ended && clients connected --connect "--server=$(<"$work/server")" "$work/socket" || status=1
	server_ended || kill "$(<"$work/server")" || status=1
	unmount_peer && return "$status" # waits for the server
}

# workload NAME OPTION...: `gpu4fs bench` on what is mounted
workload() {
	limited "$work/results/$1.workload.json" "$build/bin/gpu4fs" bench --json "${tool_workload[@]}" "${@:2}" "$work/mnt"
}

part_peer() {
	local status=0
	need_image && format_peer "$1" >>"$work/log" 2>&1 && mount_peer "$1" >>"$work/log" 2>&1 || return 1
	clients "$1" "$work/mnt" || status=1
	workload "$1" || status=1
	release_peer >>"$work/log" 2>&1 && return "$status"
}

part_fuse() {
	local status=0
	need_image && "$build/bin/gpu4fs" mkfs --force --quiet "dax:$image" >>"$work/log" 2>&1 &&
		serve "$build/bin/gpu4fs" mount -f -o "engine=$engine" "dax:$image" "$work/mnt" || return 1
	workload fuse "--server=$work/server" || status=1
	release_peer >>"$work/log" 2>&1 && return "$status"
}

part_shredder() {
	limited "$work/results/shredder.json" "$build/tests/gpu/shredder_speed" "${shredder_gib[@]}"
}

# The figures of the NVMe document, on emulated controllers: a table and plots of its own.
part_nvme() {
	limited "$work/log" "$build/tests/gpu/nvme" -f -s "$nvme_seconds" -o "$work/nvme.json" &&
		limited "$work/log" "$build/tests/gpu/gpu_bench" -d mem:2G -c 1024 -o "$work/acquire.json" acquire &&
		: >"$out/gpu-nvme.txt" && limited "$out/gpu-nvme.txt" bench/nvme.py "--gpu=$work/nvme.json,$work/acquire.json" "--out=$out"
}

# why_not PART: in words; nothing when it can run.
why_not() {
	case $1 in
	mem | sums | dedup | dax | sets | shredder | nvme) [[ -e /dev/nvidiactl ]] || { echo "there is no NVIDIA GPU here" && return; } ;;&
	directories | embedded | connected | fuse)
		[[ $engine != cuda || -e /dev/nvidiactl ]] || { echo "there is no NVIDIA GPU here" && return; }
		;;&
	fuse | ext4 | xfs | btrfs) missing "$1" ;;
	sets) ((memory_mib >= 32768)) || echo "its disks take 22 GiB of memory, and $memory_mib MiB are free" ;;
	esac
}

# run_part PART
run_part() {
	local part=$1 started=$SECONDS reason
	reason=$(why_not "$part")
	if [[ -n $reason ]]; then
		say "$part is left out: $reason"
		left_out+=("$part")
		return
	fi
	echo "---- $part" >>"$work/log"
	case $part in
	ext4 | xfs | btrfs) part_peer "$part" ;;
	*) "part_$part" ;;
	esac && say "$part, $((SECONDS - started)) s" && return
	say "$part FAILED; the last lines that were written:"
	tail -n 10 "$work/log" >&2
	failed+=("$part")
	release_peer >>"$work/log" 2>&1 || exit 1
}

# ---- the run
parts=mem,sums,dedup,dax,sets,directories,embedded,connected,ext4,xfs,btrfs,fuse,shredder,nvme
only=$parts build='' out=build/bench file_mib=256 mem_file_mib=1024 limit=540 engine=cuda commit='' seconds=2
part_limit=90
directories_mib=1536 levels=4000 names=8000
tool_workload=(--dirs=8 --files=500 --size=256M --fsyncs=300)
shredder_gib=(4 4)
nvme_seconds=0.1
benchmarks=()
arguments=("$@")
while [[ $# -gt 0 ]]; do
	case $1 in
	--only=*) only=${1#*=} ;;
	--build=*) build=${1#*=} ;;
	--out=*) out=${1#*=} ;;
	--file-mib=*) file_mib=${1#*=} ;;
	--limit=*) limit=${1#*=} ;;
	--engine=*) engine=${1#*=} ;;
	--commit=*) commit=${1#*=} ;;
	--quick)
		file_mib=4 mem_file_mib=64 directories_mib=512 levels=400 names=800 seconds=1 nvme_seconds=0.02 shredder_gib=(1 1)
		tool_workload=(--dirs=4 --files=100 --size=16M --random-ops=256 --cached-reads=10000 --fsyncs=20)
		;;
	--help)
		usage
		exit
		;;
	--)
		shift
		benchmarks=("$@")
		break
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
	shift
done
if [[ ! $file_mib =~ ^[1-9][0-9]*$ || ! $limit =~ ^[1-9][0-9]*$ ]]; then
	say "--file-mib and --limit take a number"
	exit 2
fi
IFS=, read -ra list <<<"$only"
for part in "${list[@]}"; do
	if [[ ,$parts, != *,$part,* ]]; then
		say "there is no part '$part'; the parts are $parts"
		exit 2
	fi
done
if [[ $(id -u) -ne 0 ]]; then
	say "mounting other file systems and emptying caches need root"
	exit 1
fi
# Mounts of our own: a process elsewhere that copies the mounts it sees would keep ours, and their devices, in use.
if [[ -z ${G4_BENCH_PRIVATE-} ]] && unshare --mount true 2>/dev/null; then
	G4_BENCH_PRIVATE=yes exec unshare --mount --propagation private "$root/bench/gpu/run.sh" "${arguments[@]}"
fi
PATH=$PATH:/usr/sbin:/sbin

if [[ -z $build ]]; then
	build=build/cuda
	cmake --preset cuda
	cmake --build build/cuda --target product bench_clients directories_bench gpu-bench gpu-nvme gpu-shredder
	SECONDS=0
fi
mkdir -p "$out"
build=$(realpath "$build")
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# The image and as much in the page cache at the same time, and half of the memory for everything else.
memory_mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
file_mib_wanted=$file_mib
while image_mib=$((64 * file_mib * 5 / 4 + 2 * file_mib + 2048)) && ((file_mib > 2 && 2 * image_mib > memory_mib / 2)); do
	file_mib=$((file_mib / 2))
done
[[ $file_mib -eq $file_mib_wanted ]] || say "$memory_mib MiB of memory are free: files of $file_mib MiB instead of $file_mib_wanted"

work=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-bench.XXXXXX")
image=$work/tmpfs/image
mkdir "$work/mnt" "$work/lower" "$work/tmpfs" "$work/results"
: >"$work/log"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=()
left_out=()
for part in "${list[@]}"; do
	run_part "$part"
done
cp "$work/log" "$out/gpu.log"

report=(python3 bench/gpu/report.py)
if [[ -z $(ls "$work/results") && ${#failed[@]} -eq 0 ]]; then
	: # of the directories and of nvme alone, which have reports of their own
elif "${report[@]}" collect "$work/results" "commit=$commit" "file_mib=$file_mib" "image_mib=$image_mib" "engine=$engine" \
	"left_out=${left_out[*]-}" "failed=${failed[*]-}" >"$work/gpu.json"; then
	cp "$work/gpu.json" "$out/gpu.json"
	"${report[@]}" table "$out/gpu.json"
	"${report[@]}" plot "$out/gpu.json" "$out" || failed+=(plots)
else
	failed+=(report)
fi
say "$SECONDS s${left_out[*]:+; left out: ${left_out[*]}}"
if [[ ${#failed[@]} -gt 0 ]]; then
	say "FAILED: ${failed[*]}; see $out/gpu.log"
	exit 1
fi
