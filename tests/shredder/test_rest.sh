#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Repositories behind restic's REST protocol, with a server that is not ours: what it may do wrong, and what it may try.
# Of store/backend_rest.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
"$shredder" snapshots -r rest:http://127.0.0.1:1/ 2>&1 | grep -q 'built without libcurl' && {
	echo "# skipped: this shredder was built without libcurl"
	exit 77
}
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key no_proxy=127.0.0.1
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
serve() {
	rm -f port
	python3 "$here/rest_server.py" "$work/site" port 9>&- &
	server=$!
	until [ -s port ]; do
		kill -0 "$server" || return 1
		sleep 0.05
	done
}
stop() {
	kill "$server"
	wait "$server" 2>/dev/null
	server=
}
faults() { # faults WORD...: what the next requests meet
	printf '%s\n' "$@" >site.faults
}
restored() { # restored NAME
	rm -rf out
	run "$shredder" restore "latest:$work/tree" --target out
	diff -r tree out >>.err 2>&1 && [ "$status" -eq 0 ]
	report $? "$1"
}
mkdir -p tree/sub
noise 20000000 1 >tree/large
for i in {1..300}; do echo "file $i" >"tree/sub/$i"; done

exits 1 "an address that is none" "$shredder" init -r rest:ftp://host/
one_sentence "... is refused in one sentence"
exits 1 "nobody there" "$shredder" init -r rest:http://127.0.0.1:1/x
one_sentence "... is told in one sentence, at once"
serve
SHREDDER_REPOSITORY=rest:http://127.0.0.1:$(cat port)
export SHREDDER_REPOSITORY
exits 10 "no repository there" "$shredder" snapshots
one_sentence "... is told in one sentence"
exits 0 "init" "$shredder" init --parity 1
exits 1 "a second one" "$shredder" init
says "... is refused" "there is a repository already"
exits 0 "backup" "$shredder" backup tree
exits 0 "check" "$shredder" check --read-data
exits 0 "an address in capitals" "$shredder" snapshots -r "REST:HTTP://127.0.0.1:$(cat port)"
restored "restore"
# what takes longer than its limit allows has not kept to it; how much longer depends on the machine
noise 1500000 7 >limited
SECONDS=0
exits 0 "backup with --limit-upload" "$shredder" backup --limit-upload 500K limited
[ $SECONDS -ge 2 ]
report $? "... takes the time for it"
SECONDS=0
exits 0 "restore with --limit-download" "$shredder" restore --limit-download 500K "latest:$work/limited" --target limited-out
[ $SECONDS -ge 2 ] && cmp limited limited-out/limited
report $? "... takes the time for it"
exits 0 "forget of that" "$shredder" forget latest
exits 2 "a limit that is too low" "$shredder" snapshots --limit-upload 1K
one_sentence "... is refused in one sentence"
echo more >tree/sub/more
exits 0 "another backup" "$shredder" backup tree
exits 0 "forget and prune" "$shredder" forget --keep-last 1 --prune --max-unused 0
exits 0 "check" "$shredder" check --read-data
restored "restore after it"
equals "no lock stays" "" "$(ls site/locks)"

# ---- what is tried again
faults 503 503 cut cut 503
exits 0 "a server that is busy and connections that are cut" "$shredder" check --read-data
equals "... all faults were met" "" "$(cat site.faults)"
noise 5000000 2 >tree/new
faults "" # the first put answers nothing though it was done
python3 - "$work" <<'P'
import pathlib, sys
pathlib.Path(sys.argv[1], "site.faults").write_text("ok\nok\nok\ndrop\nok\nok\nok\nok\ndrop\ndrop\n")
P
exits 0 "answers that never come" "$shredder" backup tree
rm -f site.faults
exits 0 "... lose nothing" "$shredder" check --read-data
restored "... and nothing is wrong"
noise 30000000 3 >tree/newer
stop
port=$(cat port)
sed "s/(\"127.0.0.1\", 0)/(\"127.0.0.1\", $port)/" "$here/rest_server.py" >again.py
python3 again.py "$work/site" port 9>&- &
server=$!
until "$shredder" snapshots >/dev/null 2>&1; do kill -0 "$server" || break; sleep 0.1; done
mkfifo feed
"$shredder" backup --stdin fed <feed >.out 2>.err &
pid=$!
exec 9>feed
noise 20000000 4 >&9
until [ -n "$(ls site/locks)" ]; do kill -0 "$pid" || break; sleep 0.05; done
stop # the server goes while a backup runs, and comes back
noise 20000000 5 >&9 & # it waits while nothing can be sent
feeder=$!
turned_away "$port" "$pid" 9>&-
python3 again.py "$work/site" port 9>&- &
server=$!
exec 9>&-
wait "$feeder"
wait "$pid"
equals "a server that starts again in the middle of a backup" 0 $?
exits 0 "... leaves a whole repository" "$shredder" check --read-data
exits 0 "restore" "$shredder" restore latest --target fed-out
equals "... gives what was fed" "$({ noise 20000000 4; noise 20000000 5; } | md5sum)" "$(md5sum <fed-out/fed)"

# ---- a hostile server
"$shredder" backup tree >/dev/null
for fault in long short; do
	for at in 0 1 2 3 5 8 12; do
		{
			for ((i = 0; i < at; i++)); do echo ok; done
			echo $fault
		} >site.faults
		rm -rf out
		run "$shredder" restore "latest:$work/tree" --target out
		wrong=0
		for file in large sub/1 sub/more new newer; do
			[ ! -e "out/$file" ] || cmp -s "tree/$file" "out/$file" || wrong=1
		done
		[ "$wrong" -eq 0 ] && { [ "$status" -ne 0 ] || diff -r tree out >/dev/null; } &&
			! grep -q 'Sanitizer\|runtime error' .err
		report $? "an answer that is too $fault, at request $at: no wrong restore"
	done
done
faults ok ok 403
exits 1 "a refusal" "$shredder" snapshots
says "... is told" "status 403, no.\[31m way"
! grep -q $'\x1b' .err
report $? "... without control characters"
rm -f site.faults
restored "after all of it the repository is whole"

# ---- damage at a server that keeps what it has
for file in site/config "$(find site/data -type f -size +1M | head -n 1)"; do
	poke "$file" 20 "$([ "$(od -An -tx1 -j 20 -N 1 "$file")" = ' 00' ] && echo 01 || echo 00)"
done
restored "what is damaged is mended while it is read"
exits 1 "check --repair" "$shredder" check --repair
says "... says what it cannot do" "can be mended, but not from here"
restored "... and spoils nothing"
finish
