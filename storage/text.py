"""Text as it may be shown: on a terminal, in a file for people, on a page, in a message to a server.

What people, campaign files, plug-ins, simulators and laboratories say is stored as it was. Whoever shows it passes it
through ``printable``, so that no character of it can do more than stand there: move a cursor, begin a line, turn the
direction of the text around it, or be there without being seen.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# Controls (ESC among them), formats (marks of direction, zero-width and tag characters), lone surrogates, and
# separators of lines and paragraphs.
_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Of other categories and still nothing to see: joiners and fillers, and selectors that can carry a text of their own.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0") | frozenset(
    map(chr, range(0xE0100, 0xE01F0))
)


def printable(text: str) -> str:
    """The text with every character escaped that could do more than stand there; line breaks stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    """The same on a single line."""
    return printable(" ".join(text.splitlines()))


def shown(data: Any) -> Any:
    """JSON data with every text in it ``printable``, keys too: what a message to people holds."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, Mapping):
        return {printable(str(key)): shown(value) for key, value in data.items()}
    return [shown(item) for item in data] if isinstance(data, list | tuple) else data


def _shown(character: str) -> str:
    if character == "\n" or (unicodedata.category(character) not in _ESCAPED and character not in _UNSEEN):
        return character
    return character.encode("unicode_escape").decode()


def without_password(text: str) -> str:
    """A URL, or a message with some, without the user and the password that one may carry, which end at its last @."""
    return re.sub(r"(?<=://)[^/\s]\S*@", "", text)
