"""Logarithm of expected improvement (Ament et al., 2023), computed by BoTorch."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.models.model import Model
from torch import Tensor

from models.acquisition import Scale
from models.analytic import AnalyticScore
from models.incumbent import best_belief, incumbent
from models.observations import Observations
from models.surrogate import Posterior


@dataclass(frozen=True)
class LogEI:
    """log E[max(m - f(x), 0)], with m the least posterior mean among the observed points (see ``incumbent``).

    Where the noise is stated, m is a standard deviation lower. The logarithm stays finite and keeps its gradient where
    the improvement itself underflows.
    """

    of_moments: ClassVar[bool] = True
    scale: ClassVar[Scale] = "log"

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> AnalyticScore:
        """The score of this iteration (see Acquisition.score); pending points are believed."""

        def improving(model: Model, points: Tensor) -> LogExpectedImprovement:
            best = incumbent(posterior, data, points)
            return LogExpectedImprovement(model, best_f=best, maximize=False)

        return AnalyticScore(posterior, pending, improving)

    def improvement(self, ceiling: float, posterior: Posterior, data: Observations) -> float:
        """exp(ceiling) + best - m: nowhere is more expected than that below ``best`` (see Improving.improvement)."""
        _, doubt = best_belief(posterior, data)
        return math.exp(ceiling) + float(doubt)
