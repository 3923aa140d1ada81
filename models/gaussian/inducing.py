"""Gaussian process of many trials through inducing points: FITC (Snelson and Ghahramani, 2006).

With Z some of the designs and L L^T = k(Z, Z), the features phi(x) = L^-1 k(Z, x) explain q(x) = |phi(x)|^2 of the
prior variance 1 at x. What they leave, 1 - q(x), is taken as independent from point to point: it adds to the noise of
each result and to the variance at each candidate. So no region far from Z is believed known. With Z all designs it is
the exact process.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.feature_posterior import FixedFeaturePosterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.numerics.milestones import thinned

INDUCING = 700
"""Most inducing points."""

# Added to the diagonal of k(Z, Z), whose least eigenvalues are rounding.
_JITTER = 1e-8


@dataclass(frozen=True, eq=False)
class InducedFeatures:
    """phi at encoded points.

    Args:
        kernel: Kind of the kernel, of variance 1.
        scales: Length scales in encoded coordinates, shape (d,).
        points: Z, shape (m, d).
        factor: L.
    """

    kernel: Kernel
    scales: Tensor
    points: Tensor
    factor: Factor

    @classmethod
    def of(cls, kernel: Kernel, scales: Tensor, X: Tensor, targets: Tensor) -> "InducedFeatures":
        """Features of at most ``INDUCING`` of the trials X (n, d): half of them the best, others evenly spaced.

        Args:
            kernel: Kind of the kernel.
            scales: Length scales, shape (d,).
            X: Encoded designs.
            targets: Results to be minimised, shape (n,).
        """
        best = np.argsort(targets.numpy(), kind="stable")[: INDUCING // 2]
        others = np.setdiff1d(np.arange(len(X)), best)
        rows = np.sort(np.concatenate([best, others[thinned(len(others), INDUCING - len(best))]]))
        points = X[rows]
        return cls(kernel, scales, points, Factor.of(covariance(kernel, points, points, scales), _JITTER))

    def __call__(self, X: Tensor) -> Tensor:
        """phi at X (n, d), shape (n, m), differentiable once."""
        return self.factor.half_solve(covariance(self.kernel, self.points, X, self.scales)).mT


@dataclass(frozen=True, eq=False)
class InducedPosterior(FixedFeaturePosterior):
    """Posterior of the process; draws are of the features' part alone."""

    features: InducedFeatures

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        rows = self.features(X)
        return self.constant + rows @ self._theta, self.model.variance(rows) + unexplained(rows)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone, in O(m) a point."""
        phi = self.features
        return self.constant + covariance(phi.kernel, X, phi.points, phi.scales) @ self._pulled

    @cached_property
    def _pulled(self) -> Tensor:
        """L^-T theta, shape (m,): the mean as a sum of kernels at the inducing points."""
        pulled: Tensor = torch.linalg.solve_triangular(self.features.factor.lower.mT, self._theta[:, None], upper=True)
        return pulled[:, 0]

    def fantasize(self, X: Tensor) -> "InducedPosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of the other results."""
        if len(X) == 0:
            return self
        with torch.no_grad():
            rows = self.features(X)
            noise = torch.as_tensor(self.model.noise).min() + unexplained(rows)
            y = torch.cat([self.y, rows @ self._theta])
            return replace(self, model=self.model.append(rows, noise), y=y)


def unexplained(rows: Tensor) -> Tensor:
    """1 - |phi|^2 of features (n, m), at least 0, shape (n,)."""
    return (1 - rows.square().sum(1)).clamp_min(0)


def conditioned(features: InducedFeatures, X: Tensor, noise: float | Tensor) -> LinearModel:
    """The linear model of results at X (n, d) of noise variance a number or (n,), in O(n m^2)."""
    with torch.no_grad():
        rows = torch.cat([features(block) for block in torch.split(X, 2048)])
        return LinearModel.of(rows, noise + unexplained(rows))
