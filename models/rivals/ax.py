"""Ax's client (Adaptive Experimentation Platform), with its default generation strategy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, minimised, require, require_box, seed_of
from fieldcraft.models.rivals._coordinates import Coordinate, coordinates, encoded, inside, told
from fieldcraft.models.rivals._silence import quiet
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig


@dataclass(frozen=True)
class Ax:
    """Ax's client with its defaults: its BoTorch models. The campaign's initial designs replace Ax's own.

    Otherwise, given trials that it did not propose, it would begin each time with the centre or a quasi-random point.

    Raises:
        ValueError: Ax is not installed.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def __post_init__(self) -> None:
        require("Ax", "ax")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        require_box(space, "Ax")
        with contained(rng), quiet():
            from ax.api.client import Client

            client = Client(random_seed=seed_of(rng))
            client.configure_experiment(parameters=[_parameter(one) for one in coordinates(space)])
            client.configure_optimization(objective="-y")
            client.configure_generation_strategy(initialization_budget=0, initialize_with_center=False)
            _tell(client, data, pending, space)
            points: list[dict[str, float | int | str]] = []
            while len(points) < q:  # a step of its strategy may give fewer than it was asked for
                points += [dict(point) for point in client.get_next_trials(q - len(points)).values()]
            return encoded(space, points)


def _tell(client: "Client", data: Observations, pending: Array, space: SearchSpace) -> None:
    known = inside(space, data.X)
    for point, value in zip(told(space, data.X[known]), minimised(data)[known], strict=True):
        client.complete_trial(client.attach_trial(point), {"y": float(value)})
    for point in told(space, pending[inside(space, pending)]):
        client.attach_trial(point)


def _parameter(one: Coordinate) -> "RangeParameterConfig | ChoiceParameterConfig":
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    if one.kind == "choice":
        order = False if len(one.levels) > 2 else None  # Ax takes two levels for ordered
        return ChoiceParameterConfig(name=one.name, parameter_type="str", values=list(one.levels), is_ordered=order)
    if one.kind == "whole":
        ends = int(one.low), int(one.high)
        if one.log:
            return RangeParameterConfig(name=one.name, parameter_type="int", bounds=ends, scaling="log")
        return RangeParameterConfig(name=one.name, parameter_type="int", bounds=ends)
    return RangeParameterConfig(name=one.name, parameter_type="float", bounds=(one.low, one.high))
