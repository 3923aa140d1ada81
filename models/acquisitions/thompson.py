"""Thompson sampling (Thompson, 1933): each place of a batch follows one function drawn from the posterior."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.scoring.incumbent import best_design
from fieldcraft.models.surrogate import Function, Posterior, SlopedFunction, means

# Variables up to which a draw's least point in the whole space is worth a trial.
_FEW = 5
# Share of its deviation from the mean that a draw over images keeps.
_KEPT = 0.3


@dataclass(frozen=True, eq=False)
class _DrawScore:
    """Minus the draw of each place, so that the best candidate is the minimiser of that function."""

    draws: tuple[Function, ...]
    searched_about: Tensor | None

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Minus the value of draw ``slot`` at X (n, d), shape (n,), in targets."""
        return -self.draws[slot](X)

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d); in closed form if the draw has one."""
        draw = self.draws[slot]
        values, gradients = draw.value_and_grad(X) if isinstance(draw, SlopedFunction) else automatic(draw, X)
        return -values, -gradients

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value`` at X (n, d), shape (n,), at less cost where the draw has a coarse form."""
        draw = self.draws[slot]
        return -(draw.coarse if isinstance(draw, SlopedFunction) else draw)(X)


@dataclass(frozen=True, eq=False)
class _Subdued:
    """A draw nearer to the posterior's mean: the mean and a share of the draw's deviation from it."""

    draw: Function
    posterior: Posterior

    def __call__(self, X: Tensor) -> Tensor:
        """Values (n,) at X (n, d), differentiable in X."""
        mean = means(self.posterior, X)
        return mean + _KEPT * (self.draw(X) - mean)


@dataclass(frozen=True)
class Thompson:
    """One independent posterior draw for each place of the batch, x_j = argmin f_j, f_j ~ posterior.

    Pending trials and earlier places are ignored by construction: the draws differ, and so do their minimisers. This
    requires that the posterior has some variance left.

    In many variables a draw is least where nothing is known: few trials leave the prior's variance nearly everywhere,
    and the draw's deviation from the mean is five standard deviations somewhere, whatever the mean. Its minimiser is
    then sought about the tried design of the least mean, among samples at distances over three decades (as in Stagger
    Thompson sampling: Sweet, 2024). An image is sought everywhere, but the draw keeps three tenths of its deviation.

    Args:
        search: Where the minimiser is sought: "everywhere", or "about_best", about that design. None: about it above
            five variables; everywhere up to five, and, of draws nearer to the mean, where designs have images.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.COMPOSITE})

    search: Literal["everywhere", "about_best"] | None = field(default=None, metadata={"left_out": True})

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> _DrawScore:
        """Draw q functions (see Acquisition.score)."""
        draws = posterior.draw(q, rng)
        if self.search is None and data.images:
            return _DrawScore(tuple(_Subdued(each, posterior) for each in draws), None)
        many = (len(data.columns) or data.X.shape[1]) > _FEW
        local = self.search == "about_best" or (self.search is None and many)
        return _DrawScore(tuple(draws), best_design(posterior, data) if local else None)
