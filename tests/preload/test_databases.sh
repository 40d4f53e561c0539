#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Databases, a Java program, a Node program and Python's own tests through the library. What a machine does not have is skipped, one line each.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
skipped=0

# has TEXT PROGRAM...: or the part is skipped
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

make_image 2G
mount_shared

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
postgres=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
as_nobody() { # shellcheck disable=SC2317 # check() calls it
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
	as_nobody_run() { # shellcheck disable=SC2317 # check() calls it
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
