#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program at its limit of descriptors locks a file, which becomes the kernel's for that under one of the file's own numbers. While it waits for the
server's answer, its other threads go on: at_limit.py TOOL SOCKET DIRECTORY RELAY. What the two say to each other passes through here (at RELAY), and the answer is
kept back until the other thread has gone on."""
import os
import socket
import subprocess
import sys
import threading

tool, server, top, place = sys.argv[1:]

PROGRAM = """
import fcntl, os, resource, sys, threading
os.chdir(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
locked = os.open("locked", os.O_CREAT | os.O_RDWR)
other = os.open("other", os.O_CREAT | os.O_RDWR)
os.write(other, b"text")
try:
    while True:
        os.dup(2)
except OSError:
    pass
result = []

def lock():
    try:
        fcntl.flock(locked, fcntl.LOCK_EX)
        result.append("locked")
    except OSError as error:
        result.append(error)

thread = threading.Thread(target=lock)
thread.start()
sys.stdin.readline()
print("went on" if os.pread(other, 9, 0) == b"text" and os.lseek(other, 0, os.SEEK_CUR) == 4 else "failed", flush=True)
thread.join()
os.write(locked, b"written")
print(result[0], os.pread(locked, 9, 0).decode(), flush=True)
"""
ANSWER_BYTES = 16  # struct g4_hand_over_answer
answers = 0
child = None


def pass_on(source, target, is_server):
    global answers
    first = True
    while True:
        try:
            message, fds, _, _ = socket.recv_fds(source, 4096, 3)
        except OSError:
            message, fds = b"", []
        if not message:
            break
        if is_server and not first and len(message) == ANSWER_BYTES:
            answers += 1
            if answers == 2:  # the first one finds no number, and what it brings is lost
                child.stdin.write(b"asked\n")
                child.stdin.flush()
                print(child.stdout.readline().decode().strip(), flush=True)
        first = False
        try:
            socket.send_fds(target, [message], fds)
        except OSError:
            pass
        for fd in fds:
            os.close(fd)
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def accept(listener):
    while True:
        client, _ = listener.accept()
        beyond = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        beyond.connect(server)
        for source, target in ((client, beyond), (beyond, client)):
            threading.Thread(target=pass_on, args=(source, target, source is beyond), daemon=True).start()


relay = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
relay.bind(place)
relay.listen()
threading.Thread(target=accept, args=(relay,), daemon=True).start()
child = subprocess.Popen([tool, "run", "-m", f"{place}={top}", sys.executable, "-c", PROGRAM, top], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.wait()
print(child.stdout.read().decode().strip(), flush=True)
