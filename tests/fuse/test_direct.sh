#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# O_DIRECT beside the kernel's page cache: readers after a write see it.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image 64M
for options in "" nowriteback; do
	mount_image $options
	check "reads after asynchronous direct writes are not stale (${options:-writeback})" \
		python3 "$here/stale.py" "$mnt/file" 1000
	unmount_image
	fsck_image
done
finish
