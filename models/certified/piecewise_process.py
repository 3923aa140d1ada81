"""An exact Gaussian process whose kernel is replaced by a piecewise-linear one, and its confidence bound.

With L L^T the covariance of the results, a = L^-1 (y - m0) and z = L^-1 k~(X, x),

    mu~ = m0 + a . z,        sigma~^2 = 1 - z . z,        score = b sigma~ - mu~.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.certified.piecewise_kernel import Form, PiecewiseKernel
from fieldcraft.models.gaussian.grouped_process import UnitProcess
from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.observations import Array

LEAST_EIGENVALUE = 1e-6
"""To which the smallest eigenvalue of an interpolated covariance is raised, as the paper's published code does."""

Gram = Literal["exact", "interpolated"]


@dataclass(frozen=True, eq=False)
class PiecewiseProcess:
    """The approximate process, and the weight of its standard deviation in the score.

    With the exact covariance of the results, a variance below zero, which k~ can give, counts as zero. With the
    interpolated one a point of negative variance does not belong to the program, as in the paper.

    Args:
        kernel: k~.
        scales: Length scales, encoded, shape (d,).
        centres: Inputs divided by them, shape (n, d).
        lower: L, shape (n, n).
        coefficients: a, shape (n,).
        constant: m0.
        optimism: b >= 0.
        gram: Kernel of the covariance of the results.
        shift: Number added to its diagonal to make it positive definite.
    """

    kernel: PiecewiseKernel
    scales: Array
    centres: Array
    lower: Array
    coefficients: Array
    constant: float
    optimism: float
    gram: Gram
    shift: float

    @classmethod
    def of(
        cls,
        posterior: UnitProcess,
        optimism: float,
        bounds: Array,
        *,
        form: Form = "r",
        gram: Gram = "exact",
        tolerance: float | None = None,
    ) -> "PiecewiseProcess":
        """The approximation of a posterior in the box of ``bounds`` (2, d); see PiecewiseKernel.of for the rest.

        A term of a sum has the exact covariance here, because the interpolated one needs all terms: see
        ``interpolated``.
        """
        scales = posterior.length_scales.numpy()
        centres, corners = posterior.fit.X.numpy() / scales, bounds / scales
        reach = max(float(np.linalg.norm(corners[1] - corners[0])), float(farthest(centres, corners).max()))
        # Where the box is one point and all inputs lie there, any pieces will do.
        reach = reach or 1.0
        kernel = PiecewiseKernel.of(Radial(posterior.fit.kernel), form, len(scales), reach, tolerance)
        lower = posterior.factor.lower.numpy()
        y = (posterior.fit.targets - posterior.constant).numpy()
        coefficients = np.linalg.solve(lower, y)
        made = cls(kernel, scales, centres, lower, coefficients, posterior.constant, optimism, "exact", 0.0)
        return made if gram == "exact" else interpolated([made], [1.0], y, posterior.noises)[0]

    @property
    def clipped(self) -> bool:
        """True if a variance below zero counts as zero."""
        return self.gram == "exact"

    @property
    def weights(self) -> Array:
        """c with mu~ = m0 + c . k~, shape (n,)."""
        return np.asarray(np.linalg.solve(self.lower.T, self.coefficients))

    def distances(self, X: Array) -> Array:
        """r between encoded X (m, d) and the inputs, shape (m, n)."""
        return np.asarray(np.linalg.norm((X / self.scales)[:, None] - self.centres, axis=-1))

    def whitened(self, X: Array) -> Array:
        """z at encoded X (m, d), shape (m, n)."""
        return np.asarray(np.linalg.solve(self.lower, self.kernel.value(self.distances(X)).T).T)

    def value(self, X: Array) -> Array:
        """The approximate score at encoded X (m, d), shape (m,); minus infinity for points outside the program."""
        z = self.whitened(X)
        variance = 1 - np.square(z).sum(axis=1)
        score = self.optimism * np.sqrt(np.maximum(variance, 0.0)) - self.constant - z @ self.coefficients
        return score if self.clipped else np.where(variance < 0, -np.inf, score)


def farthest(centres: Array, corners: Array) -> Array:
    """Largest distance of each of ``centres`` (n, d) to a point of the box with ``corners`` (2, d), shape (n,)."""
    return np.asarray(np.linalg.norm(np.abs(centres[None] - corners[:, None]).max(axis=0), axis=-1))


def interpolated(
    processes: Sequence[PiecewiseProcess], variances: Sequence[float], y: Array, noise: float | Tensor
) -> list[PiecewiseProcess]:
    """Terms of a sum with the covariance of the results computed from their kernels k~.

    Args:
        processes: The terms, each in units in which its prior variance is 1, with the exact covariance.
        variances: The prior variance of each.
        y: Results less the constant of the whole, shape (n,).
        noise: Variance of a result: a number, or one for each, shape (n,).
    """
    pairs = list(zip(processes, variances, strict=True))
    covariance = torch.from_numpy(sum(variance * _gram(process) for process, variance in pairs))
    identity = torch.eye(len(covariance), dtype=torch.float64)
    covariance = covariance + noise * identity
    least = float(torch.linalg.eigvalsh(covariance)[0])
    shift = max(0.0, LEAST_EIGENVALUE - least)
    lower = torch.linalg.cholesky(covariance + shift * identity).numpy()
    found = []
    for process, variance in pairs:
        own = lower / np.sqrt(variance)
        coefficients = np.linalg.solve(own, y)
        found.append(replace(process, lower=own, coefficients=coefficients, gram="interpolated", shift=shift))
    return found


def _gram(process: PiecewiseProcess) -> Array:
    """k~ between the inputs, shape (n, n)."""
    centres = process.centres
    return process.kernel.value(np.linalg.norm(centres[:, None] - centres, axis=-1))
