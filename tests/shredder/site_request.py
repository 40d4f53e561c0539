#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One request to a site, as a client may make it that is not shredder.

Usage: site_request.py PORT IDENTITY METHOD PATH [BODY-FILE]     prints the status and the answer's words
       site_request.py --tls12 PORT IDENTITY                     prints whether TLS 1.2 is spoken
       site_request.py --part PORT IDENTITY PATH                 sends the head of a long upload and a part of it, and goes
       site_request.py --rest PORT IDENTITY PATH FILE            sends half of a file and goes; sends the rest, first one that
                                                                 does not fit; prints the statuses
"""

import http.client
import pathlib
import ssl
import sys


def connect(port, identity, context=None):
    context = context or ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity != "none":
        context.load_cert_chain(identity)
    return http.client.HTTPSConnection("127.0.0.1", int(port), context=context, timeout=30)


if sys.argv[1] == "--tls12":
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        connect(sys.argv[2], sys.argv[3], old).connect()
        print("spoken")
    except OSError:
        print("refused")
elif sys.argv[1] == "--part":
    connection = connect(sys.argv[2], sys.argv[3])
    connection.putrequest("POST", sys.argv[4])
    connection.putheader("Content-Length", "10000000")
    connection.endheaders()
    connection.send(b"x" * 100000)
    connection.close()
elif sys.argv[1] == "--rest":
    port, identity, path = sys.argv[2:5]
    body = pathlib.Path(sys.argv[5]).read_bytes()

    def post(data, content_range=None):
        connection = connect(port, identity)
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(len(data)))
        if content_range:
            connection.putheader("Content-Range", content_range)
        connection.endheaders()
        try:
            connection.send(data)
        except OSError:
            pass  # it may answer before it has read all
        return connection.getresponse().status

    def received(who):
        connection = connect(port, who)
        connection.request("HEAD", path)
        return int(connection.getresponse().getheader("Shredder-Received", "0"))

    half = len(body) // 2
    connection = connect(port, identity)
    connection.putrequest("POST", path)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    connection.send(body[:half])
    connection.close()
    while not (came := received(identity)):
        pass
    print(came <= half, post(body[1:], f"bytes 1-{len(body) - 1}/{len(body)}"),
          post(body[came:], f"bytes {came}-{len(body) - 1}/{len(body)}"), received(identity))
else:
    port, identity, method, path = sys.argv[1:5]
    body = pathlib.Path(sys.argv[5]).read_bytes() if len(sys.argv) > 5 else None
    connection = connect(port, identity)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        print(answer.status, answer.read(200).decode(errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        print("broken", type(error).__name__)
