#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shredder copy: snapshots of one repository in another one, with the same cuts and with others.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
head -c 64 /dev/urandom >other-key
source=$work/source
export SHREDDER_FROM_REPOSITORY=$source SHREDDER_FROM_KEY_FILE=$work/key
export SHREDDER_REPOSITORY=$source SHREDDER_KEY_FILE=$work/key

# ---- three generations of a tree with everything that a content can be
mkdir -p tree/sub/empty tree/many
noise 12000000 1 >tree/large
cp tree/large tree/again
ln tree/large tree/linked
: >tree/nothing
ln -s large tree/link
python3 -c '
with open("tree/sparse", "wb") as f:
    f.truncate(1 << 36); f.seek(5 << 30); f.write(b"middle" * 100000); f.truncate(1 << 36)
for i in range(2000): open(f"tree/many/{i}", "w").write(f"file {i}")
import os
os.setxattr("tree/sub", "user.name", b"value")'
exits 0 "init" "$shredder" init
exits 0 "the first generation" "$shredder" backup --tag one tree
printf 'inserted' | cat - tree/large >tree/sub/shifted
exits 0 "the second one" "$shredder" backup --tag two tree
rm tree/again
noise 300000 2 >tree/sub/new
exits 0 "the third one" "$shredder" backup --tag three tree
manifest tree >tree.list
read -ra ids < <(snapshot_ids)

# ---- usage
exits 2 "copy without a source" env -u SHREDDER_FROM_REPOSITORY "$shredder" copy
exits 1 "copy of a repository into itself" "$shredder" copy
one_sentence "... is refused in one sentence"
exits 2 "parameters of nobody" env -u SHREDDER_FROM_REPOSITORY "$shredder" init --repo x --copy-chunker-params
exits 2 "secret parameters for a repository without encryption" "$shredder" init --repo x --no-encryption --copy-chunker-params
one_sentence "... is refused in one sentence"
equals "... and nothing is made" "" "$(ls x 2>/dev/null)"

for cuts in same other; do
	export SHREDDER_REPOSITORY=$work/$cuts SHREDDER_KEY_FILE=$work/other-key
	options=()
	[ $cuts = same ] && options=(--copy-chunker-params)
	exits 0 "$cuts cuts: init" "$shredder" init "${options[@]}"
	is_json "$cuts cuts: a dry run" "$shredder" copy --json --dry-run
	equals "... would copy three" "3 None" "$(json_value 'd["copied"], d["snapshots"][0]["to"]' | tr -d '(),')"
	equals "... and stores nothing" "" "$(find $cuts/packs $cuts/snapshots -type f)"
	is_json "$cuts cuts: one snapshot" "$shredder" copy --json "${ids[0]}"
	equals "... is copied" "1 0 $([ $cuts = same ] && echo True || echo False)" \
		"$(json_value 'd["copied"], d["present"], d["same_cuts"]' | tr -d '(),')"
	stored=$(json_value 'd["stored_bytes"]')
	equals "... chunks are stored once" True "$(python3 -c "print(12000000 < $stored < 14000000)")"
	is_json "$cuts cuts: the others" "$shredder" copy --json
	equals "... are copied, and what is known is left out" "2 1" "$(json_value 'd["copied"], d["present"]' | tr -d '(),')"
	equals "... without reading it again" True "$(json_value 'd["read_bytes"] < 13000000')"
	equals "... and an insertion costs a chunk or two" True "$(json_value 'd["stored_bytes"] < 4000000')"
	is_json "$cuts cuts: once more" "$shredder" copy --json
	equals "... copies nothing and reads nothing" "0 3 0" \
		"$(json_value 'd["copied"], d["present"], d["read_bytes"]' | tr -d '(),')"
	exits 0 "$cuts cuts: check" "$shredder" check --read-data
	exits 0 "$cuts cuts: restore" "$shredder" restore "latest:$work/tree" --target "out-$cuts"
	manifest "out-$cuts" >out.list
	same "... is the tree" tree.list out.list
	rm -rf "out-$cuts"
	is_json "$cuts cuts: snapshots" "$shredder" snapshots --json
	equals "... keep their tags and have their parents" "one two three True" \
		"$(json_value '*[s["tags"][0] for s in d], [s["parent"] for s in d] == [None, d[0]["id"], d[1]["id"]]' | tr -d "(),'")"
	equals "... no name is the source's" "" "$(comm -12 <(snapshot_ids | tr ' ' '\n' | sort) \
		<(printf '%s\n' "${ids[@]}" | sort))"
	exits 12 "the source's key does not open it" "$shredder" snapshots --key-file key
done
blobs() {
	run "$shredder" stats --json "$@"
	json_value 'd["blobs"], d["blob_bytes"]'
}
equals "with the same cuts there are the same chunks" "$(blobs -r "$source" -k key)" "$(blobs -r same)"
# a backup goes on with the copied snapshot: with the same cuts nothing of the tree is new
SHREDDER_REPOSITORY=$work/same
sleep 2.1 # files that changed within two seconds are read again
is_json "a backup into the copy" "$shredder" backup --json tree
equals "... finds all chunks" True "$(json_value 'd["new_bytes"] < 500000')" # directories: their entries are settled now

# ---- into one without encryption, and back
exits 0 "init without encryption" "$shredder" init -r plain --no-encryption
exits 0 "copy into it" "$shredder" copy -r plain --no-encryption
exits 0 "... is whole" "$shredder" check -r plain --no-encryption --read-data
exits 0 "init" "$shredder" init -r back
exits 0 "copy out of it" "$shredder" copy -r back --from-repo plain --from-no-encryption --tag two
exits 0 "... restores" "$shredder" restore -r back "latest:$work/tree/sub/shifted" --target back-out
cmp -s back-out/shifted tree/sub/shifted
report $? "... the same bytes"

# ---- a source that is damaged: no snapshot of it, and a sentence
pack=$(find "$source/packs" -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
poke "$pack" 500000 00112233
exits 0 "init" "$shredder" init -r partly
exits 1 "a copy of a damaged source" "$shredder" copy -r partly
says "... says what is damaged" "is damaged: its authentication fails"
equals "... makes no snapshot" "" "$(ls partly/snapshots)"
exits 0 "... and leaves a whole repository" "$shredder" check -r partly --read-data

# ---- killed: the next one goes on
exits 0 "init" "$shredder" init -r killed --copy-chunker-params --from-repo "$work/same" --from-key-file other-key
for round in {1..6}; do
	"$shredder" copy -r killed --from-repo "$work/same" --from-key-file other-key >/dev/null 2>&1 &
	pid=$!
	sleep "0.0$((round * 3 % 10))"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	run "$shredder" check -r killed --read-data
	[ "$status" -eq 0 ] || break
done
report "$status" "killed copies leave a whole repository"
exits 0 "the next one finishes" "$shredder" copy -r killed --from-repo "$work/same" --from-key-file other-key
exits 0 "... and restores" "$shredder" restore -r killed "latest:$work/tree" --target killed-out
manifest killed-out >out.list
same "... the tree" tree.list out.list
finish
