#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shredder mount: the snapshots as directories, read only and verified.
# Of cli/mounted.c, cli/mounted_cache.c, cli/mounted_tree.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then
	echo "# skipped: /dev/fuse cannot be used"
	exit 77
fi
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
pid=
# shellcheck disable=SC2317 # the trap calls it
unmount() {
	[ -z "$pid" ] || { fusermount3 -u "$work/mnt" 2>/dev/null || kill -9 "$pid"; wait "$pid" 2>/dev/null; }
	pid=
}
trap 'unmount; rm -rf "$work"' EXIT
start() { # start OPTION...: mounts, and waits until it can be used
	: >ready
	"$shredder" mount "$@" mnt >ready 2>errors &
	pid=$!
	until grep -q '^mounted' ready; do
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.05
	done
}
root=false
[ "$(id -u)" -eq 0 ] && root=true

mkdir -p tree/sub/deep tree/many mnt
noise 9000000 1 >tree/large
: >tree/empty
ln tree/large tree/sub/linked
ln -s ../large tree/sub/link
mkfifo tree/fifo
printf x >"tree/$(printf 'n%.0s' {1..255})"
python3 -c '
import os
with open("tree/sparse", "wb") as f:
    f.truncate(1 << 32); f.seek(3 << 30); f.write(b"middle"); f.truncate(1 << 32)
for i in range(5000): open(f"tree/many/{i}", "w").write(f"file {i}")
os.setxattr("tree/large", "user.name", b"value\0with zero")
os.utime("tree/empty", ns=(1, 1234567890123456789))
os.utime("tree/sub", ns=(1, 4102444800000000001))'
if $root; then
	mknod tree/null c 1 3
	chown 12345:54321 tree/empty
fi
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree
manifest tree >tree.list

exits 2 "mount of nothing" "$shredder" mount
exits 1 "mount where nothing is" "$shredder" mount absent
start
report $? "it mounts"
equals "one snapshot and latest" 2 "$(find mnt -mindepth 1 -maxdepth 1 | wc -l)"
manifest "mnt/latest$work/tree" >mounted.list 2>.err
same "everything is there as it was" tree.list mounted.list
cmp -s tree/large "mnt/latest$work/tree/large"
report $? "large files are read"
equals "a piece from the middle" "$(tail -c +4000001 tree/large | head -c 100000 | md5sum)" \
	"$(tail -c +4000001 "mnt/latest$work/tree/large" | head -c 100000 | md5sum)"
equals "names of one file have one inode" 1 \
	"$(stat -c %i "mnt/latest$work/tree/large" "mnt/latest$work/tree/sub/linked" | sort -u | wc -l)"
equals "sparse files take no room" True \
	"$(python3 -c 'import os, sys; s = os.stat(sys.argv[1]); print(s.st_blocks < 16 and s.st_size == 1 << 32)' "mnt/latest$work/tree/sparse")"
equals "inodes stay what they are" "$(find mnt/latest/ -printf '%i %p\n' | sort | md5sum)" \
	"$(find mnt/latest/ -printf '%i %p\n' | sort | md5sum)"
ls mnt/latest/ >/dev/null
for change in 'echo x >mnt/new' "echo x >mnt/latest$work/tree/empty" "rm -f mnt/latest$work/tree/empty" "mkdir mnt/latest/x" \
	"chmod 777 mnt/latest$work/tree/large"; do
	! sh -c "$change" 2>.err && grep -q 'Read-only file system' .err
	report $? "refused as read only: ${change%% *}"
done
if $root; then
	! head -c 1 "mnt/latest$work/tree/null" >/dev/null 2>.err
	report $? "devices cannot be opened"
fi
# many readers at a time
for reader in 1 2 3 4; do (md5sum <"mnt/latest$work/tree/sub/linked" >"sum$reader") & readers+=($!); done
wait "${readers[@]}"
equals "four readers read the same" "$(md5sum <tree/large)" "$(sort -u sum1 sum2 sum3 sum4)"

# ---- a new snapshot appears, its data can be read, and a forgotten one goes
echo more >tree/later
exits 0 "a backup meanwhile" "$shredder" backup tree
sleep 1.1 # as long as the kernel keeps names of the root
equals "... appears" 3 "$(find mnt -mindepth 1 -maxdepth 1 | wc -l)"
equals "... as latest" more "$(cat "mnt/latest$work/tree/later")"
read -ra ids < <(snapshot_ids)
exits 0 "forget and prune" "$shredder" forget --prune --max-unused 0 "${ids[0]}"
equals "... its directory goes" 2 "$(ls mnt >/dev/null; find mnt -mindepth 1 -maxdepth 1 | wc -l)"
manifest tree >tree.list
echo 3 >/proc/sys/vm/drop_caches 2>/dev/null
manifest "mnt/latest$work/tree" >mounted.list 2>.err
same "the other one is whole" tree.list mounted.list
fusermount3 -u mnt
wait "$pid"
equals "unmounting ends it well" 0 $?
pid=

# ---- what is damaged is an error, and the rest can be read
pack=$(find repo/packs -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
poke "$pack" 500000 00112233
start
report $? "a damaged repository mounts"
! md5sum "mnt/latest$work/tree/large" >.out 2>.err && grep -q 'Input/output error' .err
report $? "what is damaged is an input/output error"
grep -q 'is damaged: its authentication fails' errors
report $? "... and told"
equals "other files can be read" "file 7" "$(cat "mnt/latest$work/tree/many/7")"
exec 8<"mnt/latest$work/tree" 9<"mnt/latest$work/tree/many/7" # what is open then is freed, which AddressSanitizer's build sees
ls /proc/self/fd/8/ >.out
kill -TERM "$pid"
wait "$pid"
equals "a signal ends it well, too, with a directory and a file open" 0 $?
exec 8<&- 9<&-
pid=
! mountpoint -q mnt
report $? "... and nothing is mounted"

# ---- filters, and nothing at all
start --host nowhere
equals "no snapshot matches: an empty directory" "" "$(ls mnt)"
finish
