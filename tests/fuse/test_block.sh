#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Block devices of root are served as fuseblk: umount(8), sync(2) and syncfs(2) wait until everything is on the device, and
# the kernel keeps other file systems away.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
((UID == 0)) || skip "block devices need root"
needs losetup umount uname mount df python3 findmnt

loop=""
cleanup_all() {
	cd /
	while mountpoint -q "$work/other"; do
		umount --lazy "$work/other" || break
	done
	while mountpoint -q "$mnt"; do
		"$gpu4fs" umount "$mnt" >/dev/null 2>&1 || umount --lazy "$mnt" || break
	done
	[[ -z $loop ]] || losetup --detach "$loop"
	cleanup
}
trap cleanup_all EXIT

mkdir "$work/other"
make_image 256M
file=$image
loop=$(losetup --find --show "$file" 2>"$work/out") || skip "no loop device: $(<"$work/out")"
image=$loop

# forwards_sync: whether this kernel passes syncfs(2) on to the servers of block devices
forwards_sync() {
	local major minor
	IFS=.- read -r major minor _ <<<"$(uname -r)"
	((major > 6 || (major == 6 && minor >= 18)))
}
can_hold() { # it can be opened as mount(2) of any file system would
	python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$loop"
}
clean_now() { # fsck finds it clean, and did not have to wait for a server
	"$gpu4fs" fsck -n "$loop" >"$work/said" 2>&1
	if ! grep -q "unmounted cleanly" "$work/said" || grep -q "in use" "$work/said"; then
		cat "$work/said"
		return 1
	fi
}
quietly() { # the command succeeds and says nothing
	if ! "$@" >"$work/said" 2>&1 || [[ -s $work/said ]]; then
		cat "$work/said"
		return 1
	fi
}

mount_image commit=3600
same "the type" fuseblk.gpu4fs "$(findmnt -n -o FSTYPE "$mnt")"
same "the source" "$loop" "$(findmnt -n -o SOURCE "$mnt")"
same "info knows where it is mounted" "$loop" "$("$gpu4fs" info "$mnt" | sed -n 's/^device *//p')"
check "df lists it" grep -q " $mnt$" <("$gpu4fs" df)
check_not "no other file system gets the device" can_hold
refuses "it is not mounted twice" "is mounted on $mnt" "$gpu4fs" mount "$loop" "$work/other"
refuses "nor its file" "is mounted on" "$gpu4fs" mount "$file" "$work/other"

# umount(8) returns when the image is clean.
unmounts_clean() {
	local round
	for round in $(seq 10); do
		head -c 3000000 /dev/urandom >"$mnt/file$round" && mkdir "$mnt/dir$round" && touch "$mnt/dir$round"/{a,b,c} || return 1
		umount "$mnt" || return 1
		can_hold || { echo "round $round: somebody still has the device" && return 1; }
		clean_now || { echo "in round $round" && return 1; }
		quietly "$gpu4fs" mount -o commit=3600 "$loop" "$mnt" || return 1
	done
}
check "umount(8) ten times: clean, free, and mounted again without a word" unmounts_clean
check "gpu4fs umount twenty times while somebody runs df" \
	unmounts_beside_df quietly "$gpu4fs" mount -o commit=3600 "$loop" "$mnt"

kill_server() {
	local server
	server=$(server_pid) && kill -KILL "$server" || return 1
	while grep -q "FLOCK .* $server " /proc/locks || [[ $(stat --file-system "$mnt" 2>&1) != *"not connected"* ]]; do
		sleep 0.05
	done
}
survives() { # survives NAME COMMAND...: a file that is written, and COMMAND, outlive the server
	local name=$1
	shift
	head -c 3000000 /dev/urandom >"$work/wanted"
	cp "$work/wanted" "$mnt/$name" && "$@" && kill_server && umount "$mnt" && quietly "$gpu4fs" mount -o commit=3600 "$loop" "$mnt" &&
		cmp "$work/wanted" "$mnt/$name"
}
if forwards_sync; then
	check "what syncfs(2) returned for outlives a server that is killed" survives one sync -f "$mnt"
	check "what sync(2) returned for does, too" survives two sync
else
	echo "skipped: this kernel does not forward sync(2), Linux 6.18 does"
fi

kill_server
refuses "after the server was killed the kernel keeps the device" "is mounted on $mnt" "$gpu4fs" fsck -y "$loop"
check "a mount elsewhere takes that away" "$gpu4fs" mount "$loop" "$work/other"
check_not "... altogether" mountpoint -q "$mnt"
umount "$work/other"

mount_image
touch "$mnt/late"
server=$(server_pid)
kill -TERM "$server"
wait_pid "$server"
check "SIGTERM ends it clean" clean_now
mount_image
check "... with what was written last" test -e "$mnt/late"
exec 3>"$mnt/busy"
check_not "umount(8) of a mount in use is refused" umount "$mnt"
server=$(server_pid)
kill -TERM "$server"
wait_pid "$server"
exec 3>&-
check "SIGTERM ends a mount that is in use, too" clean_now

mount_image
exec 3>"$mnt/lazy"
echo "written after umount -l" >&3
check "umount -l" umount --lazy "$mnt"
echo "and this" >&3
exec 3>&-
mount_image
same "everything is there that was written until its last file was closed" 2 "$(wc -l <"$mnt/lazy")"
check "remount,ro" mount -i -o remount,ro "$mnt"
check_not "... is" touch "$mnt/new"
check "remount,rw" "$gpu4fs" mount -o remount,rw "$loop" "$mnt"
check "... is, too" touch "$mnt/new"
kill -STOP "$(server_pid | tee "$work/server")"
check "umount -f takes it away from a server that does not answer" timeout 600 umount -f "$mnt"
kill -CONT "$(<"$work/server")"
until can_hold 2>/dev/null; do
	sleep 0.05
done
"$gpu4fs" fsck -y "$loop" >"$work/out" 2>&1
mount_image ro
same "read-only" "ro" "$(findmnt -n -o OPTIONS "$mnt" | cut -d, -f1)"
check "umount(8)" umount "$mnt"
check "fsck finds nothing" clean_now
finish
