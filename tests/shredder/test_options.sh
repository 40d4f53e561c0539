#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Options that users of other backups bring along: waiting for locks, reading without one, patterns from files, files without their inodes, and
# what is said too often, and signals.
# Of cli/main.c, cli/cmd_backup.c, cli/cmd_restore.c, cli/cmd_maintain.c, cli/cmd_look.c, cli/cmd_copy.c, cli/repo.c, store/backup_source.c, store/lock.c,
# store/gate.c, store/prune.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
mkdir -p tree/a/b tree/c
for name in a/one a/b/Two a/b/three.O c/four c/five.o; do echo "$name" >"tree/$name"; done
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree

# ---- waiting for a lock
mkfifo feed
"$shredder" backup -q --stdin fed <feed &
feeding=$!
exec 9>feed # it holds a lock as long as this is open
until [ -n "$(ls repo/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
exits 11 "a prune beside a backup" "$shredder" prune --retry-lock 0s
one_sentence "... is refused in one sentence"
exits 11 "a prune that waits, but not long enough" "$shredder" prune --retry-lock 1s
says "... says for what it waits" '^shredder prune: waiting: .* is locked by process '
exits 11 "... quietly" "$shredder" prune --retry-lock 1s --quiet
one_sentence "... says it once"
"$shredder" prune --retry-lock 2h >prune.out 2>prune.err 9>&- &
pruning=$!
until grep -q waiting prune.err || ! kill -0 "$pruning"; do sleep 0.05; done
exec 9>&-
wait "$feeding"
wait "$pruning"
equals "one that waits until the backup is done" 0 $?
equals "... leaves no lock" "" "$(ls repo/locks)"
for time in "" 5 m 1x -1s "1h 2m" 9999999s; do
	exits 2 "no time: '$time'" "$shredder" prune --retry-lock "$time"
	one_sentence "... is refused in one sentence"
done
exits 0 "what was fed goes" "$shredder" forget latest

# ---- a command that is told to end gives back its lock, so that other hosts need not wait for it
for signal in INT TERM HUP; do
	# a shell's background commands ignore SIGINT
	python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$shredder" backup -q --stdin fed <feed 2>signal.err &
	feeding=$!
	exec 9>feed
	until [ -n "$(ls repo/locks)" ]; do
		kill -0 "$feeding" || break
		sleep 0.05
	done
	kill -s "$signal" "$feeding"
	wait "$feeding" 2>/dev/null
	ended=$?
	equals "a backup that SIG$signal ends" "$(kill -l "$signal")" $((ended - 128))
	exec 9>&-
	equals "... leaves no lock" "" "$(ls repo/locks)"
	equals "... and says nothing" "" "$(cat signal.err)"
done
# ... and one that ignores the signal, as behind nohup, goes on with it
(
	trap "" HUP
	exec "$shredder" backup -q --stdin fed <feed
) &
feeding=$!
exec 9>feed
until [ -n "$(ls repo/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
kill -s HUP "$feeding"
noise 3000000 9 >&9
exits 11 "a prune beside one that ignores SIGHUP" "$shredder" prune
exec 9>&-
timeout 60 tail --pid="$feeding" -f /dev/null || kill -9 "$feeding"
wait "$feeding"
equals "... which comes to its end" 0 $?
equals "... and leaves no lock" "" "$(ls repo/locks)"
exits 0 "what was fed goes" "$shredder" forget latest
noise 60000000 1 >large
before=$(ls repo/snapshots)
"$shredder" backup -q large 9>&- &
saving=$!
until [ -n "$(find repo/tmp repo/packs -newer large -type f)" ] || ! kill -0 "$saving"; do sleep 0.01; done
kill "$saving"
wait "$saving" 2>/dev/null
report $(($? == 143 || $? == 0 ? 0 : 1)) "a backup that is ended while it writes"
equals "... leaves no lock" "" "$(ls repo/locks)"
exits 0 "... and what was there is whole" "$shredder" check --read-data
[ "$(ls repo/snapshots)" = "$before" ] || exits 0 "one that was done before goes" "$shredder" forget latest
# shellcheck disable=SC2016 # the inner shell's
exits 1 "a command whose output is saved can be ended" "$shredder" backup --stdin said --stdin-from-command -- sh -c 'kill -TERM $$; echo still here'
rm large

# ---- a repository that nobody may write
exits 2 "check --repair --no-lock" "$shredder" check --repair --no-lock
one_sentence "... is refused in one sentence"
exits 2 "a backup without a lock" "$shredder" backup --no-lock tree
as=()
if [ "$(id -u)" -eq 0 ]; then
	as=(setpriv --reuid 12345 --clear-groups)
	chown -R 12345 .
fi
chmod -R a-w repo
exits 1 "a restore takes a lock" "${as[@]}" "$shredder" restore "latest:$work/tree" --target out
says "... and says that it cannot" 'Permission denied'
says "... and how it can do without" '[-]-no-lock'
exits 0 "restore --no-lock" "${as[@]}" "$shredder" restore --no-lock "latest:$work/tree" --target out
exits 0 "... is the tree" diff -r tree out
exits 0 "check --no-lock" "${as[@]}" "$shredder" check --no-lock --read-data
exits 0 "init of a copy" "${as[@]}" "$shredder" init -r copy
exits 0 "copy --no-lock from there" "${as[@]}" "$shredder" copy -r copy --from-repo repo --from-key-file key --no-lock
exits 0 "... has what it should" "${as[@]}" "$shredder" restore -r copy "latest:$work/tree" --target copied
exits 0 "... altogether" diff -r tree copied
chmod -R u+w repo
[ ${#as[@]} -eq 0 ] || chown -R 0 .
rm -rf out copied copy

# ---- patterns of a restore
files() { # files DIRECTORY
	(cd "$1" && find . -type f | sort | paste -sd' ')
}
restored() { # restored WANTED NAME OPTION...
	local wanted=$1 name=$2
	shift 2
	rm -rf out
	exits 0 "restore $name" "$shredder" restore "latest:$work/tree" --target out --verify "$@"
	equals "... is that" "$wanted" "$(files out)"
}
restored "./a/b/Two" "--iinclude" --iinclude two
restored "./a/b/three.O ./c/five.o" "--iinclude of a pattern" --iinclude '*.o'
restored "./a/b/Two ./a/one ./c/four" "--iexclude" --iexclude '*.O'
printf '# these\n\n/a/b/\n!Two\nfo*\n' >patterns
restored "./a/b/Two ./a/b/three.O ./c/four" "--include-file" --include-file patterns
restored "./a/one ./c/five.o" "--exclude-file" --exclude-file patterns --exclude Two
restored "./a/b/Two ./a/b/three.O" "of a directory that ends with a slash" --include 'b/'
restored "" "of files of which there are directories only" --include 'one/'
: >nothing
restored "" "--include-file of nothing" --include-file nothing
seq 300 >many
printf 'four\n' >>many
restored "./c/four" "--include-file of many" --include-file many
many=()
for i in {1..300}; do many+=(--include "$i"); done
restored "./c/four" "of many --include" "${many[@]}" --include four
exits 1 "--include-file of a file that is not there" "$shredder" restore latest --target out --include-file absent
one_sentence "... is told in one sentence"

# ---- what is said too often
many=()
for i in {1..257}; do many+=(--tag "$i"); done
exits 2 "more tags than there can be" "$shredder" backup tree "${many[@]}"
one_sentence "... are refused in one sentence"
exits 2 "more tags to look for" "$shredder" snapshots "${many[@]}"
one_sentence "... are refused in one sentence"
exits 2 "more tags to keep" "$shredder" forget "${many[@]/--tag/--keep-tag}"
one_sentence "... are refused in one sentence"

# ---- what is left out of a backup
cp -a tree marked
touch marked/a/.first marked/c/.second
exits 0 "backup with --exclude-if-present twice" "$shredder" backup marked --exclude-if-present .first --exclude-if-present .second
equals "... leaves out both" "" "$("$shredder" ls "latest:$work/marked/a")$("$shredder" ls "latest:$work/marked/c")"
printf 'TWO\n*.o\n' >folded
exits 0 "backup --iexclude-file" "$shredder" backup tree/a --iexclude-file folded
equals "... in either case" "$work/tree/a/b $work/tree/a/one" "$("$shredder" ls "latest:$work/tree/a" | paste -sd' ')"
odd=$(printf 'two\nlines')
echo odd >"tree/$odd"
printf '%s\0' "$work/tree/$odd" "$work/tree/c" >names
exits 0 "backup --files-from0" "$shredder" backup --files-from0 names
is_json "... of names with line ends" "$shredder" snapshots --json --path "$work/tree/$odd"
equals "... and others" 2 "$(json_value 'len(d[-1]["paths"])')"
rm "tree/$odd"

# ---- files that are elsewhere now
numbers() { # of the last run
	json_value 'd["unchanged_files"], d["read_bytes"] > 0' | tr -d '(),'
}
sleep 2.1 # what is younger is read again
exits 0 "backup" "$shredder" backup tree
cp -a tree moved
rm -r tree
mv moved tree
sleep 2.1
is_json "a tree that was copied" "$shredder" backup --json --dry-run tree
equals "... is read" "0 True" "$(numbers)"
is_json "... with --ignore-ctime, too" "$shredder" backup --json --dry-run --ignore-ctime tree
equals "... for its inodes are others" "0 True" "$(numbers)"
chmod 600 tree/a/one
is_json "... and not with --ignore-inode" "$shredder" backup --json --ignore-inode tree
equals "... nothing" "5 False" "$(numbers)"
says_mode() { "$shredder" ls --json "latest:$work/tree/a/one" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["mode"])'; }
equals "... but what else there is of a file is saved" 0600 "$(says_mode)"
sleep 2.1
is_json "the next one" "$shredder" backup --json tree
equals "... knows the new inodes, and reads what had just changed" "4 True" "$(numbers)"
chmod 640 tree/a/one
is_json "a file with another mode" "$shredder" backup --json --ignore-ctime tree
equals "... is not read with --ignore-ctime" "5 False" "$(numbers)"
equals "... and saved" 0640 "$(says_mode)"
echo longer than it was >tree/a/one
is_json "a file of another size" "$shredder" backup --json --ignore-inode tree
equals "... is read" "4 True" "$(numbers)"
exits 0 "a restore" "$shredder" restore "latest:$work/tree" --target moved
exits 0 "... is what was saved" diff -r tree moved

# ---- options before the command
exits 0 "a repository before the command" "$shredder" -r repo --key-file key -j snapshots
equals "... is that" "$("$shredder" snapshots --json)" "$(cat .out)"
exits 10 "... and no other" "$shredder" --repo nowhere snapshots --json
exits 2 "an option that is not every command's before one" "$shredder" --threads 2 backup tree
one_sentence "... is refused in one sentence"
exits 2 "options and no command" "$shredder" -r repo
one_sentence "... are refused in one sentence"
exits 2 "a word that is no command" "$shredder" -r repo slice
one_sentence "... is refused in one sentence"

# ---- what is looked for
exits 0 "find of a name in another case" "$shredder" find TWO
equals "... finds nothing" "" "$(cat .out)"
exits 0 "find --ignore-case" "$shredder" find --ignore-case TWO
says "... finds it" '/tree/a/b/Two$'
exits 0 "find of directories" "$shredder" find -i 'B/' --path "$work/tree" --json
equals "... finds no files" dir "$(json_value '*{e["entry"]["type"] for e in d}')"

# ---- sizes of snapshots
noise 3000000 7 >once
noise 2000000 8 >twice
exits 0 "a backup" "$shredder" backup --tag size,first once twice
exits 0 "another one" "$shredder" backup --tag size,second twice
is_json "its tags" "$shredder" snapshots --json latest
equals "... are two" "second size" "$(json_value '*sorted(d[0]["tags"]),')"
is_json "stats of one" "$shredder" stats --json --tag first
equals "... has what it needs, and what only it does" "True True" \
	"$(json_value '5000000 < d["needed_bytes"] < 5002000, 3000000 < d["own_bytes"] < 3002000' | tr -d '(),')"
equals "... and the repository's" True "$(json_value 'd["blob_bytes"] > d["needed_bytes"] and d["needed_stored_bytes"] > d["own_stored_bytes"]')"
is_json "stats of both" "$shredder" stats --json --tag size
equals "... counts what they share once" "2 7000000 True" "$(json_value 'd["snapshots"], d["bytes"], 5000000 < d["own_bytes"] < 5004000' | tr -d '(),')"
exits 0 "stats of a name" "$shredder" stats latest
says "... in words" '^they need [0-9]* different blobs, 1.9 MiB'
says "... and of it alone" '^no other snapshot needs [0-9]* different blobs, [0-9]* B'
exits 1 "stats of what is not there" "$shredder" stats nothing
one_sentence "... is told in one sentence"
before=$("$shredder" stats --json --tag first | python3 -c 'import json, sys; print(json.load(sys.stdin)["own_stored_bytes"])')
exits 0 "forget and prune of it" "$shredder" forget --tag first latest --prune --json
equals "... frees that, and what other snapshots of before had" True "$(json_value "d['prune']['unused_bytes'] >= $before")"

# ---- how much a prune moves
export SHREDDER_REPOSITORY=$work/wasting
exits 0 "init" "$shredder" init
for i in 1 2 3 4 5 6; do
	rm -rf mixed
	mkdir mixed
	noise 4000000 "3$i" >mixed/goes
	noise 4000000 "4$i" >mixed/stays
	"$shredder" backup -q --tag all mixed
	rm mixed/goes
	"$shredder" backup -q --tag "part$i" mixed
done
read -ra ids <<<"$(snapshot_ids --tag all)"
exits 0 "forget of what has all" "$shredder" forget -q "${ids[@]}"
moved() { # moved WANTED NAME OPTION...: megabytes, and whether unused data stays
	local wanted=$1 name=$2
	shift 2
	is_json "prune $name" "$shredder" prune --json "$@"
	equals "... moves that" "$wanted" "$(json_value 'd["repacked_bytes"] // 3900000 * 4, d["left_unused_bytes"] > 1000000' | tr -d '(),')"
}
moved "24 False" "of all" --dry-run
moved "0 True" "of nothing" --dry-run --max-unused unlimited
moved "0 True" "up to a size that is not reached" --dry-run --max-unused 100M
moved "12 True" "up to a size" --dry-run --max-unused 13M
moved "0 True" "with a size below the smallest pack" --max-repack-size 1M
equals "... counts what waits" 6 "$(json_value 'd["waiting_packs"]')"
exits 0 "... says so, with -q as well" "$shredder" prune -q --max-repack-size 1M
says "... and how much it takes" '--max-repack-size is too small for any pack, .* needs 4[0-9]* bytes'
moved "8 True" "that moves no more than a size" --max-repack-size 9M
equals "... counts what waits" 4 "$(json_value 'd["waiting_packs"]')"
exits 0 "... the next one goes on" "$shredder" prune --max-repack-size 9M
says "... and tells that there is more" '^2 packs wait for the next prune$'
exits 0 "... it is whole" "$shredder" check --read-data
# the pack that wastes most does not fit, and one that does makes moving it needless
for i in "7 12000000 6000000" "8 5000000 3000000"; do
	read -r tag goes stays <<<"$i"
	rm -rf mixed
	mkdir mixed
	noise "$goes" "5$tag" >mixed/goes
	noise "$stays" "6$tag" >mixed/stays
	"$shredder" backup -q -t 1 --tag all mixed
	rm mixed/goes
	"$shredder" backup -q -t 1 --tag "part$tag" mixed
done
exits 0 "prune of what waited" "$shredder" prune -q
read -ra ids <<<"$(snapshot_ids --tag all)"
exits 0 "forget of what has all" "$shredder" forget -q "${ids[@]}"
moved "0 True" "of both" --dry-run --max-unused 12M --max-repack-size 1M
equals "... counts no more than it takes" 1 "$(json_value 'd["waiting_packs"]')"
exits 0 "prune of the one that fits" "$shredder" prune --max-unused 12M --max-repack-size 4M
says "... moves it" 'moved 2.9 MiB of 1 pack;'
equals "... after which none waits" 0 "$(grep -c wait .out)"
for options in "--max-unused none" "--max-unused 0M" "--max-unused 101%" "--max-repack-size 0" "--max-repack-size x"; do
	# shellcheck disable=SC2086 # words
	exits 2 "prune $options" "$shredder" prune $options
	one_sentence "... is refused in one sentence"
	# shellcheck disable=SC2086 # words
	exits 2 "forget $options" "$shredder" forget --keep-last 1 --prune $options
done
SHREDDER_REPOSITORY=$work/repo

# ---- a policy that keeps nothing
before=$(ls repo/snapshots)
exits 1 "forget of all but what has a tag that nothing has" "$shredder" forget --keep-tag typo
one_sentence "... is refused in one sentence"
equals "... and forgets nothing" "$before" "$(ls repo/snapshots)"
exits 0 "a tag for one of them" "$shredder" tag --add typo --path "$work/marked"
before=$(ls repo/snapshots)
exits 1 "... which another group does not have" "$shredder" forget --keep-tag typo
equals "... and nothing at all is forgotten" "$before" "$(ls repo/snapshots)"
exits 0 "... by name they can be" "$shredder" forget --path "$work/tree/a" latest
exits 0 "forget of no more than all" "$shredder" forget --keep-daily unlimited --keep-last unlimited
says "... keeps them" '^0 snapshots forgotten'
exits 2 "... of no number" "$shredder" forget --keep-daily many
exits 0 "what is left" "$shredder" check --read-data

# ---- nobody reads what is said
mkdir crowd
touch crowd/{10000..14000}
"$shredder" backup -v crowd | head -n 1 >/dev/null
equals "a backup whose reader goes away ends by that" 141 "${PIPESTATUS[0]}"
equals "... and leaves no lock" "" "$(ls repo/locks)"
(trap '' PIPE && "$shredder" backup -v crowd 2>pipe.err; echo $? >status) | head -n 1 >/dev/null
equals "... where that signal is ignored it is an error" 1 "$(cat status)"
exits 0 "... after the backup" "$shredder" ls "latest:$work/crowd/12000"
equals "... which leaves no lock" "" "$(ls repo/locks)"

# ---- places that are none, passwords that are none
for place in s3:bucket S3:bucket s3: S3: rclone:far:away Rclone:far:away sftp:user@host my-remote:bucket b2_x:bucket user@host:repo \
	host.example.org:repo swift+x:y REST:nowhere rest: http://host https://host; do
	exits 1 "init at $place" "$shredder" init -r "$place"
	one_sentence "... is refused in one sentence"
	[ ! -e "$place" ]
	report $? "... and makes no directory of that name"
done
exits 0 "a directory of such a name" "$shredder" init -r ./s3:bucket
exits 0 "... is one" "$shredder" snapshots -r s3:bucket
mkdir at
exits 0 "a directory with a colon behind a slash" "$shredder" init -r ./at/10:30
exits 0 "... or behind a point" "$shredder" init -r .x:y
unset SHREDDER_KEY_FILE
echo >empty
exits 12 "init with an empty password" "$shredder" init -r no-repo --password-file empty
one_sentence "... is refused in one sentence"
[ ! -e no-repo ]
report $? "... and makes nothing"
exits 12 "an empty password" "$shredder" snapshots --password-file empty
exits 12 "no terminal" setsid "$shredder" snapshots
says "... names the options" 'say --password-file, --password-command or --key-file, or set SHREDDER_PASSWORD$'
exits 12 "no terminal for the source" setsid "$shredder" copy --from-repo s3:bucket
says "... names the source's options" 'say --from-password-file, --from-password-command or --from-key-file, or set SHREDDER_FROM_PASSWORD$'
# a terminal shows again what is typed when a password's prompt was broken off
cat >prompt.py <<'end'
import os, pty, signal, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
text = b""
while b"password" not in text or termios.tcgetattr(terminal)[3] & termios.ECHO:
    text += os.read(terminal, 1000) if b"password" not in text else b""
os.write(terminal, b"\x03")
state = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(state.si_status, bool(termios.tcgetattr(terminal)[3] & termios.ECHO))
end
equals "a prompt that is broken off" "2 True" "$(timeout 60 python3 prompt.py "$shredder" snapshots)"
export SHREDDER_KEY_FILE=$work/key
equals "... and one behind a lock" "2 True" "$(timeout 60 python3 prompt.py "$shredder" key passwd)"
equals "... which leaves no lock" "" "$(ls "$SHREDDER_REPOSITORY/locks")"
exits 12 "no terminal for a new password" setsid "$shredder" key add
says "... names the new one's options" 'say --new-password-file or --new-key-file$'

# ---- words
exits 0 "help behind options alone" "$shredder" -r repo --help
says "... is the overview" '^  *backup '
exits 0 "prune --dry-run" "$shredder" prune --dry-run
says "... says what would be" '^would remove .*, move .*; '
exits 0 "init of a copy" "$shredder" init -r copied
exits 0 "copy --quiet" env SHREDDER_FROM_KEY_FILE="$work/key" "$shredder" copy -q -r copied --from-repo repo
equals "... says nothing" "" "$(cat .out .err)"
exits 0 "restore of a name that there is not" "$shredder" restore latest --target out --include '/no/such/name'
says "... says so" 'nothing of the snapshot matches --include$'
exits 1 "mount at a file" "$shredder" mount empty
one_sentence "... is refused in one sentence"
finish
