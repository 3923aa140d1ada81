"""Text made safe to show: on a terminal, in a file for people, on a page, in a message to a server.

Text from people, campaign files, plug-ins, simulators and laboratories is stored unchanged. It is passed through
``printable`` when it is shown. Control characters are escaped there: none can move a cursor, begin a line, change the
direction of the text around it or stay invisible.
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
    """The text with control and invisible characters escaped; line breaks stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def one_line(text: str) -> str:
    """The text as ``printable`` returns it, on a single line."""
    return printable(" ".join(text.splitlines()))


def shown(data: Any) -> Any:
    """JSON data with all text in it ``printable``, keys too, for messages to people."""
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
    """The text without the user and the password of any URL in it, which end at the URL's last @."""
    return re.sub(r"(?<=://)[^/\s]\S*@", "", text)
