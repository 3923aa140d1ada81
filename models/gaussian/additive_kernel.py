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
# Numbers of a block of distances.
_BLOCK = 2**16


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

    def with_slopes(self, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
        """k at A (a, d) and B (b, d), shape (a, b), and its derivatives by the coordinates of A, shape (d, a, b)."""
        apart, s, decay = self._distances(A, B)
        return self._sum(s, decay), self._pull(apart, s, decay)

    def _distances(self, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x_i - x'_i, shape (d, a, b); s_i = sqrt(5) |x_i - x'_i| / l_i and last s_0, and e^-s, shape (d + 1, a, b)."""
        apart = A.mT[:, :, None] - B.mT[:, None, :]
        s = torch.cat([apart.abs(), torch.linalg.vector_norm(apart, dim=0, keepdim=True)])
        s *= self._rates
        return apart, s, s.neg().exp_()

    def _sum(self, s: Tensor, decay: Tensor) -> Tensor:
        parts = s.square().div_(3).add_(s).add_(1).mul_(decay)
        total: Tensor = torch.tensordot(self.sizes.exp(), parts, dims=1)
        return total.add_(1)

    def _pull(self, apart: Tensor, s: Tensor, decay: Tensor) -> Tensor:
        """dk/dx_i = -5/3 (x_i - x'_i) (a_i^2 (1 + s_i) e^-s_i / l_i^2 + b^2 (1 + s_0) e^-s_0 / l_0^2), (d, a, b)."""
        pull = (s + 1).mul_(decay).mul_(-self.sizes.exp()[:, None, None] * self._rates.square() / 3)
        pull[:-1] += pull[-1]
        return pull[:-1].mul_(apart)

    @cached_property
    def _rates(self) -> Tensor:
        """sqrt(5) / l_i and, last, sqrt(5) / l_0, shape (d + 1, 1, 1)."""
        return (ROOT * (-self.scales).exp())[:, None, None]

    def blocks(self, A: Tensor, B: Tensor) -> tuple[Tensor, ...]:
        """The rows of A (a, d) in blocks whose arrays with B (b, d) stay in the cache."""
        return tuple(torch.split(A, max(1, _BLOCK // max(1, len(self.sizes) * len(B)))))

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
        return torch.cat([kernel._sum(*kernel._distances(rows, B)[1:]) for rows in kernel.blocks(A, B)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, Tensor, None]:
        A, B = ctx.saved_tensors
        by_A, by_B, first = torch.empty_like(A), torch.zeros_like(B), 0
        for rows in ctx.kernel.blocks(A, B):
            here = slice(first, first + len(rows))
            pull = ctx.kernel._pull(*ctx.kernel._distances(rows, B)).mul_(by_value[here])
            by_A[here] = pull.sum(2).mT
            by_B -= pull.sum(1).mT
            first += len(rows)
        return by_A, by_B, None


def factor(kernel: AdditiveKernel, X: Tensor) -> Factor:
    """Factor of the covariance of results at X (n, d), noise included."""
    return Factor.of(kernel(X, X), kernel.noise)
