#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Disks under a mount: one is taken out while programs write, another one takes its place, and is rebuilt over an unmount.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

goes() { "$gpu4fs" umount "$mnt"; }
there() { (cd "$mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
state() { # state EXPRESSION: of status, bound to d
	"$gpu4fs" status --json "$mnt" | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"
}
states() { state "d['state'], [x['state'] for x in d['disks']]"; }
online() { # online DEVICE: requests to it as it was before may be under way for a moment
	while ! "$gpu4fs" disk online --now --wait "$mnt" "$1" 2>"$image.said"; do
		grep -q "under way" "$image.said" || { cat "$image.said" && return 1; }
	done
}
new_disk() {
	rm -f "$1"
	truncate -s 64M "$1"
}

one=$image.one two=$image.two three=$image.three four=$image.four
for level in "1" "5"; do
	rm -f "$one" "$two" "$three" "$four"
	"$gpu4fs" mkfs --quiet --raid "$level" "$one" "$two" "$three" 64M || exit 1
	check "raid $level is mounted" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
	cp -r "$here/../../src" "$mnt"
	refuses "a disk that is none" "no disk" "$gpu4fs" disk offline "$mnt" "$four"
	check "a disk is taken out" "$gpu4fs" disk offline "$mnt" "$two"
	truncate -s 64M "$mnt/inside"
	refuses "a file in it" "lies in that file system" "$gpu4fs" disk replace -f "$mnt" "$mnt/inside"
	rm "$mnt/inside"
	check "and comes back" online "$two"
	same "which is told" "whole ['active', 'active', 'active']" "$(states)"
	check "a disk is taken out" "$gpu4fs" disk offline "$mnt" "$two"
	refuses "no other one can be" "do not have all" "$gpu4fs" disk offline "$mnt" "$one"
	cp -r "$here/../../tests/fuse" "$mnt"
	same "which is told" "degraded ['active', 'stale', 'active']" "$(states)"
	same "and that an order did it" "[False, True, False]" "$(state "[x['taken_out'] for x in d['disks']]")"
	new_disk "$four"
	check "a new one takes its place" "$gpu4fs" disk replace --rate 64K --now "$mnt" "$four"
	refuses "one at a time" "already" "$gpu4fs" disk replace "$mnt" "$two" -f
	same "which is told" "degraded ['active', 'rebuilding', 'active'] running True" \
		"$(states) $(state "d['disks'][1]['rebuild'], d['disks'][1]['rebuilt_percent'] < 100" | tr -d "(',)")"
	check "it can be paused" "$gpu4fs" disk pause "$mnt"
	cp -r "$here/../../docs" "$mnt"
	same "which is told" paused "$(state "d['disks'][1]['rebuild']")"
	same "with the new one's name" "$four" "$(state "d['disks'][1]['device']")"
	check "info of the mount shows the disks" grep -q "$four" <("$gpu4fs" info "$mnt")
	written=$(there)
	check "unmounted" goes
	refuses "the old one" "replaced" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
	check "nothing is missing" "$gpu4fs" mount "$one" "$four" "$three" "$mnt"
	same "everything is there" "$written" "$(there)"
	same "and it is paused" paused "$(state "d['disks'][1]['rebuild']")"
	check "it goes on" "$gpu4fs" disk resume --rate 1G "$mnt" --wait
	same "to its end" "whole ['active', 'active', 'active']" "$(states)"
	same "and the order is forgotten" "[False, False, False]" "$(state "[x['taken_out'] for x in d['disks']]")"
	refuses "which it is" "no disk is being rebuilt" "$gpu4fs" disk cancel "$mnt"
	refuses "nothing is missing" "no disk is missing" "$gpu4fs" disk replace -f "$mnt" "$two"
	check "unmounted" goes
	check "a check finds nothing" "$gpu4fs" fsck "$one" "$four" "$three"
	mv "$one" "$one.away"
	check "the new one stands for another" "$gpu4fs" mount -o degraded "$four" "$three" "$mnt"
	same "everything is there" "$written" "$(there)"
	echo new >"$mnt/new"
	mv "$one.away" "$one"
	check "that one comes back" online "$one"
	same "with all of it" "whole ['active', 'active', 'active']" "$(states)"
	written=$(there)
	check "unmounted" goes
	check "a check finds nothing" "$gpu4fs" fsck --data "$one" "$four"
	check "mounted" "$gpu4fs" mount "$one" "$four" "$mnt" -o degraded
	same "everything is there" "$written" "$(there)"
	check "unmounted" goes
done
rm -f "$one" "$two" "$three" "$four"
until_state() { # until_state STATES: of disks and spares
	local deadline=$((SECONDS + 600))
	until [ "$(state "[x['state'] for x in d['disks']], [x['device'] for x in d['spares']]")" = "$1" ]; do
		((SECONDS < deadline)) || return 1
		sleep 0.1
	done
}
spares() { state "[x['device'] for x in d['spares']]"; }
five=$image.five
new_disk "$four"
new_disk "$five"
"$gpu4fs" mkfs --quiet --raid 1 "$one" "$two" 64M || exit 1
check "a spare is made" "$gpu4fs" disk add --spare "$one" "$two" "$four"
check "and named at the mount" "$gpu4fs" mount -o commit=1 "$one" "$two" "$four" "$mnt"
same "where it is shown" "['$four']" "$(spares)"
check "by info, too" grep -q "$four" <("$gpu4fs" info "$mnt")
refuses "mkfs does not take it" "is mounted on $mnt$" "$gpu4fs" mkfs -f "$four"
check "another one comes" "$gpu4fs" disk add --spare "$mnt" "$five"
same "and is shown" "['$four', '$five']" "$(spares)"
refuses "not twice" "already" "$gpu4fs" disk add --spare -f "$mnt" "$five"
refuses "what is one of two disks" "keeps two of them" "$gpu4fs" disk remove "$mnt" "$one"
check "and goes" "$gpu4fs" disk remove "$mnt" "$five"
same "and is gone" "['$four']" "$(spares)"
cp -r "$here/../../src" "$mnt"
written=$(there)
check "unmounted" goes
mv "$two" "$two.away"
check "a disk is missing" "$gpu4fs" mount -o degraded,commit=1 "$one" "$four" "$mnt"
check "the spare takes its place by itself" until_state "['active', 'active'] []"
same "everything is there" "$written" "$(there)"
refuses "it is no spare any more, but one of two disks" "keeps two of them" "$gpu4fs" disk remove "$mnt" "$four"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$one" "$four"
refuses "the old one" "replaced" "$gpu4fs" mount "$one" "$two.away" "$mnt"
check "mounted without one" "$gpu4fs" mount -o degraded,commit=3600 "$four" "$mnt"
echo new >"$mnt/new"
check "a spare that comes is taken at once" "$gpu4fs" disk add --spare "$mnt" "$five"
check "to the end" until_state "['active', 'active'] []"
rm "$mnt/new"
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$five" "$four"
rm -f "$one" "$two.away" "$four" "$five" "$image.said"
"$gpu4fs" mkfs --quiet --raid 0 "$one" "$two" 64M || exit 1
check "striped over two disks" "$gpu4fs" mount "$one" "$two" "$mnt"
cp -r "$here/../../src" "$mnt"
new_disk "$three"
before=$(stat -f -c %b "$mnt")
check "a third is added" "$gpu4fs" disk add "$mnt" "$three"
[ "$(stat -f -c %b "$mnt")" -gt $((before + before / 4)) ]
check "and used" test $? = 0
same "which is told" "whole ['active', 'active', 'active']" "$(states)"
refuses "not twice" "already" "$gpu4fs" disk add -f "$mnt" "$three"
cp -r "$here/../../docs" "$mnt"
written=$(there)
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck "$one" "$two" "$three"
check "mounted with it" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
same "everything is there" "$written" "$(there)"
check "unmounted" goes
"$gpu4fs" mkfs --quiet --force --raid 1 --unassigned 60 "$one" "$two" "$three" 64M || exit 1
check "two copies, and room" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
mkdir "$mnt/five"
refuses "a level that there is not" "disk assign" "$gpu4fs" attr set raid=5 "$mnt/five"
refuses "one that bears less" "bears the loss" "$gpu4fs" disk assign --raid none "$mnt"
check "it is made" "$gpu4fs" disk assign --raid 5 "$mnt"
check "and asked for" "$gpu4fs" attr set raid=5 "$mnt/five"
cp -r "$here/../../src" "$mnt/five"
cp -r "$here/../../docs" "$mnt"
same "by all that is in it" 5 "$(getfattr --only-values -n gpu4fs.raid "$mnt/five/src/fs")"
sync -f "$mnt" # what the kernel has of it
same "which takes what is free of it, as status says" "['1', '5'] True" "$(state "[x['level'] for x in d['levels']],
	0 < d['levels'][1]['free_bytes'] < d['levels'][1]['size_bytes'] - 1000000" | sed "s/(\(.*\))/\1/; s/],/]/")"
same "and by nothing else" default "$(getfattr --only-values -n gpu4fs.raid "$mnt/docs")"
"$gpu4fs" attr set raid=5 "$mnt/docs/design" || exit 1
moved() { # moved OPTION...: bytes that go to where they belong
	"$gpu4fs" restripe --json "$@" | python3 -c "import json, sys; print(json.load(sys.stdin)['moved_bytes'])"
}
same "what was written before stays where it is" 0 "$(moved "$mnt/docs")"
printf 'start' >"$mnt/log"
while [ -e "$mnt/log" ]; do printf 'more' >>"$mnt/docs/log"; done &
writer=$!
all=$(moved --raid 5 "$mnt/docs")
check "and is moved when it is to be, while somebody writes there" test "$all" -gt 500000
rm "$mnt/log"
wait "$writer"
same "what was written meanwhile is whole" "" "$(sed 's/more//g' "$mnt/docs/log")"
same "all of it" 5 "$(getfattr --only-values -n gpu4fs.raid "$mnt/docs/design/redundancy.md")"
sync -f "$mnt"
same "once" 0 "$(moved "$mnt")"
refuses "files of nobody's" "on no gpu4fs" "$gpu4fs" restripe "$here"
rm "$mnt/docs/log"
written=$(there)
check "unmounted" goes
check "a check finds nothing" "$gpu4fs" fsck --data "$one" "$two" "$three"
check "mounted without one" "$gpu4fs" mount -o degraded "$one" "$three" "$mnt"
same "everything is there" "$written" "$(there)"
check "unmounted" goes
rm -f "$one" "$two" "$three"
finish
