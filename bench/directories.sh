#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks of the directories document, chapter 6 (bench/directories.c says each), on gpu4fs in-process and through FUSE, ext4, XFS
# and Btrfs, in turns, on the same image file; and trees of files: find, du, export, cp -a, rm -r and import. Then a table,
# build/bench/directories.json and plots.
# Leaves nothing mounted and no image behind, also when it is interrupted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/directories.sh [OPTION]...

  --rounds=N      how often each file system is measured; the median counts [3]
  --image-mib=N   size of the image file [4096]
  --folder=DIR    where the image lies; it needs that much space [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --engine=NAME   of gpu4fs; with cuda and a folder on tmpfs its device is the mapped image (dax:) [cpu]
  --out=DIR       for directories.json and its plots [build/bench]
  --peers=LIST    of inprocess,fuse,ext4,xfs,btrfs [all]
  --parts=LIST    of figures,trees [all]
  --levels=N      levels of the deepest chain [4000]
  --names=N       names in the widest directory [8000]
  --tree=N        files of the trees, each time once; 0: none [1000000]
  --quick         one round of little work, to see that everything runs
  --help          show this
TEXT
}

# shellcheck source=bench/mounts.sh
. bench/mounts.sh

# in_a_group COMMAND...: a process group of its own, so that an interrupt ends all of it; its output to $out
in_a_group() {
	local status=0
	set -m
	"$@" >>"$out" 2>>"$work/log" </dev/null &
	job=$!
	set +m
	wait "$job" || status=1
	job=
	return "$status"
}

# ready PEER: formatted, and mounted if it is not the library's
ready() {
	format_peer "$1" >>"$work/log" 2>&1 && mount_peer "$1" >>"$work/log" 2>&1
}

microseconds() {
	echo "${EPOCHREALTIME/[.,]/}"
}

# From starting the server to the first answer, which the shell asks for all the time.
starts_of_fuse() {
	local turn before
	: >"$work/mnt/first"
	for ((turn = 1; turn <= 5; turn++)); do
		unmount_peer || return 1
		sync
		echo 3 >/proc/sys/vm/drop_caches
		before=$(microseconds)
		"$build/bin/gpu4fs" mount -f "${served_with[@]}" "${served:-$image}" "$work/mnt" >>"$work/log" 2>&1 </dev/null &
		echo $! >"$work/server"
		until [[ -e $work/mnt/first ]]; do
			[[ -e /proc/$! ]] || return 1
		done
		awk -v us=$(($(microseconds) - before)) -v turn="$turn" 'BEGIN { printf "start\t\t%d\t%.6g\n", turn, us / 1000 }' >>"$out"
	done
}

figures() {
	local options=("--levels=$levels" "--names=$names")
	ready "$1" || return 1
	case $1 in
	inprocess) in_a_group "$build/bin/directories_bench" "--engine=$engine" "${options[@]}" "${served:-$image}" ;;
	fuse) in_a_group "$build/bin/directories_bench" "${options[@]}" "$work/mnt" && starts_of_fuse ;;
	*) in_a_group "$build/bin/directories_bench" "${options[@]}" "--mount=$1,$(<"$work/loop")" "$work/mnt" ;;
	esac
}

# timed NAME COMMAND...: a line with its seconds
timed() {
	local name=$1 before
	shift
	sync
	before=$(microseconds)
	out=/dev/null in_a_group "$@" || return 1
	awk -v us=$(($(microseconds) - before)) -v name="$name" -v files="$tree" \
		'BEGIN { printf "tree\t%s\t%d\t%.6g\n", name, files, us / 1000000 }' >>"$out"
}

# synced COMMAND...: until all of it is on the device, as after the library's unmount
synced() {
	"$@" && sync --file-system "$work/mnt"
}

# cold NAME COMMAND...: the same with nothing of the file system in the kernel's caches, as the library's process has none
cold() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	timed "$@"
}

# The tree that comes in, in memory, so that the host's disk is no part of what is measured.
make_source() {
	mkdir "$work/tmpfs"
	mount -t tmpfs -o nr_inodes=0 none "$work/tmpfs"
	mkdir "$work/tmpfs/source"
	out=/dev/null in_a_group "$build/bin/directories_bench" "--tree=$tree" "$work/tmpfs/source"
}

trees() {
	local target=$work/mnt source=$work/tmpfs/source/tree exported=$work/tmpfs/exported made=$work/mnt/tree of gpu4fs=$build/bin/gpu4fs
	ready "$1" || return 1
	[[ $1 != inprocess ]] || target=$image
	out=/dev/null in_a_group "$build/bin/directories_bench" "--tree=$tree" "$target" || return 1
	if [[ $1 == inprocess ]]; then
		of=(--image "$image")
		cold find "$gpu4fs" find "${of[@]}" /tree && cold du "$gpu4fs" du "${of[@]}" /tree &&
			cold export "$gpu4fs" export "${of[@]}" /tree "$exported" && rm -rf "$exported" &&
			timed "cp -a" "$gpu4fs" cp -a "${of[@]}" /tree /copy && timed "rm -r" "$gpu4fs" rm -r "${of[@]}" /tree /copy &&
			timed import "$gpu4fs" import "${of[@]}" "$source" /import
	else
		cold find find "$made" && cold du du -s "$made" && cold export cp -a "$made" "$exported" && rm -rf "$exported" &&
			timed "cp -a" synced cp -a "$made" "$target/copy" && timed "rm -r" synced rm -rf "$made" "$target/copy" &&
			timed import synced cp -a "$source" "$target/import"
	fi
}

# run_peer PART PEER ROUND: a peer that fails is left out, gpu4fs must not fail
run_peer() {
	local started=$SECONDS out=$work/results/$2.$3
	[[ -z ${failed[$2]-} ]] || return 0
	if "$1" "$2"; then
		release_peer >>"$work/log" 2>&1 || exit 1
		say "round $3: $1 of $2, $((SECONDS - started)) s"
		return
	fi
	say "$1 failed on $2; the last lines that were written:"
	tail -n 10 "$work/log" >&2
	[[ $2 != inprocess && $2 != fuse ]] || exit 1
	failed[$2]=yes
	release_peer >>"$work/log" 2>&1 || exit 1
	rm -f "$work/results/$2".*
}

rounds=3 image_mib=4096 folder=build/bench build=build/release engine=cpu results=build/bench wanted=inprocess,fuse,ext4,xfs,btrfs parts=figures,trees
levels=4000 names=8000 tree=1000000
arguments=("$@")
while [[ $# -gt 0 ]]; do
	case $1 in
	--rounds=*) rounds=${1#*=} ;;
	--image-mib=*) image_mib=${1#*=} ;;
	--folder=*) folder=${1#*=} ;;
	--build=*) build=${1#*=} ;;
	--engine=*) engine=${1#*=} ;;
	--out=*) results=${1#*=} ;;
	--peers=*) wanted=${1#*=} ;;
	--parts=*) parts=${1#*=} ;;
	--levels=*) levels=${1#*=} ;;
	--names=*) names=${1#*=} ;;
	--tree=*) tree=${1#*=} ;;
	--quick) rounds=1 image_mib=512 levels=400 names=800 tree=3000 ;;
	--help)
		usage
		exit
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
	shift
done
for value in "$rounds" "$image_mib" "$levels" "$names"; do
	if [[ ! $value =~ ^[1-9][0-9]*$ ]] || [[ ! $tree =~ ^[0-9]+$ ]]; then
		say "--rounds, --image-mib, --levels, --names and --tree take a number"
		exit 2
	fi
done
if [[ $(id -u) -ne 0 ]]; then
	say "mounting other file systems and emptying caches need root"
	exit 1
fi
# Mounts of our own: a process elsewhere that copies the mounts it sees would keep ours, and their devices, in use.
if [[ -z ${G4_BENCH_PRIVATE-} ]] && unshare --mount true 2>/dev/null; then
	G4_BENCH_PRIVATE=yes exec unshare --mount --propagation private "$root/bench/directories.sh" "${arguments[@]}"
fi

mkdir -p "$folder" "$results"
build=$(realpath "$build")
for program in gpu4fs directories_bench; do
	if [[ ! -x $build/bin/$program ]]; then
		say "$build/bin/$program is missing; run: make bench"
		exit 1
	fi
done
work=$(mktemp -d "$(realpath "$folder")/directories.XXXXXX")
image=$work/image
mkdir "$work/mnt" "$work/lower" "$work/results"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ $(df --output=avail --block-size=1M "$work" | tail -n 1) -lt $((image_mib + 256)) ]]; then
	say "$folder has no room for an image of $image_mib MiB; see --folder"
	exit 1
fi
declare -A failed=()
choose_peers "$wanted"

fill_image "$image_mib"
[[ $engine == cpu ]] || served_with=(-o "engine=$engine")
if [[ $(stat --file-system --format=%T "$image") == tmpfs ]]; then
	loop_options=() # its pages are the device
	[[ $engine == cpu ]] || served=dax:$image
fi
# as many inodes as the tests make, of which the defaults of an image so small have fewer
inodes=$((2 * tree + 40 * names + 20 * levels + 20000))
ext4_options=(-N "$inodes")
xfs_options=(-i maxpct=50)
if [[ ,$parts, == *,figures,* ]]; then
	for ((round = 1; round <= rounds; round++)); do
		for ((i = 0; i < ${#peers[@]}; i++)); do
			run_peer figures "${peers[(i + round - 1) % ${#peers[@]}]}" "$round"
		done
	done
fi
if [[ ,$parts, == *,trees,* && $tree -gt 0 ]]; then
	make_source
	for peer in "${peers[@]}"; do
		run_peer trees "$peer" 1
	done
fi

bench/directories.py collect "$work/results" "image_mib=$image_mib" "engine=$engine" "levels=$levels" "names=$names" "tree=$tree" >"$work/directories.json"
mv "$work/directories.json" "$results/directories.json"
bench/directories.py plot "$results/directories.json" "$results"
bench/directories.py table "$results/directories.json"
