#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Parity behind packs and all other files but locks: damage at every kind of place is found, mended while it is read and mended where it
# lies; what is too much is told and left as it is.
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
python3 damage.py repo/config 16 32 48 64
exits 1 "a configuration that cannot be mended" "$shredder" snapshots -r repo
says "... is told" "is damaged"
exits 0 "init of format 2 with parity" "$shredder" init -r second --format 2 --parity 1
exits 0 "... backup" "$shredder" backup -r second tree
python3 damage.py "$(packs second | tail -n 1)" 20000
restored "... a pack is mended while it is read" second
equals "... other files have no parity" "" "$(grep -rl 'parity $' second/config second/keys second/snapshots second/index)"

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
finish
