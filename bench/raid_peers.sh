# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sets of disks of one file system after the other, for raid.sh and raid_guest_init.sh, which source this behind mounts.sh. A peer is
# SYSTEM-LEVEL or SYSTEM-LEVEL-STRIPE: gpu4fs in this process, btrfs, or md (ext4 on MD). Disks are the block devices of disks, or, where
# that is empty, the files disk1 to disk6 of $work, with loop devices (in $work/loops) for what is in the kernel.
: "${work:=}" "${build:=}" "${loop_options[@]?}"
disks=()
job=

disks_of() {
	case $1 in
	*-one | *-one-*) echo 1 ;;
	*-6 | *-6-*) echo 6 ;;
	*) echo 4 ;;
	esac
}

# Of a peer's disks, into names.
names_of() {
	local count i
	count=$(disks_of "$1")
	names=()
	if [[ ${#disks[@]} -gt 0 ]]; then
		names=("${disks[@]:0:count}")
	elif [[ $1 == gpu4fs-* ]]; then
		for ((i = 1; i <= count; i++)); do
			names+=("$work/disk$i")
		done
	else
		mapfile -t names <"$work/loops"
	fi
}

mount_disks() {
	local names
	names_of "$1"
	case $1 in
	btrfs-*) mount -t btrfs -o nodiscard "${names[0]}" "$work/mnt" ;;
	md-one) mount -t ext4 "${names[0]}" "$work/mnt" ;;
	md-*) mount -t ext4 /dev/md0 "$work/mnt" ;;
	esac
}

remount_disks() {
	unmount_peer "$1" && mount_disks "$1"
}

attach() {
	local disk
	[[ $1 != gpu4fs-* && ${#disks[@]} -eq 0 ]] || return 0
	: >"$work/loops"
	for ((disk = 1; disk <= $(disks_of "$1"); disk++)); do
		losetup --find --show "${loop_options[@]}" "$work/disk$disk" >>"$work/loops" || return 1
	done
}

detach() {
	local loop
	unmount_peer "$1" || return 1
	if [[ -e /dev/md0 && ${#disks[@]} -gt 0 ]]; then
		mdadm --quiet --stop /dev/md0 || return 1
	fi
	[[ -e $work/loops ]] || return 0
	while read -r loop; do
		loop_is_free "$loop" || losetup --detach "$loop" || return 1
		wait_for 30 loop_is_free "$loop" || return 1
	done <"$work/loops"
	rm "$work/loops"
}

# MD's defaults, but for its first synchronisation, which is left out. Its level 1 has a copy on each disk: level 10 has two, as ours and
# Btrfs's level 1 have.
format_disks() {
	local level stripe names options=() device=/dev/md0
	IFS=- read -r _ level stripe <<<"$1"
	names_of "$1"
	case $1 in
	gpu4fs-*)
		[[ $level == one ]] || options+=(--raid="$level")
		[[ -z $stripe ]] || options+=(--stripe="$stripe")
		"$build/bin/gpu4fs" mkfs --force --quiet --checksum=none "${options[@]}" "${names[@]}"
		;;
	md-*)
		if [[ $level == one ]]; then
			device=${names[0]}
		else
			[[ $level != 1 ]] || level=10
			mdadm --quiet --create "$device" --run --force --assume-clean --level="$level" --raid-devices="${#names[@]}" \
				"${names[@]}" || return 1
		fi
		mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$device"
		;;
	btrfs-one) mkfs.btrfs -q -f -K -d single -m single "${names[@]}" ;;
	btrfs-0) mkfs.btrfs -q -f -K -d raid0 -m raid0 "${names[@]}" ;;
	btrfs-1) mkfs.btrfs -q -f -K -d raid1 -m raid1 "${names[@]}" ;;
	btrfs-10) mkfs.btrfs -q -f -K -d raid10 -m raid10 "${names[@]}" ;;
	btrfs-5) mkfs.btrfs -q -f -K -d raid5 -m raid1 "${names[@]}" ;;
	btrfs-6) mkfs.btrfs -q -f -K -d raid6 -m raid1c3 "${names[@]}" ;;
	esac
}

# run_on PEER FILE REMOUNT PROGRAM...: with what PEER needs behind it: the set, or the directory and the command that mounts it anew
run_on() {
	local names words=("${@:4}") status=0
	names_of "$1"
	if [[ $1 == gpu4fs-* ]]; then
		words+=("$(IFS=, && echo "${names[*]}")")
	else
		words+=("--remount=$3 remount $1" "$work/mnt")
	fi
	set -m # a process group of its own, so that an interrupt ends all of it
	"${words[@]}" >"$2" 2>>"$work/log" </dev/null &
	job=$!
	set +m
	wait "$job" || status=1
	job=
	return "$status"
}

# measure PEER FILE TIMES REMOUNT PROGRAM...: on a set that is formatted now; the last of so many times counts. It says what failed.
measure() {
	local times
	attach "$1" || return 1
	if ! { format_disks "$1" && mount_disks "$1"; } >>"$work/log" 2>&1; then
		say "$1 can not be formatted and mounted; the last lines that were written:"
	else
		for ((times = $3; times > 0; times--)); do
			run_on "$1" "$2" "${@:4}" || break
		done
		[[ $times -gt 0 ]] || { detach "$1" >>"$work/log" 2>&1 && return || return 1; }
		say "the workload failed on $1; the last lines that were written:"
	fi
	rm -f "$2"
	tail -n 10 "$work/log" >&2
	return 1
}
