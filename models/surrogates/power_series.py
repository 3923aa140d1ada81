"""Bayesian regression on all polynomials: what engine basis of physics_informed is without its equation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from models.evidence import Prior, choose_prior
from models.feature_posterior import FeaturePosterior
from models.linear_model import LinearModel
from models.monomials import Monomials
from models.observations import Observations
from models.stamps import refuse_other_data, stamped
from models.surrogate import Report

# More functions than trials add next to nothing, and every candidate costs their number.
_MOST_FUNCTIONS = 500
_METRICS = ("log_evidence", "log_scale", "log_decay", "log_noise")


@dataclass(frozen=True)
class PowerSeries:
    """Gaussian prior over power series, k(x, x') = s^2 sum_k q^(2 k) (u . u')^k with u = x / sqrt(d), k <= degree.

    The prior of engine basis in the plane is this one, restricted to solutions of the equation: the same growth towards
    the corners, with s, q and the noise chosen in the same way (``models.evidence``). So it is the measure of whether
    the equation holds: a true equation predicts better than its power series, a false one does not for long.

    Args:
        degree: Highest total degree; lower where more than 500 functions would be needed.

    Raises:
        ValueError: degree < 1.
    """

    uses_physics: ClassVar[bool] = False
    needs_physics: ClassVar[bool] = False

    degree: int = 30

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise ValueError(f"degree is {self.degree}: give 1 or more.")

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> FeaturePosterior:
        """Condition the prior (see Surrogate.fit); it takes well under a second and needs no randomness."""
        functions = self._functions(data)
        features = functions.features(torch.tensor(data.X)).numpy()
        prior, evidence = choose_prior(features, functions.degrees.numpy(), data.targets, data.noise_variance)
        posterior = self._posterior(data, prior, evidence)
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FeaturePosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        evidence, *prior = state["chosen"].tolist()
        return self._posterior(data, Prior(*prior), evidence)

    def _functions(self, data: Observations) -> Monomials:
        return Monomials.at_most(data.X.shape[1], _MOST_FUNCTIONS, self.degree)

    def _posterior(self, data: Observations, prior: Prior, evidence: float) -> FeaturePosterior:
        functions = self._functions(data)
        sizes = torch.from_numpy(prior.sizes(functions.degrees.numpy()))
        chosen = (evidence, prior.log_scale, prior.log_decay, prior.log_noise)

        def features(X: Tensor) -> Tensor:
            return functions.features(X) * sizes

        return FeaturePosterior(
            features=features,
            model=LinearModel.of(features(torch.tensor(data.X)), prior.noise),
            y=torch.tensor(data.targets),
            constant=0.0,
            scaling=data.scaling,
            metrics=dict(zip(_METRICS, chosen, strict=True)) | {"degree": float(functions.degree)},
            kept={**stamped(data), "chosen": torch.tensor(chosen, dtype=torch.float64)},
        )
