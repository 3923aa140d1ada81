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

from fieldcraft.models.gaussian.hyperparameters import (
    NOISE_SD,
    SCALES,
    SIZE_SD,
    SIZES,
    likeliest,
    noise_prior,
)
from fieldcraft.models.gaussian.summed_process import drawn_terms
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.numerics.length_scales import STATIONARY_SD, encoded_mean
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Function

_ROOT = math.sqrt(5.0)
# Random Fourier features of the prior of one coordinate, and of the interaction.
_FEATURES, _FULL_FEATURES = 128, 512
# Mean of log b^2: an interaction of a tenth of the whole.
_FULL_SIZE = math.log(0.1)


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
        together = torch.zeros(len(A), len(B), dtype=A.dtype)
        found = together + 1.0
        for i in range(self.dimension):
            apart = A[:, i, None] - B[:, i]
            together = together + apart.square()
            # No absolute value: m is smooth in r^2, and the root's slope at 0 would be infinite.
            found = found + self.sizes[i].exp() * _matern(apart.square(), self.scales[i])
        return found + self.sizes[-1].exp() * _matern(together, self.scales[-1])

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
    s = _ROOT * (squares + 1e-30).sqrt() * (-log_scale).exp()
    return (1 + s + s.square() / 3) * (-s).exp()


class AdditiveEvidence:
    """log p(y) plus the log prior density of the hyper-parameters, with its exact gradient.

    With P = (K + N)^-1, alpha = P y and W = alpha alpha^T - P, the derivative by a hyper-parameter is
    1/2 sum_ij W_ij dK_ij (Rasmussen and Williams, 2006, equation 5.9).
    """

    def __init__(self, X: Array, y: Array, noise_variance: float | None) -> None:
        """Take encoded points X (n, d) and targets y (n,), with known noise variance or None to fit it."""
        d = X.shape[1]
        apart = np.abs(X[:, None, :] - X[None, :, :]).transpose(2, 0, 1)
        self.distances = np.concatenate([apart, np.sqrt((apart**2).sum(0, keepdims=True))])
        self.y = y
        noise, noises = noise_prior(noise_variance)
        sizes = [*[math.log(1 / d)] * d, _FULL_SIZE]
        scales = [*[encoded_mean(1)] * d, encoded_mean(d)]
        self.centre = np.array([*sizes, *scales, noise])
        self.spread = np.array([*[SIZE_SD] * (d + 1), *[STATIONARY_SD] * (d + 1), NOISE_SD])
        self.bounds = [*[SIZES] * (d + 1), *[SCALES] * (d + 1), noises]

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Log posterior density at sizes, scales and log_noise (2 d + 3,), up to a constant, and its gradient."""
        half = (len(flat) - 1) // 2
        n, sizes = len(self.y), np.exp(flat[:half])
        s = _ROOT * self.distances / np.exp(flat[half : 2 * half])[:, None, None]
        decay = np.exp(-s)
        parts = sizes[:, None, None] * (1 + s + s**2 / 3) * decay
        noise = math.exp(flat[-1])
        matrix = 1.0 + parts.sum(0) + noise * np.eye(n)
        lower, failed = torch.linalg.cholesky_ex(torch.from_numpy(matrix))
        if failed:
            return -math.inf, np.zeros_like(flat)
        inverse = torch.cholesky_inverse(lower).numpy()
        alpha = inverse @ self.y
        weights = np.outer(alpha, alpha) - inverse
        slope = np.empty_like(flat)
        slope[:half] = 0.5 * np.einsum("ij,cij->c", weights, parts)
        slope[half : 2 * half] = 0.5 * np.einsum(
            "ij,cij->c", weights, sizes[:, None, None] * s**2 * (1 + s) / 3 * decay
        )
        slope[-1] = 0.5 * noise * np.trace(weights)
        logdet = 2 * float(lower.diagonal().log().sum())
        value = -0.5 * (float(self.y @ alpha) + logdet + n * math.log(2 * math.pi))
        pull = (flat - self.centre) / self.spread
        return value - 0.5 * float(pull @ pull), slope - pull / self.spread


def fit_kernel(X: Array, y: Array, noise_variance: float | None, starts: Array) -> tuple[AdditiveKernel, float]:
    """Hyper-parameters of the largest posterior density, and its logarithm.

    Args:
        X: Encoded points, shape (n, d).
        y: Targets, shape (n,).
        noise_variance: Variance of a target if it is known; None to fit it.
        starts: Standard normal offsets from the centre of the prior to begin L-BFGS-B at, shape (s, 2 d + 3).

    Raises:
        ValueError: no start gave a finite density.
    """
    flat, density = likeliest(AdditiveEvidence(X, y, noise_variance), starts, len(y))
    return AdditiveKernel.of(flat), density


def factor(kernel: AdditiveKernel, X: Tensor) -> Factor:
    """Factor of the covariance of results at X (n, d), noise included."""
    return Factor.of(kernel(X, X), kernel.noise)
