#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# restore into what is there already: --delete, --overwrite, --dry-run, hard links, chunks that cannot be read.
# Of store/restore_file.c, store/restore_delete.c, store/restore_node.c, cli/cmd_restore.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key
mkdir -p tree/a/b tree/empty tree/was-directory outside/deep
for name in tree/one tree/a/two tree/a/b/three tree/was-directory/file; do echo "$name" >"$name"; done
echo precious | tee outside/file outside/deep/file >/dev/null
ln -s one tree/link
ln tree/one tree/same
exits 0 "init" "$shredder" init
exits 0 "backup" "$shredder" backup tree
# shellcheck disable=SC2317 # it is called by its name
restore() { "$shredder" restore "latest:$work/tree" --target out "$@"; }
manifest tree >wanted
manifest outside >outside.list
again() { # a restored tree with more in it
	rm -rf out
	cp -a tree out
	mkdir -p out/more/below/it out/a/b/more out/empty/more
	echo more | tee out/more/below/it/file out/a/more out/a/b/more/file out/zzz out/0 out/empty/.hidden >/dev/null
	ln -s ../outside out/a/outward
	ln -s "$work/outside/deep" out/more/below/outward
	mkfifo out/a/fifo
}

# ---- what is right already: nothing of it changes, so that the next backup need not read it
rm -rf out
cp -a tree out
changed() { find out ! -type l ! -path out/same -printf '%P %C@ %A@\n' | sort; }
for when in always if-changed; do
	changed >before
	exits 0 "a restore of what is there, --overwrite $when" restore --overwrite "$when"
	changed >after
	equals "... changes no time of any inode" "" "$(diff <(sed 's/ [^ ]*$//' before) <(sed 's/ [^ ]*$//' after))"
done
chmod 600 out/a/two
exits 0 "a restore of a file of another mode" restore
equals "... which has the right one then" "$(stat -c %a tree/a/two)" "$(stat -c %a out/a/two)"
touch -d '2001-02-03' out/a
exits 0 "a restore of a directory of another time" restore
equals "... which has the right one then" "$(stat -c %y tree/a)" "$(stat -c %y out/a)"

# ---- what the snapshot does not have
again
exits 0 "a restore without --delete" restore
says "... says nothing of deleting" ' were written, in '
equals "... deletes nothing" 6 "$(grep -rlx more out | wc -l)"
manifest out >before
exits 0 "a dry run" restore --delete --dry-run
says "... tells what would be deleted" '^would delete /a/outward$'
says "... and below it" '^would delete /more/below/it/file$'
says "... directories with a slash" '^would delete /more/$'
says "... how much" '^14 would be deleted$'
manifest out >after
same "... and deletes nothing" before after
rm -rf nowhere
exits 0 "a dry run where nothing is" "$shredder" restore latest --target nowhere --delete --dry-run
equals "... makes nothing" "" "$(ls -d nowhere 2>/dev/null)"
is_json "restore --delete" restore --delete --json
equals "... counts" "14 0" "$(json_value 'd["deleted"], d["errors"]' | tr -d '(),')"
manifest out >after
same "... leaves what the snapshot has" wanted after
exits 0 "once more" restore --delete --verbose
says "... there is nothing to do" '^0 deleted$'
again
exits 0 "restore --delete --verbose" restore --delete --verbose
says "... tells it" '^deleted /a/outward$'
exits 0 "--delete of a part" bash -c "touch out/zzz out/a/zzz; '$shredder' restore 'latest:$work/tree/a' --target out/a --delete"
equals "... is of that part" out/zzz "$(find out -name zzz)"
exits 0 "--delete with one file" "$shredder" restore "latest:$work/tree/one" --target out --delete
equals "... deletes nothing" out/zzz "$(find out -name zzz)"

# ---- links lead nowhere
again
rm -r out/a/b out/empty
ln -s "$work/outside" out/a/b
ln -s ../outside/deep out/empty
exits 0 "links in the place of directories" restore --delete
manifest out >after
same "... become directories again" wanted after
manifest outside >after
same "... and where they led nothing is touched" outside.list after
rm -rf out
ln -s outside out
manifest outside >before
exits 0 "a target that is itself a link is what was said" restore --delete --dry-run
manifest outside >after
same "... and a dry run leaves it" before after
rm out

# ---- a directory in the way of something else
again
rm out/one out/link
mkdir -p out/one/full/of out/link
touch out/one/full/of/things
exits 1 "directories in the way stay" restore
rm -rf out/zzz
exits 0 "... and go with --delete" restore --delete
manifest out >after
same "... for what the snapshot has" wanted after

# ---- what is left out stays
again
touch out/more/below/keep.me out/a/keep.me
exits 0 "--delete with --exclude" restore --delete --exclude '*.me' --exclude /empty
equals "... leaves what is excluded, and where it lies" \
	"out/a/keep.me out/empty/.hidden out/empty/more out/more out/more/below out/more/below/keep.me" \
	"$(cd out && find . -name '*.me' -o -path './empty/*' -o -path './more*' | sed 's/^\./out/' | sort | paste -sd' ')"
equals "... and nothing else" "" "$(find out -name zzz -o -name fifo -o -name outward)"
again
exits 0 "--delete with --include" restore --delete --include /a
equals "... is of what matches" "out/0 out/more out/zzz" "$(cd out && find . -maxdepth 1 -name '[0mz]*' | sed 's/^\./out/' | sort | paste -sd' ')"
equals "... altogether" "" "$(find out/a -name more -o -name outward)"
exits 2 "--delete in /" "$shredder" restore "latest:$work/tree" --target / --delete --dry-run
one_sentence "... is refused in one sentence"
exits 2 "--delete onto a device" "$shredder" restore "latest:$work/tree/one" --onto /dev/null --delete

# ---- the repository is no leftover
again
cp -a repo out/repo
exits 0 "a target that holds the repository" "$shredder" restore -r out/repo "latest:$work/tree" --target out --delete
exits 0 "... which stays" "$shredder" check -r out/repo --read-data
rm -r out/repo
manifest out >after
python3 -c 'import os; t = os.stat("tree"); os.utime("out", ns=(t.st_atime_ns, t.st_mtime_ns))'
manifest out >after
same "... and nothing else" wanted after

exits 1 "a target that is the repository" "$shredder" restore "latest:$work/tree" --target repo --delete
one_sentence "... is refused in one sentence"
exits 1 "a target in the repository" "$shredder" restore "latest:$work/tree" --target repo/packs --delete
exits 0 "... which stays" "$shredder" check --read-data
mkdir -p held/repo
exits 0 "backup of the place of a repository" "$shredder" backup held
cp -a repo held/kept && rmdir held/repo && mv held/kept held/repo
exits 1 "a repository where the snapshot has a directory" "$shredder" restore -r held/repo "latest:$work/held" --target held --delete
says "... is told" 'repo: nothing is restored into it: it is the repository'
exits 0 "... and stays" "$shredder" check -r held/repo --read-data
exits 0 "backup again, as the newest" "$shredder" backup tree

# ---- above what was backed up the snapshot does not know what there is
mkdir -p above/here above/there
touch above/here/file above/here/single above/there/file above/file
exits 0 "backup of a directory and a file" "$shredder" backup above/here above/file
touch above/here/more
exits 0 "--delete above them" "$shredder" restore "latest:$work/above" --target above --delete
equals "... deletes in what was backed up, and not beside it" "above/file above/here/file above/here/single above/there/file" \
	"$(find above -type f | sort | paste -sd' ')"
exits 0 "backup again, as the newest" "$shredder" backup tree

# ---- what opens the repository stays
again
mkdir -p out/more/keys
cp key out/more/keys/key
ln -s keys/key out/more/link
exits 0 "--delete with the key below the target" "$shredder" restore -k out/more/link "latest:$work/tree" --target out --delete
equals "... leaves it, and the link to it" "out/more out/more/keys out/more/keys/key out/more/link" "$(find out/more | sort | paste -sd' ')"
exits 0 "... and without it" restore --delete
equals "... deletes both" "" "$(find out -name more)"

# ---- what is mounted stays
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	again
	mkdir -p out/mounted/here
	exits 1 "something mounted below what goes" unshare -m bash -c \
		"mount --bind outside out/mounted/here && exec '$shredder' restore 'latest:$work/tree' --target out --delete"
	says "... is told" 'mounted/here: it is not deleted: something is mounted there'
	manifest outside >after
	same "... and stays" outside.list after
	equals "... and the rest goes" "" "$(find out -name zzz -o -name more)"
	again
	exits 1 "something mounted where the snapshot has an empty directory" unshare -m bash -c \
		"mount --bind outside out/empty && exec '$shredder' restore 'latest:$work/tree' --target out --delete"
	says "... is told" 'empty: nothing in it is deleted: something is mounted there'
	equals "... and its contents stay" "outside/deep/file outside/file" "$(find outside -type f | sort | paste -sd' ')"
fi

# ---- a directory that is damaged loses nothing behind what can be read
again
cp -a repo whole
find repo/packs -type f -exec sh -c 'for f; do dd if=/dev/zero of="$f" bs=1 seek=40 count=3000 conv=notrunc status=none; done' sh {} +
exits 1 "a snapshot that cannot be read" restore --delete
equals "... deletes nothing" 6 "$(grep -rlx more out | wc -l)"
rm -rf repo
mv whole repo

# ---- what is overwritten
touch -d '2001-01-01' tree/one
echo older >tree/a/two
touch -d '2002-02-02 02:02:02.123456789' tree/a/two
exits 0 "backup of old files" "$shredder" backup tree
change() {
	rm -rf out
	cp -a tree out
	rm out/same
	echo newer >out/one
	echo OLDER >out/a/two
	touch -r tree/a/two out/a/two
	echo least >out/a/b/three
	touch -d '1999-01-01' out/a/b/three
	rm out/was-directory/file
}
found() { (cd out && cat one a/two a/b/three was-directory/file same 2>&1 | paste -sd,); }
change
exits 0 "restore" restore
equals "... overwrites by contents" "tree/one,older,tree/a/b/three,tree/was-directory/file,tree/one" "$(found)"
change
exits 0 "restore --overwrite always" restore --overwrite always
equals "... is the same" "tree/one,older,tree/a/b/three,tree/was-directory/file,tree/one" "$(found)"
change
chmod 700 out/a/two
exits 0 "restore --overwrite if-changed" restore --overwrite if-changed
equals "... believes size and time" "tree/one,OLDER,tree/a/b/three,tree/was-directory/file,tree/one" "$(found)"
equals "... and sets the mode" "$(stat -c %a tree/a/two)" "$(stat -c %a out/a/two)"
equals "... and the time" "$(stat -c %y tree/a/two)" "$(stat -c %y out/a/two)"
change
is_json "restore --overwrite if-newer" restore --overwrite if-newer --json
equals "... leaves what is newer or as new" "newer,OLDER,tree/a/b/three,tree/was-directory/file,tree/one" "$(found)"
equals "... and counts it" 3 "$(json_value 'd["kept"]')"
change
exits 0 "restore --overwrite never" restore --overwrite never
equals "... leaves all that is there" "newer,OLDER,least,tree/was-directory/file,tree/one" "$(found)"
says "... and says so" '^4 stay as they were$'
for when in never if-newer; do
	change
	rm -rf out/was-directory out/a/b
	echo mine | tee out/was-directory out/a/b >/dev/null
	exits 0 "a file where the snapshot has a directory, --overwrite $when" restore --overwrite "$when" --dry-run
	says "... is counted in a dry run" "^5 stay as they were$"
	exits 0 "... and in earnest" restore --overwrite "$when" --delete
	says "... the same" "^5 stay as they were$"
	equals "... and stays" "mine mine" "$(cat out/was-directory out/a/b 2>&1 | paste -sd' ')"
done
exits 2 "--overwrite of another word" restore --overwrite sometimes
one_sentence "... is refused in one sentence"
exits 2 "--overwrite never --verify" restore --overwrite never --verify
one_sentence "... is refused in one sentence"

# a hole that takes one byte of its entry, as the last thing of a directory
mkdir short
truncate -s 10 short/hole
exits 0 "backup of a hole of 10 bytes" "$shredder" backup short
exits 0 "check" "$shredder" check
exits 0 "restore of it" "$shredder" restore "latest:$work/short" --target short-out --verify
cmp short/hole short-out/hole
report $? "... is what it was"

# ---- a chunk that cannot be read: what was there stays, and no name has other contents than the snapshot
flip() { # flip REPOSITORY: one bit of its largest pack
	python3 - "$1" <<'END'
import os, sys
packs = [os.path.join(d, f) for d, _, names in os.walk(sys.argv[1] + "/packs") for f in names]
path = max(packs, key=os.path.getsize)
os.chmod(path, 0o600)
with open(path, "r+b") as pack:
    pack.seek(500000)
    byte = pack.read(1)
    pack.seek(500000)
    pack.write(bytes([byte[0] ^ 1]))
END
}
poke() { # poke FILE: a change in each chunk, whichever the damaged one is
	python3 - "$1" <<'END'
import os, sys
with open(sys.argv[1], "r+b") as file:
    for at in range(500, os.path.getsize(sys.argv[1]), 4096):
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
END
}
mkdir v t1
noise 3000000 7 >v/doc
echo small >v/note
noise 5000000 8 >t1/a
ln t1/a t1/b
noise 40000000 10 >image
truncate -s 41000000 image
noise 500000 11 >>image
lost=(-r "$work/lost") links=(-r "$work/links") large=(-r "$work/large")
for what in lost:v links:t1 large:image; do
	exits 0 "init" "$shredder" init -r "${what%:*}"
	exits 0 "backup" "$shredder" backup -r "${what%:*}" "${what#*:}"
done
cp -a links links-whole
cp -a large large-whole
for repository in lost links large; do flip "$repository"; done
cp -a v v-saved
poke v/doc
cp -a v v-before
exits 1 "restore in place with a damaged chunk" "$shredder" restore "${lost[@]}" -T / latest
says "... says that the file is kept, with one slash" "^shredder restore: $work/v/doc: .* is damaged: .*; it is kept as it was\$"
cmp v/doc v-before/doc
report $? "... the file is as it was"
cp -a v-saved/doc v/doc
exits 0 "a file that is as it should be needs no chunk" "$shredder" restore "${lost[@]}" -T / latest
for other in "ln -s note v/doc" "mkfifo v/doc" "cp v/note v/doc" "ln v/note v/doc"; do
	rm v/doc
	$other
	was=$(stat -c '%i %F %s' v/doc)
	exits 1 "restore over: $other" "$shredder" restore "${lost[@]}" "latest:$work/v" -T v
	says "... is told" "is damaged: .*; it is kept as it was\$"
	equals "... leaves what is there" "$was" "$(stat -c '%i %F %s' v/doc)"
done
exits 1 "a new restore with a damaged chunk" "$shredder" restore "${lost[@]}" "latest:$work/v" -T v-new/
says "... says that the file is left out" "^shredder restore: v-new/doc: .* is damaged: .*; it is left out\$"
equals "... and has the rest" note "$(ls v-new)"

cp -a image image-saved
poke image
cp image image-before
exits 1 "a file of several jobs, in place" "$shredder" restore "${large[@]}" -T / latest
says "... is kept" "is damaged: .*; it is kept as it was\$"
cmp image image-before
report $? "... as it was"
cp -a image-saved image
printf y | dd of=image bs=1 seek=25000000 conv=notrunc status=none
printf y | dd of=image bs=1 seek=40500000 conv=notrunc status=none
truncate -s 42000000 image
is_json "... and without damage" "$shredder" restore -r large-whole -T / latest --json
equals "... it is written where it differs" True "$(json_value '0 < d["written_bytes"] < 20000000')"
exits 0 "... read again" "$shredder" restore -r large-whole -T / latest --verify

for when in always if-changed; do
	rm -rf t2
	cp -a t1 t2
	exits 0 "hard links that are right, --overwrite $when" "$shredder" restore "${links[@]}" "latest:$work/t1" -T t2 --overwrite "$when"
	says "... are not written" 'of which 0 B were written'
	equals "... and stay" "2 2" "$(stat -c %h t2/a t2/b | paste -sd' ')"
	poke t2/a
	was=$(stat -c '%i %h %a' t2/a t2/b)
	cp -a t2 t2-before
	exits 1 "hard links with a damaged chunk, --overwrite $when" "$shredder" restore "${links[@]}" "latest:$work/t1" -T t2 --overwrite "$when"
	says "... the first is told" '^shredder restore: t2/a: .* is damaged: .*; it is kept as it was$'
	says "... and the other" '^shredder restore: t2/b: it is another name of a file that could not be restored; it is kept as it was$'
	says "... both are counted" ' 2 errors'
	equals "... and stay" "$was" "$(stat -c '%i %h %a' t2/a t2/b)"
	cmp t2/a t2-before/a
	report $? "... as they were"
	rm -r t2-before
done
exits 1 "a new restore of hard links" "$shredder" restore "${links[@]}" "latest:$work/t1" -T t3 --verify
equals "... makes neither name" "" "$(ls t3)"
says "... and tells of the other" 't3/b: it is another name of a file that could not be restored; it is left out'
# a name outside shares neither contents nor mode
ln t2/a outside-name
cp outside-name outside-before
exits 0 "hard links that differ" "$shredder" restore -r links-whole "latest:$work/t1" -T t2 --verify
equals "... become one file" "2 2" "$(stat -c %h t2/a t2/b | paste -sd' ')"
cmp outside-name outside-before
report $? "... and a name outside has what it had"
ln t2/a outside-right
chmod 640 outside-right
exits 0 "hard links of another mode" "$shredder" restore -r links-whole "latest:$work/t1" -T t2
equals "... get theirs" "$(stat -c %a t1/a)" "$(stat -c %a t2/a)"
equals "... and a name outside keeps its own" 640 "$(stat -c %a outside-right)"
rm t2/b
cp -a t2/a t2/b
is_json "a copy in the place of a link" "$shredder" restore -r links-whole "latest:$work/t1" -T t2 --json
equals "... becomes one, and nothing is written" "0 2" "$(json_value 'd["written_bytes"]') $(stat -c %h t2/b)"
exits 0 "a dry run" "$shredder" restore -r links-whole "latest:$work/t1" -T t2 --dry-run
says "... says nothing of bytes written" '^2 files, 0 directories, 0 others, 9.5 MiB; nothing was compared or written$'
finish
