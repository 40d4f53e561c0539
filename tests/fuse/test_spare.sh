#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Devices that fail below a mount: loop devices over memory that is sealed while programs write, from where on each write is an I/O error.
# Spares take their places, of which one fails as well. And spares that are not there.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
((UID == 0)) || skip "loop devices need root"
needs losetup python3

loops=()
holder=""
cleanup_all() {
	cd /
	if is_mounted; then
		"$gpu4fs" umount "$mnt" >/dev/null 2>&1 || umount --lazy "$mnt"
	fi
	for loop in "${loops[@]}"; do
		losetup --detach "$loop"
	done
	exec 5>&- 6<&-
	[[ -z $holder ]] || wait "$holder"
	cleanup
}
trap cleanup_all EXIT

# A process that has the memory of all of them: "make" answers with a path, "seal N" with "sealed".
cat >"$work/memory.py" <<'PYTHON'
import fcntl, os, sys
made = []
for line in sys.stdin:
    words = line.split()
    if words[0] == "make":
        made.append(os.memfd_create("disk", os.MFD_ALLOW_SEALING))
        os.ftruncate(made[-1], 64 << 20)
        print(f"/proc/{os.getpid()}/fd/{made[-1]}", flush=True)
    else:
        fcntl.fcntl(made[int(words[1])], fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        print("sealed", flush=True)
PYTHON
mkfifo "$work/orders" "$work/answers"
python3 "$work/memory.py" <"$work/orders" >"$work/answers" &
holder=$!
exec 5>"$work/orders" 6<"$work/answers"

make_loop() { # a loop device of 64 MiB is the last of loops
	local path loop
	echo make >&5
	read -r path <&6 || skip "no memory that can be sealed"
	loop=$(losetup --find --show "$path" 2>"$work/out") || skip "no loop device: $(<"$work/out")"
	loops+=("$loop")
}
break_loop() { # break_loop N: of loops
	local answer
	echo "seal $1" >&5
	read -r answer <&6 && [[ $answer == sealed ]]
}

goes() { "$gpu4fs" umount "$mnt"; }
there() { (cd "$mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
state() { # state EXPRESSION: of status, bound to d
	"$gpu4fs" status --json "$mnt" | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"
}
until_state() { # until_state STATES: of disks and spares, while programs write
	local deadline=$((SECONDS + 600))
	until [ "$(state "[x['state'] for x in d['disks']], [x['device'] for x in d['spares']]")" = "$1" ]; do
		((SECONDS < deadline)) || return 1
		echo more >>"$mnt/more"
		sync "$mnt/more"
	done
}
new_disk() {
	rm -f "$1"
	truncate -s 64M "$1"
}

one=$image.one two=$image.two three=$image.three
for n in 0 1 2; do make_loop; done
for file in "$one" "$two" "$three"; do new_disk "$file"; done
all=("$one" "${loops[0]}" "${loops[1]}")
"$gpu4fs" mkfs --quiet --raid 1 --copies 3 "${all[@]}" || exit 1
for spare in "${loops[2]}" "$two" "$three"; do
	check "a spare" "$gpu4fs" disk add --spare "${all[@]}" "$spare"
done
check "mounted with them" "$gpu4fs" mount -o commit=1 "${all[@]}" "${loops[2]}" "$two" "$three" "$mnt"
same "three disks and three spares" "whole 3 3" "$(state "d['state'], len(d['disks']), len(d['spares'])" | tr -d "(',)")"
cp -r "$here/../../docs" "$mnt"
written=$(there)
for n in 0 1 2; do check "a device fails" break_loop "$n"; done
check "programs write on" cp -r "$here/../../tests/fuse" "$mnt"
check "spares that work take the places of both disks" until_state "['active', 'active', 'active'] []"
same "the one that failed does not wait any more" "['${loops[2]}']" \
	"$(state "[x['device'] for x in d['others'] if 'does not have' in x['reason']]")"
same "what was there is" "$written" "$(there | grep -F " ./docs/")"
cmp "$here/lib.sh" "$mnt/fuse/lib.sh"
check "and what came meanwhile" test $? = 0
same "they are told" "whole ['active', 'active', 'active']" "$(state "d['state'], [x['state'] for x in d['disks']]" | tr -d '()' | sed "s/'whole',/whole/")"
written=$(there)
check "unmounted" goes
for old in "${loops[0]}" "${loops[1]}"; do
	refuses "one that failed is none of them" "replaced" "$gpu4fs" mount "$one" "$two" "$three" "$old" "$mnt"
done
check "a check finds nothing" "$gpu4fs" fsck --data "$one" "$two" "$three"
check "one of the spares is all that is left" "$gpu4fs" mount -o degraded "$three" "$mnt"
same "everything is there" "$written" "$(there)"
check "unmounted" goes

# spares that are named and gone, or there and not named
new_disk "$two"
check "a spare" "$gpu4fs" disk replace "$three" "$two"
new_disk "$one"
check "and the third" "$gpu4fs" disk replace "$two" "$three" "$one"
four=$image.four
new_disk "$four"
check "another spare" "$gpu4fs" disk add --spare "$one" "$two" "$three" "$four"
check "is not needed" "$gpu4fs" mount "$one" "$two" "$three" "$mnt"
same "nor there" "[]" "$(state "d['spares']")"
check "unmounted" goes
mv "$four" "$four.away"
for order in "fsck" "info"; do
	check "where it is gone, $order does without" "$gpu4fs" "$order" "$one" "$two" "$three" "$four"
done
"$gpu4fs" status "$one" "$two" "$three" "$four" >"$work/said" 2>&1
check "which status tells" grep -q "$four *reason .*no such file" "$work/said"
check "so does a mount" "$gpu4fs" mount "$one" "$two" "$three" "$four" "$mnt"
same "of all that there is" "$written" "$(there)"
check "unmounted" goes
mv "$two" "$two.away"
refuses "but not a disk as well" "$two" "$gpu4fs" mount -o degraded "$one" "$two" "$three" "$four" "$mnt"
finish
