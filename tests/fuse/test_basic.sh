#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everyday programs on a mount: each does what it does on any other file system.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs tar python3
attribute_programs

make_image
mount_image
cd "$mnt" || exit 1

same "an empty file system is empty" "" "$(find . -mindepth 1 ! -name lost+found)"
check "df answers" df .
same "the type is fuse.gpu4fs" fuse.gpu4fs "$(findmnt -n -o FSTYPE -T .)"
on_gpu && engine=cuda || engine=cpu
same "info says what runs it" "$engine" \
	"$("$gpu4fs" info --json "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["engine"])')"

# files and trees
mkdir -p source/a/b/c
for i in $(seq 1 200); do echo "line $i" >"source/a/file$i"; done
head -c 3000000 /dev/urandom >source/a/b/big
ln -s ../a/file1 source/a/link
ln source/a/file2 source/a/b/hard
check "cp -a copies a tree" cp -a source copy
check "the copy is equal" diff -r source copy
check "tar packs it" tar -cf tree.tar source
mkdir unpacked
check "tar unpacks it" tar -xf tree.tar -C unpacked
check "the unpacked tree is equal" diff -r source unpacked/source
same "a hard link shares the inode" "$(stat -c %i source/a/file2)" "$(stat -c %i source/a/b/hard)"
same "its link count is 2" 2 "$(stat -c %h source/a/file2)"
same "a symbolic link gives its target" ../a/file1 "$(readlink source/a/link)"
same "readdir finds every name once" 200 "$(find copy/a -maxdepth 1 -name 'file*' | sort -u | wc -l)"

# the kernel keeps what was read and written, so pages that the server found are those of directories and inodes
same "info says what the cache has done" True "$("$gpu4fs" info --json "$mnt" | python3 -c '
import json, sys
info = json.load(sys.stdin)
cache, tier = info["cache"], info["tier"]
print((tier["size_bytes"] > 0) == (info["engine"] == "cpu") and tier["dropped"] <= tier["pages_ahead"] and cache["size_bytes"] > 0 and cache["metadata_hits"] > 200 and cache["cold_misses"] > 0
	and cache["peeked_hits"] == cache["data_without_line"] == cache["metadata_without_line"] == 0 and cache["waited_misses"] <= cache["no_lines"])')"

# rename
check "mv renames a directory" mv copy moved
check "mv replaces a file" mv moved/a/file3 moved/a/file4
same "the replaced file has the new content" "line 3" "$(cat moved/a/file4)"
echo one >x1
echo two >x2
check "rename without replacing refuses" python3 - <<'PYTHON'
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOREPLACE, EXCHANGE = -100, 1, 2
assert libc.renameat2(AT_FDCWD, b"x1", AT_FDCWD, b"x2", NOREPLACE) == -1 and ctypes.get_errno() == errno.EEXIST
assert libc.renameat2(AT_FDCWD, b"x1", AT_FDCWD, b"x2", EXCHANGE) == 0
assert open("x1").read() == "two\n" and open("x2").read() == "one\n"
PYTHON
refuses "rmdir refuses a full directory" "not empty" rmdir moved
check "rm -rf removes a tree" rm -rf moved
same "it is gone" "" "$(ls -d moved 2>/dev/null)"

# names
long=$(printf 'n%.0s' $(seq 1 255))
check "a name of 255 bytes works" touch "$long"
refuses "a name of 256 bytes does not" "too long" touch "${long}n"
check "names may hold any byte but / and NUL" touch $'a\tb\\c\nd e\xff'

# attributes
check "chmod" chmod 2750 source
same "chmod is seen" 2750 "$(stat -c %a source)"
if ((UID == 0)); then
	check "chown" chown 1234:5678 x1
	same "chown is seen" 1234:5678 "$(stat -c %u:%g x1)"
	chmod 6755 x2
	check "chown drops set-id bits" chown 1:1 x2
	same "they are gone" 755 "$(stat -c %a x2)"
	check "mknod makes a device" mknod null c 1 3
	same "its numbers are kept" 1:3 "$(stat -c %t:%T null)"
	check "the device works" sh -c 'echo lost >null'
fi
check "mkfifo" mkfifo pipe
check "touch -d" touch -d '2001-02-03 04:05:06.789012345 UTC' x1
same "nanoseconds are kept" "2001-02-03 04:05:06.789012345 +0000" "$(TZ=UTC stat -c %y x1)"
check "touch -d before 1970" touch -d '1901-01-02 03:04:05.5 UTC' x1
same "times before 1970 are kept" "1901-01-02 03:04:05.500000000 +0000" "$(TZ=UTC stat -c %y x1)"
check "stat gives the birth time" test "$(stat -c %W x1)" -gt 0
check "setfattr" setfattr -n user.colour -v blue x1
same "getfattr" blue "$(getfattr --only-values -n user.colour x1)"
same "listxattr" user.colour "$(getfattr x1 2>/dev/null | grep '^user')"
check "setfattr -x" setfattr -x user.colour x1
refuses "a removed attribute is gone" "no such attribute" getfattr -n user.colour x1
check "setfacl" setfacl -m u:1000:rwx,g:2000:r x2
same "getfacl" "user:1000:rwx" "$(getfacl -cn x2 | grep 'user:1000' | cut -f 1)"
check "setfacl of a default" setfacl -d -m u:1000:rx source
touch source/inherits
same "a new file inherits it" 1 "$(getfacl -cn source/inherits | grep -c 'user:1000:r-x')"
(umask 027 && touch masked)
same "umask" 640 "$(stat -c %a masked)"

# contents
check "truncate makes a file longer" truncate -s 10M sparse
same "its size" 10485760 "$(stat -c %s sparse)"
check "a hole takes no room" test "$(stat -c %b sparse)" -lt 100
printf end | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
check "cp --sparse=always" cp --sparse=always sparse sparse2
check "the sparse copy is equal" cmp sparse sparse2
check "fallocate" fallocate -l 1M allocated
same "it has the size" 1048576 "$(stat -c %s allocated)"
head -c 1M /dev/urandom >punched
check "fallocate -p" fallocate -p -o 65536 -l 131072 punched
same "a punched range reads as zeroes" 0 "$(dd if=punched bs=64K skip=1 count=2 status=none | tr -d '\0' | wc -c)"
check "dd with O_DIRECT writes" dd if=source/a/b/big of=direct bs=4096 count=700 oflag=direct status=none
check "dd with O_DIRECT reads" sh -c 'dd if=direct bs=64K iflag=direct status=none | cmp -n 2867200 - source/a/b/big'
for i in 1 2 3 4; do echo "$i" >>log; done
same "append" "1 2 3 4 " "$(tr '\n' ' ' <log)"
check "O_TMPFILE, then a name for it" python3 - <<'PYTHON'
import ctypes, os
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"nameless")
libc = ctypes.CDLL(None, use_errno=True)
assert libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"named", 0x400) == 0, os.strerror(ctypes.get_errno())
assert open("named").read() == "nameless"
PYTHON
check "data that the kernel still holds is no hole" python3 - <<'PYTHON'
import os
fd = os.open("dirty", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(fd, 1 << 20)
os.pwrite(fd, b"x" * 4096, 65536)
other = os.open("dirty", os.O_RDONLY)
at = os.lseek(other, 0, os.SEEK_DATA)
end = os.lseek(other, at, os.SEEK_HOLE)
assert at <= 65536 < end, (at, end)
PYTHON
check "copy_file_range" python3 - <<'PYTHON'
import os
a, b = os.open("source/a/b/big", os.O_RDONLY), os.open("ranged", os.O_RDWR | os.O_CREAT)
left, at = 2000000, 0
while left:
    n = os.copy_file_range(a, b, left, at, at)
    assert n > 0
    at, left = at + n, left - n
assert os.pread(a, 2000000, 0) == os.pread(b, 2000000, 0)
PYTHON
check "who writes past the largest file learns it at once" python3 - <<'PYTHON'
import errno, os
most = 2**63 - 1
fd = os.open("large", os.O_RDWR | os.O_CREAT)
for at in (2**62 + 5, most - 1):
    assert os.pwrite(fd, b"z", at) == 1
    os.fsync(fd)
    assert os.pread(fd, 2, at - 1) == b"\0z"
try:
    os.pwrite(fd, b"z", most)
    raise SystemExit("a byte beyond all offsets was taken")
except OSError as error:
    assert error.errno in (errno.EFBIG, errno.EINVAL) # Linux has two words for it
assert os.fstat(fd).st_size == most and os.fstat(fd).st_blocks < 1000
os.close(fd)
os.unlink("large")
PYTHON
if ((UID == 0)) && command -v chattr >/dev/null; then
	echo kept >fixed
	check "chattr +i" chattr +i fixed
	refuses "an immutable file refuses writing" "not permitted" sh -c 'echo more >>fixed'
	refuses "an immutable file refuses removal" "not permitted" rm -f fixed
	check "chattr -i" chattr -i fixed
	check "chattr +a" chattr +a fixed
	check "an append-only file takes appends" sh -c 'echo more >>fixed && echo again >>fixed'
	check "its times may be set to now" touch fixed
	refuses "but to no others" "not permitted" touch -d 2001-01-01 fixed
	refuses "an append-only file refuses the rest" "not permitted" sh -c 'echo other >fixed'
	same "its content" "kept more again" "$(tr '\n' ' ' <fixed | sed 's/ $//')"
	chattr -a fixed
fi
if ((UID == 0)); then
	chmod 4777 x1
	check "a stranger's write drops set-id" setpriv --reuid=1000 --clear-groups sh -c 'echo w >>x1'
	same "the bit is gone" 777 "$(stat -c %a x1)"
	chmod 700 source
	refuses "permissions hold for others" "denied" setpriv --reuid=1000 --clear-groups ls source
fi

unmount_image
fsck_image
finish
