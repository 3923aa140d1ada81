"""The posterior of a model that is linear in fixed features of the design."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.observations import Scaling
from fieldcraft.models.surrogate import Function


@dataclass(frozen=True, eq=False)
class FeaturePosterior:
    """t(x) = constant + phi(x)^T theta with Gaussian theta.

    Args:
        features: phi, from encoded points (n, d) to (n, p), differentiable, of unit prior variance each.
        model: theta given the results.
        y: The results behind it less the constant, shape (n,), in targets.
        constant: In targets.
        scaling: Map between targets and results.
        metrics: Metrics of the fit.
        kept: Its state.
        remarks: Notes on how it was made.
    """

    features: Function
    model: LinearModel
    y: Tensor
    constant: float
    scaling: Scaling
    metrics: Mapping[str, float]
    kept: Mapping[str, Tensor]
    remarks: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _theta(self) -> Tensor:
        """Posterior mean of theta, shape (p,)."""
        return self.model.direction(self.y)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        rows = self.features(X)
        return self.constant + rows @ self._theta, self.model.variance(rows)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q exact draws of theta, each a function."""
        return [self._function(self.model.drawn(self.y, rng)) for _ in range(q)]

    def _function(self, theta: Tensor) -> Function:
        def function(X: Tensor) -> Tensor:
            return self.constant + self.features(X) @ theta

        return function

    def fantasize(self, X: Tensor) -> "FeaturePosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
        if len(X) == 0:
            return self
        with torch.no_grad():
            rows = self.features(X)
            y = torch.cat([self.y, rows @ self._theta])
            return replace(self, model=LinearModel.of(torch.cat([self.model.rows, rows]), self.model.noise), y=y)

    def information_gain(self) -> float:
        """1/2 log det(I + K / noise) of the results, including believed ones, in nats."""
        return self.model.information_gain()

    def state(self) -> dict[str, Tensor]:
        """State from which its surrogate restores it."""
        return dict(self.kept)


@dataclass(frozen=True, eq=False)
class FixedFeaturePosterior(FeaturePosterior):
    """Posterior with features that do not depend on single results, so that leaving one out has a closed form."""

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), at this noise and these features."""
        return self.model.log_predictive(self.y)
