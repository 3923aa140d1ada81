"""All polynomials of a point up to a total degree, weighted so that their sum of products is a power series."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Monomials:
    """psi_a(x) = sqrt(|a|! / a!) prod_i u_i^a_i, u = x / sqrt(d), |a| <= degree: |u| = 1 in the corners of the box.

    By the multinomial theorem the functions of one degree k add up to sum psi_a(x) psi_a(x') = (u . u')^k.

    Args:
        dimension: d.
        degree: Highest total degree.
    """

    dimension: int
    degree: int

    @classmethod
    def at_most(cls, dimension: int, functions: int, degree: int) -> "Monomials":
        """Of the highest degree, up to ``degree``, that takes no more than so many functions; at least linear."""
        fitting = [k for k in range(2, degree + 1) if math.comb(dimension + k, k) <= functions]
        return cls(dimension, max(fitting, default=1))

    @cached_property
    def degrees(self) -> Tensor:
        """|a| of each function, shape (K,)."""
        return self._powers.sum(1).double()

    @cached_property
    def _powers(self) -> Tensor:
        """a, shape (K, d), by degree."""
        return torch.tensor([a for k in range(self.degree + 1) for a in _of_degree(self.dimension, k)])

    @cached_property
    def _weights(self) -> Tensor:
        """sqrt(|a|! / a!), shape (K,)."""
        factorials = torch.lgamma(self._powers.double() + 1).sum(1)
        return (0.5 * (torch.lgamma(self.degrees + 1) - factorials)).exp()

    def features(self, X: Tensor) -> Tensor:
        """Their values at encoded X (n, d), shape (n, K), differentiable in X."""
        unit = X / math.sqrt(self.dimension)
        ladder = [torch.ones_like(unit)]
        for _ in range(self.degree):
            ladder.append(ladder[-1] * unit)
        powers = torch.stack(ladder, dim=-1)
        found = self._weights * powers[:, 0, self._powers[:, 0]]
        for i in range(1, self.dimension):
            found = found * powers[:, i, self._powers[:, i]]
        return found


def _of_degree(dimension: int, degree: int) -> Iterator[tuple[int, ...]]:
    """The ways to share a degree out among the coordinates."""
    if dimension == 1:
        yield (degree,)
        return
    for first in range(degree, -1, -1):
        for rest in _of_degree(dimension - 1, degree - first):
            yield (first, *rest)
