#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Deduplication of what is written, across mounts: a file that an earlier mount has written takes no space when it is written again.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

stored() { # pages that the device has for the files of the image, which is not mounted
	"$gpu4fs" dedup stats --json --image "$image" | python3 -c 'import json, sys; print(json.load(sys.stdin)["stored_bytes"] // 4096)'
}

listed() {
	"$gpu4fs" dump --json "$image" listed | python3 -c 'import json, sys; print(json.load(sys.stdin)["listed"])'
}

truncate -s 256M "$image"
chmod 711 "$work" # another user gets as far as the mount
check "mkfs" "$gpu4fs" mkfs --dedup "$image"
same "nothing is listed" 0 "$(listed)"
head -c 8192000 /dev/urandom >"$work/a" # 2000 pages
mount_image
check "a file" cp "$work/a" "$mnt/a"
unmount_image
same "its pages are listed" 2000 "$(listed)"
fsck_image

# Soon after the mount they are found. Until then a copy is stored, and goes again.
mount_image dedup_memory=1M
found=no
for ((try = 0; try < 200; try++)); do
	sync "$mnt"
	before=$(stat -f -c %f "$mnt")
	cp "$work/a" "$mnt/b"
	sync "$mnt/b"
	if ((before - $(stat -f -c %f "$mnt") < 200)); then
		found=yes
		break
	fi
	rm "$mnt/b"
	free_again "$before" >/dev/null
done
same "the next mount finds them" yes "$found"
check "... and they are what was written" cmp "$work/a" "$mnt/b"
counts=$("$gpu4fs" dedup stats --json --mount "$mnt")
count() {
	python3 -c 'import json, sys; print(json.loads(sys.argv[1])["since_mount"][sys.argv[2]])' "$counts" "$1"
}
check "the mount has counted that" test "$(count hits)" -ge 1800 -a "$(count saved_bytes)" -ge 7372800
check "... in as much memory as it was given" test "$(count table_bytes)" -le 1048576 -a "$(count table_bytes)" -ge 900000
same "... and has had all that earlier mounts have written" "$(count groups)" "$(count groups_loaded)"
same "nothing is pruned where everything is shared" 0 "$("$gpu4fs" dedup prune --json --mount "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pruned_pages"])')"
same "... of whatever age" 0 "$("$gpu4fs" dedup prune --older-than 2d --json --mount "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pruned_pages"])')"
if ((UID == 0)) && command -v setpriv >/dev/null; then
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	check "another user reads the files" "${nobody[@]}" cmp "$mnt/a" "$mnt/b"
	for order in stats prune; do
		refuses "... but does not learn what is counted ($order)" "^gpu4fs dedup: $mnt: Operation not permitted" \
			"${nobody[@]}" "$gpu4fs" dedup "$order" --mount "$mnt"
	done
fi
rm "$mnt/a"
check "... also when the first file has gone" cmp "$work/a" "$mnt/b"
unmount_image
same "a page is stored once" 2000 "$(stored)"
fsck_image
mount_image
rm "$mnt/b"
unmount_image
same "what is removed is listed no more" 0 "$(listed)"
fsck_image

# With a quota of two pages of sums no more than 256 pages can be found; the others are stored again.
check "a quota" "$gpu4fs" tune --dedup-quota 8K "$image"
on_device() { # on_device KEY
	"$gpu4fs" dedup stats --json --mount "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["on_device"].get(sys.argv[1]))' "$1"
}
is_counted() {
	"$gpu4fs" dedup stats --json --mount "$mnt" | python3 -c 'import json, sys
d = json.load(sys.stdin)
sys.exit(d["on_device"]["groups_counted"] != d["since_mount"]["groups"])'
}
mount_image
for ((try = 0; try < 2000; try++)); do
	is_counted && break
done
check "soon after the mount it is known how much is listed" is_counted
cp "$work/a" "$mnt/a"
sync "$mnt/a"
same "the quota is shown" 8192 "$(on_device quota_bytes)"
same "... and is used up" 8192 "$(on_device listing_bytes)"
check "... also as text" grep -q '^  quota  *8192 (8 KiB)$' <("$gpu4fs" dedup stats --mount "$mnt")
cp "$work/a" "$mnt/b"
check "what is not listed is stored" cmp "$work/a" "$mnt/b"
sync "$mnt/b"
plain() {
	"$gpu4fs" dedup stats --json --mount "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["since_mount"]["plain"])'
}
left=$(plain)
check "how many pages were left plain is told" test "$left" -gt 3000 -a "$left" -le 4000
check "... also as text" grep -q "^  plain  *$left\$" <("$gpu4fs" dedup stats --mount "$mnt")
unmount_image
check "no more is listed than the quota says" test "$(listed)" -gt 0 -a "$(listed)" -le 256
same "... and so many pages are shared" $((4000 - $(listed))) "$(stored)"
fsck_image

# Another one of the mount.
refuses "no quota" "is no quota" "$gpu4fs" tune --dedup-quota 4095 "$image"
mount_image
for ((try = 0; try < 2000; try++)); do
	is_counted && break
done
refuses "not by its image's name" "give the directory" "$gpu4fs" tune --dedup-quota none "$image"
refuses "no quota of a mount either" "is no quota" "$gpu4fs" tune --dedup-quota 4095 "$mnt"
refuses "nothing else of a mount" "alone" "$gpu4fs" tune --dedup-quota 16K --label other "$mnt"
refuses "... nor with it" "alone" "$gpu4fs" tune --dedup on "$mnt"
refuses "what is neither a mount nor a device" "no such file" "$gpu4fs" tune --dedup-quota 16K "$mnt/none"
if ((UID == 0)) && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	refuses "not by everybody" "not permitted" setpriv --reuid=nobody --clear-groups "$gpu4fs" tune --dedup-quota 16K "$mnt"
fi
same "what is refused has changed nothing" 8192 "$(on_device quota_bytes)"
check "raised" "$gpu4fs" tune --dedup-quota 16K "$mnt"
same "... is shown" 16384 "$(on_device quota_bytes)"
head -c 8M /dev/urandom >"$mnt/c"
sync "$mnt/c"
same "... and is used" 16384 "$(on_device listing_bytes)"
check "lowered" "$gpu4fs" tune --dedup-quota 4K "$mnt"
same "what is listed stays" 16384 "$(on_device listing_bytes)"
before=$(plain)
head -c 4M /dev/urandom >"$mnt/d"
sync "$mnt/d"
same "... and nothing comes" "16384 $((before + 1024))" "$(on_device listing_bytes) $(plain)"
check "none" "$gpu4fs" tune --dedup-quota none "$mnt"
head -c 4M /dev/urandom >"$mnt/e"
sync "$mnt/e"
same "... leaves nothing plain" $((before + 1024)) "$(plain)"
check "one again" "$gpu4fs" tune --dedup-quota 12K "$mnt"
unmount_image
same "the image has it" 12288 "$("$gpu4fs" info --json "$image" | python3 -c 'import json, sys; print(json.load(sys.stdin)["deduplication_quota_bytes"])')"
fsck_image
finish
