"""The posterior of a Gaussian process whose kernel is a sum, and draws from the prior of such a sum."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor, leave_one_out
from fieldcraft.models.linear.fourier_features import FourierFeatures, Kernel
from fieldcraft.models.numerics.checks import refuse_non_positive
from fieldcraft.models.numerics.milestones import telling
from fieldcraft.models.observations import Array, Observations, Scaling
from fieldcraft.models.surrogate import Function


class SummedKernel(Protocol):
    """A stationary kernel with its hyper-parameters and the variance of a result."""

    @property
    def variance(self) -> float:
        """k(x, x), the same everywhere."""
        ...

    @property
    def noise(self) -> float:
        """Variance of a result."""
        ...

    def __call__(self, A: Tensor, B: Tensor) -> Tensor:
        """k at A (a, d) and B (b, d), shape (a, b), differentiable in both."""
        ...

    def prior(self, rng: np.random.Generator) -> Function:
        """One function from the prior."""
        ...

    def flat(self) -> Array:
        """The hyper-parameters, shape (p,)."""
        ...


@dataclass(frozen=True, eq=False)
class SummedPosterior:
    """Posterior of a constant and a sum, at fixed hyper-parameters.

    Args:
        kernel: Kernel of the sum.
        X: Encoded points, shape (n, d).
        targets: Their results, shape (n,).
        factor: Factor of the covariance of the results, noise included.
        density: Log posterior density of the hyper-parameters.
        scaling: Map between its values and physical ones.
        constant: The mean that the sum is added to.
    """

    kernel: SummedKernel
    X: Tensor
    targets: Tensor
    factor: Factor
    density: float
    scaling: Scaling
    constant: float = 0.0

    @property
    def remarks(self) -> Mapping[str, str]:
        """No remarks."""
        return {}

    @cached_property
    def _weights(self) -> Tensor:
        return self.factor.solve(self.targets - self.constant)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        cross = self.kernel(self.X, X)
        prior = torch.full((len(X),), self.kernel.variance, dtype=X.dtype)
        return self.constant + self._weights @ cross, self.factor.variance(prior, cross)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone, in O(n) a point."""
        return self.constant + self._weights @ self.kernel(self.X, X)

    @cached_property
    def coarse(self) -> Self:
        """The posterior of some of the trials, for a first look at many points."""
        rows = torch.from_numpy(telling(self.targets.numpy()))
        if len(rows) == len(self.X):
            return self
        with torch.no_grad():
            factor = Factor.of(self.kernel(self.X[rows], self.X[rows]), self.kernel.noise)
        return replace(self, X=self.X[rows], targets=self.targets[rows], factor=factor)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule: a prior of random Fourier features, an exact update (Wilson et al., 2020)."""
        return [self._drawn(rng) for _ in range(q)]

    def _drawn(self, rng: np.random.Generator) -> Function:
        prior = self.kernel.prior(rng)
        error = math.sqrt(self.kernel.noise) * torch.from_numpy(rng.standard_normal(len(self.X)))
        weights = self.factor.solve(self.targets - self.constant - prior(self.X) - error)

        def function(X: Tensor) -> Tensor:
            return self.constant + prior(X) + weights @ self.kernel(self.X, X)

        return function

    def fantasize(self, X: Tensor) -> Self:
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
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
        return leave_one_out(self.factor, self.targets - self.constant)

    def state(self) -> dict[str, Tensor]:
        """Training data, hyper-parameters and their log posterior density."""
        density = torch.tensor(self.density, dtype=torch.float64)
        hyperparameters = torch.from_numpy(self.kernel.flat())
        parts = {"hyperparameters": hyperparameters, "log_posterior": density}
        return {"X": self.X.clone(), "targets": self.targets.clone(), **parts}


@dataclass(frozen=True, eq=False)
class Term:
    """One function from the prior of one part of a sum: random Fourier features with weights (m,).

    Args:
        columns: The encoded coordinates it is a function of.
        features: Features of those coordinates.
        weights: Shape (m,).
    """

    columns: Sequence[int]
    features: FourierFeatures
    weights: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        """Value at X (n, d), shape (n,), differentiable."""
        return self.features(X[:, self.columns]) @ self.weights


def drawn_terms(
    kind: Kernel,
    groups: Sequence[Sequence[int]],
    sizes: Tensor,
    scales: Sequence[Tensor],
    counts: Sequence[int],
    rng: np.random.Generator,
) -> list[Term]:
    """One term for each group of coordinates.

    Args:
        kind: The kernel of every part.
        groups: The coordinates of each.
        sizes: Logs of the prior variances, shape (g,).
        scales: Length scales of each, one a coordinate.
        counts: Random Fourier features of each.
        rng: The only source of randomness.
    """
    features = [FourierFeatures.drawn(kind, scale, m, rng) for scale, m in zip(scales, counts, strict=True)]
    roots = (0.5 * sizes).exp()
    weights = [root * torch.from_numpy(rng.standard_normal(m)) for root, m in zip(roots, counts, strict=True)]
    return [Term(*parts) for parts in zip(groups, features, weights, strict=True)]


def refuse_other_state(state: Mapping[str, Tensor], data: Observations) -> None:
    """Accept the state of a posterior that was fitted to these data.

    Raises:
        ValueError: it is of other data.
    """
    X, targets = torch.tensor(data.X), torch.tensor(data.targets)
    if not ("X" in state and torch.equal(state["X"], X) and torch.equal(state["targets"], targets)):
        raise ValueError(
            f"This state is not of an additive process fitted to these {len(data)} trials: fit again, or restore "
            "with the data whose digest the model records."
        )


@dataclass(frozen=True, kw_only=True)
class SummedGP:
    """Common base of the surrogates whose kernel is a sum.

    Args:
        noise: "fitted" with the other hyper-parameters, or "known": taken from ``Observations.noise_sd``.
        restarts: Fits from parameters drawn from their priors, beside the one from the priors' centre, >= 0.
        memory_gb: Largest predicted peak of memory, in GB (10^9 bytes), for which a fit is begun.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False

    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 1
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise ValueError(f"restarts is {self.restarts}: give 0 for the one fit from the priors' centre, or more.")
        refuse_non_positive("memory_gb", self.memory_gb)

    def starts(self, size: int, rng: np.random.Generator) -> Array:
        """Starts of the fits of ``size`` hyper-parameters, in prior standard deviations from the centre (s, size)."""
        return np.vstack([np.zeros(size), 0.5 * rng.standard_normal((self.restarts, size))])

    def known_noise(self, data: Observations) -> float | None:
        """Variance of a target for ``noise`` "known"; None for "fitted".

        Raises:
            ValueError: it must be known and the data state none.
        """
        if self.noise == "known" and data.noise_variance is None:
            raise ValueError(
                'noise is "known" but these observations state none: give the problem\'s noise, or "fitted".'
            )
        return data.noise_variance if self.noise == "known" else None
