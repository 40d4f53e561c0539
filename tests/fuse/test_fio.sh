#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fio through FUSE and the NVMe driver, on an emulated controller: each block verified. tests/nvme has the same on a drive.
# shellcheck source=tests/fuse/lib.sh
. "$(dirname "$0")/lib.sh"
needs fio

# workload NAME TEXT OPTION...
workload() {
	local name=$1 text=$2
	shift 2
	check "$text" fio --name="$name" --directory="$mnt" --numjobs=2 --ioengine=psync --thread --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
		--randrepeat=1 --allrandrepeat=1 --output-format=terse "$@"
}

file=$image
make_image 128M
image=emu:$file
mount_image
workload mixed "reads and writes anywhere" --rw=randrw --bsrange=4k-64k --size=4M --fsync=32
workload row "in a row" --rw=write --bs=1M --size=8M --end_fsync=1
workload direct "past the kernel's cache" --rw=randwrite --bs=4k --size=2M --direct=1
sum=$(cd "$mnt" && sha256sum ./*)
unmount_image
mount_image
same "all of it is there behind another mount" "$sum" "$(cd "$mnt" && sha256sum ./*)"
unmount_image
image=$file
fsck_image "fsck finds nothing"
finish
