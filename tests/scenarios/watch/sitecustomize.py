"""Loaded by every Python process of a watched run: writes down each address off this machine that one asks for."""

import os
import sys


def _watch(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "local"
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name in ("local", "localhost", "::1", "None", "") or name.startswith("127."):
        return
    descriptor = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{event} {name} by {' '.join(sys.orig_argv)}\n".encode())
    os.close(descriptor)


if "WATCHED" in os.environ:
    sys.addaudithook(_watch)
