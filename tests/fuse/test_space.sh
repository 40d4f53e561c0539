#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Space on a mount: fstrim(8) and -o discard give it back to what an image lies on, gpu4fs map says where files are, and
# df -i does not count what is not counted.
# Of cli/cmd_map.c.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs fstrim python3

allocated_mib() { # what the image takes on its disk
	du -m "$image" | cut -f1
}
below() { # below MIB: what the image takes
	(($(allocated_mib) < $1)) || { allocated_mib && false; }
}

make_image 512M
mount_image
head -c 100M /dev/urandom >"$mnt/large"
head -c 3M /dev/urandom >"$mnt/kept"
sync "$mnt/large" "$mnt/kept"
sum=$(sha256sum <"$mnt/kept")
rm "$mnt/large"
same "what was removed still takes space" yes "$( (($(allocated_mib) >= 100)) && echo yes)"
if ((UID == 0)); then
	check "fstrim works" fstrim -v "$mnt"
	same "fstrim says how much" yes "$(grep -q '[0-9.]* MiB' "$work/out" && echo yes)"
	trimmed() { # the kernel tells the server that it has let go of the removed file when it likes
		local tries=100
		until below 40 >/dev/null; do
			((tries-- > 0)) || return 1
			sleep 0.1
			fstrim "$mnt"
		done
	}
	check "the image shrinks" trimmed
	if id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
		chmod 755 "$work"
		refuses "fstrim is not for everybody" "not permitted" setpriv --reuid=nobody --clear-groups fstrim "$mnt"
	fi
fi
same "what was kept is whole" "$sum" "$(sha256sum <"$mnt/kept")"
unmount_image
fsck_image "fsck after fstrim finds nothing"

mount_image discard,commit=1
head -c 100M /dev/urandom >"$mnt/large"
sync "$mnt/large"
same "a file takes space again" yes "$( (($(allocated_mib) >= 100)) && echo yes)"
rm "$mnt/large"
unmount_image
check "with -o discard the image has shrunk when it is unmounted" below 40
fsck_image "fsck after -o discard finds nothing"

mount_image discard,commit=1
same "what was kept is whole, still" "$sum" "$(sha256sum <"$mnt/kept")"
head -c 64M /dev/urandom >"$mnt/large"
sync "$mnt/large"
rm "$mnt/large"
shrinks() { # within the commit interval and what it takes: no time is promised, so wait for it to happen
	local tries=600
	until below 40 >/dev/null; do
		((tries-- > 0)) || return 1
		sleep 0.1
	done
}
check "it shrinks while it is mounted" shrinks

# where files lie
printf 'tiny' >"$mnt/tiny"
truncate -s 64M "$mnt/holes"
printf 'x' | dd of="$mnt/holes" bs=1 seek=40M conv=notrunc status=none
fallocate -n -o 50M -l 8K "$mnt/holes"
check "map lists files" "$gpu4fs" map "$mnt/tiny" "$mnt/holes" "$mnt/kept"
same "a small file is in its inode" 1 "$(grep -c ' inline$' "$work/out")"
same "allocated space is unwritten" 1 "$(grep -c ' 8192 .* unwritten$' "$work/out")"
"$gpu4fs" map --json "$mnt/holes" "$mnt/kept" >"$work/map.json"
check "map --json says the same as the device" python3 - "$work/map.json" "$image" "$mnt/kept" <<'PYTHON'
import json, sys
files = json.load(open(sys.argv[1]))["files"]
image = open(sys.argv[2], "rb")
holes, kept = files[0]["extents"], files[1]["extents"]
written = [e for e in holes if "unwritten" not in e["flags"]]
assert [(e["offset"], e["length"]) for e in written] == [(40 << 20, 4096)], holes
assert sum(e["length"] for e in kept) == 3 << 20, kept
found = b""
for extent in kept:
    assert extent["offset"] == len(found)
    image.seek(extent["address"])
    found += image.read(extent["length"])
assert found == open(sys.argv[3], "rb").read()
PYTHON
cp "$mnt/kept" "$mnt/kept.copy"
check "map of a copy" "$gpu4fs" map "$mnt/kept" "$mnt/kept.copy"
same "... says that all of it is shared" "0" "$(grep ' [0-9]' "$work/out" | grep -vc 'shared$')"
rm "$mnt/kept.copy"
check "map of what was copied" "$gpu4fs" map "$mnt/kept"
same "... when the copy has gone" 0 "$(grep -c 'shared$' "$work/out")"
same "many extents come in several pieces" 300 "$(
	python3 - "$mnt/comb" <<'PYTHON'
import os, sys
with open(sys.argv[1], "wb") as file:
    for i in range(300):
        os.pwrite(file.fileno(), b"x" * 4096, i * 12288)
PYTHON
	"$gpu4fs" map --json "$mnt/comb" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["files"][0]["extents"]))'
)"
refuses "map of a file elsewhere says so" "on no gpu4fs file system" "$gpu4fs" map "$gpu4fs"
refuses "map of a directory is refused" "irectory" "$gpu4fs" map "$mnt"

same "df -i counts no inodes" "0 0" "$(df --output=itotal,iused "$mnt" | awk 'NR == 2 { print $1, $2 }' | sed 's/-/0/g')"
unmount_image
fsck_image "fsck finds nothing"

mount_image ro
if ((UID == 0)); then
	refuses "fstrim of a read-only mount is refused" "read-only" fstrim "$mnt"
fi
unmount_image
finish
