#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A long test, outside of `make check`: restores of what is generated at the extremes are bit- and metadata-identical, a million tiny files, a sparse
# file of 1 TiB, names of 255 bytes of any value, deep paths, every type of file; and those of a system tree. As root, for devices and owners.
#
# usage: tests/shredder/extremes.sh SHREDDER      FILES=N: other than 1 000 000 tiny ones; SYSTEM="DIRECTORY ...": other system trees than /usr
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key
seconds() { # seconds STATUS NAME COMMAND...: exits, and how much processor time it took
	local before
	before=$(awk '{ print $16 + $17 }' /proc/$$/stat)
	exits "$@"
	awk -v before="$before" '{ print "# " ($16 + $17 - before) / 100 " s of processor time" }' /proc/$$/stat
}
python3 - "${FILES:-1000000}" <<'END'
"""Makes `tree`: the tiny files in directories of 1000, but 50 000 of them in one; all else in `odd`."""
import os
import random
import socket
import stat
import sys

count = int(sys.argv[1])
numbers = random.Random(1)
for i in range(count):
    folder = "tree/flat" if i < 50000 else f"tree/{i // 1000 % 100}/{i // 1000}"
    if i % 1000 == 0:
        os.makedirs(folder, exist_ok=True)
    fd = os.open(f"{folder}/{i}", os.O_WRONLY | os.O_CREAT, 0o600 | i % 64)
    os.write(fd, b"%d " % i * (i % 7))
    os.close(fd)
    if i % 17 == 0:
        os.utime(f"{folder}/{i}", ns=(0, numbers.randrange(-10**18, 4 * 10**18)))
os.makedirs("tree/odd/names")
for i in range(300):  # any bytes but "/" and zero
    name = bytes(b if b not in (0, 47) else 65 for b in numbers.randbytes(255))
    with open(b"tree/odd/names/" + name, "wb") as file:
        file.write(name)
with open(b"tree/odd/names/" + b"\xff" * 255, "wb"), open("tree/odd/names/..." + "." * 252, "wb"):
    pass
deepest = "tree/odd"  # a path of 3 600 bytes
for i in range(14):
    deepest += f"/{i:02}" + "d" * 253
os.makedirs(deepest)
with open(deepest + "/at the bottom", "wb"):
    pass
with open("tree/odd/sparse", "wb") as file:
    for at in (0, 1 << 30, (1 << 39) + 12345, (1 << 40) - 5000):
        file.seek(at)
        file.write(numbers.randbytes(4000))
    file.truncate(1 << 40)
with open("tree/odd/hole", "wb") as file:
    file.truncate(1 << 40)
os.mkfifo("tree/odd/fifo", 0o604)
socket.socket(socket.AF_UNIX).bind("tree/odd/socket")
os.mknod("tree/odd/char", stat.S_IFCHR | 0o620, os.makedev(1, 3))
os.mknod("tree/odd/block", stat.S_IFBLK | 0o660, os.makedev(253, 1 << 19))
os.symlink("x" * 4000, "tree/odd/link")
os.symlink(b"\xfe\n", b"tree/odd/\xfd\n")
for i in range(3):
    os.link("tree/odd/sparse", f"tree/odd/sparse {i}")
os.link("tree/odd/fifo", "tree/odd/fifo 2")
for i, mode in enumerate((0o4755, 0o2755, 0o1777, 0, 0o7777)):
    os.close(os.open(f"tree/odd/mode{i}", os.O_CREAT))
    os.chown(f"tree/odd/mode{i}", 4294967293 - i, 60000 + i)
    os.chmod(f"tree/odd/mode{i}", mode)
os.mkdir("tree/odd/empty", 0o111)
os.setxattr("tree/odd/hole", "user." + "n" * 200, numbers.randbytes(2000))
os.setxattr("tree/odd/hole", "user.empty", b"")
os.setxattr("tree/odd/empty", "trusted.root", b"only")
os.utime("tree/odd/fifo", ns=(0, -1))
os.utime("tree/odd/hole", ns=(0, (1 << 33) * 10**9 + 999999999))
END
manifest tree >wanted
[ "$(wc -l <wanted)" -gt "${FILES:-1000000}" ]
report $? "a tree of $(wc -l <wanted) entries"
exits 0 "init" "$shredder" init -r repo --parity 1
seconds 0 "... a backup" "$shredder" backup -r repo tree
seconds 0 "... unchanged" "$shredder" backup -r repo tree
seconds 0 "... check" "$shredder" check -r repo
seconds 0 "... restore" "$shredder" restore -r repo "latest:$work/tree" --target out
manifest out >found
same "... bit for bit and with all metadata" wanted found
[ "$(du -s --block-size=1 out/odd | cut -f1)" -lt 100000000 ]
report $? "... holes are holes"
seconds 0 "... once more over it" "$shredder" restore -r repo "latest:$work/tree" --target out
manifest out >found
same "... is the same" wanted found

# ---- a system tree, which nobody may change meanwhile
rm -rf tree
for system in ${SYSTEM:-/usr}; do
	rm -rf out repo
	manifest "$system" >wanted
	report $? "$system: $(wc -l <wanted) entries, $(grep -c 'same as' wanted) of them names of a file that has others, $(grep -c '=[0-9a-f]* ' wanted) with attributes"
	exits 0 "init" "$shredder" init -r repo
	seconds 0 "... a backup" "$shredder" backup -r repo -x "$system"
	seconds 0 "... check --read-data" "$shredder" check -r repo --read-data
	seconds 0 "... restore" "$shredder" restore -r repo "latest:$system" --target out --verify
	manifest out >found
	same "... bit for bit and with all metadata" wanted found
	manifest "$system" >again
	same "... of what has not changed meanwhile" wanted again
done
finish
