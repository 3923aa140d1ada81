"""Neighbours of a point in its discrete variables: the moves that gradients cannot make."""

from fractions import Fraction
from itertools import permutations

import numpy as np

from fieldcraft.models.observations import Array
from fieldcraft.physics.geometry.mixtures import Mixture
from fieldcraft.physics.space import SearchSpace, Variable
from fieldcraft.physics.structure.categories import Categorical, counted

# Whole numbers that are exchanged in ratios of larger numbers are not exchanged.
_LARGEST_RATIO = 100
_PARALLEL = 1e-9


def neighbours(space: SearchSpace, x: Array) -> Array:
    """Feasible points (n, d) that differ from the encoded x (d,) in one discrete variable, or in two that are tied.

    An integer or an ordered category goes 1, 2, 4, ... steps up and down, another category to every other level.
    Continuous variables stay where they are, unless a known constraint moves them (see SearchSpace.repair). Integers
    that an equality ties to each other are exchanged in the ratio that keeps it.
    """
    moved, columns = list[Array](), space.columns
    tied = {int(one) for mixture in space.mixtures if not mixture.filled for one in mixture.columns}
    for variable in space.variables:
        at = columns[variable.name]
        for values in _others(variable, x[at]) if at.start not in tied else ():
            moved.append(x.copy())
            moved[-1][at] = values
    for mixture in space.mixtures:
        moved += _exchanged(mixture, x)
    return space.repair(np.array(moved)) if moved else np.empty((0, space.dimension))


def _others(variable: Variable, values: Array) -> Array:
    """Encoded values, shape (n, width), that one move of a variable reaches."""
    if isinstance(variable, Categorical) and not variable.ordered:
        levels = np.eye(variable.width)
        return np.asarray(levels[np.argmax(values) != np.arange(variable.width)])
    number = counted(variable)
    if number is None or number.high == number.low:
        return np.empty((0, variable.width))
    here, spread = float(values[0]), number.high - number.low
    if number.log:
        whole = number.decode(values)
        moved = whole + np.outer([-1, 1], 2 ** np.arange(spread.bit_length())).ravel()
        return number.coordinates(moved[(moved >= number.low) & (moved <= number.high), None].astype(np.float64))
    sizes = 2.0 ** np.arange(spread.bit_length()) * 2 / spread
    there = np.concatenate([here - sizes, here + sizes])
    return np.asarray(there[np.abs(there) <= 1 + 1 / spread][:, None])


def _exchanged(mixture: Mixture, x: Array) -> list[Array]:
    """Points reached from x (d,) by more of one whole number and less of another, within their bounds."""
    found, whole = list[Array](), np.flatnonzero(mixture.steps > 0)
    for more, other in permutations(whole.tolist(), 2):
        if (steps := _ratio(mixture, more, other)) is None:
            continue
        moves = np.array(steps) * mixture.steps[[more, other]]
        columns, (low, high) = mixture.columns[[more, other]], (mixture.low[[more, other]], mixture.high[[more, other]])
        there = x[columns] + moves
        while np.all((there >= low - _PARALLEL) & (there <= high + _PARALLEL)):
            found.append(x.copy())
            found[-1][columns] = there
            moves = 2 * moves
            there = x[columns] + moves
    return found


def _ratio(mixture: Mixture, more: int, other: int) -> tuple[int, int] | None:
    """The fewest steps of two whole numbers, the first upwards, that keep the equalities; None where there are none."""
    one, two = (mixture.E[:, column] * mixture.steps[column] for column in (more, other))
    ratio = -float(one @ two) / float(two @ two)
    steps = Fraction(ratio).limit_denominator(_LARGEST_RATIO)
    if abs(steps.numerator) > _LARGEST_RATIO or np.abs(one + float(steps) * two).max() > _PARALLEL:
        return None
    return steps.denominator, steps.numerator
