#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many requests listings cost, counted in what `mount -d` prints; and that what they spare is not told wrong.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
attribute_programs

files=100
make_image
log=$work/requests
"$gpu4fs" mount -d ${GPU4FS_MOUNT:+-o "$GPU4FS_MOUNT"} "$image" "$mnt" >"$log" 2>&1 &
server=$!
until is_mounted; do
	kill -0 "$server" 2>/dev/null || skip "the mount has failed: $(tail -n 1 "$log")"
	sleep 0.1
done
mkdir "$mnt/dir" "$mnt/moved"
for ((i = 0; i < files; i++)); do echo "$i" >"$mnt/dir/f$i"; done

# What ls -l does: types and names, then each file's attributes and access control list.
cat >"$work/long.py" <<'PYTHON'
import errno, os, sys

folder = sys.argv[1]
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    stat = os.lstat(path)
    try:
        acl = os.getxattr(path, "system.posix_acl_access", follow_symlinks=False).hex()
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        acl = "-"
    print(name, oct(stat.st_mode), stat.st_nlink, stat.st_size, stat.st_uid, acl)
PYTHON
long() { # long DIRECTORY: lists it; $asked is how many requests that took of the kind $2
	local before
	before=$(grep -c "opcode: $2 " "$log")
	python3 "$work/long.py" "$1" >"$work/list" || not_ok "listing $1"
	asked=$(($(grep -c "opcode: $2 " "$log") - before))
}
at_most() { # at_most TEXT LIMIT FOUND
	check "$1 ($3 requests)" test "$3" -le "$2"
}

long "$mnt/dir" GETXATTR
at_most "the first listing asks for each list once" $files "$asked"
for kind in GETXATTR GETATTR LOOKUP; do
	long "$mnt/dir" $kind
	at_most "once more: nothing is asked of each file: $kind" 5 "$asked"
done
same "it has every file" $files "$(wc -l <"$work/list")"

chmod 600 "$mnt/dir/f1"
setfacl -m u:1:r "$mnt/dir/f2"
echo longer >>"$mnt/dir/f3"
ln "$mnt/dir/f4" "$mnt/moved/second"
mv "$mnt/dir/f5" "$mnt/moved/f6"
rm "$mnt/dir/f6"
mv "$mnt/moved/f6" "$mnt/dir/f6"
((UID != 0)) || chown 7 "$mnt/dir/f7"
python3 - "$mnt/dir/f8" <<'PYTHON'
import mmap, os, sys

with open(sys.argv[1], "r+b") as file:
    file.truncate(8192)
    mmap.mmap(file.fileno(), 8192)[5000:5004] = b"mmap"
PYTHON
long "$mnt/dir" GETXATTR
cp "$work/list" "$work/warm"
same "a changed mode is listed" 0o100600 "$(awk '$1 == "f1" { print $2 }' "$work/warm")"
check "a new access control list is listed" grep -qE '^f2 .* [0-9a-f]+$' "$work/warm"
same "a size" 9 "$(awk '$1 == "f3" { print $4 }' "$work/warm")"
same "a second link" 2 "$(awk '$1 == "f4" { print $3 }' "$work/warm")"
same "another file of an old name" 2 "$(awk '$1 == "f6" { print $4 }' "$work/warm")"
check_not "a name that is gone is not listed" grep -q '^f5 ' "$work/warm"
same "a size that truncate has set" 8192 "$(awk '$1 == "f8" { print $4 }' "$work/warm")"
((UID != 0)) || echo 3 >/proc/sys/vm/drop_caches
long "$mnt/dir" GETXATTR
check "without the kernel's caches it is the same" diff "$work/warm" "$work/list"

# Labels of SELinux: for a file system without one, ls asks for one file's and no more.
label() {
	python3 -c 'import errno, os, sys
try:
    print(os.getxattr(sys.argv[1], "security.selinux").decode())
except OSError as error:
    print("unsupported" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno])' "$1"
}
if [[ -e /sys/fs/selinux || $UID -ne 0 ]]; then
	echo "not tested: labels (SELinux is there, or this is not root)"
else
	same "no label anywhere: not supported" unsupported "$(label "$mnt/dir/f1")"
	check "a label is set" setfattr -n security.selinux -v some:label "$mnt/dir/f1"
	same "... and no other file has one" ENODATA "$(label "$mnt/dir/f2")"
	same "... and it is there" some:label "$(label "$mnt/dir/f1")"
fi
unmount_image
check "the server has ended well" wait "$server"
if [[ ! -e /sys/fs/selinux && $UID -eq 0 ]]; then
	mount_image
	same "a label that was there before" some:label "$(label "$mnt/dir/f1")"
	same "... makes the others' absence be told" ENODATA "$(label "$mnt/dir/f2")"
	unmount_image
fi
fsck_image
finish
