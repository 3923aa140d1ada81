"""Max-value entropy search (Wang and Jegelka, 2017), computed by BoTorch."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.process import ExactPosterior, exact_process
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gp_score import ConditionedScore, on_encoded, spread_points
from fieldcraft.models.surrogate import Function, Posterior
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class MES:
    """Information, in nats, that a result at x gives about the least value f* of the objective.

    Draws of f* come from a Gumbel distribution fitted to the minimum over the trials and Sobol points of the whole box
    [-1, 1]^d: in a space with categories or known inequalities that box is larger than the space. Under known
    equalities they are points of the space. For an exact Gaussian process only.

    Args:
        n_samples: Draws of f*, >= 1.
        n_points: Sobol points at which the minimum is sought, >= 1.

    Raises:
        ValueError: a number is out of its range.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})
    scale: ClassVar[Scale] = "positive"

    n_samples: int = 16
    n_points: int = 1024

    def __post_init__(self) -> None:
        refuse_below("n_samples", self.n_samples, 1)
        refuse_below("n_points", self.n_points, 1)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> ConditionedScore:
        """The score of this iteration (see Acquisition.score); pending points are believed.

        Raises:
            ValueError: the posterior is no exact Gaussian process.
        """
        return ConditionedScore(
            exact_process(posterior, "acquisition mes", "acquisition: log_ei"),
            pending,
            partial(self._build, space=data.planes),
            int(rng.integers(2**31)),
        )

    def _build(self, posterior: ExactPosterior, space: SearchSpace | None) -> Function:
        points = spread_points(space, posterior.dimension, self.n_points)
        return on_encoded(qMaxValueEntropy(posterior.model, points, num_mv_samples=self.n_samples, maximize=False))
