"""Kernel that is a sum over the coordinates plus one over all of them together, and its evidence.

    k(x, x') = 1 + sum_i a_i^2 m(|x_i - x'_i| / l_i) + b^2 m(||x - x'|| / l_0),    m Matern of smoothness 5/2

A first-order additive process with the interaction of full order (Duvenaud, Nickisch and Rasmussen, 2011): where the
objective is nearly a sum of functions of one variable, n results inform each of the d functions instead of one
function of d variables. The constant 1 is the prior variance of the mean.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fieldcraft.models.gaussian.summed_process import drawn_terms
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Function

ROOT = math.sqrt(5.0)
"""Factor of a distance in length scales in a Matern kernel of smoothness 5/2."""

# Random Fourier features of the prior of one coordinate, and of the interaction.
_FEATURES, _FULL_FEATURES = 128, 512
# Numbers of a block of covariances.
_BLOCK = 2**15


@dataclass(frozen=True, eq=False)
class AdditiveKernel:
    """Hyper-parameters of the kernel.

    Args:
        sizes: log a_i^2 and, last, log b^2, shape (d + 1,), in squared target units.
        scales: log l_i and, last, log l_0, shape (d + 1,), in encoded coordinates.
        log_noise: log of the variance of a result, in squared target units.
    """

    sizes: Tensor
    scales: Tensor
    log_noise: float

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return len(self.sizes) - 1

    @property
    def noise(self) -> float:
        """Variance of a result."""
        return math.exp(self.log_noise)

    @cached_property
    def variance(self) -> float:
        """k(x, x), the same everywhere."""
        return 1.0 + float(self.sizes.exp().sum())

    def __call__(self, A: Tensor, B: Tensor) -> Tensor:
        """k at A (a, d) and B (b, d), shape (a, b), differentiable once in both."""
        found: Tensor = _Covariance.apply(A, B, self)  # type: ignore[no-untyped-call]
        return found

    @cached_property
    def rates(self) -> list[float]:
        """sqrt(5) / l_i and, last, sqrt(5) / l_0."""
        rates: list[float] = (ROOT * (-self.scales).exp()).tolist()
        return rates

    @cached_property
    def variances(self) -> list[float]:
        """a_i^2 and, last, b^2."""
        variances: list[float] = self.sizes.exp().tolist()
        return variances

    def prior(self, rng: np.random.Generator) -> Function:
        """One function from the prior: a constant and random Fourier features of every part."""
        d, scales = self.dimension, self.scales.exp()
        groups = [*([i] for i in range(d)), list(range(d))]
        ranges = [*(scales[i : i + 1] for i in range(d)), scales[-1:].expand(d)]
        counts = [_FEATURES] * d + [_FULL_FEATURES]
        *single, full = drawn_terms("matern52", groups, self.sizes, ranges, counts, rng)
        constant = float(rng.standard_normal())

        def function(X: Tensor) -> Tensor:
            found = full(X) + constant
            for term in single:
                found = found + term(X)
            return found

        return function

    @classmethod
    def of(cls, flat: Array) -> "AdditiveKernel":
        """Kernel from sizes, scales and log_noise in one array (2 d + 3,)."""
        half = (len(flat) - 1) // 2
        parts = torch.from_numpy(np.array(flat, dtype=np.float64))
        return cls(parts[:half], parts[half : 2 * half], float(flat[-1]))

    def flat(self) -> Array:
        """Sizes, scales and log_noise, shape (2 d + 3,)."""
        return np.concatenate([self.sizes.numpy(), self.scales.numpy(), [self.log_noise]])


class _Covariance(torch.autograd.Function):
    """k at two sets of points, whose backward pass goes through the coordinates one by one.

    With s_i = sqrt(5) |x_i - x'_i| / l_i, dk/dx_i = -5/3 (x_i - x'_i) (a_i^2 (1 + s_i) e^-s_i / l_i^2 + the same of
    the interaction).
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, kernel: AdditiveKernel) -> Tensor:
        ctx.save_for_backward(A, B)
        ctx.kernel = kernel
        # In blocks that stay in the cache.
        return torch.cat([_values(kernel, rows, B) for rows in A.split(max(1, _BLOCK // max(1, len(B))))])

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, Tensor, None]:
        A, B = ctx.saved_tensors
        sizes, rates = ctx.kernel.variances, ctx.kernel.rates
        together, by_A, by_B = A.new_zeros(len(A), len(B)), torch.empty_like(A), torch.empty_like(B)
        for i in range(A.shape[1]):
            together.addcmul_(*[A[:, i, None] - B[:, i]] * 2)
        shared = _slopes(together.sqrt_().mul_(rates[-1]), sizes[-1] * rates[-1] ** 2)
        for i in range(A.shape[1]):
            apart = A[:, i, None] - B[:, i]
            weights = _slopes(apart.abs().mul_(rates[i]), sizes[i] * rates[i] ** 2).add_(shared).mul_(by_value)
            weights.mul_(apart)
            by_A[:, i], by_B[:, i] = weights.sum(1), -weights.sum(0)
        return by_A, by_B, None


def _values(kernel: AdditiveKernel, A: Tensor, B: Tensor) -> Tensor:
    found, together = A.new_ones(len(A), len(B)), A.new_zeros(len(A), len(B))
    for i in range(kernel.dimension):
        apart = A[:, i, None] - B[:, i]
        together.addcmul_(apart, apart)
        _add_matern(found, kernel.variances[i], apart.abs_().mul_(kernel.rates[i]))
    return _add_matern(found, kernel.variances[-1], together.sqrt_().mul_(kernel.rates[-1]))


def _add_matern(found: Tensor, size: float, s: Tensor) -> Tensor:
    """``found`` plus size (1 + s + s^2/3) e^-s, in place."""
    decay = s.neg().exp_()
    part = s.square().div_(3).add_(s).add_(1).mul_(decay)
    return found.add_(part, alpha=size)


def _slopes(s: Tensor, factor: float) -> Tensor:
    """-factor/3 (1 + s) e^-s, the slope of a Matern kernel over the distance; s is used up."""
    decay = s.neg().exp_()
    return s.add_(1).mul_(decay).mul_(-factor / 3)


def factor(kernel: AdditiveKernel, X: Tensor) -> Factor:
    """Factor of the covariance of results at X (n, d), noise included."""
    return Factor.of(kernel(X, X), kernel.noise)
