#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs in-process, ext4 on MD and Btrfs on the disks of a virtual machine, in turns, level by level: for where the kernel has no MD. The
# machine has a Debian kernel and its processors are emulated (no KVM), so its figures are no computer's: ratios and CPU seconds count.
# Usage: raid_guest.sh RESULTS   writes RESULTS/PEER.ROUND, what raid_bench printed. By raid.sh --parts=guest, which has set the variables:
#   build      where gpu4fs is built; the kernel and mdadm, which are downloaded once, stay there beside what tests/nvme/guest.sh has
#   work       a folder for six images of disk_mib MiB, sparse; memory is best
#   rounds, levels, options   of raid_guest_init.sh
# Without what it needs it says so in a line and ends with 77.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
: "${build:?}" "${work:?}" "${rounds:?}" "${levels:?}" "${options:?}" "${disk_mib:?}"
results=$(realpath "$1")
# shellcheck source=tests/nvme/machine.sh
. "$here/../tests/nvme/machine.sh"
need qemu-system-x86_64 setpriv busybox dpkg-deb apt-get mkfs.btrfs mkfs.ext4
mkdir -p "$build/tests/nvme-guest"
cd "$build/tests/nvme-guest"
exec 9>lock
flock 9 # one at a time in a build
fetch_kernel 300
fetch mdadm mdadm 300

# in an order in which each finds what it needs
modules=(crc32c_generic crc32c-intel libcrc32c xor raid6_pq async_tx async_memcpy async_xor async_pq async_raid6_recov blake2b_generic
	xxhash_generic zstd_compress crc16 mbcache jbd2 ext4 btrfs md-mod raid0 raid1 raid10 raid456 virtio_ring virtio
	virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk)
new_root "$here/raid_guest_init.sh"
cp "$here/mounts.sh" "$here/raid_peers.sh" root/etc/
add_programs "$(type -P bash)" "$(type -P mkfs.btrfs)" "$(type -P mkfs.ext4)" mdadm/sbin/mdadm "$build/bin/gpu4fs" "$build/bin/raid_bench"
mv root/usr/bin/bash root/bin/
add_modules "${modules[@]}"
printf '%s\n' "${modules[@]}" >root/etc/modules
pack_root "$work/initrd"
drives=()
for disk in 1 2 3 4 5 6; do
	truncate --size "${disk_mib}M" "$work/guest$disk"
	drives+=(-drive "id=d$disk,file=$work/guest$disk,format=raw,if=none,cache=unsafe" -device "virtio-blk-pci,drive=d$disk")
done
# With AVX2, with which everyone makes parity: plain C is the slowest by far where each instruction is emulated.
cpu=max,la57=off
emulate "${G4_GUEST_LIMIT:-1800}" "$PWD/$(find_kernel)" "$work/initrd" "rounds=$rounds levels=$levels options=${options// /;}" -m 2048 \
	"${drives[@]}" </dev/null 9>&- | while IFS= read -r line; do
	line=${line%$'\r'}
	case $line in
	"RESULT "*)
		read -r _ peer line <<<"$line"
		printf '%s\n' "$line" >>"$results/$peer"
		;;
	*) printf '%s\n' "$line" >&2 ;;
	esac
done
