"""Edges of a domain's mask: the conditions that hold there, and where they lie between the cells of a grid.

A face is a pair of neighbouring cells of which one is inside and the other is not. The edge crosses the line between
their centres at a share of their distance, which the mask tells by bisection. A value is imposed at that point, by a
straight line through cell and ghost (Gibou, Fedkiw, Cheng and Kang, 2002): of second order for every shape. A flux g
through a slanting edge passes through the faces of the cells that it cuts, through each as its share n_k g, with n the
edge's normal and k the face's axis: as |n_x| ds and |n_y| ds are the faces that a piece ds of the edge has, all of it
passes, since n_x^2 + n_y^2 = 1. This is of first order; where the edge runs along faces it is of second order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.operators import Coefficient
from fieldcraft.physics.parametric.grid import Array, Flags, Grid

Indices = NDArray[np.intp]
Part = Callable[[Array], NDArray[np.bool_]]

# Halvings of the line between two centres, and the step aside by which the normal is found, as a share of a cell.
_HALVINGS, _ASIDE = 40, 1e-3
# Least share of a cell between a centre and the edge: two nearer ones would fix the value at one centre twice.
_NEAREST = 0.01


@dataclass(frozen=True)
class Edge:
    """The condition a u + b du/dn = g along the edge of a domain's mask: of holes and notches, not of the box.

    The normal n points out of the domain; it is that of coordinates in the axes' own units.

    Args:
        field: Name of the field u.
        right: g: a number, or a function of the points (n, d) of the edge.
        value: a.
        slope: b.
        part: Function from points (n, d) of the edge to True for each where this holds, shape (n,), the same at all
            times; None for the whole edge.

    Raises:
        ValueError: a number that is not finite, a = b = 0, or a part that is no function.
    """

    field: str
    right: Coefficient = 0.0
    value: float = 1.0
    slope: float = 0.0
    part: Part | None = None

    def __post_init__(self) -> None:
        refuse_nothing(self.field, "along the mask's edge", self.right, self.value, self.slope)
        if self.part is not None and not callable(self.part):
            raise ValueError(
                f"The `part` of the condition on {self.field!r} along the mask's edge is {self.part!r}: give a "
                "function of the points, or leave it out."
            )


@dataclass(frozen=True)
class AtTime:
    """A mask of space and time at one time, as a mask of space."""

    mask: Part
    time: float

    def __call__(self, points: Array) -> NDArray[np.bool_]:
        """True for each of the points (n, d) of space that belongs to the domain, shape (n,)."""
        return self.mask(np.column_stack([points, np.full(len(points), self.time)]))


def refuse_nothing(field: str, place: str, right: Coefficient, value: float, slope: float) -> None:
    """Accept a condition a u + b du/dn = g.

    Raises:
        ValueError: a value that is no number or is not finite, or a = b = 0.
    """
    numbers = (value, slope, 0.0 if callable(right) else right)
    for number in numbers:
        if not isinstance(number, Real):
            raise ValueError(
                f"The condition on {field!r} {place} has {number!r}: give numbers, and as the right-hand side a number "
                "or a function of the points."
            )
    if not np.all(np.isfinite(numbers)) or value == slope == 0:
        told = "a function of the points" if callable(right) else right
        raise ValueError(
            f"The condition on {field!r} {place} is {value:g} u + {slope:g} du/dn = {told}: give finite numbers, and "
            "a value or a slope that is not 0."
        )


def refuse_edge(edge: Sequence[Edge], names: Sequence[str], *, masked: bool) -> None:
    """Accept conditions along the edge of a mask: at least one for each field where there is a mask, else none.

    Raises:
        ValueError: too few, conditions without a mask, or a field that is not stated.
    """
    for each in edge:
        if each.field not in names:
            raise ValueError(
                f"A condition along the mask's edge names the field {each.field!r}: the fields are {', '.join(names)}."
            )
    if edge and not masked:
        raise ValueError("Conditions are stated along the edge of a mask, and the domain has none: give it a mask.")
    if masked and len(edge) < len(names):
        raise ValueError(
            f"Along the edge of the domain's mask there are {len(edge)} conditions for the fields {', '.join(names)}: "
            "give one for each, as `edge`. Nothing is assumed there."
        )


@dataclass(frozen=True, eq=False)
class Faces:
    """Places where the edge of a mask crosses the lines from cells inside to their neighbours across one axis.

    Args:
        points: The places, shape (m, d).
        shares: Distances from the cells' centres, in cells, shape (m,).
        normal: Sizes |n_k| of the component of the edge's normal along the axis, shape (m,).
    """

    points: Array
    shares: Array
    normal: Array


def crossed(grid: Grid, centres: Array, axis: int, by: int, around: Sequence[bool]) -> Faces:
    """Faces of the cells with these centres (m, d), whose neighbours ahead (by = 1) or behind (-1) are not inside."""
    step, belongs = by * grid.spacing[axis], _belonging(grid.domain, around)
    shares, _ = _reached(belongs, centres, axis, step)
    squares = np.zeros(len(centres))
    for other in range(len(grid.cells)):
        if other == axis:
            continue
        aside = _ASIDE * grid.spacing[other]
        moves = np.zeros((2, len(grid.cells)))
        moves[:, other] = aside, -aside
        (ahead, is_ahead), (behind, is_behind) = (_reached(belongs, centres + move, axis, step) for move in moves)
        rise = np.where(is_ahead, ahead, shares) - np.where(is_behind, behind, shares)
        squares += (rise * step / (aside * np.maximum(is_ahead.astype(float) + is_behind, 1))) ** 2
    points = centres.copy()
    points[:, axis] += shares * step
    return Faces(points, np.maximum(shares, _NEAREST), 1 / np.sqrt(1 + squares))


@dataclass(frozen=True, eq=False)
class Held:
    """A condition a u + b du/dn = g at m faces of cells across an axis.

    Args:
        field: Number of its field.
        right: g.
        value: a.
        slope: b.
        axis: The axis.
        ghosts: Numbers of the unknowns beyond the faces, shape (m,).
        cells: Numbers of the cells before them, shape (m,).
        points: Places where it holds, shape (m, d).
        shares: Distances of these from the cells' centres, in cells, shape (m,).
        normal: Factor of a and g there, shape (m,): the normal's component along the axis, or 1 where b = 0.
    """

    field: int
    right: Coefficient
    value: float
    slope: float
    axis: int
    ghosts: Indices
    cells: Indices
    points: Array
    shares: Array
    normal: Array


def along(
    edge: Sequence[tuple[int, Edge]],
    faces: Faces,
    fields: int,
    at: tuple[int, Indices, Indices],
    begin: Sequence[float],
) -> list[Held]:
    """Conditions along the edge of a mask at some of its faces.

    Args:
        edge: The conditions with the number of their field.
        faces: The faces.
        fields: Number of fields.
        at: The faces' axis, and the ghosts and the cells at either side of each.
        begin: Beginning of time; empty in steady state.

    Raises:
        ValueError: a face has another number of conditions than there are fields, or a part gives another shape.
    """
    axis, ghosts, cells = at
    asked = np.column_stack([faces.points, *(np.full(len(cells), time) for time in begin)])
    counts, found = np.zeros(len(cells), dtype=int), []
    for field, each in edge:
        on = np.ones(len(cells), dtype=bool) if each.part is None else np.asarray(each.part(asked), dtype=bool)
        if on.shape != (len(cells),):
            raise ValueError(
                f"The `part` of a condition along the mask's edge gave an array of the shape {on.shape} for "
                f"{len(cells)} places: it must give True or False for each, ({len(cells)},)."
            )
        counts += on
        normal = np.where(each.slope == 0, 1.0, faces.normal[on])
        places = ghosts[on], cells[on], faces.points[on], faces.shares[on], normal
        found.append(Held(field, each.right, each.value, each.slope, axis, *places))
    wrong = np.flatnonzero(counts != fields)
    if len(wrong):
        raise ValueError(
            f"On the mask's edge at {', '.join(f'{x:g}' for x in faces.points[wrong[0]])} there are "
            f"{counts[wrong[0]]} conditions, and {fields} are needed: let the parts of `edge` meet without overlap, "
            "for each field."
        )
    return found


def _belonging(domain: Domain, around: Sequence[bool]) -> Callable[[Array], Flags]:
    """``domain.contains`` for points that may lie beyond an end of an axis along which fields repeat."""
    low, high = domain.bounds

    def belongs(points: Array) -> Flags:
        return domain.contains(np.where(around, low + np.mod(points - low, high - low), points))

    return belongs


def _reached(belongs: Callable[[Array], Flags], begin: Array, axis: int, step: float) -> tuple[Array, Flags]:
    """Shares of a step along an axis from points (m, d) after which the domain ends, and where it does end, (m,)."""
    near, far = np.zeros(len(begin)), np.ones(len(begin))

    def inside(shares: Array) -> Flags:
        points = begin.copy()
        points[:, axis] += shares * step
        return belongs(points)

    ends = inside(near) & ~inside(far)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        on = inside(middle)
        near, far = np.where(on, middle, near), np.where(on, far, middle)
    return near, ends  # still inside, where functions of the points may be defined alone
