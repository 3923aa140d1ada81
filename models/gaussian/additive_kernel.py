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
from scipy.spatial.distance import cdist
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
# Numbers of a block of distances.
_BLOCK = 2**14


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

    def values(self, A: Array, B: Array) -> Array:
        """k at A (a, d) and B (b, d), shape (a, b)."""
        found = np.ones((len(A), len(B)))
        thirds = self.sizes.numpy() - math.log(3)
        rates, left, right = self._rates.ravel(), *((points * self._rates[:-1, 0, 0]).T for points in (A, B))
        for rows in self.blocks(A, B, 1):
            s, decay = np.empty_like(found[rows]), np.empty_like(found[rows])
            for i, size in enumerate(thirds):
                if i < len(left):
                    np.abs(np.subtract.outer(left[i, rows], right[i], out=s), out=s)
                else:
                    np.multiply(cdist(A[rows], B), rates[-1], out=s)
                np.exp(np.subtract(size, s, out=decay), out=decay)
                # 1 + s + s^2/3 = ((s + 3/2)^2 + 3/4) / 3
                s += 1.5
                s *= s
                s += 0.75
                s *= decay
                found[rows] += s
        return found

    def with_slopes(self, A: Array, B: Array) -> tuple[Array, Array]:
        """k at A (a, d) and B (b, d), shape (a, b), and its derivatives by the coordinates of A, shape (d, a, b).

        dk/dx_i = -5/3 (x_i - x'_i) (a_i^2 (1 + s_i) e^-s_i / l_i^2 + b^2 (1 + s_0) e^-s_0 / l_0^2)
        """
        apart = A.T[:, :, None] - B.T[:, None, :]
        s = np.empty((len(apart) + 1, len(A), len(B)))
        np.abs(apart, out=s[:-1])
        s[-1] = cdist(A, B)
        s *= self._rates
        decay = self.sizes.numpy()[:, None, None] - s
        np.exp(decay, out=decay)
        slopes = s + 1
        slopes *= decay
        parts = s
        parts *= s
        parts *= decay
        parts *= 1 / 3
        parts += slopes
        slopes *= self._rates**2 / -3
        slopes[:-1] += slopes[-1]
        slopes[:-1] *= apart
        return 1 + parts.sum(axis=0), slopes[:-1]

    @cached_property
    def _rates(self) -> Array:
        """sqrt(5) / l_i and, last, sqrt(5) / l_0, shape (d + 1, 1, 1)."""
        rates: Array = ROOT * np.exp(-self.scales.numpy())
        return rates[:, None, None]

    def blocks(self, A: Array, B: Array, arrays: int) -> list[slice]:
        """Rows of A (a, d) in blocks so many of whose arrays with B (b, d) stay in the cache."""
        rows = max(1, _BLOCK // max(1, arrays * len(B)))
        return [slice(first, first + rows) for first in range(0, len(A), rows)]

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
    """k at two sets of points, with a backward pass in closed form."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, kernel: AdditiveKernel) -> Tensor:
        ctx.save_for_backward(A, B)
        ctx.kernel = kernel
        return torch.from_numpy(kernel.values(A.detach().numpy(), B.detach().numpy()))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = (points.detach().numpy() for points in ctx.saved_tensors)
        weights, by_a, by_b = by_value.numpy(), np.empty_like(a), np.zeros_like(b)
        for rows in ctx.kernel.blocks(a, b, len(ctx.kernel.sizes)):
            pull = ctx.kernel.with_slopes(a[rows], b)[1] * weights[rows]
            by_a[rows] = pull.sum(axis=2).T
            by_b -= pull.sum(axis=1).T
        return torch.from_numpy(by_a), torch.from_numpy(by_b), None


def factor(kernel: AdditiveKernel, X: Tensor) -> Factor:
    """Factor of the covariance of results at X (n, d), noise included."""
    return Factor.of(kernel(X, X), kernel.noise)
