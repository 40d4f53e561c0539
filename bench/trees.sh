#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs feel: cp -a, ls -l and rm -rf of a tree, and untar and git status of this project's sources, on ext4, on gpu4fs and on that through
# the interception library (gpu4fs run, whose start is in the times), in turns, on the same image; wall time, processor time of the program
# and of the server, ratios; and how many FUSE requests of each kind a file costs, which no other
# load of the machine can change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
	cat <<'TEXT'
usage: bench/trees.sh [OPTION]...

  --rounds=N    how often each is measured; the median counts [5]
  --tree=DIR    the tree [/usr/include]
  --folder=DIR  where the image of 2 GiB lies [build/bench]
  --build=DIR   where gpu4fs is built [build/release]
  --options=O   mount options of gpu4fs
  --help        show this
TEXT
}

rounds=5 tree=/usr/include folder=build/bench build=build/release mount_options=
for argument in "$@"; do
	case $argument in
	--rounds=*) rounds=${argument#*=} ;;
	--tree=*) tree=${argument#*=} ;;
	--folder=*) folder=${argument#*=} ;;
	--build=*) build=${argument#*=} ;;
	--options=*) mount_options=${argument#*=} ;;
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
work=$(mktemp -d "$(realpath "$folder")/trees.XXXXXX")
image=$work/image
mkdir "$work/mnt"
# shellcheck source=bench/mounts.sh
. bench/mounts.sh
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [[ $(id -u) -ne 0 ]]; then
	say "mounting ext4 needs root"
	exit 1
fi

# Seconds that the server has used so far; 0 when there is none.
server_seconds() {
	if [[ -e $work/server ]]; then
		# of all threads, those that have ended included
		sed 's/.*) //' "/proc/$(<"$work/server")/stat" | awk -v tick="$(getconf CLK_TCK)" '{ print ($12 + $13) / tick }'
	else
		echo 0
	fi
}

# step PEER NAME COMMAND...: appends a line to the results: step, peer, wall seconds, processor seconds
step() {
	local peer=$1 name=$2 before after wall user system
	shift 2
	before=$(server_seconds)
	TIMEFORMAT='%R %U %S'
	read -r wall user system < <({ time "$@" >/dev/null; } 2>&1)
	after=$(server_seconds)
	awk -v step="$name" -v peer="$peer" -v wall="$wall" -v used="$user $system $before $after" 'BEGIN {
		split(used, s, " "); print step, peer, wall, s[1] + s[2] + s[4] - s[3] }' >>"$work/results"
}

steps() {
	local through=()
	[[ $1 != preload ]] || through=("$build/bin/gpu4fs" run -m "$work/socket=$work/mnt")
	step "$1" "cp -a" "${through[@]}" cp -a "$tree" "$work/mnt/tree"
	step "$1" "ls -lR" "${through[@]}" ls -lR "$work/mnt/tree"
	step "$1" "ls -lR again" "${through[@]}" ls -lR "$work/mnt/tree"
	step "$1" "rm -rf" "${through[@]}" rm -rf "$work/mnt/tree"
	mkdir "$work/mnt/sources"
	step "$1" "untar" "${through[@]}" tar -xf "$work/sources.tar" -C "$work/mnt/sources"
	git clone -q --no-hardlinks . "$work/mnt/clone" 2>>"$work/log"
	step "$1" "git status" "${through[@]}" git -C "$work/mnt/clone" status --short
	step "$1" "git status again" "${through[@]}" git -C "$work/mnt/clone" status --short
}

mount_fuse() { # mount_fuse [OPTION]...: as mount_peer() does, with the caller's options
	serve "$build/bin/gpu4fs" mount -f "$@" ${mount_options:+-o "$mount_options"} "$image" "$work/mnt"
}

git archive -o "$work/sources.tar" HEAD
dd if=/dev/urandom of="$image" bs=1M count=2048 conv=fsync status=none
find "$tree" -type f -exec cat {} + >/dev/null # from the disk once, for nobody's account
files=$(find "$tree" | wc -l)
peers=(ext4 fuse preload)
for ((round = 0; round < rounds; round++)); do
	for ((turn = 0; turn < 3; turn++)); do
		peer=${peers[(round + turn) % 3]}
		format_peer "$peer" >>"$work/log" 2>&1
		if [[ $peer == fuse ]]; then mount_fuse; else mount_peer "$peer"; fi
		steps "$peer"
		release_peer
	done
done

# Each kind of request, counted in what the server prints; the time of this run does not count.
format_peer fuse
mount_fuse -d
asked() { # asked NAME COMMAND...
	local name=$1 from
	shift
	from=$(wc -l <"$work/log")
	"$@" >/dev/null
	tail -n "+$((from + 1))" "$work/log" | sed -n 's/opcode: 21 /opcode: SETXATTR /; s/.* opcode: \([A-Z_0-9]*\) .*/\1/p' | sort | uniq -c | sort -rn |
		awk -v name="$name" -v files="$files" '{ all += $1; if ($1 >= files / 20) text = text sprintf("  %s %.2f", $2, $1 / files) }
			END { printf "%-14s %6.2f%s\n", name, all / files, text }'
}
{
	asked "cp -a" cp -a "$tree" "$work/mnt/tree"
	asked "ls -lR" ls -lR "$work/mnt/tree"
	asked "ls -lR again" ls -lR "$work/mnt/tree"
	asked "rm -rf" rm -rf "$work/mnt/tree"
} >"$work/requests"
release_peer

python3 - "$work/results" "$rounds" "$files" <<'PYTHON'
import statistics, sys

values = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        *step, peer, wall, used = line.split()
        values.setdefault(" ".join(step), {}).setdefault(peer, []).append((float(wall), float(used)))
print(f"{sys.argv[3]} files, medians of {sys.argv[2]} rounds in turns; seconds, and how many times ext4's")
for k, what in enumerate(("wall", "CPU")):
    print(f"{what:17} {'ext4':>8} {'FUSE':>8} {'ratio':>6} {'library':>8} {'ratio':>6}")
    for step, peers in values.items():
        row = [f"{statistics.median(v[k] for v in peers['ext4']):8.3f}"]
        for peer in ("fuse", "preload"):
            ratios = [a[k] / b[k] for a, b in zip(peers[peer], peers["ext4"]) if b[k] > 0]
            row += [f"{statistics.median(v[k] for v in peers[peer]):8.3f} {statistics.median(ratios) if ratios else 0:6.1f}"]
        print(f"{step:17} {' '.join(row)}")
PYTHON
echo
echo "requests for each file, and those that are more than one in twenty files:"
cat "$work/requests"
