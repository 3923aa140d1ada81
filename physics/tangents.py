"""The gradient of an objective that is read from the fields of a stated equation, by the equation's tangents.

With A(d) u = b(d) and J(u, d), d = (d_1, ..., d_m), the tangents u_j = A^-1 (b_j - A_j u) give

    dJ/dd_j = J_u u_j + J_d_j,

as the adjoint does, z^T (b_j - A_j u) + J_d_j with A^T z = J_u. The factors of A are those of the solution, so that m
tangents cost m substitutions, less than another design. The adjoint costs one, but asks for J_u at every cell of a
functional that is known by its values alone; along the tangents a difference of two values is enough.

Of nonlinear equations, A(d) u + F(u, d) = b(d), the tangents solve (A + F_u) u_j = b_j - A_j u - F_j.

Matrices, nonlinear terms and functional are differentiated by central differences. Designs beyond the bounds by a
hundred-thousandth of a variable's interval are asked for.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.discretisation import Discretisation
from fieldcraft.physics.parametric.finite_differences import one, steady
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, Design

Array = NDArray[np.float64]

# Step of the differences, as a share of half of a variable's interval.
_STEP = 2e-5


def gradient(problem: Problem, stated: ParametricEquation, design: Design, cells: tuple[int, ...]) -> dict[str, float]:
    """Derivatives of the objective by each continuous variable, in its unit by the variable's, by name.

    Args:
        problem: The problem, whose functional reads the objective.
        stated: Its equation, in steady state.
        design: The design.
        cells: Number of cells along each axis.

    Raises:
        ValueError: the fields are in time, the problem has no functional, or the equation has no unique solution.
    """
    if stated.time is not None:
        raise ValueError(
            f"The equation of {type(problem).__name__} is in time, and gradients are of steady states: leave "
            "`gradient` out."
        )
    moving = [variable for variable in problem.space.variables if isinstance(variable, Continuous)]
    steps = np.array([_STEP * variable.slope(float(design[variable.name])) for variable in moving])
    # The design itself, then each variable ahead, then each behind.
    moves = np.vstack([np.zeros(len(moving)), np.diag(steps), -np.diag(steps)])
    designs: dict[str, Any] = dict(design) | {
        v.name: float(design[v.name]) + moves[:, [i]] for i, v in enumerate(moving)
    }
    fields, tangents = _tangents(stated, designs, steps, cells)
    aside = steps[:, None, None] * tangents
    values = np.concatenate([fields + aside, fields - aside])
    grid = Grid(stated.domain, cells)
    found = problem.functional(
        {field.name: grid.boxed(values[:, i]) for i, field in enumerate(stated.fields)},
        grid.centres,
        {name: value[1:] if isinstance(value, np.ndarray) else value for name, value in designs.items()},
    )
    if found is None:
        raise ValueError(
            f"{type(problem).__name__} has no `functional` that reads its objective from the fields: give it one, or "
            "leave `gradient` out."
        )
    ahead, behind = np.split(np.asarray(found, dtype=np.float64)[:, 0], 2)
    return {v.name: float(slope) for v, slope in zip(moving, (ahead - behind) / (2 * steps), strict=True)}


def _tangents(
    stated: ParametricEquation, designs: Numbers, steps: Array, cells: tuple[int, ...]
) -> tuple[Array, Array]:
    """Fields (1, fields, N) of the first design, and their derivatives by each variable, (m, fields, N)."""
    on, m = Discretisation.of(stated, cells), len(steps)
    pattern, coefficients, right = on.system(stated.of(designs))
    right = np.broadcast_to(right, (2 * m + 1, pattern.size))
    coefficients = np.broadcast_to(coefficients, (2 * m + 1, coefficients.shape[1]))
    joint, slopes, moved = pattern, coefficients[:1], np.zeros((m, pattern.size))
    if stated.nonlinear is None:
        whole = pattern.solve(coefficients[:1], right[:1])
    else:
        balance, solution = steady(stated, one(designs, 0), cells)
        whole, (joint, slopes) = solution[None], balance.jacobian(solution)
        terms = [stated.bound(one(designs, i)) for i in range(2 * m + 1)]
        at = [replace(balance, nonlinear=each).left(solution)[0] for each in terms]
        moved = (np.array(at[1 : m + 1]) - np.array(at[m + 1 :])) / (2 * steps[:, None])
    entries = pattern.values(coefficients[1:])
    given = (right[1 : m + 1] - right[m + 1 :]) / (2 * steps[:, None]) - moved
    for row, entry in zip(given, (entries[:m] - entries[m:]) / (2 * steps[:, None]), strict=True):
        row -= np.bincount(pattern.rows, entry * whole[0, pattern.columns], minlength=pattern.size)
    return on.cells_of(whole), on.cells_of(joint.solve(slopes, given))
