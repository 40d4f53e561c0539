#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What changes snapshots afterwards, what looks into a repository, and options of a backup that are about the snapshot that it makes.
# Of store/rewrite.c, cli/cmd_rewrite.c, cli/cmd_cat.c, cli/cmd_backup.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
python3() { # many short ones
	"$python" -S -I "$@"
}
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
for command in rewrite repair recover cat list; do
	exits 0 "$command --help" "$shredder" "$command" --help
	exits 2 "$command --frobnicate" "$shredder" "$command" --frobnicate
	one_sentence "... is refused in one sentence"
done
mkdir -p tree/keep/deep tree/secret tree/many
noise 3000001 1 >tree/keep/large
noise 2000000 2 >tree/secret/noise
echo secret >tree/keep/deep/file.key
echo kept >tree/keep/deep/file
ln tree/keep/large tree/keep/same
ln -s large tree/keep/link
truncate -s 5000000 tree/keep/holes
python3 -c '
for i in range(30):
    open("tree/many/%04d-" % i + "n" * 60, "w").write(str(i))'
touch -d '2020-01-01' tree/keep/* tree/keep/deep/* tree/many/* tree/secret/*
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree --tag mine
id=$(snapshot_ids)
count() { "$shredder" snapshots --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; }
json_of() { # json_of EXPRESSION: of the input, bound to d
	python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"
}
of() { # of ID EXPRESSION: of a snapshot
	"$shredder" cat snapshot "$1" | python3 -c "import json, sys; d = json.load(sys.stdin); print($2)"
}

# ---- cat and list
for kind in config "snapshot ${id:0:10}" "tree latest:$work/tree/keep" "tree latest:$work/tree/keep/large" "tree latest" \
	"key $("$shredder" list keys)" "index $("$shredder" list index | head -n 1)" "pack $("$shredder" list packs | head -n 1)"; do
	# shellcheck disable=SC2086 # two words
	is_json "cat $kind" "$shredder" cat $kind
done
is_json "cat config" "$shredder" cat config
equals "... tells what it is" "True 5" "$(json_value 'd["encrypted"], d["version"]' | tr -d '(),')"
is_json "cat tree" "$shredder" cat tree "latest:$work/tree/keep/large"
for blob in $(json_value '" ".join(part["id"] for part in d[0]["content"])'); do
	"$shredder" cat blob "$blob"
done | cmp - tree/keep/large
report $? "... names the chunks, which cat blob prints"
for kind in blobs packs index snapshots keys locks; do
	is_json "list $kind --json" "$shredder" list --json "$kind"
done
equals "list snapshots" "$id" "$("$shredder" list snapshots)"
"$shredder" list blobs | cut -d' ' -f2 | sort >blob-list
for pack in $("$shredder" list packs); do "$shredder" cat pack "$pack"; done |
	grep -o '"id": "[0-9a-f]*"' | cut -d'"' -f4 | sort | cmp - blob-list
report $? "what list blobs tells is what the packs have"
for words in "" frob "snapshot" "config x" "blob"; do
	# shellcheck disable=SC2086 # several words or none
	exits 2 "cat '$words'" "$shredder" cat $words
done
exits 2 "list frob" "$shredder" list frob
for words in "blob 1234" "blob $(printf '%064d' 0)" "pack $(printf '%064d' 0)" "snapshot zz" "lock zz" "tree latest:/none"; do
	# shellcheck disable=SC2086 # two words
	exits 1 "cat $words" "$shredder" cat $words
	one_sentence "... is told in one sentence"
done

# ---- rewrite
exits 2 "rewrite without anything" "$shredder" rewrite latest
exits 2 "rewrite to a day that is none" "$shredder" rewrite --new-time 2026-02-31 latest
exits 0 "rewrite of what is not there" "$shredder" rewrite --exclude nothing-such latest
says "... changes nothing" '^0 of 1 snapshots changed'
exits 0 "rewrite --dry-run" "$shredder" rewrite -n --exclude secret --exclude '*.key' latest
says "... tells what would go" "tree/secret: is left out"
equals "... and leaves one snapshot" 1 "$(count)"
is_json "rewrite --json" "$shredder" rewrite --json --exclude secret --exclude '*.key' "${id:0:12}"
new=$(json_value 'd["changed"][0]["snapshot"]')
equals "... leaves the old one" "2 rewritten" "$(count) $(of "$new" 'd["tags"][1]')"
exits 0 "restore of the new one" "$shredder" restore "$new:$work/tree" --target out --verify
equals "... warns of nothing" "" "$(cat .err)"
rm -rf reference && cp -a tree reference && rm -rf reference/secret reference/keep/deep/file.key
touch -r tree reference && touch -r tree/keep/deep reference/keep/deep
manifest reference >reference.list && manifest out >out.list
same "... is the tree without that" reference.list out.list
exits 0 "backup of that tree" "$shredder" backup reference
equals "... counts what the new one does" "$(of latest 'd["files"], d["others"], d["bytes"]')" "$(of "$new" 'd["files"], d["others"], d["bytes"]')"
exits 0 "forget of that" "$shredder" forget latest
exits 1 "rewrite that would leave nothing" "$shredder" rewrite --exclude '/*' "$id"
one_sentence "... is refused in one sentence"
exits 0 "rewrite --forget of all" "$shredder" rewrite --forget --new-host other --new-time '2001-02-03 04:05:06Z' --iexclude SECRET "$id" "$id"
says "... changes each once" '^1 of 1 snapshots changed'
equals "... removes the old one" "2" "$(count)"
changed=$(snapshot_ids --host other)
equals "... which has another host, time, and its tags" "2001-02-03T04:05:06.000000000Z mine" "$("$shredder" snapshots --json --host other | python3 -c '
import json, sys
d = json.load(sys.stdin)[0]; print(d["time"], *d["tags"])')"
"$shredder" rewrite --help | grep -q "with --forget the old ones go, and no tag is added"
report $? "... as the help says"
exits 0 "forget of the other" "$shredder" forget "$new"
exits 0 "prune" "$shredder" prune --max-unused 0
exits 0 "check" "$shredder" check --read-data
"$shredder" list blobs | wc -l >after
[ "$(cat after)" -lt "$(wc -l <blob-list)" ]
report $? "... what was left out is gone"
exits 1 "... and is in no snapshot" "$shredder" dump "$changed:$work/tree/secret/noise"

# ---- recover
exits 0 "recover of nothing" "$shredder" recover
says "... finds nothing" '^0 directories, with 0 files'
exits 0 "forget of the last snapshot" "$shredder" forget "$changed"
is_json "recover --dry-run" "$shredder" recover --json --dry-run
equals "... finds it" "1 None" "$(json_value 'd["directories"], d["snapshot"]' | tr -d '(),')"
exits 0 "recover" "$shredder" recover
says "... tells the snapshot" '^snapshot .* has them'
exits 0 "prune" "$shredder" prune --max-unused 0
rm -rf out
exits 0 "restore of what is recovered" "$shredder" restore --tag recovered latest --target out --verify
rm -rf reference/secret && cp -a tree/keep/deep/file.key reference/keep/deep/ && touch -r tree/keep/deep reference/keep/deep
manifest reference >reference.list && manifest "$(find out -type d -name tree)" >out.list
same "... is what was forgotten" reference.list out.list
exits 0 "forget of that" "$shredder" forget --tag recovered latest

# ---- repair snapshots: a pack is lost
# what was written less than two seconds ago might change without a trace, and counts as a file of which bytes may be lost
until [ $(($(date +%s%N) - $(stat -c %.9Z tree/secret/noise | tr -d .))) -gt 2100000000 ]; do sleep 0.1; done
rm -rf repo && exits 0 "init" "$shredder" init
exits 0 "backup of the large ones" "$shredder" backup tree/keep
"$shredder" list packs | sort >old-packs
exits 0 "backup" "$shredder" backup tree
exits 0 "repair of what is whole" "$shredder" repair snapshots
says "... changes nothing" '^0 of 2 snapshots changed'
lost= # the pack with the data of the first backup
while read -r pack; do
	"$shredder" cat pack "$pack" | grep -q '"type": "data"' && lost=$pack
done <old-packs
pack=repo/packs/${lost:0:2}/$lost
cp -p "$pack" lost-pack && chmod u+w "$pack" && truncate -s 1000000 "$pack"
exits 1 "check of a pack that is cut off" "$shredder" check
exits 0 "repair --dry-run" "$shredder" repair snapshots --dry-run
says "... reads it" 'tree/keep/large: [0-9]* of 3000001 bytes are lost and are zeros now'
says "... in both snapshots" '^2 of 2 snapshots would be changed'
rm "$pack"
exits 1 "check" "$shredder" check
exits 1 "prune refuses" "$shredder" prune
exits 0 "repair --dry-run" "$shredder" repair snapshots --dry-run
says "... tells what is lost" 'tree/keep/large: [0-9]* of 3000001 bytes are lost and are zeros now'
equals "... and changes nothing" 2 "$(count)"
exits 0 "repair snapshots" "$shredder" repair --forget snapshots
says "... changes both" '^2 of 2 snapshots changed'
equals "... which have the tag, and no others are left" "2 2" "$(count) $("$shredder" snapshots --tag repaired --json | json_of 'len(d)')"
exits 0 "check --repair" "$shredder" check --repair
exits 0 "... all can be restored" "$shredder" check --read-data
rm -rf out
exits 0 "restore" "$shredder" restore "latest:$work/tree" --target out
one_sentence "... warns in one line"
says "... by the tag" "^shredder restore: snapshot [0-9a-f]\{16\}: the tag 'repaired' says that some of it was lost"
exits 0 "restore that is quiet" "$shredder" restore --quiet "latest:$work/tree" --target out-quiet
one_sentence "... warns as well"
exits 0 "dump of a file that has lost bytes" "$shredder" dump "latest:$work/tree/keep/large"
one_sentence "... warns, too"
exits 0 "dump of one that has not" "$shredder" dump "latest:$work/tree/secret/noise"
equals "... does not" "" "$(cat .err)"
exits 0 "dump of a directory" "$shredder" dump "latest:$work/tree"
one_sentence "... does"
exits 0 "rewrite of a snapshot that was repaired" "$shredder" rewrite --forget --exclude deep latest
equals "... keeps the tag" 2 "$("$shredder" snapshots --tag repaired --json | json_of 'len(d)')"
cmp tree/secret/noise out/secret/noise && cmp tree/many/0017-* out/many/0017-* && cmp tree/keep/holes out/keep/holes
report $? "... gives what was not lost"
equals "... and the size of what was" "3000001 1" "$(stat -c %s out/keep/large) $(tr -d '\0' <out/keep/large | head -c 1 | wc -c | sed 's/0/1/')"
exits 0 "the next backup" "$shredder" backup tree
rm -rf out
exits 0 "its restore" "$shredder" restore "latest:$work/tree" --target out
equals "... warns of nothing" "" "$(cat .err)"
manifest tree >tree.list && manifest out >out.list
same "... has read the file again" tree.list out.list
exits 2 "repair index" "$shredder" repair index
rm -rf repo && exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree/keep
for pack in $("$shredder" list packs); do
	! "$shredder" cat pack "$pack" | grep -q '"type": "data"' || rm "repo/packs/${pack:0:2}/$pack"
done
exits 0 "forget of a snapshot that has lost something" "$shredder" forget latest
exits 0 "recover" "$shredder" recover
says "... tells what is lost" '/large: 3000001 of 3000001 bytes are lost and are zeros now'
equals "... and it has both tags" "recovered repaired" "$(of latest '" ".join(d["tags"])')"

# a directory of several pieces, of which one is damaged in its pack
rm -rf repo && exits 0 "init" "$shredder" init --format 1
mkdir -p wide/many
python3 -c '
for i in range(1400): # with long names, so that the directory has several pieces
    open("wide/many/%04d-" % i + "n" * 200, "w").close()'
exits 0 "backup" "$shredder" backup wide
is_json "cat tree of its parent" "$shredder" cat tree "latest:$work/wide"
pieces=$(json_value '[e for e in d if e["entry"]["path"] == "many"][0]["content"].__len__()')
[ "$pieces" -ge 3 ]
report $? "a directory of $pieces pieces"
piece=$(json_value '[e for e in d if e["entry"]["path"] == "many"][0]["content"][1]["id"]')
for pack in $("$shredder" list packs); do
	at=$("$shredder" cat pack "$pack" | python3 -c "
import json, sys
print(*[b['offset'] for b in json.load(sys.stdin)['blobs'] if b['id'] == '$piece'])")
	[ -n "$at" ] && poke "repo/packs/${pack:0:2}/$pack" $((at + 50)) 00112233445566778899
done
exits 1 "ls of what is damaged" "$shredder" ls "latest:$work/wide/many"
id=$(snapshot_ids)
exits 0 "repair snapshots" "$shredder" repair snapshots
says "... tells the directory" 'wide/many: names in this directory are lost'
equals "... and has the tag beside the old one" "2 1" "$(count) $("$shredder" snapshots --tag repaired --json | json_of 'len(d)')"
exits 0 "forget of the old one" "$shredder" forget "$id"
exits 0 "ls afterwards" "$shredder" ls "latest:$work/wide/many"
left=$(wc -l <.out)
[ "$left" -gt 200 ] && [ "$left" -lt 1400 ]
report $? "... has $left of 1400"
noise 1000000 9 >damaged
exits 0 "backup of one file" "$shredder" backup damaged
blob=$("$shredder" cat tree "latest:$work/damaged" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["content"][0]["id"])')
for pack in $("$shredder" list packs); do
	at=$("$shredder" cat pack "$pack" | python3 -c "
import json, sys
print(*[b['offset'] for b in json.load(sys.stdin)['blobs'] if b['id'] == '$blob'])")
	[ -n "$at" ] && poke "repo/packs/${pack:0:2}/$pack" $((at + 50)) 00112233445566778899
done
exits 0 "repair of a chunk that is damaged in its pack" "$shredder" repair snapshots latest
says "... does not see it" '^0 of 1 snapshots changed'
exits 0 "repair --read-data" "$shredder" repair snapshots --read-data latest
says "... does" 'damaged: [0-9]* of 1000000 bytes are lost'
exits 0 "repair --read-data --forget" "$shredder" repair snapshots --read-data --forget
exits 0 "prune" "$shredder" prune --max-unused 0
exits 0 "the next backup" "$shredder" backup damaged
exits 0 "... stores the chunk again" "$shredder" check --read-data
"$shredder" dump "latest:$work/damaged" | cmp - damaged
report $? "... and has the file"

# ---- options of a backup about its snapshot
rm -rf repo && exits 0 "init" "$shredder" init
exits 0 "backup --time" "$shredder" backup --time '2026-01-02 03:04:05Z' tree
equals "... has that time" "2026-01-02T03:04:05.000000000Z" "$(of latest 'd["time"]')"
exits 2 "backup --time of no time" "$shredder" backup --time yesterday tree
one_sentence "... is refused in one sentence"
exits 0 "backup --skip-if-unchanged" "$shredder" backup --skip-if-unchanged tree
says "... makes none" '^nothing has changed: no snapshot'
is_json "... also with JSON" "$shredder" backup --json --skip-if-unchanged tree
equals "... which says so" "None 1" "$(json_value 'd["snapshot"]') $(count)"
mkdir links && echo the-same | tee links/a >links/c && touch -d '2020-01-01' links/* && ln links/a links/b && ln links/c links/d
touch -d '2020-01-01' links
exits 0 "backup of hard links" "$shredder" backup links
exits 0 "backup --skip-if-unchanged" "$shredder" backup --skip-if-unchanged links
says "... makes none" '^nothing has changed: no snapshot'
rm links/b links/d && ln links/a links/d && ln links/c links/b && touch -d '2020-01-01' links
exits 0 "backup --skip-if-unchanged of names that are other files' now" "$shredder" backup --skip-if-unchanged links
says "... makes one" '^snapshot '
exits 0 "diff of the two" "$shredder" diff "$(snapshot_ids --path "$work/links" | cut -d' ' -f1):$work/links" "latest:$work/links"
says "... tells nothing" '^0 added, 0 removed, 0 changed, 0 with other metadata'
exits 0 "forget of these" "$shredder" forget --path "$work/links" --keep-last 1
exits 0 "... and the last one" "$shredder" forget latest
chmod 700 tree/secret
exits 0 "backup --skip-if-unchanged of another mode" "$shredder" backup --skip-if-unchanged tree
equals "... makes one" 2 "$(count)"
# shellcheck disable=SC2016 # for the command's shell
exits 0 "backup --stdin-from-command" "$shredder" backup --stdin list --stdin-from-command -- sh -c 'cat; echo "$0 $1"' one two
equals "... saves what it prints" "one two" "$("$shredder" dump latest:/list)"
exits 1 "... of a command that fails" "$shredder" backup --stdin list --stdin-from-command -- sh -c 'echo half; exit 3'
one_sentence "... is told in one sentence"
says "... with its status" 'failed with status 3: there is no snapshot'
# shellcheck disable=SC2016
exits 1 "... that a signal ends" "$shredder" backup --stdin list --stdin-from-command -- sh -c 'echo half; kill -9 $$'
exits 1 "... that is not there" "$shredder" backup --stdin list --stdin-from-command -- ./not-there
equals "... and none makes a snapshot" 3 "$(count)"
exits 2 "--stdin-from-command without a name" "$shredder" backup --stdin-from-command true
echo echo >words
exits 2 "... with a command out of a file" "$shredder" backup --stdin x --files-from words --stdin-from-command -- it
one_sentence "... is refused in one sentence"
mv repo/packs aside && : >repo/packs
exits 1 "... of a command that ends for no one when nothing can be saved" timeout 60 \
	"$shredder" backup --stdin x --stdin-from-command -- sh -c 'trap "" TERM PIPE; openssl rand 40000000; exec sleep 90'
rm repo/packs && mv aside repo/packs
exits 2 "--stdin-from-command without a command" "$shredder" backup --stdin x --stdin-from-command
finish
