"""Linear functionals of a field at points: its value, or a second-order differential operator of it.

Results, the rows of a linear equation and conditions on a side are all of this kind: one covariance covers them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.residuals import LinearOperator, LinearRow
from fieldcraft.models.observations import Array, Observations, Physics, Scaling


@dataclass(frozen=True)
class SideRows:
    """Conditions a f + b df/dn = g of all sides in the learner's units: operator t = source at m points.

    Args:
        points: Encoded points, shape (m, d).
        operator: The operator of the target; it has no second derivatives.
        source: Right-hand side, shape (m,).
    """

    points: Array
    operator: LinearOperator
    source: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def of_values(self) -> bool:
        """True if every condition gives the value alone."""
        return not self.operator.first.any()


def side_rows(physics: Physics, scaling: Scaling) -> SideRows:
    """The conditions for targets of this scaling, each divided by its largest encoded coefficient."""
    m, d = sum(len(side.points) for side in physics.sides), len(physics.half)
    zeroth, first, source, points = np.empty(m), np.empty((m, d)), np.empty(m), np.empty((m, d))
    begin = 0
    for side in physics.sides:
        rows = slice(begin, begin + len(side.points))
        slope = side.slope * side.normal / physics.half
        scale = max(abs(side.value), float(np.max(np.abs(slope))))
        points[rows], zeroth[rows], first[rows] = physics.encode(side.points), side.value / scale, slope / scale
        source[rows] = scaling.sign * (side.right - side.value * scaling.mean) / (scaling.sd * scale)
        begin += len(side.points)
    return SideRows(points, LinearOperator(zeroth, first, np.zeros((m, d, d))), source)


def known_values(physics: Physics, scaling: Scaling) -> tuple[Array, Array]:
    """Encoded points (m, d) of sides where the value is known, and the targets there (m,).

    Raises:
        ValueError: a condition has a slope.
    """
    rows = side_rows(physics, scaling)
    if not rows.of_values:
        raise ValueError(
            "A condition has a slope (a flux, or Robin's condition) and trained networks learn known values alone: use "
            "engine kernel or ntk."
        )
    return rows.points, rows.source / rows.operator.zeroth


@dataclass(frozen=True)
class Functionals:
    """c f(x) + b . grad f(x) + sum_ij A_ij f_ij(x) at each of n points.

    Args:
        points: Shape (n, d).
        zeroth: c, shape (n,).
        first: b, shape (n, d); None where every b is zero.
        second: A, symmetric, shape (n, d, d); None where every A is zero.
    """

    points: Tensor
    zeroth: Tensor
    first: Tensor | None = None
    second: Tensor | None = None

    @classmethod
    def values(cls, X: Tensor) -> "Functionals":
        """The field itself at X (n, d)."""
        return cls(X, torch.ones_like(X[:, 0]))

    def __len__(self) -> int:
        return len(self.points)

    @property
    def is_value(self) -> bool:
        """True if no derivative occurs."""
        return self.first is None and self.second is None

    @property
    def slopes(self) -> Tensor:
        """b, zeros included, shape (n, d)."""
        return torch.zeros_like(self.points) if self.first is None else self.first

    @property
    def bends(self) -> Tensor:
        """A, zeros included, shape (n, d, d)."""
        n, d = self.points.shape
        return self.points.new_zeros(n, d, d) if self.second is None else self.second

    def scaled(self, scales: Tensor) -> "Functionals":
        """The same functionals of the field as a function of u = scales * x (d,), differentiable in the scales."""
        first = None if self.first is None else self.first * scales
        second = None if self.second is None else self.second * scales * scales[:, None]
        return Functionals(self.points * scales, self.zeroth, first, second)

    def after(self, count: int) -> "Functionals":
        """All but the first ``count``."""
        first = None if self.first is None else self.first[count:]
        second = None if self.second is None else self.second[count:]
        return Functionals(self.points[count:], self.zeroth[count:], first, second)

    def joined(self, other: "Functionals") -> "Functionals":
        """The functionals followed by others of the same field."""
        pairs = [(self.points, other.points), (self.zeroth, other.zeroth)]
        if not (self.is_value and other.is_value):
            pairs += [(self.slopes, other.slopes), (self.bends, other.bends)]
        return Functionals(*(torch.cat(pair) for pair in pairs))


@dataclass(frozen=True)
class JointRows:
    """Rows of the joint model: r E of the equations, m of known sides, then n results, as functionals of F fields.

    Row j reads sum_i functional_ij[field_i] = target_j; field 0 is the objective. Results come last: a factor of the
    facts' rows is then the leading block of the factor of all, and a further result is one more row.

    Args:
        fields: The functionals of each field, each over all N = r E + m + n rows.
        targets: Shape (N,).
        equations: r E.
        known: m.
    """

    fields: tuple[Functionals, ...]
    targets: Tensor
    equations: int
    known: int = 0

    @property
    def facts(self) -> int:
        """Number of rows that are not results, r E + m."""
        return self.equations + self.known

    def __len__(self) -> int:
        return len(self.targets)

    def with_values(self, X: Tensor, targets: Tensor) -> "JointRows":
        """The rows followed by further results (k,) of the objective at X (k, d)."""
        more = Functionals.values(X)
        nothing = Functionals(X, torch.zeros_like(more.zeroth))
        fields = tuple(field.joined(nothing if i else more) for i, field in enumerate(self.fields))
        return JointRows(fields, torch.cat([self.targets, targets]), self.equations, self.known)

    def with_sides(self, sides: SideRows) -> "JointRows":
        """The equations' rows, of which there are no others yet, followed by those of known sides of the objective."""
        Z, zeroth, first = (
            torch.from_numpy(part.copy()) for part in (sides.points, sides.operator.zeroth, sides.operator.first)
        )
        told, nothing = Functionals(Z, zeroth, first), Functionals(Z, torch.zeros_like(zeroth))
        fields = tuple(field.joined(nothing if i else told) for i, field in enumerate(self.fields))
        targets = torch.cat([self.targets, torch.from_numpy(sides.source.copy())])
        return JointRows(fields, targets, self.equations, len(sides))


def joint_rows(data: Observations, physics: Physics, rows: tuple[LinearRow, ...]) -> JointRows:
    """Linear equations, known sides and results, in encoded coordinates and standardised targets."""
    Z = torch.from_numpy(physics.encode(physics.points))
    fields = tuple(_functionals(Z, rows, i) for i in range(len(rows[0].blocks)))
    sources = torch.cat([torch.from_numpy(row.source.copy()) for row in rows])
    X, targets = torch.from_numpy(data.X.copy()), torch.from_numpy(data.targets.copy())
    facts = JointRows(fields, sources, len(sources))
    if physics.sides:
        facts = facts.with_sides(side_rows(physics, data.scaling))
    return facts.with_values(X, targets)


def _functionals(Z: Tensor, rows: tuple[LinearRow, ...], field: int) -> Functionals:
    """One field's part of each equation at Z (r, d), equation by equation."""
    blocks = [row.blocks[field] for row in rows]
    zeroth, first, second = (
        torch.cat([torch.from_numpy(getattr(block, name).copy()) for block in blocks])
        for name in ("zeroth", "first", "second")
    )
    points = Z.repeat(len(rows), 1)
    return Functionals(points, zeroth, first if bool(first.any()) else None, second if bool(second.any()) else None)
