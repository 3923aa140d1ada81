"""Bayesian linear regression on given features, theta ~ N(0, I), on the smaller of its two sides."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor, Primal, leave_one_out, smaller_side


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Results y = Phi theta + noise with theta ~ N(0, I).

    Args:
        rows: Phi, shape (n, p).
        noise: Variance of a result, positive: a number, or one for each, shape (n,).
        side: The factor of the smaller side.
    """

    rows: Tensor
    noise: float | Tensor
    side: Factor | Primal

    @classmethod
    def of(cls, rows: Tensor, noise: float | Tensor) -> "LinearModel":
        """Condition on rows (n, p), in O(n p min(n, p))."""
        if smaller_side(*rows.shape) == "dual":
            return cls(rows, noise, Factor.of(rows @ rows.mT, noise))
        return cls(rows, noise, Primal.of(rows, noise))

    def append(self, rows: Tensor, noise: Tensor) -> "LinearModel":
        """The model with k more rows (k, p) of noise variance (k,); on the primal side in O(k p^2 + p^3)."""
        together = torch.cat([self._noises, noise])
        if isinstance(self.side, Primal):
            side = self.side.append(rows, noise)
            return LinearModel(side.features, together, side)
        return LinearModel.of(torch.cat([self.rows, rows]), together)

    @property
    def _noises(self) -> Tensor:
        """Variance of each result, shape (n,)."""
        return torch.as_tensor(self.noise, dtype=self.rows.dtype).expand(len(self.rows))

    def direction(self, y: Tensor) -> Tensor:
        """Posterior mean of theta, shape (p,), for results y (n,)."""
        return self.side.direction(y) if isinstance(self.side, Primal) else self.rows.mT @ self.side.solve(y)

    def variance(self, features: Tensor) -> Tensor:
        """Posterior variance of the noise-free value at features (c, p), shape (c,)."""
        if isinstance(self.side, Primal):
            return self.side.variance(features)
        return self.side.variance(features.square().sum(1), self.rows @ features.mT)

    def information_gain(self) -> float:
        """1/2 log det(I + N^-1/2 Phi Phi^T N^-1/2) of the results, in nats."""
        return 0.5 * float(self.side.logdet() - self._noises.log().sum())

    def drawn(self, y: Tensor, rng: np.random.Generator) -> Tensor:
        """One exact posterior draw of theta, shape (p,), by Matheron's rule (methods.md section 0)."""
        prior = torch.from_numpy(rng.standard_normal(self.rows.shape[1]))
        error = self._noises.sqrt() * torch.from_numpy(rng.standard_normal(len(y)))
        return prior + self.direction(y - self.rows @ prior - error)

    def log_predictive(self, y: Tensor) -> Tensor:
        """log density of each result y (n,) given the others, shape (n,)."""
        return leave_one_out(self.side, y)
