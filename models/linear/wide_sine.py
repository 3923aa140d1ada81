"""Evidence of the tangent kernel of an infinitely wide layer of sines, in closed form.

A network w / sqrt(m) sum_j v_j sin(g <W_j, a(x)>) with standard normal v, W and a(x) = (x / l, 1) has, as m grows, the
tangent kernel

    k(x, x') = w^2 (c C + S),    C = E[cos z cos z'] = (e^(-D/2) + e^(-D/2 - 2 c)) / 2,
                                 S = E[sin z sin z'] = (e^(-D/2) - e^(-D/2 - 2 c)) / 2,

where z = g <W_j, a(x)>, c = g^2 <a, a'> and D = g^2 |a - a'|^2: the first term is that of the inner weights, the second
that of the outer ones. The targets are t ~ N(0, s^2 rho + 1 + v I), rho the correlation
k(x, x') / sqrt(k(x, x) k(x', x')).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Array


@dataclass(frozen=True, eq=False)
class WideSine:
    """Targets of one or several outputs, and where they were read.

    Args:
        X: Shape (n, d).
        targets: Shape (n,), or (s, n) for several outputs.
        gain: g, the factor of a(x) in a sine.
    """

    X: Array
    targets: Array
    gain: float

    def log_likelihood(self, log_scales: Array, log_output: float, log_noise: float) -> tuple[float, Array]:
        """log p(t) and its derivatives by log l, log s^2 and log v, shape (d + 2,).

        Minus infinity and zeros where the covariance has no Cholesky factor.
        """
        sizes = np.array([log_output, log_noise])
        (value,), (slope,) = self.log_likelihoods(np.append(log_scales, sizes)[None], self.targets[None])
        return float(value), slope

    def log_likelihoods(self, at: Array, targets: Array) -> tuple[Array, Array]:
        """The same of several targets (s, n) at log l, log s^2 and log v (s, d + 2); shapes (s,) and (s, d + 2)."""
        n, d = self.X.shape
        output, noise = (np.exp(each)[:, None, None] for each in at[:, d:].T)
        Z = self.X * (self.gain * np.exp(-at[:, None, :d]))
        c = Z @ Z.mT + self.gain**2
        q = np.diagonal(c, axis1=1, axis2=2).copy()
        middle = 0.5 * (q[:, :, None] + q[:, None])
        near, far = np.exp(c - middle), np.exp(-c - middle)
        own_far = np.exp(-2 * q)
        k, cosines = 0.5 * (near - far), 0.5 * (near + far)
        k += c * cosines
        own = 0.5 * ((q + 1) + (q - 1) * own_far)
        root = 1 / np.sqrt(own)
        rho = k * root[:, :, None]
        rho *= root[:, None]
        covariance = output * rho
        covariance += 1
        covariance.reshape(len(at), n * n)[:, :: n + 1] = (output + 1 + noise)[:, 0]
        values, by_k = _explained(covariance, targets)
        by_noise = 0.5 * noise[:, 0, 0] * np.trace(by_k, axis1=1, axis2=2)
        by_k *= 0.5 * output
        seen = np.einsum("sij,sij->si", by_k, rho)
        by_k *= root[:, :, None]
        by_k *= root[:, None]
        # dk = (C + (1 - c) far) dc - k/2 dD, and D = q_i + q_j - 2 c: sums over pairs need no (d, n, n) array.
        k *= by_k
        c -= 1
        far *= c
        cosines -= far
        cosines *= by_k
        cosines += k
        by_own = -k.sum(axis=2) - seen / own * (0.5 * (1 + own_far) + (1 - q) * own_far)
        slopes = np.empty_like(at)
        slopes[:, :d] = -2 * ((Z * (cosines @ Z)).sum(axis=1) + (by_own[:, None] @ Z**2)[:, 0])
        slopes[:, d], slopes[:, d + 1] = seen.sum(axis=1), by_noise
        slopes[np.isinf(values)] = 0
        return values, slopes


def _explained(covariances: Array, targets: Array) -> tuple[Array, Array]:
    """log p (s,) of targets (s, n), and a a^T - S^-1 with a = S^-1 t (s, n, n); covariances (s, n, n) are overwritten.

    Minus infinity where a covariance has no Cholesky factor.
    """
    values, weights, n = np.full(len(targets), -math.inf), np.zeros_like(targets), targets.shape[1]
    for i, (S, t) in enumerate(zip(covariances, targets, strict=True)):
        # The transpose of a symmetric matrix is in LAPACK's order of memory: nothing is copied.
        lower, failed = dpotrf(S.T, lower=1, overwrite_a=1)
        if not failed:
            weights[i], _ = dpotrs(lower, t, lower=1)
            values[i] = -0.5 * t @ weights[i] - np.log(lower.diagonal()).sum() - 0.5 * n * math.log(2 * math.pi)
            dpotri(lower, lower=1, overwrite_c=1)
    inverse = np.triu(covariances)
    inverse += np.triu(covariances, 1).mT
    return values, weights[:, :, None] * weights[:, None] - inverse


@dataclass(frozen=True, eq=False)
class WideProcess:
    """The process of this kernel, conditioned on results: for a first look at many points.

    Args:
        inputs: g x / l where results were read, shape (..., n, d).
        scales: l / g, shape (..., 1, d).
        gain: g.
        sizes: s^2 and the variance of the constant, shapes (..., 1, 1).
        factor: Factor of the covariance of the results, noise included.
        weights: Its solution for the results, shape (..., 1, n).
    """

    inputs: Tensor
    scales: Tensor
    gain: float
    sizes: tuple[Tensor, Tensor]
    factor: Factor
    weights: Tensor

    @classmethod
    def of(
        cls,
        inputs: Tensor,
        y: Tensor,
        scales: Tensor,
        gain: float,
        sizes: tuple[float, float],
        noise: float,
    ) -> "WideProcess":
        """Condition on results y (n,) with noise.

        Raises:
            ValueError: the covariance has no factor.
        """
        factor = Factor.of(sizes[0] * correlations(inputs, inputs, gain) + sizes[1], noise)
        output, constant = (torch.tensor([[size]], dtype=torch.float64) for size in sizes)
        return cls(inputs, scales[None], gain, (output, constant), factor, factor.solve(y)[None])

    @classmethod
    def stacked(cls, parts: "Sequence[WideProcess]") -> "WideProcess":
        """One process for c processes of one gain with equally many results, whose moments are (c, n)."""
        output, constant = (torch.stack(each) for each in zip(*(part.sizes for part in parts), strict=True))
        return cls(
            inputs=torch.stack([each.inputs for each in parts]),
            scales=torch.stack([each.scales for each in parts]),
            gain=parts[0].gain,
            sizes=(output, constant),
            factor=Factor(torch.stack([each.factor.lower for each in parts])),
            weights=torch.stack([each.weights for each in parts]),
        )

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (..., n) and variance (..., n) at X (n, d)."""
        output, constant = self.sizes
        cross = output * correlations(self.inputs, X / self.scales, self.gain) + constant
        prior = (output + constant)[..., 0].expand(*cross.shape[:-2], len(X))
        return (self.weights @ cross)[..., 0, :], self.factor.variance(prior, cross)


def correlations(A: Tensor, B: Tensor, gain: float) -> Tensor:
    """rho between points g x / l, shapes (..., a, d) and (..., b, d); shape (..., a, b)."""
    c = A @ B.mT + gain**2
    q, p = A.square().sum(-1)[..., :, None] + gain**2, B.square().sum(-1)[..., None, :] + gain**2
    middle = 0.5 * (q + p)
    near, far = (c - middle).exp_(), (-c - middle).exp_()
    k = c.add(1).mul_(near).add_(c.sub(1).mul_(far)).mul_(0.5)
    return k * _root(q) * _root(p)


def _root(q: Tensor) -> Tensor:
    """1 / sqrt(k(x, x)) from q = <a, a> g^2."""
    return (0.5 * ((q + 1) + (q - 1) * (-2 * q).exp())).rsqrt()
