# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, mounting and cleaning up one file system after the other, for the scripts of bench/, which source this:
# inprocess, fuse, preload (gpu4fs run), ext4, xfs, btrfs or passthrough_hp, and with sums inprocess-ALGORITHM and btrfs-ALGORITHM, on $image. In the folder $work are mnt, lower, and while they are
# in use loop (a device) and server (a process id); log gets what programs say. gpu4fs is in $build/bin.
: "${work:=}" "${image:=}" "${build:=}"
loop_options=(--direct-io=on) # no data is cached twice
ext4_options=() xfs_options=() # more of them, for mkfs
served_with=()		 # options of a mount of gpu4fs
served=			      # what gpu4fs mounts, if it is not the image by its path
job=			      # the process group of what runs in the background
passthrough_hp=${PASSTHROUGH_HP:-}
[[ -n $passthrough_hp ]] || passthrough_hp=$(type -P passthrough_hp) || passthrough_hp=

say() {
	printf 'bench: %s\n' "$*" >&2
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
	local tenths=$(($1 * 10))
	shift
	while ! "$@"; do
		((tenths-- > 0)) || return 1
		sleep 0.1
	done
}

server_ended() {
	[[ ! -e /proc/$(<"$work/server") ]]
}

# mountpoint(1) would ask the file system itself, which may have failed.
mounted() {
	grep -qF -- " ${1// /\\040} " /proc/self/mountinfo
}

mounted_or_ended() {
	mounted "$work/mnt" || server_ended
}

# serve COMMAND...: starts a FUSE server and waits for its mount.
serve() {
	"$@" >>"$work/log" 2>&1 </dev/null &
	echo $! >"$work/server"
	wait_for 60 mounted_or_ended && mounted "$work/mnt"
}

mount_peer() {
	local loop=

	if [[ -e $work/loop ]]; then loop=$(<"$work/loop"); fi
	case $1 in
	fuse) serve "$build/bin/gpu4fs" mount -f "${served_with[@]}" "${served:-$image}" "$work/mnt" ;;
	preload) serve "$build/bin/gpu4fs" mount -f -o socket="$work/socket" "$image" "$work/mnt" && wait_for 60 test -S "$work/socket" ;;
	btrfs | btrfs-*) mount -t btrfs -o nodiscard "$loop" "$work/mnt" ;;
	ext4 | xfs) mount -t "$1" "$loop" "$work/mnt" ;;
	passthrough_hp)
		mount -t ext4 "$loop" "$work/lower" &&
			serve "$passthrough_hp" --foreground "$work/lower" "$work/mnt"
		;;
	esac
}

unmount_peer() {
	local at
	for at in "$work/mnt" "$work/lower"; do
		if mounted "$at"; then
			wait_for 10 umount "$at" || return 1
		fi
	done
	if [[ -e $work/server ]]; then
		wait_for 120 server_ended || return 1
		rm "$work/server"
	fi
}

# Formatting must not punch holes into the image file.
format_peer() {
	local loop
	case $1 in
	inprocess | fuse | preload) "$build/bin/gpu4fs" mkfs --force --quiet --checksum=none "$image" && return || return 1 ;;
	inprocess-*) "$build/bin/gpu4fs" mkfs --force --quiet --checksum="${1#*-}" "$image" && return || return 1 ;;
	esac
	loop=$(losetup --find --show "${loop_options[@]}" "$image") || return 1
	echo "$loop" >"$work/loop"
	[[ ${#loop_options[@]} -eq 0 || $(losetup --noheadings --output DIO "$loop") -eq 1 ]] ||
		say "warning: $loop goes through the host's page cache"
	case $1 in
	ext4 | passthrough_hp) mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "${ext4_options[@]}" "$loop" ;;
	xfs) mkfs.xfs -q -f -K "${xfs_options[@]}" "$loop" ;;
	btrfs) mkfs.btrfs -q -f -K "$loop" ;;
	btrfs-*) mkfs.btrfs -q -f -K --csum "${1#*-}" "$loop" ;;
	esac
}

loop_is_free() {
	[[ ! -e /sys/block/${1##*/}/loop/backing_file ]]
}

# A device that is still in use is detached later, when the next file system would already be in the image.
release_peer() {
	local loop
	unmount_peer || return 1
	if [[ -e $work/loop ]]; then
		loop=$(<"$work/loop")
		loop_is_free "$loop" || losetup --detach "$loop" || return 1
		if ! wait_for 30 loop_is_free "$loop"; then
			say "$loop is still in use"
			return 1
		fi
		rm "$work/loop"
	fi
}

# missing PEER: says why it cannot be measured, in words; nothing when it can.
missing() {
	case $1 in
	fuse | preload | passthrough_hp)
		(exec 3<>/dev/fuse) 2>/dev/null || { echo "/dev/fuse is missing" && return; }
		;;&
	ext4 | xfs | btrfs | btrfs-* | passthrough_hp)
		losetup --find >/dev/null 2>&1 || { echo "there are no loop devices" && return; }
		;;&
	ext4 | xfs | btrfs | btrfs-*)
		local type=${1%%-*}
		[[ -n $(type -P "mkfs.$type") ]] || { echo "mkfs.$type is missing" && return; }
		grep -qw "$type" /proc/filesystems || modprobe "$type" 2>/dev/null || echo "this kernel has no $type"
		;;
	passthrough_hp)
		[[ -n $passthrough_hp ]] || echo "it is no installed program; name it in PASSTHROUGH_HP"
		;;
	esac
}

# choose_peers NAME,...: those that can be had, into peers; of the others it says why not.
choose_peers() {
	local list peer reason
	peers=()
	IFS=, read -ra list <<<"$1"
	for peer in "${list[@]}"; do
		reason=$(missing "$peer")
		if [[ -n $reason ]]; then
			say "$peer is left out: $reason"
		else
			peers+=("$peer")
		fi
	done
}

# fill_image MIB
fill_image() {
	say "writing $1 MiB of random data, so that the host allocates nothing later"
	dd if=/dev/urandom of="$image" bs=1M count="$1" conv=fsync status=none
}

# For a trap on EXIT: ends $job, leaves nothing mounted and removes $work. tmpfs, in it, is a mount of the caller's.
# shellcheck disable=SC2317 # called by trap
clean_up() {
	local status=$?
	trap '' INT TERM
	set +e
	if [[ -n $job ]]; then
		kill -TERM -- "-$job" 2>/dev/null
		wait "$job" 2>/dev/null
	fi
	release_peer >/dev/null 2>&1
	if [[ -e $work/server ]]; then
		kill -KILL "$(<"$work/server")" 2>/dev/null
		umount --lazy "$work/mnt" 2>/dev/null
		release_peer >/dev/null 2>&1
	fi
	if mounted "$work/tmpfs"; then
		wait_for 10 umount "$work/tmpfs" 2>/dev/null
	fi
	if mounted "$work/mnt" || mounted "$work/lower" || mounted "$work/tmpfs" || [[ -e $work/loop ]]; then
		say "$work is still in use"
		exit 1
	fi
	rm -rf --one-file-system "$work"
	exit "$status"
}
