#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server is killed with SIGKILL: what fsync returned for is there after the next mount, and the image is consistent.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image
for round in 1 2 3; do
	mount_image
	cat >"$work/write.py" <<'PYTHON'
import hashlib, os, sys
top, round_number = sys.argv[1], sys.argv[2]
directory = os.path.join(top, "round" + round_number)
os.mkdir(directory)
for i in range(50):
    path = os.path.join(directory, "f%d" % i)
    data = hashlib.sha256(path.encode()).digest() * (1 + i * 37)
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.rename(path + ".tmp", path)
fd = os.open(directory, os.O_RDONLY)
os.fsync(fd)
fd = os.open(top, os.O_RDONLY)
os.fsync(fd)
PYTHON
	check "round $round: files are written and synced" python3 "$work/write.py" "$mnt" "$round"
	(
		cd "$mnt" || exit 1
		i=0
		while echo "$i" >"unsynced$i" && mv "unsynced$i" "moved$i"; do i=$((i + 1)); done
	) 2>/dev/null &
	churn=$!
	sleep 0.3
	pid=$(server_pid)
	check "round $round: the server is killed" kill -KILL "$pid"
	wait "$churn" 2>/dev/null
	for words in "df" "attr get" "scrub start" "resize" "disk pause" "restripe"; do
		# shellcheck disable=SC2086 # they are words
		refuses "round $round: $words says what is to be done" "its server has ended; 'gpu4fs umount' takes away" "$gpu4fs" $words "$mnt"
	done
	check "round $round: so does status" grep -q "its server has ended" <("$gpu4fs" status "$mnt" 2>&1)
	refuses "round $round: umount says that the server ended early" "ended early" "$gpu4fs" umount "$mnt"
	check_not "round $round: it is unmounted" is_mounted
	mount_image
	cat >"$work/verify.py" <<'PYTHON'
import hashlib, os, sys
top, rounds = sys.argv[1], int(sys.argv[2])
for r in range(1, rounds + 1):
    directory = os.path.join(top, "round%d" % r)
    for i in range(50):
        path = os.path.join(directory, "f%d" % i)
        assert open(path, "rb").read() == hashlib.sha256(path.encode()).digest() * (1 + i * 37), path
    assert len(os.listdir(directory)) == 50, directory
for name in os.listdir(top):
    path = os.path.join(top, name)
    if os.path.isfile(path):
        open(path, "rb").read()
PYTHON
	check "round $round: everything synced is there" python3 "$work/verify.py" "$mnt" "$round"
	unmount_image "round $round: unmount"
	fsck_image "round $round: fsck finds nothing"
done

mounts_at() {
	grep -c " $mnt fuse.gpu4fs " /proc/self/mounts
}

# Kills the server and waits until all that it had open is closed.
kill_server() {
	local server
	server=$(server_pid)
	kill -KILL "$server"
	while grep -q "FLOCK .* $server " /proc/locks || [[ $(stat --file-system "$mnt" 2>&1) != *"not connected"* ]]; do
		sleep 0.05
	done
}

mount_over() {
	"$gpu4fs" mount "$image" "$mnt/" 2>"$work/said"
}

mount_image
kill_server
check "a mount over one whose server was killed" mount_over
check "... says that it replaces it" grep -q "whose server has ended" "$work/said"
same "... and does not hide it" 1 "$(mounts_at)"
check "... and works" touch "$mnt/again"
exec 3<"$mnt"
kill_server
refuses "a mount over one that is in use as well is refused" "busy\|in use" "$gpu4fs" mount "$image" "$mnt"
same "... and not done" 1 "$(mounts_at)"
exec 3<&-
check "... but after it was left" "$gpu4fs" mount "$image" "$mnt"
unmount_image
check_not "one unmount is enough" is_mounted
fsck_image
finish
