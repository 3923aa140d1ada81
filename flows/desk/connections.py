"""Connections of browsers, with an end to every wait: uvicorn itself waits for ever for a request that does not come.

A connection that has not sent a whole head in ``HEAD_S``, or takes no more of its answer for ``TAKE_S``, is closed; one
beyond ``MOST``, or ``MOST_OF_ONE`` of one address, is closed at once. The time for a request's body is the guard's.
"""

import asyncio
from typing import cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
TAKE_S = 60.0
MOST = 1000
MOST_OF_ONE = 400  # a laboratory may come by one address, and a browser opens six


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
        self._take = self.loop.call_later(TAKE_S, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        _end(self._take)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        _end(self._head)
        _end(self._take)
        super().connection_lost(exc)


def _host(connection: object) -> str | None:
    """Address of the machine at the other end."""
    client = connection.client if isinstance(connection, H11Protocol) else None
    return client[0] if client else None


def _end(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
