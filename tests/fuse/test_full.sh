#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full file system behind the kernel's write-back cache: writers learn of it, and whoever unmounts.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs dd python3 timeout

make_image 32M
mount_image

# The writer goes on until it is told: the kernel's cache would take all of it.
fill() {
	timeout 1200 dd if=/dev/zero of="$mnt/big" bs=1M count=8192 oflag=append conv=notrunc
}
refuses "a writer is stopped by ENOSPC, not by its own end" "error writing.*No space left" fill
check "there is room again" rm "$mnt/big"
check "and writing works" python3 - "$mnt/small" <<'PYTHON'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for page in range(512):
    os.write(fd, bytes([page % 251]) * 4096)
os.fsync(fd)
assert os.pread(fd, 1, 511 * 4096) == bytes([511 % 251])
assert os.pread(fd, 1, 512 * 4096) == b""
PYTHON
same "what was written is there" 2097152 "$(stat -c %s "$mnt/small")"
refuses "unmounting says that data was lost" "not everything could be written" "$gpu4fs" umount "$mnt"
fsck_image
mount_image
check "a mount in which nothing is lost" cp "$mnt/small" "$mnt/copy"
unmount_image "unmounts without complaint"
finish
