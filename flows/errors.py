"""Errors a person reads: the value, the problem and the remedy, in one line each, and exit code 2.

FieldcraftError
+-- InputError     a campaign file, an option or a plug-in is wrong; nothing was changed
+-- Unfinished     the campaign waits for a person or a laboratory; exit code 3
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fieldcraft.storage.text import printable

MOST_FAULTS = 10  # that are told at once


class FieldcraftError(Exception):
    """Base of the errors that end a command with exit code 2; whatever they quote is shown as text."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(FieldcraftError):
    """What the user gave cannot be used; nothing was created or changed.

    Args:
        faults: What is wrong, each whole in itself; ``str`` gives each a line.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Unfinished(FieldcraftError):
    """The campaign waits for a person or a laboratory, which is no error; everything so far is kept.

    Args:
        campaign: Its name.
        waits: What waits, and how to go on with each.
    """

    def __init__(self, campaign: str, waits: Sequence[str]) -> None:
        self.campaign, self.waits = campaign, tuple(waits)
        super().__init__(" ".join([f"{self._head} {'; '.join(self.waits)}.", self._end]))

    @property
    def lines(self) -> list[str]:
        """All this, a line each."""
        return [self._head, *(f"  {wait}" for wait in self.waits), self._end]

    @property
    def _head(self) -> str:
        return f"Campaign {self.campaign!r} waits."

    @property
    def _end(self) -> str:
        return "The same command then goes on; nothing is lost."


class Faults:
    """Faults of one input, gathered so that all of them are told at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the faults that the block finds, and go on after it."""
        try:
            yield
        except InputError as error:
            self.found += [fault for fault in error.faults if fault not in self.found]

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """As ``noted``, for faults in places of which none is known yet."""
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
    """Errors of the block as those of a place, where that has a name."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"{place}: {fault}" if place else fault for fault in error.faults)) from error


def place_of(fault: str) -> str:
    """The place with which a fault begins, ``space.x1.0``, as far as it does."""
    return fault.partition(": ")[0].replace("[", ".").replace("]", "")


def first_of(faults: Sequence[str]) -> list[str]:
    """As many faults as one reads, and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return [*faults[:MOST_FAULTS], f"And {more} more."] if more > 0 else list(faults)
