#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shared writable mappings: coherent with read and write, kept after the file is closed and after a remount.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image
mount_image
cd "$mnt" || exit 1

check "a mapping and read() see each other" python3 - <<'PYTHON'
import mmap, os
SIZE = 1 << 20
fd = os.open("coherent", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, SIZE)
m = mmap.mmap(fd, SIZE, mmap.MAP_SHARED)
m[5000:5005] = b"hello"
assert os.pread(fd, 5, 5000) == b"hello"
os.pwrite(fd, b"world", 9000)
assert m[9000:9005] == b"world"
m.flush()
PYTHON
check "two processes share a mapping" python3 - <<'PYTHON'
import mmap, os
fd = os.open("shared", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
m = mmap.mmap(fd, 8192, mmap.MAP_SHARED)
child = os.fork()
if child == 0:
    other = mmap.mmap(os.open("shared", os.O_RDWR), 8192, mmap.MAP_SHARED)
    other[4096] = 42
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert m[4096] == 42
PYTHON
check "a mapping outlives the descriptor" python3 - <<'PYTHON'
import mmap, os
SIZE = 4 << 20
fd = os.open("late", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, SIZE)
m = mmap.mmap(fd, SIZE, mmap.MAP_SHARED)
os.close(fd)
for at in range(0, SIZE, 4096):
    m[at:at + 8] = at.to_bytes(8, "little")
m.close()
PYTHON
check "O_DIRECT and a mapping on one file" python3 - <<'PYTHON'
import mmap, os
fd = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20, mmap.MAP_SHARED)
m[0:4096] = b"m" * 4096
m.flush()
page = mmap.mmap(-1, 4096)
assert os.preadv(fd, [page], 0) == 4096 and page[:] == b"m" * 4096
PYTHON
unmount_image
fsck_image
mount_image
cd "$mnt" || exit 1
check "what mappings wrote is there after a remount" python3 - <<'PYTHON'
data = open("late", "rb").read()
assert len(data) == 4 << 20
for at in range(0, len(data), 4096):
    assert data[at:at + 8] == at.to_bytes(8, "little"), at
assert open("coherent", "rb").read()[5000:5005] == b"hello"
PYTHON
unmount_image
finish
