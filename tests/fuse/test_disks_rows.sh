#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file system with one parity through FUSE: it gets a disk, and rows move to it while programs write, also over a server that is killed; then
# any disk may be lost.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

disks=("$image" "$image.two" "$image.three" "$image.four")
goes() { "$gpu4fs" umount "$mnt"; }
# The process that serves the mount: of several disks (server_pid() in lib.sh knows one).
set_pid() {
	local directory state
	for directory in /run/gpu4fs "/run/user/$UID/gpu4fs" "/tmp/gpu4fs-$UID"; do
		for state in "$directory"/*; do
			[[ -f $state ]] && grep -q "^device $(realpath "$image")," "$state" &&
				awk '$1 == "pid" { print $2 }' "$state" && return
		done
	done
	return 1
}
there() { (cd "$mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

"$gpu4fs" mkfs --quiet --raid 5 "${disks[@]:0:3}" 96M || exit 1
check "three are mounted" "$gpu4fs" mount "${disks[@]:0:3}" "$mnt"
for n in 1 2 3 4 5; do
	head -c 24M /dev/urandom >"$mnt/large$n"
done
cp -r "$here/../../src/base" "$mnt"
sync -f "$mnt"
written=$(there)
truncate -s 96M "${disks[3]}"
check "a fourth disk comes" "$gpu4fs" disk add "$mnt" "${disks[3]}"
check "rows are spread over it" "$gpu4fs" disk rebalance --rate 1 "$mnt"
status=$("$gpu4fs" status --json "$mnt")
check "... and status says how far that is" grep -q "rebalanced_percent" <<<"$status"
refuses "... and it is under way" "rebalanced already" "$gpu4fs" disk rebalance "$mnt"
check "the server is killed" kill -KILL "$(set_pid)"
umount "$mnt" 2>/dev/null || fusermount3 -u "$mnt"
check "all are mounted" "$gpu4fs" mount "${disks[@]}" "$mnt"
same "everything is there" "$written" "$(there)"
cp -r "$here/../../src/dev" "$mnt" &
check "it goes on, faster, to its end" "$gpu4fs" disk resume --rate 0 --wait "$mnt"
wait $!
check "what was written meanwhile is there" diff -r "$here/../../src/dev" "$mnt/dev"
used=$(du -k "${disks[3]}" | cut -f 1)
check "the new disk has some of it" test "$used" -gt 16000
before=$(df --output=size -k "$mnt" | tail -n 1)
check "the room that is left is of use" "$gpu4fs" disk assign --raid 5 "$mnt"
check "... it is more than before" test "$(df --output=size -k "$mnt" | tail -n 1)" -gt $((before + 20000))
written=$(there)
check "a scrub finds nothing" "$gpu4fs" scrub start --now --wait "$mnt"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "${disks[@]}"
for lost in 0 1 2 3; do
	left=("${disks[@]:0:lost}" "${disks[@]:lost+1}")
	check "without disk $lost" "$gpu4fs" mount -o ro,degraded "${left[@]}" "$mnt"
	same "everything is there" "$written" "$(there)"
	check "unmounted" goes
done
check "without the first a degraded mount" "$gpu4fs" mount -o degraded "${disks[@]:1}" "$mnt"
refuses "... is not rebalanced" "is missing" "$gpu4fs" disk rebalance "$mnt"
check "unmounted" goes
rm -f "${disks[@]}"
finish
