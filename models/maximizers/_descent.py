"""Least point of a function on a space."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.scoring.gp_score import ambient
from fieldcraft.models.surrogate import Function
from fieldcraft.physics.space import SearchSpace


def minimiser(function: Function, space: SearchSpace, n_points: int, n_starts: int) -> Tensor:
    """The least point (1, d) of a function in a space, encoded: the best of many points, improved by gradients.

    Randomness comes from torch's ambient generator.
    """
    found = Multistart(n_points, n_starts).maximize(_Depth(function), space, 1, ambient())
    return torch.from_numpy(found.X)


@dataclass(frozen=True, eq=False)
class _Depth:
    """Minus a function, as a score."""

    function: Function

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Minus the function at X (n, d), shape (n,)."""
        return -self.function(X)
