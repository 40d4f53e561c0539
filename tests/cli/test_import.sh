#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs import and export: a tree of the host goes into a file system and comes back as it was, everything of it.
# Of cli/cmd_export.c, cli/cmd_du.c, cli/attach.c.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

cat >make.py <<'PYTHON'
"""A tree with everything: make.py FOLDER"""
import os, socket, stat, sys

os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
root = os.geteuid() == 0
for name in ("many", "deep", "plain", "plain/sub", "closed"):
    os.mkdir(name)
for k in range(1500):  # more than a batch, and an index above the leaves
    open(f"many/name {k:04} of many, each with some length to it", "wb").close()
for k in range(40):
    with open(f"plain/file{k}", "wb") as file:
        file.write(os.urandom(k * 777))
with open("sparse", "wb") as file:
    file.write(b"begin")
    file.seek(40 << 20)
    file.write(b"middle" * 1000)
    file.truncate(90 << 20)
with open("large", "wb") as file:
    file.write(os.urandom(5 << 20))
os.link("large", "plain/sub/large again")
os.link("large", "third name of it")
os.symlink("plain/file7", "link")
os.symlink("nowhere", "plain/dangling")
os.mkfifo("pipe", 0o640)
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
open("bad \xff bytes".encode("latin-1"), "wb").close()
open("set-id", "wb").close()
if root:
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chown("set-id", 1234, 5678)
    os.chown("plain/sub", 77, 88)
    os.chown("link", 99, 99, follow_symlinks=False)
    os.link("link", "link again", follow_symlinks=False)
os.chmod("set-id", 0o6755)
try:
    os.setxattr("set-id", "user.some", b"value")
    os.setxattr("plain", "user.of a directory", bytes(3000))
    if root:
        os.setxattr("link", "trusted.t", b"of a link", follow_symlinks=False)
        os.setxattr("plain/file3", "system.posix_acl_access", bytes.fromhex(
            "02000000" "01000600ffffffff" "02000400e8030000" "04000000ffffffff" "10000400ffffffff" "20000000ffffffff"))
except OSError:
    pass  # the host's file system has none
path = "deep"
for k in range(30):
    path += f"/level {k}"
    os.mkdir(path)
for top, folders, files in os.walk(".", topdown=False):
    for k, name in enumerate(folders + files):
        os.utime(os.path.join(top, name), ns=(1600000000123456789 + k, 1500000000987654321 + k), follow_symlinks=False)
os.chmod("closed", 0o500)
os.utime(".", ns=(1234567890123456789, 987654321123456789))
PYTHON

cat >tell.py <<'PYTHON'
"""All that a tree says, as text: tell.py FOLDER"""
import hashlib, os, stat, sys

os.chdir(sys.argv[1])
inodes = {}
lines = []
for top, folders, files in os.walk(b"."):
    for name in [b"."] * (top == b".") + folders + files:
        path = os.path.join(top, name)
        info = os.lstat(path)
        kind = stat.S_IFMT(info.st_mode)
        what = ""
        if kind == stat.S_IFREG:
            with open(path, "rb") as file:
                what = hashlib.blake2b(file.read()).hexdigest()[:20]
        elif kind == stat.S_IFLNK:
            what = os.readlink(path)
        xattrs = {n: os.getxattr(path, n, follow_symlinks=False).hex()[:80] for n in os.listxattr(path, follow_symlinks=False)
                  if n != "security.selinux"}
        if kind != stat.S_IFDIR and info.st_nlink > 1:
            inodes.setdefault(info.st_ino, []).append(path)
        times = info.st_mtime_ns, (info.st_atime_ns if kind != stat.S_IFDIR and len(sys.argv) > 2 else 0)
        lines.append(repr((path, oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink if kind != stat.S_IFDIR else 0,
                           info.st_size if kind != stat.S_IFDIR else 0, info.st_rdev, times, what, sorted(xattrs.items()))))
print("\n".join(sorted(lines)))
print(sorted(sorted(names) for names in inodes.values()))
PYTHON

run python3 make.py tree
python3 tell.py tree >wanted
exits 0 "mkfs" "$gpu4fs" mkfs -q --size 64M disk.img
exits 0 "import" "$gpu4fs" import -v --image disk.img tree /into/a/new/place
says "... tells how much" '^3[0-9] directories, 15[0-9][0-9] other names, '
exits 0 "... leaves a clean image" "$gpu4fs" fsck -f -n disk.img
exits 0 "export" "$gpu4fs" export -v --image disk.img /into/a/new/place back
python3 tell.py back >found
exits 0 "... everything is as it was" diff wanted found
equals "... holes are holes" True "$(python3 -c 'import os; print(os.stat("back/sparse").st_blocks * 512 < 2 << 20)')"
run "$gpu4fs" df --json disk.img
equals "... in the image, too" True "$(json_value 'd["filesystems"][0]["used_bytes"] < 40 << 20')"

# again, and what is there already
exits 1 "import of what is there" "$gpu4fs" import --image disk.img tree /into/a/new/place
says "... names what stays" 'place/large: '
exits 0 "import with one thread" "$gpu4fs" import -j 1 --image disk.img tree /one
exits 1 "export onto what is there" "$gpu4fs" export --image disk.img /one back
exits 0 "export of the root" "$gpu4fs" export --image disk.img / all
python3 tell.py all/one >found
exits 0 "... has it" diff wanted found
python3 tell.py back >found
exits 0 "... and what was there is as it was" diff wanted found

# others who replace names meanwhile: a race, in which what is right holds whichever wins
cat >swap.py <<'PYTHON'
"""import of a folder whose names are replaced once they were listed: swap.py FOLDER ELSEWHERE COMMAND..."""
import ctypes, os, subprocess, sys

folder, elsewhere = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_CLOEXEC)
assert watch >= 0 and libc.inotify_add_watch(watch, folder.encode(), 0x10) > 0  # IN_CLOSE_NOWRITE: it was listed
command = subprocess.Popen(sys.argv[3:])
os.read(watch, 4096)
for name in os.listdir(elsewhere):
    os.rename(f"{elsewhere}/{name}", f"{folder}/{name}")
try:
    status = command.wait(60)
except subprocess.TimeoutExpired:  # it waits for a writer of the FIFO
    command.kill()
    sys.exit("it hangs")
sys.exit(status not in (0, 1))
PYTHON
mkdir replaced secrets fifos
for k in $(seq 3000); do
	: >"replaced/name $k"
done
for k in $(seq 20); do
	echo public >"replaced/was public $k"
	echo public >"replaced/was a file $k"
	(umask 077 && echo secret >"secrets/was public $k")
	mkfifo "fifos/was a file $k"
done
exits 0 "import while files become FIFOs" python3 swap.py replaced fifos "$gpu4fs" import --image disk.img replaced /fifos
exits 0 "import while files become secret ones" python3 swap.py replaced secrets "$gpu4fs" import --image disk.img replaced /secrets
exits 0 "... leaves a clean image" "$gpu4fs" fsck -f -n disk.img
exits 0 "... and what can be exported" "$gpu4fs" export --image disk.img /secrets secrets.back
equals "... without what others may not read" "" "$(find secrets.back -type f -perm /077 -exec grep -l secret {} +)"
equals "... and without a file that is only a part" "" "$(find secrets.back -name 'was*' -type f -empty)"

cat >exchange.py <<'PYTHON'
"""export of FIFOs, each of which another process replaces by a link: exchange.py VICTIM FOLDER COUNT COMMAND..."""
import ctypes, os, signal, subprocess, sys

victim, folder, count = sys.argv[1:4]
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir(folder)
names = []
for k in range(int(count)):
    os.symlink(victim, f"link{k}")
    names.append((f"link{k}".encode(), f"{folder}/pipe{k}".encode()))
parent = os.getpid()
child = os.fork()
if child == 0:
    while names and os.getppid() == parent:
        names = [pair for pair in names if libc.renameat2(-100, pair[0], -100, pair[1], 2) != 0]  # RENAME_EXCHANGE
    os._exit(0)
status = subprocess.run(sys.argv[4:]).returncode
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
for k in range(int(count)):
    os.unlink(f"link{k}")
sys.exit(status not in (0, 1))
PYTHON
mkdir pipes
for k in $(seq 0 9); do
	mkfifo "pipes/pipe$k"
	chmod 6777 "pipes/pipe$k"
done
exits 0 "import of FIFOs" "$gpu4fs" import --image disk.img pipes /pipes
(umask 077 && : >victim)
for k in $(seq 8); do
	exits 0 "export while they are replaced by links" python3 exchange.py "$work/victim" "pipes.back$k" 10 \
		"$gpu4fs" export --image disk.img /pipes "pipes.back$k"
done
equals "... leaves what the links lead to" 600 "$(stat -c %a victim)"

# names in the way
mkdir in-the-way in-the-way/plain
ln -s "$work/victim" in-the-way/pipe
ln -s "$work/pipes" in-the-way/deep
mkfifo in-the-way/large
exits 1 "export onto links and a FIFO" "$gpu4fs" export --image disk.img /one in-the-way
says "... names the link" 'pipe: File exists'
says "... names the FIFO" 'large: File exists'
equals "... leaves what the links lead to" "600 10" "$(stat -c %a victim) $(find pipes -mindepth 1 | wc -l)"
equals "... and the rest is there" 2 "$(stat -c %h 'in-the-way/third name of it')"

# who may not give files away keeps none of their set-id bits
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
chmod 755 "$work"
if [ "$(id -u)" -eq 0 ] && "${nobody[@]}" test -x "$gpu4fs" 2>/dev/null; then
	mkdir set-id own open
	: >set-id/file
	mkfifo set-id/pipe
	: >set-id/own
	chown 65534:65534 own open set-id/own
	chmod 6755 set-id/*
	exits 0 "mkfs of another user" "${nobody[@]}" "$gpu4fs" mkfs -q --size 16M own/own.img
	exits 0 "import of a directory of that user" "$gpu4fs" import --image own/own.img open /open
	exits 0 "import by that user" "${nobody[@]}" "$gpu4fs" import --image own/own.img set-id /open/set-id
	exits 0 "export of it" "$gpu4fs" export --image own/own.img /open/set-id own/root
	equals "... no set-id bits but of what is the user's" "755 755 6755" \
		"$(stat -c %a own/root/file own/root/pipe own/root/own | paste -sd ' ')"
	exits 0 "import by root" "$gpu4fs" import --image own/own.img set-id /kept
	exits 0 "export by that user" "${nobody[@]}" "$gpu4fs" export --image own/own.img /kept own/user
	equals "... no set-id bits but of what is the user's" "755 755 6755" \
		"$(stat -c %a own/user/file own/user/pipe own/user/own | paste -sd ' ')"
	# what can not be read is not begun
	mkdir unreadable
	(umask 077 && echo text >unreadable/file && echo text >unreadable/linked && ln unreadable/linked unreadable/again)
	exits 1 "import of what can not be read" "${nobody[@]}" "$gpu4fs" import --image own/own.img unreadable /open/unreadable
	equals "... names each" 3 "$(grep -c 'Permission denied' .err)"
	chmod 644 unreadable/*
	exits 0 "... once it can be, it gets there" "${nobody[@]}" "$gpu4fs" import --image own/own.img unreadable /open/unreadable
fi

# owners that the host does not have: all else is as it was
if [ "$(id -u)" -eq 0 ] && unshare -r true 2>/dev/null; then
	exits 1 "export where owners are not known" unshare -r "$gpu4fs" export --image disk.img /one mapped
	says "... names a file" 'set-id: Invalid argument'
	equals "... which has all but owner and set-id bits" "755 0 $(stat -c %y tree/set-id)" "$(stat -c '%a %u %y' mapped/set-id)"
	equals "... so has a directory" "$(stat -c '%a %y' tree/plain/sub)" "$(stat -c '%a %y' mapped/plain/sub)"
fi

# how much it is
python3 - tree >counts <<'PYTHON'
import os, stat, sys
seen, files, directories, links, others, size = set(), 0, 1, 0, 0, 0
for top, folders, names in os.walk(sys.argv[1]):
    directories += len(folders)
    for name in names:
        info = os.lstat(os.path.join(top, name))
        if info.st_ino in seen:
            continue
        seen.add(info.st_ino)
        files += stat.S_ISREG(info.st_mode)
        links += stat.S_ISLNK(info.st_mode)
        others += not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode)
        size += info.st_size if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode) else 0
print(files, directories, links, others, size)
PYTHON
is_json "du" "$gpu4fs" du --json --image disk.img /one /one/large
equals "... counts what there is" "$(cat counts)" \
	"$(json_value '" ".join(str(d["names"][0][k]) for k in ("files", "directories", "links", "others", "size_bytes"))')"
equals "... and the space of a file, with what leads to it" True "$(json_value '5242880 <= d["names"][1]["space_bytes"] < 5500000')"
exits 0 "... as text" "$gpu4fs" du --image disk.img /one
says "... with units" "^  name /one  space [0-9]* ([0-9.]* [KM]iB)  size [0-9]* ([0-9.]* [KM]iB)  files "
exits 0 "... and so with -h" "$gpu4fs" du -h --image disk.img /one
exits 2 "du with no threads" "$gpu4fs" du -j 0 --image disk.img /one
exits 1 "du of what is not there" "$gpu4fs" du --image disk.img /none
one_sentence "... fails with one sentence"
exits 2 "du without a name" "$gpu4fs" du --image disk.img
exits 2 "du without a file system" "$gpu4fs" du /one

# a server's
"$gpu4fs" serve --socket "$work/socket" disk.img >serve.out 2>&1 &
server=$!
until [ -S "$work/socket" ] || ! kill -0 $server 2>/dev/null; do
	sleep 0.05
done
exits 0 "import into what is served" "$gpu4fs" import --socket "$work/socket" tree /served
exits 0 "export from it" "$gpu4fs" export --socket "$work/socket" /served served
exits 1 "export of larger files than the host takes" \
	bash -c 'trap "" XFSZ; ulimit -f 2048; exec "$@"' - "$gpu4fs" export --socket "$work/socket" /served limited
says "... says so" 'large: File too large'
equals "... leaves no part of them" "" "$(find limited -name '*large*' -o -name '*third*' -o -name sparse)"
equals "... and all others" 1500 "$(find limited/many -type f | wc -l)"
kill $server
wait $server
python3 tell.py served >found
exits 0 "... everything is as it was" diff wanted found

# the pages of a directory with many names
is_json "dump --dir" "$gpu4fs" dump --json --dir /one/many disk.img
equals "... counts its names" "1500 1500" "$(json_value '" ".join(str(x) for x in (d["entries"], d["levels"][-1]["entries"]))')"
equals "... its levels" "[1, 0]" "$(json_value '[level["level"] for level in d["levels"]]')"
equals "... its pages, each once" True \
	"$(json_value 'd["pages"] == len({p["address"] for p in d["tree"]}) == sum(level["pages"] for level in d["levels"])')"
equals "... whose hashes follow each other" True \
	"$(json_value 'all(a["last_hash"] + 1 == b["first_hash"] for a, b in zip(d["tree"][1:], d["tree"][2:]))')"
equals "... and are as full as leaves are" True "$(json_value '40 < d["levels"][-1]["fill_percent"] < 100')"
leaf=$(json_value 'd["tree"][1]["address"]')
pages=$(json_value 'd["pages"]')
exits 0 "... as text" "$gpu4fs" dump --dir /one/many disk.img
exits 0 "... as a graph" "$gpu4fs" dump --dot --dir /one/many disk.img
equals "... of as many nodes and edges" "$pages $((pages - 1))" "$(grep -c label=.0x .out) $(grep -c -e '->' .out)"
cp disk.img damaged.img
poke damaged.img $((leaf + 100)) ffffffff
exits 1 "dump --dir of a damaged leaf" "$gpu4fs" dump --raw --json --dir /one/many damaged.img
equals "... tells which, and of the others" "1 True" \
	"$(json_value 'str(d["levels"][-1]["damaged"]) + " " + str(any("problem" in p and p["address"] == '"$leaf"' for p in d["tree"]))')"

# what is refused
# one name
mkdir single && echo single >single/file && ln -s file single/link && ln -s tree single/to-tree && ln -s none single/dangling
chmod 0604 single/file && touch -d '2001-02-03 04:05:06.789' single/file && chmod 0700 single
exits 0 "import of a file" "$gpu4fs" import --image disk.img single/file /singles/new
exits 0 "... beside others" "$gpu4fs" import --image disk.img single/link /singles/new
exits 0 "... and a link that leads nowhere" "$gpu4fs" import --image disk.img single/dangling /singles/new/
(cd single && exits 0 "... without a directory in front" "$gpu4fs" import --image ../disk.img file /singles/here)
exits 1 "... once more" "$gpu4fs" import --image disk.img single/file /singles/new
one_sentence "... fails with one sentence"
exits 1 "... into a file" "$gpu4fs" import --image disk.img single/link /singles/new/file
exits 1 "... that is not there" "$gpu4fs" import --image disk.img single/none /singles
one_sentence "... fails with one sentence"
exits 1 "... with a slash behind it" "$gpu4fs" import --image disk.img single/file/ /singles
exits 0 "... and out again" "$gpu4fs" export --image disk.img /singles out-singles
equals "... all of them" "./here/file ./new/dangling ./new/file ./new/link" "$(cd out-singles && find . ! -type d | sort | paste -sd ' ')"
equals "... as they were" "$(stat -c '%a %y %s' single/file)" "$(stat -c '%a %y %s' out-singles/new/file)"
equals "... their directory is its own" 755 "$(stat -c %a out-singles/new)"

exits 2 "import without a file system" "$gpu4fs" import tree /x
exits 2 "... without a target" "$gpu4fs" import --image disk.img tree
exits 2 "... to what is no path from the root" "$gpu4fs" import --image disk.img tree x
exits 2 "... with no threads" "$gpu4fs" import -j 0 --image disk.img tree /x
exits 1 "... of what is not there" "$gpu4fs" import --image disk.img none /x
one_sentence "... fails with one sentence"
exits 1 "... into a file" "$gpu4fs" import --image disk.img tree /one/large
one_sentence "... fails with one sentence"
exits 1 "export of what is not there" "$gpu4fs" export --image disk.img /none x
one_sentence "... fails with one sentence"
exits 2 "... of what is no path from the root" "$gpu4fs" export --image disk.img one x
mkdir big
head -c 20M /dev/urandom >big/file
ln big/file big/another
echo text >big/small
exits 0 "mkfs of a small one" "$gpu4fs" mkfs -q --size 12M small.img
exits 1 "import of more than there is room for" "$gpu4fs" import --image small.img big /x
says "... says so" 'No space left'
exits 1 "... again" "$gpu4fs" import --image small.img big /x
equals "... nothing of it is in the way" "2 1" "$(grep -c 'No space left' .err) $(grep -c 'File exists' .err)"
truncate -s 5 big/file
rm big/small
exits 0 "... once there is room, it gets there" "$gpu4fs" import --image small.img big /x
exits 0 "... with its names" "$gpu4fs" export --image small.img /x big.back
equals "... of one file" "2 5" "$(stat -c '%h %s' big.back/another)"
exits 0 "... and leaves a clean image" "$gpu4fs" fsck -f -n small.img
finish
