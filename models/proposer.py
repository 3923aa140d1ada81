"""Protocol of a proposer: designs that need no data."""

from typing import Protocol, runtime_checkable

import numpy as np

from fieldcraft.models.observations import Array, Emulator
from fieldcraft.physics.space import SearchSpace


class Proposer(Protocol):
    """A sequence of designs over a space, determined by the address of its randomness: a frozen description."""

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Points number start ... start + q - 1 of the sequence, encoded and feasible, shape (q, d).

        ``rng`` must be made anew from the same address for every call. Calls for single points then return the same
        points as one call for all of them.

        Raises:
            ValueError: start < 0 or q < 1.
        """
        ...


@runtime_checkable
class TakesEmulators(Protocol):
    """A proposer whose designs rest on the problem's emulators; it requires the capability EMULATOR."""

    def given(self, emulators: tuple[Emulator, ...], *, maximize: bool) -> Proposer:
        """The proposer that asks these emulators.

        Args:
            emulators: Of the objective and of each constraint, at least one.
            maximize: True if the objective is maximised.
        """
        ...


def checked_range(start: int, q: int) -> None:
    """Refuse a range of a sequence that does not exist.

    Raises:
        ValueError: start < 0 or q < 1.
    """
    if start < 0 or q < 1:
        raise ValueError(f"Points {start} ... {start + q - 1} of a sequence: start must be >= 0 and q >= 1.")
