"""Joint entropy search (Hvarfner et al., 2022; Tu et al., 2022), computed by BoTorch."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.acquisition.utils import get_optimal_samples
from torch import Tensor

from fieldcraft.models.acquisition import Scale
from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.draws import pathwise
from fieldcraft.models.gaussian.process import ExactPosterior, exact_process, to_unit
from fieldcraft.models.maximizers._descent import minimiser
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gp_score import ConditionedScore, on_encoded, unit_box
from fieldcraft.models.surrogate import Function, Posterior
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class JES:
    """Information, in nats, that a result at x gives about the minimiser and the least value (a lower bound).

    Draws of (x*, f*) are the minimisers of posterior paths over the whole box [-1, 1]^d: in a space with categories or
    known inequalities that box is larger than the space. Under known equalities they are of the space. For an exact
    Gaussian process only.

    Args:
        n_samples: Draws of (x*, f*), >= 1.
        n_points: Sobol points from which each minimiser is sought, >= 1.
        n_starts: The best of them that gradients improve, >= 1.

    Raises:
        ValueError: a number is out of its range.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT})
    scale: ClassVar[Scale] = "positive"

    n_samples: int = 16
    n_points: int = 512
    n_starts: int = 4

    def __post_init__(self) -> None:
        for name in ("n_samples", "n_points", "n_starts"):
            refuse_below(name, getattr(self, name), 1)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> ConditionedScore:
        """The score of this iteration (see Acquisition.score); pending points are believed.

        Raises:
            ValueError: the posterior is no exact Gaussian process.
        """
        return ConditionedScore(
            exact_process(posterior, "acquisition jes", "acquisition: log_ei"),
            pending,
            partial(self._build, space=data.planes),
            int(rng.integers(2**31)),
        )

    def _build(self, posterior: ExactPosterior, space: SearchSpace | None) -> Function:
        negated = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
        if space is not None:
            inputs, outputs = self._minima(posterior, space)
        else:
            inputs, outputs = get_optimal_samples(
                posterior.model,
                unit_box(posterior.dimension),
                self.n_samples,
                raw_samples=self.n_points,
                num_restarts=self.n_starts,
                posterior_transform=negated,
            )
        return on_encoded(qJointEntropySearch(posterior.model, inputs, outputs, posterior_transform=negated))

    def _minima(self, posterior: ExactPosterior, space: SearchSpace) -> tuple[Tensor, Tensor]:
        """Minimisers of paths in a space, in the unit cube, and the paths there, (s, d) and (s, 1)."""
        paths = pathwise(posterior, self.n_samples, np.random.default_rng(int(torch.randint(2**31 - 1, ()))))
        places = [minimiser(path, space, max(self.n_points, self.n_starts), self.n_starts) for path in paths]
        with torch.no_grad():
            values = [path(place) for path, place in zip(paths, places, strict=True)]
        return to_unit(torch.cat(places)), torch.stack(values)
