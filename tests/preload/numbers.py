#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Descriptors where no number is free, and paths that name descriptors: numbers.py DIRECTORY [NAME...], as calls.py."""
import ctypes
import errno
import os
import resource
import stat
import subprocess
import sys
import threading

import calls
from calls import content, in_child, libc, make, raises


def take_all_numbers():
    """The process has none for another descriptor, until one of those is closed that are returned."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE
    return taken


def a_child_has_what_was_open_at_the_limit():
    one = make("one", b"0123456789")
    os.lseek(one, 2, os.SEEK_SET)
    again = os.dup(one)
    os.set_inheritable(again, True)
    two = make("two", b"second")
    taken = take_all_numbers()

    def child():
        assert os.read(one, 4) == b"2345" and os.read(again, 4) == b"6789" and os.pread(two, 9, 0) == b"second"
        assert os.fstat(one).st_size == 10 and os.write(two, b"X") == 1

    in_child(child)
    assert os.lseek(one, 0, os.SEEK_CUR) == 10 and os.pread(two, 9, 0) == b"secondX"
    assert not os.get_inheritable(one) and os.get_inheritable(again) and not os.get_inheritable(two)
    in_child(lambda: os.pread(one, 2, 0) == b"01" or 1 / 0)
    raises(errno.EMFILE, os.dup, one)
    os.close(again)
    os.close(os.dup(one))
    for fd in taken[:8]:
        os.close(fd)
    assert content("two") == b"secondX"


def files_are_handed_over_after_the_limit_as_before():
    fd = make("f", b"0123456789")
    taken = take_all_numbers()
    in_child(lambda: os.pread(fd, 2, 0) == b"01" or 1 / 0)
    for each in taken[:8]:
        os.close(each)
    other = make("g", b"another")
    in_child(lambda: os.pread(other, 9, 0) == b"another" or 1 / 0)


def directories_are_handed_over_at_the_limit():
    os.mkdir("d")
    for i in range(300):
        os.close(make(f"d/n{i:03}"))
    place = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    with os.scandir("d") as stream:
        names = [next(stream).name for _ in range(100)]
        taken = take_all_numbers()
        in_child(lambda: os.stat("n000", dir_fd=place).st_size == 0 or 1 / 0)
        names += [entry.name for entry in stream]
    assert sorted(names) == [f"n{i:03}" for i in range(300)], len(names)
    assert len(taken) > 8 and os.stat("n001", dir_fd=place).st_size == 0


def a_program_at_the_limit_inherits():
    fd = make("f", b"inherited")
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    take_all_numbers()
    child = os.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", f"import os, sys; os.closerange({fd + 1}, 64); sys.exit(os.read({fd}, 20) != b'inherited')"])
    assert os.waitpid(child, 0)[1] == 0


def numbers_above_a_lower_limit_name_nothing_else():
    """A descriptor that the limit does not allow any more cannot be handed over. Its number must not begin paths elsewhere."""
    top = os.path.dirname(os.path.dirname(os.getcwd()))
    kept = os.path.join(top, "kept")
    os.close(make(kept, b"kept"))
    os.mkdir("d")
    d = os.open("d", os.O_RDONLY | os.O_DIRECTORY)

    def child():
        resource.setrlimit(resource.RLIMIT_NOFILE, (d, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        child = os.fork()
        if child == 0:
            os._exit(libc.unlinkat(d, b"kept", 0) == 0)
        assert os.waitpid(child, 0)[1] == 0
        assert libc.unlinkat(d, b"kept", 0) == -1

    in_child(child)
    assert os.stat(kept).st_size == 4
    os.unlink(kept)


def threads_open_while_files_are_handed_over_at_the_limit():
    """What a thread opens is its own, and what was open before too, whoever gets the number that becomes free for a moment."""
    fds = [make(f"f{i}", b"%d" % i) for i in range(8)]
    taken = take_all_numbers()
    os.close(taken.pop())  # for the thread
    stop, wrong = threading.Event(), []

    def work():
        while not stop.is_set():
            try:
                fd = os.open("/proc/self/stat", os.O_RDONLY)
            except OSError:
                continue
            if os.read(fd, 1) not in b"123456789":
                wrong.append(fd)
            os.close(fd)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            in_child(lambda: all(os.pread(fd, 3, 0) == b"%d" % i for i, fd in enumerate(fds)) or 1 / 0)
    finally:
        stop.set()
        thread.join()
    assert not wrong and all(os.pread(fd, 3, 0) == b"%d" % i for i, fd in enumerate(fds))


# ------------------------------------------------------------------ paths that name descriptors

FOLDERS = ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd", "//proc/self/fd"]


def folders():
    return FOLDERS + [f"/proc/{os.getpid()}/fd"]


def a_descriptors_path_is_the_files():
    for i, folder in enumerate(folders()):
        name = f"f{i}"
        asked = {
            "open": lambda path: os.pread(os.open(path, os.O_RDONLY), 9, 0) == b"text",
            "stat": lambda path: os.stat(path).st_size == 4,
            "access": lambda path: os.access(path, os.R_OK),
            "fopen": lambda path: stream(path) == b"text",
            "truncate": lambda path: os.truncate(path, 4) is None,
            "chmod": lambda path: os.chmod(path, 0o600) is None,
            "statfs": lambda path: os.statvfs(path).f_blocks == os.statvfs(name).f_blocks,  # what is free may change meanwhile
            "setxattr": lambda path: os.setxattr(path, "user.a", b"b") is None and os.getxattr(name, "user.a") == b"b",
        }
        for call, good in asked.items():
            fd = make(name, b"text")
            assert good(f"{folder}/{fd}"), (folder, call)
            os.close(fd)
            os.unlink(name)


def realpath(path):
    found = ctypes.create_string_buffer(4096)
    libc.realpath.restype = ctypes.c_char_p
    return os.fsdecode(libc.realpath(os.fsencode(path), found))


def stream(path):
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    libc.fread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    file = libc.fopen(os.fsencode(path), b"r")
    assert file, path
    room = ctypes.create_string_buffer(9)
    bytes_read = libc.fread(room, 1, 9, file)
    libc.fclose(file)
    return room.raw[:bytes_read]


def a_directorys_path_is_the_directorys():
    for folder in folders():
        os.makedirs("d/e")
        here = os.getcwd()
        fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        os.chdir(f"{folder}/{fd}")
        assert os.listdir(".") == ["e"] and os.getcwd() == os.path.join(here, "d"), folder
        os.chdir(here)
        os.close(fd)
        fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        assert os.listdir(f"{folder}/{fd}") == ["e"]
        os.close(fd)
        for name_of in (os.readlink, realpath):
            fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
            assert name_of(f"{folder}/{fd}") == os.path.join(here, "d"), (folder, name_of)
            os.close(fd)
        fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        assert libc.mkfifoat(fd, f"{folder}/{fd}/fifo".encode(), 0o644) == 0
        os.unlink("d/fifo")
        os.rmdir(f"{folder}/{fd}/e")
        os.close(fd)
        os.rmdir("d")


def a_descriptors_path_is_what_is_made_and_found_there():
    os.mkdir("d")

    def found(path):
        entries = ctypes.c_void_p()
        return libc.scandir(path.encode(), ctypes.byref(entries), None, None) == 2

    for folder in folders():
        asked = {
            "mkfifo": lambda path: os.mkfifo(f"{path}/pipe") is None and os.unlink("d/pipe") is None,
            "ftok": lambda path: libc.ftok(path.encode(), 1) == libc.ftok(b"d", 1),
            "scandir": found,
            "pathconf": lambda path: os.pathconf(path, "PC_NAME_MAX") == 255,
        }
        for call, good in asked.items():
            fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
            assert good(f"{folder}/{fd}"), (folder, call)
            os.close(fd)
    none = ctypes.c_ulong()
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    assert getattr(libc, "__xmknodat")(0, fd, b"node", stat.S_IFREG | 0o600, ctypes.byref(none)) == 0
    os.close(fd)
    assert os.listdir("d") == ["node"]


def what_is_watched_by_a_descriptor_is_that():
    for folder in folders():
        watch = libc.inotify_init1(os.O_NONBLOCK)
        fd = make("f", b"text")
        assert libc.inotify_add_watch(watch, f"{folder}/{fd}".encode(), 2) > 0  # IN_MODIFY
        os.write(fd, b"more")
        assert os.read(watch, 100)
        os.close(fd)
        os.close(watch)
    os.mkdir("d")
    make("d/only-here")
    fan = libc.fanotify_init(0x200, 0)  # FAN_REPORT_FID: needs no rights
    if fan < 0:
        return
    os.set_blocking(fan, False)
    for mark in (b"only-here", None):
        place = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        done = libc.fanotify_mark(fan, 1, ctypes.c_uint64(2), place, mark)
        assert done == 0 or ctypes.get_errno() != errno.ENOENT, mark
        os.close(place)


def nothing_is_unmounted_by_a_descriptor_of_a_directory():
    os.mkdir("d")
    for folder in folders():
        fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        assert libc.umount2(f"{folder}/{fd}".encode(), 0) == -1
        assert ctypes.get_errno() in (errno.EINVAL, errno.EPERM), ctypes.get_errno()
        os.close(fd)


def a_descriptors_path_is_loaded():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        folder = os.path.dirname([line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line][0])
    with open(os.path.join(folder, "libm.so.6"), "rb") as library:
        fd = make("library", library.read())
    loaded = ctypes.CDLL(f"/proc/self/fd/{fd}")
    loaded.cos.restype = ctypes.c_double
    assert loaded.cos(ctypes.c_double(0)) == 1


def a_descriptors_path_is_run():
    for folder in FOLDERS:
        child = os.fork()
        if child == 0:
            fd = make("script", b"#!/bin/sh\nexit 7\n")
            os.fchmod(fd, 0o755)
            os.close(fd)
            fd = os.open("script", os.O_RDONLY)
            os.set_inheritable(fd, True)
            os.execv(f"{folder}/{fd}", ["script"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, folder
    child = os.fork()
    if child == 0:
        os.system("cp /bin/true program")
        fd = os.open("program", os.O_RDONLY)  # close-on-exec
        os.execv(f"/proc/self/fd/{fd}", ["program"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def a_file_without_a_name_gets_one_behind_a_fork():
    for i, folder in enumerate(folders()):
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(fd, b"named")
        assert os.fstat(fd).st_nlink == 0
        path = os.path.join(folder, str(fd)).encode()
        assert libc.linkat(-100, path, -100, b"before%d" % i, 0x400) == 0, folder  # AT_FDCWD, AT_SYMLINK_FOLLOW
        os.close(fd)
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(fd, b"named later")
        subprocess.run(["true"], check=True)
        in_child(lambda: os.pread(fd, 20, 0) == b"named later" or 1 / 0)
        path = os.path.join(folder, str(fd)).encode()
        assert libc.linkat(-100, path, -100, b"after%d" % i, 0x400) == 0, folder
        os.close(fd)
        assert content(f"before{i}") == b"named" and content(f"after{i}") == b"named later"
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    assert libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"never", 0x400) == -1
    os.close(fd)


def a_child_names_the_file_of_its_parent():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"its parent's")
    in_child(lambda: libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"f", 0x400) == 0 or 1 / 0)
    assert os.fstat(fd).st_nlink == 1 and content("f") == b"its parent's"
    os.close(fd)


calls.main(globals())
