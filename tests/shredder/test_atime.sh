#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Times of last access, where a backup is asked for them. Of store/backup_node.c, store/tree.c, store/restore_node.c, cli/tar.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
head -c 64 /dev/urandom >key
export SHREDDER_REPOSITORY=$work/repo SHREDDER_KEY_FILE=$work/key

accesses() { # accesses DIRECTORY: of all that is in it, itself included, without looking into anything
	python3 - "$1" <<-'END'
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NOATIME)
		def show(fd, path):
		    print(path, os.fstat(fd).st_atime_ns)
		    for entry in sorted(os.listdir(fd)):
		        st = os.lstat(entry, dir_fd=fd)
		        if os.path.stat.S_ISDIR(st.st_mode):
		            below = os.open(entry, os.O_RDONLY | os.O_NOATIME, dir_fd=fd)
		            show(below, path + "/" + entry)
		            os.close(below)
		        else:
		            print(path + "/" + entry, st.st_atime_ns)
		show(fd, ".")
	END
}
mkdir -p tree/sub
echo small >tree/sub/small
noise 3000000 1 >tree/large
ln tree/large tree/same
ln -s large tree/link
mkfifo tree/fifo
touch -d '2020-01-01 UTC' tree/sub/small tree/large tree/fifo tree/sub tree
touch -a -d '1969-12-31 23:59:58.123456789 UTC' tree/sub/small
touch -a -d '2021-02-03 04:05:06.000000007 UTC' tree/large
touch -ah -d '2022-02-02 UTC' tree/link
touch -a -d '2023-03-03 UTC' tree/fifo tree/sub
touch -a -d '2024-04-04 UTC' tree
accesses tree >wanted

exits 0 "init" "$shredder" init
exits 0 "a backup without them" "$shredder" backup tree
is_json "ls" "$shredder" ls --json "latest:$work/tree"
equals "... has none" True "$(json_value 'all("atime" not in e for e in d)')"
sleep 2.1 # a file that changed so recently is read again
exits 0 "a backup that nothing has changed for" "$shredder" backup tree
accesses tree | grep -v /link | cmp - <(grep -v /link wanted)
report $? "... is no access, but of a link, which Linux does not read otherwise"
accesses tree >wanted
is_json "backup --with-atime" "$shredder" backup --with-atime --json tree
equals "... reads no file" 0 "$(json_value 'd["read_bytes"]')"
accesses tree | cmp - wanted
report $? "... and is no access"
is_json "ls" "$shredder" ls --json "latest:$work/tree"
equals "... has them" 2021-02-03T04:05:06.000000007Z "$(json_value '[e["atime"] for e in d if e["path"].endswith("large")][0]')"
exits 0 "restore" "$shredder" restore "latest:$work/tree" --target out --verify --delete
accesses out | cmp - wanted
report $? "... sets them"
manifest tree >tree.list && manifest out >out.list
same "... and all else" tree.list out.list
touch -a -d '2025-05-05 UTC' tree/sub/small
touch -a -d '2021-02-03 04:05:06.000000007 UTC' tree/large
touch -ah -d '2022-02-02 UTC' tree/link
touch -a -d '2023-03-03 UTC' tree/fifo tree/sub
touch -a -d '2024-04-04 UTC' tree
accesses tree >wanted
first=$(snapshot_ids | cut -d' ' -f3)
exits 0 "backup of what was read since" "$shredder" backup --with-atime tree
exits 0 "diff" "$shredder" diff "$first:$work/tree" "latest:$work/tree"
says "... tells nothing" '^0 added, 0 removed, 0 changed, 0 with other metadata'
exits 0 "backup --skip-if-unchanged" "$shredder" backup --with-atime --skip-if-unchanged tree
says "... neither" '^nothing has changed: no snapshot'
rm -rf out
exits 0 "restore" "$shredder" restore "latest:$work/tree" --target out
accesses out | cmp - wanted
report $? "... has the new one"
"$shredder" dump "latest:$work/tree" >dump.tar
python3 - dump.tar >archived <<'END'
import sys, tarfile
for member in tarfile.open(sys.argv[1]):
    print(member.name, member.pax_headers.get("atime"))
END
grep -q 'large 1612325106.000000007' archived && grep -q 'sub/small 1746403200' archived
report $? "dump has them"
exits 0 "a backup without them" "$shredder" backup tree
is_json "ls" "$shredder" ls --json "latest:$work/tree"
equals "... has none" True "$(json_value 'all("atime" not in e for e in d)')"

# ---- copies, and repositories of older formats
exits 0 "init of a new one" "$shredder" init -r new
exits 0 "copy" "$shredder" copy -r new --from-repo repo --from-key-file key "$first"
is_json "ls" "$shredder" ls -r new --json "latest:$work/tree"
equals "... has them" True "$(json_value 'all("atime" in e for e in d)')"
exits 0 "init --format 4" "$shredder" init -r old --format 4
exits 1 "backup --with-atime into that" "$shredder" backup -r old --with-atime tree
one_sentence "... is refused in one sentence"
says "... with what helps" "format 4 has no place for times of last access; 'shredder copy' into a new one"
exits 0 "copy into that" "$shredder" copy -r old --from-repo repo --from-key-file key "$first"
is_json "ls" "$shredder" ls -r old --json "latest:$work/tree"
equals "... has none" True "$(json_value 'all("atime" not in e for e in d)')"
exits 0 "check of that" "$shredder" check -r old --read-data
finish
