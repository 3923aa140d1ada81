"""Confidence bound of a sum, term by term: add-GP-UCB (Kandasamy, Schneider and Poczos, 2015)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.grouped_process import grouped_process
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.confidence_weight import Beta, refuse_beta, weight_of
from fieldcraft.models.scoring.separable import SeparableScore
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class AddUCB:
    """sum_g sqrt(beta_g) sigma_g(x_g) - mu_g(x_g): a confidence bound of each term of the sum separately.

    It is a sum of functions of one group of variables each, so that each can be maximised by itself: the maximizers
    certified and pk_miqp take the groups one by one. It exceeds ucb of the whole, because the standard deviations of
    the terms sum to more than that of their sum.

    Args:
        beta: Weight beta_g >= 0 of the variance of every group (dimensionless); the bound uses its square root.
            "growing": 0.2 d_g log(2 t) for d_g encoded coordinates of the group and t trials.

    Raises:
        ValueError: beta is negative or not finite.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.SEPARABLE})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.GROUPED})

    beta: Beta = 4.0

    def __post_init__(self) -> None:
        refuse_beta(self.beta)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> SeparableScore:
        """The score of this iteration (see Acquisition.score); pending points are believed.

        Raises:
            ValueError: the posterior is no sum over groups.
        """
        grouped = grouped_process(posterior, "acquisition add_ucb", "acquisition: ucb")
        roots = tuple(weight_of(self.beta, len(columns), len(data)) ** 0.5 for columns in grouped.groups)
        return SeparableScore(grouped, pending, roots)
