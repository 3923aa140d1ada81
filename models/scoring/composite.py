"""Expected improvement of an objective that is computed from outputs or a field (Astudillo and Frazier, 2019)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from botorch.utils.safe_math import log_fatplus, logmeanexp
from torch import Tensor

from fieldcraft.models.composite.posterior import CompositePosterior
from fieldcraft.models.composite.sampled import Sampler, sampler_of
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
) -> "AnalyticScore | SampledScore":
    """Logarithm of the expected improvement on the best value of the parts' means among the observed points.

    In closed form for a target or a band (``LogBandImprovement``); by Monte Carlo for a formula (``SampledScore``).

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

        def values(parts: Posterior, X: Tensor) -> Tensor:
            assert isinstance(parts, CompositePosterior)  # and so are its coarse form and itself conditioned
            return parts.sampled(X, base)

        return SampledScore(beliefs, pending, level, values)
    own, scale = beliefs.parts[0].scaling, beliefs.scaling
    low, high = (float(each) for each in own.to_target(band))

    def improving(points: Tensor) -> LogBandImprovement:
        return LogBandImprovement(low, high, float(scale.to_physical(level(points))) / own.sd)

    return AnalyticScore(beliefs.parts[0], pending, improving)


@dataclass(frozen=True, eq=False)
class SampledScore:
    """log E[max(level - f, 0)] by 512 values of the objective f at each point, smoothed as BoTorch's logarithm is.

    The values are those for one scrambled Sobol sequence: the score is smooth in the candidate (Ament et al., 2023).

    Args:
        beliefs: Beliefs about the objective, from the data.
        pending: Encoded points without a result, shape (k, d).
        level: Function from the points that are believed to the level, in targets.
        values: Function from beliefs and points (n, d) to values of the objective, in targets, shape (s, n).
        peak: See PeakedScore.
        faint: See PeakedScore.
    """

    beliefs: Posterior
    pending: Tensor
    level: Callable[[Tensor], float]
    values: Callable[[Posterior, Tensor], Tensor]
    peak: Tensor | None = None
    faint: float = -math.inf
    _built: dict[bytes, tuple[float, Posterior]] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        return self._of(*self._for(chosen), X)

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value``, by the coarse form of the beliefs."""
        level, beliefs = self._for(chosen)
        return self._of(level, coarse(beliefs), X)

    def _of(self, level: float, beliefs: Posterior, X: Tensor) -> Tensor:
        gains = level - self.values(beliefs, X)
        found: Tensor = logmeanexp(log_fatplus(gains, tau=_SMOOTH), dim=0)
        return found

    def _for(self, chosen: Tensor) -> tuple[float, Posterior]:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            points = torch.cat([self.pending, chosen.detach()])
            beliefs = self.beliefs.fantasize(points) if len(points) else self.beliefs
            self._built[key] = self.level(points), beliefs
        return self._built[key]


def sampled_values(sampler: Sampler, rng: np.random.Generator) -> Callable[[Posterior, Tensor], Tensor]:
    """Values (512, n) of such beliefs, and of these conditioned, at points (n, d) (see ``SampledScore``)."""
    base = normal_samples(_SAMPLES, sampler.variables, int(rng.integers(2**31 - 1)))

    def values(beliefs: Posterior, X: Tensor) -> Tensor:
        own = sampler_of(beliefs)
        assert own is not None  # conditioning and coarse forms keep it
        return own.at(X, base)[0]

    return values


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
