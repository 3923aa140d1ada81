"""Confidence bound (Srinivas et al., 2010)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.confidence_weight import Beta, refuse_beta, weight_of
from fieldcraft.models.scoring.criteria import Optimism
from fieldcraft.models.scoring.incumbent import best_belief
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class UCB:
    """sqrt(beta) sigma(x) - mu(x): the optimistic bound, in the minimised, standardised objective.

    Args:
        beta: Weight beta >= 0 of the variance (dimensionless); the bound uses its square root. "growing":
            0.2 d log(2 t) for d encoded coordinates and t trials (Kandasamy et al., 2015).

    Raises:
        ValueError: beta is negative or not finite.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.OF_MOMENTS, Capability.OPTIMISTIC})

    beta: Beta = 4.0

    def __post_init__(self) -> None:
        refuse_beta(self.beta)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> AnalyticScore:
        """The score of this iteration (see Acquisition.score); pending points are believed."""
        root = math.sqrt(weight_of(self.beta, data.X.shape[1], len(data)))
        return AnalyticScore(posterior, pending, lambda _: Optimism(root), root)

    def improvement(self, ceiling: float, posterior: Posterior, data: Observations) -> float:
        """max(best + ceiling, 0): mu(x) - sqrt(beta) sigma(x) >= -ceiling at every x (see Improving.improvement)."""
        best, _ = best_belief(posterior, data)
        return max(float(best) + ceiling, 0.0)
