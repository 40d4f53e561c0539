#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls of the C library, one after another (every_call.c): through the library they give what they give on a tmpfs, with a server's socket
# and with an image that is mounted for the time.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
every_call=$(dirname "$gpu4fs")/../tests/preload_every_call
[[ -x $every_call ]] || skip "$every_call is not built"
[[ $(stat -f -c %T /dev/shm) == tmpfs && -w /dev/shm ]] || skip "/dev/shm is no tmpfs"

# group NAME FILE: the lines of one group of calls
group() {
	sed -n "/^== $1\$/,/^== /p" "$2" | grep -v '^== '
}

# compare TEXT FILE: with the calls on a tmpfs
compare() {
	local name
	while read -r _ name; do
		if [[ -n $(group "$name" "$2") ]] && diff <(group "$name" "$work/tmpfs.calls") <(group "$name" "$2") >"$work/out"; then
			ok "$1: $name"
		else
			not_ok "$1: $name"
			sed 's/^/#   /' "$work/out"
		fi
	done < <(grep '^== ' "$work/tmpfs.calls")
}

plain=$(mktemp -d /dev/shm/gpu4fs-test.XXXXXX)
"$every_call" "$plain" >"$work/tmpfs.calls"
rm -rf "$plain"
same "all groups ran" 17 "$(grep -c '^== ' "$work/tmpfs.calls")"

make_image
mount_shared
mkdir "$mnt/library" "$mnt/mount"
"$every_call" "$mnt/mount" >"$work/mount.calls"
compare "the mount" "$work/mount.calls"
run --trace "$every_call" "$mnt/library" >"$work/library.calls" 2>"$work/trace"
compare "the library" "$work/library.calls"
# that it did not leave them to the mount
engine_did() { # shellcheck disable=SC2317 # check() calls it
	[[ $(awk -v f="$1" '$1 == f { found = $2 } END { print found + 0 }' "$work/trace") -gt 0 ]]
}
for function in open read write pwrite readv writev preadv pwritev stat fstat statx mkdir unlink rename symlink readlink chmod truncate \
	getxattr copy_file_range; do
	check "$function was the engine's" engine_did "$function"
done
unmount_image
mkdir "$work/for-a-time"
# shellcheck disable=SC2016 # the inner shell expands it
"$gpu4fs" run -m "$image=$work/for-a-time" sh -c 'mkdir "$2" && exec "$1" "$2"' sh "$every_call" "$work/for-a-time/image" \
	>"$work/image.calls"
compare "an image" "$work/image.calls"
check "the image is clean" "$gpu4fs" fsck "$image"
finish
