"""Search space as other packages see it: named parameters that are real, whole or a choice between levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.observations import Array
from fieldcraft.physics.space import Integer, SearchSpace
from fieldcraft.physics.structure.categories import Categorical, counted

Value = float | int | str
_ROUNDING = 1e-9  # encoded points this close are one design


@dataclass(frozen=True)
class Coordinate:
    """One parameter of another package.

    Args:
        name: ``x`` and the number of its first encoded column: a name that every package accepts.
        column: Its first encoded column.
        kind: ``real`` in encoded units, ``whole`` in its own, or ``choice`` between levels.
        low: Least value of a real or whole one.
        high: Greatest value of a real or whole one.
        levels: Levels of a choice.
        number: The variable of a whole one; the place of an ordered level.
    """

    name: str
    column: int
    kind: Literal["real", "whole", "choice"]
    low: float = -1.0
    high: float = 1.0
    levels: tuple[str, ...] = ()
    number: Integer | None = None

    @property
    def log(self) -> bool:
        """True for a whole number with a logarithmic scale; that of a real one is in its encoded units already."""
        return self.number is not None and self.number.log

    def of(self, x: Array) -> Value:
        """Value of the parameter at an encoded point (d,), clipped to its bounds if rounding has left them."""
        if self.kind == "choice":
            return self.levels[int(np.argmax(x[self.column : self.column + len(self.levels)]))]
        if self.number is not None:
            return round(float(self.number.values(x[self.column])))
        value = float(x[self.column])
        bounded = min(max(value, self.low), self.high)
        return bounded if abs(value - bounded) < _ROUNDING else value

    def into(self, x: Array, value: Value) -> None:
        """Write the parameter's value into an encoded point (d,)."""
        if self.kind == "choice":
            x[self.column : self.column + len(self.levels)] = [level == value for level in self.levels]
        elif self.number is not None:
            x[self.column] = self.number.coordinates(np.array(float(value)))
        else:
            x[self.column] = float(value)


def coordinates(space: SearchSpace) -> tuple[Coordinate, ...]:
    """Parameters of a space; a variable with a single value has no parameter."""
    found, column = list[Coordinate](), 0
    for variable in space.variables:
        number = counted(variable)
        if isinstance(variable, Categorical) and number is None:
            found.append(Coordinate(f"x{column}", column, "choice", levels=variable.levels))
        elif number is not None:
            ends = float(number.low), float(number.high)
            found.append(Coordinate(f"x{column}", column, "whole", *ends, number=number))
        else:
            found += [Coordinate(f"x{at}", at, "real") for at in range(column, column + variable.width)]
        column += variable.width
    return tuple(one for one in found if (len(one.levels) > 1 if one.kind == "choice" else one.low < one.high))


def told(space: SearchSpace, X: Array) -> list[dict[str, Value]]:
    """Encoded points (n, d) as values by parameter."""
    return [{one.name: one.of(x) for one in coordinates(space)} for x in X]


def encoded(space: SearchSpace, points: Sequence[Mapping[str, Value]]) -> Array:
    """Encoded feasible points of values by parameter, shape (q, d)."""
    X = np.zeros((len(points), space.dimension))
    for x, point in zip(X, points, strict=True):
        for one in coordinates(space):
            one.into(x, point[one.name])
    return space.repair(X)


def inside(space: SearchSpace, X: Array) -> NDArray[np.bool_]:
    """True for encoded points (n, d) that are designs of the space, shape (n,); others predate its narrowing."""
    return np.asarray(np.all(np.abs(space.repair(X) - X) < _ROUNDING, axis=1)) if len(X) else np.zeros(0, dtype=bool)
