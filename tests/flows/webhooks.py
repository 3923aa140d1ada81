"""A real web server that takes notices, and a ledger that has one to tell."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Notice, digest_of

TOKEN = "s3cret-token"  # of the webhook
PATH = "/hooks/s3cret-path"


class Webhook(ThreadingHTTPServer):
    """A real HTTP server that keeps what it was sent."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.daemon_threads = True
        self.answers: list[int] = []  # statuses of the next answers; 200 when there is none
        self.stall = threading.Event()  # set: answers are held back until ``go``
        self.go = threading.Event()
        self.got: list[tuple[str, dict[str, str], dict]] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{PATH}?q=1"

    def close(self) -> None:
        self.go.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, dict(self.headers), body))
        if self.server.stall.is_set():
            self.server.go.wait()
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def store(home: Path) -> Ledger:
    """A new ledger with the campaign heat, which has no trials."""
    made = open_ledger(home / "ledger.sqlite", create=True)
    spec = {"name": "heat"}
    made.create_campaign("heat", spec, digest_of(spec), {}, "test")
    return made


def command(*words: str) -> str:
    """The setting that runs Python code with arguments."""
    return " ".join(f"'{word}'" for word in (sys.executable, "-c", *words))


def notify(ledger: Ledger, key: str = "one") -> Notice:
    return ledger.notify("heat", "approval waiting", key, {"trials": ["heat-0001", "heat-0002", "heat-0003"]})
