#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs dedup finds what is stored more than once and shares it: of an image and of a server, in as much memory as it is given.
# shellcheck disable=SC2119 # arguments are optional
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

value() { # value KEY ARGUMENT...: of what dedup says, which has to succeed
	local key=$1
	shift
	"$gpu4fs" dedup "$@" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['$key'] // 4096)"
}

truncate -s 256M "$image"
check "mkfs" "$gpu4fs" mkfs --checksum=blake3 "$image"
# all of it from somewhere else: inside one file system cat(1) and cp(1) share
mkdir -p "$work/tree/sub" "$work/without"
head -c 8192000 /dev/urandom >"$work/tree/a" # 2000 pages
cat "$work/tree/a" >"$work/tree/sub/b"
{
	head -c 4096 /dev/urandom
	cat "$work/tree/a"
} >"$work/tree/shifted"
head -c 4096000 /dev/zero >"$work/tree/zeros"
head -c 5000 /dev/urandom >"$work/tree/odd"
cp "$work/tree/odd" "$work/tree/sub/odd"
cp "$work/tree/odd" "$work/without/odd"
echo tiny >"$work/tree/tiny"
ln "$work/tree/a" "$work/tree/linked"
mount_image
mkdir "$mnt/without"
"$gpu4fs" attr set checksum=none "$mnt/without"
check "a tree" cp -a --sparse=never "$work/tree" "$mnt"
check "... and what gets no checksums" cp "$work/without/odd" "$mnt/without"
stat -c '%n %s %y' "$mnt"/tree/* >"$work/stat"
unmount_image

# 2000 + 2000 + 2001 + 1000 + 2 + 2 pages, of which 2000 + 1 + 1 + 2 are different, and 2 without checksums
same "an estimate counts what is there" 7007 "$(value data_bytes estimate --image "$image")"
same "... all of it stored" 7007 "$(value stored_bytes estimate --image "$image")"
same "... and what is there more than once, or is zeros" 5002 "$(value duplicate_bytes estimate --image "$image")"
same "... but not what has no checksums" 2 "$(value without_checksums_bytes estimate --image "$image")"
same "... in hardly any memory" 5002 "$(value duplicate_bytes estimate --memory 16K --image "$image")"
same "... of a part" 2000 "$(value duplicate_bytes estimate --image "$image" /tree/a /tree/sub)"
same "... of which so much is zeros" 1000 "$(value zero_bytes estimate --memory 16K --image "$image")"
"$gpu4fs" dedup run --json --memory 16K --image "$image" >"$work/report"
same "a run in hardly any memory shares that" "4002 1000" \
	"$(python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["shared_bytes"] // 4096, d["hole_bytes"] // 4096)' <"$work/report")"
same "... so that nothing is left" 0 "$(value duplicate_bytes run --image "$image")"
same "... and a page is stored for each" 2005 "$(value stored_bytes stats --image "$image")"
fsck_image

mount_image
check "contents are what they were" diff -r "$work/tree" "$mnt/tree"
check "... without checksums, too" diff -r "$work/without" "$mnt/without"
stat -c '%n %s %y' "$mnt"/tree/* >"$work/stat.after"
check "... and sizes and times" cmp "$work/stat" "$work/stat.after"
cat "$work/tree/zeros" "$work/tree/a" >"$mnt/again"
unmount_image
"$gpu4fs" serve --socket "$work/socket" "$image" >"$work/served" 2>&1 &
server=$!
until grep -q serving "$work/served" || ! kill -0 "$server" 2>/dev/null; do
	sleep 0.05
done
same "a run of what is served" 2000 "$(value shared_bytes run --compare --rate 1G --socket "$work/socket" /again /tree)"
kill "$server"
wait "$server"
same "... is there afterwards" 0 "$(value duplicate_bytes estimate --image "$image")"
fsck_image

# One page is stored twice, and each of the two has 1400 owners: more than fit into that memory, of one key and of one address.
check "mkfs" "$gpu4fs" mkfs --force --checksum=blake3 "$image"
head -c 4096 /dev/urandom >"$work/page"
for ((k = 0; k < 200; k++)); do
	cat "$work/page"
done >"$work/pages"
mount_image
cp "$work/pages" "$mnt/a"
cp "$work/pages" "$mnt/b"
unmount_image
same "a file's own pages" 200 "$(($(value shared_bytes run --image "$image" /a) + 1))"
same "... and another's" 200 "$(($(value shared_bytes run --image "$image" /b) + 1))"
for k in 1 2 3 4 5 6; do
	check "a reflink" "$gpu4fs" cp --reflink --image "$image" /a "/a$k"
	check "a reflink" "$gpu4fs" cp --reflink --image "$image" /b "/b$k"
done
for memory in 256M 16K; do
	same "in $memory: all pages" 2800 "$(value data_bytes estimate --memory "$memory" --image "$image")"
	same "... two of them stored" 2 "$(value stored_bytes estimate --memory "$memory" --image "$image")"
	same "... one of them once more" 1 "$(value duplicate_bytes estimate --memory "$memory" --image "$image")"
	"$gpu4fs" dedup stats --memory "$memory" --json --image "$image" >"$work/stats"
	same "... each with many owners" "[(1024, 2)]" \
		"$(python3 -c "import json, sys; print([(c['at_least'], c['pages']) for c in json.load(sys.stdin)['owners']])" <"$work/stats")"
done
same "a run in 16K shares all of one" 1400 "$(value shared_bytes run --memory 16K --image "$image")"
same "... so that a page is stored" 1 "$(value stored_bytes stats --memory 16K --image "$image")"
fsck_image
finish
