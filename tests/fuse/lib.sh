#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the mount tests share; source it with the test's arguments. The program under test is the first argument, or
# $GPU4FS, or the release build. Each check prints one line; finish() turns failures into the exit status.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
gpu4fs=${1:-${GPU4FS:-$here/../../build/release/bin/gpu4fs}}

skip() {
	echo "skipped: $*"
	exit 77
}

(exec 3<>/dev/fuse) 2>/dev/null || skip "/dev/fuse is missing or closed to this user"
[[ -x $gpu4fs ]] || skip "$gpu4fs is not built"

# Whether the mounts of this run are of an engine on a GPU.
on_gpu() {
	[[ ${GPU4FS_MOUNT-} == *engine=cuda* ]]
}

# A test whose programs are missing says so, and does not fail.
needs() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

# Programs of the packages attr and acl: without them Python asks the same system calls.
attribute_programs() {
	local program
	for program in setfattr getfattr setfacl getfacl; do
		if ! command -v "$program" >/dev/null; then
			eval "$program() { python3 \"$here/attr.py\" $program \"\$@\"; }"
		fi
	done
}

work=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-test.XXXXXX")
image=$work/image
mnt=$work/mnt
mkdir "$mnt"
failures=0

is_mounted() {
	grep -Eq " $mnt fuse(blk)?.gpu4fs " /proc/self/mounts
}

cleanup() {
	cd /
	if is_mounted; then
		"$gpu4fs" umount "$mnt" >/dev/null 2>&1 || umount --lazy "$mnt" 2>/dev/null || fusermount3 -uz "$mnt"
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ok() {
	echo "ok - $1"
}

not_ok() {
	echo "not ok - $1"
	failures=$((failures + 1))
}

# check TEXT COMMAND...: the command succeeds. Its output is shown when it does not.
check() {
	local text=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		ok "$text"
	else
		not_ok "$text"
		sed 's/^/#   /' "$work/out"
	fi
}

# check_not TEXT COMMAND...: the command fails.
check_not() {
	local text=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		not_ok "$text"
	else
		ok "$text"
	fi
}

# refuses TEXT WORDS COMMAND...: the command fails, and says WORDS.
refuses() {
	local text=$1 words=$2
	shift 2
	if "$@" >"$work/out" 2>&1; then
		not_ok "$text (it succeeded)"
	elif ! grep -qi -- "$words" "$work/out"; then
		not_ok "$text (it says something else)"
		sed 's/^/#   /' "$work/out"
	else
		ok "$text"
	fi
}

# same TEXT EXPECTED ACTUAL
same() {
	if [[ $2 == "$3" ]]; then
		ok "$1"
	else
		not_ok "$1"
		echo "#   expected: $2"
		echo "#   found:    $3"
	fi
}

make_image() {
	truncate -s "${1:-512M}" "$image"
	"$gpu4fs" mkfs "$image" >"$work/out" 2>&1 || {
		not_ok "mkfs"
		sed 's/^/#   /' "$work/out"
		exit 1
	}
}

# mount_image [OPTIONS]: a failure ends the test. GPU4FS_MOUNT has options for all mounts.
mount_image() {
	local options=${GPU4FS_MOUNT:-}${GPU4FS_MOUNT:+${1:+,}}${1:-}
	"$gpu4fs" mount ${options:+-o "$options"} "$image" "$mnt" >"$work/out" 2>&1 || {
		not_ok "mount"
		sed 's/^/#   /' "$work/out"
		exit 1
	}
}

unmount_image() {
	cd "$work" || exit 1
	check "${1:-unmount}" "$gpu4fs" umount "$mnt"
}

fsck_image() {
	check "${1:-fsck finds nothing}" "$gpu4fs" fsck "$image"
}

# free_again BLOCKS: waits until so many are free. Room comes back with the first commit after the last close, of which the
# kernel tells the server when it likes.
free_again() {
	local deadline=$((SECONDS + 600)) free
	until sync "$mnt" && free=$(stat -f -c %f "$mnt") && ((free >= $1)); do
		if ((SECONDS > deadline)); then
			echo "$free blocks are free, not $1"
			return 1
		fi
		sleep 0.1
	done
}

# unmounts_beside_df COMMAND...: 20 times, while somebody runs df; COMMAND mounts again. A process that asks for the free space is inside of
# the mount until the server has answered.
unmounts_beside_df() {
	local df rounds=0
	touch "$work/asking"
	while [[ -e $work/asking ]]; do
		df "$mnt"
	done >"$work/df" 2>&1 &
	df=$!
	while ((rounds < 20)) && "$gpu4fs" umount "$mnt" && "$@"; do
		rounds=$((rounds + 1))
	done
	rm "$work/asking"
	wait "$df"
	((rounds == 20))
}

# The process that serves the mount: the one that holds the lock on the state file.
server_pid() {
	local device
	device=$(awk -v dir="$mnt" '$5 == dir { print $3 }' /proc/self/mountinfo | tail -n 1)
	local name=${device/:/-} directory state
	for directory in /run/gpu4fs "/run/user/$UID/gpu4fs" "/tmp/gpu4fs-$UID"; do
		for state in "$directory/$name"-*; do
			[[ -f $state ]] && grep -qx "device $(realpath "$image")" "$state" &&
				awk '$1 == "pid" { print $2 }' "$state" && return
		done
	done
	return 1
}

# Waits for the end of a process that is not our child.
wait_pid() {
	tail --pid="$1" -s 0.1 -f /dev/null &
	local waiter=$! deadline=$((SECONDS + 600))
	while kill -0 "$waiter" 2>/dev/null; do
		((SECONDS > deadline)) && kill "$waiter" && return 1
		sleep 0.1
	done
	wait "$waiter" 2>/dev/null
	return 0
}

finish() {
	cd /
	if ((failures)); then
		echo "$failures checks failed"
		exit 1
	fi
	exit 0
}
