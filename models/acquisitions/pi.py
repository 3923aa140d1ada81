"""Probability of improvement (Kushner, 1964)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.criteria import LogProbability
from fieldcraft.models.scoring.incumbent import incumbent
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class PI:
    """log P[f(x) < m - margin], with m the least posterior mean among the observed points (see ``incumbent``).

    The logarithm has the same maximiser and keeps its gradient where the probability itself underflows.

    Args:
        margin: Least improvement that counts, >= 0, in standard deviations of the results.

    Raises:
        ValueError: margin is negative or not finite.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.OF_MOMENTS})
    scale: ClassVar[Scale] = "log"

    margin: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ValueError(f"margin is {self.margin}: give a finite number >= 0, in standard deviations.")

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> AnalyticScore:
        """The score of this iteration (see Acquisition.score); pending points are believed."""

        def improving(points: Tensor) -> LogProbability:
            return LogProbability(float(incumbent(posterior, data, points)) - self.margin)

        return AnalyticScore(posterior, pending, improving)
