"""SMAC3 (Lindauer et al., 2022): a random forest and expected improvement, with its own defaults."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, minimised, require, require_box, seed_of
from fieldcraft.models.rivals._coordinates import Coordinate, coordinates, encoded, inside, told
from fieldcraft.models.rivals._silence import quiet
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from ConfigSpace.hyperparameters import Hyperparameter

_MOST_TRIALS = 10**9  # which SMAC wants to be told; the campaign has its own


@dataclass(frozen=True)
class SMAC:
    """SMAC3's HyperparameterOptimizationFacade with its defaults: a random forest, log EI, one proposal in five random.

    The campaign's initial designs replace its own, and the objective counts as deterministic: a design that was
    measured is not proposed again. Pending designs are running trials.

    Raises:
        ValueError: SMAC3 is not installed.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def __post_init__(self) -> None:
        require("SMAC3", "smac")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        require_box(space, "SMAC3")
        with contained(rng), quiet(), tempfile.TemporaryDirectory() as folder:
            from ConfigSpace import Configuration, ConfigurationSpace
            from smac import HyperparameterOptimizationFacade as Facade
            from smac import Scenario
            from smac.runhistory.dataclasses import TrialInfo, TrialValue

            parameters = ConfigurationSpace(seed=seed_of(rng))
            parameters.add([_parameter(one) for one in coordinates(space)])
            scenario = Scenario(
                parameters,
                deterministic=True,
                n_trials=_MOST_TRIALS,
                seed=seed_of(rng),
                output_directory=Path(folder),
            )
            none = Facade.get_initial_design(scenario, n_configs=0)
            smac = Facade(scenario, lambda config, seed=0: 0.0, initial_design=none, logging_level=False)

            def trial(point: dict[str, float | int | str]) -> TrialInfo:
                return TrialInfo(Configuration(parameters, values=point), seed=0)

            known = inside(space, data.X)
            for point, value in zip(told(space, data.X[known]), minimised(data)[known], strict=True):
                smac.tell(trial(point), TrialValue(cost=float(value)))
            for point in told(space, pending[inside(space, pending)]):
                smac.runhistory.add_running_trial(trial(point))
            return encoded(space, [dict(smac.ask().config) for _ in range(q)])


def _parameter(one: Coordinate) -> "Hyperparameter[Any, Any]":
    from ConfigSpace import Categorical, Float, Integer

    if one.kind == "choice":
        return Categorical(one.name, list(one.levels))
    if one.kind == "whole":
        return Integer(one.name, (int(one.low), int(one.high)), log=one.log)
    return Float(one.name, (one.low, one.high))
