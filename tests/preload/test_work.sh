#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Work of some minutes through the library: git with the sources of this project, cmake and ninja building them, what copies trees with all
# attributes, Python's own tests, databases, a Java program and a Node program. What a machine does not have is skipped, and said.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs git tar python3 cmake ninja cc getfattr setfattr setfacl
folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
source=$(realpath "$folder/../..")
skipped=0

# has TEXT PROGRAM...: or the part is left out
has() {
	local text=$1 program
	shift
	for program in "$@"; do
		command -v "$program" >/dev/null && continue
		echo "skipped - $text: $program is not installed"
		skipped=$((skipped + 1))
		return 1
	done
}

# all_of DIRECTORY: everything but times of directories, which tar and cp set last, and inode numbers
all_of() {
	(cd "$1" && find . -printf '%p %y %m %U %G %s %l %n %Ts\n' | sed 's/^\(.* d [0-7]* [0-9]* [0-9]*\) [0-9]* /\1 /' | sort &&
		find . -type f -print0 | sort -z | xargs -0 cat | cksum && getfattr -d -m - README.md)
}

make_image 8G
mount_shared
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=$work

# ---- git, cmake and ninja: this project
check "git clone" run git clone -q --no-local "$source" "$mnt/clone"
same "it is what was cloned" "$(git -C "$source" rev-parse HEAD)" "$(run git -C "$mnt/clone" rev-parse HEAD)"
check "git gc" run git -C "$mnt/clone" gc -q --prune=now
check "git fsck" run git -C "$mnt/clone" fsck --strict --full
check "git fsck on the mount" git -C "$mnt/clone" fsck --strict --full
same "git status" "" "$(run git -C "$mnt/clone" status --short)"
same "git status on the mount" "" "$(git -C "$mnt/clone" status --short)"
check "cmake configures it" run cmake -S "$mnt/clone" -B "$mnt/clone/build" -G Ninja -D G4_TESTS=OFF
check "ninja builds it" run ninja -C "$mnt/clone/build" -j "$(($(nproc) + 2))" gpu4fs
check "which has no more to do" grep -q 'no work to do' <(run ninja -C "$mnt/clone/build" gpu4fs)
check "and on the mount neither" grep -q 'no work to do' <(ninja -C "$mnt/clone/build" gpu4fs)
version=$(run find "$mnt/clone/build" -name 'libgpu4fs.so.*' -type f | head -n 1)
same "what it built is a library" 0 "$(python3 -c "import ctypes, sys; print(int(not ctypes.CDLL(sys.argv[1])))" "$version"; )"

# ---- trees with all that a file has
tree=$work/tree
git -C "$source" archive --prefix=tree/ HEAD | tar -x -C "$work"
ln "$tree/README.md" "$tree/again"
ln -s nowhere "$tree/dangling"
mkfifo "$tree/pipe"
truncate -s 100M "$tree/sparse"
echo end >>"$tree/sparse"
setfattr -n user.word -v value "$tree/README.md"
setfacl -m u:12345:r "$tree/README.md"
chmod 1777 "$tree/docs"
wanted=$(all_of "$tree")
check "tar packs" run tar --acls --xattrs -cSf "$mnt/tree.tar" -C "$work" tree
check "tar unpacks" run sh -c "mkdir '$mnt/tar' && tar --acls --xattrs -xf '$mnt/tree.tar' -C '$mnt/tar'"
same "the same" "$wanted" "$(all_of "$mnt/tar/tree")"
check "cp -a" run cp -a "$tree" "$mnt/copied"
same "the same as well" "$wanted" "$(all_of "$mnt/copied")"
if has "rsync -aHAX" rsync; then
	check "rsync -aHAX" run rsync -aHAX --sparse "$tree/" "$mnt/rsynced/"
	same "the same, too" "$wanted" "$(all_of "$mnt/rsynced")"
	same "a second one has nothing to do" "" "$(run rsync -aHAXi --sparse "$tree/" "$mnt/rsynced/")"
fi
same "find sees what find on the mount sees" "$(cd "$mnt" && find . -type f | sort | cksum)" "$(cd "$mnt" && run find . -type f | sort | cksum)"
check "rm -rf" run rm -rf "$mnt/copied" "$mnt/tar" "$mnt/rsynced" "$mnt/clone" "$mnt/tree.tar"
same "leaves nothing" "" "$(ls -A "$mnt")"

# ---- SQLite
if has SQLite sqlite3; then
	for mode in delete wal; do
		same "SQLite, journal_mode=$mode" "$(printf '%s\n50005000\nok' $mode)" "$(run sqlite3 "$mnt/$mode.db" "pragma journal_mode=$mode;
			create table t(a integer primary key, b text);
			with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000) insert into t select i, hex(i) from n;
			begin; delete from t where a % 2; rollback; update t set b = b || 'x' where a % 3 = 0;
			select sum(a) from t; vacuum; pragma integrity_check;")"
		same "which the mount finds whole" "$(printf 'ok\n50005000')" "$(sqlite3 "$mnt/$mode.db" "pragma integrity_check; select sum(a) from t")"
	done
fi

# ---- PostgreSQL, which does not run as root
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$mnt/postgres" "PATH=$postgres:$PATH" "$@"
}
if [[ -z $postgres || ! -x $postgres/pgbench ]]; then
	echo "skipped - PostgreSQL: it is not installed"
	skipped=$((skipped + 1))
elif [[ $(id -u) -ne 0 ]]; then
	echo "skipped - PostgreSQL: the mount is not for other users"
	skipped=$((skipped + 1))
else
	chmod 755 "$work"
	mkdir "$mnt/postgres"
	chown 65534:65534 "$mnt/postgres"
	data=$mnt/postgres/data
	as_nobody_run() {
		as_nobody "$gpu4fs" run -m "$socket=$mnt" "$@"
	}
	chmod 666 "$socket"
	check "initdb" as_nobody_run initdb -k -D "$data"
	start=(as_nobody_run pg_ctl -w -t 600 -D "$data" -l "$mnt/postgres/log" -o "-k $mnt/postgres -c listen_addresses=" start)
	sql=(as_nobody psql -qAt -h "$mnt/postgres" postgres)
	check "the server starts" "${start[@]}"
	check "pgbench fills tables" as_nobody pgbench -q -i -s 2 -h "$mnt/postgres" postgres
	check "pgbench, four clients" as_nobody pgbench -c 4 -j 2 -t 500 -h "$mnt/postgres" postgres
	same "no transaction is lost" 2000 "$("${sql[@]}" -c 'select count(*) from pgbench_history')"
	sums="select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches) and
		(select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)"
	same "all sums agree" t "$("${sql[@]}" -c "$sums")"
	check "it stops" as_nobody_run pg_ctl -w -t 600 -D "$data" stop
	check "pg_checksums" as_nobody pg_checksums -D "$data"
	check "it starts on the mount" as_nobody pg_ctl -w -t 600 -D "$data" -l "$mnt/postgres/log" -o "-k $mnt/postgres -c listen_addresses=" start
	same "and finds what was there" t "$("${sql[@]}" -c "$sums")"
	[[ -x $postgres/pg_amcheck ]] && check "pg_amcheck" as_nobody pg_amcheck --install-missing -h "$mnt/postgres" postgres
	check "it stops there, too" as_nobody pg_ctl -w -t 600 -D "$data" stop
fi

# ---- Java, Node, and Python's own tests
if has Java java; then
	check "a Java program" run java -Xmx256m "$folder/Files.java" "$mnt/java"
	same "what it leaves is there" 200 "$(find "$mnt/java" -type f | wc -l)"
fi
if has Node node; then
	check "a Node program" run node "$folder/files.js" "$mnt/node"
	same "what it leaves is there" 200 "$(find "$mnt/node" -type f | wc -l)"
fi
for module in os shutil; do
	if ! python3 -c "import test.test_$module" 2>/dev/null; then
		echo "skipped - Python's test_$module: it is not installed"
		skipped=$((skipped + 1))
		continue
	fi
	mkdir "$mnt/test_$module"
	check "Python's test_$module" run env TMPDIR="$mnt/test_$module" python3 -m test --tempdir "$mnt/test_$module" -v "test_$module"
	grep -E '^Ran |^OK|^FAILED' "$work/out" | sed "s/^/#   test_$module: /"
done

unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
echo "#   parts skipped: $skipped"
finish
