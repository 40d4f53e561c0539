#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kernel stamps what is written through its cache, the engine all else: no one must see that they are two.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image 64M
mount_image
mkdir "$mnt/d"
check "what happens later is not older" python3 "$here/times.py" "$mnt/d"
unmount_image
mount_image nowriteback
mkdir "$mnt/e"
check "nor without the write-back cache" python3 "$here/times.py" "$mnt/e"
unmount_image
fsck_image
finish
