"""Conditioning of a linear model theta ~ N(0, I), y = Phi theta + noise, on the smaller of its two sides.

The dual side uses only the Gram matrix K = Phi Phi^T (n x n), the primal side only Phi^T Phi (p x p); both give the
same numbers to rounding (methods.md section 0):

    phi^T (I + Phi^T N^-1 Phi)^-1 phi = k(x, x) - k(x, X) (K + N)^-1 k(X, x)
    det(I_p + Phi^T N^-1 Phi) = det(I_n + N^-1/2 K N^-1/2)
    leave one out, with P = (K + N)^-1 and r = P y: mean_i = y_i - r_i / P_ii, variance_i = 1 / P_ii
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri
from torch import Tensor

Side = Literal["dual", "primal"]
Array = NDArray[np.float64]


def smaller_side(n: int, p: int) -> Side:
    """The side with the smaller matrix to factor: n x n or p x p."""
    return "dual" if n <= p else "primal"


def _cholesky(matrix: Tensor, noise: float | Tensor) -> Tensor:
    lower: Tensor
    lower, failed = torch.linalg.cholesky_ex(matrix)
    # A number that is not finite anywhere in a row spoils the row's last one.
    if failed.any() or not torch.isfinite(lower.diagonal(dim1=-2, dim2=-1)).all():
        least = torch.as_tensor(noise).min().item()
        raise ValueError(
            f"A matrix of {matrix.shape[-1]} rows is not positive definite at a noise variance of {least:.3g}: "
            "raise the noise or take out repeated rows."
        )
    return lower


def _solve(lower: Tensor, right: Tensor) -> Tensor:
    vector = right.ndim == lower.ndim - 1
    solved: Tensor = torch.cholesky_solve(right[..., None] if vector else right, lower)
    return solved[..., 0] if vector else solved


def _half_solve(lower: Tensor, right: Tensor) -> Tensor:
    vector = right.ndim == lower.ndim - 1
    solved: Tensor = torch.linalg.solve_triangular(lower, right[..., None] if vector else right, upper=False)
    return solved[..., 0] if vector else solved


@dataclass(frozen=True)
class Factor:
    """The dual side: the lower Cholesky factor of K + diag(noise), shape (..., n, n)."""

    lower: Tensor

    @classmethod
    def of(cls, K: Tensor, noise: float | Tensor) -> "Factor":
        """Factor of K (..., n, n) with noise variance, a number or (..., n), in O(n^3).

        Raises:
            ValueError: the sum is not positive definite.
        """
        spread = torch.as_tensor(noise, dtype=K.dtype, device=K.device).expand(K.shape[:-1])
        covariance = K.clone()
        covariance.diagonal(dim1=-2, dim2=-1).add_(spread)
        return cls(_cholesky(covariance, noise))

    def append(self, row: Tensor, corner: Tensor) -> "Factor":
        """The factor with k more points, in O(k n^2), equal to one from scratch to rounding.

        Args:
            row: Their Gram matrix with the points here, shape (k, n), or (n,) for one point.
            corner: Their own, noise included, shape (k, k), or a number for one point.

        Raises:
            ValueError: the extended matrix is not positive definite.
        """
        row = row.reshape(-1, self.lower.shape[-1])
        corner = corner.reshape(len(row), len(row))
        below = self.half_solve(row.mT).mT
        own = _cholesky(corner - below @ below.mT, corner.diagonal().detach())
        n, k = self.lower.shape[-1], len(row)
        lower = self.lower.new_zeros(n + k, n + k)
        lower[:n, :n], lower[n:, :n], lower[n:, n:] = self.lower, below, own
        return Factor(lower)

    def half_solve(self, right: Tensor) -> Tensor:
        """L^-1 b for b (..., n, c) or (n,)."""
        return _half_solve(self.lower, right)

    def solve(self, right: Tensor) -> Tensor:
        """(K + N)^-1 b for b (..., n) or (..., n, c)."""
        return _solve(self.lower, right)

    def logdet(self) -> Tensor:
        """log det(K + N), shape (...)."""
        return 2 * self.lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def variance(self, prior: Tensor, cross: Tensor) -> Tensor:
        """Posterior variance prior - ||L^-1 cross||^2 >= 0, shape (..., c).

        Args:
            prior: k(x, x), shape (..., c).
            cross: k(X, x), shape (..., n, c).
        """
        return (prior - self.half_solve(cross).square().sum(-2)).clamp_min(0)

    def inverse_diagonal(self) -> Tensor:
        """Diagonal of (K + N)^-1, shape (..., n)."""
        if self.lower.ndim == 2 and self.lower.device.type == "cpu":
            # A third of the work of a solve with the identity.
            inverse, _ = dtrtri(self.lower.detach().numpy().T, lower=0)
            return torch.from_numpy((inverse**2).sum(1))
        identity = torch.eye(self.lower.shape[-1], dtype=self.lower.dtype, device=self.lower.device)
        return self.half_solve(identity.expand_as(self.lower)).square().sum(-2)

    def log_marginal(self, y: Tensor) -> Tensor:
        """log N(y; 0, K + N), shape (...), for y (..., n)."""
        n = self.lower.shape[-1]
        return -0.5 * (self.half_solve(y).square().sum(-1) + self.logdet() + n * math.log(2 * math.pi))


@dataclass(frozen=True)
class Watched:
    """The dual side with its variance at fixed candidates, updated for each new row in O(n (n + c)).

    Args:
        factor: Of the n rows so far.
        halves: L^-1 k(X, candidates) in blocks of rows, together (n, c).
        variance: Posterior variance at the candidates, shape (c,).
    """

    factor: Factor
    halves: tuple[Tensor, ...]
    variance: Tensor

    @classmethod
    def of(cls, factor: Factor, prior: Tensor, cross: Tensor) -> "Watched":
        """Variances from k(x, x) at the candidates, shape (c,), and k(X, x), shape (n, c)."""
        half = factor.half_solve(cross)
        return cls(factor, (half,), (prior - half.square().sum(-2)).clamp_min(0))

    def append(self, row: Tensor, corner: Tensor, cross: Tensor) -> "Watched":
        """The same with k more rows.

        Args:
            row: Their Gram matrix with the rows here, shape (k, n), or (n,) for one.
            corner: Their own, noise included, shape (k, k), or a number for one.
            cross: Theirs with the candidates, shape (k, c), or (c,) for one.
        """
        factor = self.factor.append(row, corner)
        n = self.factor.lower.shape[-1]
        below, own = factor.lower[n:, :n], factor.lower[n:, n:]
        parts = torch.split_with_sizes(below, [len(half) for half in self.halves], dim=1)
        missing = cross.reshape(len(own), -1)
        for part, half in zip(parts, self.halves, strict=True):
            missing = missing - part @ half
        half = _half_solve(own, missing)
        return Watched(factor, (*self.halves, half), (self.variance - half.square().sum(0)).clamp_min(0))


@dataclass(frozen=True)
class Primal:
    """The primal side: explicit rows with their noise and the lower Cholesky factor of I + Phi^T N^-1 Phi.

    Args:
        features: Phi, shape (n, p).
        noise: Noise variance of each row, shape (n,).
        lower: Factor, shape (p, p).
    """

    features: Tensor
    noise: Tensor
    lower: Tensor

    @classmethod
    def of(cls, features: Tensor, noise: float | Tensor) -> "Primal":
        """Factor of rows (n, p) with noise variance > 0, a number or (n,), in O(n p^2 + p^3)."""
        spread = torch.as_tensor(noise, dtype=features.dtype, device=features.device).expand(len(features))
        identity = torch.eye(features.shape[1], dtype=features.dtype, device=features.device)
        return cls(features, spread, _cholesky(identity + (features.mT / spread) @ features, spread))

    def append(self, rows: Tensor, noise: float | Tensor) -> "Primal":
        """Factor with k more rows (k, p), in O(k p^2 + p^3)."""
        more = torch.as_tensor(noise, dtype=rows.dtype, device=rows.device).expand(len(rows))
        precision = self.lower @ self.lower.mT + (rows.mT / more) @ rows
        joined = torch.cat([self.features, rows]), torch.cat([self.noise, more])
        return Primal(*joined, _cholesky(precision, more))

    def direction(self, y: Tensor) -> Tensor:
        """Posterior mean of theta, shape (p,): equal to Phi^T (K + N)^-1 y, for y (n,)."""
        return _solve(self.lower, self.features.mT @ (y / self.noise))

    def solve(self, right: Tensor) -> Tensor:
        """(K + N)^-1 b for b (n,), by Woodbury's identity."""
        return (right - self.features @ self.direction(right)) / self.noise

    def logdet(self) -> Tensor:
        """log det(K + N), a number."""
        return 2 * self.lower.diagonal().log().sum() + self.noise.log().sum()

    def variance(self, features: Tensor) -> Tensor:
        """Posterior variance of the noise-free value at rows (..., c, p), shape (..., c)."""
        return _half_solve(self.lower, features.mT).square().sum(-2)

    def inverse_diagonal(self) -> Tensor:
        """Diagonal of (K + N)^-1, shape (n,)."""
        return (1 - self.variance(self.features) / self.noise) / self.noise

    def log_marginal(self, y: Tensor) -> Tensor:
        """log N(y; 0, K + N), a number, for y (n,)."""
        return -0.5 * (y @ self.solve(y) + self.logdet() + len(y) * math.log(2 * math.pi))


def leave_one_out(factor: Factor | Primal, y: Tensor) -> Tensor:
    """log density of each target given all others at fixed hyper-parameters, shape (..., n).

    Source: Rasmussen and Williams (2006), section 5.4.2. Rows of other kinds (an equation's) must be conditioned on as
    well: drop their densities.

    Args:
        factor: Of all rows.
        y: Their targets, shape (..., n).
    """
    residual, precision = factor.solve(y), factor.inverse_diagonal()
    return 0.5 * (precision.log() - residual.square() / precision - math.log(2 * math.pi))


def foretold(factor: Factor, solved: Tensor, inner: Factor) -> tuple[Array, Array]:
    """Foretelling of each of n values v from the others about a linear model H b, with b found again from them.

    With P = S^-1, b ~ N(0, T) and Q = P - P H (H^T P H + T^-1)^-1 H^T P the error is (Q v)_i / Q_ii, and its variance
    1 / Q_ii (Dubrule, 1983). Where b has no prior, T^-1 = 0.

    Args:
        factor: Of S, shape (n, n).
        solved: P H, shape (n, p).
        inner: Factor of H^T P H + T^-1, shape (p, p).

    Returns:
        Matrix M (n, n), by which the values are foretold as v - M v, and the variances (n,).
    """
    halves = inner.half_solve(solved.mT)
    Q = (torch.cholesky_inverse(factor.lower.detach()) - halves.mT @ halves).numpy()
    own = Q.diagonal()
    return Q / own[:, None], 1 / own


def marginal_slope(K: Tensor, noise: float | Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """log N(y; 0, K + N) and its derivative by K, 1/2 (r r^T - P), r = P y, P = (K + N)^-1 (no graph is kept).

    The derivative by the noise is its diagonal. This takes half the time of differentiating a Cholesky factor.

    Args:
        K: Gram matrix, shape (n, n).
        noise: Noise variance, a number or (n,).
        y: Targets, shape (n,).

    Returns:
        A number, and a symmetric matrix (n, n).

    Raises:
        ValueError: K + N is not positive definite.
    """
    with torch.no_grad():
        factor = Factor.of(K, noise)
        r = factor.solve(y)
        return factor.log_marginal(y), 0.5 * (torch.outer(r, r) - torch.cholesky_inverse(factor.lower))


def information_gain(K: Tensor, noise: float | Tensor) -> Tensor:
    """gamma = 1/2 log det(I + N^-1/2 K N^-1/2) of observations with Gram matrix K (..., n, n), shape (...), in nats."""
    root = torch.as_tensor(noise, dtype=K.dtype, device=K.device).expand(K.shape[:-1]).rsqrt()
    return 0.5 * Factor.of(root[..., :, None] * K * root[..., None, :], 1.0).logdet()


def interaction_information(Kuu: Tensor, Kur: Tensor, Krr: Tensor, l1: float, l2: float) -> Tensor:
    """I(f; Y; U) >= 0 in nats: information that results and equation both give (methods.md section 3).

    I = 1/2 (log det(I + Kuu/l1) + log det(I + Krr/l2) - log det(I + joint)), the joint matrix scaled on both sides.

    Args:
        Kuu: Gram matrix of the results, shape (n, n).
        Kur: Of results and equation rows, shape (n, r).
        Krr: Of the equation rows, shape (r, r).
        l1: Noise variance of a result.
        l2: Noise variance of an equation row.
    """
    joint = torch.cat([torch.cat([Kuu, Kur], dim=1), torch.cat([Kur.mT, Krr], dim=1)])
    noise = torch.cat([Kuu.new_full((len(Kuu),), l1), Kuu.new_full((len(Krr),), l2)])
    return information_gain(Kuu, l1) + information_gain(Krr, l2) - information_gain(joint, noise)
