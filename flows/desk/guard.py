"""Checks of every request before anything else sees it, and the headers of every answer.

A page of somebody else's can make a browser send requests to the desk, also where it listens on loopback alone. So the
header Host has to name the desk (against DNS rebinding), and a request that changes anything has to say, by Origin and
Sec-Fetch-Site, that a page of the desk sent it. Both come from the browser; no page can set them.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from fieldcraft.flows.desk.place import Place

FORM_BYTES, FORM_S = 100_000, 20.0
UPLOAD_BYTES, UPLOAD_S = 300_000_000, 900.0
PIECE_S = 20.0  # for the next piece of a body
UPLOADS = "/laboratory/upload"  # the paths below it take files, in forms of several parts
_READS, _CHANGES = frozenset({"GET", "HEAD"}), frozenset({"POST"})
_SLOW = "This came too slowly, and was not waited for. Nothing was changed."
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would hide the origin of our own forms, too
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Guard:
    """ASGI middleware.

    Args:
        app: The application.
        place: Place of the desk.
    """

    app: FastAPI
    place: Place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused; hand any other on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").lower()
        files = scope["path"].startswith(f"{UPLOADS}/") and kind.startswith("multipart/form-data")
        most, within = (UPLOAD_BYTES, UPLOAD_S) if files else (FORM_BYTES, FORM_S)
        refused = self._refused(scope["method"], headers, most)
        if refused is None:
            await self.app(scope, _taken(receive, most, within), _with_headers(send, scope["path"]))
            return
        status, reason = refused
        answer = PlainTextResponse(f"{reason} Nothing was changed.\n", status)
        await answer(scope, receive, _with_headers(send, scope["path"]))

    def _refused(self, method: str, headers: Headers, most: int) -> tuple[int, str] | None:
        """Status and reason of a refusal; None for a request that may go on."""
        if method not in _READS | _CHANGES:
            return 405, "The desk knows GET and POST."
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.place.hosts:
            return 421, "This address is not the desk's: use the one it printed when it started."
        site = headers.getlist("sec-fetch-site")
        if method in _CHANGES:
            origins = headers.getlist("origin")
            own = len(origins) == 1 and origins[0].partition("://")[2] == hosts[0].lower()
            if not own or origins[0] not in self.place.origins or site != ["same-origin"]:
                return 403, "Another page than the desk's sent this."
            coded = headers.get("content-type", "").lower().partition("charset=")[2].strip(' "')
            if coded not in ("", "utf-8"):
                return 415, "The desk reads UTF-8 alone."
        elif site and site[0] not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
            return 403, "Another page than the desk's asked for this."
        length = headers.get("content-length", "0")
        if method in _READS and (length != "0" or "transfer-encoding" in headers):
            return 413, "A request that changes nothing sends nothing but its head."
        if not length.isdecimal() or int(length) > most:
            return 413, f"That is too large: at most {most:,} bytes are taken."
        return None


def _taken(receive: Receive, most: int, within: float) -> Receive:
    """``receive`` with the bytes counted, since a request may be longer than it says, and for so many seconds at most.

    What is received once the body is whole is the browser's leave, which may be long in coming.
    """
    taken, whole, due = 0, False, time.monotonic() + within

    async def counted() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), min(PIECE_S, due - time.monotonic()))
        except TimeoutError:
            raise HTTPException(408, _SLOW, {"Connection": "close"}) from None
        taken += len(message.get("body", b""))
        if taken > most:
            raise HTTPException(413, f"That is too large: at most {most:,} bytes are taken. Nothing was changed.")
        whole = not message.get("more_body", False)
        return message

    return counted


def _with_headers(send: Send, path: str) -> Callable[[Message], Any]:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["Cache-Control"] = "no-cache" if path.startswith("/static/") else "no-store"
        await send(message)

    return with_headers
