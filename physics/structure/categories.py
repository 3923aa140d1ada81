"""Categorical variables: named levels, without an order or with one."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.variables import Array, Integer, SpaceError, check_name, suggestion


@dataclass(frozen=True)
class Categorical:
    """A variable that takes one of a few named levels.

    Args:
        name: Its name in designs, files and tables.
        levels: At least one level, all different; in their order, if they have one.
        ordered: True if levels next to each other are alike (coarse, medium, fine): the coordinate is then one number,
            evenly spaced over the levels, in place of a one-hot group.

    Raises:
        SpaceError: blank name, no level, a repeated level or one that is not text.
    """

    name: str
    levels: tuple[str, ...]
    ordered: bool = False

    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)
        if isinstance(self.levels, str) or not all(isinstance(level, str) for level in self.levels):
            raise SpaceError(f"The levels of {self.name} are {self.levels!r}: give a tuple of texts.")
        if not self.levels or len(set(self.levels)) < len(self.levels):
            raise SpaceError(f"The levels of {self.name} are {self.levels!r}: name at least one, and each once.")

    @property
    def width(self) -> int:
        """Number of coordinates: one a level, or one of ordered levels."""
        return 1 if self.ordered else len(self.levels)

    @property
    def box(self) -> Array:
        """Bounds of the coordinates, shape (2, width)."""
        return self.places.box if self.ordered else np.array([[0.0], [1.0]]) * np.ones(self.width)

    @cached_property
    def places(self) -> Integer:
        """The place of a level, from 0, as a whole number: what the coordinate of ordered levels counts."""
        return Integer(self.name, 0, len(self.levels) - 1)

    def encode(self, value: object) -> Array:
        """Coordinates of a level, shape (width,)."""
        self.check(value)
        place = self.levels.index(str(value))
        return self.places.encode(place) if self.ordered else _one_hot(np.array([place]), self.width).reshape(-1)

    def decode(self, columns: Array) -> str:
        """Level of the largest coordinate of (width,), or nearest to the one coordinate."""
        return self.levels[int(self.indices(columns[None])[0])]

    def indices(self, columns: Array) -> NDArray[np.intp]:
        """Places of the levels of coordinates (n, width), from 0, shape (n,)."""
        if not self.ordered:
            return np.asarray(np.argmax(columns, axis=1))
        return np.clip(np.rint(self.places.values(columns[:, 0])), 0, len(self.levels) - 1).astype(np.intp)

    def at(self, columns: Array) -> NDArray[np.str_]:
        """Levels of coordinates (n, width), shape (n, 1)."""
        return np.array(self.levels)[self.indices(columns)][:, None]

    def uniform(self, n: int, rng: np.random.Generator) -> Array:
        """Coordinates of n uniform levels, shape (n, width)."""
        return self.places.uniform(n, rng) if self.ordered else _one_hot(rng.integers(self.width, size=n), self.width)

    def snap(self, columns: Array) -> Array:
        """Coordinates of the levels of the largest entries, or nearest to the one coordinate, shape (n, width)."""
        return self.places.snap(columns) if self.ordered else _one_hot(np.argmax(columns, axis=1), self.width)

    def check(self, value: object) -> None:
        """Accept one of the levels, or raise SpaceError."""
        if value not in self.levels:
            close = suggestion(value if isinstance(value, str) else "", self.levels)
            raise SpaceError(f"{self.name} has no level {value!r}.{close}")

    def narrowed(self, low: float, high: float) -> "Categorical":
        """Raise SpaceError: levels cannot be narrowed."""
        raise SpaceError(
            f"{self.name} is categorical, without bounds to narrow to [{low}, {high}]: leave it out of the bounds."
        )


def counted(variable: object) -> Integer | None:
    """The whole number that a variable's coordinate counts: itself, or the place of an ordered level; None for others.

    Args:
        variable: A variable of a search space.
    """
    if isinstance(variable, Categorical):
        return variable.places if variable.ordered else None
    return variable if isinstance(variable, Integer) else None


def _one_hot(index: NDArray[np.intp], width: int) -> Array:
    return np.asarray(index[:, None] == np.arange(width), dtype=np.float64)
