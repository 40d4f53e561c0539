#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files and directories that are used after their last name is gone; their room comes back when they are let go.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image 256M
mount_image
cd "$mnt" || exit 1
sync -f .
before=$(stat -f -c %f .)

check "an open file lives on without a name" python3 - <<'PYTHON'
import os
fd = os.open("gone", os.O_RDWR | os.O_CREAT)
os.write(fd, b"a" * 8000000)
os.unlink("gone")
os.pwrite(fd, b"still here", 4000000)
assert os.pread(fd, 10, 4000000) == b"still here"
assert os.fstat(fd).st_nlink == 0
os.fsync(fd)
os.ftruncate(fd, 9000000)
assert os.fstat(fd).st_size == 9000000
os.fchmod(fd, 0o600)
PYTHON
check "a file replaced by rename lives on" python3 - <<'PYTHON'
import os
open("old", "w").write("old")
open("new", "w").write("new")
old = open("old")
os.rename("new", "old")
assert old.read() == "old" and open("old").read() == "new"
PYTHON
check "a removed working directory answers" python3 - <<'PYTHON'
import errno, os
top = os.getcwd()
os.mkdir("dir")
os.chdir("dir")
os.rmdir(os.path.join(top, "dir"))
assert os.listdir(".") == []
os.stat(".")
try:
    open("file", "w")
    raise SystemExit("a file was made in a removed directory")
except OSError as error:
    assert error.errno == errno.ENOENT, error
os.chdir(top)
PYTHON
check "many unlinked files at once" python3 - <<'PYTHON'
import os
fds = []
for i in range(500):
    fd = os.open("t", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"%d" % i)
    os.unlink("t")
    fds.append(fd)
for i, fd in enumerate(fds):
    assert os.pread(fd, 10, 0) == b"%d" % i
PYTHON

rm -f old
# All but the slabs that inodes are made in: one for each of the workgroups that made some, at most 1024. The file above has
# 1953 blocks.
slabs=256
! on_gpu || slabs=1024
check "their room comes back" free_again $((before - slabs))

exec 9>held
rm held
echo data >&9
check "a signal unmounts with an unlinked file open" kill -TERM "$(server_pid)"
exec 9>&- 2>/dev/null
cd "$work" || exit 1
deadline=$((SECONDS + 600))
while is_mounted && ((SECONDS < deadline)); do sleep 0.1; done
check_not "it is unmounted" is_mounted
mount_image
unmount_image "the next mount clears it away"
fsck_image
finish
