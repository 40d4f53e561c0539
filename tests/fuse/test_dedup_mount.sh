#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs dedup of a file system that is mounted: what it shares, which users may, and that programs that write, cut, move and remove files
# meanwhile finds in them what he has written.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

of() { # of KEY: in the JSON on standard input; bytes as pages
	python3 -c "import json, sys; v = json.load(sys.stdin)['$1']; print(v // 4096 if '$1'.endswith('_bytes') else v)"
}

value() { # value KEY ARGUMENT...: of what dedup says, which has to succeed
	local key=$1
	shift
	"$gpu4fs" dedup "$@" --json | of "$key"
}

truncate -s 256M "$image"
chmod 711 "$work" # another user gets as far as the mount
check "mkfs" "$gpu4fs" mkfs --checksum=blake3 "$image"
mkdir -p "$work/tree/sub"
head -c 4096000 /dev/urandom >"$work/tree/a" # 1000 pages
cp "$work/tree/a" "$work/tree/sub/b"
{
	head -c 4096 /dev/urandom
	cat "$work/tree/a"
} >"$work/tree/shifted"
head -c 5000 /dev/urandom >"$work/tree/odd"
cp "$work/tree/odd" "$work/tree/sub/odd"
echo tiny >"$work/tree/tiny"
ln -s a "$work/tree/link"
mkfifo "$work/tree/pipe"
mount_image
check "a tree" cp -a "$work/tree" "$mnt"
stat -c '%n %s %y %z' "$mnt"/tree/* "$mnt"/tree/sub/* >"$work/stat"
mkdir "$mnt/other"
check "another file system below it" mount -t tmpfs none "$mnt/other"
cp "$work/tree/a" "$mnt/other"

# 1000 + 1000 + 1001 + 2 + 2 pages, of which the first 1000, 1 and 2 are different
same "an estimate counts what nobody has synced" 3005 "$(value data_bytes estimate "$mnt")"
same "... and what is there more than once" 2002 "$(value duplicate_bytes estimate "$mnt")"
same "... in the files that have pages" 5 "$(value files estimate "$mnt")"
same "... by a link to it, and not what another file system has" 2002 "$(cd "$mnt" && ln -s tree short && value duplicate_bytes estimate ./short .)"
chunk() { # chunk KEY ARGUMENT...: of chunks, in pages
	local key=$1
	shift
	"$gpu4fs" dedup "$@" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['chunks']['$key'] // 4096)"
}
# the first chunk of what is shifted begins with other bytes
check "chunks find it, too" test "$(chunk aligned_bytes estimate --chunks "$mnt")" -ge 1980
same "... and nothing that begins elsewhere in a page" 0 "$(chunk unaligned_bytes estimate --chunks "$mnt")"
check "umount" umount "$mnt/other"
refuses "another file system's directory" "is on no gpu4fs" "$gpu4fs" dedup estimate "$work"
refuses "... also beside ours" "cross-device" "$gpu4fs" dedup estimate "$mnt" "$work"
if ((UID == 0)) && command -v setpriv >/dev/null; then
	chmod 600 "$mnt/tree/odd"
	same "everybody may estimate what he may read" 2000 \
		"$(setpriv --reuid=65534 --regid=65534 --clear-groups "$gpu4fs" dedup estimate --json "$mnt" 2>/dev/null | of duplicate_bytes)"
	refuses "... but share nothing" "for root and the user who mounted" \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$gpu4fs" dedup run "$mnt"
	chmod 644 "$mnt/tree/odd"
	same "... and has shared nothing" 2002 "$(value duplicate_bytes estimate "$mnt")"
	stat -c '%n %s %y %z' "$mnt"/tree/* "$mnt"/tree/sub/* >"$work/stat"
fi

same "a run in hardly any memory shares that" 2002 "$(value shared_bytes run --memory 16K "$mnt")"
same "... so that nothing is left" 0 "$(value shared_bytes run "$mnt")"
same "... and a page is stored for each" 1003 "$(value stored_bytes stats "$mnt")"
check "... with the contents that were there" diff -r --exclude=pipe "$work/tree" "$mnt/tree"
stat -c '%n %s %y %z' "$mnt"/tree/* "$mnt"/tree/sub/* >"$work/stat.after"
check "... the sizes and the times" cmp "$work/stat" "$work/stat.after"
check "a shared file is written" dd if=/dev/zero of="$mnt/tree/a" bs=4096 count=3 seek=10 conv=notrunc status=none
check "... and the others are what they were" cmp "$work/tree/sub/b" "$mnt/tree/sub/b"
rm "$mnt/tree/sub/b"

# What has no sums is found by chunks, and is read and compared
mkdir "$mnt/none"
"$gpu4fs" attr set checksum=none "$mnt/none"
cat "$work/tree/a" >"$mnt/none/a"
cat "$work/tree/shifted" >"$mnt/none/shifted"
touch -a -d 2001-01-01 "$mnt/none/a"
same "what has no checksums" 0 "$(value shared_bytes run "$mnt/none")"
shared=$(value shared_bytes run --chunks "$mnt/none")
check "... is shared by chunks" test "$shared" -ge 985
same "... and takes no space" "$((2001 - shared))" "$(value stored_bytes stats "$mnt/none")"
check "... nor changes" cmp "$work/tree/shifted" "$mnt/none/shifted"
same "... and reading it does not count" 2001-01-01 "$(date -d "@$(stat -c %X "$mnt/none/a")" +%F)"
rm -r "$mnt/none"

# What is immutable can not be shared, and the others can
cat "$work/tree/odd" >"$mnt/odd1"
cat "$work/tree/odd" >"$mnt/odd2"
if ((UID == 0)); then
	"$gpu4fs" attr set +i "$mnt/odd1"
	"$gpu4fs" dedup run --json "$mnt/odd1" "$mnt/tree/odd" "$mnt/tree/sub/odd" "$mnt/odd2" >"$work/report" 2>"$work/out"
	same "what is immutable is named" 1 "$(grep -c "odd1: Operation not permitted" "$work/out")"
	same "... and the others are shared" 2 "$(of shared_bytes <"$work/report")"
	"$gpu4fs" attr set -i "$mnt/odd1"
fi
# Zeros become holes
head -c 4096000 /dev/zero >"$work/tree/zeros"
cat "$work/tree/odd" >>"$work/tree/zeros"
cp --sparse=never "$work/tree/zeros" "$mnt/zeros"
same "zeros are found" 1000 "$(value zero_bytes estimate "$mnt/zeros")"
before=$(stat -c '%s %y %z' "$mnt/zeros")
same "... and become holes" 1000 "$(value hole_bytes run "$mnt/zeros")"
same "... that are not stored" 2 "$(value stored_bytes stats "$mnt/zeros")"
check "... which are read as zeros" cmp "$work/tree/zeros" "$mnt/zeros"
same "... without a change of size and times" "$before" "$(stat -c '%s %y %z' "$mnt/zeros")"
rm "$mnt/zeros" "$work/tree/zeros"

check "an end of file in a page" cmp "$work/tree/odd" "$mnt/odd2"

# The ioctls behind it: what makes no sense is refused, and changes nothing
cat >"$work/ioctls.py" <<'PYTHON'
import errno, fcntl, os, struct, sys, threading

ROWS = 288
SAME, COMPARE = 2, 4
top = sys.argv[1]


def same_rows(rows, count=None, flags=0):
    """The error of the call, or its status and what each row that was tried came to: what is shared, or a negative code of the engine's."""
    io = bytearray(struct.pack("=IIiI", len(rows) if count is None else count, flags, 0, 0) + b"".join(rows))
    io.extend(bytes(16 + ROWS * 56 - len(io)))
    with open(f"{top}/odd2", "rb") as file:
        try:
            fcntl.ioctl(file, 3 << 30 | len(io) << 16 | 0xB4 << 8 | 7, io)
        except OSError as error:
            return errno.errorcode[error.errno]
    tried, _, status = struct.unpack_from("=IIi", io)
    results = [struct.unpack_from("=IIi", io, 16 + k * 56 + 40) for k in range(tried)]
    assert all(code == 0 or shared == 0 for shared, _, code in results)
    return status, [code or shared for shared, _, code in results]


def row(to, source, generation=0, flags=SAME, from_offset=0, to_offset=0, size=4096):
    return struct.pack("=QQIIQQIIiI", source, os.stat(to).st_ino, generation, 0, from_offset, to_offset, size, flags, 0, 0)


def same(*arguments, **named):
    return same_rows([row(*arguments, **named)])[1][0]


def sums(path, flags):
    io = bytearray(16 + 255 * 56)
    file = os.open(path, flags)
    try:
        fcntl.ioctl(file, 3 << 30 | len(io) << 16 | 0xB4 << 8 | 4, io)
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        os.close(file)
    return struct.unpack_from("=QI", io)[1]


def expect(what, found, wanted):
    if not (wanted(found) if callable(wanted) else found == wanted):
        print(f"{what}: {found}")
        sys.exit(1)


FILES, PAGES = 128, 192


def sums_of(asked, count=None):
    """Of files by their numbers, from an offset on: the error of the call, or of each that was asked what it came to."""
    io = bytearray(struct.pack("=II", len(asked) if count is None else count, 0))
    for number, offset in asked:
        io.extend(struct.pack("=QQQIIiI", number, offset, 0, 0, 0, 0, 0))
    io.extend(bytes(8 + FILES * 40 + PAGES * 56 - len(io)))
    with open(f"{top}/odd2", "rb") as file:
        try:
            fcntl.ioctl(file, 3 << 30 | len(io) << 16 | 0xB4 << 8 | 8, io)
        except OSError as error:
            return errno.errorcode[error.errno]
    told, at = [], 8 + FILES * 40
    for k in range(struct.unpack_from("=I", io)[0]):
        _, end, size, generation, pages, status, more = struct.unpack_from("=QQQIIiI", io, 8 + k * 40)
        offsets = [struct.unpack_from("=Q", io, at + p * 56)[0] for p in range(pages)]
        at += pages * 56
        told.append((status, size, offsets, end, more != 0, generation))
    return told


refused = lambda found: isinstance(found, int) and found < 0
odd, other = f"{top}/odd2", f"{top}/tree/shifted"
number = os.stat(f"{top}/tree/odd").st_ino
expect("the same", same(odd, number, size=8192), 5000)
expect("bytes compared", same(odd, number, flags=SAME | COMPARE, size=8192), 5000)
expect("other contents", same(other, number, size=8192), 0)
for flags in 0, COMPARE, 1, 1 | SAME, 8, 8 | 1, 16 | SAME, 0xFFFFFFFF:
    expect(f"flags {flags}", same(odd, number, flags=flags), refused)
expect("an offset in a page", same(odd, number, from_offset=1), refused)
expect("... of the target", same(odd, number, to_offset=4095), refused)
expect("a range that has no end", same(odd, number, from_offset=(1 << 64) - 4096, size=8192), refused)
expect("behind the end", same(odd, number, from_offset=1 << 40), 0)
expect("another generation", same(odd, number, generation=0xFFFFFFFF), refused)
expect("zeros of another", same(odd, number, flags=8 | SAME), refused)
expect("zeros that are none", same(odd, os.stat(odd).st_ino, flags=8 | SAME), 0)
expect("itself", same(odd, os.stat(odd).st_ino, size=8192), refused)
for source in 0, 7, 1 << 63, (1 << 64) - 1, os.stat(top).st_ino, os.stat(f"{top}/tree").st_ino, number + 1, number + 256:
    if source not in (os.stat(odd).st_ino, os.stat(other).st_ino):
        expect(f"source {source}", same(odd, source), lambda found: refused(found) or found == 0 or found == 4096)
expect("many rows", same_rows([row(odd, number)] * ROWS), (0, [4096] * ROWS))
several = same_rows([row(odd, number, flags=0 if k == 1 else SAME) for k in range(3)])[1]
expect("one that is refused among others", (several[0], refused(several[1]), several[2]), (4096, True, 4096))
expect("rows that are too long together", len(same_rows([row(odd, number, size=9 << 20)] * 3)[1]), 2)
expect("no rows", same_rows([]), (0, []))
expect("more rows than there are", same_rows([], count=ROWS + 1), "EINVAL")
expect("unknown flags", same_rows([], flags=2), "EINVAL")

# Beside another user's commands nothing is begun that is to be idle; without them it is
stop = threading.Event()


def use(name):
    with open(f"{top}/{name}", "wb") as file:
        while not stop.is_set():
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    os.unlink(f"{top}/{name}")


users = [threading.Thread(target=use, args=(f"used{k}",)) for k in range(2)]
for user in users:
    user.start()
while (found := same_rows([row(odd, number)] * 2, flags=1))[0] == 0:
    pass
expect("idle, beside others", (found[0] < 0, len(found[1]) < 2), (True, True))
stop.set()
for user in users:
    user.join()
while (found := same_rows([row(odd, number)] * 2, flags=1))[0] != 0:
    pass
expect("idle, alone", found, (0, [4096, 4096]))
# Sums of files by their numbers
mine, large = os.stat(odd).st_ino, os.stat(other).st_ino
expect("sums of two files", [told[:5] for told in sums_of([(mine, 0), (number, 4096)])], [(0, 5000, [0, 4096], 8192, False), (0, 5000, [4096], 8192, False)])
generation = sums_of([(number, 0)])[0][5]
expect("... with the generation that rows want", same(odd, number, generation=generation, size=8192), 5000)
expect("... and no other", same(odd, number, generation=generation + 1, size=8192), refused)
expect("... behind the end", [told[2:5] for told in sums_of([(mine, 1 << 40)])], [([], 1 << 40, False)])
found = sums_of([(mine, 0), (large, 4096 * 100), (mine, 0)])
expect("as many as there is room for", [len(told[2]) for told in found], [2, 190])
expect("... and where to go on", (found[1][2][-1], found[1][3:5]), (4096 * 289, (4096 * 290, True)))
found = sums_of([(mine, 0)] * FILES)
expect("as many files as there is room for", [len(told[2]) for told in found], [2] * (PAGES // 2))
for wrong in 0, 7, 1 << 63, (1 << 64) - 1, os.stat(top).st_ino, os.stat(f"{top}/tree").st_ino, os.stat(f"{top}/tree/pipe").st_ino:
    told = sums_of([(wrong, 0), (mine, 0)])
    expect(f"sums of {wrong}", (told[0][0] < 0, told[0][2], told[1][0], len(told[1][2])), (True, [], 0, 2))
expect("sums of nothing", sums_of([]), [])
expect("sums of more files than there are", sums_of([], count=FILES + 1), "EINVAL")
if os.geteuid() == 0:
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        os._exit(sums_of([(mine, 0)]) != "EPERM")
    expect("sums for another user", os.waitpid(pid, 0)[1], 0)
expect("sums", sums(odd, os.O_RDONLY), 2)
expect("sums of what is open for writing only", sums(odd, os.O_WRONLY), "EBADF")
expect("sums of a directory", sums(top, os.O_RDONLY), "EISDIR")
PYTHON
check "ioctls that make no sense are refused" python3 "$work/ioctls.py" "$mnt"
check "... and change nothing" cmp "$work/tree/odd" "$mnt/odd2"
check "... anywhere" cmp "$work/tree/shifted" "$mnt/tree/shifted"

# It ends early when it is told to, and says what it has done. Pages in reverse are shared one by one.
cat "$work/tree/a" >"$mnt/slow1"
python3 - "$work/tree/a" "$mnt/slow2" <<'PYTHON'
import sys

data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(b"".join(data[at : at + 4096] for at in reversed(range(0, len(data), 4096))))
PYTHON
"$gpu4fs" dedup run --rate 4K --json "$mnt/slow1" "$mnt/slow2" >"$work/report" 2>"$work/out" &
slow=$!
until (($(value duplicate_bytes estimate "$mnt/slow1" "$mnt/slow2") < 1000)) || ! kill -0 "$slow" 2>/dev/null; do
	:
done
kill -TERM "$slow"
wait "$slow"
same "a run that is ended says so" 1 "$?"
same "... in its report, too" True "$(of ended_early <"$work/report")"
check "... with what it has shared" test "$(of shared_bytes <"$work/report")" -gt 0
same "another one, which gives way to others, has nothing left" 0 "$(value failed_bytes run --idle "$mnt/slow1" "$mnt/slow2")"
same "... that is not shared" 1000 "$(value stored_bytes stats "$mnt/slow1" "$mnt/slow2")"

# Programs that change everything, and read what they wrote, beside runs
cat >"$work/writers.py" <<'PYTHON'
import mmap, os, random, sys

STEPS, PAGE, FILES = 1500, 4096, 6


def page(number):
    return random.Random(number).randbytes(PAGE)


def change(path, contents, choose):
    step = choose.randrange(10)
    with open(path, "r+b") as file:
        if step < 6:
            at, data = choose.randrange(40), b"".join(page(choose.randrange(8)) for _ in range(choose.randrange(1, 20)))
            file.seek(at * PAGE)
            file.write(data)
            if len(contents) < at * PAGE:
                contents.extend(bytes(at * PAGE - len(contents)))
            contents[at * PAGE : at * PAGE + len(data)] = data
        elif step == 6:
            size = choose.randrange(40 * PAGE)
            file.truncate(size)
            del contents[size:]
            contents.extend(bytes(size - len(contents)))
        elif step == 7 and contents:
            with mmap.mmap(file.fileno(), 0) as mapped:
                at = choose.randrange(len(contents))
                mapped[at] = contents[at] = choose.randrange(256)
        elif step == 8:
            os.fsync(file.fileno())


def work(top, writer):
    choose, known, made = random.Random(writer), {}, 0
    for step in range(STEPS):
        if len(known) < FILES:
            path = f"{top}/{writer}-{made}"
            made += 1
            open(path, "xb").close()
            known[path] = bytearray()
        path = choose.choice(sorted(known))
        change(path, known[path], choose)
        if choose.randrange(20) == 0:
            os.rename(path, path + "x")
            known[path + "x"] = known.pop(path)
        elif choose.randrange(40) == 0:
            os.unlink(path)
            del known[path]
        if step % 10 == 0 or step == STEPS - 1:
            for path, contents in known.items():
                with open(path, "rb") as file:
                    assert file.read() == bytes(contents), f"{path} in step {step}"
    for path, contents in known.items():
        with open(path.replace(top, sys.argv[2], 1), "wb") as file:
            file.write(contents)


pids = []
for writer in range(3):
    pid = os.fork()
    if pid == 0:
        work(sys.argv[1], writer)
        os._exit(0)
    pids.append(pid)
sys.exit(any(os.waitpid(pid, 0)[1] for pid in pids))
PYTHON
mkdir "$mnt/busy" "$work/busy"
python3 "$work/writers.py" "$mnt/busy" "$work/busy" >"$work/writers" 2>&1 &
writers=$!
runs=0 failed=0 shared=0 idle=()
while kill -0 "$writers" 2>/dev/null || ((runs < 3)); do
	memory=$((runs % 2 ? 16 : 256))K
	"$gpu4fs" dedup run --json --memory "$memory" "${idle[@]}" "$mnt/busy" >"$work/report" 2>>"$work/runs" || failed=$((failed + 1))
	shared=$((shared + $(of shared_bytes <"$work/report")))
	runs=$((runs + 1))
	if ((runs % 4 == 3)); then idle=(--idle); else idle=(); fi
done
wait "$writers"
same "programs find what they wrote ($runs runs)" 0 "$?"
cat "$work/writers"
same "... beside runs that succeed" 0 "$failed"
test -s "$work/runs" && cat "$work/runs"
check "... and share" test "$shared" -gt 0
check "the last run shares the rest" "$gpu4fs" dedup run "$mnt/busy"
same "... so that nothing is left" 0 "$(value duplicate_bytes estimate "$mnt/busy")"
check "contents are what was written" diff -r "$work/busy" "$mnt/busy"
unmount_image
fsck_image
mount_image
check "... and are that after a mount" diff -r "$work/busy" "$mnt/busy"
unmount_image

# That nothing can be written any more is when somebody runs it.
truncate -s 0 "$image"
truncate -s 64M "$image"
check "mkfs" "$gpu4fs" mkfs --force --checksum=blake3 "$image"
mount_image nowriteback
cat "$work/tree/a" >"$mnt/one"
cat "$work/tree/a" >"$mnt/two"
head -c $((300 * 4096)) /dev/zero >"$mnt/zeros"
fill() { # until not a page more can be written
	python3 - "$mnt/rest" <<'PYTHON'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
some = 1 << 20
while some >= 4096:
    try:
        os.write(fd, os.urandom(some))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        some //= 2
PYTHON
}
check "a full device" fill
sync -f "$mnt"
check "... has no room" test "$(stat -f -c %a "$mnt")" -le 8
check "... until what it has twice is shared" "$gpu4fs" dedup run --json "$mnt"
cp "$work/out" "$work/report"
same "... all of it" 1000 "$(of shared_bytes <"$work/report")"
same "... and zeros are holes" 300 "$(of hole_bytes <"$work/report")"
sync -f "$mnt"
check "... which is free then" test "$(stat -f -c %a "$mnt")" -ge 1280
check "... and the contents are what they were" cmp "$work/tree/a" "$mnt/two"
unmount_image
fsck_image
finish
