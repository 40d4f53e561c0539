#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs run: which calls the engine answers, an image in place of a server, servers that end, that have no place, or no mount; another
# library in front; programs that cannot be preloaded.
# Of cli/cmd_run.c.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

make_image
mount_shared

# who answers, also of a mount that nobody has asked for anything
same "the engine knows a mount from the start" 1 "$(traced open engine python3 -c "import os; os.open('$mnt/first', os.O_CREAT | os.O_RDWR)")"
# a server that has no number left when it is asked first is none that may not open
if command -v prlimit >/dev/null && ((EUID == 0)); then
	mkdir "$work/full"
	truncate -s 64M "$work/full.image"
	check "an image" "$gpu4fs" mkfs "$work/full.image"
	check "is mounted" "$gpu4fs" mount -o "socket=$work/full.socket" "$work/full.image" "$work/full"
	server=$(pgrep -f -- "socket=$work/full.socket")
	limit=$(prlimit --pid "$server" --nofile --noheadings --output SOFT)
	first=0
	while [[ -e /proc/$server/fd/$first ]]; do ((++first)); done
	prlimit --pid "$server" --nofile="$((first + 1)):" # one for who connects
	check "a server without numbers says of which mount it is a part" "$gpu4fs" run -m "$work/full.socket=$work/full" true
	prlimit --pid "$server" --nofile="${limit// /}:"
	same "... and opens when it has some" 1 "$("$gpu4fs" run --trace -m "$work/full.socket=$work/full" \
		python3 -c "import os; os.open('$work/full/f', os.O_CREAT | os.O_RDWR)" 2>&1 | awk '$1 == "open" { found = $2 } END { print found + 0 }')"
	"$gpu4fs" umount "$work/full"
fi
# a server without the right to open by number: files are the kernel's from the start, and all works
if command -v setpriv >/dev/null && ((EUID == 0)); then
	mkdir "$work/plain"
	truncate -s 64M "$work/plain.image"
	check "an image" "$gpu4fs" mkfs "$work/plain.image"
	check "is mounted without that right" setpriv --bounding-set=-dac_read_search --inh-caps=-all \
		"$gpu4fs" mount -o "socket=$work/plain.socket" "$work/plain.image" "$work/plain"
	# shellcheck disable=SC2016 # the inner shell expands it
	check "programs hand over what they have open there" "$gpu4fs" run -m "$work/plain.socket=$work/plain" sh -c \
		'exec 5>"$1/f" && (echo text >&5) && cat "$1/f" | grep -q text' sh "$work/plain"
	same "... which was the kernel's" 0 "$("$gpu4fs" run --trace -m "$work/plain.socket=$work/plain" python3 -c "import os; os.open('$work/plain/f', 0)" 2>&1 |
		awk '$1 == "open" { found = $2 } END { print found + 0 }')"
	"$gpu4fs" umount "$work/plain"
fi
echo text >"$mnt/f"
same "the engine opens" 1 "$(traced open engine python3 -c "import os; os.read(os.open('$mnt/f', 0), 9)")"
same "and reads" 1 "$(traced read engine python3 -c "import os; os.read(os.open('$mnt/f', 0), 9)")"
same "a path is relative to a working directory below" 1 \
	"$(traced open engine python3 -c "import os; os.chdir('$mnt'); os.read(os.open('f', 0), 9)")"
same "and from elsewhere the kernel's" 0 \
	"$(traced open engine python3 -c "import os; os.chdir('$work'); os.read(os.open('mnt/f', 0), 9)")"
ln -s /etc/passwd "$mnt/out"
same "a path that leaves is the kernel's" 1 "$(traced stat leaves python3 -c "import os; os.stat('$mnt/out')")"
same "a lock hands the file over" 1 \
	"$(traced flock handed python3 -c "import os, fcntl; fcntl.flock(os.open('$mnt/f', 0), fcntl.LOCK_EX)")"
# tar changes modes of directories without following links, and all that comes after that goes by the same directory
mkdir -p "$work/tree/a" && touch "$work/tree/a/f" && tar -C "$work" -cf "$work/tree.tar" tree
same "tar changes modes in the engine" 1 "$(($(traced fchmodat engine tar -xf "$work/tree.tar" -C "$mnt") > 0))"
rm -rf "$mnt/tree"
same "... and opens files there" 0 "$(traced openat outside tar -xf "$work/tree.tar" -C "$mnt")"
rm -rf "$mnt/tree"
same "other files are not touched" 0 "$(traced stat engine stat /etc/passwd)"

# trees by commands at the socket: the kernel hears of what it knows, and the space comes back at once
mkdir -p "$mnt/gone/wide" "$mnt/stays"
deep=$mnt/gone
for level in $(seq 40); do mkdir "$deep/$level" && deep=$deep/$level; done
for k in $(seq 300); do echo "$k" >"$mnt/gone/wide/$k"; done
dd if=/dev/zero of="$deep/large" bs=1M count=8 status=none
ln -s "$mnt/stays" "$mnt/gone/link" && echo text >"$mnt/stays/f"
sync -f "$mnt"
used=$(df --output=used -k "$mnt" | tail -n 1)
ls -lR "$mnt/gone" >/dev/null
check "rm -r at the socket of a mount" "$gpu4fs" rm -rv -j 3 --socket "$socket" /gone
same "... removes each name" "344 names removed" "$(cat "$work/out")"
check "... which the mount sees" test ! -e "$mnt/gone"
same "... and nothing that a link leads to" text "$(cat "$mnt/stays/f")"
sync -f "$mnt"
check "... and gives the space back" test "$(df --output=used -k "$mnt" | tail -n 1)" -lt $((used - 8000))

# what one thread waits for at the limit of descriptors, the others do not
same "threads go on while a file is handed over at the limit" "$(printf 'went on\nlocked written')" \
	"$(python3 "$folder/at_limit.py" "$gpu4fs" "$socket" "$mnt" "$work/relay")"

# something else is mounted over the directory: before anybody has asked the server, and while a program has files open
if unshare -m mount -t tmpfs none "$mnt" 2>/dev/null; then
	mkdir "$work/covered"
	truncate -s 64M "$work/covered.image"
	check "an image" "$gpu4fs" mkfs "$work/covered.image"
	check "is mounted" "$gpu4fs" mount -o "socket=$work/covered.socket" "$work/covered.image" "$work/covered"
	mount -t tmpfs none "$work/covered"
	echo above >"$work/covered/f"
	check_not "a server whose mount is covered has no mount there" "$gpu4fs" run -m "$work/covered.socket=$work/covered" true
	umount "$work/covered"
	echo below >"$work/covered/f"
	same "... until that is gone" "below" "$("$gpu4fs" run -m "$work/covered.socket=$work/covered" cat "$work/covered/f")"
	same "... and the engine answers" 1 "$("$gpu4fs" run --trace -m "$work/covered.socket=$work/covered" \
		python3 -c "import os; os.open('$work/covered/f', 0)" 2>&1 | awk '$1 == "open" { found = $2 } END { print found + 0 }')"
	same "what is open becomes the kernel's when the directory is there again" "$(printf 'covered ESTALE\nthere locked')" \
		"$(python3 - "$gpu4fs" "$work/covered.socket=$work/covered" "$work/covered" <<'PYTHON'
import subprocess, sys
tool, where, top = sys.argv[1:]
program = """
import errno, fcntl, os, sys
fd = os.open(sys.argv[1] + '/f', os.O_RDWR)
print('open', flush=True)
for line in sys.stdin:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        print(line.strip(), 'locked', flush=True)
    except OSError as error:
        print(line.strip(), errno.errorcode[error.errno], flush=True)
"""
child = subprocess.Popen([tool, "run", "-m", where, sys.executable, "-c", program, top], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"open\n"
for command, told in ((["mount", "-t", "tmpfs", "none", top], b"covered\n"), (["umount", top], b"there\n")):
    subprocess.run(command, check=True)
    child.stdin.write(told)
    child.stdin.flush()
    print(child.stdout.readline().decode().strip())
child.communicate()
PYTHON
		)"
	"$gpu4fs" umount "$work/covered"
	same "a program that covers the directory finds what is there by path, and has what it had open" "$(printf 'above\nbelow\nbelow')" \
		"$(unshare -m "$gpu4fs" run -m "$socket=$mnt" python3 - "$mnt" <<'PYTHON'
import ctypes, os, sys
top = sys.argv[1]
fd = os.open(top + "/covers", os.O_CREAT | os.O_RDWR)
os.write(fd, b"below")
libc = ctypes.CDLL(None)
assert libc.mount(b"none", top.encode(), b"tmpfs", 0, None) == 0
with open(top + "/covers", "w") as file:
    file.write("above")
print(os.read(os.open(top + "/covers", os.O_RDONLY), 9).decode())
print(os.pread(fd, 9, 0).decode())
assert libc.umount2(top.encode(), 2) == 0  # MNT_DETACH: the file that was read is open
print(os.read(os.open(top + "/covers", os.O_RDONLY), 9).decode())
PYTHON
	)"
fi

# a signal while the server is asked for a descriptor
cat >"$work/waiting.py" <<'PYTHON'
import fcntl, os, signal, sys
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
sys.stdin.readline()
fcntl.flock(fd, fcntl.LOCK_EX)
print(os.read(fd, 9).decode().strip(), len(came), flush=True)
PYTHON
if [[ -r /proc/self/syscall ]]; then
	same "a handler of the program does not disturb that, and comes behind it" "text 1" "$(python3 - "$gpu4fs" "$socket=$mnt" \
		"$work/waiting.py" "$mnt/f" "$(server_pid)" <<'PYTHON'
import os, signal, subprocess, sys
tool, where, program, path, server = sys.argv[1:]


def status(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith(field))


def state(pid, thread):
    with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def call(pid):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0]


child = subprocess.Popen([tool, "run", "-m", where, sys.executable, program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
    assert child.stdout.readline() == b"open\n"
    pid = int((file.read().split() or [child.pid])[0])
os.kill(int(server), signal.SIGSTOP)
try:
    while not all(state(server, thread) == "T" for thread in os.listdir(f"/proc/{server}/task")):
        pass
    child.stdin.write(b"\n")
    child.stdin.flush()
    while child.poll() is None and call(pid) not in ("7", "271"):  # poll, ppoll
        pass
    os.kill(pid, signal.SIGUSR1)
    while child.poll() is None and not (status(pid, "SigPnd") | status(pid, "ShdPnd")) & 1 << signal.SIGUSR1 - 1:
        pass
finally:
    os.kill(int(server), signal.SIGCONT)
print(child.communicate()[0].decode().strip())
PYTHON
	)"
fi

# another mount inside: its names are not the engine's
mkdir "$mnt/inside with blanks"
echo below >"$mnt/inside with blanks/f"
if unshare -m mount -t tmpfs none "$mnt/inside with blanks" 2>/dev/null; then
	# shellcheck disable=SC2016 # the inner shell expands it
	same "what is mounted inside is found by path, from there and by those who mount it" "$(printf 'above\nabove\nabove')" \
		"$(unshare -m sh -c 'cd "$3" && mount -t tmpfs none "inside with blanks" && echo above >"inside with blanks/f"
			"$1" run -m "$2=$3" python3 - "$3/inside with blanks" <<\PYTHON
import ctypes, os, sys
inside = sys.argv[1]
print(os.read(os.open(inside + "/f", 0), 9).decode(), end="")
os.chdir(inside)
print(os.read(os.open("f", 0), 9).decode(), end="")
PYTHON
			umount "inside with blanks"
			"$1" run -m "$2=$3" python3 - "$3" "inside with blanks" <<\PYTHON
import ctypes, os, sys
top, name = sys.argv[1:]
os.chdir(top)
assert os.read(os.open(name + "/f", 0), 9) == b"below\n"
libc = ctypes.CDLL(None)
assert libc.mount(b"none", name.encode(), b"tmpfs", 0, None) == 0
with open(name + "/f", "w") as file:
    file.write("above\n")
print(os.read(os.open(name + "/f", 0), 9).decode(), end="")
PYTHON
		' sh "$gpu4fs" "$socket" "$mnt" 2>&1)"
fi

# one that another process makes while a program runs: the server tells of it
if mount -t tmpfs none "$mnt/inside with blanks" 2>/dev/null; then
	umount "$mnt/inside with blanks"
	same "what another process mounts inside later is found by path, from there and by a descriptor" "$(printf 'below\nabove\nabove\nabove\nbelow')" \
		"$(python3 - "$gpu4fs" "$socket" "$mnt" "inside with blanks" <<'PYTHON' 2>&1
import subprocess, sys
tool, socket, top, name = sys.argv[1:]
program = """
import os, sys
top, name = sys.argv[1:]
path = top + "/" + name + "/f"
def look(where, **more):
    fd = os.open(where, os.O_RDONLY, **more)
    text = os.read(fd, 9).decode().strip()
    os.close(fd)
    return text
at = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
os.chdir(top)
print(look(path), flush=True)
sys.stdin.readline()
while look(path) != "above":  # until the server has seen it
    pass
print(look(path), look(name + "/f"), look(name + "/f", dir_fd=at), sep="\\n", flush=True)
sys.stdin.readline()
print(look(path), flush=True)
os.chdir("/")
"""
child = subprocess.Popen([tool, "run", "-m", f"{socket}={top}", sys.executable, "-c", program, top, name], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="")
subprocess.run(["mount", "-t", "tmpfs", "none", f"{top}/{name}"], check=True)
with open(f"{top}/{name}/f", "w") as file:
    file.write("above\n")
child.stdin.write("\n")
child.stdin.flush()
for _ in range(3):
    print(child.stdout.readline(), end="")
subprocess.run(["umount", f"{top}/{name}"], check=True)
child.stdin.write("\n")
child.stdin.flush()
print(child.communicate()[0], end="")
PYTHON
		)"
	same "also by a program that has no number free to look at its mounts" "$(printf '6\nmounted\n6')" \
		"$(python3 - "$gpu4fs" "$socket" "$mnt" "inside with blanks" <<'PYTHON' 2>&1
import subprocess, sys
tool, socket, top, name = sys.argv[1:]
program = """
import os, resource, sys, time
top, name = sys.argv[1:]
path = top + "/" + name + "/f"
print(os.stat(path).st_size, flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
except OSError:
    sys.stdin.readline()
for _ in range(1000):  # until the server has seen it, if it is seen
    if os.stat(path).st_size != 6:
        break
    time.sleep(0.01)
print("mounted" if os.stat(path).st_size == 12 else "not seen", flush=True)
"""
child = subprocess.Popen([tool, "run", "-m", f"{socket}={top}", sys.executable, "-c", program, top, name], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="")
subprocess.run(["mount", "-t", "tmpfs", "none", f"{top}/{name}"], check=True)
with open(f"{top}/{name}/f", "w") as file:
    file.write("what is here")
print(child.communicate("\n")[0], end="")
subprocess.run(["umount", f"{top}/{name}"], check=True)
print(len(open(f"{top}/{name}/f").read()))
PYTHON
		)"
fi

# the command line
run sh -c 'exit 7'
same "the status is the command's" 7 $?
run --trace sh -c 'kill -TERM $$' 2>/dev/null
same "also of one that was killed" 143 $?
run "$work/nothing" 2>/dev/null
same "127 says that it is not there" 127 $?
refuses "a socket of another mount" "not mounted there" "$gpu4fs" run -m "$socket=$work" true
other=$work/second
mkdir "$other"
truncate -s 512M "$other.image"
check "a second image" "$gpu4fs" mkfs "$other.image"
check "is mounted, too" "$gpu4fs" mount "$other.image" "$other"
refuses "and the socket is not that mount's" "not mounted there" "$gpu4fs" run -m "$socket=$other" true
LD_PRELOAD=$(dirname "$gpu4fs")/../lib/libgpu4fs_preload.so GPU4FS_PRELOAD=$socket=$other \
	python3 -c "import os; os.mkdir('$other/made')"
same "also the library does not take it for that" "$other/made" "$(ls -d "$other/made" "$mnt/made" 2>/dev/null)"
"$gpu4fs" umount "$other"
# who may not open the root cannot compare it
chmod 755 "$work"
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if ((EUID == 0)) && "${nobody[@]}" test -x "$gpu4fs" 2>/dev/null; then
	check "another mount with a socket" "$gpu4fs" mount -o "socket=$other.socket" "$other.image" "$other"
	chmod 711 "$other"
	refuses "the socket is not this mount's" "not mounted there" "${nobody[@]}" "$gpu4fs" run -m "$other.socket=$mnt" true
	"${nobody[@]}" "$gpu4fs" run --trace -m "$other.socket=$other" stat "$other/made" >/dev/null 2>"$work/trace"
	same "but its own mount's, where the engine answers" 1 "$(awk '$1 ~ /stat/ { sum += $2 } END { print sum + 0 }' "$work/trace")"
	"$gpu4fs" umount "$other"
fi
misused() { # misused NAME SENTENCE COMMAND...: it ends with 2 and says so, as run
	local found=0
	"${@:3}" >/dev/null 2>"$work/usage" || found=$?
	same "$1" 2 "$found"
	same "... is told by run" 1 "$(grep -c "^gpu4fs run: .*$2" "$work/usage")"
	same "... which alone speaks" 0 "$(grep -c 'gpu4fs mount' "$work/usage")"
}
misused "options with a socket" "is the socket of a mount" "$gpu4fs" run -o ro -m "$socket=$mnt" true
misused "a mount option that is none" "unknown mount option 'bogus'" "$gpu4fs" run -o ro,bogus -m "$other.image=$other" true
misused "nor with a socket" "unknown mount option 'bogus'" "$gpu4fs" run -o ro,bogus -m "$socket=$mnt" true
# shellcheck disable=SC2016 # for the inner shell
same "options of several -o hold" "" "$("$gpu4fs" run -o ro -o noatime -m "$other.image=$other" sh -c 'touch "$1/f" 2>/dev/null && echo written' sh "$other")"
refuses "no socket and no device" "No such file" "$gpu4fs" run -m "$work/none=$mnt" true
refuses "no directory" "SOURCE=DIRECTORY" "$gpu4fs" run -m "$socket" true
# shellcheck disable=SC2016 # the inner shell expands it
same "relative names are right where the command goes elsewhere" text \
	"$(cd "$work" && "$gpu4fs" run -m socket=mnt sh -c 'cd / && cat "$1"' sh "$mnt/f")"

# another library in front of the C library
cat >"$work/other.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int unlink(const char *path)
{
	if (strstr(path, "precious"))
		return 0;
	return ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
}
C
if command -v cc >/dev/null; then
	cc -shared -fPIC -o "$work/other.so" "$work/other.c"
	remove='import os; os.unlink("precious"); os.unlink("other")'
	mkdir "$mnt/two" && touch "$mnt/two/precious" "$mnt/two/other" "$work/precious" "$work/other"
	# ours stands in front: what is not the engine's goes on to the other one
	(cd "$work" && LD_PRELOAD="$work/other.so" run python3 -c "$remove")
	same "a library that was there before has what is not ours" precious "$(cd "$work" && ls precious other 2>/dev/null)"
	LD_PRELOAD="$work/other.so" run python3 -c "import os; os.chdir('$mnt/two'); $remove"
	same "and not what is" "" "$(ls "$mnt/two")"
	cc -static -o "$work/static" -x c - <<'C' 2>/dev/null && same "a static program uses the mount" text "$(run "$work/static" "$mnt/f")"
#include <stdio.h>
int main(int argc, char **argv)
{
	char text[9];
	FILE *file = fopen(argv[argc - 1], "r");
	return !file || !fgets(text, sizeof(text), file) || fputs(text, stdout) < 0;
}
C
fi

# a server whose places are taken
hold='import os, sys, time
os.stat(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()'
python3 - "$gpu4fs" "$socket=$mnt" "$mnt/f" "$hold" <<'PYTHON' >"$work/out" 2>&1
import subprocess, sys
tool, where, name, hold = sys.argv[1:]
def start():
    child = subprocess.Popen([tool, "run", "-m", where, sys.executable, "-c", hold, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    return child
children = [start() for _ in range(66)]  # the server has 64 places
for child in children:
    child.stdin.close()
    assert child.wait() == 0
PYTHON
same "who finds no place goes through the mount" 0 $?

# a server that is killed; what the next mount is to find has to be on the device by then
sync "$mnt/f"
server=$(pgrep -f -- "socket=$socket")
python3 - "$gpu4fs" "$socket=$mnt" "$mnt" "$server" <<'PYTHON' >"$work/out" 2>&1
import os, signal, subprocess, sys
tool, where, top, server = sys.argv[1:]
program = """
import errno, os, sys
os.chdir(sys.argv[1])
fd = os.open('f', os.O_RDWR)
print('ready', flush=True)
sys.stdin.read(1)
def fails(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ENOTCONN, errno.ECONNABORTED), error
        return
    raise AssertionError(function)
fails(os.read, fd, 1)
fails(os.stat, sys.argv[1] + '/f')
fails(os.open, sys.argv[1] + '/g', os.O_CREAT | os.O_RDWR)
if os.fork() == 0:
    fails(os.stat, sys.argv[1] + '/f')
    os._exit(0)
assert os.wait()[1] == 0
os.close(fd)
print('alive', flush=True)
"""
child = subprocess.Popen([tool, "run", "-m", where, sys.executable, "-c", program, top], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"ready\n"
os.kill(int(server), signal.SIGKILL)
out, _ = child.communicate(b"x")
assert out == b"alive\n" and child.returncode == 0, (out, child.returncode)
PYTHON
same "a program outlives its server" 0 $?
sed 's/^/#   /' "$work/out"
umount -l "$mnt"

# a server that comes again under a program that goes on
python3 - "$gpu4fs" "$image" "$socket" "$mnt" <<'PYTHON' >"$work/out" 2>&1
import subprocess, sys
tool, image, socket, top = sys.argv[1:]
program = """
import os, sys
f = sys.argv[1] + '/f'
def sockets():
    numbers = os.listdir('/proc/self/fd')
    return sum(os.path.lexists('/proc/self/fd/' + n) and os.readlink('/proc/self/fd/' + n).startswith('socket:') for n in numbers)
assert os.stat(f).st_size == 5
connected = sockets()
print('ready', flush=True)
sys.stdin.read(1)
top = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
assert os.stat('f', dir_fd=top).st_size == 5
os.close(top)
assert os.stat(f).st_size == 5
assert os.read(os.open(f, os.O_RDONLY), 9) == b'text' + bytes([10])
assert os.stat(f).st_size == 5
assert sockets() == connected
"""
subprocess.run([tool, "mount", "-o", "socket=" + socket, image, top], check=True)
child = subprocess.Popen([tool, "run", "--trace", "-m", f"{socket}={top}", sys.executable, "-c", program, top],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
assert child.stdout.readline() == b"ready\n"
subprocess.run([tool, "umount", top], check=True)
subprocess.run([tool, "mount", "-o", "socket=" + socket, image, top], check=True)
_, trace = child.communicate(b"x")
assert child.returncode == 0, trace
counts = {line.split()[0]: line.split()[1:] for line in trace.decode().splitlines()}
assert counts["open"][0] == "2" and counts["fstatat"][0] == "1" and counts["read"][0] == "1", trace
PYTHON
same "a program that has nothing open lets its mount end, and finds the next one" 0 $?
sed 's/^/#   /' "$work/out"
"$gpu4fs" umount "$mnt"

# an image: mounted as long as somebody uses it
check "an image is mounted for a command" "$gpu4fs" run -m "$image=$mnt" -o cache=64M cp /etc/passwd "$mnt/copy"
same "and unmounted behind it" "" "$(ls "$mnt")"
check "what it left is waited for" "$gpu4fs" run -m "$image=$mnt" sh -c "cp '$mnt/copy' '$mnt/late' &" </dev/null
check "and what that did is there" "$gpu4fs" run -m "$image=$mnt" cmp "$mnt/copy" "$mnt/late"
# the reader of the trace has gone: python runs programs with SIGPIPE as it is by default
mkdir "$work/tmp"
TMPDIR=$work/tmp python3 - "$gpu4fs" "$image=$mnt" <<'PYTHON'
import os, subprocess, sys
tool, where = sys.argv[1:]
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.run([tool, "run", "--trace", "-m", where, "true"], stderr=writer).returncode != 0)
PYTHON
same "a trace that nobody reads leaves the status to the command" 0 $?
check_not "and no mount" is_mounted
same "and no folder" "" "$(ls "$work/tmp")"
check "the image is clean" "$gpu4fs" fsck "$image"
finish
