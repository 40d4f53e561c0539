#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SQLite with both kinds of journal: transactions, a second connection, and integrity after a remount.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image
mount_image
cat >"$work/workload.py" <<'PYTHON'
import os, sqlite3, sys, threading

path, mode = sys.argv[1], sys.argv[2]


def connect():
    db = sqlite3.connect(path, timeout=600, isolation_level=None)
    assert db.execute("pragma journal_mode=" + mode).fetchone()[0] == mode
    db.execute("pragma synchronous=full")
    return db


db = connect()
db.execute("create table account(id integer primary key, name text unique, balance integer)")
db.execute("create table log(id integer primary key, who integer, amount integer, note blob)")
db.execute("begin")
db.executemany("insert into account values(?,?,1000)", [(i, "name%d" % i) for i in range(1000)])
db.execute("commit")


def transfer(thread):
    mine = connect()
    for i in range(40):
        mine.execute("begin immediate")
        a, b = (thread * 131 + i * 17) % 1000, (thread * 71 + i * 29 + 1) % 1000
        mine.execute("update account set balance=balance-10 where id=?", (a,))
        mine.execute("update account set balance=balance+10 where id=?", (b,))
        mine.execute("insert into log(who,amount,note) values(?,?,?)", (thread, 10, os.urandom(2000)))
        mine.execute("rollback" if i % 10 == 9 else "commit")
    mine.close()


threads = [threading.Thread(target=transfer, args=(t,)) for t in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
db.execute("delete from log where id % 3 = 0")
db.execute("vacuum")
PYTHON
cat >"$work/verify.py" <<'PYTHON'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
assert db.execute("select sum(balance), count(*) from account").fetchone() == (1000000, 1000)
assert db.execute("select count(*) from log").fetchone()[0] == 72
PYTHON
for mode in delete wal; do
	check "$mode: transactions from three threads" python3 "$work/workload.py" "$mnt/$mode.db" $mode
	check "$mode: integrity" python3 "$work/verify.py" "$mnt/$mode.db"
done
if command -v sqlite3 >/dev/null; then
	same "sqlite3 agrees" ok "$(sqlite3 "$mnt/wal.db" 'pragma integrity_check')"
fi
unmount_image
fsck_image
mount_image
for mode in delete wal; do
	check "$mode: integrity after a remount" python3 "$work/verify.py" "$mnt/$mode.db"
done
unmount_image
finish
