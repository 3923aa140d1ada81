"""The linear constraints of a space in encoded coordinates: inequalities A u <= b and equalities E u = e."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constraints import LinearConstraint, LinearEquality
from fieldcraft.physics.geometry.polytope import ON_PLANE
from fieldcraft.physics.variables import Array, SpaceError

# Rows of length 1 that differ by less are parallel; one of which less is left without its part along others depends on
# them.
_PARALLEL, _DEPENDENT = 1e-12, 1e-9


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows of length 1 for inequalities and equalities; those of E are linearly independent.

    Args:
        A: Shape (c, d).
        b: Shape (c,).
        E: Shape (k, d).
        e: Shape (k,).
        limits: Text of each row of A, in physical units.
        names: Text of each row of E.
    """

    A: Array
    b: Array
    E: Array
    e: Array
    limits: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        constraints: Iterable[object],
        columns: Mapping[str, int],
        scales: Mapping[str, tuple[float, float]],
        discrete: NDArray[np.bool_],
        tolerance: float,
    ) -> "Lines":
        """The linear ones among a space's constraints; two opposite inequalities become one equality.

        Args:
            constraints: Of any kind.
            columns: The encoded coordinate of each variable, by name.
            scales: Middle and half-width of each numeric variable, by name.
            discrete: True for each encoded coordinate that takes separate values only, shape (d,).
            tolerance: Largest difference of two opposite offsets; that of rounding where all that they hold is
                discrete, since the middle between them may be no design's.

        Raises:
            SpaceError: an equality follows from others or contradicts them.
        """
        kept = [each for each in constraints if isinstance(each, LinearConstraint | LinearEquality)]
        d = len(discrete)
        rows, offsets = np.zeros((len(kept), d)), np.zeros(len(kept))
        for row, constraint in enumerate(kept):
            right = constraint.total if isinstance(constraint, LinearEquality) else constraint.upper
            offsets[row] = right
            for name, value in constraint.coefficients.items():
                middle, half = scales[name]
                rows[row, columns[name]] = value * half
                offsets[row] -= value * middle
        lengths = np.linalg.norm(rows, axis=1)
        rows, offsets = rows / lengths[:, None], offsets / lengths
        apart = np.where((rows != 0) @ ~discrete, tolerance, ON_PLANE)
        lines, equal = _parted(kept, rows, offsets, apart)
        _refuse_dependent(equal)
        E, e = [row for row, _, _ in equal], [offset for _, offset, _ in equal]
        limits, names = tuple(str(kept[line]) for line in lines), tuple(name for _, _, name in equal)
        return cls(rows[lines], offsets[lines], np.array(E).reshape(-1, d), np.array(e), limits, names)


_Equal = tuple[Array, float, str]


def _parted(
    kept: Sequence[LinearConstraint | LinearEquality], rows: Array, offsets: Array, tolerances: Array
) -> tuple[list[int], list[_Equal]]:
    """Numbers of the inequalities, and the equalities with row, offset and text."""
    lines, equal = list[int](), list[_Equal]()
    for number, constraint in enumerate(kept):
        if isinstance(constraint, LinearEquality):
            equal.append((rows[number], offsets[number], str(constraint)))
            continue
        opposite = next(
            (
                line
                for line in lines
                if np.abs(rows[line] + rows[number]).max() <= _PARALLEL
                and abs(offsets[line] + offsets[number]) <= tolerances[number]
            ),
            None,
        )
        if opposite is None:
            lines.append(number)
            continue
        lines.remove(opposite)
        middle = (offsets[opposite] - offsets[number]) / 2
        equal.append((rows[opposite], middle, f"{kept[opposite]} and {constraint}"))
    return lines, equal


def _refuse_dependent(equal: Sequence[_Equal]) -> None:
    """Accept equalities none of which is a sum of multiples of those before it, or raise SpaceError."""
    for number, (row, offset, name) in enumerate(equal):
        before = np.array([each for each, _, _ in equal[:number]]).reshape(-1, len(row))
        weights, left = combined(row, before)
        if left > _DEPENDENT:
            continue
        others = "; ".join(each for _, _, each in equal[:number])
        if abs(offset - weights @ np.array([each for _, each, _ in equal[:number]])) > _DEPENDENT:
            raise SpaceError(f"No design satisfies both {name} and {others}: correct one of them.")
        raise SpaceError(f"{name} follows from {others}: leave it out.")


def combined(row: Array, before: Array) -> tuple[Array, float]:
    """Weights (k,) of the rows ``before`` (k, d) that come closest to a row (d,), and the length of the residual."""
    weights = np.asarray(np.linalg.lstsq(before.T, row, rcond=None)[0], dtype=np.float64)
    return weights, float(np.linalg.norm(row - weights @ before))
