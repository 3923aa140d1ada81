"""Level from which an improvement is measured, and where it may be found."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.maximizer import SAME
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import PartOfOthers, Posterior, means


@runtime_checkable
class KnowsValleys(Protocol):
    """A posterior that may find the lowest valleys of its mean otherwise than by samples and gradients."""

    @property
    def likely_best(self) -> Tensor | None:
        """Encoded points in them, shape (m, d); None where it does not seek them."""
        ...


def likely_best(posterior: Posterior) -> Tensor | None:
    """Points (m, d) that a posterior finds in the lowest valleys of its mean; None where it does not seek them."""
    while isinstance(posterior, PartOfOthers):
        posterior = posterior.of_objective
    return posterior.likely_best if isinstance(posterior, KnowsValleys) else None


def best_design(posterior: Posterior, data: Observations) -> Tensor:
    """The observed point of the least posterior mean, shape (d,).

    Under unknown constraints only feasible points count (``ConstrainedPosterior.trials_feasible``); if there are none,
    all points count.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
    """
    return torch.tensor(data.X)[_eligible_means(posterior, data).argmin()]


def best_belief(posterior: Posterior, data: Observations) -> tuple[Tensor, Tensor]:
    """Posterior mean at ``best_design``, and its uncertainty; two numbers.

    The uncertainty is the standard deviation there if the noise of results is stated, and else 0.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
    """
    with torch.no_grad():
        mean = _eligible_means(posterior, data)
        best = mean.argmin()
        if not data.uncertain:
            return mean[best], torch.zeros_like(mean[best])
        return mean[best], posterior.mean_var(torch.tensor(data.X)[best][None])[1][0].sqrt()


def _eligible_means(posterior: Posterior, data: Observations) -> Tensor:
    """Means (n,) at the observed points, infinite where one counts as infeasible and another does not."""
    with torch.no_grad():
        mean = means(posterior, torch.tensor(data.X))
        if isinstance(posterior, ConstrainedPosterior):
            feasible = posterior.trials_feasible(data)
            mean = mean.where(feasible, torch.inf) if feasible.any() else mean
        return mean


def incumbent(posterior: Posterior, data: Observations, points: Tensor, doubts: float = 1.0) -> Tensor:
    """Least mean among observed points less its uncertainty, or the least mean among believed points if lower.

    Under noise the best point is itself uncertain. If improvement were measured from its mean, the points beside it, as
    good and as uncertain, would always promise an improvement and could hold the search there. The level is a mean and
    not a result, so that one lucky result does not stop the search. Noise that is not stated counts as none.

    Points that count as read at their mean (Ginsbourger et al., 2010: the Kriging believer) are included if they are
    believed feasible. Measured from a worse level, the points beside them would promise the same improvement again.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
        points: Encoded points without a result that are believed, shape (k, d).
        doubts: Factor of the uncertainty that is subtracted; 0 measures from the best mean.
    """
    best, doubt = best_belief(posterior, data)
    return torch.cat([(best - doubts * doubt)[None], _reached(posterior, data, points)]).min()


def hopeful(data: Observations, points: Tensor) -> Tensor:
    """Rows of points (k, d) that are not known to fail, shape (h, d)."""
    return points[(torch.cdist(points, torch.tensor(data.failed), p=torch.inf) >= SAME).all(dim=1)]


def _reached(posterior: Posterior, data: Observations, points: Tensor) -> Tensor:
    """Means (r,) at the points among (k, d) that are believed feasible."""
    with torch.no_grad():
        points = hopeful(data, points)
        if len(points) and isinstance(posterior, ConstrainedPosterior):
            points = points[posterior.believed_feasible(points)]
        return means(posterior, points) if len(points) else points.new_empty(0)
