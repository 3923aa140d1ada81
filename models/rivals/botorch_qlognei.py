"""BoTorch's SingleTaskGP with log noisy expected improvement (Ament et al., 2023), also of several objectives."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, feasible
from fieldcraft.models.rivals._botorch import Cube, fitted, maximised, probability, under, within
from fieldcraft.physics.space import SearchSpace

# As its tutorial of several objectives limits optimize_acqf.
_AT_ONCE = {"batch_limit": 5, "maxiter": 200}


@dataclass(frozen=True)
class BotorchQLogNEI:
    """Improvement over the unknown true values at all points that were read, by Monte Carlo.

    Under unknown constraints, over those that are feasible, times the probability that all hold; while no result is
    feasible, the probability alone, as BoTorch recommends. Of several objectives it is the improvement of the
    hypervolume, qLogNEHVI (Daulton et al., 2021).
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.CONSTRAINED, Capability.SEVERAL})

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        cube = Cube(space)
        with contained(rng):
            model = fitted(cube, data)
            seen = cube.of(data.X)

            def acquisition(waiting: Tensor | None) -> AcquisitionFunction:
                if not feasible(data).any():
                    return probability(model, data, waiting)
                if data.aims:
                    return qLogNoisyExpectedHypervolumeImprovement(
                        model, X_baseline=seen, X_pending=waiting, prune_baseline=True, **within(data)
                    )
                return qLogNoisyExpectedImprovement(model, seen, X_pending=waiting, prune_baseline=True, **under(data))

            return maximised(acquisition, cube, pending, q, _AT_ONCE if data.aims else None)
