#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Commands and options that stand beside a backup: dump, tag, restore --verify, check of a part, what is excluded, --quiet.
# Of cli/cmd_dump.c, cli/tar.c, cli/cmd_tag.c, store/restore_verify.c, store/exclude.c, store/backup_walk.c, store/check.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
root=false
[ "$(id -u)" -eq 0 ] && root=true
for command in dump tag; do
	exits 0 "$command --help" "$shredder" "$command" --help
	exits 2 "$command --frobnicate" "$shredder" "$command" --frobnicate
	one_sentence "... is refused in one sentence"
done

mkdir -p tree/a/b "tree/$(printf 'n%.0s' {1..200})"
noise 5000001 1 >tree/large
echo text >tree/a/b/file
: >tree/empty
printf 'long name' >"tree/$(printf 'n%.0s' {1..200})/$(printf 'm%.0s' {1..100})"
ln tree/large tree/a/same
ln -s ../large tree/a/link
ln -s "$(printf 't%.0s' {1..300})" tree/long-link
mkfifo tree/fifo
truncate -s 3000000 tree/holes
noise 100000 2 >>tree/holes
python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind("tree/socket")
os.setxattr("tree/large", "user.a=b%", b"value\0\n with zero")
os.utime("tree/empty", ns=(1, 1234567890123456789))
os.utime("tree/fifo", ns=(1, -1234567890987654321))
os.utime("tree/long-link", ns=(1, 999999999), follow_symlinks=False)
os.utime("tree/a/b", ns=(1, 4102444800000000001))
'
chmod 4755 tree/large
if $root; then
	mknod tree/null c 1 3
	chown 12345:3000000 tree/empty
fi
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree
id=$(snapshot_ids)

# ---- dump
"$shredder" dump "latest:$work/tree/large" >dumped
equals "dump of a file" 0 $?
exits 0 "... is the file" cmp dumped tree/large
"$shredder" dump "${id:0:10}" "$work/tree/holes" | cmp - tree/holes
report $? "dump with the path as a word of its own, holes as zeros"
"$shredder" dump "latest:$work/tree/empty" >dumped
equals "dump of an empty file" "0 0" "$? $(stat -c %s dumped)"
exits 1 "dump of a FIFO" "$shredder" dump "latest:$work/tree/fifo"
one_sentence "... is refused in one sentence"
exits 1 "dump of what is not there" "$shredder" dump "latest:/nowhere"
one_sentence "... is told in one sentence"
exits 2 "dump without a path" "$shredder" dump latest
exits 2 "dump with two paths" "$shredder" dump latest:/a /b
exits 1 "dump to a full device" bash -c "\"$shredder\" dump 'latest:$work/tree/large' >/dev/full"
one_sentence "... is told in one sentence"
"$shredder" dump "latest:$work/tree" >tree.tar 2>.err
equals "dump of a directory" 0 $?
grep -q 'socket: a socket is left out' .err
report $? "... leaves a socket out and says so"
mkdir untarred
tar -x -p -f tree.tar -C untarred --xattrs --xattrs-include='*' --same-owner 2>tar.err
equals "... is an archive that tar takes" "0" "$?$(grep -v 'old time stamp\|in the future' tar.err)"
cmp tree/holes untarred/holes
report $? "... holes as zeros"
cp --sparse=always -p untarred/holes holes && mv holes untarred/holes # as a restore would make it
rm tree/socket
touch -r tree/a untarred/a # a directory's time is the last thing
python3 -c 'import os; t = os.stat("tree"); os.utime("untarred", ns=(t.st_atime_ns, t.st_mtime_ns))'
manifest tree >tree.list
manifest untarred >untarred.list
same "... with everything in it" tree.list untarred.list
python3 -c '
import tarfile
names = [m.name for m in tarfile.open("tree.tar")]
assert names[0] == "." and "a/b/file" in names, names'
report $? "... whose names begin at the directory"
"$shredder" dump "latest:/" 2>/dev/null | tar -t >names
grep -q "${work#/}/tree/a/b/file" names
report $? "dump of everything"

# access control lists: what tar --acls would have written, but for the letters between the entries
mkdir -p listed/sub
echo text >listed/file
echo text >listed/plain
python3 -c '
import os, struct
def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
none = 2**32 - 1
os.setxattr("listed/file", "system.posix_acl_access", acl((1, 6, none), (2, 4, 54321), (2, 7, 3000000000), (4, 4, none),
                                                          (8, 2, 65432), (16, 6, none), (32, 0, none)))
os.setxattr("listed/sub", "system.posix_acl_access", acl((1, 7, none), (4, 5, none), (8, 1, 65432), (16, 5, none), (32, 1, none)))
os.setxattr("listed/sub", "system.posix_acl_default", acl((1, 7, none), (2, 0, 54321), (4, 5, none), (16, 7, none), (32, 5, none)))
'
exits 0 "backup of access control lists" "$shredder" backup --host listed listed
"$shredder" dump --host listed "latest:$work/listed" >listed.tar
equals "dump of them" 0 $?
tar -c -C listed --format=pax --acls --xattrs --xattrs-include='*' . >gnu.tar
cat >lists.py <<'PYTHON'
import sys, tarfile

for member in sorted(tarfile.open(sys.argv[1]), key=lambda member: member.name):
    for key, value in sorted(member.pax_headers.items()):
        if key.startswith("SCHILY.xattr.system.posix") or (key.startswith("SCHILY.acl.") and
                                                           "SCHILY.xattr.system.posix_acl_" + key[11:] in member.pax_headers):
            print(member.name.removeprefix("./"), key, ascii(value) if "xattr" in key else value.strip().replace("\n", ","))
PYTHON
python3 lists.py listed.tar >listed.records
python3 lists.py gnu.tar >gnu.records
equals "... has three of them" 3 "$(grep -c 'SCHILY.acl' listed.records)"
same "... as GNU tar does" gnu.records listed.records
mkdir unlisted
tar -x -p -f listed.tar -C unlisted --xattrs --xattrs-include='*' --acls
equals "... which tar --acls takes" 0 $?
(cd listed && getfacl -R -n -p .) >listed.acl
(cd unlisted && getfacl -R -n -p .) >unlisted.acl
grep -q '^user:3000000000:rwx' listed.acl && same "... and brings back" listed.acl unlisted.acl
report $? "... all of them"
exits 0 "their snapshot goes" "$shredder" forget --host listed "$(snapshot_ids --host listed)"

# ---- restore --verify
exits 0 "restore --verify" "$shredder" restore "latest:$work/tree" --target out --verify
says "... tells what it read" '^read again: 6 files, '
exits 2 "restore --verify --dry-run" "$shredder" restore "latest:$work/tree" --target out --verify --dry-run
is_json "restore --verify of a part" "$shredder" restore --json "latest:$work/tree" --target part --verify --include a/b --exclude link
equals "... reads that part" "1 0" "$(json_value 'd["verified_files"], d["verify_errors"]' | tr -d '(),')"
exits 0 "restore --verify of one file" "$shredder" restore "latest:$work/tree/a/b/file" --target single --verify
says "... reads that file" '^read again: 1 file, 5 B, is'

# a path that is longer than the kernel takes one
mkdir deep
python3 -c '
import os
os.chdir("deep")
for i in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
open("file", "w").write("deep")'
exits 0 "backup of a deep tree" "$shredder" backup --host deep deep
exits 0 "restore --verify of it" "$shredder" restore --host deep "latest:$work/deep" --target shallow --verify
says "... reads its file" '^read again: 1 file, 4 B, is'
exits 0 "its snapshot goes" "$shredder" forget "$(snapshot_ids --host deep)"

# ---- tags
exits 2 "tag without tags" "$shredder" tag latest
exits 2 "tag with --set and --add" "$shredder" tag --set a --add b latest
exits 0 "tag --add" "$shredder" tag --add one,two --add three "${id:0:10}" latest
says "... changes a snapshot once, however often it is named" '^1 of 1 snapshots changed'
equals "... which has another name now" False "$(python3 -c "print('$id' == '$(snapshot_ids)')")"
tags() { "$shredder" snapshots --json | python3 -c 'import json, sys; print(*[",".join(s["tags"]) for s in json.load(sys.stdin)])'; }
equals "... and the tags" one,two,three "$(tags)"
exits 0 "tag --remove" "$shredder" tag --remove two,none --add four
equals "... takes one away" one,three,four "$(tags)"
exits 0 "tag of nothing new" "$shredder" tag --add one
says "... changes nothing" '^0 of 1 snapshots changed'
is_json "tag --set" "$shredder" tag --json --set only --tag one
equals "... tells both names" "$(snapshot_ids)" "$(json_value 'd[0]["snapshot"]')"
equals "... replaces them" only "$(tags)"
exits 0 "tag --set of none" "$shredder" tag --set ''
equals "... takes all away" "" "$(tags)"
equals "... and leaves one snapshot and no lock" "1 0" "$(find repo/snapshots -type f | wc -l) $(find repo/locks -type f | wc -l)"
"$shredder" restore "latest:$work/tree" --target tagged >/dev/null
manifest tagged >tagged.list
grep -v socket tagged.list | diff - <(manifest out | grep -v socket) >difference
equals "what has other tags is what it was" "" "$(cat difference)"

long=$(printf 'x%.0s' {1..4096})
before=$(ls repo/snapshots)
exits 1 "tag --add of a tag that no snapshot can have" "$shredder" tag --add "$long"
one_sentence "... is refused in one sentence"
equals "... and the snapshot stays" "$before" "$(ls repo/snapshots)"
exits 1 "backup --tag of such a one" "$shredder" backup --tag "$long" tree/a
one_sentence "... is refused in one sentence"
exits 1 "backup --host of a name that is too long" "$shredder" backup --host "${long:0:256}" tree/a
one_sentence "... is refused in one sentence"
equals "... and neither made one" "$before" "$(ls repo/snapshots)"
exits 0 "tag --add of one that fits" "$shredder" tag --add "${long:1}"
equals "... keeps it" "${long:1}" "$(tags)"
exits 0 "tag --set of none" "$shredder" tag --set ''

mkfifo feed
"$shredder" backup -q --stdin fed <feed &
feeding=$!
exec 9>feed
until [ -n "$(ls repo/locks)" ]; do
	kill -0 "$feeding" || break
	sleep 0.05
done
exits 11 "tag while somebody else works" "$shredder" tag --add one
one_sentence "... is refused in one sentence"
exec 9>&-
wait "$feeding"
exits 0 "what was fed goes" "$shredder" forget latest

# ---- a part is checked
for i in 1 2 3 4 5 6; do
	noise 20000000 "1$i" >"bulk"
	"$shredder" backup bulk >/dev/null
done
is_json "check" "$shredder" check --json
packs=$(json_value 'd["packs"]')
sum=0
for part in 1 2 3; do
	is_json "check --read-data-subset $part/3" "$shredder" check --json --read-data-subset "$part/3"
	sum=$((sum + $(json_value 'd["read_packs"]')))
done
equals "... are all packs together" "$packs" "$sum"
is_json "check of a share" "$shredder" check --json --read-data-subset 50%
equals "... is that share" "$(((packs + 1) / 2))" "$(json_value 'd["read_packs"]')"
is_json "check of a size" "$shredder" check --json --read-data-subset 1M
equals "... is so much" True "$(json_value '1 <= d["read_packs"] < d["packs"] and d["read_bytes"] >= 1 << 20')"
exits 0 "check of all in one part" "$shredder" check --read-data-subset 1/1
says "... tells so" "of $packs packs$"
for wrong in 0/3 4/3 1/257 1/ 0% 101% x 0; do
	exits 2 "no part: $wrong" "$shredder" check --read-data-subset "$wrong"
	one_sentence "... is refused in one sentence"
done
pack=$(find repo/packs -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
printf 'damage' | dd of="$pack" bs=1 seek=500000 conv=notrunc status=none
exits 0 "a check that reads nothing does not see damage" "$shredder" check
byte=$((16#$(basename "$pack" | cut -c1-2)))
exits 1 "... that of its part does" "$shredder" check --read-data-subset "$((byte % 5 + 1))/5"
exits 0 "... and that of another part does not" "$shredder" check --read-data-subset "$(((byte + 1) % 5 + 1))/5"
rm -r repo
exits 0 "a new repository" "$shredder" init --quiet
equals "... is made without a word with --quiet" "" "$(cat .out .err)"

# ---- what restic's users write
mkdir one two
for i in 1 2 3; do "$shredder" backup -q one; "$shredder" backup -q two; "$shredder" backup -q --host there one; done
equals "snapshots --latest 1 is one of each host and paths" "here one,here two,there one" \
	"$("$shredder" snapshots --json --latest 1 | python3 -c 'import json, os, sys; print(*sorted(("there" if s["host"] == "there" else "here") + " " + os.path.basename(s["paths"][0]) for s in json.load(sys.stdin)), sep=",")')"
equals "snapshots --latest 2" 6 "$("$shredder" snapshots --latest 2 | wc -l)"
equals "snapshots --latest 9" 9 "$("$shredder" snapshots --latest 9 | wc -l)"
exits 2 "snapshots --latest 0" "$shredder" snapshots --latest 0
exits 2 "find --latest" "$shredder" find --latest 1 x
exits 0 "a backup" "$shredder" backup -q tree
equals "ls with the path as a word" "$("$shredder" ls "latest:$work/tree/a")" "$("$shredder" ls latest "$work/tree/a")"
exits 2 "ls with two paths" "$shredder" ls "latest:$work/tree" "$work/tree"
one_sentence "... is refused in one sentence"

# ---- what is excluded
mkdir -p source/Cache source/cache source/other
printf 'Signature: 8a477f597d28d172789f06886806bc55\n# a comment\n' >source/cache/CACHEDIR.TAG
printf 'Signature: 8a477f597d28d172789f06886806bc5' >source/other/CACHEDIR.TAG
for file in cache/x other/y Cache/z A.O b.o c.txt; do echo "$file" >"source/$file"; done
noise 2000 1 >source/large
files() { "$shredder" ls --json "latest:$work/source" | python3 -c 'import json, os, sys; print(*[e["path"].split("/source/")[1] for e in json.load(sys.stdin) if e["type"] == "file"])'; }
exits 0 "backup --exclude-caches" "$shredder" backup -q --exclude-caches source
equals "... says nothing with -q" "" "$(cat .out .err)"
equals "... leaves out what is in caches, by the whole signature" "A.O Cache/z b.o c.txt large other/CACHEDIR.TAG other/y" "$(files)"
exits 0 "backup --exclude-larger-than" "$shredder" backup --exclude-larger-than 1999 source
equals "... leaves out larger files" "" "$(files | grep large)"
exits 0 "... and no others" "$shredder" backup --exclude-larger-than 2000 source
equals "... of that size" 1 "$(files | grep -c large)"
exits 0 "a larger file that is named" "$shredder" backup --exclude-larger-than 1 source/large
equals "... is saved" 1 "$("$shredder" ls latest | grep -c large)"
exits 2 "no size" "$shredder" backup --exclude-larger-than much source
exits 0 "backup --iexclude" "$shredder" backup --iexclude '*.o' --iexclude 'CACHE/' source
equals "... takes letters of either case" "c.txt large other/CACHEDIR.TAG other/y" "$(files)"
# what is typed has no comments, and what is looked for takes nothing back
mkdir odd
touch odd/{'#saved#','!loud','end ',end,'#kept'}
printf '# a comment\n\\#kept\n' >odd.patterns
exits 0 "backup of odd names" "$shredder" backup odd
found() { # found WANTED PATTERN OPTION...: by name
	local wanted=$1
	shift
	equals "find '$*'" "$wanted" "$("$shredder" find --json --path "$work/odd" "$@" | python3 -c 'import json, os, sys; print(*[os.path.basename(e["entry"]["path"]) for e in json.load(sys.stdin)], sep=",")')"
}
found '#saved#' '#saved#'
found '#saved#' '#SAVED*' -i
found '#saved#' '\#s*'
found '!loud' '!loud'
found '!loud' '\!loud'
found 'end ' 'end '
found '!loud,end' '!loud' end
exits 0 "backup --exclude '#...'" "$shredder" backup --exclude '#saved#' --iexclude '#KEPT' odd
equals "... leaves it out" 0 "$("$shredder" ls "latest:$work/odd" | grep -c '#')"
exits 0 "backup with patterns from a file" "$shredder" backup --exclude-file odd.patterns odd
equals "... which has comments" 1 "$("$shredder" ls "latest:$work/odd" | grep -c '#')"
exits 0 "forget -q" "$shredder" forget -q --keep-last 1 --prune
equals "... says nothing" "" "$(cat .out .err)"
exits 0 "check -q" "$shredder" check -q
equals "... neither" "" "$(cat .out .err)"
exits 0 "restore -q" "$shredder" restore -q --verify latest --target quiet
equals "... nor" "" "$(cat .out .err)"
finish
