#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LTP's file calls and calls for signals in three places: ltp.py CHECKOUT TOOL SOCKET MOUNT OTHER [TEST...]. Through the library below MOUNT, through
the mount alone, and where these two end otherwise, in OTHER, a directory of another file system. A test fails here if it ends through the
library as it does in neither of these, unless DIFFERENT says why. The last lines count both sides of each call."""
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

checkout, tool, socket, mount, other = sys.argv[1:6]
wanted = sys.argv[6:]

FOLDERS = """access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 execl execle execlp execv execve execveat execvp
faccessat faccessat2 fadvise fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork
fpathconf fremovexattr fsetxattr fstat fstatat fstatfs fsync ftruncate futimesat getcwd getdents getxattr kill lchown lgetxattr link linkat
listxattr llistxattr llseek lremovexattr lseek lstat mkdir mkdirat mknod mknodat mmap msync munmap name_to_handle_at nftw open
open_by_handle_at openat openat2 pathconf pause pipe poll ppoll pread preadv preadv2 pselect pwrite pwritev pwritev2 read readahead readdir
readlink readlinkat readv realpath removexattr rename renameat renameat2 rmdir rt_sigaction rt_sigprocmask rt_sigqueueinfo rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo select sendfile setrlimit setxattr sigaction sigaltstack sighold signal signalfd signalfd4 sigpending
sigprocmask sigrelse sigsuspend sigtimedwait sigwait sigwaitinfo splice stat statfs statvfs statx symlink symlinkat sync sync_file_range
syncfs tee tgkill tkill truncate ulimit umask unlink unlinkat ustat utime utimensat utimes vfork vmsplice write writev cachestat
bind connect accept getsockname getpeername recvmsg sendmsg io_submit epoll_ctl inotify madvise mincore mlock mprotect mremap munlock
remap_file_pages chroot clone clone3 unshare pidfd_getfd io_setup io_destroy io_cancel io_getevents io_pgetevents file_attr getxattrat
setxattrat listxattrat removexattrat acct""".split()

# What differs from the mount, and why: docs/design/preload.md, "What goes wrong".
DIFFERENT = {
    "creat07": "ETXTBSY: the kernel does not know that the file is open, or that the engine writes to what it runs",
    "execve04": "ETXTBSY",
    "dup06": "a process at its limit of descriptors has one less for each mount",
    "dup205": "it closes every number up to its limit, and one is the library's own",
    "fcntl33": "a lease: the process that breaks it was forked before",
    "fcntl40": "F_CREATED_QUERY: the file was made by the engine",
}

STRESS = ("fork13",)  # ten minutes of processes' numbers

PASSED, CONF, FAILED, BROKEN = "passed", "does not apply", "failed", "broken"
LONGEST_S = 1200  # those of the old interface have no limit of their own


def tests():
    """Name and command line of what is built. How many were left out: they test file systems that they mount themselves."""
    places, left_out = {}, 0
    for folder in FOLDERS:
        where = os.path.join(checkout, "testcases/kernel/syscalls", folder)
        for name in os.listdir(where) if os.path.isdir(where) else ():
            path = os.path.join(where, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                places[name] = path
    found = []
    with open(os.path.join(checkout, "runtest/syscalls"), encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if len(words) < 2 or words[0].startswith("#") or words[1] not in places:
                continue
            source = re.sub(r"(_16|_64)?$", "", places[words[1]]) + ".c"
            if os.path.exists(source):
                with open(source, encoding="utf-8", errors="replace") as text:
                    if re.search(r"\.(all_filesystems|mount_device|needs_device|format_device|needs_rofs|needs_hugetlbfs)\b", text.read()):
                        left_out += 1
                        continue
            if words[0] in STRESS:
                continue
            if not wanted or words[0] in wanted or os.path.basename(os.path.dirname(places[words[1]])) in wanted:
                found.append((words[0], [places[words[1]], *words[2:]]))
    return found, left_out


def run(name, command, where, through):
    """One test in a directory of its own: how it ended, and what it said."""
    place = os.path.join(where, f"ltp.{name}.{os.getpid()}.{time.monotonic_ns()}")
    os.mkdir(place, 0o777)
    os.chmod(place, 0o1777)
    paths = [os.path.dirname(command[0]), os.path.join(checkout, "testcases/lib"), os.environ["PATH"]]
    environment = dict(os.environ, TMPDIR=place, LTPROOT=checkout, PATH=":".join(paths), LTP_TIMEOUT_MUL="20", LTP_COLORIZE_OUTPUT="0")
    before = [tool, "run", "-m", f"{socket}={mount}"] if through else []
    try:
        # programs that a test starts are looked for where it begins; it works below TMPDIR
        done = subprocess.run(before + command, cwd=os.path.dirname(command[0]), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace", check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return BROKEN, f"TBROK: not at its end after {LONGEST_S} s"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    ends = {0: PASSED, 32: CONF}  # else bits: 1 failed, 2 broken, 4 a warning; or a signal's number
    how = ends.get(done.returncode, BROKEN if done.returncode < 0 or done.returncode & 2 else FAILED)
    return how, done.stdout


def judge(test):
    name, command = test
    how, said = run(name, command, mount, True)
    on_mount, _ = run(name, command, mount, False)
    elsewhere = how if how == on_mount else run(name, command, other, False)[0]
    return name, os.path.basename(os.path.dirname(command[0])), how, on_mount, elsewhere, said


def counted(counts):
    return ", ".join(f"{counts[how]} {how}" for how in (PASSED, CONF, FAILED, BROKEN) if counts[how])


def main():
    found, left_out = tests()
    counts = collections.defaultdict(lambda: (collections.Counter(), collections.Counter()))
    as_mount = different = wrong = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for name, call, how, on_mount, elsewhere, said in pool.map(judge, found):
            for key in (call, "all"):
                counts[key][0][how] += 1
                counts[key][1][on_mount] += 1
            if how == PASSED and on_mount == PASSED:
                continue
            print(f"#   {name}: {how}; on the mount: {on_mount}; elsewhere: {elsewhere}", flush=True)
            if how == PASSED or how in (on_mount, elsewhere):
                as_mount += how in (FAILED, BROKEN)
                continue
            if name.removesuffix("_64") in DIFFERENT:
                print(f"#     {DIFFERENT[name.removesuffix('_64')]}")
                different += 1
                continue
            wrong += 1
            print(f"not ok - {name}")
            for line in said.splitlines():
                if re.search("TFAIL|TBROK|TWARN|TCONF", line):
                    print("#    ", line)
    for call in sorted(set(counts) - {"all"}) + ["all"]:
        through, beside = counts[call]
        same = "the same" if through == beside else counted(beside)
        print(f"#   {call}: library: {counted(through)}; mount: {same}")
    print(f"#   {len(found)} tests: {as_mount} fail on the mount or elsewhere, too, {different} as the design says, {wrong} else; {left_out} mount a file "
          "system of their own and were left out")
    if found and wrong == 0:
        print("ok - what passes on the mount passes through the library")
    sys.exit(wrong != 0 or not found)


main()
