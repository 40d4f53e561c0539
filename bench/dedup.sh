#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Deduplication, in parts, each of which begins with an image that is formatted anew and nothing cached:
#
#   offline        `gpu4fs dedup run` beside duperemove on XFS and Btrfs, in turns: wall time, processor time, memory, what it freed.
#                  Contents are compared with the source afterwards
#   amplification  bytes that reach the device where a table on it is four times the cache: of new pages beside the same without
#                  deduplication, and of pages of which nine in ten are there already, one by one and in rows of 128. The table in
#                  memory has room for all (dedup_memory=), and for a quarter
#   table          the table in memory: lookups, and lookups with insertions, of 16 million entries by one thread
#   sequential     one file that is written, with BLAKE3 alone and with deduplication, in turns; and with deduplication behind 2 GiB of
#                  new pages, of which the table in memory has room for a quarter
#   reflink        a large file copied by reference beside XFS and Btrfs: for the first time, right after a mount, and again
#   ratio          bytes by stored bytes of the two trees of `offline`: inline, offline, restic, borg, Shredder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

usage() {
	cat <<'TEXT'
usage: bench/dedup.sh [OPTION]...

  --parts=LIST    of offline,amplification,table,sequential,reflink,ratio [all]
  --rounds=N      how often each is measured; the median counts [3]
  --tree=DIR      a tree, which is stored twice [/usr/share/doc]
  --small=N       in its place N files of one to four pages of random data
  --peers=LIST    of offline: of gpu4fs,gpu4fs-mount,gpu4fs-compare,gpu4fs-chunks,xfs-4k,
                  btrfs-4k,xfs-128k,btrfs-128k [all]
  --mib=N         size of a file of random data, which is stored twice, the second time
                  4 KiB further; and of what is written for the amplification [512]
  --cache-mib=N   gpu4fs's cache while the amplification is measured: what is written before
                  takes about 500 times as much [4]
  --fill-mib=N    what is written before, if not that
  --tables=LIST   what is measured of off,all,quarter: without deduplication, and with a
                  table in memory for all pages or for a quarter [all three]
  --reflink-mib=N size of the file that is copied by reference [2048]
  --image-mib=N   size of the image file [4096]
  --folder=DIR    where the image and that file lie [build/bench]
  --build=DIR     where gpu4fs is built [build/release]
  --quick         one round of little, to see that everything runs
  --help          show this
TEXT
}

parts=offline,amplification,table,sequential,reflink,ratio
rounds=3 tree=/usr/share/doc mib=512 image_mib=4096 cache_mib=4 reflink_mib=2048 folder=build/bench build=build/release
fill_mib=
small=0 offline_peers=gpu4fs,gpu4fs-mount,gpu4fs-compare,gpu4fs-chunks,xfs-4k,btrfs-4k,xfs-128k,btrfs-128k
tables=off,all,quarter entries=16000000
for argument in "$@"; do
	case $argument in
	--parts=*) parts=${argument#*=} ;;
	--rounds=*) rounds=${argument#*=} ;;
	--tree=*) tree=${argument#*=} ;;
	--small=*) small=${argument#*=} ;;
	--peers=*) offline_peers=${argument#*=} ;;
	--mib=*) mib=${argument#*=} ;;
	--cache-mib=*) cache_mib=${argument#*=} ;;
	--fill-mib=*) fill_mib=${argument#*=} ;;
	--tables=*) tables=${argument#*=} ;;
	--reflink-mib=*) reflink_mib=${argument#*=} ;;
	--image-mib=*) image_mib=${argument#*=} ;;
	--folder=*) folder=${argument#*=} ;;
	--build=*) build=${argument#*=} ;;
	--quick) rounds=1 mib=64 image_mib=1024 cache_mib=1 reflink_mib=256 entries=1000000 ;;
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
mkdir -p "$folder" build/bench
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
if [[ ! -x /usr/bin/time ]]; then
	say "/usr/bin/time is missing"
	exit 1
fi
if [[ $(df --output=avail --block-size=1M "$work" | tail -n 1) -lt $((image_mib + 2 * mib + 512)) ]]; then
	say "$folder has no room for an image of $image_mib MiB; see --folder"
	exit 1
fi

# needs PROGRAM...: false, and said, if one is missing: then what it would measure is left out.
needs() {
	local program
	for program in "$@"; do
		if [[ -z $(type -P "$program") ]]; then
			say "$program is missing: what it measures is left out"
			return 1
		fi
	done
}

# result METRIC PEER VALUE: one of a round
result() {
	echo "$@" >>"$work/results"
}

# timed COMMAND...: wall, user and system seconds and KiB of memory in the file `time`
timed() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	/usr/bin/time --output="$work/time" --format="%e %U %S %M" "$@" >>"$work/log" 2>&1
}

# What `timed` has measured: METRIC-wall_s, -cpu_s, -memory_mib
timed_result() {
	local wall user system kib
	read -r wall user system kib <"$work/time"
	result "$1.wall_s" "$2" "$wall"
	result "$1.cpu_s" "$2" "$(python3 -c "print($user + $system)")"
	result "$1.memory_mib" "$2" "$((kib / 1024))"
}

json() { # json KEY: of an object on standard input
	python3 -c "import json, sys; print(json.load(sys.stdin)$1)"
}

again() { # again PEER: mounted anew, so that all is written and counted
	unmount_peer && mount_peer "$1"
}

# Seconds of processor time that the server has used.
server_cpu() {
	python3 - "$(<"$work/server")" <<'PYTHON'
import os, sys

fields = open(f"/proc/{sys.argv[1]}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
print((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
PYTHON
}

# ---------------------------------------------------------------------------------------------------- offline

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

same_contents() {
	diff -r --no-dereference "$work/source" "$work/mnt/first" && diff -r --no-dereference --exclude=random "$work/source" "$work/mnt/second" &&
		cat "$work/page" "$work/source/random" | cmp - "$work/mnt/second/random"
}

# The peers: blocks of 4 KiB as gpu4fs has them and parts of extents, and duperemove's defaults, which find less.
deduplicate() {
	case $1 in
	gpu4fs) timed "$build/bin/gpu4fs" dedup run --image "$image" ;;
	gpu4fs-mount) timed "$build/bin/gpu4fs" dedup run "$work/mnt" ;;
	gpu4fs-compare) timed "$build/bin/gpu4fs" dedup run --compare --image "$image" ;;
	gpu4fs-chunks) timed "$build/bin/gpu4fs" dedup run --chunks --image "$image" ;;
	*-4k) timed duperemove -d -r -q -b 4096 --dedupe-options=partial "$work/mnt" ;;
	*) timed duperemove -d -r -q "$work/mnt" ;;
	esac
}

# These are conditions of an if: nothing ends them but their own `return`.
offline() {
	local peer=$1 format=${1%%-*} type=${1%%-*} before after

	if [[ $type == gpu4fs ]]; then format=inprocess-blake3 type=fuse; fi
	format_peer "$format" && mount_peer "$type" && fill && again "$type" || return 1
	before=$(used) || return 1
	if [[ $type == fuse && $peer != gpu4fs-mount ]]; then unmount_peer; else again "$type"; fi || return 1
	deduplicate "$peer" || return 1
	if mounted "$work/mnt"; then again "$type"; else mount_peer fuse; fi || return 1
	after=$(used) || return 1
	same_contents || return 1
	timed_result offline "$peer"
	result offline.used_mib "$peer" $((before >> 20))
	result offline.freed_mib "$peer" $(((before - after) >> 20))
	release_peer
}

# ---------------------------------------------------------------------------------------------------- amplification

# Listed pages take 33 bytes each on the device: four times the cache are so many.
fill_pages=$((${fill_mib:-0} * 256)) write_pages=$((mib * 256))
[[ -n $fill_mib ]] || fill_pages=$((4 * cache_mib * 1048576 / 33))

# Bytes that were written to the loop device.
device_bytes() {
	local device sectors
	device=$(<"$work/loop")
	sectors=$(awk '{ print $7 }' "/sys/block/${device##*/}/stat")
	echo $((sectors * 512))
}

all_loaded() { # what earlier mounts have written is in the table of this one
	"$build/bin/gpu4fs" dedup stats --json --mount "$work/mnt" 2>/dev/null |
		python3 -c 'import json, sys; d = json.load(sys.stdin)["since_mount"]; sys.exit(d["groups_loaded"] < d["groups"])'
}

# write_pages_of FILE MEMORY ARGUMENT...: what dedup_pages.py makes, in a mount of its own; bytes at the device in the file `bytes`
write_pages_of() {
	local file=$1 memory=$2 before options=cache=${cache_mib}M
	shift 2
	[[ $memory == 0 ]] || options+=,dedup_memory=$memory
	serve "$build/bin/gpu4fs" mount -f -o "$options" "$(<"$work/loop")" "$work/mnt" || return 1
	[[ $memory == 0 ]] || wait_for 300 all_loaded || return 1
	before=$(device_bytes)
	python3 bench/dedup_pages.py "$@" >"$work/mnt/$file" && sync --file-system "$work/mnt" || return 1
	server_cpu >"$work/cpu"
	unmount_peer || return 1
	echo $(($(device_bytes) - before)) >"$work/bytes"
}

amplification() {
	# all that is listed in the end: what was there, all that is unique, and the tenth of the others
	local listed=$((fill_pages + write_pages * 12 / 10)) name=$1
	local memory=$((listed * 10 > 1048576 ? listed * 10 : 1048576)) options=(--dedup) loop case bytes unique=$((write_pages * 4096))

	case $name in
	off) options=() memory=0 ;;
	quarter) memory=$((memory / 4 > 1048576 ? memory / 4 : 1048576)) ;;
	esac
	loop=$(losetup --find --show "${loop_options[@]}" "$image") || return 1
	echo "$loop" >"$work/loop"
	"$build/bin/gpu4fs" mkfs --force --quiet --checksum=blake3 "${options[@]}" "$loop" || return 1
	write_pages_of fill "$memory" 0 "$fill_pages" || return 1
	for case in unique single rows; do
		[[ $name != off || $case == unique ]] || continue
		case $case in
		unique) write_pages_of unique "$memory" "$fill_pages" "$write_pages" || return 1 ;;
		single) write_pages_of single "$memory" $((2 * fill_pages)) "$write_pages" "$fill_pages" 90 1 || return 1 ;;
		rows) write_pages_of rows "$memory" $((3 * fill_pages)) "$write_pages" "$fill_pages" 90 128 || return 1 ;;
		esac
		bytes=$(<"$work/bytes")
		result "amplification.$case" "$name" "$(python3 -c "print(round($bytes / $unique, 4))")"
		result "amplification.$case.cpu_s" "$name" "$(<"$work/cpu")"
	done
	"$build/bin/gpu4fs" fsck -n -f "$loop" >>"$work/log" 2>&1 || return 1
	release_peer
}

# ---------------------------------------------------------------------------------------------------- sequential, reflink

sequential() {
	local options=() mount=() before k
	[[ $1 == blake3 ]] || options=(--dedup)
	[[ $1 != quarter ]] || mount=(-o "dedup_memory=1M") # 8 bytes a page: 512 MiB
	"$build/bin/gpu4fs" mkfs --force --quiet --checksum=blake3 "${options[@]}" "$image" || return 1
	serve "$build/bin/gpu4fs" mount -f "${mount[@]}" "$image" "$work/mnt" || return 1
	if [[ $1 == quarter ]]; then # no page of which is like another: each file begins a byte further
		for ((k = 1; k <= (2048 + mib - 1) / mib; k++)); do
			{ printf "%${k}s" && cat "$work/source/random"; } >"$work/mnt/before$k" || return 1
		done
		sync --file-system "$work/mnt" || return 1
	fi
	before=$(server_cpu)
	timed true || return 1
	cat "$work/source/random" >/dev/null
	# shellcheck disable=SC2016 # for the inner shell
	/usr/bin/time --output="$work/time" --format="%e %U %S %M" \
		bash -c 'cp --reflink=never "$1" "$2" && sync --file-system "$2"' copy "$work/source/random" "$work/mnt/random" || return 1
	result sequential.mib_s "$1" "$(awk -v mib="$mib" '{ print mib / $1 }' "$work/time")"
	result sequential.server_cpu_s "$1" "$(python3 -c "print(round($(server_cpu) - $before, 2))")"
	cmp "$work/source/random" "$work/mnt/random" && release_peer
}

reflink() {
	local peer=$1 format=$1 type=$1 k before copy=(cp --reflink=always "$work/mnt/large" "$work/mnt/copy")

	if [[ $type == gpu4fs* ]]; then format=inprocess-blake3 type=fuse; fi
	format_peer "$format" && mount_peer "$type" || return 1
	for ((k = 0; k < reflink_mib; k += mib)); do
		cat "$work/source/random" || return 1
	done | head -c "${reflink_mib}M" >"$work/mnt/large"
	case $peer in
	gpu4fs-image)
		unmount_peer || return 1
		copy=("$build/bin/gpu4fs" cp --reflink --image "$image" /large /copy)
		;;
	gpu4fs) copy=(cp "$work/mnt/large" "$work/mnt/copy") ;; # Linux passes FICLONE to no FUSE server
	esac
	[[ $peer == gpu4fs-image ]] || again "$type" || return 1
	[[ $peer != gpu4fs ]] || before=$(server_cpu)
	timed "${copy[@]}" || return 1
	timed_result reflink "$peer"
	[[ $peer != gpu4fs ]] || result reflink.server_cpu_s "$peer" "$(python3 -c "print(round($(server_cpu) - $before, 2))")"
	if [[ $peer == gpu4fs-image ]]; then
		mount_peer fuse || return 1
	else # what was copied once before: with nothing cached, then with what it needs in the cache
		# the programs are in memory, as the kernel's file systems are
		unmount_peer && timed true && cat "$build/bin/gpu4fs" >/dev/null && cp --version >/dev/null && mount_peer "$type" &&
			copy_once reflink.after_mount_ms "$peer" 0 || return 1
		for k in 1 2 3; do
			copy_once reflink.again_ms "$peer" "$k" || return 1
		done
	fi
	cmp "$work/mnt/large" "$work/mnt/copy" && release_peer
}

copy_once() { # copy_once METRIC PEER NUMBER: of the large file
	local begin=$EPOCHREALTIME reflink=always
	[[ $2 != gpu4fs ]] || reflink=auto
	cp --reflink="$reflink" "$work/mnt/large" "$work/mnt/copy$3" || return 1
	local end=$EPOCHREALTIME
	result "$1" "$2" "$(awk -v us="$((${end/./} - ${begin/./}))" 'BEGIN { print us / 1000 }')"
}

# ---------------------------------------------------------------------------------------------------- ratio

folder_bytes() {
	du --summarize --bytes "$1" | cut -f 1
}

# Of the bytes of both trees to those that are stored, without compression.
ratio_of() {
	result ratio.stored "$1" "$(python3 -c "print(round($total / $2, 3))")"
}

ratio() {
	local total
	rm -rf "$work/trees"
	mkdir "$work/trees"
	cp -a "$work/source" "$work/trees/first" && cp -a "$work/source" "$work/trees/second" || return 1
	cat "$work/page" "$work/source/random" >"$work/trees/second/random"
	total=$(find "$work/trees" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
	case $1 in
	gpu4fs-inline | gpu4fs-run)
		local options=()
		[[ $1 != gpu4fs-inline ]] || options=(--dedup)
		"$build/bin/gpu4fs" mkfs --force --quiet --checksum=blake3 "${options[@]}" "$image" &&
			"$build/bin/gpu4fs" import --image "$image" "$work/trees" / || return 1
		[[ $1 != gpu4fs-run ]] || timed "$build/bin/gpu4fs" dedup run --image "$image" || return 1
		ratio_of "$1" "$("$build/bin/gpu4fs" dedup stats --json --image "$image" | json '["stored_bytes"]')"
		"$build/bin/gpu4fs" dedup estimate --chunks --json --image "$image" >"$work/chunks" || return 1
		result ratio.left_unaligned_mib "$1" "$(json '["chunks"]["unaligned_bytes"] / 1048576' <"$work/chunks")"
		;;
	restic)
		needs restic || return 0
		export RESTIC_PASSWORD=none
		restic --no-cache --repo "$work/repository" init --repository-version 2 &&
			restic --no-cache --repo "$work/repository" --compression off backup "$work/trees" || return 1
		ratio_of restic "$(folder_bytes "$work/repository")"
		;;
	borg)
		needs borg || return 0
		export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$work/borg
		borg init --encryption none "$work/repository" &&
			borg create --compression none "$work/repository::trees" "$work/trees" || return 1
		ratio_of borg "$(folder_bytes "$work/repository")"
		;;
	shredder)
		result ratio.stored shredder "$("$build/bin/shredder" dedup-ratio --json "$work/trees" | json '["total"]["ratio"]')"
		;;
	esac
	rm -rf "$work/repository" "$work/borg" "$work/trees"
}

# ---------------------------------------------------------------------------------------------------- the run

# in_turns PART PEER...: each once a round, beginning with another one each time
in_turns() {
	local part=$1 peers=("${@:2}") round i peer
	for ((round = 0; round < rounds; round++)); do
		for ((i = 0; i < ${#peers[@]}; i++)); do
			peer=${peers[(i + round) % ${#peers[@]}]}
			if ! "$part" "$peer" >>"$work/log" 2>&1; then
				say "$part failed on $peer; the last lines that were written:"
				tail -n 10 "$work/log" >&2
				exit 1
			fi
			say "round $round: $part, $peer"
		done
	done
}

# Of these file systems those that there are, one a line.
there_are() {
	local peer reason
	for peer in "$@"; do
		reason=$(missing "${peer%%-*}")
		if [[ -z $reason ]]; then echo "$peer"; else say "$peer is left out: $reason"; fi
	done
}

dd if=/dev/urandom of="$image" bs=1M count="$image_mib" conv=fsync status=none
if ((small > 0)); then
	python3 bench/dedup_pages.py --files "$small" "$work/source/tree"
else
	cp -a "$tree" "$work/source/tree"
fi
dd if=/dev/urandom of="$work/source/random" bs=1M count="$mib" status=none
dd if=/dev/urandom of="$work/page" bs=4096 count=1 status=none
IFS=, read -ra list <<<"$parts"
for part in "${list[@]}"; do
	case $part in
	offline)
		IFS=, read -ra wanted <<<"$offline_peers"
		peers=()
		for peer in "${wanted[@]}"; do
			if [[ $peer == gpu4fs* ]]; then peers+=("$peer"); fi
		done
		if needs duperemove; then
			mapfile -t -O "${#peers[@]}" peers < <(for peer in "${wanted[@]}"; do
				if [[ $peer != gpu4fs* ]]; then there_are "$peer"; fi
			done)
		fi
		in_turns offline "${peers[@]}"
		;;
	amplification) # load does not change it
		IFS=, read -ra peers <<<"$tables"
		rounds=1 in_turns amplification "${peers[@]}"
		;;
	table)
		if ! cmake --build "$build" --target ddt_bench >>"$work/log" 2>&1; then
			say "ddt_bench can not be built; the last lines that were written:"
			tail -n 10 "$work/log" >&2
			exit 1
		fi
		"$build/bin/ddt_bench" "$entries" | tee -a "$work/log" | sed -n 's/^\(.*[^ ]\)  *\([0-9.]*\) M\/s.*/\2 \1/p' |
			while read -r rate what; do result "table.million_s" "${what// /_}" "$rate"; done
		;;
	sequential)
		peers=(blake3 dedup)
		if ((image_mib >= 2048 + 3 * mib)); then
			peers+=(quarter)
		else
			say "an image of $image_mib MiB has no room for what fills a table four times: that is left out"
		fi
		in_turns sequential "${peers[@]}"
		;;
	reflink)
		mapfile -t peers < <(there_are xfs btrfs)
		in_turns reflink gpu4fs gpu4fs-image "${peers[@]}"
		;;
	ratio) rounds=1 in_turns ratio gpu4fs-inline gpu4fs-run restic borg shredder ;;
	*)
		say "there is no part '$part'"
		exit 2
		;;
	esac
done

python3 - "$work/results" "$root/build/bench/dedup.json" "$rounds" "$mib" "$cache_mib" "$reflink_mib" <<'PYTHON'
import json, statistics, sys

values = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        metric, peer, value = line.split()
        values.setdefault(metric, {}).setdefault(peer, []).append(float(value))
medians = {metric: {peer: statistics.median(rows) for peer, rows in peers.items()} for metric, peers in values.items()}
TARGETS = [  # what is compared, and with what
    ("amplification.unique", "all", "amplification.unique", "off", "at most", 1.10),
    ("amplification.single", "all", "amplification.unique", "off", "at most", 0.20),
    ("amplification.rows", "all", "amplification.unique", "off", "at most", 0.20),
    ("amplification.rows", "quarter", "amplification.unique", "off", "at most", 0.20),
    ("sequential.mib_s", "dedup", "sequential.mib_s", "blake3", "at least", 0.85),
    ("sequential.mib_s", "quarter", "sequential.mib_s", "blake3", "at least", 0.5),
    ("offline.wall_s", "btrfs-4k", "offline.wall_s", "gpu4fs", "at least", 10),
    ("offline.wall_s", "xfs-4k", "offline.wall_s", "gpu4fs", "at least", 10),
    ("offline.wall_s", "btrfs-4k", "offline.wall_s", "gpu4fs-mount", "at least", 10),
    ("reflink.wall_s", "gpu4fs", "reflink.wall_s", "btrfs", "at most", 1),
    ("reflink.after_mount_ms", "gpu4fs", "reflink.after_mount_ms", "btrfs", "at most", 1),
    ("reflink.again_ms", "gpu4fs", "reflink.again_ms", "btrfs", "at most", 1),
]
targets = []
for metric, peer, base, of, word, wanted in TARGETS:
    if peer in medians.get(metric, {}) and medians.get(base, {}).get(of):
        ratio = medians[metric][peer] / medians[base][of]
        met = ratio <= wanted if word == "at most" else ratio >= wanted
        targets.append({"metric": metric, "peer": peer, "of": of, "ratio": ratio, word.replace(" ", "_"): wanted, "met": met})
with open(sys.argv[2], "w", encoding="utf-8") as file:
    keys = ("rounds", "mib", "cache_mib", "reflink_mib")
    json.dump({**dict(zip(keys, map(int, sys.argv[3:]))), "medians": medians, "targets": targets}, file, indent=1)
    file.write("\n")
print(f"medians of {sys.argv[3]} rounds in turns")
for metric, peers in medians.items():
    print(f"{metric:28}", ", ".join(f"{peer} {value:.4g}" for peer, value in peers.items()))
for t in targets:
    word = "at most" if "at_most" in t else "at least"
    print(f"{t['metric']}: {t['peer']} / {t['of']} = {t['ratio']:.3f}, {word} {t[word.replace(' ', '_')]} wanted:",
          "met" if t["met"] else "missed")
PYTHON
