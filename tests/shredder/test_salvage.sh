#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs that are damaged and given up: what can be read of them stays, what cannot leaves the index, the next backup stores it again, and snapshots that
# have lost something are named. Of store/salvage.c, store/replace.c, cli/cmd_rewrite.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key

mkdir -p tree/small
for i in 1 2 3; do noise 700000 "$i" >"tree/large$i"; done
for i in {1..40}; do noise 3000 $((100 + i)) >"tree/small/$i"; done
touch -d 2020-01-01 tree/small/* tree/* tree
manifest tree >tree.list
sleep 2.1 # files that changed within two seconds are read again, whatever is in the index
blob_of() { # blob_of PATH: a file's first chunk, or a directory's first piece
	"$shredder" cat tree "latest:$work/tree" |
		python3 -c "import json, sys; print([e for e in json.load(sys.stdin) if e['entry']['path'] == '$1'][0]['content'][0]['id'])"
}
place_in() { # place_in PACK BLOB: where in it that lies; nothing where it does not
	"$shredder" cat pack "$1" | python3 -c "
import json, sys
print(*[b['offset'] for b in json.load(sys.stdin)['blobs'] if b['id'] == '$2'])"
}
pack_of() { # pack_of PATH: the pack that has its first blob, and where in it that lies
	local blob
	blob=$(blob_of "$1")
	for pack in $("$shredder" list packs); do
		at=$(place_in "$pack" "$blob")
		[ -z "$at" ] || break
	done
	file=repo/packs/${pack:0:2}/$pack
}
# By one thread, so that blobs lie in their pack in the order of the files: before the third large one's are the others'.
fresh() { # fresh OPTION...: a repository with two snapshots of the tree, the second one of hardly anything new
	rm -rf repo
	"$shredder" init "$@" >/dev/null && "$shredder" backup --threads 1 tree >/dev/null &&
		"$shredder" backup --host other tree >/dev/null || exit 1
}
whole() { # whole NAME: all snapshots give the tree, bit for bit, and a check finds nothing
	exits 0 "$1" "$shredder" check --read-data
	for id in $(snapshot_ids); do
		rm -rf out
		run "$shredder" restore "$id:$work/tree" --target out
		manifest out >out.list
		same "... and is the tree" tree.list out.list
	done
}
stored_again() { # a backup of the tree, which has not changed, makes all snapshots whole
	exits 1 "... a check finds that something is missing" "$shredder" check
	exits 0 "... the next backup" "$shredder" backup tree
	whole "... makes all snapshots whole"
}

# ---- options
fresh
exits 2 "repair of nothing" "$shredder" repair
exits 2 "repair index" "$shredder" repair index
one_sentence "... is refused in one sentence"
for options in --forget --read-data "--host x" "--tag x" "--threads 0"; do
	# shellcheck disable=SC2086 # two words
	exits 2 "repair packs $options" "$shredder" repair packs $options
	one_sentence "... is refused in one sentence"
done
exits 2 "repair snapshots --threads" "$shredder" repair snapshots --threads 2
exits 1 "repair of a pack that is none" "$shredder" repair packs 0000000000
one_sentence "... is refused in one sentence"
find repo -type f | sort >before
exits 0 "repair of packs that are whole" "$shredder" repair packs
says "... finds nothing" ': 0 damaged and 0 missing ones are gone; 0 blobs are in new packs, 0 are lost$'
find repo -type f | sort | cmp -s before -
report $? "... and changes nothing"

# ---- a chunk of a large file, which is in the index: no backup stores it again
pack_of large2
poke "$file" $((at + 50)) 00112233445566778899
exits 1 "check of a damaged chunk" "$shredder" check --read-data
says "... names the way" "^1 pack is damaged or missing: 'shredder repair packs'"
is_json "... as JSON" "$shredder" check --read-data --json
equals "... counts it" 1 "$(json_value 'd["bad_packs"]')"
exits 0 "a backup of what has not changed" "$shredder" backup tree
exits 1 "... stores nothing" "$shredder" check --read-data
find repo -type f | sort >before
exits 0 "repair packs --dry-run" "$shredder" repair packs --dry-run
says "... tells the pack" "^pack ${pack:0:16} is damaged: 1 of its [0-9]* blobs cannot be read$"
says "... and the loss" '1 damaged and 0 missing ones would go; [0-9]* blobs would be in new packs, 1 would be lost$'
find repo -type f | sort | cmp -s before -
report $? "... and changes nothing"
exits 0 "repair packs" "$shredder" repair packs --threads 1
says "... keeps the others" "^pack ${pack:0:16} is damaged: 1 of its [0-9]* blobs cannot be read, the others are in new packs$"
says "... tells the loss" '1 damaged and 0 missing ones are gone; [0-9]* blobs are in new packs, 1 is lost$'
equals "... names all snapshots, and the file" 3 \
	"$(grep -c '^snapshot .* has lost something of 1 file or directory, first /.*/tree/large2$' .out)"
says "... and what to do" '^back up again what is still there'
[ ! -e "$file" ]
report $? "... and the damaged pack is gone"
rm -rf out
exits 1 "a restore" "$shredder" restore "latest:$work/tree" --target out
cmp -s tree/large1 out/large1 && cmp -s tree/large3 out/large3 && diff -r tree/small out/small >/dev/null
report $? "... gives what is not lost"
stored_again

# ---- small files in a group, and directories: one that was stored before, for what is above the tree, such as /tmp, others change meanwhile, and no
# backup stores it again as it was
rm -rf repo
"$shredder" init >/dev/null && "$shredder" backup --host before tree/small >/dev/null && "$shredder" backup tree >/dev/null &&
	"$shredder" backup --host other tree >/dev/null && "$shredder" forget --host before latest >/dev/null || exit 1
pack_of small # the directory's piece
poke "$file" $((at + 40)) 00112233445566778899
is_json "repair of a group of directories" "$shredder" repair packs --json
equals "... tells it" "1 True 2" "$(json_value 'str(d["damaged_packs"]), d["lost_blobs"] > 0, len(d["snapshots"])' | tr -d "(),'")"
stored_again

# ---- what says where blobs lie is lost, which the index knows. Without encryption the new pack is the old one, byte for byte
program=$shredder
# shellcheck disable=SC2016 # for that shell
printf '#!/bin/sh\ncommand=$1\nshift\nexec "%s" "$command" --no-encryption "$@"\n' "$program" >plain
chmod +x plain
for options in "" --no-encryption "--format 1"; do
	if [ "$options" = --no-encryption ]; then
		unset SHREDDER_KEY_FILE
		shredder=$work/plain
		fresh
	else
		export SHREDDER_KEY_FILE=$work/key
		shredder=$program
		# shellcheck disable=SC2086 # two words
		fresh $options
	fi
	pack_of large1
	poke "$file" $(($(stat -c %s "$file") - 20)) 00112233445566778899
	exits 0 "repair of a pack without its header ($options)" "$shredder" repair packs
	says "... loses nothing" '1 damaged and 0 missing ones are gone; [0-9]* blobs are in new packs, 0 are lost$'
	whole "... and all is whole"
done

# ---- cut off, empty, missing
fresh
pack_of large3
truncate -s $((at + 1000)) "$file"
exits 0 "repair of a pack that is cut off" "$shredder" repair packs
says "... keeps what is before" '1 damaged and 0 missing ones are gone; [1-9][0-9]* blobs are in new packs, [1-9][0-9]* [a-z]* lost$'
stored_again
fresh
pack_of large3
: >"$file"
exits 0 "repair of an empty pack" "$shredder" repair packs
says "... has nothing of it" '1 damaged and 0 missing ones are gone; 0 blobs are in new packs, [1-9][0-9]* [a-z]* lost$'
stored_again
fresh
pack_of large3
rm "$file"
exits 0 "repair of a pack that is missing" "$shredder" repair packs
says "... tells it" "^pack ${pack:0:16} is missing$"
stored_again

# ---- missing, and no longer known: an index was made anew before
fresh
pack_of large3
rm "$file"
exits 1 "check --repair" "$shredder" check --repair
says "... names the way" "^snapshots have lost something: 'shredder repair packs' tells which"
exits 1 "check" "$shredder" check
says "... names it, too" "^snapshots have lost something: 'shredder repair packs' tells which"
exits 0 "repair of a pack that is missing and forgotten" "$shredder" repair packs
equals "... names all snapshots" 2 "$(grep -c '^snapshot .* has lost something of [1-9][0-9]* .*, first /.*/tree/' .out)"
says "... and what to do" '^back up again what is still there'
stored_again

# ---- damaged, and not looked at
fresh
pack_of large3
poke "$file" $((at + 50)) 00112233445566778899
exits 0 "check --repair that reads no pack" "$shredder" check --repair
says "... does not say that all is well" '^no problem found; what is in packs was not read'
exits 1 "... with --read-data it is none" "$shredder" check --repair --read-data

# ---- of one snapshot nothing is left: the others are mended
rm -rf repo
"$shredder" init >/dev/null && "$shredder" backup tree/small >/dev/null || exit 1
"$shredder" list packs | sort >old-packs
"$shredder" backup --host other tree >/dev/null || exit 1
while read -r pack; do # the first backup's directories
	! "$shredder" cat pack "$pack" | grep -q '"type": "tree"' || rm "repo/packs/${pack:0:2}/$pack"
done <old-packs
exits 1 "repair of snapshots of which one is lost as a whole" "$shredder" repair snapshots --json
equals "... mends the other one" "1 1 True" "$(json_value 'len(d["changed"]), d["empty"], d["complete"]' | tr -d '(),')"
grep -q "nothing would be left of snapshot .*; 'shredder forget' removes it" .err
report $? "... and says so"

# ---- what stays lost
fresh
pack_of large2
poke "$file" $((at + 50)) 00112233445566778899
rm tree/large2
exits 0 "repair where the file is gone" "$shredder" repair packs "${pack:0:10}"
exits 0 "repair snapshots" "$shredder" repair snapshots --forget
says "... makes what is left whole" '^2 of 2 snapshots changed'
exits 0 "... which a check says" "$shredder" check --read-data
noise 700000 2 >tree/large2
touch -d 2020-01-01 tree/large2 tree

# ---- each blob in two packs, of which one is damaged: which of them the index took is chance
rm -rf repo twin
"$shredder" init >/dev/null && cp -a repo twin && "$shredder" backup -r twin tree >/dev/null && "$shredder" backup tree >/dev/null
cp -an twin/packs twin/index twin/snapshots repo/
data=$(find repo/packs -type f -size +1000k | sort)
equals "two packs of data" 2 "$(wc -l <<<"$data")"
for file in $data; do
	again=$(base64 "$file")
	poke "$file" 100000 00112233445566778899
	cp -a repo damaged
	exits 0 "repair of one of two" "$shredder" repair packs
	says "... loses nothing" '1 damaged and 0 missing ones are gone; [0-9]* blobs are in new packs, 0 are lost$'
	whole "... and all is whole"
	rm -rf repo && mv damaged repo
	base64 -d <<<"$again" >"$file"
done

# ---- both are damaged, in different chunks, and are given up one by one: a pack that nobody has looked at is no place to leave a blob to
# shellcheck disable=SC2086 # two words
set -- $data
cp -a repo two
first=$(place_in "$(basename "$1")" "$(blob_of large1)")
second=$(place_in "$(basename "$2")" "$(blob_of large3)")
for order in "$1 $2" "$2 $1"; do
	poke "$1" $((first + 50)) 00112233445566778899
	poke "$2" $((second + 50)) 00112233445566778899
	for file in $order; do
		exits 0 "repair of one of two that are damaged" "$shredder" repair packs "$(basename "$file")"
		says "... loses nothing" '1 damaged and 0 missing ones are gone; [0-9]* blobs are in new packs, 0 are lost$'
	done
	whole "... and all is whole"
	rm -rf repo && cp -a two repo
done
rm -rf two

# ---- with parity
fresh --parity 1
pack_of large1
poke "$file" $((at + 50)) 00112233445566778899
exits 1 "repair of what parity can mend" "$shredder" repair packs
says "... leaves it" "^pack ${pack:0:16} is damaged and stays, since it has parity enough: 'shredder check --repair' mends it$"
exits 0 "check --repair" "$shredder" check --repair --read-data
says "... does" 'was damaged and is mended'
exits 0 "repair packs" "$shredder" repair packs
whole "all is whole"
poke "$file" $((at + 50)) "$(printf '00%.0s' {1..600000})"
cp -a repo kept
exits 1 "check --repair of what is beyond parity" "$shredder" check --repair
equals "... names the way" "1 pack is damaged or missing: 'shredder repair packs' keeps what can be read of them, and tells which snapshots have lost something" \
	"$(grep 'repair packs' .out)"
exits 1 "... once more with --read-data" "$shredder" check --repair --read-data
says "... which counts it once" "^1 pack is damaged or missing: 'shredder repair packs'"
is_json "... as JSON" "$shredder" check --repair --json
equals "... counts it, too" 1 "$(json_value 'd["bad_packs"]')"
rm -rf repo && mv kept repo
exits 0 "repair of what is beyond parity" "$shredder" repair packs
says "... loses what cannot be mended" '1 damaged and 0 missing ones are gone; [1-9][0-9]* [a-z]* [a-z]* in new packs, [1-9][0-9]* [a-z]* lost$' # one chunk or several: where they end is random
stored_again

# ---- nobody else is there
mkfifo feed
"$shredder" backup --stdin fed <feed >/dev/null 2>&1 &
pid=$!
exec 9>feed
until [ -n "$(ls repo/locks)" ]; do
	kill -0 "$pid" || break
	sleep 0.05
done
exits 11 "repair packs beside a backup" "$shredder" repair packs
one_sentence "... is refused in one sentence"
exits 0 "repair packs --dry-run beside it" "$shredder" repair packs --dry-run
exec 9>&-
wait "$pid"
finish
