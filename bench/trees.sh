#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs on a mount feel: cp -a, ls -l and rm -rf of a tree, on ext4 and on gpu4fs in turns, on the same image; wall time,
# processor time of the program and of the server, ratios; and how many FUSE requests of each kind a file costs, which no other
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
		cat "/proc/$(<"$work/server")"/task/*/schedstat | awk '{ used += $1 } END { print used / 1e9 }'
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
	step "$1" "cp -a" cp -a "$tree" "$work/mnt/tree"
	step "$1" "ls -lR" ls -lR "$work/mnt/tree"
	step "$1" "ls -lR again" ls -lR "$work/mnt/tree"
	step "$1" "rm -rf" rm -rf "$work/mnt/tree"
}

mount_fuse() { # mount_fuse [OPTION]...: as mount_peer() does, with the caller's options
	serve "$build/bin/gpu4fs" mount -f "$@" ${mount_options:+-o "$mount_options"} "$image" "$work/mnt"
}

dd if=/dev/urandom of="$image" bs=1M count=2048 conv=fsync status=none
find "$tree" -type f -exec cat {} + >/dev/null # from the disk once, for nobody's account
files=$(find "$tree" | wc -l)
for ((round = 0; round < rounds; round++)); do
	for peer in $([[ $((round % 2)) -eq 0 ]] && echo ext4 fuse || echo fuse ext4); do
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
print(f"{'':14} {'wall':>8} {'ext4':>8} {'ratio':>6} {'CPU':>8} {'ext4':>8} {'ratio':>6}")
for step, peers in values.items():
    row = []
    for k in (0, 1):
        ours, theirs = (statistics.median(v[k] for v in peers[p]) for p in ("fuse", "ext4"))
        ratios = [a[k] / b[k] for a, b in zip(peers["fuse"], peers["ext4"]) if b[k] > 0]
        row += [f"{ours:8.3f} {theirs:8.3f} {statistics.median(ratios) if ratios else 0:6.1f}"]
    print(f"{step:14} {' '.join(row)}")
PYTHON
echo
echo "requests for each file, and those that are more than one in twenty files:"
cat "$work/requests"
