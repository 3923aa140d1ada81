"""Outputs of a problem without noise: at a campaign's designs, and their spreads over the space."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.spec.contracts import asked
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Design

Array = NDArray[np.float64]

SAMPLE = 4096
"""Designs over which a spread is taken: the first of one fixed scrambled Sobol sequence of the problem's space."""


def exact_points(problem: Problem, designs: Sequence[Design]) -> Array | None:
    """Designs as points (n, d) of ``Problem.exact``; None where one has levels or images."""
    names = problem.domain.names if problem.domain else problem.space.names
    places = [[design[name] for name in names] for design in designs]
    if any(isinstance(value, str) for place in places for value in place):
        return None
    return np.array(places, dtype=np.float64)


def exact_outputs(problem: Problem, designs: Sequence[Design]) -> Array | None:
    """The objective and then each constraint without noise or mesh, in their units, shape (n, 1 + c).

    None where the problem has no exact values of both, or where a design has levels or images.

    Raises:
        InputError: the code of a plug-in cannot tell them.
    """
    points = exact_points(problem, designs)
    if points is None:
        return None
    with asked(type(problem), "tell its exact outputs"):
        objective, constraints = problem.exact(points), problem.exact_constraints(points)
    return None if objective is None or constraints is None else np.column_stack([objective, constraints])


def spreads(problem: Problem) -> list[float] | None:
    """Standard deviations of the objective and each constraint over the problem's space, uniformly, in their units.

    The objective's is the stated one of the problem, if any; the others are taken over ``SAMPLE`` designs, always the
    same. None where the problem has no exact outputs.
    """
    from fieldcraft.models.numerics.point_sets import sobol_points, take

    designs = problem.space.decode(take(sobol_points(problem.space, np.random.default_rng(0)), SAMPLE))
    outputs = exact_outputs(problem, designs)
    if outputs is None:
        return None
    objective, *constraints = outputs.std(axis=0).tolist()
    return [objective if problem.sd is None else problem.sd, *constraints]
