"""The people of the desk: those of the file as it is now, or, while it has a fault, those of them that it had before.

A slip in the file would otherwise sign everybody out. What a faulty file says of anybody is not known but where their
entry stands as it stood. So nobody is let in whom it did not list before, and nobody stays whose entry was taken out of
it, made a comment, or changed: that may have taken a right away.
"""

import logging
import re
import threading
from contextlib import suppress
from pathlib import Path

from fieldcraft.flows.identity import Faulty, People, Person, Refused, bearer_of_digest, read_people
from fieldcraft.flows.settings import Settings

_LOG = logging.getLogger("fieldcraft.desk")  # to the desk's standard error
_BOUND = re.compile(r"[{}]|^[ \t]*-[ \t]|^(?=\S)", re.MULTILINE)  # of an entry of the list of tokens


class KnownPeople:
    """People by the digests of their tokens; may be used by several threads.

    Args:
        settings: Settings, with the file of people.
    """

    fault: str
    """What is wrong with the file of people; empty while nothing is."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self.fault = settings, ""
        self._last: tuple[str, People] | None = None  # the file's text, no younger than what was read of it
        self._lock = threading.Lock()
        if settings.people is not None:
            with suppress(Refused):  # nobody comes in then, and the fault is told
                self._read(settings.people)

    def owner(self, digest: str) -> Person:
        """The owner of a token.

        Raises:
            Faulty: the file has a fault, and did not list the token before, or not as it does now.
            Refused: the file does not list the token, or is not there.
        """
        path = self._settings.people
        if path is None:
            return bearer_of_digest(self._settings, digest, "read")
        try:
            known = self._read(path)
        except Faulty:
            text, last = self._last or ("", People())
            entry = _entry(text, digest)
            if last.bearer(digest) is None or entry is None or entry != _entry(_text(path), digest):
                raise
            known = last
        return bearer_of_digest(self._settings, digest, "read", known)

    def _read(self, path: Path) -> People:
        text = _text(path)
        try:
            known = read_people(path)
        except Refused as refused:
            if not isinstance(refused, Faulty):  # it is gone, and with it everybody: perhaps that was the purpose
                self._last = None
            self._tell(str(refused), str(refused))
            raise
        self._last = text, known
        self._tell("", f"{path} is as it must be again.")
        return known

    def _tell(self, fault: str, said: str) -> None:
        with self._lock:
            if fault != self.fault:
                self.fault = fault
                _LOG.warning("%s", said)


def _text(path: Path) -> str:
    """Text of the file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _entry(text: str, digest: str) -> str | None:
    """A token's entry, as it stands in the file; None where it is not there once, or is a comment."""
    at = text.find(digest)
    if text.count(digest) != 1:
        return None
    bounds = list(_BOUND.finditer(text))
    first = max((bound.end() for bound in bounds if bound.end() <= at), default=0)
    after = min((bound.start() for bound in bounds if bound.start() > at), default=len(text))
    before = text[text.rfind("\n", 0, first) + 1 : first]
    return None if "#" in before else text[first:after].strip()
