"""Connections of browsers, with an end to every wait: uvicorn itself waits for ever for a request that does not come.

A connection that has not agreed on its keys for TLS, or not sent a whole head, in ``HEAD_S``, or takes less than
``TAKE_BYTES`` of its answer in ``TAKE_S``, is closed; one beyond ``MOST``, or ``MOST_OF_ONE`` of one address, is closed
at once. The time for a request's body is the guard's.
"""

import asyncio
import resource
from typing import Any, cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
TAKE_S = 60.0
TAKE_BYTES = 65536  # of an answer of many megabytes over a slow line, some is taken all the time
MOST = 1000
MOST_OF_ONE = 400  # a laboratory may come by one address, and a browser opens six
_OPEN = 4 * MOST  # files and connections: also those that have not agreed on their keys yet


class PatientProtocol(H11Protocol):
    """HTTP/1.1 on one connection."""

    _head: asyncio.TimerHandle | None = None
    _take: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        own = sum(_host(each) == _host(self) for each in self.connections)
        if own > MOST_OF_ONE or len(self.connections) > MOST:
            self.transport.abort()
        else:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        """Give the next request its time, unless one is being answered; bytes of it do not prolong that."""
        if self.cycle is not None and not self.cycle.response_complete:
            _end(self._head)
            self._head = None
        elif self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.transport.abort)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_head()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()  # it may begin the answer to a request that was sent together with this one
        self._wait_for_head()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_taker()

    def _wait_for_taker(self, before: float = float("inf")) -> None:
        """Give what is to be taken its time, and more of it as long as it becomes less."""
        left = self.transport.get_write_buffer_size()
        if left > before - TAKE_BYTES:
            self.transport.abort()
        else:
            self._take = self.loop.call_later(TAKE_S, self._wait_for_taker, left)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        _end(self._take)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        _end(self._head)
        _end(self._take)
        super().connection_lost(exc)


class PatientLoop(asyncio.SelectorEventLoop):
    """Event loop whose servers wait for the keys of TLS no longer than for a head."""

    @override
    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = HEAD_S
        server: asyncio.Server = await super().create_server(*args, **options)
        return server


def make_room() -> None:
    """Raise the number of files that this process may open to what the connections need: a usual limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN if hard == resource.RLIM_INFINITY else min(hard, _OPEN)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _host(connection: object) -> str | None:
    """Address of the machine at the other end."""
    client = connection.client if isinstance(connection, H11Protocol) else None
    return client[0] if client else None


def _end(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
