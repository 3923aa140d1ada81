"""BoTorch's SingleTaskGP with log expected improvement (Ament et al., 2023), as its tutorials use it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.logei import qLogExpectedImprovement
from torch import Tensor

from models.observations import Array, Observations
from models.peer import contained, minimised
from models.peers._botorch import Cube, fitted, maximised
from physics.space import SearchSpace


@dataclass(frozen=True)
class BotorchLogEI:
    """Improvement over the best reading; with pending trials, the Monte Carlo form that knows them."""

    box_only: ClassVar[bool] = False

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Peer.suggest)."""
        cube = Cube(space)
        with contained(rng):
            model = fitted(cube, data)
            best = float(-minimised(data).min())

            def acquisition(waiting: Tensor | None) -> AcquisitionFunction:
                if waiting is None:
                    return LogExpectedImprovement(model, best_f=best)
                return qLogExpectedImprovement(model, best_f=best, X_pending=waiting)

            return maximised(acquisition, cube, pending, q)
