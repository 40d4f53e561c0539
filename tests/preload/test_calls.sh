#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls whose meaning crosses processes, descriptors and threads (calls.py), and what is about the numbers of descriptors (numbers.py),
# through the library and through the mount alone: both give the same.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
programs=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export PYTHONDONTWRITEBYTECODE=yes

# subtests COMMAND...: its lines are ours
subtests() {
	"$@" >"$work/lines" 2>"$work/errors" || failures=$((failures + 1))
	cat "$work/lines"
	grep -q "^ok" "$work/lines" || not_ok "the program ran"
	sed 's/^/#   /' "$work/errors"
}

make_image
mount_shared
mkdir "$mnt/library" "$mnt/mount"
chmod 755 "$work"
for program in calls numbers; do
	subtests run python3 "$programs/$program.py" "$mnt/library"
	subtests python3 "$programs/$program.py" "$mnt/mount" | sed 's/^ok - /ok - without the library: /'
done
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
