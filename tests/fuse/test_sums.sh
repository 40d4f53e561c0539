#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sums of pages: what is not what was written is an error, and the rest of the file is read.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs dd cmp grep python3 setpriv
attribute_programs

damage() { # the page that begins with this word, one bit of it
	python3 - "$image" "$1" <<'END'
import sys
with open(sys.argv[1], "r+b") as image:
    at = image.read().index(sys.argv[2].encode())
    image.seek(at + 1000)
    byte = image.read(1)[0]
    image.seek(at + 1000)
    image.write(bytes([byte ^ 4]))
END
}
page() { # WORD: a page that begins with it
	printf '%-4096s' "$1"
}
reads() { # FILE SKIP COUNT: pages
	dd if="$mnt/$1" of="$work/part" bs=4096 skip="$2" count="$3" 2>/dev/null
}
fails_to_read() {
	! reads "$@"
}

dumped() { # FILE ALGORITHM PAGES: that many entries, and those of CRC-32C are right
	python3 - "$gpu4fs" "$image" "$@" "$work/wanted" <<'END'
import json, subprocess, sys
gpu4fs, image, name, algorithm, pages, wanted = sys.argv[1:]
def dump(*what):
    command = [gpu4fs, "dump", "--json", image, *map(str, what)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
inode = dump("inode", "/" + name)
if "sums_inline" in inode["flags"]:
    assert int(pages) <= 3
    sums = inode["sums"]
elif "sums_block" in inode:
    assert 3 < int(pages) <= 16
    slab = dump("block", inode["sums_block"])
    assert slab["kind"] == "small"
    slot = inode["sums_block"] % 4096 // 256
    sums = [s for s in slab["slots"] if s["slot"] == slot][0]["sums"]
else:
    assert int(pages) > 16
    node = [e for e in dump("map", "/" + name)["extents"] if "level" in e][0]
    page = dump("block", node["sums"][0]["address"])
    assert page["type"] == "checksums" and page["condition"] == "good"
    assert page["quarter"] == 0 and page["inode"] == inode["inode"]
    sums = page["sums"]
assert [s["slot"] for s in sums] == list(range(int(pages))), sums
assert all(s["sum"].startswith(algorithm + ":") for s in sums), sums
table = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
data = open(wanted, "rb").read()
for s in sums[:10] if algorithm == "crc32c" else []:
    crc = 0xFFFFFFFF
    for byte in data[s["slot"] * 4096 : s["slot"] * 4096 + 4096]:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    assert s["sum"] == "crc32c:" + (crc ^ 0xFFFFFFFF).to_bytes(4, "little").hex(), s
END
}

for algorithm in blake3 xxh3 crc32c; do
	check "mkfs --checksum=$algorithm" "$gpu4fs" mkfs -q -f --checksum="$algorithm" --size 64M "$image"
	check "mount" "$gpu4fs" mount "$image" "$mnt"
	for ((i = 0; i < 100; i++)); do page "$algorithm-$i-"; done >"$work/wanted"
	cp "$work/wanted" "$mnt/file"
	head -c 8192 "$work/wanted" >"$mnt/few"
	head -c 40960 "$work/wanted" >"$mnt/some"
	check "umount" "$gpu4fs" umount "$mnt"
	check "dump shows the sums of two pages, in the inode" dumped few "$algorithm" 2
	check "... of ten, in a block" dumped some "$algorithm" 10
	check "... and of a hundred, in a page" dumped file "$algorithm" 100
	check "a flipped bit in the fiftieth page" damage "$algorithm-50-"
	check "fsck has nothing against the metadata" "$gpu4fs" fsck -f -n "$image"
	check "mount" "$gpu4fs" mount "$image" "$mnt"
	check "the page is not read" fails_to_read file 50 1
	check "those before it are" reads file 0 50
	check "... and are right" cmp -n $((50 * 4096)) "$work/part" "$work/wanted"
	check "those behind it are" reads file 51 49
	check "writing over it heals it" dd if="$work/wanted" of="$mnt/file" bs=4096 skip=50 seek=50 count=1 conv=notrunc
	check "umount" "$gpu4fs" umount "$mnt"
	check "mount" "$gpu4fs" mount "$image" "$mnt"
	check "the file is whole" cmp "$mnt/file" "$work/wanted"
	check "umount" "$gpu4fs" umount "$mnt"
done

# A policy of a file and of a directory, in a file system that was made without sums.
as() { # UID COMMAND...
	setpriv --reuid "$1" --clear-groups "${@:2}"
}
is_not_set() {
	! "$@" 2>/dev/null
}
checksum_is() { # WHAT FILE
	[[ $(getfattr --only-values -n gpu4fs.checksum "$mnt/$2" 2>/dev/null) == "$1" ]]
}
check "mkfs" "$gpu4fs" mkfs -q -f --checksum=none --size 64M "$image"
check "mount" "$gpu4fs" mount "$image" "$mnt"
mkdir "$mnt/dir" && cp "$work/wanted" "$mnt/before" && chown 1000 "$mnt/before" "$mnt/dir"
chmod 755 "$work"
check "it is the default at first" checksum_is default dir
check "another user does not set it" is_not_set as 1001 setfattr -n gpu4fs.checksum -v none "$mnt/before"
check "the owner does" as 1000 setfattr -n gpu4fs.checksum -v blake3 "$mnt/before"
check "... and sees it" checksum_is blake3 before
check "what there is not is refused" is_not_set setfattr -n gpu4fs.checksum -v md5 "$mnt/dir"
check "attr set" "$gpu4fs" attr set checksum=xxh3 "$mnt/dir"
check "attr get shows it" grep -q 'checksum *xxh3' <("$gpu4fs" attr get "$mnt/dir")
cp "$work/wanted" "$mnt/dir/file"
check "a new file has it from its directory" checksum_is xxh3 dir/file
cp -a "$mnt/dir/file" "$mnt/copy" 2>"$work/said"
check "cp -a says nothing about it" [ ! -s "$work/said" ]
check "... and copies no policy" checksum_is default copy
for ((i = 0; i < 100; i++)); do page "changed-$i-"; done >"$work/changed"
rm "$mnt/copy"
dd if="$work/changed" of="$mnt/before" bs=4096 count=50 conv=notrunc 2>/dev/null
check "umount" "$gpu4fs" umount "$mnt"
check "fsck" "$gpu4fs" fsck -f -n "$image"
check "a flipped bit in a page that was written since" damage "changed-20-"
check "mount" "$gpu4fs" mount "$image" "$mnt"
check "it is found" fails_to_read before 20 1
check "the rest is read" reads before 21 79
check "the policy is still there" checksum_is blake3 before
check "the directory's, too" checksum_is xxh3 dir
check "umount" "$gpu4fs" umount "$mnt"
finish
