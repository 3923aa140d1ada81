"""Monomials of encoded coordinates: the terms of a polynomial."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.observations import Array


@dataclass(frozen=True)
class Monomials:
    """1, u_i and, of degree 2, u_i u_j with i <= j, of encoded coordinates u.

    Args:
        dimension: Number d of coordinates.
        degree: 1 or 2.
    """

    dimension: int
    degree: int

    def __len__(self) -> int:
        """Number p of terms, the constant included."""
        return 1 + self.dimension + (len(self._pairs[0]) if self.degree == 2 else 0)

    def __call__(self, X: Tensor) -> Tensor:
        """The terms at X (n, d), shape (n, p), differentiable."""
        i, j = self._pairs
        products = [X[:, i] * X[:, j]] if self.degree == 2 else []
        return torch.cat([X.new_ones(len(X), 1), X, *products], dim=1)

    def pulled(self, X: Array, weights: Array) -> Array:
        """Gradient by X (n, d) of the sum of the terms with weights (n, p), shape (n, d)."""
        d = self.dimension
        found = weights[:, 1 : 1 + d].copy()
        if self.degree == 2:
            (i, j), square = self._pairs, np.zeros((len(X), d, d))
            square[:, i, j] = weights[:, 1 + d :]
            found += np.einsum("nij,nj->ni", square, X) + np.einsum("nij,ni->nj", square, X)
        return np.asarray(found)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.triu_indices(self.dimension)
