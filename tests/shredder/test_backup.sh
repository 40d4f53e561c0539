#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backups: what is saved comes back, with all kinds of files and extremes; what the commands print; bad input.
# Of cli/cmd_init.c, cli/cmd_restore.c, cli/cmd_look.c, cli/cmd_maintain.c, cli/cmd_key.c, cli/repo.c, store/keys.c,
# store/visit.c, store/restore.c, store/restore_write.c, store/cutter.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
root=false
[ "$(id -u)" -eq 0 ] && root=true

# ---- help and usage
for command in init backup restore ls snapshots mount find diff check forget copy prune stats key unlock; do
	exits 0 "$command --help" "$shredder" "$command" --help
	says "... starts with its usage" "^usage: shredder $command "
	exits 2 "$command --frobnicate" "$shredder" "$command" --frobnicate
	one_sentence "... is refused in one sentence"
done
exits 10 "no repository" "$shredder" snapshots
one_sentence "... is told in one sentence"
exits 2 "no repository named" env -u SHREDDER_REPOSITORY "$shredder" snapshots

# ---- a tree of everything
mkdir tree
cd tree || exit 1
noise 9000000 1 >large
head -c 65536 large >exactly-a-minimum
head -c 65537 large >one-more
printf x >tiny
: >empty
mkdir -p a/b/c/d "$(printf 'n%.0s' {1..255})" many
echo deep >a/b/c/d/file
ln -s ../tiny a/link
ln -s /nowhere/at/all dangling
ln -s "$(printf 't%.0s' {1..4000})" long-target
ln tiny a/same-as-tiny
ln tiny b-same-as-tiny
mkfifo fifo
python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind("socket")
open(b"odd\xff\n\x1b[31m\"name", "w").write("odd")
open("n" * 255 + "/" + "m" * 255, "w").write("long")
with open("sparse", "wb") as f:
    f.truncate(1 << 40); f.seek(5 << 30); f.write(b"data in the middle"); f.seek((1 << 40) - 5); f.write(b"end")
    f.truncate(1 << 40)
with open("all-hole", "wb") as f: f.truncate(123456789)
with open("zeros", "wb") as f: f.write(bytes(3000000))
for i in range(3000): open(f"many/{i}", "w").write(f"file {i}")
os.setxattr("tiny", "user.name", b"value\0with zero")
os.setxattr("a", "user.directory", b"")
os.setxattr("large", "user.big", b"x" * 2000)
os.utime("tiny", ns=(1, 1234567890123456789))
os.utime("empty", ns=(1, -1234567890987654321))
os.utime("dangling", ns=(1, 999999999), follow_symlinks=False)
os.utime("a/b", ns=(1, 4102444800000000001))
'
chmod 4755 one-more
chmod 0000 empty
chmod 1777 many
if $root; then
	mknod null c 1 3
	mknod disk b 7 250
	chown 12345:54321 exactly-a-minimum
	chown -h 1:2 dangling
	setfattr -n trusted.secret -v x large
fi
if type -P setfacl >/dev/null && setfacl -m u:12345:r,g:7:rw tiny 2>/dev/null; then
	setfacl -m d:u:12345:rx a
fi
cd ..
manifest tree >tree.list
report $? "the tree can be read"

exits 0 "init" "$shredder" init
exits 1 "a second init" "$shredder" init
one_sentence "... is refused in one sentence"
is_json "backup" "$shredder" backup --json --tag one --tag two tree
equals "... reads everything" "0 0" "$(json_value 'd["unread"], d["unchanged_files"]' | tr -d '(),')"
equals "... and holds no hole" True "$(json_value 'd["read_bytes"] < 20000000 and d["bytes"] > 1 << 40')"
equals "... and leaves no lock" "" "$(ls repo/locks)"
equals "... and no temporary file" "" "$(ls repo/tmp)"
exits 0 "restore" "$shredder" restore "latest:$work/tree" --target out
manifest out >out.list
same "... brings back everything" tree.list out.list
equals "sparse files are sparse" True "$(python3 -c 'import os; print(all(os.stat("out/" + f).st_blocks <= 512 for f in ("sparse", "all-hole")))')"
is_json "restoring again" "$shredder" restore --json "latest:$work/tree" --target out
equals "... writes almost nothing" True "$(json_value 'd["written_bytes"] < 100')" # "tiny" has three names
manifest out >out.list
same "... and changes nothing" tree.list out.list

# ---- in place
printf y | dd of=out/large bs=1 seek=4000000 conv=notrunc status=none
noise 70000 7 >out/one-more
rm out/a/link out/dangling
mkdir out/dangling.d
echo more >>out/tiny
ln -sf /etc/passwd out/exactly-a-minimum
is_json "restoring over changes" "$shredder" restore --json "latest:$work/tree" --target out
equals "... writes little" True "$(json_value 'd["written_bytes"] < 3000000')"
rmdir out/dangling.d
touch -d @0 out.stamp
"$shredder" restore "latest:$work/tree" --target out >/dev/null
manifest out >out.list
same "... and everything is as it was" tree.list out.list
rm -rf out

# ---- the next generation
sleep 2.1 # files that changed within two seconds are read again
touch -c tree/many/7
is_json "an unchanged tree" "$shredder" backup --json tree
sleep 2.1
is_json "... a second time" "$shredder" backup --json tree
is_json "... and a third time" "$shredder" backup --json tree
equals "... is not read, and only directories above it are new" "0 True" \
	"$(json_value 'd["read_bytes"], d["new_bytes"] < 1000' | tr -d '(),')"
cp -p tree/large larger
printf 'inserted' | cat - larger >tree/large
sleep 2.1 # else its entry is another one as soon as its change is older than that
is_json "an insertion at the beginning" "$shredder" backup --json tree
equals "... costs a chunk or two" True "$(json_value '0 < d["new_bytes"] < 3000000')"
is_json "everything is read with --force" "$shredder" backup --json --force tree
equals "... and no content is new" "0 True" "$(json_value 'd["unchanged_files"], d["new_bytes"] < 1000' | tr -d '(),')"
# the same size and time, other content: the change time tells
cp -p tree/one-more stamp
printf 'Z' | dd of=tree/one-more bs=1 conv=notrunc status=none
touch -r stamp tree/one-more
is_json "a change that hides its time" "$shredder" backup --json tree
equals "... is seen" True "$(json_value 'd["new_bytes"] > 0')"

# ---- looking
run "$shredder" snapshots
equals "snapshots" 7 "$(wc -l <.out)"
is_json "snapshots as JSON" "$shredder" snapshots --json --tag one,two
equals "... by tags" "one two" "$(json_value '*[tag for s in d for tag in s["tags"]],')"
first=$(json_value 'd[0]["id"]')
last=$("$shredder" snapshots --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[-1]["id"])')
is_json "ls as JSON" "$shredder" ls --json "$first:$work/tree"
equals "... has every entry" "$(($(grep -c . tree.list) - 1))" "$(json_value 'len(d)')"
equals "... with names of any bytes" True "$(json_value 'any(os.fsencode(e["path"]).endswith(b"odd\xff\n\x1b[31m\"name") for e in d)')"
exits 0 "ls -l of a file" "$shredder" ls -l "$first:$work/tree/tiny"
says "... shows it" "^-rw.* 1 2009-02-1.* .*/tree/tiny$"
exits 1 "ls of what is not there" "$shredder" ls "$first:/nowhere"
one_sentence "... is told in one sentence"
exits 0 "find" "$shredder" find --json 'd/fil?'
equals "... in all snapshots" 7 "$(json_value 'len(d)')"
exits 0 "diff" "$shredder" diff --json "$first" "$last"
equals "... finds the two that changed" "['large', 'one-more']" \
	"$(json_value 'sorted(os.path.basename(c["path"]) for c in d if c["change"] == "content")')"
exits 0 "diff of one with itself" "$shredder" diff "$first" "$first"
says "... is empty" '^0 added, 0 removed, 0 changed, 0 with other metadata'
is_json "stats" "$shredder" stats --json
exits 0 "restore of one file" "$shredder" restore "$last:$work/tree/a/b/c/d/file" --target single
equals "... is that file" deep "$(cat single/file)"
exits 0 "restore with --include" "$shredder" restore "$last" --target partial --include 'many/1?' --include 'tiny'
equals "... brings those and no empty directories" 11 "$(find partial -type f | wc -l)"
equals "... nothing else" "" "$(find partial -type d -empty)"
exits 0 "restore --dry-run" "$shredder" restore "$last" --target nothing --dry-run
equals "... writes nothing" "" "$(ls nothing 2>/dev/null)"

# ---- check, forget, prune
exits 0 "check" "$shredder" check
exits 0 "check --read-data" "$shredder" check --read-data
says "... finds nothing" '^no problem found'
exits 2 "forget without anything" "$shredder" forget
exits 0 "forget --dry-run" "$shredder" forget --keep-last 2 --dry-run
says "... would forget five" '^5 snapshots would be'
before=$(du -sb repo/packs | cut -f1)
exits 0 "forget and prune" "$shredder" forget --keep-tag one --keep-last 1 --prune --max-unused 0
equals "... leaves two" 2 "$("$shredder" snapshots | wc -l)"
exits 0 "... which are whole" "$shredder" check --read-data
exits 0 "forget one by its name" "$shredder" forget --json "${first:0:12}"
equals "... tells which is gone, and how many are there" "$first 1" "$(json_value '" ".join(d["removed"]) + " " + str(d["kept"])')"
exits 0 "prune" "$shredder" prune --max-unused 0
equals "... makes it smaller" True "$(python3 -c "print($(du -sb repo/packs | cut -f1) < $before)")"
exits 0 "... and it is whole" "$shredder" check --read-data
exits 0 "what is left can be restored" "$shredder" restore "latest:$work/tree" --target left
manifest tree >tree.list
manifest left >left.list
same "... as it was" tree.list left.list
rm -rf left partial single

exits 0 "forget everything but one" "$shredder" forget --keep-last 1
equals "... leaves one" 1 "$("$shredder" snapshots | wc -l)"

# ---- excludes
mkdir -p source/{keep,cache,.git} source/keep/cache
for file in keep/a.o keep/b.c keep/important.o cache/x keep/cache/y .git/config; do echo "$file" >"source/$file"; done
printf '# objects\n*.o\n!important.o\n/nowhere\n' >patterns
exits 0 "backup with excludes" "$shredder" backup source --exclude-file patterns --exclude cache/ -e "$work/source/.git"
equals "... leaves out what matches" "b.c important.o" \
	"$("$shredder" ls --json "latest:$work/source" | python3 -c 'import json, os, sys; print(*[os.path.basename(e["path"]) for e in json.load(sys.stdin) if e["type"] == "file"])')"
touch source/keep/cache/.nobackup
exits 0 "backup with --exclude-if-present" "$shredder" backup source --exclude-if-present .nobackup
equals "... keeps the directory only" "" "$("$shredder" ls "latest:$work/source/keep/cache")"
echo "$work/source/keep" | "$shredder" backup --files-from - >/dev/null
equals "paths from a file" "$work/source/keep" "$("$shredder" snapshots --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)[-1]["paths"])')"
exits 0 "a repository inside what is saved" "$shredder" backup --repo "$work/repo" "$work" --tag all
equals "... is left out" "" "$("$shredder" ls "latest:$work" | grep '/repo/packs')"

# ---- standard input
noise 5000000 3 | "$shredder" backup --stdin dump.sql >/dev/null
equals "standard input" "0" $?
"$shredder" restore latest --target piped >/dev/null
equals "... comes back" "$(noise 5000000 3 | md5sum)" "$(md5sum <piped/dump.sql)"
exits 2 "a name with a slash for standard input" "$shredder" backup --stdin ../x

# ---- what cannot be read
mkdir -p partly/closed
echo a >partly/readable
echo b >partly/secret
chmod 0 partly/secret partly/closed
if $root; then
	chown -R 12345 partly repo key .
	unprivileged=(setpriv --reuid 12345 --clear-groups)
else
	unprivileged=()
fi
exits 3 "a file that cannot be read" "${unprivileged[@]}" "$shredder" backup partly
says "... is named" 'secret: Permission denied'
says "... and counted" '^NOT SAVED: 2 '
equals "... and the rest is saved" 1 "$("$shredder" ls "latest:$work/partly" | grep -c readable)"
$root && chown -R 0 partly repo key .
exits 1 "nothing that is there" "$shredder" backup absent
one_sentence "... is told in one sentence"
exits 3 "something that is there and something that is not" "$shredder" backup partly/readable absent
exits 0 "a restore without the right to owners" "${unprivileged[@]}" "$shredder" --help

# ---- without encryption
exits 0 "init without encryption" "$shredder" init --no-encryption --repo open
exits 1 "a repository that is not encrypted where one is expected" "$shredder" backup --repo open tree
one_sentence "... is refused in one sentence"
exits 1 "an encrypted one where none is expected" "$shredder" backup --no-encryption tree
one_sentence "... is refused in one sentence"
manifest tree >tree.list
exits 0 "backup without encryption" "$shredder" backup --repo open --no-encryption tree
exits 0 "... is whole" "$shredder" check --repo open --no-encryption --read-data
exits 0 "restore without encryption" "$shredder" restore --repo open --no-encryption "latest:$work/tree" --target plain
manifest plain >plain.list
same "... brings back everything" tree.list plain.list

# ---- files that are restored past the page cache: ends of runs in the middle of blocks, holes, a length that is no block's
mkdir beyond
noise 70000001 21 >beyond/whole
noise 12345677 22 >beyond/holes
truncate -s 60000001 beyond/holes
noise 9000003 23 >>beyond/holes
exits 0 "large files" "$shredder" backup beyond
exits 0 "... are restored" "$shredder" restore "latest:$work/beyond" --target beyond-out
exits 0 "... as they were" cmp beyond/whole beyond-out/whole
exits 0 "... also with holes" cmp beyond/holes beyond-out/holes
equals "... which take no room" True "$(python3 -c 'import os; print(os.stat("beyond-out/holes").st_blocks * 512 < 30000000)')"
noise 1000 24 | dd of=beyond-out/whole bs=1 seek=33333333 conv=notrunc status=none
exits 0 "... over one that is there" "$shredder" restore "latest:$work/beyond" --target beyond-out
exits 0 "... as they were" cmp beyond/whole beyond-out/whole
rm -r beyond beyond-out

# ---- passwords and keys
unset SHREDDER_KEY_FILE
export SHREDDER_REPOSITORY=$work/locked
exits 12 "no password and no terminal" setsid "$shredder" init
one_sentence "... is told in one sentence"
echo first >first
echo second >second
exits 0 "init with a password" "$shredder" init -p first
exits 0 "... opens" "$shredder" snapshots -p first
exits 12 "a wrong password" "$shredder" snapshots -p second
one_sentence "... is told in one sentence"
exits 12 "a key file instead" "$shredder" snapshots -k key
exits 0 "another password" "$shredder" key -p first add --new-password-file second
exits 0 "a key file" "$shredder" key --password-command 'cat second' add --new-key-file key
exits 0 "... opens" "$shredder" snapshots -k key
is_json "the list of keys" "$shredder" key -k key --json list
equals "... has three" 3 "$(json_value 'len(d)')"
old=$("$shredder" key -p first --json list | python3 -c 'import json, sys; print(*[k["id"] for k in json.load(sys.stdin) if k["current"]])')
exits 1 "removing the key that is used" "$shredder" key -p first remove "$old"
exits 0 "removing it with another" "$shredder" key -k key remove "$old"
exits 12 "... and the password is wrong" "$shredder" snapshots -p first
echo third >third
exits 0 "replacing a password" "$shredder" key -p second passwd --new-password-file third
exits 12 "... the old one is wrong" "$shredder" snapshots -p second
exits 0 "... the new one is right" env SHREDDER_PASSWORD=third "$shredder" snapshots
head -c 8 key >short
exits 12 "a key file that is too short" "$shredder" snapshots -k short
exits 12 "a key file that is not there" "$shredder" snapshots -k absent
one_sentence "... is told in one sentence"
finish
