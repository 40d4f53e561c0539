#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make demo` runs: real programs on a gpu4fs file system, then proof that every file came back as it went in.
# Needs about 4 GiB in build/. Leaves nothing mounted and nothing behind, also when it is interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

image_bytes=$((2 << 30))
mkdir -p build
work=$(mktemp -d "$root/build/demo.XXXXXX")
image=$work/demo.img
mount=$work/mnt
log=$work/log
gpu4fs=$root/build/release/bin/gpu4fs
job=

# daemon_pid: the process that serves our mount.
daemon_pid() {
	local entry
	for entry in /proc/[0-9]*; do
		if [[ $entry/exe -ef $gpu4fs ]] && tr '\0' '\n' <"$entry/cmdline" | grep -qxF -- "$image"; then
			echo "${entry#/proc/}"
			return
		fi
	done 2>/dev/null
}

wait_for_end() { # PID
	local tenths
	for ((tenths = 0; tenths < 600; tenths++)); do
		[[ -d /proc/$1 ]] || return 0
		sleep 0.1
	done
	echo "demo: process $1 did not end within a minute" >&2
	return 1
}

cleanup() {
	local status=$? daemon
	trap '' INT TERM
	set +e
	if [[ -n $job ]]; then
		kill -TERM -- "-$job" 2>/dev/null
		wait "$job" 2>/dev/null
	fi
	daemon=$(daemon_pid)
	if mountpoint -q "$mount"; then
		cd "$root" || exit 1
		"$gpu4fs" umount "$mount" 2>/dev/null || fusermount3 -u "$mount" 2>/dev/null || umount --lazy "$mount"
	fi
	if [[ -n $daemon ]]; then
		wait_for_end "$daemon" || kill -KILL "$daemon"
	fi
	if mountpoint -q "$mount"; then
		echo "demo: $mount is still mounted" >&2
		exit 1
	fi
	if [[ $status -gt 128 ]]; then
		echo "demo: interrupted; nothing is left mounted" >&2
	elif [[ $status -ne 0 && -s $log ]]; then
		echo "demo: failed; the last lines it wrote:" >&2
		tail -n 20 "$log" >&2
	fi
	rm -rf --one-file-system "$work"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- measuring
rows=()
now_ns() {
	date +%s%N
}

# cpu_ms: CPU time of all children that ended, in ms, into the variable cpu.
cpu_ms() {
	times >"$work/times"
	cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); ms += (t[1] * 60 + t[2]) * 1000 } }
		END { printf "%d", ms }' "$work/times")
}

# daemon_ms: CPU time of the daemon so far, in ms, into the variable served; 0 without one.
daemon_ms() {
	local pid
	pid=$(daemon_pid)
	served=0
	if [[ -n $pid ]]; then
		served=$(sed 's/.*) //' "/proc/$pid/stat" | awk -v hz="$(getconf CLK_TCK)" '{ printf "%d", ($12 + $13) * 1000 / hz }')
	fi
}

# step NAME FOLDER COMMAND...: runs and measures. FOLDER: what the step wrote, for files and bytes; "-" for none.
step() {
	local name=$1 folder=$2 start end cpu served cpu_before served_before files=- bytes=- used=-
	shift 2
	printf '  %s\n' "$name"
	daemon_ms
	served_before=$served
	cpu_ms
	cpu_before=$cpu
	start=$(now_ns)
	set -m # a process group of its own, so that an interrupt ends all of it
	"$@" >>"$log" 2>&1 </dev/null &
	job=$!
	set +m
	if ! wait "$job"; then
		job=
		echo "demo: '$name' failed" >&2
		exit 1
	fi
	job=
	end=$(now_ns)
	cpu_ms
	daemon_ms
	[[ $served -ge $served_before ]] || served=$served_before
	if [[ $folder != - ]]; then
		read -r files bytes < <(find "$folder" -type f -printf '%s\n' | awk '{ sum += $1 } END { print NR, sum + 0 }')
	fi
	if mountpoint -q "$mount"; then
		used=$(stat --file-system --format='%b %f %S' "$mount" | awk '{ printf "%.0f", ($1 - $2) * $3 / 1048576 }')
	fi
	rows+=("$name|$files|$bytes|$((end - start))|$((cpu - cpu_before))|$((served - served_before))|$used")
}

table() {
	printf '%s\n' "${rows[@]}" | awk -F'|' '
		function mb(bytes) { return bytes == "-" ? "-" : sprintf("%.1f", bytes / 1e6) }
		function rate(bytes, ns) { return bytes == "-" || ns == 0 ? "-" : sprintf("%.1f", bytes * 1e3 / ns) }
		function line(name, files, bytes, seconds, speed, cpu, served, used) {
			printf "%-30s %8s %10s %9s %8s %9s %9s %9s\n", name, files, bytes, seconds, speed, cpu, served, used
		}
		BEGIN { line("", "files", "MB", "seconds", "MB/s", "CPU s", "daemon s", "used MiB") }
		{
			line($1, $2, mb($3), sprintf("%.2f", $4 / 1e9), rate($3, $4), sprintf("%.2f", $5 / 1e3),
				sprintf("%.2f", $6 / 1e3), $7)
			if ($2 != "-" && $1 !~ /^compare/) { files += $2; bytes += $3; data_ns += $4 }
			ns += $4; cpu += $5; served += $6; if ($7 != "-") used = $7
		}
		END {
			line("total", files, mb(bytes), sprintf("%.2f", ns / 1e9), rate(bytes, data_ns),
				sprintf("%.2f", cpu / 1e3), sprintf("%.2f", served / 1e3), used)
		}'
}

# ---- the steps
copy() {
	cp -a "$1" "$2"
}

clone() {
	git clone --no-hardlinks "$work/source" "$mount/project"
	git -C "$mount/project" fsck --full
}

build_there() {
	cmake -S "$mount/project" -B "$mount/project/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DG4_TESTS=OFF
	cmake --build "$mount/project/build" --target gpu4fs_tool
	"$mount/project/build/bin/gpu4fs" --help
}

# database FILE JOURNAL-MODE: one bulk load, an index, 300 small transactions, deletes and a VACUUM.
database() {
	{
		echo "PRAGMA journal_mode = $2; PRAGMA synchronous = FULL;"
		cat <<'SQL'
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, value BLOB);
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
	INSERT INTO item SELECT i, printf('item %d', i), randomblob(200) FROM n;
CREATE INDEX item_by_name ON item (name);
SQL
		for ((i = 1; i <= 300; i++)); do
			echo "UPDATE item SET value = randomblob(400) WHERE id = $((i * 331));"
		done
		echo "DELETE FROM item WHERE id % 3 = 0; VACUUM; PRAGMA integrity_check;"
	} | sqlite3 -bail "$1"
}

workload() {
	mkdir "$mount/sqlite"
	database "$mount/sqlite/wal.db" WAL
	database "$mount/sqlite/delete.db" DELETE
}

# Names, types, modes, owners and times; sizes and contents are compared by diff.
attributes() {
	local owner='%U:%G'
	[[ $(id -u) -eq 0 ]] || owner=-
	(cd "$1" && find . -printf "%y %m $owner %T@ %p %l\n" | LC_ALL=C sort)
}

compare() {
	local tree
	for tree in "${trees[@]}"; do
		diff -r --no-dereference "$tree" "$mount/${tree##*/}"
		diff <(attributes "$tree") <(attributes "$mount/${tree##*/}")
	done
	diff -r --no-dereference --exclude=.git --exclude=build "$work/source" "$mount/project"
	git -C "$mount/project" fsck --full
	(cd "$mount" && sha256sum --check --quiet --strict "$work/manifest")
	for tree in wal delete; do
		[[ $(sqlite3 "$mount/sqlite/$tree.db" 'PRAGMA integrity_check;') == ok ]]
	done
}

manifest() {
	(cd "$mount" && find project sqlite -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >"$work/manifest")
}

unmount() {
	local daemon
	daemon=$(daemon_pid)
	"$gpu4fs" umount "$mount"
	[[ -z $daemon ]] || wait_for_end "$daemon"
	[[ -z $(daemon_pid) ]]
}

if ! (exec 3<>/dev/fuse) 2>/dev/null; then
	echo "demo: /dev/fuse is missing or closed to this user; the demo needs FUSE" >&2
	exit 1
fi

echo "Building gpu4fs"
mkdir "$mount"
cmake --preset release >>"$log" 2>&1
cmake --build build/release --target gpu4fs_tool >>"$log" 2>&1

# A repository of its own to clone from: of the last commit, or of the files here when there is none.
export GIT_CONFIG_GLOBAL=$work/gitconfig
git config --global safe.directory '*'
git config --global user.name gpu4fs
git config --global user.email gpu4fs@localhost
git config --global init.defaultBranch main
if git rev-parse --verify --quiet HEAD >>"$log" 2>&1; then
	git clone --quiet --no-hardlinks "$root" "$work/source"
else
	mkdir "$work/source"
	tar --create --exclude=./build --exclude=./.git . | tar --extract --directory "$work/source"
	git -C "$work/source" init --quiet
	git -C "$work/source" add --all
	git -C "$work/source" commit --quiet --message="gpu4fs"
fi

trees=(/usr/include)
if [[ -d /usr/share/doc && $(du --summarize --block-size=1M /usr/share/doc | cut -f1) -lt 900 ]]; then
	trees+=(/usr/share/doc)
else
	echo "  /usr/share/doc is missing or too large for this image and left out"
fi

echo "Using gpu4fs on a 2 GiB image"
truncate --size="$image_bytes" "$image"
step "mkfs" - "$gpu4fs" mkfs "$image"
step "mount" - "$gpu4fs" mount "$image" "$mount"
for tree in "${trees[@]}"; do
	step "copy $tree" "$mount/${tree##*/}" copy "$tree" "$mount/"
done
step "git clone and fsck" "$mount/project" clone
step "build gpu4fs there" "$mount/project/build" build_there
step "SQLite" "$mount/sqlite" workload
step "sync" - sync --file-system "$mount"
manifest
step "unmount" - unmount
step "fsck" - "$gpu4fs" fsck -f -n "$image"
step "mount again" - "$gpu4fs" mount "$image" "$mount"
step "compare every file" "$mount" compare
step "unmount again" - unmount

echo
table
echo
echo "Every file is the same as its source. Image: $(du --block-size=1M "$image" | cut -f1) MiB of 2048 on disk."
