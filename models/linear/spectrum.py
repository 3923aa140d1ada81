"""Evidence of the sizes of a correlation and of the noise beside it, at no more than O(n) after one decomposition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

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

    @classmethod
    def stacked(cls, parts: "Sequence[Spectrum]") -> "Spectrum":
        """Those of several targets, each array with an axis for them in front."""
        return cls(*(np.stack([getattr(each, field.name) for each in parts]) for field in fields(cls)))

    def log_likelihood(self, log_output: Array | float, log_noise: Array | float) -> tuple[Array, Array]:
        """log p(t), shape (...), and its derivatives by log s^2 and log v, shape (..., 2), for sizes (...)."""
        output, noise = np.exp(log_output), np.exp(log_noise)
        a = np.expand_dims(output, -1) * self.values + np.expand_dims(noise, -1)
        one, solved = self.ones / a, self.targets / a
        more = 1 + (self.ones * one).sum(axis=-1)
        solved = solved - one * ((self.ones * solved).sum(axis=-1) / more)[..., None]
        value = (self.targets * solved).sum(axis=-1) + np.log(a).sum(axis=-1) + np.log(more)
        by_a = solved**2 - 1 / a + one**2 / more[..., None]
        slope = np.stack([output * (self.values * by_a).sum(axis=-1), noise * by_a.sum(axis=-1)], axis=-1)
        return -0.5 * (value + a.shape[-1] * math.log(2 * math.pi)), 0.5 * slope
