"""Text that people write: checks before it is stored, and display without control characters."""

import difflib
import math
import re
import shlex
import time
import unicodedata
from collections.abc import Iterable

from fieldcraft.flows.errors import InputError
from fieldcraft.storage.text import one_line as one_line
from fieldcraft.storage.text import printable as printable

LONGEST = 2000  # characters of a comment or a reason
HUGE = 1e100
"""Numbers beyond it, and those as close to 0, have squares that are no numbers any more."""
FIGURES = 6  # significant figures in which values are told
QUOTED = 80  # characters of a value that an error quotes


def remark(text: str, what: str) -> str:
    """Return a comment or a reason if it may be stored.

    Args:
        text: Any text of at most ``LONGEST`` characters; line breaks and tabs are allowed, other controls are not.
        what: Name of the text, for the error.

    Raises:
        InputError: it is no text, longer, or holds a control character.
    """
    if not isinstance(text, str):
        raise InputError(f"The {what} is {text!r}: give a text. Nothing was changed.")
    if len(text) > LONGEST:
        raise InputError(f"The {what} has {len(text)} characters: keep it to {LONGEST}. Nothing was changed.")
    for place, character in enumerate(text):
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            raise InputError(
                f"The {what} holds the control character {character!r} at place {place + 1}: take it out. "
                "Nothing was changed."
            )
    return text


def said(text: str) -> str:
    """Output of a program or a machine for storage: the first ``LONGEST`` characters, control characters escaped."""
    return printable(text[:LONGEST])


def quoted(value: object) -> str:
    """A value for an error: its first ``QUOTED`` characters in quotes, and ... where there are more."""
    text = repr(value)
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 3]}..."


def shown(word: str) -> str:
    """A word for an error without quotes, such as a place or an argument, cut like a quoted value."""
    return word if len(word) <= QUOTED else f"{word[: QUOTED - 3]}..."


def stated(name: str, value: str) -> str:
    """``--value strength=50``, for a command line; in double quotes where a shell would take it apart."""
    word = f"{name}={value}"
    if shlex.quote(word) != word:
        word = '"' + re.sub(r'(["\\$`])', r"\\\1", word) + '"'
    return f"--value {word}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known word; empty where there is none."""
    near = nearest(word, known)
    return "" if near is None else f" Did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word; None where none is similar."""
    return next(iter(difflib.get_close_matches(word[:QUOTED], list(known), n=1)), None)


def level_text(text: str) -> str:
    """A level on one line; an image, whose text is rows of numbers, by its size: ``8x8 image``."""
    rows = [row.split() for row in text.split(";")]
    if len(rows) > 1 and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows) and _numbers(rows):
        return f"{len(rows)}x{len(rows[0])} image"
    return one_line(text)


def _numbers(rows: list[list[str]]) -> bool:
    try:
        return all(math.isfinite(float(word)) for row in rows for word in row)
    except ValueError:
        return False


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 trial``, ``2 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clock(at: float) -> str:
    """Date and time in UTC: ``2025-03-01 14:05:09 UTC``."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


AHEAD_S = 3600.0
"""A time of a flow run so far to come is of a clock that was set back since."""


def since(at: float, now: float) -> str:
    """Time of something past, in words: ``3 h ago``, or its date where the clock was set back behind it."""
    return f"{ago(at, now)} ago" if at <= now else f"on {clock(at)}"


def ago(at: float, now: float) -> str:
    """The time between the two, in words: ``3 s``, ``5 min``, ``3 h``, ``4 d``."""
    seconds = abs(now - at)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
