#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file system of two copies through FUSE: programs run on it, a disk is lost, and everything is there.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

one=$image.one two=$image.two
goes() { "$gpu4fs" umount "$mnt"; }

"$gpu4fs" mkfs --quiet --raid 1 "$one" "$two" 64M || exit 1
check "both are mounted" "$gpu4fs" mount "$one" "$two" "$mnt"
cp -r "$here/../../src/base" "$here/../../src/fs" "$mnt"
written=$(cd "$here/../../src" && find base fs -type f -print0 | sort -z | xargs -0 sha256sum)
there() { (cd "$mnt" && find base fs -type f -print0 | sort -z | xargs -0 sha256sum); }
same "what was written is there" "$written" "$(there)"
refuses "another process does not get them" "is mounted on $mnt" "$gpu4fs" fsck -y "$two" "$one"
mkdir "$work/other"
refuses "... nor another mount" "is mounted on $mnt$" "$gpu4fs" mount "$one" "$two" "$work/other"
refuses "... nor of one of them" "$two is mounted on $mnt$" "$gpu4fs" mount -o degraded "$two" "$work/other"
refuses "one of them instead of the directory is not unmounted" "is mounted on $mnt: a directory is needed" "$gpu4fs" umount "$two"
check "info of the mount shows the disks" grep -q "$two" <("$gpu4fs" info "$mnt")
refuses "a disk of it is not removed: two stay" "keeps two" "$gpu4fs" disk remove "$mnt" "$two"
check "unmounted" goes
ln -s "$one" "$one.link"
by_links() { (cd "$(dirname "$two")" && "$gpu4fs" mount "$one.link" "$(basename "$two")" "$mnt"); }
check "and mounted by a link and a name without its directory" by_links
check "status of that finds nothing wrong" "$gpu4fs" status "$mnt"
check "... and no other disks" grep -q '"others": \[\]' <("$gpu4fs" status --json "$mnt")
check "a disk of it is found by its whole name" "$gpu4fs" disk offline "$mnt" "$two"
refuses "... which status tells" "" "$gpu4fs" status "$mnt"
check "... and comes back" "$gpu4fs" disk online --now --wait "$mnt" "$two"
check "unmounted" goes
rm "$one.link"
check "and mounted as fstab does it" "$gpu4fs" mount "$two" "$mnt" -o "device=$one"
same "everything is there" "$written" "$(there)"
check "unmounted" goes
mv "$one" "$one,with a comma"
check "and so if a name has a comma" "$gpu4fs" mount "$two" "$mnt" -o "device=$one\\,with a comma"
same "everything is there" "$written" "$(there)"
check "unmounted" goes
mv "$one,with a comma" "$one"
ln -s "$one" "$one.link"
check "mounted by a link, as of /dev/disk/by-id" "$gpu4fs" mount "$one.link" "$two" "$mnt"
mv "$one" "$one.again"
check "a disk that is pulled is taken out by the name it had" "$gpu4fs" disk offline "$mnt" "$one"
ln -sf "$one.again" "$one.link"
check "... and comes back by the link, which leads elsewhere" "$gpu4fs" disk online --now --wait "$mnt" "$one.link"
same "... by which status knows it" "$one.again" \
	"$("$gpu4fs" status --json "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["disks"][0]["device"])')"
check "unmounted" goes
mv "$one.again" "$one"
rm "$one.link"
mv "$one" "$one.away"
refuses "one alone is not mounted unasked" "degraded" "$gpu4fs" mount "$two" "$mnt"
check "but when that was said" "$gpu4fs" mount -o degraded "$two" "$mnt"
same "everything is there" "$written" "$(there)"
echo new >"$mnt/new"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck "$two"
mv "$one.away" "$one"
refuses "the one that missed that is refused" "stale" "$gpu4fs" mount -o degraded "$one" "$two" "$mnt"
check "without it" "$gpu4fs" mount -o degraded "$two" "$mnt"
same "what it missed is there" new "$(cat "$mnt/new")"
check "unmounted" goes
"$gpu4fs" disk rebuild "$two" "$one" || exit 1
three=$image.three
check "all are mounted" "$gpu4fs" mount "$one" "$two" "$mnt"
truncate -s 64M "$three"
check "a third disk comes" "$gpu4fs" disk add "$mnt" "$three"
head -c 16M /dev/urandom >"$mnt/large" # more than a step of a rebalance or a removal moves, and at a byte a second there is no second one
check "what lies on the others is spread over it" "$gpu4fs" disk rebalance --rate 1 "$mnt"
status=$("$gpu4fs" status --json "$mnt")
check "... and status says how far that is" grep -q "rebalanced_percent" <<<"$status"
check "... it stands still" "$gpu4fs" disk pause "$mnt"
refuses "... and is under way" "rebalanced already" "$gpu4fs" disk rebalance "$mnt"
cp -r "$here/../../src/dev" "$mnt" &
check "... it goes on, faster, while somebody writes" "$gpu4fs" disk resume --rate 0 --wait "$mnt"
wait $!
check "... which is there" diff -r "$here/../../src/dev" "$mnt/dev"
same "everything is there" "$written" "$(there)"
says=$("$gpu4fs" disk rebalance --now --wait "$mnt")
check "once more needs nothing" grep -q "^0 .*needed to be" <<<"$says"
before=$(df --output=size -k "$mnt" | tail -n 1)
check "its room is of use" "$gpu4fs" disk assign --raid 1 "$mnt"
check "... a part of it" test "$(df --output=size -k "$mnt" | tail -n 1)" -gt $((before + 20000))
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$one" "$two" "$three"
check "without the first" "$gpu4fs" mount -o degraded "$two" "$three" "$mnt"
same "everything is there" "$written" "$(there)"
check "unmounted" goes
"$gpu4fs" disk rebuild "$two" "$three" "$one" || exit 1
check "all are mounted" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
refuses "what is no disk can not leave" "no such file" "$gpu4fs" disk remove "$mnt" "$image.four"
check "the first leaves" "$gpu4fs" disk remove --rate 1 "$mnt" "$one"
status=$("$gpu4fs" status --json "$mnt")
check "... and status says which" grep -q '"removed_disk": *0' <<<"$status"
check "... and how far that is" grep -q "removed_percent" <<<"$status"
refuses "... and is under way" "a disk removed" "$gpu4fs" disk rebalance "$mnt"
check "... it is given up" "$gpu4fs" disk cancel "$mnt"
cp -r "$here/../../src/space" "$mnt" &
check "... and done, while somebody writes" "$gpu4fs" disk remove --now --wait "$mnt" "$one"
wait $!
check "... which is there" diff -r "$here/../../src/space" "$mnt/space"
same "everything is there" "$written" "$(there)"
status=$("$gpu4fs" status --json "$mnt")
check "... two disks are left" test "$(grep -o '"uuid"' <<<"$status" | wc -l)" = 2
refuses "... and have to stay" "keeps two" "$gpu4fs" disk remove "$mnt" "$two"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$two" "$three"
refuses "the one that left has nothing" "no gpu4fs superblock" "$gpu4fs" mount "$one" "$mnt"
check "without the second" "$gpu4fs" mount -o degraded "$three" "$mnt"
same "everything is there" "$written" "$(there)"
check "unmounted" goes

# Rows with parity stay as wide as they are: first another disk comes, then one goes.
four=$image.four
rm -f "$one" "$two" "$three"
"$gpu4fs" mkfs --quiet --raid 5 "$one" "$two" "$three" 96M || exit 1
check "three disks with parity are mounted" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
cp -r "$here/../../src/base" "$here/../../src/fs" "$mnt"
head -c 24M /dev/urandom >"$mnt/large"
sum=$(sha256sum <"$mnt/large")
refuses "none of them can go" "lies on all of its disks" "$gpu4fs" disk remove "$mnt" "$one"
truncate -s 96M "$four"
check "a fourth one comes" "$gpu4fs" disk add "$mnt" "$four"
check "the first leaves" "$gpu4fs" disk remove --rate 1 "$mnt" "$one"
check "... it is given up" "$gpu4fs" disk cancel "$mnt"
cp -r "$here/../../src/space" "$mnt" &
check "... and done, while somebody writes" "$gpu4fs" disk remove --now --wait "$mnt" "$one"
wait $!
check "... which is there" diff -r "$here/../../src/space" "$mnt/space"
same "everything is there" "$written" "$(there)"
check "rows fit together" "$gpu4fs" scrub start --now --wait "$mnt"
refuses "another one can not go" "lies on all of its disks" "$gpu4fs" disk remove "$mnt" "$two"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$two" "$three" "$four"
refuses "one alone is not enough, and all are to be named" "are missing, .*; name all of them, as DISK DISK... or DISK,DISK,...: disk " \
	"$gpu4fs" mount -o degraded "$three" "$mnt"
rm -f "$one"
truncate -s 96M "$one"
refuses "one that is empty is not taken for the one that is missing" "$one: holds no gpu4fs file system; leave it out, .*disk replace" \
	"$gpu4fs" mount -o degraded "$three" "$four" "$one" "$mnt"
same "... nor written" 0 "$(tr -d '\0' <"$one" | wc -c)"
check "without the second" "$gpu4fs" mount -o degraded "$three" "$four" "$mnt"
same "everything is there" "$written" "$(there)"
same "... also what is large" "$sum" "$(sha256sum <"$mnt/large")"
check "unmounted" goes
rm -f "$one" "$two" "$three" "$four"
finish
