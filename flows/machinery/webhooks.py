"""One POST of JSON to the operator's webhook: within a time limit, to that host only, and without printing its URL.

A webhook's path is often its secret, so messages about a failure name the host alone.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fieldcraft.flows.errors import FieldcraftError


class NotDelivered(FieldcraftError):
    """The receiver did not confirm a message; it may have taken it all the same.

    Attributes:
        status: Its answer, an HTTP status or a command's exit status; None when there was none.
        reached: True if it may have received anything.
    """

    def __init__(self, message: str, status: int | None = None, *, reached: bool = True) -> None:
        super().__init__(message)
        self.status, self.reached = status, reached


def post(url: str, body: Any, key: str, token: str | None, seconds: float) -> None:
    """Send ``body`` as JSON and return once the webhook has confirmed it (any status from 200 to 299).

    Redirects are not followed: the operator named one host.

    Args:
        url: URL of the webhook, as in the settings.
        body: The message, as JSON.
        key: ``Idempotency-Key``; the same for every try to send the same message.
        token: Bearer token, if any.
        seconds: Limit of the whole exchange in seconds, with the look-up of the name and a slow server.

    Raises:
        NotDelivered: it was refused, there was no answer in time, or the request cannot be made.
    """
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": "fieldcraft"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection = _connection(parts, seconds)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    where = f"The webhook at {parts.hostname}"

    connected = threading.Event()

    def exchange() -> int:
        connection.connect()
        connected.set()
        connection.request("POST", path, json.dumps(body).encode(), headers)
        return connection.getresponse().status

    try:
        status = _within(seconds, exchange, lambda: _cut(connection))
    except TimeoutError:
        raise NotDelivered(f"{where} did not answer within {seconds:.0f} s.") from None
    except OSError as error:
        why = str(error) or type(error).__name__
        raise NotDelivered(f"{where} cannot be reached: {why}.", reached=connected.is_set()) from None
    except http.client.HTTPException:  # its text quotes the answer, which may quote the token
        raise NotDelivered(f"{where} answered something that is not HTTP.", reached=connected.is_set()) from None
    except ValueError:  # what is wrong with a name or a header would quote it
        raise NotDelivered(f"{where} was sent nothing: the request cannot be made.", reached=False) from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        hint = ", a redirect, which is not followed" if 300 <= status < 400 else ""
        raise NotDelivered(f"{where} answered {status}{hint}.", status)


def _connection(parts: SplitResult, seconds: float) -> http.client.HTTPConnection:
    assert parts.hostname is not None  # settings refuse a webhook without one
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)


def _within(seconds: float, work: Callable[[], int], stop: Callable[[], None]) -> int:
    """Run ``work`` with a limit of time on the whole; a socket's limit is for one read, and name look-up has none."""
    answers: list[int | Exception] = []

    def record() -> None:
        try:
            answers.append(work())
        except Exception as error:  # the thread's outermost edge: raised again by the caller, below
            answers.append(error)

    thread = threading.Thread(target=record, daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        stop()
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def _cut(connection: http.client.HTTPConnection) -> None:
    """Shut the connection that another thread waits for."""
    if connection.sock is not None:
        with suppress(OSError):  # it ended by itself
            connection.sock.shutdown(socket.SHUT_RDWR)
