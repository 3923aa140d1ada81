"""The covariance matrix adaptation evolution strategy (Hansen, 2016) of pycma, with its defaults."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, minimised, require, require_box, seed_of
from fieldcraft.models.rivals._coordinates import inside
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from cma import CMAEvolutionStrategy

# First standard deviation, a quarter of a variable's interval, as pycma advises.
_SIGMA = 0.5


@dataclass(frozen=True)
class CMAES:
    """The covariance matrix adaptation evolution strategy (Hansen, 2016) of pycma, with its defaults.

    It begins at the centre of the box. The trials, the campaign's start among them, are told in their order, a
    population at a time, and the next designs are drawn from the distribution that follows. Where pycma would stop it
    begins anew with twice the population, as its restarts do. Integers and categories are rounded designs of the box.

    Raises:
        ValueError: pycma is not installed.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def __post_init__(self) -> None:
        require("pycma", "cma")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        require_box(space, "pycma")
        known = inside(space, data.X)
        with contained(rng):
            box = _Box(space)
            seed = 1 + seed_of(rng)  # 0 stands for the clock
            strategy, told = box.strategy(seed), 0
            X, y = box.of(data.X[known]), minimised(data)[known]
            while told + strategy.popsize <= len(X):
                generation = slice(told, told + strategy.popsize)
                strategy.ask()  # pycma takes one population for each that it gave
                strategy.tell(list(X[generation]), y[generation].tolist())
                told += strategy.popsize
                if strategy.stop():
                    strategy = box.strategy(seed, 2 * strategy.popsize)
            return box.back(np.stack(strategy.ask(q)))


@dataclass(frozen=True, eq=False)
class _Box:
    """The coordinates of a space that have more than one value; a single one has an idle one beside it.

    pycma searches two dimensions or more.
    """

    space: SearchSpace

    def of(self, X: Array) -> Array:
        """Points of pycma of encoded points (n, d)."""
        moving = np.clip(X, *self.space.bounds)[:, self._moving]  # rounding may have left the box
        return np.hstack([moving, np.zeros((len(X), self._idle))])

    def back(self, points: Array) -> Array:
        """Encoded designs of points of pycma."""
        X = np.repeat(self.space.bounds[:1], len(points), axis=0)
        X[:, self._moving] = points[:, : len(self._moving)]
        return self.space.repair(X)

    def strategy(self, seed: int, population: int | None = None) -> "CMAEvolutionStrategy":
        """A strategy at its beginning."""
        from cma import CMAEvolutionStrategy

        low, high = self.of(self.space.bounds)
        low[len(self._moving) :], high[len(self._moving) :] = -1.0, 1.0
        options = {"bounds": [low.tolist(), high.tolist()], "seed": seed, "verbose": -9}
        options |= {} if population is None else {"popsize": population}
        scale = {"CMA_stds": ((high - low) / 2).tolist()}
        return CMAEvolutionStrategy((low + high) / 2, _SIGMA, {**options, **scale})

    @property
    def _moving(self) -> np.ndarray:
        low, high = self.space.bounds
        return np.flatnonzero(high > low)

    @property
    def _idle(self) -> int:
        return max(2 - len(self._moving), 0)
