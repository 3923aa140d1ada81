"""Kernel that is a sum over disjoint groups of coordinates, and the evidence of its hyper-parameters.

    k(x, x') = sum_g a_g^2 m(r_g),    r_g^2 = sum_{j in g} (x_j - x'_j)^2 / l_j^2

The mean of such a process is a constant, which the data give at any hyper-parameters: 1^T P y / 1^T P 1, P the inverse
covariance of the results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.hyperparameters import (
    NOISE_SD,
    SCALES,
    SIZE_SD,
    SIZES,
    likeliest,
    noise_prior,
)
from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.gaussian.summed_process import drawn_terms
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import STATIONARY_SD, encoded_mean
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Function

Groups = tuple[tuple[int, ...], ...]
"""The encoded coordinates of each group: each coordinate in one."""

# Random Fourier features of the prior of one group.
_FEATURES = 256
# Keeps the root of a distance of zero from an infinite slope.
_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class GroupedKernel:
    """Hyper-parameters of the kernel.

    Args:
        kind: The kernel m of every group.
        groups: The coordinates of each.
        sizes: log a_g^2, shape (g,), in squared target units.
        scales: log l_j, shape (d,), in encoded coordinates.
        log_noise: log of the variance of a result, in squared target units.
    """

    kind: Kernel
    groups: Groups
    sizes: Tensor
    scales: Tensor
    log_noise: float

    @property
    def noise(self) -> float:
        """Variance of a result."""
        return math.exp(self.log_noise)

    @cached_property
    def variances(self) -> Tensor:
        """a_g^2, shape (g,)."""
        return self.sizes.exp()

    @cached_property
    def variance(self) -> float:
        """k(x, x), the same everywhere."""
        return float(self.variances.sum())

    def part(self, group: int, A: Tensor, B: Tensor) -> Tensor:
        """The kernel of one group at A (a, d) and B (b, d), shape (a, b), differentiable in both."""
        columns = list(self.groups[group])
        scales = self.scales[columns].exp()
        apart = (A[:, columns] / scales).unsqueeze(1) - B[:, columns] / scales
        return self.variances[group] * Radial(self.kind).value(apart.square().sum(-1) + _TINY)

    def __call__(self, A: Tensor, B: Tensor) -> Tensor:
        """k at A (a, d) and B (b, d), shape (a, b), differentiable in both."""
        found = self.part(0, A, B)
        for group in range(1, len(self.groups)):
            found = found + self.part(group, A, B)
        return found

    def prior(self, rng: np.random.Generator) -> Function:
        """One function from the prior: random Fourier features of every group."""
        scales = [self.scales[list(columns)].exp() for columns in self.groups]
        counts = [_FEATURES] * len(self.groups)
        groups = [list(columns) for columns in self.groups]
        terms = drawn_terms(self.kind, groups, self.sizes, scales, counts, rng)
        return lambda X: torch.stack([term(X) for term in terms]).sum(0)

    @classmethod
    def of(cls, kind: Kernel, groups: Groups, flat: Array) -> "GroupedKernel":
        """Kernel from sizes, scales and log_noise in one array (g + d + 1,).

        Raises:
            ValueError: the array is of other groups.
        """
        size = len(groups) + sum(map(len, groups)) + 1
        if flat.shape != (size,):
            raise ValueError(
                f"{flat.size} hyper-parameters are given and {len(groups)} groups have {size}: restore with the "
                "surrogate that fitted them."
            )
        parts = torch.from_numpy(np.array(flat, dtype=np.float64))
        return cls(kind, groups, parts[: len(groups)], parts[len(groups) : -1], float(flat[-1]))

    def flat(self) -> Array:
        """Sizes, scales and log_noise, shape (g + d + 1,)."""
        return np.concatenate([self.sizes.numpy(), self.scales.numpy(), [self.log_noise]])


class GroupedEvidence:
    """log p(y) at the likeliest constant plus the log prior density of the hyper-parameters, with its exact gradient.

    With P = (K + N)^-1 and alpha = P (y - constant), the derivative by K is 1/2 (alpha alpha^T - P); the derivative by
    the constant is zero, because it is the likeliest.
    """

    def __init__(self, X: Array, y: Array, kind: Kernel, groups: Groups, noise_variance: float | None) -> None:
        """Take encoded points X (n, d) and targets y (n,), with known noise variance or None to fit it."""
        points = torch.tensor(X)
        self._squares = (points.mT.unsqueeze(2) - points.mT.unsqueeze(1)).square()
        self._y, self._radial, self._groups = torch.tensor(y), Radial(kind), groups
        noise, noises = noise_prior(noise_variance)
        widths = {j: len(columns) for columns in groups for j in columns}
        scales = [encoded_mean(widths[j]) for j in range(X.shape[1])]
        self.centre = np.array([*[math.log(1 / len(groups))] * len(groups), *scales, noise])
        self.spread = np.array([*[SIZE_SD] * len(groups), *[STATIONARY_SD] * len(scales), NOISE_SD])
        self.bounds = [*[SIZES] * len(groups), *[SCALES] * len(scales), noises]

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Log posterior density at sizes, scales and log_noise (g + d + 1,), up to a constant, and its gradient."""
        at = torch.tensor(flat, requires_grad=True)
        covariance = self._covariance(at)
        lower, failed = torch.linalg.cholesky_ex(covariance.detach())
        if failed:
            return -math.inf, np.zeros_like(flat)
        factor = Factor(lower)
        left = self._y - constant(factor, self._y)
        alpha = factor.solve(left)
        by_covariance = 0.5 * (torch.outer(alpha, alpha) - torch.cholesky_inverse(lower))
        (slope,) = torch.autograd.grad(covariance, at, by_covariance)
        pull = (flat - self.centre) / self.spread
        value = float(factor.log_marginal(left)) - 0.5 * float(pull @ pull)
        return value, slope.numpy() - pull / self.spread

    def _covariance(self, at: Tensor) -> Tensor:
        """K + N, shape (n, n)."""
        count, n = len(self._groups), len(self._y)
        sizes, weights = at[:count].exp(), (-2 * at[count:-1]).exp()
        found = at[-1].exp() * torch.eye(n, dtype=at.dtype)
        for size, group in zip(sizes, self._groups, strict=True):
            columns = list(group)
            squares = torch.tensordot(weights[columns], self._squares[columns], dims=1)
            found = found + size * self._radial.value(squares + _TINY)
        return found


def constant(factor: Factor, y: Tensor) -> float:
    """The likeliest mean of results y (n,) with this covariance."""
    ones = factor.solve(torch.ones_like(y))
    return float(ones @ y / ones.sum())


def fit_groups(
    X: Array, y: Array, kind: Kernel, groups: Groups, noise_variance: float | None, starts: Array
) -> tuple[GroupedKernel, float]:
    """Hyper-parameters of the largest posterior density, and its logarithm.

    Args:
        X: Encoded points, shape (n, d).
        y: Targets, shape (n,).
        kind: The kernel.
        groups: The coordinates of each group.
        noise_variance: Variance of a target if it is known; None to fit it.
        starts: Standard normal offsets from the centre of the prior to begin L-BFGS-B at, shape (s, g + d + 1).

    Raises:
        ValueError: no start gave a finite density.
    """
    flat, density = likeliest(GroupedEvidence(X, y, kind, groups, noise_variance), starts, len(y))
    return GroupedKernel.of(kind, groups, flat), density


def by_columns(names: Sequence[str], columns: Sequence[slice], asked: Sequence[Sequence[str]]) -> Groups:
    """Coordinates of each group of variables; each variable outside the groups is a group of its own, after them.

    Args:
        names: Of all variables.
        columns: The encoded coordinates of each.
        asked: Groups of names.

    Raises:
        ValueError: a group is empty, or a name is unknown or in two groups.
    """
    named = [name for group in asked for name in group]
    for name in named:
        if name not in names:
            raise ValueError(f"groups name {name!r}, and the variables are {', '.join(names)}: correct the name.")
        if named.count(name) > 1:
            raise ValueError(f"groups name {name!r} twice: a variable belongs to one group.")
    if not all(asked):
        raise ValueError("A group is empty: name at least one variable in each, or leave it out.")
    whole = [*asked, *([name] for name in names if name not in named)]
    where = dict(zip(names, columns, strict=True))
    return tuple(tuple(j for name in group for j in range(where[name].start, where[name].stop)) for group in whole)
