#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Repositories that were damaged, killed, filled up, locked: never a bad restore, always a sentence, nothing lost.
# Of store/check.c, store/blob.c, store/file.c, store/prune.c, store/message.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key

mkdir -p tree/sub
noise 3000000 1 >tree/large
for i in {1..50}; do echo "file $i" >"tree/sub/$i"; done
restored() { # restored NAME: the last snapshot can be restored, and is the tree
	rm -rf out
	run "$shredder" restore "latest:$work/tree" --target out
	diff -r tree out >>.err 2>&1 && [ "$status" -eq 0 ]
	report $? "$1"
}
never_wrong() { # never_wrong NAME: whatever the restore says, no file has other content
	rm -rf out
	run "$shredder" restore "latest:$work/tree" --target out
	mkdir -p out
	diff -rq tree out >differences
	! grep -qv '^Only in ' differences && { [ "$status" -ne 0 ] || [ ! -s differences ]; }
	report $? "$1"
}
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree
restored "it can be restored"
cp -a repo good
again() {
	rm -rf repo
	cp -a good repo
}
flip() { # flip FILE OFFSET: one bit
	local old
	old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
	poke "$1" "$2" "$(printf %02x $((old ^ 4)))"
}

# ---- a flipped bit
one() { # one PATTERN: the largest file that matches
	find repo -type f -path "$1" -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2
}
size() {
	stat -c %s "$1"
}
data_pack=$(one 'repo/packs/*')
tree_pack=$(find repo/packs -type f -printf '%s %p\n' | sort -n | head -n 1 | cut -d' ' -f2)
damaged() { # damaged NAME FILE OFFSET: check finds it, and no restore is wrong
	again
	flip "$2" "$3"
	run "$shredder" check --read-data
	[ "$status" -ne 0 ] && grep -q 'damaged\|wrong key file\|no file of a repository\|missing\|newer\|not in the index' .out .err
	report $? "$1 is reported"
	never_wrong "... and no restore is wrong"
}
for at in 0 8 9 10 13 20 60; do
	damaged "a flipped bit in the configuration at $at" repo/config "$at"
	one_sentence "... in a sentence"
done
for at in 0 8 9 10 17 20 30 50 60 120 150; do
	damaged "a flipped bit in the key at $at" "$(one 'repo/keys/*')" "$at"
done
for at in 0 9 10 16 50 1000000; do
	damaged "a flipped bit in a pack at $at" "$data_pack" "$at"
done
for back in 1 5 10 14 16 17 60; do
	damaged "a flipped bit in a pack, $back before its end" "$data_pack" $(($(size "$data_pack") - back))
done
for at in 20 100; do
	damaged "a flipped bit in a pack of directories at $at" "$tree_pack" "$at"
done
for at in 0 9 10 30 100; do
	damaged "a flipped bit in the index at $at" "$(one 'repo/index/*')" "$at"
	damaged "a flipped bit in the snapshot at $at" "$(one 'repo/snapshots/*')" "$at"
done

# ---- cut off, foreign, missing
for kind in packs index snapshots keys; do
	again
	file=$(one "repo/$kind/*")
	truncate -s $(($(size "$file") / 2)) "$file"
	run "$shredder" check
	[ "$status" -ne 0 ]
	report $? "half a file of $kind is reported"
	never_wrong "... and no restore is wrong"
	: >"$file"
	run "$shredder" check
	[ "$status" -ne 0 ]
	report $? "an empty one, too"
done
again
rm "$data_pack"
exits 1 "a missing pack" "$shredder" check
says "... is told" "pack .* is missing"
exits 1 "a prune without it" "$shredder" prune
says "... removes nothing" "nothing is removed"
again
"$shredder" init --repo other --no-encryption >/dev/null
"$shredder" backup --repo other --no-encryption tree >/dev/null
foreign=$(find other/packs -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
cp "$foreign" "$data_pack"
run "$shredder" check --read-data
[ "$status" -ne 0 ]
report $? "another repository's pack under the name of one is reported"
never_wrong "... and no restore is wrong"
again
cp other/config repo/config
exits 1 "another configuration, without encryption" "$shredder" backup tree
says "... is refused" "is not encrypted"
again
cp other/snapshots/* repo/snapshots/
exits 1 "a snapshot that is not encrypted" "$shredder" snapshots
says "... is refused" "unlike the repository"
again
rm repo/keys/*
exits 1 "no key left" "$shredder" snapshots
one_sentence "... is told in one sentence"

# ---- the index is lost
again
rm repo/index/*
exits 1 "a restore without an index" "$shredder" restore latest --target out
says "... tells what is missing" "the index does not know blob"
exits 1 "a check" "$shredder" check
says "... tells that packs are in no index" "packs are in no index"
exits 0 "check --repair" "$shredder" check --repair --read-data
says "... reads the packs" "no problem found"
restored "... and everything is there"
again
flip "$(one 'repo/index/*')" 100
exits 0 "check --repair of a damaged index" "$shredder" check --repair
exits 0 "... after which all is well" "$shredder" check --read-data
restored "... and everything is there"

again
rm repo/index/*
poke "$tree_pack" 10 0600
exits 1 "check --repair where a pack claims to be of a newer version" "$shredder" check --repair
says "... tells it" "format version 6; this program knows versions up to 5"
says "... and what that costs" "their blobs are left out of the new index"
equals "... and makes an index of the others" 1 "$(find repo/index -type f | wc -l)"

# ---- a newer version
for kind in config 'keys/*' 'snapshots/*' 'index/*'; do
	again
	file=$(one "repo/$kind")
	poke "$file" 10 0600
	run "$shredder" restore latest --target out
	[ "$status" -ne 0 ] && grep -q "format version 6" .err
	report $? "version 6 of $kind is refused"
	one_sentence "... in one sentence"
done

# ---- killed
again
mkdir -p grow
for round in {1..12}; do
	noise 6000000 $((100 + round)) >"grow/$round"
	"$shredder" backup grow >/dev/null 2>&1 &
	pid=$!
	sleep "0.$(printf %02d $((RANDOM % 30)))"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	run "$shredder" check --read-data
	[ "$status" -eq 0 ] || break
done
report "$status" "killed backups leave a whole repository"
exits 0 "the next one finishes" "$shredder" backup grow
exits 0 "... and can be restored" "$shredder" restore "latest:$work/grow" --target grown
equals "... as it was" "" "$(diff -r grow grown 2>&1 | head -n 3)"
rm -rf grown
for round in {1..8}; do
	"$shredder" restore "latest:$work/grow" --target grown >/dev/null 2>&1 &
	pid=$!
	sleep "0.$(printf %02d $((RANDOM % 15)))"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
done
exits 0 "a restore that was killed goes on" "$shredder" restore "latest:$work/grow" --target grown
equals "... to the same" "" "$(diff -r grow grown 2>&1 | head -n 3)"
for round in {1..8}; do
	rm "grow/$round"
	"$shredder" backup grow >/dev/null
	"$shredder" forget --keep-last 1 --path "$work/grow" >/dev/null
	"$shredder" prune --max-unused 0 >/dev/null 2>&1 &
	pid=$!
	sleep "0.$(printf %02d $((RANDOM % 20)))"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	run "$shredder" check --read-data
	[ "$status" -eq 0 ] || break
done
report "$status" "killed prunes leave a whole repository"
exits 0 "the next one finishes" "$shredder" prune --max-unused 0
exits 0 "... and all is well" "$shredder" check --read-data
equals "... nothing is left of those that were killed" "" "$(ls repo/tmp)"
rm -rf grown
exits 0 "what is there can be restored" "$shredder" restore "latest:$work/grow" --target grown
equals "... as it was" "" "$(diff -r grow grown 2>&1 | head -n 3)"

# A prune that was cut off behind its new index, without encryption: what it makes again has the names that are there. Which index comes first
# is chance, so there are several.
plain=(--repo "$work/plain" --no-encryption)
wrong=
for round in {1..8}; do
	rm -rf plain before part out
	mkdir part
	for i in {1..6}; do noise 200000 $((1000 + round * 10 + i)) >"part/$i"; done
	"$shredder" init "${plain[@]}" >/dev/null && "$shredder" backup "${plain[@]}" part >/dev/null
	rm part/[123]
	"$shredder" backup "${plain[@]}" part >/dev/null && "$shredder" forget "${plain[@]}" --keep-last 1 >/dev/null
	cp -a plain before
	"$shredder" prune "${plain[@]}" --max-unused 0 >/dev/null
	cp -an before/packs before/index plain/
	{
		"$shredder" check "${plain[@]}" --read-data && "$shredder" prune "${plain[@]}" --max-unused 0 &&
			"$shredder" check "${plain[@]}" --read-data &&
			"$shredder" restore "${plain[@]}" "latest:$work/part" --target out && diff -r part out
	} >>.out 2>>.err || wrong+=" $round"
done
equals "without encryption a prune that was cut off can be run again" "" "$wrong"

# ---- locks
mkfifo feed
"$shredder" backup --stdin fed <feed >/dev/null 2>&1 &
pid=$!
exec 9>feed # it holds a lock as long as this is open
until [ -n "$(ls repo/locks)" ]; do
	kill -0 "$pid" || break
	sleep 0.05
done
exits 11 "a prune beside a backup" "$shredder" prune
one_sentence "... is refused in one sentence"
exits 0 "a backup beside a backup" "$shredder" backup tree
exits 0 "unlock" "$shredder" unlock
says "... leaves a living lock" '^0 locks removed, 1 left'
kill -9 "$pid"
wait "$pid" 2>/dev/null
exec 9>&-
equals "a killed one leaves its lock" 1 "$(find repo/locks -type f | wc -l)"
exits 0 "... which counts for nothing" "$shredder" prune
equals "... and is removed" 0 "$(find repo/locks -type f | wc -l)"
if [ "$(id -u)" -eq 0 ] && unshare --uts true 2>/dev/null; then
	exec 9<>feed # a writer that is there from the beginning
	# shellcheck disable=SC2016 # the inner shell's
	unshare --uts sh -c 'hostname elsewhere; exec "$0" backup --stdin fed <feed' "$shredder" >/dev/null 2>&1 &
	pid=$!
	until [ -n "$(ls repo/locks)" ]; do
		kill -0 "$pid" || break
		sleep 0.05
	done
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	exec 9>&-
	exits 11 "another host's lock" "$shredder" prune
	says "... says whose it is" "on elsewhere"
	exits 0 "unlock" "$shredder" unlock
	says "... leaves it, it is too young" '^0 locks removed, 1 left'
	exits 0 "unlock --remove-all" "$shredder" unlock --remove-all
	exits 0 "... and prune works" "$shredder" prune
else
	echo "# skipped: locks of another host need root"
fi
"$shredder" prune --max-unused 0 >/dev/null 2>first &
pid=$!
"$shredder" prune --max-unused 0 >/dev/null 2>second
other=$?
wait "$pid"
[ "$?,$other" = 0,0 ] || grep -q 'is locked' first second || {
	sed 's/^/# /' first second
	false
}
report $? "two prunes at once: one after the other, or one gives up"
exits 0 "... and all is well" "$shredder" check --read-data

# ---- no space
if [ "$(id -u)" -eq 0 ] && mkdir full && mount -t tmpfs -o size=8M none full 2>/dev/null; then
	trap 'umount "$work/full"; rm -rf "$work"' EXIT
	export SHREDDER_REPOSITORY=$work/full/repo
	exits 0 "init in a small place" "$shredder" init
	exits 0 "a backup that fits" "$shredder" backup tree
	noise 20000000 9 >big
	exits 1 "one that does not" "$shredder" backup big
	one_sentence "... says so in one sentence"
	says "... and why" 'No space left on device'
	exits 0 "what was there is whole" "$shredder" check --read-data
	restored "... and can be restored"
	SHREDDER_REPOSITORY=$work/repo
	"$shredder" backup big >/dev/null
	exits 1 "a restore that does not fit" "$shredder" restore "latest:$work" --target full/out
	says "... says so" 'No space left on device'

	# no byte is free: what makes room works, with a lock that says nothing, and an index that goes before the new one comes
	export SHREDDER_REPOSITORY=$work/full/repo
	rm -rf full/out
	fill() { head -c 20000000 /dev/zero >>full/filler 2>/dev/null; }
	noise 2000000 10 >further.noise # 'other' is a repository
	exits 0 "a backup of something else" "$shredder" backup further.noise
	! fill
	report $? "the place is full"
	exits 1 "a backup finds no room" "$shredder" backup big
	exits 0 "forget where no byte is free" "$shredder" forget --path "$work/further.noise" latest
	! fill
	report $? "the place is full again"
	restored "a restore works where there is no room for its lock"
	exits 0 "prune where no byte is free" "$shredder" prune
	says "... tells how" 'there was no room for a new index beside the old one, which went first$'
	[ "$(stat -f -c %a full)" -gt 450 ]
	report $? "... makes room"
	equals "... and leaves no lock" "" "$(ls full/repo/locks)"
	exits 0 "... the rest is whole" "$shredder" check --read-data
	restored "... and can be restored"
	! fill
	report $? "it is full once more"
	: >full/repo/locks/"$(printf 'a%.0s' {1..64})"
	exits 11 "a lock that says nothing is one" "$shredder" prune
	says "... which can be removed" "'shredder unlock --remove-all' removes it"
	exits 0 "... so" "$shredder" unlock --remove-all
	exits 0 "... then it works" "$shredder" prune
	umount full
	trap 'rm -rf "$work"' EXIT
else
	echo "# skipped: full disks need root"
fi
finish
