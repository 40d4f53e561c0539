#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# File systems with more groups than one page describes: 504 groups are 30.5 GiB. Images are sparse and hardly take any room.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

fill_groups() { # fill_groups SIZE: space that nothing is written to, so that groups are in use
	fallocate -l "$1" "$mnt/space" && sync "$mnt/space"
}

make_image 8G
check "it grows over the end of a page of descriptors" "$gpu4fs" resize "$image" 40G
fsck_image "fsck finds nothing after that"
check "and over the next one" "$gpu4fs" resize "$image" 63G
fsck_image "fsck finds nothing after that, either"
check "it shrinks" "$gpu4fs" resize "$image" 33G
fsck_image "fsck finds nothing when it has shrunk"
check "within the first page" "$gpu4fs" resize "$image" 29G
fsck_image "fsck finds nothing after that, too"
check "it grows back" "$gpu4fs" resize "$image" 63G

mount_image
check "it can be filled" fill_groups 35G
check "a scrub" "$gpu4fs" scrub start --wait "$mnt"
same "finds no damage" 1 "$(grep -c "no damage\|0 damaged" "$work/out")"
check "removing it" rm "$mnt/space"
unmount_image
fsck_image "fsck finds nothing in what was used"

if ! on_gpu; then
	mount_image
	check "it grows while it is mounted" "$gpu4fs" resize "$mnt" 100G
	check "and can be filled" fill_groups 90G
	unmount_image
	fsck_image "fsck finds nothing at the end"
fi

finish
