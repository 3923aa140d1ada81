"""Progress events of a pass, for an optional listener."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Listener = Callable[[str, dict[str, Any]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(event: str, **details: Any) -> None:
    """Tell the listener, if there is one, that ``event`` happened."""
    listener = _listener.get()
    if listener is not None:
        listener(event, details)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener`` for every event inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
