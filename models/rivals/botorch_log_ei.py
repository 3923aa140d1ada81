"""BoTorch's SingleTaskGP with log expected improvement (Ament et al., 2023), as its tutorials use it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement, LogExpectedImprovement
from botorch.acquisition.logei import qLogExpectedImprovement
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, feasible, minimised
from fieldcraft.models.rivals._botorch import Cube, fitted, maximised, probability, under
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class BotorchLogEI:
    """Improvement over the best result; with pending trials, the Monte Carlo form that takes them into account.

    Under unknown constraints, improvement over the best feasible result times the probability that all hold
    (LogConstrainedExpectedImprovement); while no result is feasible, the probability alone, as BoTorch recommends.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.CONSTRAINED})

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        cube, some = Cube(space), feasible(data)
        with contained(rng):
            model = fitted(cube, data)
            bounds: dict[int, tuple[float | None, float | None]]
            bounds = {1 + k: (None, 0.0) for k in range(data.constraints.shape[1])}
            best = float(-minimised(data)[some].min()) if some.any() else None

            def acquisition(waiting: Tensor | None) -> AcquisitionFunction:
                if best is None:
                    return probability(model, data, waiting)
                if waiting is not None:
                    return qLogExpectedImprovement(model, best_f=best, X_pending=waiting, **under(data))
                if not bounds:
                    return LogExpectedImprovement(model, best_f=best)
                return LogConstrainedExpectedImprovement(model, best_f=best, objective_index=0, constraints=bounds)

            return maximised(acquisition, cube, pending, q)
