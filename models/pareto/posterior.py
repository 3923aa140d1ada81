"""Beliefs about several objectives, each from a surrogate of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.numerics.batching import jointly
from fieldcraft.models.numerics.states import named
from fieldcraft.models.observations import Aim, Scaling
from fieldcraft.models.surrogate import Function, MomentsWithSlopes, Posterior, means, slopes_of


@dataclass(frozen=True, eq=False)
class SeveralObjectives:
    """Beliefs about m >= 2 objectives, taken as independent; read as one posterior they are those about the first.

    Args:
        parts: Beliefs about each, minimised and standardised by its own results.
        aims: Sense and reference of each.
    """

    parts: tuple[Posterior, ...]
    aims: tuple[Aim, ...]

    @property
    def scaling(self) -> Scaling:
        """Scaling of the first objective."""
        return self.parts[0].scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the first objective, and those of the others with the prefix ``objective2.`` ..."""
        return self._all("metrics")

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the first objective, and those of the others with the prefix ``objective2.`` ..."""
        return self._all("remarks")

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the first objective at X (n, d)."""
        return self.parts[0].mean_var(X)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) of the first objective at X (n, d) alone."""
        return means(self.parts[0], X)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions of the first objective's posterior."""
        return self.parts[0].draw(q, rng)

    def fantasize(self, X: Tensor) -> "SeveralObjectives":
        """The posterior as if every objective at X (k, d) were read at its mean."""
        return SeveralObjectives(tuple(part.fantasize(X) for part in self.parts), self.aims)

    def state(self) -> dict[str, Tensor]:
        """The states of all parts, with the prefixes ``objective1.``, ``objective2.`` ..."""
        states = [named(f"objective{k}.", part.state()) for k, part in enumerate(self.parts, start=1)]
        return {name: value for state in states for name, value in state.items()}

    def means(self, X: Tensor) -> Tensor:
        """Means of all objectives at X (n, d), in targets, shape (n, m)."""
        return torch.stack([means(part, X) for part in self.parts], dim=1)

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of all objectives at X (n, d), in targets, each (n, m), differentiable."""
        mean, variance = self._jointly(X)
        return mean.mT, variance.mT

    def slopes(self, X: Tensor) -> list[MomentsWithSlopes] | None:
        """Moments of each objective at X (n, d) with their gradients; None if one has none in closed form."""
        known = [slopes_of(part) for part in self.parts]
        return [each(X) for each in known if each is not None] if all(known) else None

    def draws(self, q: int, rng: np.random.Generator) -> list[tuple[Function, ...]]:
        """q times a function of each objective's posterior, (n, d) -> (n,), in targets."""
        return list(zip(*(part.draw(q, rng) for part in self.parts), strict=True))

    @cached_property
    def _jointly(self) -> Any:
        return jointly(self.parts)

    def _all(self, attribute: str) -> dict[str, Any]:
        first, *others = self.parts
        found = dict(getattr(first, attribute))
        for k, part in enumerate(others, start=2):
            found |= {f"objective{k}.{name}": value for name, value in getattr(part, attribute).items()}
        return found
