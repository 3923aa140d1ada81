"""Clients that send half a request and wait: each is given its time, and then its place is free again."""

import asyncio
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from certificates import certificate
from desk_site import TOKENS
from waiting import Waiting

from fieldcraft.flows.desk import connections, guard
from fieldcraft.flows.desk.place import Place
from fieldcraft.flows.desk.serving import server_of

SHORT_S = 0.4
Connect = Callable[..., socket.socket]


@pytest.fixture
def connect(priced: Waiting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Opens connections to a desk whose times are short, and sends the head of a request there."""
    for module, name in ((connections, "HEAD_S"), (guard, "FORM_S"), (connections, "TAKE_S")):
        monkeypatch.setattr(module, name, SHORT_S)
    monkeypatch.setattr(connections, "MOST_OF_ONE", 4)
    listening = socket.create_server(("127.0.0.1", 0))
    port, held = listening.getsockname()[1], list[socket.socket]()
    server = server_of(priced.settings, Place("127.0.0.1", port, ("127.0.0.1",)), lambda token: None)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()

    def connected(head: str = "", *, own: bool = True) -> socket.socket:
        held.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        origin = f"Origin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n" if own else ""
        kind = "Content-Type: application/x-www-form-urlencoded\r\n"
        held[-1].sendall(head.replace("\r\n", f"\r\nHost: 127.0.0.1:{port}\r\n{origin}{kind}", 1).encode())
        return held[-1]

    yield connected
    for each in held:
        each.close()
    server.should_exit = True
    thread.join()


def closed(connection: socket.socket, drip: bytes = b"") -> tuple[float, bytes]:
    """Time until the desk closes a connection on which one byte follows the other, and all that it had sent."""
    began, got = time.monotonic(), b""
    connection.settimeout(0.05)
    while time.monotonic() - began < 10:
        try:
            if drip:
                connection.sendall(drip)
            piece = connection.recv(65536)
            if not piece:
                return time.monotonic() - began, got
            got += piece
        except TimeoutError:
            continue
        except ConnectionError:
            return time.monotonic() - began, got
    raise AssertionError(f"still open after 10 s: {got[:200]!r}")


FORM = "POST /sign-in HTTP/1.1\r\nContent-Length: 90000\r\n\r\ntoken="


def test_a_request_that_comes_too_slowly_is_ended(connect):
    for head, drip in (("", b""), ("GET / HTTP/1.1\r\nX-A: ", b"y"), ("GET / HTTP/1.1\r\n\r\n", b"y")):
        took, _ = closed(connect(head), drip)
        assert SHORT_S / 2 < took < 5, head
    took, answer = closed(connect(FORM), b"x")
    assert answer.startswith(b"HTTP/1.1 408 ") and b"came too slowly" in answer and took < 5
    took, answer = closed(connect(FORM, own=False), b"x")
    assert answer.startswith(b"HTTP/1.1 403 ") and took < 5, "what follows a refused head keeps nothing open"


def test_whoever_takes_no_answer_is_not_waited_for(connect):
    connection = connect("GET /static/plotly/plotly.min.js HTTP/1.1\r\n\r\n")
    time.sleep(SHORT_S * 3)  # nothing is read meanwhile: the buffers hold less than the file
    took, answer = closed(connection)
    assert took < 5 and 0 < len(answer) < 4_800_000


async def _large(scope, receive, send):
    """An application with one answer, of 24 MB, that is handed on at once."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"24000000")]})
    await send({"type": "http.response.body", "body": bytes(24_000_000)})


def test_whoever_takes_a_large_answer_slowly_is_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "TAKE_S", SHORT_S)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(_large, http=connections.PatientProtocol, log_config=None, lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(listening.getsockname())
        slow.sendall(b"GET / HTTP/1.1\r\nHost: desk\r\nConnection: close\r\n\r\n")
        got, began, piece = 0, time.monotonic(), b"first"
        while piece and got < 23_000_000:
            piece = slow.recv(2**20)
            got += len(piece)
            time.sleep(max(0.0, began + got / 24_000_000 * SHORT_S * 4 - time.monotonic()))
        while piece:
            piece = slow.recv(2**20)
            got += len(piece)
    server.should_exit = True
    thread.join()
    assert got > 24_000_000


def test_a_connection_that_agrees_on_no_keys_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", SHORT_S)
    keys = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    keys.load_cert_chain(certificate(tmp_path))

    async def waited() -> float:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=keys)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        began = time.monotonic()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        server.close()
        return time.monotonic() - began

    with asyncio.Runner(loop_factory=connections.PatientLoop) as runner:
        assert runner.run(waited()) > SHORT_S / 2


def test_the_desk_may_open_as_many_connections_as_it_takes():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        connections.make_room()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(2 * connections.MOST, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_stream_outlives_the_time_for_a_head_and_an_address_holds_only_so_many(connect):
    signing = connect(FORM.replace("90000", str(len(f"token={TOKENS['vera']}"))))
    signing.sendall(TOKENS["vera"].encode())
    answer = signing.recv(65536).decode()
    assert "303" in answer.splitlines()[0]
    cookie = next(line for line in answer.splitlines() if line.lower().startswith("set-cookie")).split(": ")[1]
    streams = [connect(f"GET /live HTTP/1.1\r\nCookie: {cookie.split(';')[0]}\r\n\r\n") for _ in range(3)]
    time.sleep(SHORT_S * 2)
    for stream in streams:
        stream.settimeout(0.2)
        got = b""
        with pytest.raises(TimeoutError):  # it is open, and has no more to tell
            while piece := stream.recv(65536):
                got += piece
        assert b"event: here" in got
    connect(), connect()  # the place of the sign-in is free again, the next is one too many
    assert closed(connect())[0] < SHORT_S


def test_a_request_to_read_has_no_body(connect):
    _, answer = closed(connect("GET /sign-in HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), b"x")
    assert answer.startswith(b"HTTP/1.1 413 ")
