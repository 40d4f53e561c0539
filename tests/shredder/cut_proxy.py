#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes connections on to a site, and cuts one of them.

Usage: cut_proxy.py PORT BYTES FILE [hang]

Cuts the first connection over which more than BYTES bytes have come from the client, when the site has all of these. With
"hang" the site does not see that: its side of the connection stays open. FILE
gets a line with its port, and when the proxy is told to end (SIGTERM) one with the bytes that have come from clients.
"""

import pathlib
import signal
import socket
import sys
import threading

site_port, limit, file = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
hangs = sys.argv[4:] == ["hang"]
listener = socket.create_server(("127.0.0.1", 0))
lock = threading.Lock()
sent = 0
cut = False
closed = threading.Event()  # the site has noticed
closed.set()


def forward(client, site):
    """The site's answers."""
    try:
        while data := site.recv(65536):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def connection(client):
    global sent, cut
    closed.wait()
    site = socket.create_connection(("127.0.0.1", site_port))
    answers = threading.Thread(target=forward, args=(client, site))
    answers.start()
    came, ending = 0, False
    try:
        while not ending and (data := client.recv(65536)):
            site.sendall(data)
            with lock:
                sent += len(data)
                came += len(data)
                ending = came > limit and not cut
                cut = cut or ending
    except OSError:
        pass
    if ending:
        client.shutdown(socket.SHUT_RDWR)
        client.close()
    if ending and hangs:
        answers.join()
        return
    if ending:
        closed.clear()
    try:
        site.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    answers.join()
    closed.set()


def end(_signal, _frame):
    with file.open("a") as out:
        out.write(f"{sent}\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
file.write_text(f"{listener.getsockname()[1]}\n")
while True:
    threading.Thread(target=connection, args=(listener.accept()[0],), daemon=True).start()
