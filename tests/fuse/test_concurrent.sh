#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many writers at once: in their own directories, in one directory, and in one file.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

writers=8
make_image 1G
mount_image
cd "$mnt" || exit 1

own_directory() {
	local i
	mkdir "own$1" && cd "own$1" || return 1
	for i in $(seq 1 100); do
		echo "$1 $i" >"f$i" && mv "f$i" "g$i" || return 1
	done
	head -c 4000000 /dev/urandom >data && cp data copy && cmp data copy && rm g1 g2 g3
}
shared_directory() {
	local i
	for i in $(seq 1 100); do echo "$1 $i" >"shared/w$1-$i" || return 1; done
}
wait_all() {
	local pid status=0
	for pid in "$@"; do wait "$pid" || status=1; done
	return "$status"
}

pids=()
for w in $(seq 1 $writers); do
	own_directory "$w" &
	pids+=($!)
done
check "writers in their own directories" wait_all "${pids[@]}"
same "all their files are there" $((writers * 99)) "$(find own* -type f | wc -l)"

mkdir shared
pids=()
for w in $(seq 1 $writers); do
	shared_directory "$w" &
	pids+=($!)
done
check "writers in one directory" wait_all "${pids[@]}"
same "all their files are there" $((writers * 100)) "$(find shared -type f | wc -l)"
same "each has its content" $((writers * 100)) "$(cat shared/* | sort -u | wc -l)"

cat >"$work/listings.py" <<'PYTHON'
import multiprocessing, os, random, sys

NAMES, STEPS = 150, 250


def work(writer):
    own, choose = set(), random.Random(writer)
    wrong = 0
    for step in range(STEPS):
        for _ in range(5):
            name = "%d-%d" % (writer, choose.randrange(NAMES))
            if name not in own:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                own.add(name)
            elif choose.randrange(3) == 0:
                os.unlink(name)
                own.remove(name)
            else:
                other = "%d-%d" % (writer, choose.randrange(NAMES))
                os.rename(name, other)
                own.remove(name)
                own.add(other)
        listed = os.listdir(".")
        wrong += {name for name in listed if name.startswith("%d-" % writer)} != own or len(listed) != len(set(listed))
    return wrong


os.mkdir("listed")
os.chdir("listed")
with multiprocessing.Pool(int(sys.argv[1])) as pool:
    wrong = sum(pool.map(work, range(int(sys.argv[1]))))
print("%d listings without what their own process had changed" % wrong)
sys.exit(wrong != 0)
PYTHON
check "listings show what has been done" python3 "$work/listings.py" $writers

cat >"$work/one_file.py" <<'PYTHON'
import multiprocessing, os, sys

BLOCK, BLOCKS, WRITERS = 16384, 64, int(sys.argv[1])


def write(writer):
    fd = os.open("one", os.O_RDWR)
    for block in range(writer, BLOCKS * WRITERS, WRITERS):
        os.pwrite(fd, bytes([writer + 1]) * BLOCK, block * BLOCK)
    os.close(fd)


open("one", "w").close()
with multiprocessing.Pool(WRITERS) as pool:
    pool.map(write, range(WRITERS))
data = open("one", "rb").read()
assert len(data) == BLOCK * BLOCKS * WRITERS, len(data)
for block in range(BLOCKS * WRITERS):
    assert data[block * BLOCK:(block + 1) * BLOCK] == bytes([block % WRITERS + 1]) * BLOCK, block
PYTHON
check "writers in one file" python3 "$work/one_file.py" $writers

append() {
	local i
	for i in $(seq 1 200); do printf '%s %03d\n' "$1" "$i" >>appended || return 1; done
}
pids=()
for w in $(seq 1 4); do
	append "$w" &
	pids+=($!)
done
check "appending to one file" wait_all "${pids[@]}"
same "no line is lost or mixed" 800 "$(grep -cx '[1-4] [0-9]\{3\}' appended)"

remove_and_list() {
	rm -rf "own$1"
}
pids=()
for w in $(seq 1 $writers); do
	remove_and_list "$w" &
	pids+=($!)
done
ls -lR >/dev/null 2>&1
check "removing trees in parallel, while listing" wait_all "${pids[@]}"
same "they are gone" 0 "$(find . -maxdepth 1 -name 'own*' | wc -l)"

unmount_image
fsck_image
finish
