"""Gaussian process that is a sum over the coordinates plus their interaction (Duvenaud et al., 2011)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from models.additive_kernel import AdditiveKernel, factor, fit_kernel
from models.checks import refuse_non_positive
from models.dual import Factor, leave_one_out
from models.fourier_features import FourierFeatures
from models.memory import refuse_memory
from models.observations import Observations, Scaling
from models.surrogate import Function, Report

# Random Fourier features of the prior of one coordinate, and of the interaction.
_FEATURES, _FULL_FEATURES = 128, 512
# Matrices of the covariance's size, one a coordinate, that are alive at once in a step of the fit.
_COPIES = 8


@dataclass(frozen=True)
class AdditiveGP:
    """Sum of one process a coordinate and one of all coordinates, each with its own size and length scale.

    Learns an objective that is nearly separable from far fewer trials than a process of all coordinates together; how
    separable it is, the evidence says (``share_interaction`` in its metrics).

    Args:
        noise: "fitted" with the other hyper-parameters, or "known": taken from ``Observations.noise_sd``.
        restarts: Fits from parameters drawn from their priors, beside the one from the priors' centre, >= 0.
        memory_gb: Largest predicted peak of memory, in GB (10^9 bytes), for which a fit is begun.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    needs_physics: ClassVar[bool] = False

    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 1
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise ValueError(f"restarts is {self.restarts}: give 0 for the one fit from the priors' centre, or more.")
        refuse_non_positive("memory_gb", self.memory_gb)

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
        refuse_memory(_COPIES * (d + 1) * n**2, self.memory_gb, what, "use surrogate exact_gp")
        starts = np.vstack([np.zeros(2 * d + 3), 0.5 * rng.standard_normal((self.restarts, 2 * d + 3))])
        kernel, density = fit_kernel(data.X, data.targets, self._noise(data), starts)
        posterior = _posterior(kernel, data, density)
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> "_AdditivePosterior":
        """The posterior whose state this was (see Surrogate.restore)."""
        X, targets = torch.tensor(data.X), torch.tensor(data.targets)
        if not ("X" in state and torch.equal(state["X"], X) and torch.equal(state["targets"], targets)):
            raise ValueError(
                f"This state is not of an additive process fitted to these {len(data)} trials: fit again, or restore "
                "with the data whose digest the model records."
            )
        return _posterior(AdditiveKernel.of(state["hyperparameters"].numpy()), data, float(state["log_posterior"]))

    def _noise(self, data: Observations) -> float | None:
        if self.noise == "known" and data.noise_variance is None:
            raise ValueError(
                'noise is "known" but these observations state none: give the problem\'s noise, or "fitted".'
            )
        return data.noise_variance if self.noise == "known" else None


@dataclass(frozen=True, eq=False)
class _AdditivePosterior:
    """Posterior of the sum, at hyper-parameters that are not touched again."""

    kernel: AdditiveKernel
    X: Tensor
    targets: Tensor
    factor: Factor
    density: float
    scaling: Scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Log posterior density, noise, the interaction's share of the variance, and the length scales."""
        kernel = self.kernel
        scales = {f"length_scale_{i}": math.exp(value) for i, value in enumerate(kernel.scales[:-1].tolist())}
        share = float(kernel.sizes[-1].exp() / kernel.sizes.exp().sum())
        noise_sd = math.sqrt(kernel.noise)
        return {"log_posterior": self.density, "noise_sd": noise_sd, "share_interaction": share} | scales

    @property
    def remarks(self) -> Mapping[str, str]:
        """None."""
        return {}

    @cached_property
    def _weights(self) -> Tensor:
        return self.factor.solve(self.targets)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        cross = self.kernel(self.X, X)
        prior = torch.full((len(X),), self.kernel.variance, dtype=X.dtype)
        return self._weights @ cross, self.factor.variance(prior, cross)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule: a prior of random Fourier features, an exact update (Wilson et al., 2020)."""
        return [self._drawn(rng) for _ in range(q)]

    def _drawn(self, rng: np.random.Generator) -> Function:
        prior = _Prior.drawn(self.kernel, rng)
        error = math.sqrt(self.kernel.noise) * torch.from_numpy(rng.standard_normal(len(self.X)))
        weights = self.factor.solve(self.targets - prior(self.X) - error)

        def function(X: Tensor) -> Tensor:
            return prior(X) + weights @ self.kernel(self.X, X)

        return function

    def believe(self, X: Tensor) -> "_AdditivePosterior":
        """Conditioned on X (k, d) having been read at the mean, with the noise of a reading."""
        points = X.detach()
        with torch.no_grad():
            mean = self.mean_var(points)[0]
            corner = self.kernel(points, points)
            corner.diagonal().add_(self.kernel.noise)
            grown = self.factor.append(self.kernel(points, self.X), corner)
        joined = torch.cat([self.X, points]), torch.cat([self.targets, mean])
        return replace(self, X=joined[0], targets=joined[1], factor=grown)

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), at these hyper-parameters."""
        return leave_one_out(self.factor, self.targets)

    def state(self) -> dict[str, Tensor]:
        """Training data, hyper-parameters and their log posterior density."""
        density = torch.tensor(self.density, dtype=torch.float64)
        hyperparameters = torch.from_numpy(self.kernel.flat())
        parts = {"hyperparameters": hyperparameters, "log_posterior": density}
        return {"X": self.X.clone(), "targets": self.targets.clone(), **parts}


@dataclass(frozen=True, eq=False)
class _Prior:
    """One function from the prior: a sum of random Fourier features of every part of the kernel."""

    constant: float
    parts: tuple[FourierFeatures, ...]
    weights: tuple[Tensor, ...]

    @classmethod
    def drawn(cls, kernel: AdditiveKernel, rng: np.random.Generator) -> "_Prior":
        d, scales = kernel.dimension, kernel.scales.exp()
        ranges = [scales[i : i + 1] for i in range(d)] + [scales[-1:].expand(d)]
        counts = [_FEATURES] * d + [_FULL_FEATURES]
        parts = tuple(FourierFeatures.drawn("matern52", s, m, rng) for s, m in zip(ranges, counts, strict=True))
        roots = (0.5 * kernel.sizes).exp()
        weights = tuple(root * torch.from_numpy(rng.standard_normal(m)) for root, m in zip(roots, counts, strict=True))
        return cls(float(rng.standard_normal()), parts, weights)

    def __call__(self, X: Tensor) -> Tensor:
        """At X (n, d), shape (n,), differentiable."""
        *single, full = zip(self.parts, self.weights, strict=True)
        found = full[0](X) @ full[1] + self.constant
        for i, (part, weights) in enumerate(single):
            found = found + part(X[:, i : i + 1]) @ weights
        return found


def _posterior(kernel: AdditiveKernel, data: Observations, density: float) -> _AdditivePosterior:
    X, targets = torch.tensor(data.X), torch.tensor(data.targets)
    return _AdditivePosterior(kernel, X, targets, factor(kernel, X), density, data.scaling)
