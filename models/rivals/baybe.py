"""BayBE (Bayesian back end), with its default recommenders."""

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, minimised, require, require_lines
from fieldcraft.models.rivals._coordinates import Coordinate, coordinates, encoded, told
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from baybe.constraints import ContinuousLinearConstraint
    from baybe.parameters.base import Parameter

MOST_COMBINATIONS = 100_000  # of discrete values, all of which BayBE writes out


@dataclass(frozen=True)
class BayBE:
    """A BayBE campaign with its defaults, given all measurements: its Gaussian process and log expected improvement.

    It receives linear constraints and equalities between continuous variables. Of whole numbers it knows no logarithmic
    scale: it is told their values on a linear one.

    Raises:
        ValueError: BayBE is not installed.
    """

    def __post_init__(self) -> None:
        require("BayBE", "baybe")

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest).

        Raises:
            ValueError: see ``refuse_space``.
        """
        self.refuse_space(space)
        with contained(rng):
            with _no_collection():
                import pandas as pd
                from baybe import Campaign
                from baybe.searchspace import SearchSpace as Product
                from baybe.targets import NumericalTarget

            parameters = [_parameter(one) for one in coordinates(space)]
            target = NumericalTarget(name="y", minimize=True)
            campaign = Campaign(Product.from_product(parameters, _constraints(space)), target.to_objective())
            read = pd.DataFrame(told(space, data.X)).assign(y=minimised(data))
            campaign.add_measurements(read, numerical_measurements_must_be_within_tolerance=False)
            waiting = pd.DataFrame(told(space, pending)) if len(pending) else None
            found = campaign.recommend(q, pending_experiments=waiting)
            return encoded(space, found.to_dict("records"))

    def refuse_space(self, space: SearchSpace) -> None:
        """Accept a space that BayBE can search.

        Raises:
            ValueError: known constraints that are quadratic or involve integers, or more combinations of discrete
                values than BayBE can enumerate.
        """
        require_lines(space, "BayBE")
        _require_few(space)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Exempt existing objects from garbage collection during the import, to keep it short.

    Each of BayBE's slotted classes triggers a full collection, which would otherwise go through all that torch holds.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _require_few(space: SearchSpace) -> None:
    combinations = math.prod(
        len(one.levels) if one.kind == "choice" else int(one.high - one.low) + 1
        for one in coordinates(space)
        if one.kind != "real"
    )
    if combinations > MOST_COMBINATIONS:
        raise ValueError(
            f"The search space has {combinations:g} combinations of discrete values, and BayBE writes out all of them: "
            f"more than {MOST_COMBINATIONS} are refused; use another algorithm."
        )


def _constraints(space: SearchSpace) -> "list[ContinuousLinearConstraint]":
    """The linear constraints of a space between its encoded coordinates, named as ``coordinates`` names them."""
    from baybe.constraints import ContinuousLinearConstraint

    told = ((space.linear, "<="), (space.equalities, "="))
    rows = ((row, offset, sign) for (A, b), sign in told for row, offset in zip(A, b, strict=True))
    return [
        ContinuousLinearConstraint(
            [f"x{at}" for at in np.flatnonzero(row)], sign, row[row != 0].tolist(), float(offset)
        )
        for row, offset, sign in rows
    ]


def _parameter(one: Coordinate) -> "Parameter":
    from baybe.parameters import CategoricalParameter, NumericalContinuousParameter, NumericalDiscreteParameter

    if one.kind == "choice":
        return CategoricalParameter(one.name, values=one.levels)
    if one.kind == "whole":
        return NumericalDiscreteParameter(one.name, values=tuple(range(int(one.low), int(one.high) + 1)))
    return NumericalContinuousParameter(one.name, bounds=(one.low, one.high))
