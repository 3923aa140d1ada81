"""Expected improvement of the hypervolume over the fronts that noisy results may hide."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor

from fieldcraft.models.gaussian.draws import DrawnValues
from fieldcraft.models.gaussian.exact_results import PosteriorThroughResults
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.scoring.criteria import LEAST_SD
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.scoring.hypervolume import HypervolumeScore, LogHypervolumeImprovement, counted
from fieldcraft.models.trend.process import TrendedPosterior, TrendedValues

Process = ExactPosterior | TrendedPosterior
"""A Gaussian process, about a constant or about a polynomial."""


def processes_of(beliefs: SeveralObjectives) -> tuple[Process, ...] | None:
    """The Gaussian process of each objective; None if one is believed otherwise.

    Beliefs that were led through exact results are taken as they were before: what a process calls noise is then
    what it cannot represent, and the improvement is that of what it can.
    """
    own = [part.beliefs if isinstance(part, PosteriorThroughResults) else part for part in beliefs.parts]
    found = [part for part in own if isinstance(part, Process)]
    return tuple(found) if len(found) == len(own) else None


@dataclass(frozen=True, eq=False)
class DrawnFronts:
    """Values of every objective at the points read, drawn, and the improvement on the front of each draw."""

    objectives: tuple[DrawnValues | TrendedValues, ...]
    improvements: tuple[LogHypervolumeImprovement, ...]

    @classmethod
    def of(
        cls, objectives: tuple[DrawnValues | TrendedValues, ...], feasible: Tensor, reference: Tensor
    ) -> "DrawnFronts":
        """The draws, with fronts of those of the points that are ``feasible`` (p,)."""
        values = torch.stack([each.values[:, feasible] for each in objectives], dim=2)
        fronts = [each[is_non_dominated(-each)] for each in values]
        return cls(objectives, tuple(LogHypervolumeImprovement.of(front, reference) for front in fronts))

    def worth(self, means: Tensor, variance: Tensor) -> Tensor:
        """log of the mean improvement (n,) for means (n, s, m) and variances (n, m)."""
        sd = variance.clamp_min(LEAST_SD**2).sqrt()
        each = [improvement(means[:, s], sd) for s, improvement in enumerate(self.improvements)]
        return torch.stack(each).logsumexp(dim=0) - math.log(len(each))


@dataclass(frozen=True, eq=False)
class NoisyHypervolumeScore(HypervolumeScore):
    """log expected gain in hypervolume over the mean of several fronts, each of one draw of what was read.

    Where a point was read, nothing is to be gained in any of the draws, however noisy the result. Pending points and
    earlier places are drawn with the others.

    Args:
        processes: The process of each objective.
        draws: Number of fronts.
        seed: Of the draws: the same for all places of a batch.
    """

    processes: tuple[Process, ...] = field(kw_only=True)
    draws: int = field(kw_only=True)
    seed: int = field(kw_only=True)
    _placed: dict[bytes, DrawnFronts] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The logarithm at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        drawn = self.drawn(chosen)
        means, variances = zip(*(each.moments(X) for each in drawn.objectives), strict=True)
        return drawn.worth(torch.stack(means, dim=2).transpose(0, 1), torch.stack(variances, dim=1))

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d); those of the moments in closed form."""
        drawn = self.drawn(chosen)
        means, variances, by_means, by_variances = zip(*(each.slopes(X) for each in drawn.objectives), strict=True)
        moments = torch.from_numpy(np.stack([np.vstack([m, v]) for m, v in zip(means, variances, strict=True)], axis=2))
        values, by = automatic(lambda at: drawn.worth(at[:, :-1], at[:, -1]), moments.transpose(0, 1))
        slopes = np.stack([np.vstack([m, v[None]]) for m, v in zip(by_means, by_variances, strict=True)], axis=2)
        return values, torch.einsum("nsm,snmd->nd", by, torch.from_numpy(slopes))

    def drawn(self, chosen: Tensor) -> DrawnFronts:
        """Draws for the place after the points ``chosen`` (j, d), whose own values join those of the first place."""
        key = chosen.detach().numpy().tobytes()
        if key not in self._placed:
            waiting = torch.cat([self.pending, chosen.detach()])
            points, feasible = counted(self.posterior, self.data, waiting)
            shape = len(points), len(self.processes), -(-self.draws // 2)
            half = torch.from_numpy(np.random.default_rng(self.seed).standard_normal(shape))
            normals = torch.cat([half, -half], dim=2)[:, :, : self.draws]
            objectives = (_drawn(each, points, normals[:, k]) for k, each in enumerate(self.processes))
            self._placed[key] = DrawnFronts.of(tuple(objectives), feasible, self.reference)
        return self._placed[key]


def _drawn(process: Process, points: Tensor, normals: Tensor) -> DrawnValues | TrendedValues:
    if isinstance(process, TrendedPosterior):
        return TrendedValues(process, points, normals)
    return DrawnValues(process, points, normals)
