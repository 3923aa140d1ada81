"""Logarithm of expected hypervolume improvement (Emmerich et al., 2011; in logarithms: Ament et al., 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.hypervolume import HypervolumeScore, believed_front, reference_point, several
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class LogEHVI:
    """log E[gain in hypervolume] of several objectives, exactly, with a surrogate for each, taken as independent.

    The front is one of posterior means (see ``believed_front``): under noise a lucky result is no part of it.
    ``log_nehvi`` averages over what the front may be.
    An objective without a stated reference has one inferred from the front by BoTorch's rule.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})
    scale: ClassVar[Scale] = "log"

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> HypervolumeScore:
        """The score of this iteration (see Acquisition.score); pending points are believed.

        Raises:
            ValueError: the posterior is of one objective.
        """
        beliefs = several(posterior, "acquisition log_ehvi")
        front = believed_front(posterior, data, torch.empty(0, data.X.shape[1], dtype=torch.float64))
        return HypervolumeScore(posterior, data, pending, reference_point(beliefs, front))
