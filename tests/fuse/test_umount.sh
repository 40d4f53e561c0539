#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After umount(8), which does not wait, the tools that look at the image wait until its server has written everything.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
((UID == 0)) || skip "a plain umount(2) needs root"

# What umount(8) ends in, without its questions to the file system, which nobody would answer.
plain_umount() {
	python3 - "$mnt" <<'PYTHON'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.umount2(os.fsencode(sys.argv[1]), 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
PYTHON
}

mount_number() {
	awk -v dir="$1" '$5 == dir { split($3, number, ":"); print number[2] }' /proc/self/mountinfo | tail -n 1
}

# Until process $1 has ended or waits for a lock.
ended_or_waiting() {
	while kill -0 "$1" 2>/dev/null && [[ $(</proc/"$1"/stat) != *") Z "* ]]; do
		grep -q -- "-> FLOCK .* $1 " /proc/locks && return
		sleep 0.05
	done
}

# while_ending COMMAND...: starts it between a plain umount(2) and the server's end; its status. Output goes to $work/words,
# messages to $work/said.
while_ending() {
	local server tool
	server=$(server_pid) || return 1
	sync
	kill -STOP "$server"
	plain_umount || return 1
	"$@" >"$work/words" 2>"$work/said" &
	tool=$!
	ended_or_waiting "$tool"
	kill -CONT "$server"
	wait "$tool"
}

# Size, used and free space of a device or a directory, in bytes.
space_of() {
	"$gpu4fs" df -b "$1" | awk 'NR == 2 { print $2, $3, $4 }'
}

make_image
mount_image
echo one >"$mnt/one"
check "fsck -n right after a plain umount" while_ending "$gpu4fs" fsck -n "$image"
check "... sees a clean image with everything on it" grep -q ': unmounted cleanly, 1 file,' "$work/words"
check "... and has said what it waited for" grep -q "still in use by process" "$work/said"
mount_image
echo two >"$mnt/two"
check "info" while_ending "$gpu4fs" info "$image"
check "... sees a clean image" grep -Eq '^state +clean' "$work/words"
mount_image
echo three >"$mnt/three"
check "dump" while_ending "$gpu4fs" dump "$image" dir /
check "... sees the last file" grep -q three "$work/words"

# The kernel gives a mount's number to the next one while the server of the first still writes.
"$gpu4fs" mkfs "$work/other.img" --size 64M >"$work/out"
mkdir "$work/other"
mount_image
echo after >"$mnt/after"
number=$(mount_number "$mnt")
server=$(server_pid)
sync
kill -STOP "$server"
check "umount(2)" plain_umount
check "another mount does not wait for the end of the one before it" \
	timeout 60 "$gpu4fs" mount "$work/other.img" "$work/other"
((number == $(mount_number "$work/other"))) || echo "# the number went to somebody else"
"$gpu4fs" dump "$image" dir / >"$work/words" 2>"$work/said" &
tool=$!
ended_or_waiting "$tool"
kill -CONT "$server"
check "dump with the number in use again" wait "$tool"
check "... sees the last file" grep -q after "$work/words"
check "the other mount is unmounted" "$gpu4fs" umount "$work/other"

# Its server is found whatever the image is called, and where the mount hides it.
waits_for() {
	local name=$1 said=$work/said
	(cd "$work/own" && "$gpu4fs" mkfs --size 64M "./$name" >"$work/out" && "$gpu4fs" mount "./$name" .) || return 1
	"$gpu4fs" umount "$work/own" >"$said" 2>&1 || return 1
	[[ ! -s $said ]] || { sed 's/^/# /' "$said" && return 1; }
}
mkdir "$work/own"
check "umount waits for an image below its own mount" waits_for own.img
check "... with a word of the mount table in its name" waits_for "user_id=7,x"
check "... with a newline in its name" waits_for $'two\nresult 0'
check "... with what the mount table escapes" waits_for 'a b\\c,d'

mount_image
head -c 30000000 /dev/zero >"$mnt/four"
sync "$mnt/four"
space=$(space_of "$mnt")
check "df" while_ending "$gpu4fs" df -b "$image"
cp "$work/words" "$work/df"
check "... sees the space that is used" cmp "$work/df" <("$gpu4fs" df -b "$image")
read -r size used _ <<<"$space"
read -r size_now used_now _ <<<"$(space_of "$image")"
# a workgroup keeps a slab that has become empty until the unmount
check "... as much as when it was mounted, but for slabs that were kept" \
	test "$size" -eq "$size_now" -a "$used" -ge "$used_now" -a "$((used - used_now))" -le 16384
mount_image
check "mkfs" while_ending "$gpu4fs" mkfs --force "$image"
fsck_image "... writes when nobody else does any more"

mount_image
echo seen >"$mnt/seen"
traced() {
	# shellcheck disable=SC2016 # for the shell that is traced
	"$gpu4fs" trace record -d "$mnt" --text -o "$work/trace" sh -c 'cat "$2/seen" && "$1" umount "$2"' - "$gpu4fs" "$mnt" 2>"$work/said"
}
check "a trace of a mount that its command unmounts" traced
check "... says that it ends there" grep -q "^gpu4fs trace: $mnt: was unmounted meanwhile: $work/trace has what was accessed of it until then$" "$work/said"
check "... and has what was before" grep -q "^r " "$work/trace"

mount_image
exec 3>"$mnt/busy"
server=$(server_pid)
check "a busy mount is detached" "$gpu4fs" umount --lazy "$mnt"
"$gpu4fs" mount "$image" "$mnt" >"$work/words" 2>"$work/said" 3>&- &
tool=$!
ended_or_waiting "$tool"
check "the next mount names the process that it waits for" grep -q "still in use by process $server," "$work/said"
check_not "... and waits" is_mounted
exec 3>&-
check "... until the last file is closed" wait "$tool"
check "... and mounts" test -e "$mnt/busy"

check "a mount is unmounted 20 times while somebody runs df" unmounts_beside_df "$gpu4fs" mount "$image" "$mnt"

refuses "the image instead of the directory is refused" "is mounted on $mnt: a directory is needed" "$gpu4fs" umount "$image"
exec 3>"$mnt/busy"
refuses "a mount in use is refused" "in use" "$gpu4fs" umount "$mnt"
check "... and stays" test -e "$mnt/busy"
exec 3>&-
kill -STOP "$(server=$(server_pid) && echo "$server" | tee "$work/server")"
check "umount -f takes it away from a server that does not answer" timeout 600 "$gpu4fs" umount -f "$mnt"
check_not "... at once" is_mounted
kill -CONT "$(<"$work/server")"
fsck_image
finish
