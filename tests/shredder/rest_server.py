#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of restic's REST protocol, version 2, written after its documentation: what shredder's client is tested with.

Usage: rest_server.py FOLDER PORT-FILE

Serves FOLDER, which holds config and data/, keys/, locks/, snapshots/, index/. Writes the port into PORT-FILE. Reads the file
FOLDER.faults before each request and behaves badly once for each line in it, taken from its beginning, or with "FAULT:KIND" as its
only line at each request for a file or a list of that kind, config among them:

    503         answers so
    cut         closes the connection in the middle of the answer
    drop        does what was asked and closes the connection without an answer
    long        sends more than was asked for
    short       sends less than it says, and says less than was asked for
    403         refuses, with control characters in its words
    swap        sends another file of the same kind
    names       a list with names that lead elsewhere, twice the same, and of what is not there
    huge        a list or an answer that says impossible sizes
    redirect    sends the client to a file of its own machine
    endless     sends zeros until the client hangs up
    older       says that there is less than there is
    nothing     an empty answer

All requests with their headers go into FOLDER.requests.
"""

import http.server
import json
import os
import pathlib
import re
import sys

FOLDER = pathlib.Path(sys.argv[1])
TYPES = ("data", "keys", "locks", "snapshots", "index")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # an answer in one piece

    def log_message(self, *_):
        pass

    def fault(self):
        path = pathlib.Path(f"{FOLDER}.faults")
        lines = path.read_text().split() if path.exists() else []
        if lines and ":" in lines[0]:
            fault, _, kind = lines[0].partition(":")
            return fault if self.path.split("/")[1] == kind else ""
        if lines:
            path.write_text("\n".join(lines[1:]))
        return lines[0] if lines else ""

    def hostile(self, kind, body, fault, begin):
        """An attacker's answer in the place of `body`; None: there is none such."""
        names = sorted(p for p in (FOLDER / kind).glob("*") if p.is_file()) if kind in TYPES else []
        listed = [{"name": p.name, "size": p.stat().st_size} for p in names]
        if fault == "swap" and self.path.endswith("/"):
            return json.dumps([entry | {"name": other["name"]} for entry, other in zip(listed, listed[1:] + listed[:1])]).encode()
        if fault == "swap":
            others = (p.read_bytes()[begin:begin + len(body)] for p in names)
            return next((other for other in others if other != body and len(other) == len(body)), bytes(len(body)))
        if fault == "names":
            bad = ["../../../escaped", "/etc/passwd", "..", "", "0" * 63 + "/", "f" * 64, "F" * 64, "a" * 300]
            return json.dumps([{"name": name, "size": 100} for name in bad] + listed * 2).encode()
        if fault == "huge":
            return json.dumps([entry | {"size": 2**63 - 1} for entry in listed]).encode()
        if fault == "older":
            return json.dumps(listed[:len(listed) // 2]).encode()
        return b"" if fault == "nothing" else None

    def endless(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2**62))
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 20))
        except OSError:
            self.close_connection = True

    def answer(self, status, body=b"", fault="", **headers):
        if fault == "endless" and self.command == "GET":
            return self.endless()
        if fault == "redirect":
            status, body, headers = 302, b"", {"Location": "file:///etc/hostname"}
        begin = int(re.match(r"(bytes )?(\d*)", headers.get("Content_Range", "0"))[2])
        other = self.hostile(self.path.split("/")[1], body, fault, begin) if status < 300 else None
        body = body if other is None else other
        self.send_response(status)
        sent = body
        if fault == "long":
            sent = body = body + b"x" * 1000
        if fault == "short":
            sent = body = body[:-1]
        if fault == "cut":
            sent = body[:len(body) // 2]
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)
        if fault == "cut":
            self.close_connection = True
        return None

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.fault()
        with open(f"{FOLDER}.requests", "ab") as requests:
            requests.write(f"{self.requestline}\n{self.headers}".encode())
        if fault == "503":
            return self.answer(503, b"later")
        if fault == "403":
            return self.answer(403, b"no\x1b[31m\nway")
        found = re.fullmatch(r"/(?:(\?create=true)|(config)|([a-z]+)/([0-9a-f]{64})?)", self.path)
        if not found or (found[3] and found[3] not in TYPES):
            return self.answer(404)
        file = FOLDER / (found[2] or f"{found[3]}/{found[4]}")
        if found[1] and self.command == "POST":
            for name in TYPES:
                (FOLDER / name).mkdir(parents=True, exist_ok=True)
            return self.answer(200)
        if found[3] and not found[4]:
            if "v2" not in self.headers.get("Accept", ""):
                return self.answer(406)
            names = sorted((FOLDER / found[3]).glob("*"))
            listed = [{"name": name.name, "size": name.stat().st_size} for name in names]
            return self.answer(200, json.dumps(listed).encode(), fault)
        if self.command == "POST":
            if file.exists():
                return self.answer(403, b"it is there")
            temporary = file.with_suffix(".new")
            temporary.write_bytes(body)
            temporary.rename(file)
            if fault == "drop":
                self.close_connection = True
                return None
            return self.answer(200)
        if not file.is_file():
            return self.answer(404, b"there is none")
        if self.command == "DELETE":
            file.unlink()
            if fault == "drop":
                self.close_connection = True
                return None
            return self.answer(200)
        data = file.read_bytes()
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not part:
            return self.answer(200, data, fault)
        if int(part[1]) >= len(data):
            return self.answer(416)
        wanted = data[int(part[1]):int(part[2]) + 1]
        return self.answer(206, wanted, fault, Content_Range=f"bytes {part[1]}-{int(part[1]) + len(wanted) - 1}/{len(data)}")

    do_HEAD = do_GET = do_POST = do_DELETE = serve


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
pathlib.Path(sys.argv[2] + ".new").write_text(f"{server.server_address[1]}\n")
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.serve_forever()
