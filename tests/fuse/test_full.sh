#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full file system behind the kernel's write-back cache: writers learn of it, and so does an unmount.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs dd python3 timeout

# No failure of the mount: whoever wrote what did not fit was told.
unmounts_telling() {
	"$gpu4fs" umount "$mnt" 2>"$work/said" &&
		grep -q "found no room, which the programs that wrote it were told; all else is on the device" "$work/said"
}

make_image 32M
mount_image

# The writer goes on until it is told: the kernel's cache would take all of it.
fill() {
	timeout 1200 dd if=/dev/zero of="$mnt/big" bs=1M count=8192 oflag=append conv=notrunc
}
refuses "a writer is stopped by ENOSPC, not by its own end" "error writing.*No space left" fill
check "there is room again" rm "$mnt/big"
check "and writing works" python3 - "$mnt/small" <<'PYTHON'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for page in range(512):
    os.write(fd, bytes([page % 251]) * 4096)
os.fsync(fd)
assert os.pread(fd, 1, 511 * 4096) == bytes([511 % 251])
assert os.pread(fd, 1, 512 * 4096) == b""
PYTHON
same "what was written is there" 2097152 "$(stat -c %s "$mnt/small")"
check "unmounting succeeds, and says that data was lost" unmounts_telling
fsck_image
mount_image
check "a mount in which nothing is lost" cp "$mnt/small" "$mnt/copy"
unmount_image "unmounts without complaint"
mount_image
rm "$mnt/small" "$mnt/copy"
unmount_image "nothing is left to be freed"
mount_image

# Files that are a little too large: each page that is lost makes fsync fail, however the kernel cuts the file into requests.
loses_nothing_quietly() {
	python3 - "$mnt" <<'PYTHON'
import os, sys, time
directory = sys.argv[1]
def settle():
    fd = os.open(directory, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize
def until_free(wanted): # as free_again()
    deadline = time.monotonic() + 600
    while (free := settle()) < wanted:
        if time.monotonic() > deadline:
            sys.exit("%d bytes are free, not %d" % (free, wanted))
        time.sleep(0.01)
whole = settle() - 16 * 4096 # metadata may take a page or two for good; both files have more
for left in (20, 40, 256 + 20, 1024 + 20, 1024 + 200): # pages; the kernel's requests have up to 256
    for more in (1, 2, 8, 20):
        pad = os.open(directory + "/pad", os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(pad, 0, settle() - left * 4096)
        os.close(pad)
        available = settle()
        assert 0 < available <= left * 4096
        fd = os.open(directory + "/f", os.O_RDWR | os.O_CREAT)
        try:
            os.write(fd, b"x" * (available + more * 4096))
            os.fsync(fd)
            if more > 2: # for sums of a few pages one is left out
                sys.exit("%d pages are free, %d more were written, and no error" % (available / 4096, more))
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if os.pread(fd, available + more * 4096, 0) != b"x" * (available + more * 4096):
                sys.exit("%d pages are free, %d more were written, and are not there" % (available / 4096, more))
        except OSError:
            pass
        os.close(fd)
        os.unlink(directory + "/f")
        os.unlink(directory + "/pad")
        until_free(whole)
PYTHON
}
if on_gpu; then
	echo "skipped: slabs that workgroups keep leave less free than statfs(2) says, by up to 8 MiB"
	unmount_image
else
	check "what does not fit is never lost without a word" loses_nothing_quietly
	check "and that is told again" unmounts_telling
fi
fsck_image
rm "$image"

# accept_too_much: what a writer that never syncs gets rid of, beyond what is free, in MiB
accept_too_much() {
	python3 - "$mnt" <<'PYTHON'
import errno, os, sys
status = os.statvfs(sys.argv[1])
available, taken = status.f_bavail * status.f_frsize, 0
fd = os.open(sys.argv[1] + "/big", os.O_WRONLY | os.O_CREAT)
try:
    while taken < 1 << 30:
        taken += os.write(fd, b"\xa5" * 131072)
except OSError as error:
    assert error.errno == errno.ENOSPC
try:
    os.fsync(fd)
    sys.exit("fsync found everything written")
except OSError as error:
    assert error.errno == errno.ENOSPC
beyond = (taken - available) / 2**20
found = 0 # nothing that is lost may be read back as if it were there
with open(sys.argv[1] + "/big", "rb") as file:
    while piece := file.read(1 << 20):
        found += piece.count(b"\xa5")
if found > available:
    sys.exit("%d MiB are read back, %d MiB were free" % (found >> 20, available >> 20))
print(beyond)
if beyond > 16:
    sys.exit("%.1f MiB too many were accepted" % beyond)
PYTHON
}
make_image 96M
mount_image
if [[ -w /sys/class/bdi/$(mountpoint -d "$mnt")/max_bytes ]]; then
	check "a writer is stopped within 16 MiB of what is free" accept_too_much
else
	echo "skipped: the kernel's limit for this mount can not be set by this user"
fi
check "unmounting says that data was lost" unmounts_telling
fsck_image

# What a program was told is on the device, though others found no room; in the foreground as well.
rm "$image"
make_image 32M
check "a server in the foreground" python3 - "$gpu4fs" "$image" "$mnt" <<'PYTHON'
import errno, os, subprocess, sys, time
program, image, directory = sys.argv[1:]
server = subprocess.Popen([program, "mount", "-f", image, directory], stderr=subprocess.PIPE, text=True)
while " %s " % directory not in open("/proc/self/mounts").read():
    assert server.poll() is None
    time.sleep(0.01)
with open(directory + "/kept", "wb") as kept:
    kept.write(b"k" * 8192)
    kept.flush()
    os.fsync(kept.fileno())
told = 0
fd = os.open(directory + "/big", os.O_WRONLY | os.O_CREAT)
for act in (lambda: [os.write(fd, b"x" * 1048576) for _ in range(8192)], lambda: os.fsync(fd), lambda: os.close(fd)):
    try:
        act()
    except OSError as error:
        assert error.errno == errno.ENOSPC
        told += 1
assert told > 0
unmount = subprocess.run([program, "umount", directory], stderr=subprocess.PIPE, text=True)
said = server.communicate()[1]
if (unmount.returncode, server.returncode) != (0, 0) or "found no room" not in unmount.stderr or "not everything" in said:
    sys.exit("%d %s, %d %s" % (unmount.returncode, unmount.stderr, server.returncode, said))
PYTHON
fsck_image
mount_image
same "what was synced is there" 8192 "$(tr -dc k <"$mnt/kept" | wc -c)"
unmount_image
finish
