"""Logarithm of expected improvement (Ament et al., 2023)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.composite.posterior import CompositePosterior
from fieldcraft.models.composite.sampled import sampler_of
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior, about_objective
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.composite import SampledScore, improvement, sampled_values
from fieldcraft.models.scoring.criteria import LogImprovement
from fieldcraft.models.scoring.incumbent import best_belief, best_design, incumbent
from fieldcraft.models.surrogate import Posterior

# Logarithm of a thousandth of the results' deviation.
_FAINT = math.log(1e-3)


@dataclass(frozen=True)
class LogEI:
    """log E[max(m - f(x), 0)], with m the least posterior mean among the observed points (see ``incumbent``).

    If the noise is stated, m is lowered by the standard deviation of that mean. The logarithm stays finite and keeps
    its gradient where the improvement itself underflows. Where a search of the space finds less than a thousandth of
    the results' deviation, it is sought about the best tried design too, unless constraints are unknown.

    An objective that is computed from other outputs is scored by beliefs about these, and one that is read from an
    uncertain field by values that such fields give (``models.scoring.composite``).

    Args:
        doubts: Number of these standard deviations by which m is lowered, >= 0; 0 in the papers (Neural-CBO).

    Raises:
        ValueError: doubts is negative or not finite.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.OF_MOMENTS, Capability.COMPOSITE})
    scale: ClassVar[Scale] = "log"

    doubts: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.doubts) and self.doubts >= 0):
            raise ValueError(f"doubts is {self.doubts}: give a finite number >= 0, in standard deviations.")

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> AnalyticScore | SampledScore:
        """The score of this iteration (see Acquisition.score); pending points are believed."""
        beliefs = about_objective(posterior)
        if isinstance(beliefs, CompositePosterior):
            return improvement(posterior, beliefs, data, pending, rng, self.doubts)

        def level(points: Tensor) -> float:
            return float(incumbent(posterior, data, points, self.doubts))

        def improving(points: Tensor) -> LogImprovement:
            return LogImprovement(level(points))

        peak = None if isinstance(posterior, ConstrainedPosterior) else best_design(posterior, data)
        if (sampler := sampler_of(posterior)) is not None:
            return SampledScore(posterior, pending, level, sampled_values(sampler, rng), peak, _FAINT)
        return AnalyticScore(posterior, pending, improving, peak=peak, faint=_FAINT)

    def improvement(self, ceiling: float, posterior: Posterior, data: Observations) -> float:
        """exp(ceiling) + best - m: largest expected improvement below ``best`` anywhere (see Improving.improvement)."""
        _, doubt = best_belief(posterior, data)
        return math.exp(ceiling) + self.doubts * float(doubt)
