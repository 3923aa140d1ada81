"""Knowledge gradient (Frazier et al., 2009) over a finite set of decisions.

BoTorch's one-shot form optimises the decisions together with the design; here a score must judge each design by itself.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.optim.optimize import optimize_acqf
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.process import ExactPosterior, exact_process
from fieldcraft.models.maximizers._descent import minimiser
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gp_score import ConditionedScore, spread_points, unit_box
from fieldcraft.models.surrogate import Function, Posterior
from fieldcraft.physics.space import SearchSpace

# Search for the least posterior mean: it must be among the decisions, or any design near it would seem a gain.
_STARTS = 4
_SAMPLES = 512


@dataclass(frozen=True)
class KnowledgeGradient:
    """Expected reduction of the least posterior mean by a result at x, in targets.

    The decisions are x itself, the trials, the minimiser of the mean and Sobol points of the whole box [-1, 1]^d: in a
    space with categories or known inequalities that box is larger than the space. Under known equalities they are of
    the space. For an exact Gaussian process only.

    Args:
        n_points: Sobol points among the decisions, >= 1.
        n_readings: Equally likely values of the result at x (normal quantiles), >= 2.

    Raises:
        ValueError: a number is out of its range.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})
    scale: ClassVar[Scale] = "positive"

    n_points: int = 256
    n_readings: int = 32

    def __post_init__(self) -> None:
        refuse_below("n_points", self.n_points, 1)
        refuse_below("n_readings", self.n_readings, 2)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> ConditionedScore:
        """The score of this iteration (see Acquisition.score); pending points are believed.

        Raises:
            ValueError: the posterior is no exact Gaussian process.
        """
        found = exact_process(posterior, "acquisition knowledge_gradient", "acquisition: log_ei")
        return ConditionedScore(found, pending, partial(self._build, space=data.planes), int(rng.integers(2**31)))

    def _build(self, posterior: ExactPosterior, space: SearchSpace | None) -> Function:
        best = _least_mean(posterior, space)
        points = 2 * spread_points(space, posterior.dimension, self.n_points) - 1
        decisions = torch.cat([posterior.fit.X, best, points])
        levels = (torch.arange(self.n_readings, dtype=torch.float64) + 0.5) / self.n_readings
        return _gain(posterior, decisions, torch.special.ndtri(levels))


def _least_mean(posterior: ExactPosterior, space: SearchSpace | None) -> Tensor:
    """Point of the box or a space where the mean is least, encoded, shape (1, d)."""
    if space is not None:
        return minimiser(lambda X: posterior.mean_var(X)[0], space, _SAMPLES, _STARTS)
    mean = PosteriorMean(posterior.model, maximize=False)
    best, _ = optimize_acqf(mean, unit_box(posterior.dimension), q=1, num_restarts=_STARTS, raw_samples=_SAMPLES)
    return 2 * best.detach() - 1


def _gain(posterior: ExactPosterior, decisions: Tensor, nodes: Tensor) -> Function:
    """min_A mu - E[min over A and x of mu after a result at x], A = decisions (a, d), for results at nodes (z,).

    That result moves the mean at a by s(a) z with s(a) = cov(a, x) / sqrt(var(x) + noise) and z ~ N(0, 1).
    """
    with torch.no_grad():
        mean = posterior.mean_var(decisions)[0]
        explained = posterior.factor.half_solve(posterior.kernel(posterior.fit.X, decisions))

    def gain(X: Tensor) -> Tensor:
        own, variance = posterior.mean_var(X)
        here = posterior.factor.half_solve(posterior.kernel(posterior.fit.X, X))
        covariance = posterior.kernel(X, decisions) - here.mT @ explained
        sd = (variance + posterior.noise_variance).sqrt()
        means = torch.cat([mean.expand(len(X), -1), own[:, None]], dim=1)
        slopes = torch.cat([covariance, variance[:, None]], dim=1) / sd[:, None]
        return mean.min() - (means[..., None] + slopes[..., None] * nodes).amin(1).mean(-1)

    return gain
