#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All versions of the repository's format: small files in groups, and each by itself; all that a backup can do with them.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key

# 600 files of 1 to 40 KiB that resemble each other, 70 KiB (no group has it), a large one, an empty one, deep directories
mkdir -p tree/a/b/c tree/many
words=$(seq -s ' the words that all files have ' 1 300)
for i in {1..600}; do echo "$i ${words:0:$((i * 67 % 8000 + 1))} $i" >"tree/many/file$i"; done
noise 40960 1 >tree/a/noise
noise 71680 2 >tree/a/b/seventy
noise 3000000 3 >tree/a/b/c/large
: >tree/empty
manifest tree >wanted
restored() { # restored NAME REPOSITORY SNAPSHOT WANTED
	rm -rf out
	exits 0 "$1" "$shredder" restore -r "$2" "$3:$work/tree" --target out
	manifest out >found
	same "... as it was" "$4" found
}
versions() { # versions REPOSITORY: of all its files
	find "$1" -type f -exec od -An -tu1 -j 10 -N 1 {} \; | tr -d ' ' | sort -u | tr '\n' ' '
}
bytes() { # bytes REPOSITORY
	find "$1/packs" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }'
}

exits 2 "a format that nobody knows" "$shredder" init -r none --format 6
one_sentence "... is refused in one sentence"
for format in 1 2 3 4 5; do
	repo=repo$format
	exits 0 "init of format $format" "$shredder" init -r "$repo" --format "$format"
	exits 0 "... a backup" "$shredder" backup -r "$repo" tree
	exits 0 "... check" "$shredder" check -r "$repo" --read-data
	restored "... restore" "$repo" latest wanted
	equals "... all files are of version $format" "$format " "$(versions "$repo")"
	[ "$format" -lt 3 ] || break # without parity it is version 2
	exits 0 "... stats" "$shredder" stats -r "$repo" --json
	stored=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["stored_bytes"])' <.out)
	[ "$stored" -le "$(bytes "$repo")" ] && [ "$stored" -gt $(($(bytes "$repo") * 9 / 10)) ]
	report $? "... count what packs hold ($stored of $(bytes "$repo"))"
done
[ $(($(bytes repo1) - 3100000)) -gt $((2 * ($(bytes repo2) - 3100000))) ]
report $? "small files take less than half the space in groups ($(bytes repo1) and $(bytes repo2))"
cp -a repo2 whole

# ---- a prune takes groups apart
for i in {1..600..2}; do rm "tree/many/file$i"; done
manifest tree >wanted2
for format in 1 2; do
	repo=repo$format
	exits 0 "format $format, half the files are gone" "$shredder" backup -r "$repo" tree
	exits 0 "... the first snapshot, too" "$shredder" forget -r "$repo" --keep-last 1 --prune --max-unused 0
	exits 0 "... check" "$shredder" check -r "$repo" --read-data
	restored "... restore" "$repo" latest wanted2
	equals "... all files are of version $format" "$format " "$(versions "$repo")"
	exits 0 "... what is unused" "$shredder" prune -r "$repo" --max-unused 0 --dry-run --json
	equals "... is gone" "0" "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["unused_blobs"])' <.out)"
done

# ---- a blob so small that its share of a group is less than a byte
mkdir -p small
echo 1 >small/VERSION
logs() { # logs SEED: which compress well
	local i
	for i in {1..20}; do yes "line $1 of log $i" | head -c 50000 >"small/log$i"; done
}
for format in 1 2; do
	repo=small$format
	logs first
	exits 0 "format $format, logs and a file of two bytes" "$shredder" init -r "$repo" --format "$format"
	exits 0 "... a backup" "$shredder" backup -r "$repo" small
	logs second
	exits 0 "... all logs are others" "$shredder" backup -r "$repo" small
	exits 0 "... the first snapshot goes" "$shredder" forget -r "$repo" --keep-last 1 --prune
	exits 0 "... check" "$shredder" check -r "$repo" --read-data
	rm -rf out
	exits 0 "... restore" "$shredder" restore -r "$repo" "latest:$work/small" --target out
	equals "... as it was" "" "$(diff -r small out 2>&1 | head -n 3)"
done

# ---- copies from one to the other, with the same cuts and with others
for format in 1 2; do
	other=$((3 - format))
	for cuts in "" --copy-chunker-params; do
		rm -rf copy
		from=()
		[ -z "$cuts" ] || from=("$cuts" --from-repo "repo$format" --from-key-file key)
		exits 0 "init of format $other $cuts" "$shredder" init -r copy --format "$other" "${from[@]}"
		exits 0 "... copy from format $format" "$shredder" copy -r copy --from-repo "repo$format" --from-key-file key
		exits 0 "... check" "$shredder" check -r copy --read-data
		restored "... restore" copy latest wanted2
		equals "... all files are of version $other" "$other " "$(versions copy)"
	done
done

# ---- the index is lost: it is in the headers
rm -f repo2/index/*
exits 0 "a new index from packs with groups" "$shredder" check -r repo2 --repair
restored "... restore" repo2 latest wanted2

# ---- a file of the other version is not used
cp whole/snapshots/* repo1/snapshots/
run "$shredder" snapshots -r repo1
[ "$status" -ne 0 ] && grep -q 'damaged\|unlike the repository' .out .err
report $? "another repository's snapshot, of another version, is refused"
finish
