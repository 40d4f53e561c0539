#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs cp copies inside a file system that is not mounted, or that is served: by reference, and trees as they are.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

# shellcheck disable=SC2317 # check calls it
copy() {
	"$gpu4fs" cp --image "$image" "$@"
}

used_kib() {
	"$gpu4fs" df --json "$image" | python3 -c 'import json, sys; print(json.load(sys.stdin)["filesystems"][0]["used_bytes"] // 1024)'
}

make_image 256M
mount_image
# flags are no part of what cp -a keeps, here as elsewhere; those that forbid changes come when all is there
mkdir -p "$mnt/flags/sub"
echo flagged >"$mnt/flags/file"
ln "$mnt/flags/file" "$mnt/flags/sub/again"
echo other >"$mnt/flags/sub/quiet"
flag() {
	"$gpu4fs" attr set "$1" "${@:2}" || exit 1
}
flags_of() {
	(cd "$mnt" && for path in "$@"; do "$gpu4fs" attr get "$path"; done) | sed -n 's/.*  flags \([-a-zA-Z]*\) .*/\1/p' | paste -sd ' '
}
flag +dA "$mnt/flags/sub/quiet"
flag +d "$mnt/flags"
((UID == 0)) && flag +i "$mnt/flags/file"
((UID == 0)) && flag +a "$mnt/flags/sub"
unmount_image
check "cp -a of what has flags" copy -a /flags /plain
check "cp -a --preserve=flags" copy -a --preserve=flags /flags /flagged
check "... of what is named, which makes room" copy -a --preserve=flags /flags/sub/quiet /plain/file
check "... of several names" copy -d --preserve=flags /flags/file /flags/sub/again /
mount_image
same "cp -a keeps none" "---- ----" "$(flags_of plain plain/sub)"
if ((UID == 0)); then
	same "flags are kept where that is asked for" "--d- i--- -a-- i--- --dA" "$(flags_of flagged flagged/file flagged/sub flagged/sub/again flagged/sub/quiet)"
	same "... of a file over another" "--dA" "$(flags_of plain/file)"
	same "... and of one with several names" "i--- i---" "$(flags_of file again)"
	check_not "what was copied can not be changed" sh -c "echo >>'$mnt/flagged/file'"
	flag -i "$mnt/flagged/file" "$mnt/file" "$mnt/flags/file"
	flag -a "$mnt/flagged/sub" "$mnt/flags/sub"
else
	same "flags are kept where that is asked for" "--d- --dA" "$(flags_of flagged flagged/sub/quiet)"
fi
same "... with contents" "flagged other" "$(cat "$mnt/flagged/sub/again" "$mnt/flagged/sub/quiet" | paste -sd ' ')"
same "... and names" 2 "$(stat -c %h "$mnt/flagged/file")"
rm -r "$mnt/flags" "$mnt/flagged" "$mnt/plain" "$mnt/file" "$mnt/again"
mkdir -p "$mnt/tree/sub/closed"
head -c 20000123 /dev/urandom >"$mnt/tree/large"
echo tiny >"$mnt/tree/sub/tiny"
: >"$mnt/tree/empty"
truncate -s 50M "$mnt/tree/sparse"
echo end >>"$mnt/tree/sparse"
ln -s sub/tiny "$mnt/tree/link"
mkfifo "$mnt/tree/pipe"
chmod 750 "$mnt/tree/sub"
chmod 640 "$mnt/tree/large"
chmod 500 "$mnt/tree/sub/closed"
cp -r "$mnt/tree" "$work/wanted"
unmount_image

before=$(used_kib)
check "a tree" copy -r /tree /copied
check "... with --reflink=always" copy -r --reflink=always /tree /always
check "... with --reflink" copy -r --reflink /tree/sub /tree/large /always
after=$(used_kib)
check "... take no space for what is there ($((after - before)) KiB)" test $((after - before)) -lt 4000
check "... with --reflink=never" copy -r --reflink=never /tree /never
check "... takes it ($(($(used_kib) - after)) KiB)" test $(($(used_kib) - after)) -gt 19000
check "... but not for holes" test $(($(used_kib) - after)) -lt 30000
refuses "a directory into itself" "into itself" copy -r /tree /tree/sub
refuses "a file onto itself" "same file" copy /tree/large /tree/large
check "a file over another one" copy /tree/sub/tiny /never/large
fsck_image

mount_image
for copied in copied always; do
	check "$copied: contents" diff -r --no-dereference --exclude=pipe "$work/wanted" "$mnt/$copied" -x sub
	check "$copied: the directory in it" diff -r "$work/wanted/sub" "$mnt/$copied/sub"
	same "$copied: modes" "750 640 500" \
		"$(stat -c %a "$mnt/$copied/sub" "$mnt/$copied/large" "$mnt/$copied/sub/closed" | xargs)"
	check "$copied: a pipe" test -p "$mnt/$copied/pipe"
	same "$copied: a link" sub/tiny "$(readlink "$mnt/$copied/link")"
done
check "never: a file that was copied over another" cmp "$work/wanted/sub/tiny" "$mnt/never/large"
check "a change of the copy" dd if=/dev/zero of="$mnt/copied/large" bs=4096 count=3 seek=500 conv=notrunc status=none
check "... is not in the source" cmp "$work/wanted/large" "$mnt/tree/large"
check "... and not in another copy" cmp "$work/wanted/large" "$mnt/always/large"
# more of them than may be open at a time
mkdir "$mnt/flagged"
touch "$mnt/flagged/"{100..300}
((UID == 0)) && flag +a "$mnt/flagged/"*
unmount_image
fsck_image

"$gpu4fs" serve --socket "$work/socket" -o cache=16M,files=100 "$image" >"$work/serve.out" 2>&1 &
server=$!
for _ in $(seq 6000); do
	[[ -s $work/serve.out ]] && break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
check "over a socket" "$gpu4fs" cp --socket "$work/socket" --reflink=always -r /tree /served
check "... and again" "$gpu4fs" cp --socket "$work/socket" -r /tree /again
check "... with flags" "$gpu4fs" cp -j 4 --socket "$work/socket" -r --preserve=flags /flagged /kept
check "rm -r over a socket" "$gpu4fs" rm -r --socket "$work/socket" /again
kill "$server"
wait "$server"
fsck_image
refuses "rm of a directory" "-r was not given" "$gpu4fs" rm --image "$image" /copied
used=$(used_kib)
check "rm -r of trees" "$gpu4fs" rm -rv -j 3 --image "$image" /copied /always /never/
check "... gives their space back ($((used - $(used_kib))) KiB)" test $((used - $(used_kib))) -gt 60
fsck_image
mount_image
same "... and leaves the others" "flagged kept served tree" "$(cd "$mnt" && echo *)"
((UID == 0)) && same "... with their flags" -a-- "$(cd "$mnt" && flags_of kept/* | tr " " "\n" | sort -u)"
check "... it is all there" diff -r --exclude=tree --no-dereference "$work/wanted/sub" "$mnt/served/sub"
check "... and the large file" cmp "$work/wanted/large" "$mnt/served/large"
unmount_image
finish
