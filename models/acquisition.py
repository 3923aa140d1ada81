"""The protocols of an acquisition and of the score it becomes for one iteration."""

from typing import Protocol

import numpy as np
from torch import Tensor

from models.observations import Observations
from models.surrogate import Posterior


class Score(Protocol):
    """The worth of a candidate for one place of a batch."""

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of each row of X; higher is better.

        Args:
            X: Encoded candidates, shape (n, d); each row is judged by itself, not as a batch.
            slot: Which place of the batch is being filled, from 0.
            chosen: Encoded points already chosen for earlier places of this batch, shape (j, d).

        Returns:
            Values, shape (n,), differentiable in X; the same call gives the same values.
        """
        ...


class Acquisition(Protocol):
    """A rule that turns beliefs into the worth of a candidate: a frozen description.

    One that needs an exact Gaussian process declares ``exact_only: ClassVar[bool] = True``, and a surrogate that gives
    one declares ``exact`` likewise: campaigns without it are then refused before they begin.
    """

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> Score:
        """The score for one iteration.

        Args:
            posterior: Beliefs about the minimised objective.
            data: The observations behind them.
            pending: Encoded points that were sent and have no result yet, shape (k, d).
            q: Number of places in the batch.
            rng: The only source of randomness.
        """
        ...
