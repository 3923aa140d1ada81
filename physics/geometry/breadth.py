"""Breadth of a space: a check, by linear programs, that its constraints leave more than one design and a volume."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcraft.physics.geometry.lines import Lines, combined
from fieldcraft.physics.geometry.polytope import EmptyPolytopeError, Polytope
from fieldcraft.physics.geometry.quadrics import Quadrics
from fieldcraft.physics.variables import Array, SpaceError

# Encoded values this close together are one: ten times the tolerance of a linear program.
_SAME = 1e-6


class Space(Protocol):
    """Interface of ``physics.space.SearchSpace`` that this module uses."""

    @property
    def constraints(self) -> Sequence[object]:
        """All of its constraints, each with its formula as text."""

    @property
    def curves(self) -> Sequence[object]:
        """The quadratic ones."""

    @property
    def quadratic(self) -> Quadrics:
        """The quadratic ones in encoded coordinates."""

    @property
    def bounds(self) -> Array:
        """Lower and upper bounds of the coordinates, shape (2, d)."""

    @property
    def discrete(self) -> NDArray[np.bool_]:
        """True for each coordinate that takes separate values only, shape (d,)."""

    @property
    def steps(self) -> Array:
        """Distance between its values, shape (d,); 0 where they are not separate."""

    @property
    def columns(self) -> dict[str, slice]:
        """The coordinates of each variable."""

    @property
    def groups(self) -> tuple[slice, ...]:
        """The coordinates of each category."""

    def decode(self, X: ArrayLike) -> list[dict[str, float | int | str]]:
        """The designs of points (n, d)."""


def require_breadth(space: Space, lines: Lines, X: Array) -> None:
    """Accept a space of more than one design that has a volume within its equalities.

    Among quadratic constraints, only opposite pairs are checked.

    Args:
        space: The space.
        lines: Its linear constraints.
        X: Some of its designs, encoded, at least one, shape (n, d); programs are solved only if these do not settle it.

    Raises:
        SpaceError: the space has no such breadth; names the designs or constraints that leave no choice.
    """
    _refuse_opposite(space)
    if _roomy(space, lines, X):
        return
    polytope = Polytope(lines.A, lines.b, space.bounds[0], space.bounds[1], 0.0, lines.E, lines.e)
    try:
        breadth = polytope.breadth(space.steps)
        if breadth == np.inf:
            if _others(space, lines) or any(wide for _, wide in _widths(space, lines, polytope)):
                return
        elif breadth > 0:
            return
        pinned = [column for column, wide in _widths(space, lines, polytope) if not wide]
        tight = _tight(lines, polytope, space.steps)
    except EmptyPolytopeError:  # but for the tolerance to which constraints hold
        pinned, tight = [], list(lines.limits)
    raise SpaceError(_said(space, lines, X[0], pinned, tight))


def _roomy(space: Space, lines: Lines, X: Array) -> bool:
    """True if at least two of the points X (n, d) are different and well inside all inequalities."""
    (low, high), free = space.bounds, ~space.discrete
    room = np.column_stack([lines.b - X @ lines.A.T, (high - X)[:, free], (X - low)[:, free]])
    return len(np.unique(np.round(X[np.all(room > _SAME, axis=1)], 6), axis=0)) > 1


def _held(lines: Lines) -> list[int]:
    """Numbers of the coordinates that occur in a linear constraint."""
    return list(map(int, np.flatnonzero(np.any(lines.A != 0, axis=0) | np.any(lines.E != 0, axis=0))))


def _others(space: Space, lines: Lines) -> bool:
    """True if a variable outside all linear constraints has more than one value."""
    held, (low, high) = _held(lines), space.bounds
    return any(
        columns.stop - columns.start > 1 or (columns not in space.groups and low[columns] < high[columns])
        for columns in space.columns.values()
        if columns.start not in held
    )


def _widths(space: Space, lines: Lines, polytope: Polytope) -> Iterator[tuple[int, bool]]:
    """Each coordinate that occurs in a constraint, and True if it has more than one value among the designs."""
    for column in _held(lines):
        least, most = polytope.extent(np.eye(len(space.steps))[column], space.steps)
        yield column, most - least > _SAME


def _tight(lines: Lines, polytope: Polytope, steps: Array) -> list[str]:
    """Inequalities that hold as equalities for all designs; those that follow from others of them are left out."""
    found, rows = list[str](), lines.E
    for row, offset, name in zip(lines.A, lines.b, lines.limits, strict=True):
        if offset - polytope.extent(row, steps)[0] <= _SAME and combined(row, rows)[1] > _SAME:
            found.append(name)
            rows = np.vstack([rows, row])
    return found


def _said(space: Space, lines: Lines, first: Array, pinned: list[int], tight: list[str]) -> str:
    """Message about a space in which there is only one design, or no volume."""
    (design,) = space.decode(np.round(first[None], 9))
    stated = "; ".join(map(str, space.constraints))
    if len(pinned) == len(_held(lines)) and not _others(space, lines):
        return f"The only design that satisfies {stated} within the bounds is {design}: relax a constraint."
    fixed = {name: design[name] for name, columns in space.columns.items() if columns.start in pinned}
    if fixed:
        values = ", ".join(f"{name} = {value:.6g}" for name, value in fixed.items())
        return (
            f"Every design that satisfies {stated} within the bounds has {values}, to a millionth of its bounds: take "
            "what is constant out of the space, or relax a constraint."
        )
    remedy = "state it so (LinearEquality)" if len(tight) == 1 else "state them so (LinearEquality)"
    told = f"keeps {'; '.join(tight)} as an equality: {remedy}" if tight else "lies in a set without volume: widen it"
    return f"Every design that satisfies {stated} within the bounds {told}, or relax a constraint."


def _refuse_opposite(space: Space) -> None:
    """Refuse two quadratic constraints that together are an equality."""
    curved = space.quadratic
    for second in range(len(curved)):
        for first in range(second):
            parallel = max(np.abs(part[first] + part[second]).max() for part in (curved.Q, curved.a))
            if parallel <= _SAME and abs(curved.b[first] + curved.b[second]) <= _SAME:
                one, other = (space.curves[number] for number in (first, second))
                raise SpaceError(
                    f"{one} and {other} are an equality together, and only linear ones are kept: solve it for one of "
                    "the variables, and take that one out of the space."
                )
