#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Parity behind packs and all other files but locks: damage at every kind of place is found, mended while it is read and mended where it
# lies; what is too much is told and left as it is.
# Of store/pack_parity.c, store/mend.c, store/pool.c, store/parity_change.c, cli/cmd_parity.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key
cat >damage.py <<'END'
"""damage.py FILE OFFSET:BYTES...: flips a bit of each byte there. An offset counts from the end when it is negative."""
import sys

with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    for place in sys.argv[2:]:
        offset, _, count = place.partition(":")
        for at in range(int(offset), int(offset) + int(count or 1)):
            data[at] ^= 4
    file.seek(0)
    file.write(data)
END

mkdir -p tree/sub
noise 5000000 1 >tree/large
for i in {1..200}; do echo "file $i" >"tree/sub/$i"; done
manifest tree >wanted
packs() {
	find "$1/packs" -type f -printf '%s %p\n' | sort -n | cut -d' ' -f2
}
pack_bytes() { # of the pack in a file with parity: the second number of its tail
	od -An -tu4 -j $(($(stat -c %s "$1") - 12)) -N 4 "$1" | tr -d ' '
}
again() {
	rm -rf repo
	cp -a good repo
}
restored() { # restored NAME REPOSITORY
	rm -rf out
	exits 0 "$1" "$shredder" restore -r "$2" "latest:$work/tree" --target out
	manifest out >found
	same "... as it was" wanted found
}
mends() { # mends NAME FILE PLACE...
	local name=$1 file=$2
	shift 2
	again
	python3 damage.py "$file" "$@"
	run "$shredder" check -r repo --read-data
	[ "$status" -eq 1 ]
	report $? "$name: is found"
	exits 0 "... is mended" "$shredder" check -r repo --repair
	says "... which is told" "was damaged and is mended"
	cmp -s "$file" "good${file#repo}" || [[ $file == */index/* && ! -e $file ]] # of packs that are mended a new one is made
	report $? "... to what it was"
}

exits 2 "no parity of five" "$shredder" init -r none --parity 5
exits 2 "none in format 1" "$shredder" init -r none --format 1 --parity 1
for parity in 1 2 3 4; do
	rm -rf repo good
	exits 0 "init with parity $parity" "$shredder" init -r repo --parity "$parity"
	exits 0 "... backup" "$shredder" backup -r repo tree
	exits 0 "... check" "$shredder" check -r repo --read-data
	cp -a repo good
	mapfile -t files < <(packs repo)
	large=${files[-1]} small=${files[0]}
	own=$(pack_bytes "$large")
	extra=$(($(stat -c %s "$large") - own))
	[ "$extra" -gt $((own * parity / 33)) ] && [ "$extra" -lt $((own * (2 * parity + 1) / 60)) ]
	report $? "... costs 3 % for each ($extra of $own)"
	mends "every kind of place at once, each in a row of its own" "$large" 5 20000 "$((own - 9000))" -1 -70000
	mends "$parity * 64 KiB in a row" "$large" "2097152:$((parity * 65536))"
	mends "the pack of directories" "$small" 30 "$((parity == 1 ? 31 : 400))"
	# 32 chunks of 64 KiB: one block more than parity at one place
	again
	places=()
	for ((i = 0; i <= parity; i++)); do places+=("$((8192 + i * 65536))"); done
	python3 damage.py "$large" "${places[@]}"
	cp "$large" damaged
	exits 1 "one block more than that" "$shredder" check -r repo --repair
	says "... is told" "do not match its name"
	cmp -s "$large" damaged
	report $? "... and is left as it is"
done

# ---- one bit, at every kind of place (parity 4 is there now)
exits 0 "another repository" "$shredder" init -r single --parity 1
"$shredder" backup -r single tree >/dev/null
rm -rf good
cp -a single good
again
mapfile -t files < <(packs repo)
large=${files[-1]}
own=$(pack_bytes "$large")
header=$(od -An -tu4 -j $((own - 16)) -N 4 "$large" | tr -d ' ')
for at in 0 8 9 10 12 16 60 4095 4096 65535 65536 2097151 2097152 $((own - 17 - header)) $((own - 16 - header)) \
	$((own - 20)) $((own - 16)) $((own - 12)) $((own - 1)) "$own" $((own + 65535)) $((own + 65536)) $((own + 69000)) \
	-17 -16 -12 -8 -1; do
	mends "a flipped bit at $at" "$large" "$at"
done
restored "a restore from what was mended" repo
again
python3 damage.py "$large" 10 $((own - 16 - header))
rm repo/index/*
exits 0 "a pack without a header that can be read, and no index" "$shredder" check -r repo --repair
restored "... are restored" repo
again
truncate -s -1 "$large"
exits 1 "a pack that is a byte too short" "$shredder" check -r repo --repair
says "... is a problem" "pack"

# ---- mended while it is read, where it lies by check --repair alone
again
python3 damage.py "$large" 20000 "$((own - 9000))" -1
cp "$large" damaged
restored "a restore from a damaged pack" repo
says "... which is told" "were mended while they were read"
cmp -s "$large" damaged
report $? "... and leaves the pack as it is"
python3 damage.py "$large" 30000 $((30000 + 65536))
run "$shredder" restore -r repo "latest:$work/tree" --target out.damaged
[ "$status" -ne 0 ] && grep -q 'is damaged' .err
report $? "what parity cannot mend is told"
for kind in config keys snapshots index; do
	again
	file=$(find "repo/$kind" -type f)
	bytes=$(stat -c %s "$file")
	for at in 0 8 10 16 60 $((bytes * 2 / 5)) $((bytes * 3 / 5)) $((bytes - 100)) $((bytes - 16)) $((bytes - 12)) $((bytes - 1)); do
		mends "$kind, a flipped bit at $at" "$file" "$at"
		again
		python3 damage.py "$file" "$at"
		rm -f "$XDG_STATE_HOME"/*/* 2>/dev/null
		exits 0 "... is mended while it is read" "$shredder" ls -r repo latest
		says "... which is told" "were mended while they were read"
	done
done
again
python3 damage.py repo/config 16 5000 # its one block that is not empty, and of the parity
exits 1 "a configuration that cannot be mended" "$shredder" snapshots -r repo
says "... is told" "is damaged"
exits 0 "init of format 2 with parity" "$shredder" init -r second --format 2 --parity 1
exits 0 "... backup" "$shredder" backup -r second tree
python3 damage.py "$(packs second | tail -n 1)" 20000
restored "... a pack is mended while it is read" second
equals "... other files have no parity" "" "$(grep -rl 'parity $' second/config second/keys second/snapshots second/index)"

exits 0 "init of format 3 with parity" "$shredder" init -r third --format 3 --parity 1
exits 0 "... backup" "$shredder" backup -r third tree
python3 damage.py "$(packs third | tail -n 1)" 20000
for kind in config keys snapshots index; do python3 damage.py "$(find third/$kind -type f)" 20; done
restored "... everything is mended while it is read" third
exits 0 "... and where it lies" "$shredder" check -r third --repair --read-data

# ---- a sector that is lost takes no file along, however short
for parity in 1 4; do
	rm -rf single good
	exits 0 "init with parity $parity" "$shredder" init -r single --parity "$parity"
	"$shredder" backup -r single tree >/dev/null
	cp -a single good
	for kind in config keys snapshots index packs; do
		again
		file=$(packs repo | head -n 1) # of directories
		[ "$kind" = packs ] || file=$(find "repo/$kind" -type f)
		size=$(stat -c %s "$file") # a repaired index has another name
		for ((at = 0; at < size; at += 4096)); do
			again
			bytes=$((size - at))
			dd if=/dev/zero of="$file" bs=1 seek="$at" count=$((bytes < 4096 ? bytes : 4096)) conv=notrunc status=none
			rm -f "$XDG_STATE_HOME"/*/* 2>/dev/null
			restored "$kind without the sector at $at" repo
			exits 0 "... is mended" "$shredder" check -r repo --repair --read-data
			cmp -s "$file" "good${file#repo}" || [[ $kind == index && ! -e $file ]]
			report $? "... to what it was"
		done
	done
done

# ---- a row beyond parity, and others that are not
cat >rows.py <<'END'
"""rows.py FILE OFFSET...: places of one row beyond parity 1, for each offset: a byte there, and one in its stripe's parity chunk."""
import os
import sys

STRIPE, BLOCK = 2 << 20, 4096
size = os.path.getsize(sys.argv[1])
with open(sys.argv[1], "rb") as file:
    file.seek(size - 12)
    own = int.from_bytes(file.read(4), "little")
padded = own // BLOCK * BLOCK + BLOCK
for offset in map(int, sys.argv[2:]):
    at, section = 0, padded
    while True:
        chunk = -(-min(STRIPE, padded - at) // (32 * BLOCK)) * BLOCK
        if offset < at + STRIPE:
            break
        at, section = at + STRIPE, section + chunk + 33 * chunk // BLOCK * 8
    print(offset, section + (offset - at) % chunk)
END
exits 0 "a repository of many files" "$shredder" init -r many --parity 1
mkdir files
for i in {1..24}; do noise 200000 "$((100 + i))" >"files/$i"; done
"$shredder" backup -r many files >/dev/null
rm -rf good
cp -a many good
again
large=$(packs repo | tail -n 1)
unread() { # those files that a restore could not write
	rm -rf out
	run "$shredder" restore -r repo "latest:$work/files" --target out
	diff -rq files out | sort
}
python3 damage.py "$large" 100000 165536 # of two chunks
unread >lost
[ -s lost ] && [ "$(wc -l <lost)" -lt 8 ]
report $? "a row beyond parity takes some files ($(wc -l <lost))"
python3 damage.py "$large" 1000000 2500000 3000000
unread >lost_then
same "... and no others, though more is damaged that can be mended" lost lost_then
exits 1 "check --repair" "$shredder" check -r repo --repair
says "... tells" "what could be mended is"
cp "good${large#repo}" expected
python3 damage.py expected 100000 165536
cmp -s "$large" expected
report $? "... and leaves what is beyond parity as it is, and nothing else"
unread >lost_then
same "... as many files are lost" lost lost_then
again
own=$(pack_bytes "$large")
header=$((own - 16 - $(od -An -tu4 -j $((own - 16)) -N 4 "$large" | tr -d ' ')))
# shellcheck disable=SC2046 # words are meant
python3 damage.py "$large" $(python3 rows.py "$large" $((header + 30)))
exits 1 "a header beyond parity" "$shredder" check -r repo --repair
says "... is told, and what the old index said stays" "what the old index says of it is kept"
unread >lost_then
same "... so nothing is lost" /dev/null lost_then
echo more >files/more
exits 0 "... a backup" "$shredder" backup -r repo files
exits 0 "... and a prune go on" "$shredder" forget -r repo --keep-last 1 --prune
exits 0 "... restore" "$shredder" restore -r repo "latest:$work/files" --target out2
exits 0 "... as it was" diff -r files out2
exits 1 "... without the index there is nothing" bash -c "rm repo/index/*; '$shredder' check -r repo --repair"
says "... which is told" "no index file says anything"

# ---- what prune and copy write has parity, and a repository without has none
again
rm tree/sub/1*
manifest tree >wanted
exits 0 "a backup of less" "$shredder" backup -r repo tree
exits 0 "... a prune that rewrites" "$shredder" forget -r repo --keep-last 1 --prune --max-unused 0
exits 0 "init with parity 2" "$shredder" init -r copy --parity 2
exits 0 "... copy" "$shredder" copy -r copy --from-repo repo --from-key-file key
exits 0 "init without" "$shredder" init -r plain
exits 0 "... copy" "$shredder" copy -r plain --from-repo repo --from-key-file key
for repo in repo copy plain; do
	exits 0 "... check of $repo" "$shredder" check -r "$repo" --read-data
	restored "... restore" "$repo"
	tails=$(for pack in $(packs "$repo"); do tail -c 8 "$pack" | head -c 7; done | sed 's/parity /parity /g')
	case $repo in
	plain) [[ $tails != *parity* ]] ;;
	*) [[ $tails != *packend* && $tails == *parity* ]] ;;
	esac
	report $? "... parity is where it should be"
	rm -rf good
	cp -a "$repo" good
	large=$(packs "$repo" | tail -n 1)
	python3 damage.py "$large" 50000
	run "$shredder" check -r "$repo" --repair --read-data
	equals "... damage is mended where there is parity" "$([ "$repo" = plain ] && echo 1 || echo 0)" "$status"
	cmp -s "$large" "good${large#"$repo"}"
	differs=$?
	equals "... and only there" "$([ "$repo" = plain ] && echo 1 || echo 0)" "$differs"
done

# ---- parity that changes
for number in '' 5 -1 x '1 2'; do
	# shellcheck disable=SC2086 # words
	exits 2 "parity '$number'" "$shredder" parity -r good $number
	one_sentence "... is refused in one sentence"
done
rm -rf late
exits 0 "a repository without parity" "$shredder" init -r late
exits 0 "a backup" "$shredder" backup -r late tree
noise 3000000 9 >tree/second
exits 0 "another backup" "$shredder" backup -r late tree
manifest tree >wanted
small=$(du -sb late | cut -f1)

is_json "parity is added" "$shredder" parity -r late --json 2
equals "... to all files" "2 3 0" "$(json_value 'd["parity"], d["others"], d["problems"]' | tr -d '(),')"
without_parity() { # of all files of a repository
	find late/config late/packs late/index late/snapshots late/keys -type f | while read -r file; do
		[ "$(tail -c 8 "$file" | tr '\n' .)" = parity2. ] || echo "$file"
	done
}
equals "... whichever they are" "" "$(without_parity)"
exits 0 "... and the repository is whole" "$shredder" check -r late --read-data
says "... without a problem" '^no problem found'
find late/config late/packs late/index late/snapshots late/keys -type f -exec python3 damage.py {} 20:4096 \;
restored "what every file has lost of a sector is mended" late
exits 1 "check tells" "$shredder" check -r late
exits 0 "... and mends" "$shredder" check -r late --repair
exits 0 "... all" "$shredder" check -r late --read-data
exits 0 "what is saved now" "$shredder" backup -r late -f tree --level 9
equals "... has it, too" "" "$(without_parity)"
is_json "the same parity once more" "$shredder" parity -r late --json 2
equals "... writes no pack anew" "0 0" "$(json_value 'd["packs"], d["others"]' | tr -d '(),')"
# a pack beyond its parity stays, and what is whole changes
pack=$(packs late | tail -n 1)
python3 damage.py "$pack" 100000:500000
exits 1 "another parity where a pack is lost" "$shredder" parity -r late 1
says "... is told" 'pack .* is damaged'
says "... counted" '1 file is damaged or missing and stays'
equals "... and the pack stays" 1 "$(find late/packs -name "$(basename "$pack")" | wc -l)"
python3 damage.py "$pack" 100000:500000
is_json "when it is whole again" "$shredder" parity -r late --json 1
equals "... the rest follows" "1 0 0" "$(json_value 'd["packs"], d["others"], d["problems"]' | tr -d '(),')"
# a missing one is told, and what is there changes
pack=$(packs late | tail -n 1)
mv "$pack" missing
exits 1 "another parity where a pack is missing" "$shredder" parity -r late 2
says "... is told" "cannot read .*$(basename "$pack")"
says "... counted" '1 file is damaged or missing'
equals "... and the rest has it" "" "$(without_parity)"
exits 1 "... and a check misses the pack still" "$shredder" check -r late
says "... by its name" "pack $(basename "$pack" | cut -c1-16) is missing"
mv missing "$pack"
exits 0 "... until it is back" "$shredder" check -r late --read-data
exits 0 "parity is taken away" "$shredder" parity -r late 0
exits 0 "... and the repository is whole" "$shredder" check -r late --read-data
restored "... and can be restored" late
equals "... and is as small as before" True "$(python3 -c "print($(du -sb late | cut -f1) < $small * 1.1)")"
equals "... with no lock left" "" "$(ls late/locks)"
"$shredder" init -r older --format 3 --parity 1 >/dev/null
exits 1 "the parity of an older format" "$shredder" parity -r older 2
one_sentence "... cannot be changed, says one sentence"
finish
