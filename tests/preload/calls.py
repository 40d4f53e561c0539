#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls whose meaning crosses processes, descriptors and threads: calls.py DIRECTORY [NAME...]. Run through the library or without."""
import array
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)


def make(name, text=b"", flags=os.O_RDWR):
    fd = os.open(name, flags | os.O_CREAT | os.O_TRUNC, 0o644)
    if text:
        os.write(fd, text)
    return fd


def content(name):
    """What the C library's streams see: through the mount."""
    return subprocess.run(["env", "-u", "LD_PRELOAD", "cat", name], check=True, stdout=subprocess.PIPE).stdout


def raises(number, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        assert error.errno == number, error
        return
    raise AssertionError(f"{function} did not fail")


def raises_any(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError:
        return
    raise AssertionError(f"{function} did not fail")


def in_child(function):
    """Forks; the child's exit says whether the function came to its end."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException as error:
            print("in the child:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def a_position_is_shared_by_copies_and_children():
    fd = make("f", b"0123456789")
    other = os.dup(fd)
    os.lseek(fd, 2, os.SEEK_SET)
    assert os.read(other, 2) == b"23"
    third = fcntl.fcntl(fd, fcntl.F_DUPFD, 50)
    assert third >= 50 and os.read(third, 1) == b"4"
    in_child(lambda: os.read(other, 2) == b"56" or 1 / 0)
    assert os.read(fd, 1) == b"7"
    os.write(third, b"X")
    assert content("f") == b"01234567X9"
    for each in (fd, other, third):
        os.close(each)
    raises(errno.EBADF, os.read, fd, 1)


def a_program_inherits_what_is_not_closed():
    fd = make("f", b"inherited")
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    closed = make("g", b"x")
    out = subprocess.run(["sh", "-c", f"cat <&{fd}; (: <&{closed}) 2>/dev/null || echo closed"], close_fds=False,
                         stdout=subprocess.PIPE, check=True).stdout
    assert out == b"inheritedclosed\n", out
    os.close(fd)
    os.close(closed)


def a_child_goes_on_with_an_unlinked_file():
    fd = make("f", b"still here")
    os.unlink("f")
    assert os.fstat(fd).st_nlink == 0

    def child():
        os.lseek(fd, 0, os.SEEK_SET)
        assert os.read(fd, 20) == b"still here"
        os.write(fd, b", and more")

    in_child(child)
    os.lseek(fd, 0, os.SEEK_SET)
    assert os.read(fd, 40) == b"still here, and more"
    os.close(fd)


def a_file_that_may_not_be_opened_again_can_be_handed_over():
    fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444)
    os.write(fd, b"read-only")
    os.rename("f", "g")
    in_child(lambda: os.write(fd, b" and written"))
    assert content("g") == b"read-only and written"
    os.close(fd)


def both_sides_of_a_fork_make_files():
    make("before", b"1")
    in_child(lambda: os.close(make("child", b"2")))
    make("after", b"3")
    assert sorted(os.listdir(".")) == ["after", "before", "child"]
    assert content("child") == b"2"


def a_descriptor_is_passed_to_another_process():
    left, right = socket.socketpair()
    fd = make("f", b"passed on")
    os.lseek(fd, 7, os.SEEK_SET)
    left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
    message, rights, _, _ = right.recvmsg(1, socket.CMSG_SPACE(4))
    got = array.array("i", rights[0][2])[0]
    assert message == b"x" and os.read(got, 10) == b"on"
    os.close(got)


def a_number_is_given_away_by_system_call():
    reader, writer = os.pipe2(os.O_NONBLOCK)
    for number in (33, 292):  # dup2, dup3
        fd = make("f", b"text")
        libc.syscall(number, writer, fd, 0)
        os.write(fd, b"x")
        assert os.read(reader, 9) == b"x"
        os.close(fd)
        assert content("f") == b"text"
    os.close(reader)
    os.close(writer)


def proc_shows_what_is_open():
    fd = make("f", b"seen")
    with open(f"/dev/fd/{fd}", "rb") as again:
        assert again.read() == b"seen"
    os.close(fd)


def a_place_is_where_paths_begin():
    os.mkdir("d")
    place = os.open("d", os.O_PATH | os.O_DIRECTORY)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.rename("d", "e")
    assert os.stat("f", dir_fd=place).st_size == 0 and os.listdir("e") == ["f"]
    raises(errno.EBADF, os.write, place, b"x")
    os.chdir(place)
    assert os.listdir(".") == ["f"]
    os.chdir("..")
    os.close(place)


def standard_streams_write_where_they_are_sent():
    script = "echo one; exec >>second; echo two; printf three; exec 5>third; echo four >&5; cat second >&2"
    with open("first", "wb") as out:
        subprocess.run(["bash", "-c", script], stdout=out, stderr=subprocess.DEVNULL, check=True)
    assert content("first") == b"one\n" and content("second") == b"two\nthree" and content("third") == b"four\n"


def ranges_of_descriptors_close():
    fds = [make(f"f{i}", b"x") for i in range(5)]
    libc.close_range(fds[0], 2**32 - 1, 0)  # and with them all that is nobody's
    raises(errno.EBADF, os.fstat, fds[3])
    again = make("again", b"works")
    assert os.stat("again").st_size == 5 and os.listdir(".")
    os.close(again)
    for fd in range(3, 1100):
        try:
            os.close(fd)
        except OSError as error:
            assert error.errno == errno.EBADF
    os.close(make("still", b"works"))
    assert content("still") == b"works"


def numbers_that_the_library_has_can_be_asked_for():
    fd = make("f", b"x")
    for number in range(895, 1000):
        os.dup2(fd, number)
    os.close(make("g", b"works"))
    assert os.stat("g").st_size == 5
    for number in range(895, 1000):
        assert os.fstat(number).st_ino == os.fstat(fd).st_ino
        os.close(number)
    os.close(fd)


def paths_that_leave_are_the_kernels():
    here = os.getcwd()
    outside = os.path.dirname(here.rstrip("/"))
    os.mkdir("d")
    os.symlink(os.path.join(here, "d"), "absolute")
    os.symlink("d", "relative")
    os.symlink("/etc", "etc")
    os.symlink("/etc/passwd", "d/passwd")
    os.symlink(os.path.join(here, "made"), "makes")
    os.close(make("absolute/f", b"x"))
    assert os.listdir("relative") and os.stat("d/f").st_size == 1
    assert os.stat("etc/passwd").st_ino == os.stat("/etc/passwd").st_ino
    assert os.stat("d/passwd").st_ino == os.stat("/etc/passwd").st_ino
    top = os.path.relpath("/etc/passwd", here)
    assert os.stat(top).st_ino == os.stat("/etc/passwd").st_ino
    assert os.stat("d/../../" + os.path.basename(here)).st_ino == os.stat(here).st_ino
    assert os.stat("..").st_ino == os.stat(outside).st_ino
    os.close(make("makes", b"12"))
    assert os.stat("made").st_size == 2
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    assert os.stat("passwd", dir_fd=fd).st_ino == os.stat("/etc/passwd").st_ino
    assert os.stat("f", dir_fd=fd).st_size == 1
    os.rename("f", os.path.join(here, "out"), src_dir_fd=fd)
    assert os.listdir(fd) == ["passwd"]
    os.close(fd)
    raises(errno.EXDEV, os.rename, "out", "/dev/shm/gpu4fs-nowhere")
    raises(errno.EXDEV, os.link, "/etc/passwd", "linked")
    os.chdir("d")
    assert os.stat("../out").st_size == 1 and os.getcwd() == os.path.join(here, "d")
    os.chdir("..")
    os.rename("d", "renamed")
    assert os.getcwd() == here


def a_working_directory_can_move_and_go():
    here = os.getcwd()
    os.mkdir("w")
    os.chdir("w")
    os.close(make("f", b"x"))
    os.rename(os.path.join(here, "w"), os.path.join(here, "v"))
    assert os.stat("f").st_size == 1 and os.getcwd() == os.path.join(here, "v")
    os.close(make("g", b"xx"))
    assert sorted(os.listdir(".")) == ["f", "g"] and os.stat(os.path.join(here, "v/g")).st_size == 2
    in_child(lambda: os.stat("g").st_size == 2 or 1 / 0)
    os.chdir(here)


def private_mappings_are_what_the_file_holds():
    fd = make("f", b"a" * 5000)
    memory = mmap.mmap(fd, 5000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    assert memory[:] == b"a" * 5000
    memory[0:1] = b"b"
    assert os.pread(fd, 1, 0) == b"a"
    shared = mmap.mmap(fd, 5000)
    shared[1:2] = b"c"
    shared.flush()
    assert os.pread(fd, 3, 0) == b"aca" and content("f")[:3] == b"aca"
    os.pwrite(fd, b"d", 2)
    assert shared[0:3] == b"acd"
    os.close(fd)


def private_mappings_keep_their_contents_when_given_back():
    text = bytes(range(256)) * 16 * 6
    fd = make("f", text)
    memory = mmap.mmap(fd, len(text), flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_DONTNEED)
    assert memory[:] == text
    memory.madvise(mmap.MADV_DONTNEED, 4096, 8192)
    assert memory[:] == text
    raises(errno.EINVAL, memory.madvise, 8)  # MADV_FREE
    memory.close()
    os.close(fd)


def memory_in_the_place_of_a_private_mapping_is_memory():
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    fd = make("f", b"t" * 5 * 4096)
    at = libc.mmap(None, 5 * 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    for page, unmap in ((1, True), (3, False)):
        if unmap:
            assert libc.munmap(at + page * 4096, 4096) == 0
        place = libc.mmap(at + page * 4096, 4096, mmap.PROT_READ | mmap.PROT_WRITE, anonymous | 0x10, -1, 0)  # MAP_FIXED
        assert place == at + page * 4096
        ctypes.memset(place, 1, 4096)
        assert libc.madvise(place, 4096, mmap.MADV_DONTNEED) == 0 and ctypes.string_at(place, 4096) == bytes(4096)
        ctypes.memset(place, 1, 4096)
    assert libc.madvise(at, 5 * 4096, mmap.MADV_DONTNEED) == 0
    t, zeros = b"t" * 4096, bytes(4096)
    assert ctypes.string_at(at, 5 * 4096) == t + zeros + t + zeros + t
    assert libc.munmap(at, 5 * 4096) == 0
    os.close(fd)


def a_private_mapping_that_grows_has_what_the_file_holds_or_does_not_grow():
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    fd = make("f", b"a" * 4096 + b"b" * 4096)
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    more = libc.mremap(at, 4096, 8192, 1)  # MREMAP_MAYMOVE
    if more == 2**64 - 1:
        assert ctypes.get_errno() == errno.ENOMEM and ctypes.string_at(at, 4096) == b"a" * 4096
    else:
        assert ctypes.string_at(more, 8192) == b"a" * 4096 + b"b" * 4096
    os.close(fd)


def mapping_functions():
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return anonymous, mmap.PROT_READ | mmap.PROT_WRITE, 2**64 - 1


def a_private_mapping_keeps_its_contents_whatever_gives_it_back():
    mapping_functions()
    fd = make("f", b"t" * 4096 * 2)
    at = libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    if libc.madvise(at, 8192, 24) != 0:  # MADV_DONTNEED_LOCKED
        assert ctypes.get_errno() == errno.EINVAL
    assert ctypes.string_at(at, 8192) == b"t" * 8192
    if libc.madvise(at, 4096, 102) != 0:  # MADV_GUARD_INSTALL
        assert ctypes.get_errno() == errno.EINVAL
    elif libc.madvise(at, 4096, 103) == 0:  # MADV_GUARD_REMOVE
        assert ctypes.string_at(at, 8192) == b"t" * 8192
    os.close(fd)


def a_call_that_fails_leaves_a_private_mapping():
    anonymous, both, failed = mapping_functions()
    fd = make("f", b"t" * 4096 * 2)
    at = libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    assert libc.mmap(at, 4096, both, mmap.MAP_PRIVATE | 0x10, 999, 0) == failed and ctypes.get_errno() == errno.EBADF  # MAP_FIXED
    assert libc.munmap(at, 1 << 62) == -1 and ctypes.get_errno() == errno.EINVAL
    assert libc.mremap(at, 8192, 4096, 0x80, None) == failed and ctypes.get_errno() == errno.EINVAL
    assert libc.madvise(at, 8192, mmap.MADV_DONTNEED) == 0 and ctypes.string_at(at, 8192) == b"t" * 8192
    os.close(fd)


def what_is_behind_a_hole_is_given_back():
    anonymous, both, failed = mapping_functions()
    fd = make("f", b"t" * 4096)
    room = libc.mmap(None, 6 * 4096, both, anonymous, -1, 0)
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    assert libc.mremap(at, 4096, 4096, 3, room + 2 * 4096) == room + 2 * 4096  # MREMAP_MAYMOVE, FIXED
    assert libc.munmap(room + 4096, 4096) == 0 and libc.munmap(room + 3 * 4096, 4096) == 0
    for page in (0, 4, 5):
        ctypes.memset(room + page * 4096, 1, 4096)
    assert libc.madvise(room, 6 * 4096, mmap.MADV_DONTNEED) == -1 and ctypes.get_errno() == errno.ENOMEM
    for page, byte in ((0, b"\0"), (2, b"t"), (4, b"\0"), (5, b"\0")):
        assert ctypes.string_at(room + page * 4096, 4096) == byte * 4096, page
    os.close(fd)


def a_private_mapping_whose_pages_are_taken_out_has_the_file_again_or_keeps_them():
    mapping_functions()
    fd = make("f", b"t" * 4096)
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    moved = libc.mremap(at, 4096, 4096, 5, None)  # MREMAP_MAYMOVE, DONTUNMAP
    assert moved != 2**64 - 1 or ctypes.get_errno() == errno.EINVAL
    for place in (at, moved):
        assert place == 2**64 - 1 or ctypes.string_at(place, 4096) == b"t" * 4096
    os.close(fd)


def memory_that_is_mapped_by_number_is_memory():
    anonymous, both, failed = mapping_functions()
    fd = make("f", b"t" * 4096)
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    arguments = [ctypes.c_long(each) for each in (9, at, 4096, both, anonymous | 0x10, -1, 0)]  # SYS_mmap
    assert libc.syscall(*arguments) != -1
    ctypes.memset(at, 1, 4096)
    assert libc.madvise(at, 4096, mmap.MADV_DONTNEED) == 0 and ctypes.string_at(at, 4096) == bytes(4096)
    os.close(fd)


def private_mappings_come_and_move_side_by_side():
    anonymous, both, failed = mapping_functions()
    fd = make("f", b"t" * 4096 * 4)
    wrong, stop = [], threading.Event()

    def move():
        room = libc.mmap(None, 4 * 4096, both, anonymous, -1, 0)
        while not stop.is_set():
            at = libc.mmap(None, 4 * 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
            if libc.mremap(at, 4 * 4096, 4 * 4096, 3, room) != room:  # MREMAP_MAYMOVE, FIXED
                wrong.append(("not moved", ctypes.get_errno()))

    def look():
        for _ in range(300):
            at = libc.mmap(None, 4 * 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
            libc.madvise(at, 4 * 4096, mmap.MADV_DONTNEED)
            if ctypes.string_at(at, 4 * 4096) != b"t" * 4096 * 4:
                wrong.append("not the file")
            libc.munmap(at, 4 * 4096)

    movers, lookers = [threading.Thread(target=move) for _ in range(2)], [threading.Thread(target=look) for _ in range(2)]
    for thread in movers + lookers:
        thread.start()
    for thread in lookers:
        thread.join()
    stop.set()
    for thread in movers:
        thread.join()
    assert not wrong, (len(wrong), wrong[0])
    os.close(fd)


def locks_hold_between_programs():
    fd = make("f", b"x")
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)
    try_all = ("import fcntl,os,sys\nfd=os.open('f',os.O_RDWR)\n"
               "for f in (lambda: fcntl.flock(fd,fcntl.LOCK_EX|fcntl.LOCK_NB), lambda: fcntl.lockf(fd,fcntl.LOCK_EX|fcntl.LOCK_NB,1,7)):\n"
               "  try: f()\n  except OSError: continue\n  sys.exit(1)\nfcntl.lockf(fd,fcntl.LOCK_EX|fcntl.LOCK_NB,1,20)\n")
    subprocess.run([sys.executable, "-c", try_all], check=True)
    subprocess.run(["env", "-u", "LD_PRELOAD", sys.executable, "-c", try_all], check=True)
    os.close(fd)


def record_locks_outlive_that_a_file_is_opened_again():
    fd = make("f", b"x" * 100)
    second = os.open("f", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)
    fcntl.lockf(second, fcntl.LOCK_EX, 10, 20)
    third = os.open("f", os.O_RDWR | os.O_CREAT)
    assert os.pread(third, 1, 0) == b"x"
    fcntl.lockf(third, fcntl.LOCK_EX, 10, 40)
    fourth = os.open("f", os.O_RDONLY)

    def other():
        mine = os.open("f", os.O_RDWR)
        for start in (0, 20, 40):
            raises(errno.EAGAIN, fcntl.lockf, mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, start)
        fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 60)

    in_child(other)
    os.close(fourth)  # and with any of them, all that the process has locked

    def all_free():
        mine = os.open("f", os.O_RDWR)
        fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)

    in_child(all_free)
    for each in (fd, second, third):
        os.close(each)


def files_do_not_grow_beyond_the_limit():
    fd = make("f", b"x" * 10)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
    assert os.write(fd, b"y" * 20) == 10
    raises(errno.EFBIG, os.write, fd, b"y")
    raises(errno.EFBIG, os.ftruncate, fd, 30)
    other = os.open("g", os.O_RDWR | os.O_CREAT)
    assert os.pwrite(other, b"y" * 30, 10) == 10
    raises(errno.EFBIG, os.truncate, "g", 30)
    raises(errno.EFBIG, os.posix_fallocate, other, 0, 30)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert os.write(fd, b"y" * 20) == 20
    os.close(fd)
    os.close(other)


def the_older_call_of_that_limit_counts():
    fd = make("f", b"x" * 10)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    libc.ulimit.restype = ctypes.c_long
    assert libc.ulimit(2, ctypes.c_long(1)) >= 0  # UL_SETFSIZE, of 512 bytes
    assert os.pwrite(fd, b"y" * 20, 500) == 12
    os.close(fd)


def names_that_the_c_library_has_besides_are_the_same_functions():
    fd = getattr(libc, "__open")(b"f", os.O_RDWR | os.O_CREAT, 0o644)
    assert getattr(libc, "__write")(fd, b"0123456789", 10) == 10
    assert getattr(libc, "__lseek")(fd, ctypes.c_long(2), os.SEEK_SET) == 2
    room = ctypes.create_string_buffer(4)
    assert getattr(libc, "__read")(fd, room, 4) == 4 and room.raw == b"2345"
    assert getattr(libc, "__pread64")(fd, room, 4, ctypes.c_long(1)) == 4 and room.raw == b"1234"
    assert getattr(libc, "__pwrite64")(fd, b"X", 1, ctypes.c_long(0)) == 1
    assert getattr(libc, "__fcntl")(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    assert getattr(libc, "__dup2")(fd, 77) == 77 and os.pread(77, 2, 0) == b"X1"
    assert getattr(libc, "__close")(fd) == 0 and getattr(libc, "__close")(77) == 0
    raises(errno.EBADF, os.pread, 77, 2, 0)


def no_file_is_a_terminal_or_a_socket():
    fd = make("f")
    for call in (os.tcgetpgrp, lambda number: os.tcsetpgrp(number, os.getpgrp())):
        raises(errno.ENOTTY, call, fd)
    for name, *arguments in (("tcgetsid",), ("tcdrain",), ("tcflow", 0), ("tcflush", 0), ("tcsendbreak", 0)):
        fd = make("f")
        assert getattr(libc, name)(fd, *arguments) == -1 and ctypes.get_errno() == errno.ENOTTY, (name, ctypes.get_errno())
    fd = make("f")
    assert libc.isfdtype(fd, stat.S_IFREG) == 1 and libc.isfdtype(fd, stat.S_IFSOCK) == 0


def lists_of_names_and_frames_go_where_they_should():
    os.makedirs("d/e")
    place = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    room, position = ctypes.create_string_buffer(4096), ctypes.c_long()
    assert libc.getdirentries(place, room, ctypes.c_size_t(4096), ctypes.byref(position)) > 0 and b"e\0" in room.raw
    fd = make("f")
    frames = (ctypes.c_void_p * 1)(ctypes.cast(libc.getpid, ctypes.c_void_p))
    libc.backtrace_symbols_fd(frames, 1, fd)
    assert os.fstat(fd).st_size > 0


def who_watches_is_told_of_what_it_does():
    def expect_events(number):
        top = f"d{number}"
        os.mkdir(top)
        os.close(make("elsewhere"))
        watch = libc.inotify_init1(os.O_NONBLOCK)
        if number:
            assert libc.syscall(number, watch, top.encode(), 0x306) > 0  # IN_MODIFY, ATTRIB, CREATE, DELETE
        else:
            assert libc.inotify_add_watch(watch, top.encode(), 0x306) > 0
        os.close(make(f"{top}/made", b"x"))
        os.chmod(f"{top}/made", 0o600)
        in_child(lambda: os.unlink(f"{top}/made"))
        events, masks = os.read(watch, 4096), []
        while events:
            _, mask, _, length = struct.unpack_from("iIII", events)
            masks.append(mask)
            events = events[16 + length:]
        assert masks == [0x100, 2, 4, 0x200], masks

    for number in (None, 254):  # SYS_inotify_add_watch
        in_child(lambda number=number: expect_events(number))


def what_was_opened_before_its_directory_is_watched_is_watched():
    os.makedirs("d/e")
    opened = {f"{i}": make(f"d/{i}") for i in range(300)}
    place = os.open("d/e", os.O_RDONLY | os.O_DIRECTORY)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, b"d", 2) > 0  # IN_MODIFY
    for fd in opened.values():
        os.write(fd, b"x")
    seen = set()
    try:
        while events := os.read(watch, 65536):
            while events:
                length = struct.unpack_from("iIII", events)[3]
                seen.add(events[16:16 + length].rstrip(b"\0").decode())
                events = events[16 + length:]
    except BlockingIOError:
        pass
    assert seen == set(opened), (len(opened), len(seen))
    os.close(place)


def what_is_opened_while_a_watch_begins_is_watched():
    def expect_events():
        opened, stop = [make("f")], threading.Event()
        watch = libc.inotify_init1(os.O_NONBLOCK)

        def open_many():
            while not stop.is_set() and len(opened) < 400:
                opened.append(os.open("f", os.O_RDWR))

        threads = [threading.Thread(target=open_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(opened) < 8:
            pass
        assert libc.inotify_add_watch(watch, b"f", 2) > 0  # IN_MODIFY
        stop.set()
        for thread in threads:
            thread.join()
        for fd in opened:
            os.write(fd, b"x")
            os.read(watch, 4096)

    for _ in range(20):
        in_child(expect_events)


def a_lease_is_broken_by_a_child():
    os.close(make("f"))
    fd = os.open("f", os.O_RDONLY)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    in_child(lambda: raises(errno.EAGAIN, os.open, "f", os.O_WRONLY | os.O_NONBLOCK))
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(fd)


def a_daemon_works_in_its_new_directory():
    os.mkdir("tmp")
    os.mkdir("dev")
    reader, writer = os.pipe()
    os.stat("tmp")
    if os.fork() == 0:
        if libc.daemon(0, 1) != 0:
            os._exit(1)
        os.write(writer, b"y" if os.path.exists("dev/null") else b"n")
        os._exit(0)
    os.wait()
    os.close(writer)
    assert os.read(reader, 1) == b"y"


def a_file_without_a_name_gets_one():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"named later")
    assert libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"f", 0x400) == 0  # AT_FDCWD, AT_SYMLINK_FOLLOW
    assert content("f") == b"named later" and os.fstat(fd).st_nlink == 1
    os.close(fd)


def lengths_are_checked_as_the_kernel_does():
    fd = make("f", b"0123456789")
    room = ctypes.create_string_buffer(16)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(room), 2**64 - 1)
    for call in (libc.readv, libc.writev):
        os.lseek(fd, 0, os.SEEK_SET)
        ctypes.set_errno(0)
        assert call(fd, part, 1) == -1 and ctypes.get_errno() == errno.EINVAL
    os.close(fd)


def a_call_that_succeeds_leaves_errno_alone():
    os.close(make("f", b"x"))
    os.mkdir("d")
    gone = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir("d")
    ctypes.set_errno(0)
    path = os.path.join(os.getcwd(), "f").encode()
    assert libc.syscall(265, gone, path, gone, path + b"2", 0) == 0 and ctypes.get_errno() == 0  # linkat
    os.close(gone)


def system_calls_with_a_function_are_the_functions():
    fd = make("f", b"0123456789")
    room = ctypes.create_string_buffer(256)
    assert libc.syscall(17, fd, room, 4, 2) == 4 and room.raw[:4] == b"2345"  # pread64
    assert libc.syscall(18, fd, b"ab", 2, 10) == 2  # pwrite64
    assert libc.syscall(332, -100, b"f", 0, 0x200, room) == 0  # statx, its size
    assert int.from_bytes(room.raw[40:48], "little") == 12
    assert libc.syscall(285, fd, 0, 0, 100) == 0 and os.fstat(fd).st_size == 100  # fallocate
    other = libc.syscall(257, -100, b"g", os.O_CREAT | os.O_RDWR, 0o600)  # openat
    os.lseek(fd, 0, os.SEEK_SET)
    assert libc.syscall(326, fd, None, other, None, 12, 0) == 12 and content("g") == b"0123456789ab"  # copy_file_range
    assert libc.syscall(316, -100, b"g", -100, b"f", 1) == -1  # renameat2, RENAME_NOREPLACE
    assert libc.syscall(316, -100, b"g", -100, b"h", 1) == 0 and content("h") == b"0123456789ab"
    os.close(fd)
    os.close(other)


def ranges_are_cloned():
    page = 4096
    text = b"".join(bytes([65 + k]) * page for k in range(4)) + b"end"
    source, target = make("f", text), make("g", b"x" * (6 * page))

    def clone(start, length, to, argument=None):
        # FICLONERANGE
        fcntl.ioctl(target, 0x4020940D, argument or struct.pack("qQQQ", source, start, length, to))

    if "gpu4fs_preload" not in os.environ.get("LD_PRELOAD", ""):
        raises_any(clone, 0, page, 0)  # FUSE has no such thing
        return
    clone(page, 2 * page, 3 * page)
    assert os.pread(target, 7 * page, 0) == b"x" * 3 * page + text[page : 3 * page] + b"x" * page
    raises(errno.EINVAL, clone, 1, page, 0)
    raises(errno.EINVAL, clone, 0, 5 * page, 0)  # more than there is
    raises(errno.EINVAL, clone, 5 * page, 0, 0)
    raises(errno.EINVAL, clone, 0, page, 1 << 63)
    raises(errno.EINVAL, clone, 4 * page, 0, 0)  # an end that is inside of the target
    assert os.pread(target, 7 * page, 0) == b"x" * 3 * page + text[page : 3 * page] + b"x" * page
    clone(3 * page, 0, 6 * page)  # up to the end
    assert content("g")[6 * page :] == text[3 * page :]
    raises_any(clone, 0, 0, 0, struct.pack("qQQQ", 1000, 0, page, 0))
    os.close(source)
    os.close(target)


def equal_ranges_become_one():
    page = 4096
    source, target, other = make("f", b"a" * 3 * page), make("g", b"a" * 2 * page + b"b" * page), make("h", b"c" * 3 * page)

    def dedupe(length, *targets, reserved=0):
        request = bytearray(struct.pack("QQHHI", 0, length, len(targets), reserved, 0))
        for fd, to in targets:
            request += struct.pack("qQQiI", fd, to, 7, 7, 0)
        fcntl.ioctl(source, 0xC0189436, request)  # FIDEDUPERANGE
        return [struct.unpack_from("qQQiI", request, 24 + 32 * k)[2:4] for k in range(len(targets))]

    if "gpu4fs_preload" not in os.environ.get("LD_PRELOAD", ""):
        return  # FUSE has no such thing
    assert dedupe(2 * page, (target, 0), (other, 0), (target, 1)) == [(2 * page, 0), (0, 1), (0, -errno.EINVAL)]
    assert dedupe(3 * page, (target, 0)) == [(2 * page, 0)]
    assert dedupe(page, (target, 2 * page)) == [(0, 1)]
    raises(errno.EINVAL, dedupe, page, (target, 0), reserved=1)
    assert dedupe(page, (1000, 0))[0][1] < 0
    assert content("g") == b"a" * 2 * page + b"b" * page and content("h") == b"c" * 3 * page
    for fd in (source, target, other):
        os.close(fd)


def a_removed_directory_still_has_attributes():
    os.mkdir("d")
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir("d")
    assert os.stat(".", dir_fd=fd).st_nlink == 0 and os.listdir(fd) == []
    raises(errno.ENOENT, os.stat, "x", dir_fd=fd)
    raises(errno.ENOENT, os.mkdir, "x", dir_fd=fd)
    os.close(fd)


def nothing_happens_elsewhere_below_a_removed_directory():
    """What is gone cannot be handed over; the kernel must not get what stands for it in its place."""
    top = os.path.dirname(os.path.dirname(os.getcwd()))
    kept = os.path.join(top, "kept")
    os.close(make(kept, b"kept", os.O_RDWR))
    os.mkdir("d")
    gone = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir("d")
    file = make("f", b"x")
    mode = os.stat(kept).st_mode
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    for call in ((263, gone, b"kept", 0), (258, gone, b"made", 0o755), (259, gone, b"made", 0o10644, 0), (260, gone, b"kept", 1, 1, 0),
                 (264, gone, b"kept", here, b"taken"), (264, here, b"f", gone, b"made"), (266, b"text", gone, b"made"),
                 (268, gone, b"kept", 0)):
        assert libc.syscall(*call) == -1, call
    assert libc.mknodat(gone, b"made", stat.S_IFIFO | 0o644, 0) == -1
    assert libc.mkfifoat(gone, b"made", 0o644) == -1
    assert libc.fchmodat(gone, b"kept", 0, 0x100) == -1  # AT_SYMLINK_NOFOLLOW
    raises_any(os.open, "kept", os.O_PATH, dir_fd=gone)
    raises_any(os.rename, "kept", "taken", src_dir_fd=gone, dst_dir_fd=here)
    raises_any(os.stat, "kept", dir_fd=gone)

    def child():
        raises_any(os.unlink, "kept", dir_fd=gone)
        raises_any(os.stat, "kept", dir_fd=gone)

    in_child(child)
    subprocess.run([sys.executable, "-c", f"import os\ntry: os.unlink('kept', dir_fd={gone})\nexcept OSError: pass"], check=True,
                   pass_fds=(gone,))
    assert os.stat(kept).st_mode == mode and os.stat(kept).st_uid == os.geteuid()
    raises(errno.ENOENT, os.lstat, os.path.join(top, "made"))
    os.mkdir(os.path.join(os.getcwd(), "made"), dir_fd=gone)  # a path from / begins nowhere else
    for fd in (gone, file, here):
        os.close(fd)
    os.unlink(kept)


def nothing_happens_elsewhere_without_a_free_number():
    top = os.path.dirname(os.path.dirname(os.getcwd()))
    kept = os.path.join(top, "kept")
    os.close(make(kept, b"kept"))

    def other():
        os.mkdir("d")
        d = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (d + 1, d + 1))
        assert libc.syscall(263, d, b"kept", 0) == -1
        assert libc.mkfifoat(d, b"made", 0o644) in (0, -1)

        def child():
            raises_any(os.unlink, "kept", dir_fd=d)
        in_child(child)
        if os.geteuid() == 0:
            os.seteuid(65534)
            os.seteuid(0)
        raises_any(os.unlink, "kept", dir_fd=d)

    in_child(other)
    assert content(kept) == b"kept"
    raises(errno.ENOENT, os.lstat, os.path.join(top, "made"))
    os.unlink(kept)


def threads_share_what_is_open():
    fd = make("f", b"", os.O_RDWR | os.O_APPEND)
    line = b"0123456789abcde\n"

    def work(number):
        for i in range(50):
            os.write(fd, line)
            own = make(f"t{number}.{i}", line)
            assert os.pread(own, 100, 0) == line
            os.close(own)
            os.unlink(f"t{number}.{i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        in_child(lambda: os.write(fd, line))
    for thread in threads:
        thread.join()
    os.lseek(fd, 0, os.SEEK_SET)
    assert content("f") == line * 205, len(content("f"))
    assert os.listdir(".") == ["f"]
    os.close(fd)


def signals_come_between_calls():
    came = []

    def handler(*_):  # asks for the next one itself: on a busy machine those of a clock would not let it end
        came.append(os.close(make("from-handler", b"x")))
        if len(came) < 50:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while len(came) < 50:
        os.close(make("f", b"x" * 1000))
        os.unlink("f")
    assert os.stat("from-handler").st_size == 1


def the_umask_and_the_user_are_the_programs():
    old = os.umask(0o077)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir("d")
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o600 and stat.S_IMODE(os.stat("d").st_mode) == 0o700
    os.umask(old)
    if os.geteuid() != 0:
        return

    def other():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        raises(errno.EACCES, os.open, "f", os.O_RDONLY)
        raises(errno.EACCES, os.unlink, "d/x")
        raises(errno.EACCES, os.mkdir, "e")

    in_child(other)
    os.chmod(".", 0o777)

    def own():
        os.setgid(65534)
        os.setuid(65534)
        os.close(make("own", b"x"))
        assert os.stat("own").st_uid == 65534

    in_child(own)


def a_listing_goes_on_behind_a_fork():
    for i in range(300):
        os.close(os.open(f"n{i:03}", os.O_CREAT | os.O_WRONLY))
    with os.scandir(".") as stream:
        names = [next(stream).name for _ in range(100)]
        in_child(lambda: None)
        names += [entry.name for entry in stream]
    assert sorted(names) == [f"n{i:03}" for i in range(300)], len(names)


def files_are_always_ready():
    fd = make("f", b"x")
    assert select.select([fd], [fd], [], 0) == ([fd], [fd], [])
    fd2 = make("g", b"x")
    poller = select.poll()
    poller.register(fd2, select.POLLIN)
    assert poller.poll(0) == [(fd2, select.POLLIN)]
    assert not os.isatty(make("h", b"x"))
    os.close(fd)
    os.close(fd2)


def space_and_attributes_are_kept():
    fd = make("f", b"x")
    os.posix_fallocate(fd, 0, 100000)
    assert os.fstat(fd).st_size == 100000
    os.ftruncate(fd, 10)
    os.utime(fd, ns=(1_000_000_001, 2_000_000_002))
    os.setxattr(fd, "user.a", b"value")
    os.fchmod(fd, 0o604)
    os.fsync(fd)
    st = os.stat("f")
    assert (st.st_atime_ns, st.st_mtime_ns, st.st_size, stat.S_IMODE(st.st_mode)) == (1_000_000_001, 2_000_000_002, 10, 0o604)
    assert os.getxattr("f", "user.a") == b"value" and os.listxattr("f") == ["user.a"]
    out = subprocess.run(["env", "-u", "LD_PRELOAD", "stat", "-c", "%d %i %s %a %Y", "f"], check=True, stdout=subprocess.PIPE).stdout
    assert out.split() == [b"%d" % st.st_dev, b"%d" % st.st_ino, b"10", b"604", b"2"], (out, st)
    assert os.statvfs("f").f_bsize == os.fstatvfs(fd).f_bsize
    os.close(fd)


def copies_are_made_inside():
    source = make("f", b"0123456789" * 1000)
    target = make("g", b"")
    assert os.copy_file_range(source, target, 10000, 0, 0) == 10000
    assert content("g") == b"0123456789" * 1000
    os.lseek(source, 5, os.SEEK_SET)
    os.lseek(target, 0, os.SEEK_SET)
    assert os.sendfile(target, source, None, 5) == 5
    assert os.pread(target, 10, 0) == b"5678956789" and os.lseek(source, 0, os.SEEK_CUR) == 10
    os.close(source)
    os.close(target)


def files_of_any_size_are_cloned():
    if "gpu4fs_preload" not in os.environ.get("LD_PRELOAD", ""):
        return  # FUSE has no FICLONE
    for size in (0, 1, 128, 129, 4095, 4096, 4097, 10000, 40960, 1000001):
        text = (b"%07d" % size) * (size // 7 + 1)
        source = make("f", text[:size])
        target = make("g")
        fcntl.ioctl(target, 0x40049409, source)  # FICLONE
        assert os.fstat(target).st_size == size and os.pread(target, size + 1, 0) == text[:size], size
        assert content("g") == text[:size]
        os.close(source)
        os.close(target)


def system_calls_by_number_work_on_files():
    source = make("f", b"0123456789")
    target = make("g")
    zero = ctypes.c_longlong(0)
    assert libc.syscall(326, source, ctypes.byref(zero), target, None, ctypes.c_size_t(10), 0) == 10  # copy_file_range
    assert os.pread(target, 20, 0) == b"0123456789"
    if "gpu4fs_preload" in os.environ.get("LD_PRELOAD", ""):
        assert libc.syscall(425, 4, None) == -1 and ctypes.get_errno() == errno.ENOSYS  # io_uring_setup
    libc.syscall(3, target)
    raises(errno.EBADF, os.fstat, target)
    os.close(source)


def blocks_are_submitted_without_another_library():
    submit = getattr(libc, "io_submit", None)
    if submit:
        assert submit(None, 0, None) == -errno.EINVAL


def number_of(name):
    """Of a system call of x86-64."""
    return {"fork": 57, "chdir": 80, "fchdir": 81, "umask": 95, "setresuid": 117, "setresgid": 119}[name]


def a_working_directory_that_is_changed_by_number_is_noticed():
    here = os.getcwd()
    for name in ("one", "two", "three"):
        os.mkdir(name)
        os.close(make(f"{name}/f", name.encode()))
    os.chdir("one")
    assert os.stat("f").st_size == 3 and os.read(os.open("f", os.O_RDONLY), 9) == b"one"
    assert libc.syscall(number_of("chdir"), os.path.join(here, "two").encode()) == 0
    assert os.read(os.open("f", os.O_RDONLY), 9) == b"two"
    place = os.open("../three", os.O_RDONLY | os.O_DIRECTORY)
    assert libc.syscall(number_of("fchdir"), place) == 0
    assert os.read(os.open("f", os.O_RDONLY), 9) == b"three"
    os.chdir(here)


def a_umask_that_is_set_by_number_is_the_programs():
    os.close(make("before"))
    old = libc.syscall(number_of("umask"), 0o077)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o666))
    os.umask(old)
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o600


def whoever_has_changed_may_not_do_with_open_files_what_root_may():
    if os.geteuid() != 0:
        return
    os.chmod(".", 0o777)

    def by_name():
        os.seteuid(65534)

    def by_number():
        assert libc.syscall(number_of("setresuid"), 65534, 65534, 65534) == 0

    def of_one_group():
        os.setgroups([])
        assert libc.syscall(number_of("setresgid"), 65534, 65534, 65534) == 0
        os.setresuid(65534, 65534, 65534)

    for change in (by_name, by_number, of_one_group):

        def other():
            fd = make("f", b"root's")
            os.fchmod(fd, 0o600)
            change()
            raises(errno.EPERM, os.fchmod, fd, 0o666)
            raises(errno.EPERM, os.fchown, fd, 65534, 65534)
            raises(errno.EACCES, os.open, "f", os.O_RDONLY)
            assert os.pread(fd, 9, 0) == b"root's"  # what is open stays so
            own = make("own", b"x")
            assert os.fstat(own).st_uid == 65534
            os.unlink("own")

        in_child(other)
        assert stat.S_IMODE(os.stat("f").st_mode) == 0o600


def an_open_file_that_cannot_be_handed_over_is_nobodys_behind_setuid():
    if os.geteuid() != 0:
        return

    def other():
        fd = make("f", b"root's")
        resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, fd + 1))  # no number for another one
        os.seteuid(65534)
        try:
            os.fchmod(fd, 0o666)
        except OSError as error:
            assert error.errno in (errno.EPERM, errno.EBADF), error

    in_child(other)
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o644


def expect_a_fork(fork):
    fd = make("f", b"0123456789")
    os.lseek(fd, 0, os.SEEK_SET)
    child = fork()
    if child == 0:
        good = os.read(fd, 4) == b"0123" and os.stat("f").st_size == 10
        os.close(make("child", b"x"))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(fd, 4) == b"4567" and content("child") == b"x" and os.stat("child").st_size == 1
    os.close(fd)


def a_child_by_number_shares_what_is_open():
    expect_a_fork(lambda: libc.syscall(number_of("fork")))


def a_fork_without_handlers_is_a_fork():
    expect_a_fork(lambda: libc._Fork())


def a_fork_that_fails_says_why():
    if os.getuid() != 0:
        return
    os.close(make("f"))
    raises_any(os.open, "none", os.O_RDONLY)

    def fork_in_vain():
        os.setuid(12345)  # who has no other process
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        for fork in (os.fork, lambda: check(libc.fork()), lambda: check(libc.vfork()), lambda: check(libc.syscall(57))):
            raises(errno.ENOENT, os.stat, "none")
            raises(errno.EAGAIN, fork)

    def check(pid):
        if pid == 0:
            os._exit(0)
        if pid < 0:
            raise OSError(ctypes.get_errno(), "fork")

    in_child(fork_in_vain)


def a_clone_is_a_fork_or_a_thread():
    fd = make("f", b"0123456789")
    os.lseek(fd, 0, os.SEEK_SET)
    stack = mmap.mmap(-1, 1 << 20)
    top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + (1 << 20)

    def work(_):
        good = os.read(fd, 4) == b"0123" and os.stat("f").st_size == 10
        os.close(make("child", b"x"))
        return 0 if good else 1

    main_of_it = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(work)
    pid = libc.clone(main_of_it, ctypes.c_void_p(top), signal.SIGCHLD, None, None, None, None)
    assert pid > 0 and os.waitpid(pid, 0)[1] == 0
    assert os.read(fd, 4) == b"4567" and content("child") == b"x" and os.stat("child").st_size == 1
    os.close(fd)


def a_child_with_the_same_numbers_leaves_the_connection():
    def sockets():
        found = set()
        for number in os.listdir("/proc/self/fd"):
            try:
                found.add((number, os.readlink("/proc/self/fd/" + number)))
            except FileNotFoundError:
                pass
        return {each for each in found if each[1].startswith("socket:")}

    os.close(make("f", b"0123456789"))
    before = sockets()
    clone_files = 0x400
    child = libc.syscall(56, clone_files | signal.SIGCHLD, None, None, None, None)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert before <= sockets()
    fd = os.open("f", os.O_RDONLY)
    stack = mmap.mmap(-1, 1 << 20)
    top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + (1 << 20)
    main_of_it = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0 if os.read(fd, 4) == b"0123" else 1)
    child = libc.clone(main_of_it, ctypes.c_void_p(top), clone_files | signal.SIGCHLD, None, None, None, None)
    assert child > 0 and os.waitpid(child, 0)[1] == 0
    assert before <= sockets() and os.read(fd, 9) == b"456789"
    os.close(fd)


def system_calls_wait_for_files_and_pass_them_on():
    class Poll(ctypes.Structure):
        _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]

    fd = make("f", b"0123456789")
    polled = Poll(fd, select.POLLIN, 0)
    assert libc.syscall(7, ctypes.byref(polled), 1, 0) == 1 and polled.revents == select.POLLIN
    os.close(fd)

    fd = make("f", b"0123456789")
    bits = (ctypes.c_ulong * 16)()
    bits[fd // 64] = 1 << fd % 64
    assert libc.syscall(23, fd + 1, bits, None, None, (ctypes.c_long * 2)(0, 0)) == 1
    os.close(fd)

    fd = make("f", b"0123456789")
    bits[fd // 64] = 1 << fd % 64
    assert libc.pselect(fd + 1, bits, None, None, (ctypes.c_long * 2)(0, 0), None) == 1
    os.close(fd)

    fd = make("f", b"0123456789")
    epoll = select.epoll()
    event = (ctypes.c_uint32 * 3)(select.EPOLLIN, 0, 0)
    assert libc.syscall(233, epoll.fileno(), 1, fd, event) == 0 and epoll.poll(0) == [(0, select.EPOLLIN)]
    os.close(fd)

    left, right = socket.socketpair()
    fd = make("f", b"passed on")
    os.lseek(fd, 7, os.SEEK_SET)
    for number in (46, 307):  # sendmsg, sendmmsg
        byte = ctypes.create_string_buffer(b"x")
        part = (ctypes.c_void_p * 2)(ctypes.addressof(byte), 1)
        control = (ctypes.c_uint32 * 6)(20, 0, socket.SOL_SOCKET, socket.SCM_RIGHTS, fd, 0)
        message = (ctypes.c_void_p * 8)(None, 0, ctypes.addressof(part), 1, ctypes.addressof(control), 24, 0, 0)
        assert libc.syscall(number, left.fileno(), message, 0 if number == 46 else 1, 0) == 1
        _, rights, _, _ = right.recvmsg(1, socket.CMSG_SPACE(4))
        got = array.array("i", rights[0][2][:4])[0]
        os.lseek(got, 7, os.SEEK_SET)
        assert os.read(got, 10) == b"on"
        os.close(got)
    os.close(fd)


def close_range_with_a_table_of_its_own():
    fd = make("f", b"the engine's")
    assert libc.close_range(fd, 2**32 - 1, 2) == 0  # CLOSE_RANGE_UNSHARE
    raises(errno.EBADF, os.read, fd, 1)
    other = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    assert other == fd and os.write(other, b"another's") == 9 and os.pread(other, 99, 0) == b"another's"
    assert content("f") == b"the engine's"
    again = os.open("f", os.O_RDWR)
    assert os.read(again, 99) == b"the engine's"


def descriptors_of_a_thread_of_its_own():
    for by_number in (False, True):
        fd = make("f", b"01")
        done = []

        def part():
            done.append(libc.syscall(272, 0x400) if by_number else libc.unshare(0x400))  # CLONE_FILES
            done.append(os.write(fd, b"4"))

        thread = threading.Thread(target=part)
        thread.start()
        thread.join()
        assert done == [0, 1] and os.write(fd, b"3") == 1 and content("f") == b"0143"
        os.close(fd)


def a_child_in_the_same_memory():
    stack = ctypes.create_string_buffer(1 << 20)
    top = ctypes.c_void_p((ctypes.addressof(stack) + len(stack)) & ~15)
    child = libc.clone(libc.creat, top, 0x4100 | signal.SIGCHLD, b"childs", 0, 0, 0)  # CLONE_VM, CLONE_VFORK
    assert child > 0 and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) > 2
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    assert os.write(fd, b"the parent's") == 12 and os.pread(fd, 99, 0) == b"the parent's"
    os.close(fd)
    assert content("childs") == b""


def fork_beside_a_thread_that_hands_streams_over():
    libc.opendir.restype = ctypes.c_void_p
    libc.closedir.argtypes = [ctypes.c_void_p]
    stop = threading.Event()

    def spawn():
        arguments = (ctypes.c_char_p * 2)(b"nothing", None)
        while not stop.is_set():
            streams = [libc.opendir(os.fsencode(os.getcwd())) for _ in range(20)]
            libc.posix_spawn(None, b"/nonexistent", None, None, arguments, arguments)
            for stream in streams:
                libc.closedir(stream)

    thread = threading.Thread(target=spawn)
    thread.start()
    ends = []
    for _ in range(100):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends one that hangs
            stream = libc.opendir(os.fsencode(os.getcwd()))
            os._exit(0 if stream and libc.closedir(stream) == 0 else 1)
        ends.append(os.waitpid(child, 0)[1])
        if ends[-1]:
            break
    stop.set()
    thread.join()
    assert not any(ends), ends


HELPERS = ("mapping_functions", "make", "content", "raises", "raises_any", "in_child", "number_of", "expect_a_fork", "main", "take_all_numbers", "folders", "realpath", "stream")


def main(names):
    """Runs the tests among the names of a program; its arguments choose."""
    top = sys.argv[1]
    wanted = sys.argv[2:]
    failed = 0
    for name, test in sorted(names.items()):
        if name in HELPERS or not callable(test) or getattr(test, "__module__", None) != "__main__":
            continue
        if wanted and test.__name__ not in wanted:
            continue
        place = os.path.join(top, test.__name__)

        def run():
            os.mkdir(place)
            os.chdir(place)
            test()

        try:
            in_child(run)
            print("ok -", test.__name__.replace("_", " "), flush=True)
        except AssertionError:
            failed += 1
            print("not ok -", test.__name__.replace("_", " "), flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main(globals())
