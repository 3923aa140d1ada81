"""Coordinates that linear equalities tie together, as functions of the unit cube: mixtures and fixed totals.

A mixture's coordinates are laid out as distances v = u - low in [0, w], on planes E v = t. Its integers come first:
every value is drawn by the number of ways in which the others can make up the rest, weighted with the volume of what is
left to the continuous coordinates. These fill a simplex, sum_j |a_j| y_j = s with y_j >= 0 the distance from one end of
each interval, cut by the other ends. Where it is smaller, or where there are several planes, they fill instead the box
of all coordinates except those that then follow from the planes. Points that are uniform in the cube become uniform
over a set that holds all solutions: those outside the box are to be left out.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.variables import Array, SpaceError

Index = NDArray[np.intp]

# Sums that differ by less are one: the rows of E have length 1.
_SAME = 1e-9
# Partial sums times values that are gone through for one integer.
_MOST_SUMS = 2_000_000


@dataclass(frozen=True, eq=False)
class _Simplex:
    """Simplex a . v = t, measured from the lower ends of all terms a_j v_j or, with ``upper``, from the upper ones.

    Args:
        a: Coefficients, none of them zero, shape (m,).
        width: w, shape (m,).
        upper: True for the upper ends.
    """

    a: Array
    width: Array
    upper: bool

    @property
    def dimension(self) -> int:
        """Number of coordinates of the cube."""
        return len(self.a) - 1

    def size(self, totals: Array) -> Array:
        """Logarithm of the volume for totals t (n, 1), up to a constant that all kinds share, shape (n,)."""
        left = self._left(totals[:, 0])
        powers = self.dimension * np.log(np.maximum(left, np.finfo(float).tiny))
        return np.where(left >= -_SAME, powers - math.lgamma(len(self.a)), -np.inf)

    def fill(self, U: Array, totals: Array) -> Array:
        """v (n, m) of points U (n, dimension) of the cube for totals t (n, 1)."""
        left, terms = np.maximum(self._left(totals[:, 0]), 0.0), np.empty((len(U), len(self.a)))
        # A point of Dirichlet's law with all parameters 1, one share of what is left after the other.
        for j in range(self.dimension):
            terms[:, j] = left * (1 - (1 - U[:, j]) ** (1 / (self.dimension - j)))
            left = left - terms[:, j]
        terms[:, -1] = left
        y = terms / np.abs(self.a)
        return np.where((self.a < 0) != self.upper, self.width - y, y)

    def _left(self, totals: Array) -> Array:
        """s for totals t (n,), shape (n,)."""
        ends = np.sort(np.stack([np.zeros(len(self.a)), self.a * self.width]), axis=0).sum(axis=1)
        return np.asarray(ends[1] - totals if self.upper else totals - ends[0])


@dataclass(frozen=True, eq=False)
class _Box:
    """Solutions of E v = t: a box of all coordinates except the widest ones, which follow from the others.

    Args:
        E: Of full rank, shape (r, m); r and m may be 0.
        width: w, shape (m,).
    """

    E: Array
    width: Array

    @property
    def dimension(self) -> int:
        """Number of coordinates of the cube."""
        return int(self.E.shape[1]) - len(self.E)

    def size(self, totals: Array) -> Array:
        """Logarithm of the volume for totals t (n, r), up to a constant that all kinds share, shape (n,)."""
        scaled = self.E * self.width
        most, least = np.maximum(scaled, 0).sum(axis=1), np.minimum(scaled, 0).sum(axis=1)
        within = np.all((totals >= least - _SAME) & (totals <= most + _SAME), axis=1)
        volume = np.log(np.abs(scaled).max(axis=0, initial=0.0)).sum() - np.linalg.slogdet(scaled[:, self._last])[1]
        return np.where(within, volume, -np.inf)

    def fill(self, U: Array, totals: Array) -> Array:
        """v (n, m) of points U (n, dimension) of the cube for totals t (n, r)."""
        first = np.setdiff1d(np.arange(self.E.shape[1]), self._last)
        v = np.empty((len(U), self.E.shape[1]))
        v[:, first] = U * self.width[first]
        v[:, self._last] = np.linalg.solve(self.E[:, self._last], (totals - v[:, first] @ self.E[:, first].T).T).T
        return v

    @cached_property
    def _last(self) -> Index:
        """The coordinates that follow, shape (r,): by elimination, the widest first."""
        left, chosen = self.E * self.width, list[int]()
        for _ in range(len(left)):
            chosen.append(int(np.argmax(np.linalg.norm(left, axis=0))))
            unit = left[:, chosen[-1]] / np.linalg.norm(left[:, chosen[-1]])
            left = left - np.outer(unit, unit @ left)
        return np.array(chosen, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Partial sums of whole numbers, one layer after each of them.

    Args:
        layers: Sums before any number, after the first, ..., after the last, each (n_j, k).
        following: Rows of the next layer reached from a sum by each value, (n_j, c_j) each; -1 for none.
    """

    layers: tuple[Array, ...]
    following: tuple[Index, ...]

    @classmethod
    def of(cls, shifts: list[Array], room: tuple[Array, Array], what: str) -> "_Sums":
        """All sums from which the other terms can still reach ``room``, a least and a greatest one (k,) each.

        Args:
            shifts: Increment of the sums by each value of a number, (c_j, k) each.
            room: Range of the sum of all numbers.
            what: The equalities, for an error.

        Raises:
            SpaceError: there are too many to enumerate.
        """
        low, high = room
        layers, following = [np.zeros((1, len(low)))], []
        for j, shift in enumerate(shifts):
            if len(layers[-1]) * len(shift) > _MOST_SUMS:
                raise SpaceError(
                    f"The whole numbers in {what} have more partial sums than are counted: make one of them "
                    "Continuous, or narrow their bounds."
                )
            least = np.sum([later.min(axis=0) for later in shifts[j + 1 :]], axis=0)
            most = np.sum([later.max(axis=0) for later in shifts[j + 1 :]], axis=0)
            sums = (layers[-1][:, None] + shift).reshape(-1, len(low))
            kept = np.all((sums + most >= low - _SAME) & (sums + least <= high + _SAME), axis=1)
            _, first, member = np.unique(np.rint(sums[kept] / _SAME), axis=0, return_index=True, return_inverse=True)
            rows = np.full(len(sums), -1)
            rows[kept] = member.ravel()
            layers.append(sums[kept][first])
            following.append(rows.reshape(-1, len(shift)))
        return cls(tuple(layers), tuple(following))

    def ways(self, last: Array) -> tuple[Array, ...]:
        """Logarithm of the summed weights of all continuations from each sum, by layer; ``last`` (n,) weights the end.

        The last entry of a layer is -inf; the index -1 points to it.
        """
        found = [np.append(last, -np.inf)]
        for rows in reversed(self.following):
            found.append(np.append(np.logaddexp.reduce(found[-1][rows], axis=1), -np.inf))
        return tuple(reversed(found))

    def drawn(self, U: Array, ways: tuple[Array, ...]) -> tuple[Index, Array]:
        """Indices of the values of all numbers (n, m), and their sums (n, k), for points U (n, m) of the cube."""
        at, indices = np.zeros(len(U), dtype=np.intp), np.empty(U.shape, dtype=np.intp)
        for j, rows in enumerate(self.following):
            weights = np.exp(ways[j + 1][rows[at]] - ways[j][at][:, None]).cumsum(axis=1)
            # Never a value without a way on, whatever rounding makes of the last sum.
            below = (weights <= np.minimum(U[:, [j]], 1 - 2**-40) * weights[:, [-1]]).sum(axis=1)
            indices[:, j], at = below, rows[at, below]
        return indices, self.layers[-1][at]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Encoded coordinates that equalities tie together.

    Args:
        columns: Which ones, shape (m,).
        low: Their lower bounds, shape (m,).
        high: Their upper bounds, shape (m,).
        steps: Spacing of their values, shape (m,); 0 for a continuous one.
        E: Of full rank, with rows of length 1 and no column of zeros, shape (k, m).
        e: E u = e, shape (k,).
        what: The equalities, for errors.

    Raises:
        SpaceError: the whole numbers have too many partial sums, or nothing within the bounds satisfies the equalities.
    """

    columns: Index
    low: Array
    high: Array
    steps: Array
    E: Array
    e: Array
    what: str

    def __post_init__(self) -> None:
        if self._rest[1][0][0] == -np.inf:
            raise SpaceError(f"No design satisfies {self.what} within the bounds: relax one of them.")

    @property
    def dimension(self) -> int:
        """Number of coordinates of the cube."""
        return int(self._whole.sum()) + self._rest[0].dimension

    @property
    def filled(self) -> bool:
        """True if the continuous coordinates can satisfy the equalities for any whole numbers, bounds disregarded."""
        return len(self._rotated[1]) == 0

    def from_cube(self, U: Array) -> Array:
        """Values (n, m) of points U (n, dimension) of the unit cube, on the planes; some may lie outside the bounds."""
        numbers, (rest, ways) = int(self._whole.sum()), self._rest
        indices, sums = self._sums.drawn(U[:, :numbers], ways)
        v = np.empty((len(U), len(self.columns)))
        v[:, self._whole] = indices * self.steps[self._whole]
        v[:, ~self._whole] = rest.fill(U[:, numbers:], (self._total - sums) @ self._rotated[0].T)
        return self.low + v

    @cached_property
    def _whole(self) -> NDArray[np.bool_]:
        return self.steps > 0

    @cached_property
    def _total(self) -> Array:
        """t of E v = t, shape (k,)."""
        return np.asarray(self.e - self.E @ self.low)

    @cached_property
    def _rotated(self) -> tuple[Array, Array]:
        """Orthonormal combinations of the planes, (r, k) that continuous coordinates enter and (k - r, k) others."""
        U, sizes, _ = np.linalg.svd(self.E[:, ~self._whole])
        rank = int(np.sum(sizes > _SAME))
        return U[:, :rank].T, U[:, rank:].T

    @cached_property
    def _sums(self) -> _Sums:
        width = (self.high - self.low) * ~self._whole
        ends = np.sort(np.stack([np.zeros(self.E.shape), self.E * width]), axis=0).sum(axis=2)
        shifts = [
            np.outer(np.arange(round((self.high[j] - self.low[j]) / self.steps[j]) + 1) * self.steps[j], self.E[:, j])
            for j in np.flatnonzero(self._whole)
        ]
        return _Sums.of(shifts, (self._total - ends[1], self._total - ends[0]), self.what)

    @cached_property
    def _rest(self) -> tuple[_Simplex | _Box, tuple[Array, ...]]:
        """The set that the continuous coordinates fill, the smallest that holds all solutions, and the ways to it."""
        (own, others), left = self._rotated, self._total - self._sums.layers[-1]
        E, width = own @ self.E[:, ~self._whole], (self.high - self.low)[~self._whole]
        met = np.all(np.abs(left @ others.T) <= _SAME, axis=1)
        kinds: list[_Simplex | _Box] = [_Box(E, width)]
        if len(E) == 1:
            kinds += [_Simplex(E[0], width, upper) for upper in (False, True)]
        each = [(kind, self._sums.ways(np.where(met, kind.size(left @ own.T), -np.inf))) for kind in kinds]
        return min(each, key=lambda one: float(one[1][0][0]))


def mixtures(E: Array, e: Array, box: Array, steps: Array, names: tuple[str, ...]) -> tuple[Mixture, ...]:
    """The mixtures of planes E u = e in a box: those planes together that share a coordinate.

    Args:
        E: Of full rank, with rows of length 1, shape (k, d).
        e: Shape (k,).
        box: Lower and upper bounds, shape (2, d).
        steps: Spacing of the values of each coordinate, shape (d,); 0 for a continuous one.
        names: Name of each plane, for errors.
    """
    rows = tuple(map(tuple, E.tolist()))
    return _mixtures(rows, tuple(e.tolist()), tuple(map(tuple, box.tolist())), tuple(steps.tolist()), names)


_Numbers = tuple[float, ...]


@lru_cache(maxsize=32)
def _mixtures(
    E_: tuple[_Numbers, ...], e_: _Numbers, box_: tuple[_Numbers, ...], steps_: _Numbers, names: tuple[str, ...]
) -> tuple[Mixture, ...]:
    """Cached form of ``mixtures``; a problem makes its space anew on each call, and sums of whole numbers take time."""
    E, e, box, steps = np.array(E_).reshape(-1, len(steps_)), np.array(e_), np.array(box_), np.array(steps_)
    tied, left, found = (E != 0) & (box[0] < box[1]), list(range(len(E))), list[Mixture]()
    while left:
        rows, grown = [left[0]], list[int]()
        while rows != grown:
            grown = rows
            rows = [k for k in left if k in grown or np.any(tied[k] & tied[grown].any(axis=0))]
        left = [k for k in left if k not in rows]
        own, what = tied[rows].any(axis=0), "; ".join(names[k] for k in rows)
        low, high, left_over = box[0, own], box[1, own], e[rows] - E[rows][:, ~own] @ box[0, ~own]
        found.append(Mixture(np.flatnonzero(own), low, high, steps[own], E[rows][:, own], left_over, what))
    return tuple(found)
