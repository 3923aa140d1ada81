"""Thompson sampling of several objectives by random hypervolume scalarisations (Golovin and Zhang, 2020)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.hypervolume import believed_front, reference_point, several
from fieldcraft.models.surrogate import Function, Posterior


@dataclass(frozen=True)
class _ScalarisedDraws:
    """min_k (r_k - f_k) / w_k of each place's draws f and weights w, with the reference r."""

    draws: tuple[tuple[Function, ...], ...]
    weights: Tensor
    reference: Tensor

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The scalarisation of draw ``slot`` at X (n, d), shape (n,), in targets."""
        drawn = torch.stack([function(X) for function in self.draws[slot]], dim=1)
        return ((self.reference - drawn) / self.weights[slot]).amin(dim=1)


@dataclass(frozen=True)
class HypervolumeThompson:
    """x_j = argmax min_k (r_k - f_k) / w_k, with f_k drawn from each objective's posterior and w from the unit sphere.

    The mean over w of the best value that a set of designs reaches, cut off at 0 and raised to the power of the number
    of objectives, is proportional to its hypervolume within the reference r. Each place of a batch has a draw and a
    weight of its own, so that pending trials and earlier places may be ignored. It works with every surrogate.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> _ScalarisedDraws:
        """Draw q functions of each objective and q weights (see Acquisition.score).

        Raises:
            ValueError: the posterior is of one objective.
        """
        beliefs = several(posterior, "acquisition hypervolume_thompson")
        front = believed_front(posterior, data, torch.empty(0, data.X.shape[1], dtype=torch.float64))
        weights = np.abs(rng.standard_normal((q, len(beliefs.parts))))
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        draws = tuple(beliefs.draws(q, rng))
        return _ScalarisedDraws(draws, torch.tensor(weights), reference_point(beliefs, front))
