"""The protocol of a maximizer: from a score to a batch of feasible candidates."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.acquisition import Score
from models.observations import Array
from physics.space import SearchSpace

SAME = 1e-9
"""Two encoded points that differ by less in every coordinate are one design."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """A chosen batch.

    Args:
        X: Encoded feasible points, shape (q, d), already repaired.
        value: Score of each point when it was chosen, shape (q,).
        bound: Proven upper bound of the score for each place, shape (q,); None where nothing is proven.
        gap: bound - value, shape (q,); None where nothing is proven.
    """

    X: Array
    value: Array
    bound: Array | None = None
    gap: Array | None = None


class Maximizer(Protocol):
    """A search for the best candidate of each place in turn: a frozen description."""

    def maximize(
        self, score: Score, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None = None
    ) -> Candidates:
        """The batch: place by place, each knowing those chosen before.

        Every point is feasible, and the value of the repaired point is the one that counts. No point is one of
        ``taken`` or of the places before it. The same state of rng gives the same batch.

        Args:
            score: What a candidate is worth.
            space: Where to search.
            q: Number of places.
            rng: The only source of randomness.
            taken: Encoded points that must not be chosen, shape (k, d), such as those sent and not yet read; None for
                none. Two points are the same where no coordinate differs by ``SAME`` or more.

        Raises:
            ValueError: q < 1, the score is not finite somewhere, or a discrete space has too few points left.
        """
        ...
