"""Protocol of a maximizer: from a score to a batch of feasible candidates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from fieldcraft.models.acquisition import Score
from fieldcraft.models.observations import Array
from fieldcraft.physics.space import SearchSpace

SAME = 1e-9
"""Two encoded points that differ by less in every coordinate are one design."""


Status = Literal["optimal", "node_limit", "time_limit", "numerical"]
"""How a search with a proof ended: gap closed, a limit struck, or rounding too large to prove anything so fine."""


@dataclass(frozen=True)
class Certificate:
    """Proven bound for one chosen point.

    Args:
        value: Its score.
        bound: Upper bound of the score, or of its approximation, in the space; not below value.
        status: Reason for the end of the search.
        nodes: Boxes that were bounded.
        bound_of: Kind of the bound: of the score itself or of an approximation to it.
    """

    value: float
    bound: float
    status: Status
    nodes: int
    bound_of: Literal["exact", "approximate"] = "exact"

    @property
    def gap(self) -> float:
        """bound - value >= 0, the most by which another point can have a better score."""
        return self.bound - self.value


@dataclass(frozen=True, eq=False)
class Candidates:
    """A chosen batch.

    Args:
        X: Encoded feasible points, shape (q, d), already repaired.
        value: Score of each point when it was chosen, shape (q,).
        certificates: Proven bound of each; None without a proof.
        remarks: Notes on how they were found, by name.
        levels: Level of the simulator at which each is to be run, by number, shape (q,); None is the target. Empty
            where all are for the target.
        notes: Remarks on each design alone, by name, shape (q,); empty where there are none.
    """

    X: Array
    value: Array
    certificates: tuple[Certificate, ...] | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[int | None, ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()


class Maximizer(Protocol):
    """A search for the best candidate of each place in turn: a frozen description.

    In ``requires`` (see ``Capability``) it may state that it takes only EXACT posteriors, only scores OF_MOMENTS, and
    of these only the OPTIMISTIC. In ``provides`` it may state that it also takes a ``SeparableScore``, group by group
    (BY_GROUP), and that it bounds the score itself and not an approximation to it (PROVES). One that cannot search
    every space is ``TakesSomeSpaces``.
    """

    def maximize(
        self, score: Score, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None = None
    ) -> Candidates:
        """The batch, chosen place by place, each given those chosen before.

        Every point is feasible, and its value is that of the repaired point. No point is one of
        ``taken`` or of the places before it. The same state of rng gives the same batch.

        Args:
            score: Worth of a candidate.
            space: Where to search.
            q: Number of places.
            rng: The only source of randomness.
            taken: Encoded points that must not be chosen, shape (k, d), such as those sent and not yet read; None for
                none. Two points are the same where no coordinate differs by ``SAME`` or more.

        Raises:
            ValueError: q < 1, the score is not finite somewhere, or a discrete space has too few points left.
        """
        ...
