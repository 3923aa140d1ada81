"""Evidence of the sizes of a correlation and of the noise beside it, at no more than O(n) after one decomposition."""

import math
from dataclasses import dataclass

import numpy as np

from fieldcraft.models.observations import Array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Targets t ~ N(0, s^2 rho + 1 + v I), with rho = Q diag(e) Q^T.

    In the basis Q the covariance is diag(a) + z z^T with a = s^2 e + v and z = Q^T 1, whose inverse and determinant are
    those of a diagonal matrix with one row more (Sherman and Morrison).

    Args:
        values: e, shape (n,).
        ones: z, shape (n,).
        targets: Q^T t, shape (n,).
    """

    values: Array
    ones: Array
    targets: Array

    @classmethod
    def of(cls, correlation: Array, targets: Array) -> "Spectrum":
        """Decomposition of rho (n, n), for targets (n,), in O(n^3)."""
        values, vectors = np.linalg.eigh(correlation)
        # Those below zero are rounding.
        return cls(np.maximum(values, 0.0), vectors.sum(axis=0), targets @ vectors)

    def log_likelihood(self, log_output: float, log_noise: float) -> tuple[float, Array]:
        """log p(t) and its derivatives by log s^2 and log v, shape (2,)."""
        output, noise = math.exp(log_output), math.exp(log_noise)
        a = output * self.values + noise
        one, solved = self.ones / a, self.targets / a
        more = 1 + self.ones @ one
        solved -= one * (self.ones @ solved) / more
        value = self.targets @ solved + np.log(a).sum() + math.log(more) + len(a) * math.log(2 * math.pi)
        by_a = solved**2 - 1 / a + one**2 / more
        return -0.5 * float(value), 0.5 * np.array([output * (self.values @ by_a), noise * by_a.sum()])
