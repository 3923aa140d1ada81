"""Kernel that is a sum over the coordinates plus one over all of them together, and its evidence.

    k(x, x') = 1 + sum_i a_i^2 m(|x_i - x'_i| / l_i) + b^2 m(||x - x'|| / l_0),    m Matern of smoothness 5/2

A first-order additive process with the interaction of full order (Duvenaud, Nickisch and Rasmussen, 2011): where the
objective is nearly a sum of functions of one variable, n results inform each of the d functions instead of one
function of d variables. The constant 1 is the prior variance of the mean.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

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
        """k at A (a, d) and B (b, d), shape (a, b), differentiable in both."""
        if torch.is_grad_enabled() and (A.requires_grad or B.requires_grad):
            return self._differentiable(A, B)
        # In place, in blocks that stay in the cache: a sixth of the time.
        return torch.cat([self._fixed(rows, B) for rows in A.split(max(1, _BLOCK // max(1, len(B))))])

    def _differentiable(self, A: Tensor, B: Tensor) -> Tensor:
        together = torch.zeros(len(A), len(B), dtype=A.dtype)
        found = together + 1.0
        for i in range(self.dimension):
            squares = (A[:, i, None] - B[:, i]).square()
            together = together + squares
            # No absolute value: m is smooth in r^2, and the root's slope at 0 would be infinite.
            found = found + self.sizes[i].exp() * _matern(squares, self.scales[i])
        return found + self.sizes[-1].exp() * _matern(together, self.scales[-1])

    def _fixed(self, A: Tensor, B: Tensor) -> Tensor:
        sizes, rates = self.sizes.exp().tolist(), (ROOT * (-self.scales).exp()).tolist()
        found, together = A.new_ones(len(A), len(B)), A.new_zeros(len(A), len(B))
        for i in range(self.dimension):
            apart = A[:, i, None] - B[:, i]
            together.addcmul_(apart, apart)
            _add_matern(found, sizes[i], apart.abs_().mul_(rates[i]))
        return _add_matern(found, sizes[-1], together.sqrt_().mul_(rates[-1]))

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


def _matern(squares: Tensor, log_scale: Tensor) -> Tensor:
    """m(r / l) from r^2."""
    s = ROOT * (squares + 1e-30).sqrt() * (-log_scale).exp()
    return (1 + s + s.square() / 3) * (-s).exp()


def _add_matern(found: Tensor, size: float, s: Tensor) -> Tensor:
    """``found`` plus size (1 + s + s^2/3) e^-s, in place of it and of s."""
    decay = s.neg().exp_()
    part = s.square().div_(3).add_(s).add_(1).mul_(decay)
    return found.add_(part, alpha=size)


def factor(kernel: AdditiveKernel, X: Tensor) -> Factor:
    """Factor of the covariance of results at X (n, d), noise included."""
    return Factor.of(kernel(X, X), kernel.noise)
