"""JSON from people and programs; imports nothing, for processes that only run a program."""

from collections.abc import Sequence
from typing import Any


def each_key_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys all differ. JSON's own parser would silently keep the last of two equal keys.

    Raises:
        ValueError: it gives a key twice; names it.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it gives {next(name for name in names if names.count(name) > 1)!r} twice")
    return made
