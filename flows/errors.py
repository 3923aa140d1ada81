"""Errors that a person reads: the value, the problem and the remedy, in one line each, and exit code 2.

FieldcraftError
+-- InputError     a campaign file, an option or a plug-in is wrong; nothing was changed
+-- Unfinished     the campaign waits for a person or a laboratory; exit code 3
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fieldcraft.storage.text import printable

MOST_FAULTS = 10  # that are told at once


class FieldcraftError(Exception):
    """Base of the errors that end a command with exit code 2; control characters in the message are escaped."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(FieldcraftError):
    """Input of the user that cannot be used; nothing was created or changed.

    Args:
        faults: The faults, one complete message each; ``str`` puts each on its own line.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Unfinished(FieldcraftError):
    """The campaign waits for a person or a laboratory. This is no error; all work so far is kept.

    Args:
        campaign: Its name.
        waits: One sentence for each thing that waits, with how to go on.
    """

    def __init__(self, campaign: str, waits: Sequence[str]) -> None:
        self.campaign, self.waits = campaign, tuple(waits)
        super().__init__(" ".join([f"{self._head} {'; '.join(self.waits)}.", self._end]))

    @property
    def lines(self) -> list[str]:
        """The message, split into lines."""
        return [self._head, *(f"  {wait}" for wait in self.waits), self._end]

    @property
    def _head(self) -> str:
        return f"Campaign {self.campaign!r} waits."

    @property
    def _end(self) -> str:
        return "The same command then goes on; nothing is lost."


class Faults:
    """Faults of one input, collected so that all of them are reported at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the faults that the block raises, and go on after it."""
        try:
            yield
        except InputError as error:
            self.found += [fault for fault in error.faults if fault not in self.found]

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Keep faults as ``noted`` does, but only those in places that have no fault yet."""
        known = {place_of(fault) for fault in self.found}
        try:
            yield
        except InputError as error:
            self.found += [fault for fault in error.faults if place_of(fault) not in known]

    def tell(self) -> None:
        """Raise InputError with all of them, if there are any."""
        if self.found:
            raise InputError(*self.found)


@contextmanager
def at(place: str) -> Iterator[None]:
    """Raise errors of the block again with the name of a place in front, if it has one."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"{place}: {fault}" if place else fault for fault in error.faults)) from error


def place_of(fault: str) -> str:
    """The place at the start of a fault, such as ``space.x1.0``: the text before the first ": "."""
    return fault.partition(": ")[0].replace("[", ".").replace("]", "")


def first_of(faults: Sequence[str]) -> list[str]:
    """The first ``MOST_FAULTS`` faults, and the number of the others."""
    more = len(faults) - MOST_FAULTS
    return [*faults[:MOST_FAULTS], f"And {more} more."] if more > 0 else list(faults)
