"""Sobol sequence (Sobol', 1967), scrambled: evenly spread designs."""

from dataclasses import dataclass

import numpy as np

from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.models.proposer import checked_range
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class Sobol:
    """Scrambled Sobol points; those that violate a known constraint are left out."""

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Points number start ... start + q - 1, encoded, shape (q, d) (see Proposer.propose)."""
        checked_range(start, q)
        return take(sobol_points(space, rng), start + q)[start:]
