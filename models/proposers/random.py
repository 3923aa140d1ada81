"""Random search (Bergstra and Bengio, 2012): independent uniform designs."""

from dataclasses import dataclass

import numpy as np

from fieldcraft.models.numerics.point_sets import take, uniform_points
from fieldcraft.models.observations import Array
from fieldcraft.models.proposer import checked_range
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class Random:
    """Uniform points; those that violate a known constraint are left out."""

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Points number start ... start + q - 1, encoded, shape (q, d) (see Proposer.propose)."""
        checked_range(start, q)
        return take(uniform_points(space, rng), start + q)[start:]
