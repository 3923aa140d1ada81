"""The people of the desk: those of the file as it is now, or, while it has a fault, those of them that it had before.

A slip in the file would otherwise sign everybody out. What a faulty file says of roles is not known, so that those read
last hold until it is mended. Nobody is let in whom it did not list before, and nobody stays whose digest it lost.
"""

import logging
import threading
from contextlib import suppress
from pathlib import Path

from fieldcraft.flows.identity import Faulty, People, Person, Refused, bearer_of_digest, read_people
from fieldcraft.flows.settings import Settings

_LOG = logging.getLogger("fieldcraft.desk")  # to the desk's standard error


class KnownPeople:
    """People by the digests of their tokens; may be used by several threads.

    Args:
        settings: Settings, with the file of people.
    """

    fault: str
    """What is wrong with the file of people; empty while nothing is."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self.fault = settings, ""
        self._last: People | None = None
        self._lock = threading.Lock()
        if settings.people is not None:
            with suppress(Refused):  # nobody comes in then, and the fault is told
                self._read(settings.people)

    def owner(self, digest: str) -> Person:
        """The owner of a token.

        Raises:
            Faulty: the file has a fault, and did not list the token before, or does not hold its digest any more.
            Refused: the file does not list the token, or is not there.
        """
        path = self._settings.people
        if path is None:
            return bearer_of_digest(self._settings, digest, "read")
        try:
            known = self._read(path)
        except Faulty:
            if self._last is None or self._last.bearer(digest) is None or not _holds(path, digest):
                raise
            known = self._last
        return bearer_of_digest(self._settings, digest, "read", known)

    def _read(self, path: Path) -> People:
        try:
            known = read_people(path)
        except Refused as refused:
            if not isinstance(refused, Faulty):  # it is gone, and with it everybody: perhaps that was the purpose
                self._last = None
            self._tell(str(refused), str(refused))
            raise
        self._last = known
        self._tell("", f"{path} is as it must be again.")
        return known

    def _tell(self, fault: str, said: str) -> None:
        with self._lock:
            if fault != self.fault:
                self.fault = fault
                _LOG.warning("%s", said)


def _holds(path: Path, digest: str) -> bool:
    try:
        return digest.encode() in path.read_bytes()
    except OSError:
        return False
