#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of restic's REST protocol, version 2, written after its documentation: what shredder's client is tested with.

Usage: rest_server.py FOLDER PORT-FILE

Serves FOLDER, which holds config and data/, keys/, locks/, snapshots/, index/. Writes the port into PORT-FILE. Reads the file
FOLDER.faults before each request and behaves badly once for each line in it, taken from its beginning:

    503         answers so
    cut         closes the connection in the middle of the answer
    drop        does what was asked and closes the connection without an answer
    long        sends more than was asked for
    short       sends less than it says, and says less than was asked for
    403         refuses, with control characters in its words
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
        if lines:
            path.write_text("\n".join(lines[1:]))
        return lines[0] if lines else ""

    def answer(self, status, body=b"", fault="", **headers):
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

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.fault()
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
