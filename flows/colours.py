"""Colours of what commands print on a terminal: what is done is green, what failed red, what waits yellow.

Text that goes anywhere else, or is printed with NO_COLOR or on a dumb terminal, stays as it is.
"""

import os
import re
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.style import Style

_STYLES = {
    "bold red": r"^fieldcraft:$",  # before an error
    "bold": r"^[^\s:]+:(?=\s|$)|^ {0,2}[^\s:]+$(?=\n  )|^Campaign '[^']*'|^Next:$",  # a name, a heading
    "green": r"\b(?:completed|finished|approved|accepted|recorded|COMPLETED|APPROVED|ended(?= by\b)|valid(?=:))"
    r"|<- .*$|^All is well\.$",
    "red": r"\b(?:failed|refused|rejected|abandoned|cancelled|FAILED|REJECTED|ABANDONED|CANCELLED)\b",
    "yellow": r"\b(?:waits|waiting|held|proposed|PROPOSED|HELD)\b",
}
_WORDS = re.compile("|".join(f"({words})" for words in _STYLES.values()), re.MULTILINE)


def coloured(text: str, stream: TextIO) -> str:
    """The text with colours, if the stream shows them.

    Args:
        text: Lines that are to be printed.
        stream: Where they are printed.
    """
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return _WORDS.sub(lambda found: _styles()[(found.lastindex or 1) - 1].render(found[0]), text)


@cache
def _styles() -> list["Style"]:
    from rich.style import Style

    return [Style.parse(style) for style in _STYLES]
