"""Functions of mean and standard deviation that acquisitions maximise, with their derivatives in closed form.

With z = (level - mean) / sd, phi and Phi the normal density and distribution, h(z) = phi(z) + z Phi(z):

    log E[max(level - f, 0)] = log h(z) + log sd,    d/d mean = -Phi / (h sd),    d/d sd = phi / (h sd)
    log P[f < level] = log Phi(z),                   d/d mean = -phi / (Phi sd),  d/d sd = -z phi / (Phi sd)

Below -1 h / phi = 1 + z r, with Mills' ratio r = Phi / phi = sqrt(pi/2) erfcx(-z/sqrt 2); where that is lost to
rounding it is computed from its asymptotic series in 1/z^2 (compare Ament et al., 2023).
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy.special import erfcx, log_ndtr, ndtr
from torch import Tensor
from torch.autograd.function import once_differentiable

from fieldcraft.models.observations import Array

LEAST_SD = 1e-6
"""Standard deviations below this, in those of the results, count as this."""

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)
# z from which on 1 + z r is lost to rounding; there so many terms of its series are exact to rounding.
_FAR, _TERMS = -30.0, 8
Valued = tuple[Array, Array, Array]
"""Values, derivatives by the mean and by the standard deviation, shape (n,) each."""


class Criterion(Protocol):
    """A function that falls with the mean and is quasiconvex in mean and standard deviation."""

    def __call__(self, mean: Array, sd: Array) -> Valued:
        """The function at means (n,) and standard deviations (n,) > 0, with its derivatives."""
        ...


@dataclass(frozen=True)
class LogImprovement:
    """log E[max(level - f, 0)], for one level or for as many as there are means."""

    level: float | Array

    def __call__(self, mean: Array, sd: Array) -> Valued:
        """See Criterion."""
        z = (self.level - mean) / sd
        log_h, ratio, density = _log_h(z)
        return log_h + np.log(sd), -ratio / sd, density / sd


@dataclass(frozen=True)
class LogProbability:
    """log P[f < level], for one level or for as many as there are means."""

    level: float | Array

    def __call__(self, mean: Array, sd: Array) -> Valued:
        """See Criterion."""
        z = (self.level - mean) / sd
        hazard = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
        return log_ndtr(z), -hazard / sd, -z * hazard / sd


@dataclass(frozen=True)
class Optimism:
    """b sd - mean, with b >= 0."""

    b: float

    def __call__(self, mean: Array, sd: Array) -> Valued:
        """See Criterion."""
        return self.b * sd - mean, np.full_like(mean, -1.0), np.full_like(sd, self.b)


def evaluated(criterion: Criterion, mean: Tensor, sd: Tensor) -> Tensor:
    """A criterion at means (n,) and standard deviations (n,), differentiable once in both."""
    found: Tensor = _Evaluated.apply(mean, sd, criterion)  # type: ignore[no-untyped-call]
    return found


class _Evaluated(torch.autograd.Function):
    """A criterion whose backward pass takes the derivatives that it knows."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sd: Tensor, criterion: Criterion) -> Tensor:
        value, by_mean, by_sd = criterion(mean.detach().numpy(), sd.detach().numpy())
        ctx.slopes = by_mean, by_sd
        return torch.from_numpy(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, Tensor, None]:
        by_mean, by_sd = ctx.slopes
        return by_value * torch.from_numpy(by_mean), by_value * torch.from_numpy(by_sd), None


def _log_h(z: Array) -> Valued:
    """log h(z), Phi(z) / h(z) and phi(z) / h(z), to nearly full precision at every z."""
    near = np.maximum(z, -1)
    phi, Phi = np.exp(-0.5 * near**2 - _LOG_ROOT_TAU), ndtr(near)
    h = phi + near * Phi
    # Below -1 all are divided by phi, which may vanish.
    below = np.minimum(z, -1)
    mills = math.sqrt(math.pi / 2) * erfcx(-below / math.sqrt(2))
    left, tail, far = 1 + below * mills, z < -1, z < _FAR
    if far.any():
        left = np.where(far, _series(np.minimum(z, _FAR)), left)
    return (
        np.where(tail, -0.5 * z**2 - _LOG_ROOT_TAU + np.log(left), np.log(h)),
        np.where(tail, mills / left, Phi / h),
        np.where(tail, 1 / left, phi / h),
    )


def _series(z: Array) -> Array:
    """1 + z Phi(z) / phi(z) = 1/z^2 - 3/z^4 + 15/z^6 - ... for z far below zero."""
    inverse = z**-2
    total = np.ones_like(z)
    for k in range(_TERMS, 1, -1):
        total = 1 - (2 * k - 1) * inverse * total
    return inverse * total
