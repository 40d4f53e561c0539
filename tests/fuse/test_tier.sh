#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The second tier of the cache: small files that lie side by side come with one another, and are what was written last.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

# On a GPU there is only a tier that is asked for, in the host's memory.
tier=
! on_gpu || tier=tier=64M

files=300

write_all() { # VERSION
	python3 - "$mnt" "$1" "$files" <<'PYTHON'
import sys
for i in range(int(sys.argv[3])):
    with open(f"{sys.argv[1]}/file-{i}", "wb") as file:
        file.write(f"{sys.argv[2]} {i} ".encode() * 1000)
PYTHON
	sync -f "$mnt/file-0"
}

read_all() { # VERSION
	python3 - "$mnt" "$1" "$files" <<'PYTHON'
import sys
for i in range(int(sys.argv[3])):
    with open(f"{sys.argv[1]}/file-{i}", "rb") as file:
        assert file.read() == f"{sys.argv[2]} {i} ".encode() * 1000, i
PYTHON
}

count() {
	"$gpu4fs" info --json "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["tier"][sys.argv[1]])' "$1"
}

make_image 256M
mount_image "$tier"
write_all old
unmount_image
mount_image "$tier"
check "files of a few pages are read" read_all old
ahead=$(count reads_ahead)
check "... most of them with others ($ahead reads of many, $(count hits) pages found)" \
	test "$ahead" -gt 0 -a "$ahead" -lt $((files / 4)) -a "$(count hits)" -gt "$files"
write_all new
check "what is written over them is read" read_all new
rm "$mnt"/file-*[02468]
write_all last
unmount_image
mount_image "$tier"
check "and what is written in place of removed ones" read_all last
unmount_image
mount_image tier=0
check "without a tier, too" read_all last
same "... which there is none of" "0 0" "$(count size_bytes) $(count hits)"
unmount_image
fsck_image
finish
