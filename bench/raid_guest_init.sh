#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process of the machine that raid_guest.sh makes: measures the peers on the machine's disks, and switches it off. The kernel's
# command line, which is the environment here, has rounds, levels (with commas) and options (of raid_bench, with semicolons).
export PATH=/usr/bin:/bin HOME=/tmp work=/tmp build=/usr MDADM_NO_UDEV=1
# shellcheck source=bench/mounts.sh
. /etc/mounts.sh
# shellcheck source=bench/raid_peers.sh
. /etc/raid_peers.sh
# shellcheck disable=SC2034 # raid_peers.sh uses it
disks=(/dev/vda /dev/vdb /dev/vdc /dev/vdd /dev/vde /dev/vdf)
if [[ ${1:-} == remount ]]; then
	remount_disks "$2" >>"$work/log" 2>&1
	exit
fi
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/mounts /etc/mtab
mkdir -p /tmp/mnt /run/mdadm
while read -r module; do
	[[ ! -e /lib/modules/$module.ko ]] || insmod "/lib/modules/$module.ko"
done </etc/modules
for ((round = 1; round <= ${rounds:-1}; round++)); do
	# shellcheck disable=SC2154 # from the kernel's command line
	for level in ${levels//,/ }; do
		peers=("gpu4fs-$level" "md-$level" "btrfs-$level")
		for ((i = 0; i < 3; i++)); do
			peer=${peers[(i + round) % 3]}
			echo "GUEST: round $round, $peer"
			echo 3 >/proc/sys/vm/drop_caches # whoever was before leaves no full memory behind
			# twice: a set's parity on a device that is not empty is made before a region's first write, MD's not at all (--assume-clean)
			# shellcheck disable=SC2086,SC2154 # words
			if measure "$peer" /tmp/result 2 /init raid_bench ${options//;/ }; then
				sed "s/^/RESULT $peer.$round /" /tmp/result
			else
				echo "GUEST: $peer failed"
				detach "$peer"
			fi
		done
	done
done
echo "GUEST: done"
sleep 1 # the console's last lines
echo b >/proc/sysrq-trigger
