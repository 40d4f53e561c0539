#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs cp: what it refuses, and what it keeps of files' attributes. What it copies else: tests/fuse/test_cp.sh.
. "$(dirname "$0")/lib.sh"

touch empty
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M disk.img
exits 2 "without a file system" "$gpu4fs" cp /a /b
one_sentence "... fails with one sentence"
says "... that leads to cp(1) for what is mounted" 'cp(1)'
exits 2 "with two" "$gpu4fs" cp --image disk.img --socket s /a /b
exits 2 "without a target" "$gpu4fs" cp --image disk.img /a
exits 2 "with another word for when" "$gpu4fs" cp --reflink=often --image disk.img /a /b
one_sentence "... fails with one sentence"
exits 2 "with another word for what is kept" "$gpu4fs" cp --preserve=mode,all,color --image disk.img /a /b
one_sentence "... fails with one sentence"
exits 2 "without one" "$gpu4fs" cp --preserve=mode, --image disk.img /a /b
exits 1 "of an image that is none" "$gpu4fs" cp --image empty /a /b
one_sentence "... fails with one sentence"
exits 1 "of a socket that is none" "$gpu4fs" cp --socket empty /a /b
one_sentence "... fails with one sentence"
exits 1 "of what is not there" "$gpu4fs" cp --image disk.img /a /b
one_sentence "... fails with one sentence"
says "... that names it" /a
exits 1 "of a directory without -r" "$gpu4fs" cp --image disk.img / /b
one_sentence "... fails with one sentence"
exits 1 "of several to what is no directory" "$gpu4fs" cp --image disk.img /a /b /c
one_sentence "... fails with one sentence"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img

# ---- what `attr set` has said: the new directory's to say, unless it is asked for
policy() { # policy PATH...: what sums, whether it is deduplicated, and in which domain
	local path
	for path in "$@"; do
		"$gpu4fs" attr get --image policy.img "$path" | sed -n 's/^ *path .*  checksum \(.*\)  dedup \([a-z]*\)  raid [a-z]*/\1 \2/p'
	done | sed 's/  domain / /' | paste -sd ' '
}
mkdir -p policies/own policies/domain/inner policies/weak
head -c 100000 /dev/urandom >policies/own/file
for name in domain domain/inner; do cp policies/own/file "policies/$name/file"; done
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 32M policy.img
exits 0 "import" "$gpu4fs" import --image policy.img policies /new
exits 0 "sums for a directory" "$gpu4fs" attr set --image policy.img checksum=crc32c /new/weak
exits 0 "... none for a file" "$gpu4fs" attr set --image policy.img checksum=none /new/own/file
exits 0 "... which is deduplicated" "$gpu4fs" attr set --image policy.img dedup=on /new/own/file
equals "... and says so" "none on" "$(policy /new/own/file)"
exits 0 "cp -a" "$gpu4fs" cp -a --image policy.img /new/own /plain
equals "... keeps no policies" "default default" "$(policy /plain/file)"
exits 0 "cp -a into a directory" "$gpu4fs" cp -a --image policy.img /new/own/file /new/weak/mine
equals "... has what that says" "crc32c default" "$(policy /new/weak/mine)"
for how in auto always never; do
	exits 0 "--preserve=policy --reflink=$how" "$gpu4fs" cp -a --preserve=policy --reflink=$how --image policy.img /new/own/file "/new/weak/$how"
	equals "... keeps the source's" "none on" "$(policy "/new/weak/$how")"
done
exits 0 "... of a tree" "$gpu4fs" cp -r --preserve=policy --image policy.img /new/weak /tree
equals "... keeps directories' and files'" "crc32c default none on crc32c default" "$(policy /tree /tree/always /tree/mine)"
exits 0 "... over what is there" "$gpu4fs" cp --preserve=policy --image policy.img /new/weak/mine /tree/always
equals "... has the source's, too" "crc32c default" "$(policy /tree/always)"
# two domains, of which one is in the other's directory, and what is made in them
for path in /new/domain /new/domain/inner; do
	exits 0 "a domain" "$gpu4fs" attr set --image policy.img dedup=domain "$path"
	exits 0 "... of which a file is" "$gpu4fs" cp --image policy.img /plain/file "$path/made"
done
equals "they are two" "default domain 1 default domain 2" "$(policy /new/domain/made /new/domain/inner/made)"
exits 0 "--preserve=policy of both" "$gpu4fs" cp -r --preserve=policy --image policy.img /new/domain /copy
equals "... makes two others" "default domain 3 default domain 4" "$(policy /copy/made /copy/inner/made)"
equals "... and what was made before there was one comes into it" "default domain 3 default domain 4 default domain 3" "$(policy /copy /copy/inner /copy/file)"
exits 0 "... into a domain" "$gpu4fs" cp --preserve=policy --image policy.img /new/own/file /new/domain/made /copy
equals "... stays in it, but for its sums" "none domain 3 default domain 3" "$(policy /copy/file /copy/made)"
exits 0 "... out of one" "$gpu4fs" cp --preserve=policy --image policy.img /new/domain/made /alone
equals "... is one" "default domain 5" "$(policy /alone)"
exits 0 "without it" "$gpu4fs" cp -a --image policy.img /new/domain/made /open
equals "... is none" "default default" "$(policy /open)"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n --data policy.img

command -v python3 >/dev/null || { echo "skipped the rest: no python3"; finish; }
cat >make.py <<'PYTHON'
"""Files with all that can be kept: make.py FOLDER"""
import os, stat, sys

os.makedirs(sys.argv[1] + "/sub/inner")
os.chdir(sys.argv[1])
root = os.geteuid() == 0
with open("large", "wb") as file:
    file.write(os.urandom(3 << 20))
with open("small", "wb") as file:
    file.write(b"small")
os.link("large", "sub/large again")
os.link("large", "sub/inner/third name")
os.symlink("small", "link")
os.mkfifo("pipe", 0o640)
os.chmod("small", 0o6755)
if root:
    os.chown("small", 1234, 5678)
    os.chmod("small", 0o6755)
    os.chown("sub", 77, 88)
    os.chown("link", 99, 98, follow_symlinks=False)
    os.chown("pipe", 97, 96)
try:
    os.setxattr("small", "user.some", b"value")
    os.setxattr("sub", "user.of a directory", bytes(3000))
    if root:
        os.setxattr("link", "trusted.t", b"of a link", follow_symlinks=False)
    lists = bytes.fromhex("02000000" "01000600ffffffff" "02000400e8030000" "04000000ffffffff" "10000400ffffffff"
                          "20000000ffffffff")
    os.setxattr("large", "system.posix_acl_access", lists)
    os.setxattr("sub/inner", "system.posix_acl_default", lists)
except OSError:
    pass  # the host's file system has none
os.chmod("sub/inner", 0o550)
for top, folders, files in os.walk(".", topdown=False):
    for k, name in enumerate(folders + files):
        os.utime(os.path.join(top, name), ns=(1600000000123456789 + k, 1500000000987654321 + k), follow_symlinks=False)
os.utime(".", ns=(1234567890123456789, 987654321123456789))
PYTHON
cat >tell.py <<'PYTHON'
"""All that a tree says of attributes, as text, or some of it: tell.py FOLDER WORD..."""
import hashlib, os, stat, sys

os.chdir(sys.argv[1])
lines, inodes = [], {}
for top, folders, files in os.walk("."):
    for name in ["."] * (top == ".") + folders + files:
        path = os.path.normpath(os.path.join(top, name))
        info = os.lstat(path)
        said = [path, oct(stat.S_IFMT(info.st_mode))]
        if stat.S_ISREG(info.st_mode):
            with open(path, "rb") as file:
                said.append(hashlib.blake2b(file.read()).hexdigest()[:20])
        xattrs = {n: os.getxattr(path, n, follow_symlinks=False).hex()[:80] for n in os.listxattr(path, follow_symlinks=False)}
        if "mode" in sys.argv:
            said.append(oct(info.st_mode))
            said.append(sorted(x for x in xattrs.items() if x[0].startswith("system.")))
        if "ownership" in sys.argv:
            said.append((info.st_uid, info.st_gid))
        if "timestamps" in sys.argv:
            said.append(info.st_mtime_ns)
        if "xattr" in sys.argv:
            said.append(sorted(x for x in xattrs.items() if not x[0].startswith("system.") and x[0] != "security.selinux"))
        if not stat.S_ISDIR(info.st_mode):
            inodes.setdefault(info.st_ino, []).append(path)
        lines.append(repr(said))
print("\n".join(sorted(lines)))
if "links" in sys.argv:
    print(sorted(sorted(names) for names in inodes.values() if len(names) > 1))
PYTHON
everything="mode ownership timestamps xattr links"
as_it_was() { # as_it_was NAME PATH WORD...: what a tree says of these, beside its contents
	local name=$1 path=$2
	shift 2
	rm -rf back
	run "$gpu4fs" export --image disk.img "$path" back
	python3 tell.py tree "$@" >wanted
	python3 tell.py back "$@" >found
	run diff wanted found
	report "$status" "$name"
}
differs() { # differs NAME PATH WORD: it does not say the same of this
	local name=$1 path=$2
	shift 2
	rm -rf back
	run "$gpu4fs" export --image disk.img "$path" back
	python3 tell.py tree "$@" >wanted
	python3 tell.py back "$@" >found
	! cmp -s wanted found
	report $? "$name"
}

umask 022
run python3 make.py tree
exits 0 "import" "$gpu4fs" import --image disk.img tree /tree
# shellcheck disable=SC2086 # a word each
as_it_was "... has everything" /tree $everything
exits 0 "cp -a" "$gpu4fs" cp -a --image disk.img /tree /copy
# shellcheck disable=SC2086
as_it_was "... keeps everything" /copy $everything
exits 0 "cp -a of the same to the same" "$gpu4fs" cp -a --image disk.img /tree/. /copy
# shellcheck disable=SC2086
as_it_was "... changes nothing" /copy $everything
exits 0 "cp -a --reflink=always" "$gpu4fs" cp --archive --reflink=always --image disk.img /tree /shared
# shellcheck disable=SC2086
as_it_was "... keeps everything" /shared $everything
exits 0 "cp -a --reflink=never" "$gpu4fs" cp -a --reflink=never --image disk.img /tree /own
# shellcheck disable=SC2086
as_it_was "... keeps everything" /own $everything
exits 0 "cp -r" "$gpu4fs" cp -r --image disk.img /tree /plain
as_it_was "... keeps contents" /plain
for word in $everything; do
	case $word in
	ownership) [ "$(id -u)" -ne 0 ] || differs "... and not $word" /plain "$word" ;;
	xattr) [ -z "$(python3 -c 'import os; print(*os.listxattr("tree/small"))')" ] || differs "... and not $word" /plain "$word" ;;
	*) differs "... and not $word" /plain "$word" ;;
	esac
	exits 0 "--preserve=$word" "$gpu4fs" cp -r --preserve="$word" --image disk.img /tree "/$word"
	as_it_was "... keeps $word" "/$word" "$word"
done
exits 0 "cp -pr" "$gpu4fs" cp -pr --image disk.img /tree /p
as_it_was "... keeps modes, owners and times" /p mode ownership timestamps
differs "... and not links" /p links
exits 0 "cp -dr" "$gpu4fs" cp -dr --image disk.img /tree /d
as_it_was "... keeps links" /d links
differs "... and not times" /d timestamps
exits 0 "cp -a without links" "$gpu4fs" cp -a --no-preserve=links,timestamps --image disk.img /tree /without
as_it_was "... keeps the rest" /without mode ownership xattr
differs "... and not them" /without links
if [ "$(id -u)" -eq 0 ]; then
	exits 0 "owners without modes" "$gpu4fs" cp --preserve=ownership --image disk.img /tree/small /small
	exits 0 "... come out" "$gpu4fs" export --image disk.img / all
	equals "... with the mode that it is made with" "755 1234 5678" "$(stat -c '%a %u %g' all/small)"
fi

# names of one file, given one by one, and what is in the way
exits 0 "two names of a file" "$gpu4fs" cp -d --image disk.img /tree/large "/tree/sub/large again" /p
rm -rf back
exits 0 "... come out" "$gpu4fs" export --image disk.img /p back
equals "... are one again" "2 $(stat -c %s tree/large)" "$(stat -c '%h %s' back/large)"
equals "... and the one that was there another" 1 "$(stat -c %h "back/sub/large again")"
exits 0 "a link over a file" "$gpu4fs" cp -d --image disk.img /tree/link /p/large
exits 0 "a pipe over a link" "$gpu4fs" cp -d --image disk.img /tree/pipe /p/link
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img

# nothing that is copied makes room for its copy
mkdir -p more/folder more/into/a more/into/x more/names/sub more/over/sub
echo precious >more/file
ln -s file more/leads
ln -s nowhere more/dangles
ln -s /more/folder more/by
ln -s file more/folder/link
echo several >more/names/one
ln more/names/one more/names/sub/two
echo other >more/other
ln -s ../other more/over/one
mkdir -p more/aim more/trap more/open/door
chmod 700 more/aim
chmod 777 more/open/door
ln -s ../aim more/trap/door
mkdir -p more/first more/second more/third more/both
echo first >more/first/name
ln more/first/name more/third/another
echo second >more/second/name
touch more/program
chmod 6755 more/program
mkdir more/everybody
chmod 3777 more/everybody
exits 0 "import" "$gpu4fs" import --image disk.img more /more
refuses() { # refuses NAME SAYS ARGUMENT...
	exits 1 "$1" "$gpu4fs" cp --image disk.img "${@:3}"
	one_sentence "... fails with one sentence"
	says "... that says why" "$2"
}
refuses "a link over what it leads to" "same file" -a /more/leads /more/file
refuses "a link over itself" "same file" -a /more/dangles /more/dangles
refuses "... into its directory by another name" "same file" -a /more/folder/link /more/by
refuses "... and by a link to it" "same file" -d /more/file /more/leads
refuses "a directory's contents into a directory in it" "into itself" -a /more/into/. /more/into/x
refuses "two of the same name" "just made" -d /more/first/name /more/second/name /more/third/another /more/both
exits 1 "a directory over a link to another one" "$gpu4fs" cp -a --image disk.img /more/open/. /more/trap
one_sentence "... fails with one sentence"
exits 0 "several names, one over a link" "$gpu4fs" cp -a --image disk.img /more/names/one /more/names/sub /more/over
exits 0 "a program with set-id bits, without -p" "$gpu4fs" cp --image disk.img /more/program /more/plain
exits 0 "... with it" "$gpu4fs" cp -p --image disk.img /more/program /more/kept
exits 0 "a directory where only owners delete" "$gpu4fs" cp -r --image disk.img /more/everybody /more/all
exits 0 "... with its owner" "$gpu4fs" cp -r --preserve=ownership --image disk.img /more/everybody /more/owned
rm -rf back
exits 0 "they come out" "$gpu4fs" export --image disk.img /more back
equals "... what the link leads to is whole" precious "$(cat back/file)"
equals "... links are there" "file:nowhere:file:" "$(readlink back/leads back/dangles back/folder/link | tr '\n' :)"
equals "... the directory has a copy of the other one" "a:x:x/a:" "$(find back/into -mindepth 1 -printf '%P\n' | sort | tr '\n' :)"
equals "... the names are one file's" "several:several:" "$(cat back/over/one back/over/sub/two | tr '\n' :)"
equals "... of two names" 2 "$(stat -c %h back/over/one)"
equals "... and nothing was written through the link" other "$(cat back/other)"
equals "... of two of the same name the first is there" "first:first:" "$(cat back/both/name back/both/another | tr '\n' :)"
equals "... and nobody may do more in a directory that a link leads to" 700 "$(stat -c %a back/aim)"
equals "... set-id bits are kept with modes only" "755:6755:" "$(stat -c %a back/plain back/kept | tr '\n' :)"
equals "... others' names are not for everybody to delete" "1755:1755:" "$(stat -c %a back/all back/owned | tr '\n' :)"
exits 0 "the image is clean" "$gpu4fs" fsck -f -n disk.img

# ---- a tree to which others add while it is copied: what was there before is in the copy, with its contents
mkdir -p tree/{100..149} extra/deep
for d in tree/*; do for f in {1..100}; do echo "$d/$f" >"$d/$f"; done; done
echo late >extra/deep/late
exits 0 "mkfs" "$gpu4fs" mkfs -q --force --size 128M grows.img
exits 0 "a tree comes in" "$gpu4fs" import --image grows.img tree /tree
"$gpu4fs" serve --socket "$work/socket" grows.img >serve.out 2>&1 &
server=$!
until [ -S "$work/socket" ] || ! kill -0 $server 2>/dev/null; do sleep 0.01; done
copied() { "$gpu4fs" find --socket "$work/socket" /copy 2>/dev/null | wc -l; }
"$gpu4fs" cp -a -j 1 --socket "$work/socket" /tree /copy >cp.out 2>cp.err &
copying=$!
now=0
while [ "$now" -lt 100 ] && kill -0 $copying 2>/dev/null; do
	kill -CONT $copying
	sleep 0.01
	kill -STOP $copying
	now=$(copied)
done
[ "$now" -ge 100 ] && [ "$now" -lt 5051 ]
report $? "it is stopped in the middle: $now of 5051 names are there"
for d in 100 120 149; do
	exits 0 "a tree is put in /tree/$d meanwhile" "$gpu4fs" import --socket "$work/socket" extra "/tree/$d/extra"
done
exits 0 "... and beside those" "$gpu4fs" import --socket "$work/socket" extra /tree/zzz
kill -CONT $copying
wait $copying
equals "the copy ends well" 0 $?
exits 0 "it comes out" "$gpu4fs" export --socket "$work/socket" /copy out
(cd tree && find . -type f -exec cmp {} ../out/{} \;) >differs 2>&1
equals "... with all that was there, and its contents" "" "$(cat differs)"
equals "... and nothing half" "" "$(find out -name late -not -size 5c)"

# ---- ... and while it is exported
exported() { find grown -mindepth 1 2>/dev/null | wc -l; }
echo later >extra/deep/late
"$gpu4fs" export -j 1 --socket "$work/socket" /tree grown >export.out 2>export.err &
exporting=$!
now=0
while [ "$now" -lt 100 ] && kill -0 $exporting 2>/dev/null; do
	kill -CONT $exporting
	sleep 0.01
	kill -STOP $exporting
	now=$(exported)
done
[ "$now" -ge 100 ] && [ "$now" -lt 5050 ]
report $? "it is stopped in the middle: $now of 5050 names are there"
for d in 101 121 148; do
	exits 0 "a tree is put in /tree/$d meanwhile" "$gpu4fs" import --socket "$work/socket" extra "/tree/$d/more"
done
exits 0 "... and beside those" "$gpu4fs" import --socket "$work/socket" extra /tree/zzzz
kill -CONT $exporting
wait $exporting
equals "the export ends well" 0 $?
(cd tree && find . -type f -exec cmp {} ../grown/{} \;) >differs 2>&1
equals "... with all that was there, and its contents" "" "$(cat differs)"
equals "... and nothing half" "" "$(find grown -name late -not -size 5c -not -size 6c)"
kill "$server"
wait "$server"
equals "the server ends well" 0 $?
exits 0 "the image is clean" "$gpu4fs" fsck -f -n grows.img
finish
