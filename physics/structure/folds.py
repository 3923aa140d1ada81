"""Spaces in which several encoded points are one design: ends of angles, exchanged blocks, values that do not exist."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.structure.categories import Categorical
from fieldcraft.physics.structure.conditions import OnlyIf, require_conditions, resting
from fieldcraft.physics.structure.symmetries import Exchangeable, ordering, require_alike
from fieldcraft.physics.variables import Array, Continuous, SpaceError

MOST_EXCHANGES = 24
"""Exchanges of blocks, of four of one kind for instance, that are gone through."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Rules by which different encoded points are one design.

    Args:
        variables: The variables of a space, by name, in the order of their columns.
        exchangeable: Groups of exchangeable blocks.
        only_if: Conditions of variables that do not always exist.
    """

    variables: Mapping[str, Any]
    exchangeable: tuple[Exchangeable, ...]
    only_if: tuple[OnlyIf, ...]

    def require(self, constraints: Sequence[Any]) -> None:
        """Accept blocks and conditions that fit the variables and the known constraints of the space.

        Raises:
            SpaceError: see ``require_conditions`` and ``require_alike``, or a variable in a block and in a condition.
        """
        require_conditions(self.only_if, self.variables)
        require_alike(self.exchangeable, self.variables, constraints)
        conditional = {name for one in self.only_if for name in (one.name, one.of)}
        for group in self.exchangeable:
            for name in conditional & set(group.names):
                raise SpaceError(f"{name} is in an exchangeable block and in a condition: take it out of one of them.")

    @property
    def periodic(self) -> tuple[str, ...]:
        """Names of the periodic variables, in order."""
        return tuple(name for name, v in self.variables.items() if isinstance(v, Continuous) and v.periodic)

    @property
    def conditional(self) -> tuple[str, ...]:
        """Names of the variables that do not always exist."""
        return tuple(condition.name for condition in self.only_if)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The rules in words; empty in a plain space, where each design has one encoded point."""
        return (
            *(f"{name} is periodic" for name in self.periodic),
            *(f"{group} are exchangeable" for group in self.exchangeable),
            *(f"{name} exists in some designs alone" for name in self.conditional),
        )

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """The encoded coordinates of each variable, by its name."""
        ends = np.cumsum([variable.width for variable in self.variables.values()]).tolist()
        return {
            name: slice(end - variable.width, end)
            for (name, variable), end in zip(self.variables.items(), ends, strict=True)
        }

    @cached_property
    def around(self) -> NDArray[np.bool_]:
        """True for each periodic coordinate, shape (d,)."""
        found = np.zeros(sum(variable.width for variable in self.variables.values()), dtype=bool)
        for name in self.periodic:
            found[self.columns[name]] = True
        return found

    def existing(self, design: Mapping[str, Any]) -> dict[str, Any]:
        """A design without the variables that do not exist in it."""
        absent = {condition.name for condition in self.only_if if not condition.holds(design)}
        return {name: value for name, value in design.items() if name not in absent}

    def resting(self) -> dict[str, Any]:
        """Values of the conditional variables where they do not exist, by name."""
        return {name: self.variables[name].decode(resting(self.variables[name])) for name in self.conditional}

    def existence(self, X: Array) -> list[tuple[str, NDArray[np.bool_]]]:
        """Each conditional variable, and True for the points of X (n, d) in which it exists, (n,)."""
        found = []
        for condition in self.only_if:
            category: Categorical = self.variables[condition.of]
            kept = np.array([level in condition.levels for level in category.levels])
            found.append((condition.name, kept[category.indices(X[:, self.columns[condition.of]])]))
        return found

    def at_rest(self, X: Array) -> Array:
        """X (n, d) with variables that do not exist at their resting values; changed in place."""
        for name, exists in self.existence(X):
            at = self.columns[name]
            X[:, at] = np.where(exists[:, None], X[:, at], resting(self.variables[name]))
        return X

    def ordered(self, X: Array) -> NDArray[np.intp]:
        """The columns of X (n, d) that sort the blocks of every exchangeable group, shape (n, d).

        Periodic coordinates may lie beyond the ends of their period.
        """
        places, X = np.tile(np.arange(X.shape[1]), (len(X), 1)), self._within_periods(X)
        for blocks in self.blocks:
            places[:, blocks.ravel()] = ordering(X, blocks)
        return places

    def canonical(self, X: Array) -> Array:
        """One point (n, d) for each design of X (n, d): its blocks are sorted.

        Periodic coordinates are in [-1, 1), variables that do not exist at rest.
        """
        X = self.at_rest(self._within_periods(X))
        return np.take_along_axis(X, self.ordered(X), axis=1)

    def _within_periods(self, X: Array) -> Array:
        """A copy of X (n, d) with periodic coordinates in [-1, 1)."""
        X = np.array(X, dtype=np.float64)
        for name in self.periodic:
            X[:, self.columns[name]] = self.variables[name].snap(X[:, self.columns[name]])
        return X

    @cached_property
    def exchanges(self) -> tuple[NDArray[np.intp], ...]:
        """The columns, shape (d,), that make each exchange of blocks of a point; the first leaves it as it is.

        Only that one where there are more than ``MOST_EXCHANGES``.
        """
        orders = [list(permutations(range(len(blocks)))) for blocks in self.blocks]
        found = [np.arange(len(self.around))]
        if math.prod(map(len, orders)) > MOST_EXCHANGES:
            return tuple(found)
        for choice in list(product(*orders))[1:]:
            columns = np.arange(len(self.around))
            for blocks, order in zip(self.blocks, choice, strict=True):
                columns[blocks.ravel()] = blocks[list(order)].ravel()
            found.append(columns)
        return tuple(found)

    @cached_property
    def blocks(self) -> tuple[NDArray[np.intp], ...]:
        """The columns of each block of each exchangeable group, shape (m, w) each."""
        every = np.arange(len(self.around))
        return tuple(
            np.array([np.concatenate([every[self.columns[name]] for name in block]) for block in group.blocks])
            for group in self.exchangeable
        )
