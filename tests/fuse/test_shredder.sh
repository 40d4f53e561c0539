#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shredder on a mount: a repository there, what is saved from there, and a restore onto it, also after a remount.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
shredder=${SHREDDER:-$(dirname "$gpu4fs")/shredder}
[[ -x $shredder ]] || skip "shredder is not built"

make_image 1G
mount_image
head -c 64 /dev/urandom >"$work/key"
export SHREDDER_REPOSITORY=$mnt/repo SHREDDER_KEY_FILE=$work/key XDG_STATE_HOME=$work/state
python3 - "$mnt/tree" <<'PYTHON'
"""Directories, small files, one that a restore writes past the page cache, holes, links, attributes."""
import os, random, sys

top = sys.argv[1]
numbers = random.Random(1)
for i in range(500):
    folder = f"{top}/{i % 7}/{i % 3}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{i}", "wb") as file:
        file.write(b"line %d\n" % i * (i % 90))
with open(f"{top}/large", "wb") as file:
    for _ in range(70):
        file.write(numbers.randbytes(1 << 20))
    file.write(b"the end is no block's")
with open(f"{top}/holes", "wb") as file:
    file.write(b"begin")
    file.seek(50_000_000)
    file.write(numbers.randbytes(100_000))
    file.truncate(80_000_001)
os.link(f"{top}/large", f"{top}/0/same")
os.symlink("../large", f"{top}/0/link")
os.mkfifo(f"{top}/fifo")
os.setxattr(f"{top}/holes", "user.name", b"value\0")
os.chmod(f"{top}/1", 0o1750)
for folder, names, files in os.walk(top):
    for name in names + files:
        os.utime(os.path.join(folder, name), ns=(0, numbers.randrange(10**18)), follow_symlinks=False)
PYTHON
manifest() {
	python3 "$here/../shredder/manifest.py" "$1"
}
value() { # value EXPRESSION COMMAND...: of the JSON that it prints
	local expression=$1
	shift
	"$@" | python3 -c "import json, sys; d = json.load(sys.stdin); print($expression)"
}
manifest "$mnt/tree" >"$work/wanted"
sleep 2.1 # files that changed within two seconds are read again
check "init" "$shredder" init --parity 1
check "a backup of a mount into itself" "$shredder" backup "$mnt/tree"
check "... is whole" "$shredder" check --read-data
check "a restore onto it" "$shredder" restore "latest:$mnt/tree" --target "$mnt/out" --verify
manifest "$mnt/out" >"$work/found"
check "... is the same bit for bit, with all metadata" diff "$work/wanted" "$work/found"
printf x | dd of="$mnt/out/large" bs=1 seek=12345678 conv=notrunc 2>/dev/null
check "a restore over a change" "$shredder" restore "latest:$mnt/tree" --target "$mnt/out"
manifest "$mnt/out" >"$work/found"
check "... mends it" diff "$work/wanted" "$work/found"
unmount_image
fsck_image
mount_image
check "after a remount it is whole" "$shredder" check --read-data
same "what has not changed is not read" "0 503" "$(value 'd["read_bytes"], d["unchanged_files"]' "$shredder" backup --json "$mnt/tree" | tr -d '(),')"
rm "$mnt/tree/large" "$mnt/tree/0/same"
check "a backup of less" "$shredder" backup "$mnt/tree"
check "forget and prune" "$shredder" forget --keep-last 1 --prune
same "... make it smaller" True "$(value 'd["pack_bytes"] < 10000000' "$shredder" stats --json)"
check "... and it is whole" "$shredder" check --read-data
unmount_image
fsck_image
finish
