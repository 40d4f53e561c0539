#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One request to a site, as a client may make it that is not shredder.

Usage: site_request.py PORT IDENTITY METHOD PATH [BODY-FILE]     prints the status and the answer's words
       site_request.py --tls12 PORT IDENTITY                     prints whether TLS 1.2 is spoken
       site_request.py --part PORT IDENTITY PATH                 sends the head of a long upload and a part of it, and goes
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
