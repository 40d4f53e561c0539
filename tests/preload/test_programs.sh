#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everyday programs through the library: each does what it does on any other file system, and the mount sees the same.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs tar git python3

make_image
mount_shared
tree=$work/tree
mkdir -p "$tree/a/b/c"
for i in $(seq 1 100); do echo "line $i" >"$tree/a/file$i"; done
touch "$tree/a/b/c/empty"
head -c 3000000 /dev/urandom >"$tree/a/b/big"
ln -s ../a/file1 "$tree/a/link"
ln "$tree/a/file2" "$tree/a/b/hard"
chmod 640 "$tree/a/file3"
touch -d 2001-02-03T04:05:06 "$tree/a/file4"

# listing DIRECTORY: all that cp -a keeps
listing() {
	(cd "$1" && find . -printf '%p %y %m %u %g %s %l %n %T+\n' | grep -v '^\. ' | sed 's/\([dD] [0-7]* [^ ]* [^ ]*\) [0-9]*/\1/' | sort)
}
engine_listing() {
	(cd "$1" && run find . -printf '%p %y %m %u %g %s %l %n %T+\n' | grep -v '^\. ' |
		sed 's/\([dD] [0-7]* [^ ]* [^ ]*\) [0-9]*/\1/' | sort)
}

check "cp -a copies a tree in" run cp -a "$tree" "$mnt/copy"
check "the copy is equal through the mount" diff -r "$tree" "$mnt/copy"
check "and through the library" run diff -r "$tree" "$mnt/copy"
same "with all attributes" "$(listing "$tree")" "$(listing "$mnt/copy")"
same "as the library shows them, too" "$(listing "$tree")" "$(engine_listing "$mnt/copy")"
check "cp -a copies inside" run cp -a "$mnt/copy" "$mnt/copy2"
check "the second copy is equal" diff -r "$tree" "$mnt/copy2"
check "tar packs it" run tar -cf "$mnt/tree.tar" -C "$mnt" copy
check "tar unpacks it" run sh -c "mkdir '$mnt/unpacked' && tar -xf '$mnt/tree.tar' -C '$mnt/unpacked'"
check "the unpacked tree is equal" diff -r "$tree" "$mnt/unpacked/copy"
check "mv renames a directory" run mv "$mnt/copy2" "$mnt/moved"
check "the moved tree is equal" diff -r "$tree" "$mnt/moved"
check "mv brings a file out" run mv "$mnt/moved/a/b/big" "$work/big"
check "whole" cmp "$work/big" "$tree/a/b/big"
check "rm -rf removes a tree" run rm -rf "$mnt/moved" "$mnt/unpacked"
same "nothing of it is left" "copy tree.tar" "$(cd "$mnt" && echo *)"
same "sort reads and writes" "$(sort "$tree/a/file1" "$tree/a/file10")" \
	"$(run sh -c "sort '$mnt/copy/a/file1' '$mnt/copy/a/file10' >'$mnt/sorted'; cat '$mnt/sorted'")"
same "a shell's redirections are shared with what it starts" "$(printf 'one\ntwo\nthree')" \
	"$(run sh -c "{ echo one; /bin/echo two; echo three; } >'$mnt/lines'; cat <'$mnt/lines'")"
same "a pipeline through a file descriptor appends" "$(printf '1\n2\n3')" \
	"$(run bash -c "for i in 1 2 3; do echo \$i >>'$mnt/appended'; done; cat '$mnt/appended'")"
if command -v rsync >/dev/null; then
	check "rsync -aHAX copies" run rsync -aHAX "$tree/" "$mnt/rsynced/"
	check "the rsynced tree is equal" diff -r "$tree" "$mnt/rsynced"
fi

# git
export GIT_CONFIG_NOSYSTEM=1 HOME=$work GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
check "git makes a repository and commits" run sh -c "git init -q '$mnt/repository' && cp -r '$tree' '$mnt/repository/tree' &&
	cd '$mnt/repository' && git add . && git commit -qm first && git gc -q && git fsck --strict"
check "git on the mount finds it whole" git -C "$mnt/repository" fsck --strict
same "and nothing changed" "" "$(git -C "$mnt/repository" status --short)"
check "git clones" run git clone -q "$mnt/repository" "$mnt/clone"
check "the clone is equal" diff -r "$tree" "$mnt/clone/tree"

# databases
if command -v sqlite3 >/dev/null; then
	check "SQLite with a rollback journal" run sqlite3 "$mnt/one.db" \
		"create table t(a); insert into t select value from generate_series(1,1000); pragma integrity_check;"
	check "SQLite with a write-ahead log" run sqlite3 "$mnt/two.db" \
		"pragma journal_mode=wal; create table t(a); insert into t select value from generate_series(1,1000);"
	same "which the mount reads" 500500 "$(sqlite3 "$mnt/two.db" 'select sum(a) from t')"
fi

unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
