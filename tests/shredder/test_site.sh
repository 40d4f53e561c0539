#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shredder serve: who may do what at a site, what is refused, and what a cut connection or a killed agent leaves.
# Of site/clients.c, site/heads.c, site/identity.c, site/parts.c, site/requests.c, cli/cmd_serve.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
"$shredder" identity probe 2>&1 | grep -q 'built without' && {
	echo "# skipped: this shredder was built without GnuTLS"
	exit 77
}
unset SHREDDER_IDENTITY SHREDDER_SITE_KEY SHREDDER_REPOSITORY
export no_proxy=127.0.0.1
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key
site=
trap '[ -z "$site" ] || kill -9 "$site"; rm -rf "$work"' EXIT
port=0
serve() { # serve: starts the agent, at the port that it had before
	: >serving
	"$shredder" serve --identity site.id --clients clients --listen 127.0.0.1 --port "$port" --json root >serving 2>refused 9>&- &
	site=$!
	until [ -s serving ]; do
		kill -0 "$site" 2>/dev/null || return 1
		sleep 0.05
	done
	port=$(python3 -c 'import json; print(json.load(open("serving"))["port"])')
}
stop() { # stop SIGNAL
	kill "$1" "$site"
	wait "$site"
	status=$?
	site=
}
request() { # request IDENTITY METHOD PATH [FILE]: status and words
	python3 "$here/site_request.py" "$port" "$@"
}
as() { # as CLIENT REPOSITORY COMMAND...
	local client=$1 repository=$2
	shift 2
	"$shredder" "$@" --repo "rest:https://127.0.0.1:$port/$repository" --identity "$client.id" --site-key "$site_key"
}
restored() { # restored NAME CLIENT REPOSITORY
	rm -rf out
	run as "$2" "$3" restore "latest:$work/tree" --target out
	diff -r tree out >>.err 2>&1 && [ "$status" -eq 0 ]
	report $? "$1"
}
mkdir -p tree/sub root
noise 3000000 1 >tree/large
for i in {1..200}; do echo "file $i" >"tree/sub/$i"; done

# ---- usage and identities
for command in serve identity; do
	exits 0 "$command --help" "$shredder" "$command" --help
	exits 2 "$command without arguments" "$shredder" "$command"
done
for name in site ann bob eve; do
	exits 0 "an identity for $name" "$shredder" identity "$name.id"
	cp .out "$name.key"
done
site_key=$(cat site.key)
exits 0 "showing one" "$shredder" identity ann.id
equals "... is the same key" "$(cat ann.key)" "$(cat .out)"
equals "... and nobody else reads the file" 600 "$(stat -c %a ann.id)"
exits 1 "something that is none" "$shredder" identity tree/large
one_sentence "... is told in one sentence"
for line in "ann" "ann nokey home" "ann $(cat ann.key) ../etc" "ann $(cat ann.key) /etc" "ann $(cat ann.key) a//b" "ann $(cat ann.key) .locks" \
	"ann $(cat ann.key) a quota=0" "ann $(cat ann.key) a nonsense"; do
	echo "$line" >clients
	exits 1 "a line that is wrong: ${line:0:12}...${line: -12}" "$shredder" serve --identity site.id --clients clients --port 0 root
	one_sentence "... is told in one sentence"
done
cat >clients <<EOF
# ann has one of her own, bob may only append, and both share a third
ann $(cat ann.key) ann
ann $(cat ann.key) shared/files
bob $(cat bob.key) bob append-only
bob $(cat bob.key) shared/files append-only
bob $(cat bob.key) small append-only quota=2M
bob $(cat bob.key) rot append-only quota=100M
EOF
serve
report $? "it serves"

# ---- keys
exits 0 "init" as ann ann init
exits 0 "backup" as ann ann backup --threads 1 tree # a chunk of the large file is at the front of its pack, not the small ones
restored "restore" ann ann
exits 1 "a client that nobody knows" as eve ann snapshots
says "... is refused" "this key may not use this repository"
exits 1 "another client's repository" as bob ann snapshots
says "... is refused" "this key may not use this repository"
exits 1 "another site than was meant" "$shredder" snapshots --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id --site-key "$(cat eve.key)"
says "... is refused" "another key than --site-key says"
exits 1 "no site key" "$shredder" snapshots --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id
exits 1 "no identity" "$shredder" snapshots --repo "rest:https://127.0.0.1:$port/ann" --site-key "$site_key"
equals "TLS 1.2 is not spoken" refused "$(python3 "$here/site_request.py" --tls12 "$port" ann.id)"
exits 10 "a repository that is not there" as ann shared/files snapshots

# ---- what the site sees, and what it can do with the key
equals "the site sees no names" "" "$(grep -rl 'tree' root/ann)"
exits 0 "a site that is trusted with the key rebuilds" "$shredder" restore --repo root/ann "latest:$work/tree" --target rebuilt
equals "... everything" "" "$(diff -r tree rebuilt)"

# ---- what is missing or wrong on the command line is told
exits 1 "no --site-key" "$shredder" snapshots --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id
says "... is asked for" "give it with --site-key"
exits 1 "no --identity" "$shredder" snapshots --repo "rest:https://127.0.0.1:$port/ann" --site-key "$site_key"
says "... is asked for" "who asks: give --identity"
exits 1 "http:// to a site with TLS" "$shredder" snapshots --repo "rest:http://127.0.0.1:$port/ann" --identity ann.id --site-key "$site_key"
says "... is told" "use https://"

# ---- append only
exits 0 "init" as bob bob init
exits 0 "backup" as bob bob backup tree
exits 0 "another one" as bob bob backup --force tree
equals "... leaves no lock" "" "$(find root/bob/locks root/.locks -type f)"
exits 1 "forget" as bob bob forget --keep-last 1
says "... is refused" "may append only"
equals "... and says of none that it is forgotten" 0 "$(grep -c forgot .out)"
exits 1 "forget as JSON" as bob bob forget --keep-last 1 --json
equals "... has removed none, and two are there" "[] 2" "$(json_value 'd["removed"], d["kept"]' | tr -d "(,)")"
exits 1 "forget of one as JSON" as bob bob forget latest --json
equals "... has removed none, and two are there" "[] 2" "$(json_value 'd["removed"], d["kept"]' | tr -d "(,)")"
exits 1 "prune" as bob bob forget --keep-last 1 --prune
equals "... nothing is removed" 2 "$(find root/bob/snapshots -type f | wc -l)"
may_not_remove() { # the last command was refused for what it is, without a request that nobody made
	one_sentence "... is refused in one sentence"
	says "... which says why" "/bob refuses to remove or replace snapshots, keys and packs: .*this client may append only"
	equals "... and names nothing that never was" 0 "$(grep -c 'DELETE\|snapshots/' .err)"
}
exits 1 "tag" as bob bob tag --add one
may_not_remove
exits 1 "rewrite --forget" as bob bob rewrite --forget --new-host other
may_not_remove
exits 1 "repair snapshots --forget" as bob bob repair snapshots --forget
may_not_remove
equals "... before there is another snapshot" 2 "$(find root/bob/snapshots -type f | wc -l)"
restored "... and all is there" bob bob
for kind in data index keys snapshots; do
	folder=$kind
	[ $kind = data ] && folder=packs
	name=$(find "root/bob/$folder" -type f -printf '%f\n' | head -n 1)
	equals "no $kind is removed" 403 "$(request bob.id DELETE "/bob/$kind/$name" | cut -d' ' -f1)"
done
head -c 100 root/bob/config >config
equals "nor the configuration" 403 "$(request bob.id DELETE /bob/config | cut -d' ' -f1)"
equals "nor is it replaced" 403 "$(request bob.id POST /bob/config config | cut -d' ' -f1)"
equals "... nor by who may remove" 403 "$(request ann.id DELETE /ann/config | cut -d' ' -f1)"
exits 0 "ann shares one with bob" as ann shared/files init
mkfifo feed
as ann shared/files backup --stdin fed <feed >/dev/null 2>&1 &
feeding=$!
exec 9>feed
until [ -n "$(ls root/shared/files/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
lock=$(ls root/shared/files/locks)
equals "bob does not remove ann's lock" 403 "$(request bob.id DELETE "/shared/files/locks/$lock" | cut -d' ' -f1)"
exits 0 "bob backs up beside her" as bob shared/files backup tree
exec 9>&-
wait "$feeding"
equals "... and ann ends well" 0 $?
equals "... no lock stays" "" "$(find root/shared/files/locks root/.locks -type f)"
exits 0 "both see both snapshots" as ann shared/files check --read-data
equals "... two" 2 "$(as ann shared/files snapshots | wc -l)"
"$shredder" backup --stdin fed --repo "rest:https://127.0.0.1:$port/shared/files" --identity ann.id --site-key "$site_key" <feed >/dev/null 2>&1 &
feeding=$!
exec 9>feed
until [ -n "$(ls root/shared/files/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
kill "$feeding"
wait "$feeding" 2>/dev/null
equals "a backup of hers that a signal ends" 143 $?
exec 9>&-
equals "... gives back its lock" "" "$(find root/shared/files/locks root/.locks -type f)"
# a dead lock of another client's, who has this host: it is in nobody's way
"$shredder" backup --stdin fed --repo "rest:https://127.0.0.1:$port/shared/files" --identity ann.id --site-key "$site_key" <feed >/dev/null 2>&1 &
feeding=$!
exec 9>feed
until [ -n "$(ls root/shared/files/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
kill -9 "$feeding"
wait "$feeding" 2>/dev/null
exec 9>&-
equals "one that is killed leaves a lock" 1 "$(find root/shared/files/locks -type f | wc -l)"
exits 0 "backup by one who may not remove it" as bob shared/files backup tree
exits 0 "check" as bob shared/files check
exits 1 "unlock" as bob shared/files unlock
says "... says why not" "this lock is another client's"
equals "... and it is there" 1 "$(find root/shared/files/locks -type f | wc -l)"
exits 0 "prune by one who may" as ann shared/files prune
equals "... removes it" 0 "$(find root/shared/files/locks -type f | wc -l)"

# ---- quota
exits 0 "init" as bob small init
exits 1 "more than the quota" as bob small backup tree
says "... is refused" "the quota is used up"
exits 0 "... and leaves a whole repository" as bob small check --read-data
exits 0 "what fits is taken" as bob small backup tree/sub

# ---- what is put must be what it says
name=$(printf 'f%.0s' {1..64})
cp "$(find root/bob/packs -type f | head -n 1)" pack
equals "another name than its bytes have" "400 the bytes do not have that name" "$(request bob.id POST "/bob/data/$name" pack)"
equals "another kind" 400 "$(request bob.id POST "/bob/index/$(basename "$(find root/bob/packs -type f | head -n 1)")" pack | cut -d' ' -f1)"
echo nonsense >nonsense
equals "no file of a repository" 400 "$(request bob.id POST "/bob/data/$name" nonsense | cut -d' ' -f1)"
equals "... nothing of it stays" "" "$(find root -name "$name"; ls root/bob/tmp)"
for path in /bob/../ann/config /bob/data/../config /bob/data/..%2f..%2fann%2fconfig /bob/data/abc /bob//config /bob/other/ / /bob /bob/ "/bob/locks/$name/x"; do
	case $(request bob.id GET "$path") in
	4??*) report 0 "GET $path" ;;
	*) report 1 "GET $path" ;;
	esac
done
equals "an unknown method" 405 "$(request bob.id PATCH /bob/config | cut -d' ' -f1)"
python3 "$here/site_request.py" --part "$port" bob.id "/bob/data/$name"
for i in {1..20}; do python3 "$here/site_request.py" --part "$port" bob.id "/bob/data/$name" & cuts+=($!); done
wait "${cuts[@]}"
exits 0 "uploads that were cut off leave nothing" as bob bob check --read-data
equals "... at all" "" "$(ls root/bob/tmp; find root -name "$name")"

# ---- mending what rots at the site, by who may only append, too
exits 0 "init with parity" as bob rot init --parity 1
exits 0 "backup" as bob rot backup tree
cp -a root/rot rot
for kind in config keys snapshots index packs; do
	file=$(find "root/rot/$kind" -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
	poke "$file" 20 "$([ "$(od -An -tx1 -j 20 -N 1 "$file")" = ' 00' ] && echo 01 || echo 00)"
done
restored "what is damaged at the site is mended while it is read" bob rot
exits 1 "a check" as bob rot check --read-data
equals "a damaged configuration is not replaced by anything" 403 "$(request bob.id POST /rot/config root/bob/config | cut -d' ' -f1)"
exits 0 "check --repair by a client that may append only" as bob rot check --repair
says "... mends" "was damaged and is mended"
equals "... all of it" "" "$(diff -r root/rot rot | grep -v '^Only in root/rot/index')"
exits 0 "... and a check finds nothing" as bob rot check --read-data

# ---- damaged packs are given up through the site, by who may remove
damage() { # damage REPOSITORY: a byte of a chunk in its largest pack
	file=$(find "root/$1/packs" -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
	poke "$file" 100 "$([ "$(od -An -tx1 -j 100 -N 1 "$file")" = ' 00' ] && echo 01 || echo 00)"
}
damage ann
exits 0 "repair packs --dry-run through the site" as ann ann repair packs --dry-run
[ -e "$file" ]
report $? "... removes nothing"
exits 0 "repair packs through the site" as ann ann repair packs
says "... gives the damaged one up" '1 damaged and 0 missing ones are gone; [1-9][0-9]* blobs are in new packs, 1 is lost$'
[ ! -e "$file" ]
report $? "... which is gone there"
exits 1 "... a check finds that something is missing" as ann ann check
exits 0 "... the next backup" as ann ann backup tree
exits 0 "... stores it again" as ann ann check --read-data
cp -a root/bob whole
damage bob
find root/bob -type f | sort >before
head -c 64 /dev/urandom >other
exits 1 "key passwd by who may only append" as bob bob key passwd --new-key-file other
may_not_remove
exits 1 "key remove" as bob bob key remove "$(find root/bob/keys -type f -printf %f)"
may_not_remove
equals "... leaves no key" 1 "$(find root/bob/keys -type f | wc -l)"
exits 1 "repair packs by who may only append" as bob bob repair packs
may_not_remove
find root/bob -type f | sort | cmp -s before -
report $? "... and nothing has changed"
exits 0 "... but a dry run is not" as bob bob repair packs --dry-run
cp "whole/${file#root/bob/}" "$file"

# ---- uploads that are cut off
pack=$(find root/ann/packs -type f -size +1M | head -n 1)
rm -f "root/bob/packs/${pack#root/ann/packs/}"
equals "the rest of an upload, after one that does not fit" "True 409 200 0" \
	"$(python3 "$here/site_request.py" --rest "$port" bob.id "/bob/data/${pack##*/}" "$pack")"
cmp -s "$pack" "root/bob/packs/${pack#root/ann/packs/}"
report $? "... is the whole file"
head -c -1 "$pack" >wrong
printf x >>wrong
rm "root/bob/packs/${pack#root/ann/packs/}"
equals "one of which a byte is wrong" "True 409 400 0" \
	"$(python3 "$here/site_request.py" --rest "$port" bob.id "/bob/data/${pack##*/}" wrong)"
equals "... leaves nothing" "" "$(find root/bob -name "${pack##*/}")"
site_port=$port
for how in '' hang; do
	noise 15000000 "$((8 + ${#how}))" >tree/cut
	rm -f proxied
	# shellcheck disable=SC2086 # no word is meant, or one
	python3 "$here/cut_proxy.py" "$site_port" 10000000 proxied $how 9>&- &
	proxy=$!
	until [ -s proxied ]; do kill -0 "$proxy" || break; sleep 0.05; done
	port=$(head -n 1 proxied)
	exits 0 "a backup of which a connection is cut${how:+, which the site does not see}" as ann ann backup tree
	port=$site_port
	kill "$proxy"
	wait "$proxy"
	# what was on its way when the client came back is sent twice, and no more
	[ "$(tail -n 1 proxied)" -gt 15000000 ] && [ "$(tail -n 1 proxied)" -lt $((20000000 + ${#how} * 750000)) ]
	report $? "... sends little twice ($(tail -n 1 proxied) bytes)"
	rm tree/cut
	exits 0 "... and leaves a whole repository" as ann ann check --read-data
done

# ---- other clients, other quotas
exits 1 "eve is nobody" as eve eve init
sed 's/quota=2M/quota=9M/' clients >clients.new
echo "eve $(cat eve.key) eve" >>clients.new
mv clients.new clients
kill -HUP "$site"
until grep -q 'was read again' refused; do kill -0 "$site" || break; sleep 0.05; done
exits 0 "... until the file is read again" as eve eve init
exits 0 "... and a quota is what it says now" as bob small backup tree
noise 1000000 60 >extra
exits 0 "a backup within a quota" as eve eve backup tree
exits 0 "... and another one" as eve eve backup extra
sed 's/ eve$/ eve quota=1M/' clients >clients.new
mv clients.new clients
reads=$(grep -c 'was read again' refused)
kill -HUP "$site"
until [ "$(grep -c 'was read again' refused)" -gt "$reads" ]; do kill -0 "$site" || break; sleep 0.05; done
noise 1000000 61 >beyond
exits 1 "a backup beyond a quota that was lowered" as eve eve backup beyond
exits 0 "... forget works there" as eve eve forget --path "$work/extra" latest
exits 0 "... and prune" as eve eve prune --max-unused unlimited
exits 0 "... which leave what is whole" as eve eve check --read-data
sed 's/ eve quota=1M$/ eve/' clients >clients.new
mv clients.new clients
echo "eve has no key" >clients.new
cp clients clients.right
mv clients.new clients
kill -HUP "$site"
until grep -q 'is no key' refused; do kill -0 "$site" || break; sleep 0.05; done
equals "... a file that is wrong is named once" 1 "$(grep 'is no key' refused | tail -n 1 | grep -o 'clients:' | wc -l)"
exits 0 "a file that is wrong changes nothing" as eve eve snapshots
mv clients.right clients

# ---- many at a time
for i in 1 2 3 4; do
	mkdir -p "many/$i"
	noise 2000000 $((20 + i)) >"many/$i/file"
	as ann shared/files backup "many/$i" >/dev/null 2>"many.$i" &
	clients+=($!)
done
failed=0
for client in "${clients[@]}"; do wait "$client" || failed=1; done
equals "four backups at a time" 0 $failed
exits 0 "... leave a whole repository" as ann shared/files check --read-data

# ---- told to end by a signal, and then by SIGPIPE while the lock goes back to a site that does not answer
mkdir crowd
touch crowd/{10000..16000}
pending() { # pending FIELD MASK: a signal waits for that process, or a thread of it
	cat /proc/"$pid"/task/*/status 2>/dev/null | awk -v field="$1:" '$1 == field { print $2 }' | while read -r set; do
		[ $((0x$set & $2)) -eq 0 ] || echo it does
	done
}
mkfifo names
(exec "$shredder" backup -v crowd --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id --site-key "$site_key") >names 2>.err &
pid=$!
exec 9<names
read -r _ <&9
kill -STOP "$site"
kill -TERM "$pid"
while [ -n "$(pending ShdPnd 0x4000)" ]; do sleep 0.01; done
exec 9<&-
until [ -n "$(pending SigPnd 0x1000)" ]; do
	kill -0 "$pid" 2>/dev/null || break
	sleep 0.01
done
kill -CONT "$site"
wait "$pid"
equals "a backup that is told to end, and whose reader goes away then, ends" 143 $?
equals "... and leaves no lock" "" "$(ls root/ann/locks)"

# ---- told to end, and once more while the lock goes back to a site that does not answer: that is heard
(exec "$shredder" backup -v crowd --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id --site-key "$site_key") >names 2>.err &
pid=$!
exec 9<names
read -r _ <&9
kill -STOP "$site"
for _ in {1..300}; do # it has two minutes for its lock
	kill -TERM "$pid" 2>/dev/null || break
	sleep 0.1
done
! kill -0 "$pid" 2>/dev/null
report $? "a backup that is told twice to end does so"
kill -CONT "$site"
exec 9<&-
wait "$pid"
equals "... by that signal" 143 $?
exits 0 "... and its lock counts for nothing here" as ann ann prune
equals "... and goes" "" "$(ls root/ann/locks)"

# ---- killed, and started again while clients wait
noise 30000000 9 >tree/new
as ann ann backup tree >/dev/null 2>.err &
pid=$!
until [ -n "$(ls root/ann/tmp)" ]; do
	kill -0 "$pid" 2>/dev/null || break
	sleep 0.01
done
stop -9
turned_away "$port" "$pid"
serve
wait "$pid"
equals "an agent that is killed and started again in the middle of a backup" 0 $?
exits 0 "... loses nothing" as ann ann check --read-data
restored "... and all can be restored" ann ann
noise 30000000 10 >tree/new
for round in 1 2 3 4; do
	(exec "$shredder" backup tree --repo "rest:https://127.0.0.1:$port/ann" --identity ann.id --site-key "$site_key") >/dev/null 2>&1 &
	pid=$!
	sleep "0.$((round * 2))"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
done
exits 0 "killed clients leave a whole repository" as ann ann check --read-data
exits 0 "... and the next one finishes" as ann ann backup tree
restored "... and can be restored" ann ann
exits 0 "forget and prune by who may" as ann ann forget --keep-last 1 --prune
restored "... leave what is kept" ann ann
stop -TERM
equals "a signal ends it well" 0 "$status"
! grep -q 'Sanitizer\|runtime error' refused
report $? "... and it never complained of itself"
finish
