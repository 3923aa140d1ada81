"""Expected improvement of an objective that is computed from several outputs (Astudillo and Frazier, 2019)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from botorch.utils.safe_math import log_fatplus, logmeanexp
from torch import Tensor

from fieldcraft.models.composite.posterior import CompositePosterior
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.numerics.point_sets import normal_samples
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.bands import LogBandImprovement
from fieldcraft.models.scoring.incumbent import hopeful
from fieldcraft.models.surrogate import Posterior, coarse

_SAMPLES = 512
_SMOOTH = 1e-6  # of the objective's standard deviation, over which an improvement of zero is smoothed


def improvement(
    posterior: Posterior,
    beliefs: CompositePosterior,
    data: Observations,
    pending: Tensor,
    rng: np.random.Generator,
    doubts: float,
) -> "AnalyticScore | CompositeScore":
    """Logarithm of the expected improvement on the best value of the parts' means among the observed points.

    In closed form for a target or a band (``LogBandImprovement``); by Monte Carlo for a formula (``CompositeScore``).

    Args:
        posterior: Beliefs about the objective and, where there are any, the constraints.
        beliefs: Those about the objective.
        data: The observations behind them.
        pending: Encoded points without a result, shape (k, d), which are believed.
        rng: The only source of randomness.
        doubts: Number of standard deviations of the best value by which the level is lowered, where noise is stated.
    """

    def level(points: Tensor) -> float:
        return _level(posterior, beliefs, data, points, doubts)

    band = beliefs.composite.band
    if band is None:
        base = normal_samples(_SAMPLES, len(beliefs.parts), int(rng.integers(2**31 - 1)))
        return CompositeScore(beliefs, pending, level, base)
    own, scale = beliefs.parts[0].scaling, beliefs.scaling
    low, high = (float(each) for each in own.to_target(band))

    def improving(points: Tensor) -> LogBandImprovement:
        return LogBandImprovement(low, high, float(scale.to_physical(level(points))) / own.sd)

    return AnalyticScore(beliefs.parts[0], pending, improving)


@dataclass(frozen=True, eq=False)
class CompositeScore:
    """log E[max(level - g(f), 0)] by 512 joint values of the parts f, smoothed as BoTorch's logarithm is.

    The values are of one scrambled Sobol sequence: the score is smooth in the candidate (Ament et al., 2023).

    Args:
        beliefs: Beliefs about the objective, from the data.
        pending: Encoded points without a result, shape (k, d).
        level: Function from the points that are believed to the level, in targets.
        base: Standard normal values, shape (s, parts).
    """

    beliefs: CompositePosterior
    pending: Tensor
    level: Callable[[Tensor], float]
    base: Tensor
    _built: dict[bytes, tuple[float, CompositePosterior]] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        return self._of(*self._for(chosen), X)

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value``, by the coarse forms of the parts."""
        level, beliefs = self._for(chosen)
        return self._of(level, coarse(beliefs), X)

    def _of(self, level: float, beliefs: Posterior, X: Tensor) -> Tensor:
        assert isinstance(beliefs, CompositePosterior)  # and so is its coarse form
        gains = level - beliefs.sampled(X, self.base)
        found: Tensor = logmeanexp(log_fatplus(gains, tau=_SMOOTH), dim=0)
        return found

    def _for(self, chosen: Tensor) -> tuple[float, CompositePosterior]:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            points = torch.cat([self.pending, chosen.detach()])
            beliefs = self.beliefs.fantasize(points) if len(points) else self.beliefs
            self._built[key] = self.level(points), beliefs
        return self._built[key]


def _level(
    posterior: Posterior, beliefs: CompositePosterior, data: Observations, points: Tensor, doubts: float
) -> float:
    """Least objective of the parts' means at observed points that are feasible (all if none is), in targets.

    Points that are believed count too (see ``incumbent``).
    """
    with torch.no_grad():
        X = torch.tensor(data.X)
        values = beliefs.at_means(X)
        if isinstance(posterior, ConstrainedPosterior):
            feasible = posterior.trials_feasible(data)
            values = values.where(feasible, torch.inf) if feasible.any() else values
        best = int(values.argmin())
        level = float(values[best])
        if beliefs.uncertain:
            level -= doubts * float(beliefs.mean_var(X[best][None])[1][0].sqrt())
        points = hopeful(data, points)
        if len(points) and isinstance(posterior, ConstrainedPosterior):
            points = points[posterior.believed_feasible(points)]
        return min([level, *beliefs.at_means(points).tolist()]) if len(points) else level
