"""Optuna's GPSampler: a Matern Gaussian process and log expected improvement, with its defaults."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, require, require_box, seed_of
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class OptunaGP:
    """Optuna's GPSampler: a Matern Gaussian process and log expected improvement, with its defaults.

    The campaign's initial designs replace its own ten random trials. Under unknown constraints it multiplies by the
    probability that all hold; while no result is feasible it maximises that alone. Of several objectives it
    maximises the expected gain in hypervolume, within a reference of its own.

    Raises:
        ValueError: Optuna is not installed.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.CONSTRAINED, Capability.SEVERAL})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def __post_init__(self) -> None:
        require("Optuna", "optuna")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        from optuna.samplers import GPSampler

        from fieldcraft.models.rivals._optuna import ask

        require_box(space, "Optuna")
        with contained(rng):
            return ask(GPSampler(seed=seed_of(rng), n_startup_trials=1), data, pending, space, q)
