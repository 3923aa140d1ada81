"""Ax's client (Adaptive Experimentation Platform), with its default generation strategy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import all_minimised, contained, require, require_box, seed_of
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
    It is told of unknown constraints, and of several objectives with the references that are stated.

    Raises:
        ValueError: Ax is not installed.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.CONSTRAINED, Capability.SEVERAL})
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
            client.configure_optimization(objective=_objective(data), outcome_constraints=_limits(data))
            client.configure_generation_strategy(initialization_budget=0, initialize_with_center=False)
            _tell(client, data, pending, space)
            points: list[dict[str, float | int | str]] = []
            while len(points) < q:  # a step of its strategy may give fewer than it was asked for
                points += [dict(point) for point in client.get_next_trials(q - len(points)).values()]
            return encoded(space, points)


def _objective(data: Observations) -> str:
    return ", ".join(f"-y{k}" for k in range(max(len(data.aims), 1)))


def _limits(data: Observations) -> list[str]:
    """The unknown constraints, and the references that are stated, as Ax writes both."""
    signs = [-1.0 if aim.maximize else 1.0 for aim in data.aims]
    stated = [(k, aim.reference) for k, aim in enumerate(data.aims) if aim.reference is not None]
    references = [f"y{k} <= {signs[k] * worst}" for k, worst in stated]
    return [*references, *(f"c{k} <= 0" for k in range(data.constraints.shape[1]))]


def _tell(client: "Client", data: Observations, pending: Array, space: SearchSpace) -> None:
    known = inside(space, data.X)
    results = zip(told(space, data.X[known]), all_minimised(data)[known], data.constraints[known], strict=True)
    for point, values, kept in results:
        outputs = {f"y{k}": float(value) for k, value in enumerate(values)}
        outputs |= {f"c{k}": float(value) for k, value in enumerate(kept)}
        client.complete_trial(client.attach_trial(point), outputs)
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
