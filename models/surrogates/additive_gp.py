"""Gaussian process that is a sum over the coordinates plus their interaction (Duvenaud et al., 2011)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.additive_evidence import FIT_ROWS, fit_kernel
from fieldcraft.models.gaussian.additive_kernel import AdditiveKernel, factor
from fieldcraft.models.gaussian.summed_process import SummedGP, SummedPosterior, refuse_other_state
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import MomentsWithSlopes, Report

# Matrices of the covariance's size that are alive at once.
_COPIES = 6


@dataclass(frozen=True)
class AdditiveGP(SummedGP):
    """Sum of one process a coordinate and one of all coordinates, each with its own size and length scale.

    It learns an objective that is nearly separable from far fewer trials than a process of all coordinates together.
    The evidence determines how separable it is (``share_interaction`` in its metrics).

    Hyper-parameters are fitted to at most 256 trials, evenly spaced: anew at every trial up to 50, then at growths of
    10%. The search begins at the prior's centre, at short length scales with little noise, and at ``restarts`` draws.

    Raises:
        ValueError: an option is out of range (see ``SummedGP`` for them).
    """

    restarts: int = 0

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> "_AdditivePosterior":
        """Fit the hyper-parameters (see Surrogate.fit). A fit takes seconds at most, so ``start`` is not needed.

        Raises:
            ValueError: noise is "known" and the data state none, no start gave a finite fit, or the fit would need more
                than ``memory_gb``.
        """
        n, d = data.X.shape
        what = f"An additive process of {n} trials in {d} coordinates"
        doubles = _COPIES * n**2 + 3 * (d + 1) * min(n, FIT_ROWS) ** 2
        refuse_memory(doubles, self.memory_gb, what, "use surrogate exact_gp")
        self.known_noise(data)
        kernel, density = fit_kernel(data, self.noise == "known", self.restarts)
        posterior = _posterior(kernel, data, density)
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> "_AdditivePosterior":
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_state(state, data)
        return _posterior(AdditiveKernel.of(state["hyperparameters"].numpy()), data, float(state["log_posterior"]))


@dataclass(frozen=True, eq=False)
class _AdditivePosterior(SummedPosterior):
    """Posterior of the sum."""

    kernel: AdditiveKernel

    @property
    def metrics(self) -> Mapping[str, float]:
        """Log posterior density, noise, the interaction's share of the variance, and the length scales."""
        kernel = self.kernel
        scales = {f"length_scale_{i}": math.exp(value) for i, value in enumerate(kernel.scales[:-1].tolist())}
        share = float(kernel.sizes[-1].exp() / kernel.sizes.exp().sum())
        noise_sd = math.sqrt(kernel.noise)
        return {"log_posterior": self.density, "noise_sd": noise_sd, "share_interaction": share} | scales

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, in closed form (see MomentsWithSlopes)."""
        values, slopes = self.kernel.with_slopes(X.detach().numpy(), self.X.numpy())
        half = self.factor.half_solve(torch.from_numpy(values).mT)
        solved: Tensor = torch.linalg.solve_triangular(self.factor.lower.mT, half, upper=True)
        variance = self.kernel.variance - (half.numpy() ** 2).sum(axis=0)
        by_variance = -2 * np.einsum("iab,ab->ai", slopes, solved.mT.numpy())
        by_variance[variance < 0] = 0
        weights = self._weights.numpy()
        mean, by_mean = self.constant + values @ weights, (slopes @ weights).T
        return MomentsWithSlopes(mean, np.maximum(variance, 0), by_mean, by_variance)


def _posterior(kernel: AdditiveKernel, data: Observations, density: float) -> _AdditivePosterior:
    X, targets = torch.tensor(data.X), torch.tensor(data.targets)
    return _AdditivePosterior(kernel, X, targets, factor(kernel, X), density, data.scaling)
