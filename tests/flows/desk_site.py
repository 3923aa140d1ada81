"""The desk in this process: its application asked as a browser would ask it, without a server between."""

import asyncio
import hashlib
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from fieldcraft.flows.desk.app import make_app
from fieldcraft.flows.desk.guard import Guard
from fieldcraft.flows.desk.place import Place
from fieldcraft.flows.settings import DESK_PORT as PORT
from fieldcraft.flows.settings import Settings

TOKENS = {name: f"fc_{name}-of-this-test-of-the-desk" for name in ("ana", "carla", "vera", "olga")}
ORIGIN = f"http://127.0.0.1:{PORT}"
COOKIE = f"fieldcraft-desk-{PORT}"
HOST = ORIGIN.removeprefix("http://")
SENT = {"host": HOST, "origin": ORIGIN, "sec-fetch-site": "same-origin"}
FORM = "application/x-www-form-urlencoded"


def people(file: Path) -> Path:
    """A file of people: two operators, an approver up to 6 units and a viewer, by their tokens."""
    roles = {
        "ana": {"role": "operator"},
        "olga": {"role": "operator"},
        "carla": {"role": "approver", "cost_limit": 6},
        "vera": {"role": "viewer"},
    }
    entries = [
        {"name": name, **roles[name], "sha256": hashlib.sha256(token.encode()).hexdigest()}
        for name, token in TOKENS.items()
    ]
    file.write_text(json.dumps({"tokens": entries}))
    file.chmod(0o600)
    return file


@dataclass
class Answer:
    """An answer of the desk."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def said(self) -> str:
        """What it tells, as a person reads it."""
        return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", self.text).split()))


@dataclass
class Browser:
    """One browser. Its requests carry what a browser's would."""

    app: Guard
    cookie: str = ""
    csrf: str = ""
    address: str = "127.0.0.1"
    runner: ClassVar[asyncio.Runner]  # of the test

    def get(self, path: str, **headers: str) -> Answer:
        """A page."""
        found = self.ask("GET", path, {"host": HOST, **headers})
        if token := re.search(r'name="csrf" value="([^"]+)"', found.text):
            self.csrf = token[1]
        return found

    def post(self, path: str, fields: Any = (), files: dict[str, bytes] | None = None, **headers: str) -> Answer:
        """A form that a page of the desk sends."""
        pairs = [("csrf", self.csrf), *(fields.items() if isinstance(fields, dict) else fields)]
        if files is not None:
            return self.ask(
                "POST",
                path,
                {**SENT, "content-type": "multipart/form-data; boundary=edge", **headers},
                parts(pairs, files),
            )
        return self.ask("POST", path, {**SENT, "content-type": FORM, **headers}, urlencode(pairs).encode())

    def sign_in(self, token: str) -> "Browser":
        """The same browser, signed in."""
        answer = self.post("/sign-in", {"token": token})
        assert answer.status == 303, answer.said
        self.cookie = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
        assert self.get("/").status == 200 and self.csrf
        return self

    def ask(self, method: str, path: str, headers: Any, body: bytes = b"") -> Answer:
        """One request with exactly these headers, and the cookie."""
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        pairs += [("cookie", f"{COOKIE}={self.cookie}")] if self.cookie else []
        return self.runner.run(asked(self.app, method, path, pairs, body, self.address))


def parts(pairs: Any, files: dict[str, bytes]) -> bytes:
    """A form with files, as a browser sends it."""
    lines = [f'--edge\r\ncontent-disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in pairs]
    head = '--edge\r\ncontent-disposition: form-data; name="file"; filename="{}"\r\n\r\n'
    lines += [head.format(name).encode() + content + b"\r\n" for name, content in files.items()]
    return b"".join([*lines, b"--edge--\r\n"])


async def asked(
    app: Guard,
    method: str,
    path: str,
    headers: Any,
    body: bytes | None,
    address: str = "127.0.0.1",
    together: asyncio.Barrier | None = None,
) -> Answer:
    """One request; its body comes once all that are ``together`` wait for theirs, and never where it is None."""
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw,
        "raw_path": raw.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": (address, 5000),
        "server": ("127.0.0.1", PORT),
    }
    sent: list[Any] = []
    given = [{"type": "http.request", "body": body, "more_body": False}] if body is not None else []

    async def receive() -> Any:
        if together is not None:
            await together.wait()
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]).decode(errors="replace"))


def desk(settings: Settings, printed: Any = lambda token: None) -> Guard:
    """The application for a home, on loopback."""
    return make_app(settings, Place("127.0.0.1", PORT, ("127.0.0.1", "localhost")), printed)
