"""Logarithm of noisy expected hypervolume improvement (Daulton et al., 2021; in logarithms: Ament et al., 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.capability import Capability
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.hypervolume import HypervolumeScore, several
from fieldcraft.models.scoring.noisy_hypervolume import NoisyHypervolumeScore, processes_of
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class LogNEHVI:
    """log E[gain in hypervolume], averaged over what the front may be, with a surrogate for each objective.

    The values at the designs that were read are drawn ``draws`` times from the beliefs. Given one draw, the gain over
    its front is known in closed form, and nothing is to be gained at a design that was read. That needs an exact
    process of each objective (surrogates exact_gp, up to its ``n_exact`` trials, and trend_gp); with any other it is
    ``log_ehvi``.

    Args:
        draws: Fronts that are drawn, in pairs of opposite deviations from the mean.

    Raises:
        ValueError: draws < 1.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SEVERAL})
    scale: ClassVar[Scale] = "log"

    draws: int = 4

    def __post_init__(self) -> None:
        refuse_below("draws", self.draws, 1)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> HypervolumeScore:
        """The score of this iteration (see Acquisition.score); pending points are drawn with those that were read.

        Raises:
            ValueError: the posterior is of one objective.
        """
        beliefs = several(posterior, "acquisition log_nehvi")
        score, processes = LogEHVI().score(posterior, data, pending, q, rng), processes_of(beliefs)
        if processes is None:
            return score
        return NoisyHypervolumeScore(
            posterior,
            data,
            pending,
            score.reference,
            processes=processes,
            draws=self.draws,
            seed=int(rng.integers(2**63 - 1)),
        )
