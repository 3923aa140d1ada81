"""Optuna's NSGAIISampler: a genetic algorithm for several objectives (Deb et al., 2002), with its defaults."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, require, require_box, seed_of
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class OptunaNSGA2:
    """Optuna's NSGAIISampler: a genetic algorithm for several objectives (Deb et al., 2002), with its defaults.

    The trials, the campaign's start among them, are told in their order, 50 to a generation; until the first is full
    its designs are random. Under unknown constraints it ranks feasible results above others.

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
        from optuna.samplers import NSGAIISampler

        from fieldcraft.models.rivals._optuna import bred

        require_box(space, "Optuna")
        with contained(rng):
            return bred(NSGAIISampler(seed=seed_of(rng)), data, space, q)
