"""Exchangeable variables: parts of a design that may be swapped without effect, as two chips of one kind."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constraints import LinearConstraint, LinearEquality, QuadraticConstraint
from fieldcraft.physics.variables import Array, SpaceError, suggestion


@dataclass(frozen=True)
class Exchangeable:
    """Blocks of variables whose values may be exchanged as wholes: every exchange is the same design.

    Args:
        blocks: Names of the variables of each block, at least two blocks of equal length; variables in the same place
            of two blocks correspond: ``(("x1", "y1"), ("x2", "y2"))``.

    Raises:
        SpaceError: fewer than two blocks, an empty one, blocks of different length, or a name that occurs twice.
    """

    blocks: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        lengths = {0 if isinstance(block, str) else len(block) for block in self.blocks}
        if len(self.blocks) < 2 or len(lengths) > 1 or 0 in lengths:
            raise SpaceError(
                f"The exchangeable blocks are {self.blocks!r}: give at least two tuples of names, of the same length."
            )
        if len(set(self.names)) < len(self.names):
            raise SpaceError(f"The exchangeable blocks {self.blocks!r} name a variable twice: name each once.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all variables in it, block by block."""
        return tuple(name for block in self.blocks for name in block)

    def __str__(self) -> str:
        return " and ".join(f"({', '.join(block)})" for block in self.blocks)


def require_alike(groups: Sequence[Exchangeable], variables: Mapping[str, Any], constraints: Iterable[Any]) -> None:
    """Accept exchangeable blocks of the variables of a space, by name, that its known constraints do not tell apart.

    Raises:
        SpaceError: an unknown name, one in two groups, variables that correspond and differ in more than their names,
            or constraints that an exchange changes.
    """
    seen = set[str]()
    stated = {_key(constraint, {}) for constraint in constraints}
    for group in groups:
        for name in group.names:
            if name not in variables:
                raise SpaceError(f"No variable is named {name!r}.{suggestion(name, variables)}")
            if name in seen:
                raise SpaceError(f"{name} is in two groups of exchangeable blocks: put it into one.")
            seen.add(name)
        for one, other in pairwise(group.blocks):
            for left, right in zip(one, other, strict=True):
                if replace(variables[left], name=right) != variables[right]:
                    raise SpaceError(
                        f"{left} and {right} are in the same place of exchangeable blocks and are not alike: give them "
                        "the same bounds, unit and scale, or take the blocks out."
                    )
            swapped = dict(zip((*one, *other), (*other, *one), strict=True))
            for constraint in constraints:
                if _key(constraint, swapped) not in stated:
                    raise SpaceError(
                        f"{constraint} does not hold for the blocks {group} exchanged: state it for each of them, or "
                        "take the blocks out."
                    )


def _key(
    constraint: LinearConstraint | LinearEquality | QuadraticConstraint, renamed: Mapping[str, str]
) -> tuple[Any, ...]:
    """A constraint as data, with variables renamed, whatever the order of its terms."""
    linear = frozenset((renamed.get(name, name), value) for name, value in constraint.coefficients.items() if value)
    if isinstance(constraint, LinearEquality):
        return "=", linear, constraint.total
    if isinstance(constraint, LinearConstraint):
        return "<=", linear, constraint.upper
    pairs = {frozenset(renamed.get(name, name) for name in pair): value for pair, value in constraint.products.items()}
    return "<=", linear, constraint.upper, frozenset(pairs.items())


def ordering(X: Array, blocks: NDArray[np.intp]) -> NDArray[np.intp]:
    """The columns (n, m w) that sort the blocks of each row of X (n, d), by their first coordinate, then the next.

    Args:
        X: Encoded points.
        blocks: Columns of each of m blocks, shape (m, w).
    """
    values = X[:, blocks]
    rank = np.lexsort(tuple(values[:, :, j] for j in reversed(range(blocks.shape[1]))), axis=-1)
    return blocks[rank].reshape(len(X), blocks.size)
