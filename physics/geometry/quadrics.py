"""Quadratic inequalities between coordinates, and the region of a polytope in which they hold."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.geometry.polytope import EmptyPolytopeError, Polytope

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Rounds of steps onto one violated inequality after the other; all but thin regions take fewer than ten.
_ROUNDS = 40
# Points of a slice from which a feasible one is looked for, and how many of those found a projection starts from.
_POOL, _STARTS = 64, 4
# Combinations of lattice values that are looked through, and how many at once.
_COMBINATIONS, _BLOCK = 1024, 8
_WALK_STEPS = 64
_BISECTIONS = 60
_PARALLEL = 1e-12


@dataclass(frozen=True, eq=False)
class Quadrics:
    """Inequalities u'Q_k u + a_k . u <= b_k between encoded coordinates, convex or not.

    Args:
        Q: Symmetric matrices, shape (c, d, d); c may be 0.
        a: Shape (c, d).
        b: Shape (c,).
    """

    Q: Array
    a: Array
    b: Array

    def __len__(self) -> int:
        return len(self.b)

    @classmethod
    def scaled(cls, Q: Array, a: Array, b: Array) -> "Quadrics":
        """The same inequalities divided so that no slope in [-1, 1]^d is longer than 1."""
        steepest = np.linalg.norm(np.abs(a) + 2 * np.abs(Q).sum(axis=2), axis=1)
        return cls(Q / steepest[:, None, None], a / steepest[:, None], b / steepest)

    def excess(self, X: Array) -> Array:
        """Violation of each inequality at points X (n, d), shape (n, c); an inequality is met where it is <= 0."""
        return np.asarray(np.einsum("knj,nj->nk", X @ self.Q, X) + X @ self.a.T - self.b)

    def slopes(self, X: Array) -> Array:
        """Gradients of the excess at points X (n, d), shape (n, c, d)."""
        return np.asarray(2 * (X @ self.Q).swapaxes(0, 1) + self.a)

    def least(self, low: Array, high: Array) -> Array:
        """Lower bound of each excess between the corners (n, d) of boxes, shape (n, c).

        Squares are bounded exactly, coordinate by coordinate, and products of two coordinates about the centre.
        """
        middle, half = (low + high) / 2, (high - low)[:, None] / 2
        square = np.diagonal(self.Q, axis1=1, axis2=2)
        slope = self.slopes(middle)
        inside = np.divide(-slope, 2 * square, out=np.full_like(slope, np.inf), where=square > 0)
        at = np.where(square > 0, np.clip(inside, -half, half), -np.copysign(half, slope))
        mixed = np.abs(self.Q) - np.eye(low.shape[1]) * np.abs(square)[:, None]
        others = np.einsum("knj,nj->nk", half[:, 0] @ mixed, half[:, 0])
        return np.asarray(self.excess(middle) + ((slope + square * at) * at).sum(axis=2) - others)


@dataclass(frozen=True, eq=False)
class CurvedRegion:
    """The points of a polytope that satisfy quadratic inequalities too, to its tolerance.

    Such a region may have holes and several parts. Points in it are found by search, so a region that is too small or
    thin for the search counts as empty.

    Args:
        polytope: Bounds, linear inequalities and equalities.
        quadrics: At least one.
    """

    polytope: Polytope
    quadrics: Quadrics

    def contains(self, X: Array) -> Mask:
        """True for each of the points X (n, d) inside the box that satisfies all inequalities, shape (n,)."""
        met = np.all(self.quadrics.excess(X) <= self.polytope.tolerance, axis=1)
        return np.asarray(met & self.polytope.contains(X))

    def entered(self, X: Array, free: Mask) -> Array:
        """Points X (n, d) moved in the ``free`` coordinates (d,) into the region, or as near to it as possible.

        Cyclic projections (Censor and Lent, 1982): Newton steps onto one violated inequality after the other, within
        the planes of the equalities.
        """
        X = X.copy()
        for _ in range(_ROUNDS):
            outside = np.flatnonzero(~self.contains(X))
            if len(outside) == 0:
                break
            X[outside] = self._nearer(X[outside], free)
        return X

    def project(self, x: Array, free: Mask) -> Array:
        """The nearest point to x (d,) that differs from it in the ``free`` coordinates (d,) only.

        If the region is not convex in them, the point is the nearest of those that a few starts reach.

        Raises:
            EmptyPolytopeError: none was found.
        """
        if self.contains(x[None])[0]:
            return x
        free = free & self._used
        x = self.polytope.onto(x[None], free)[0]
        ends = np.array([self._approached(start, x, free) for start in self._starts(x, free)])
        return np.asarray(ends[np.argmin(np.linalg.norm(ends - x, axis=1))])

    def nearest_on_lattice(self, x: Array, steps: Array) -> Array:
        """A feasible point close to x (d,), in the sum of moves, whose coordinates with a step lie on their lattice.

        All combinations of lattice values are looked through where there are few, else those about points that satisfy
        the inequalities between lattice values.

        Args:
            x: A point of the lattice inside the box, shape (d,).
            steps: Spacing of each coordinate's values, shape (d,); 0 for a coordinate that moves freely between the
                bounds and does not move at all where no inequality needs it.

        Raises:
            EmptyPolytopeError: none was found.
        """
        free = (steps == 0) & self._used
        X = self._combinations(x, steps)
        X = X[self._possible(X, free)]
        for block in (X[first : first + _BLOCK] for first in range(0, len(X), _BLOCK)):
            found = self.contains(self._spread(block, free)).reshape(len(block), -1).any(axis=1)
            if found.any():
                return self.project(block[np.argmax(found)], free)
        raise EmptyPolytopeError("No point of the lattice was found that satisfies the inequalities.")

    def walk(self, X: Array, free: Mask, rng: np.random.Generator) -> Array:
        """Points (n, d) of a random walk from X (n, d) inside, in the free coordinates (hit and run: Smith, 1984).

        A step leads to any part of the region that the line through the point meets.
        """
        if not free.any():
            return X
        X = X.copy()
        within = self._within(free)
        for _ in range(_WALK_STEPS):
            direction = rng.standard_normal(X.shape) @ within
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            there = X + self._along(X, direction, rng)[:, None] * direction
            there = np.clip(there, self.polytope.low, self.polytope.high)
            inside = self.contains(there)
            X[inside] = there[inside]
        return X

    @cached_property
    def _used(self) -> Mask:
        """Coordinates that an inequality depends on, shape (d,)."""
        curved = np.any(self.quadrics.Q != 0, axis=(0, 1)) | np.any(self.quadrics.a != 0, axis=0)
        straight = np.any(self.polytope.A != 0, axis=0) | np.any(self.polytope.E != 0, axis=0)
        return np.asarray(curved | straight)

    def _within(self, free: Mask) -> Array:
        """Projection (d, d) of a move onto the free coordinates and, of these, the planes."""
        moves = self.polytope.moves(free)
        return np.asarray(moves @ moves.T)

    @cached_property
    def _pool(self) -> Array:
        """Points spread evenly over the box, shape (64, d): multiples of powers of a root of g^(d+1) = g + 1."""
        low, high = self.polytope.low, self.polytope.high
        root = 2.0
        for _ in range(50):
            root = (1 + root) ** (1 / (len(low) + 1))
        strides = root ** -np.arange(1.0, len(low) + 1)
        return np.asarray(low + (high - low) * (np.outer(np.arange(1, _POOL + 1), strides) % 1))

    def _possible(self, X: Array, free: Mask) -> Mask:
        """False for points X (n, d) from which no move in the free coordinates reaches the region, shape (n,)."""
        lines = self.polytope
        low, high = np.where(free, lines.low, X), np.where(free, lines.high, X)
        met = np.all(self.quadrics.least(low, high) <= lines.tolerance, axis=1)
        return np.asarray(met & lines.on_planes(lines.onto(X, free)))

    def _spread(self, X: Array, free: Mask) -> Array:
        """The pool with the other coordinates of X (n, d), moved into the region where possible, shape (64 n, d).

        X itself where no coordinate is free.
        """
        if not free.any():
            return X
        pool = np.where(free, self._pool, X[:, None]).reshape(-1, X.shape[1])
        return self.entered(pool, free)

    def _nearer(self, X: Array, free: Mask) -> Array:
        """X (n, d) after one step onto each inequality that is violated when its turn comes."""
        lines, within = self.polytope, self._within(free)
        X = lines.onto(X, free)
        # Clipping to the box leaves the planes: there the bounds are inequalities like the others.
        G, h = lines.sides(free) if len(lines.E) else (lines.A, lines.b)
        for normal, offset in zip(G, h, strict=True):
            X = _stepped(X, X @ normal - offset, np.broadcast_to(normal, X.shape), within)
        for k in range(len(self.quadrics)):
            one = Quadrics(self.quadrics.Q[[k]], self.quadrics.a[[k]], self.quadrics.b[[k]])
            X = _stepped(X, one.excess(X)[:, 0], one.slopes(X)[:, 0], within)
        return np.asarray(np.clip(X, lines.low, lines.high))

    def _starts(self, x: Array, free: Mask) -> Array:
        """Feasible points from which the search for the nearest one to x (d,) starts, shape (n, d)."""
        if not self._possible(x[None], free)[0]:
            raise EmptyPolytopeError("No point differs in the free coordinates only and satisfies the inequalities.")
        own = self.entered(x[None], free)
        own = own[self.contains(own)]
        if len(own) and self._convex(free):
            return own
        others = self._spread(x[None], free)
        others = others[self.contains(others)]
        if len(own) + len(others) == 0:
            raise EmptyPolytopeError("No point was found in the free coordinates that satisfies the inequalities.")
        order = np.argsort(np.linalg.norm(others - x, axis=1), kind="stable")
        return np.concatenate([own, others[order[:_STARTS]]])

    def _convex(self, free: Mask) -> bool:
        curvatures = np.linalg.eigvalsh(self.quadrics.Q[:, free][:, :, free])
        return bool(np.all(curvatures >= -self.polytope.tolerance))

    def _approached(self, start: Array, x: Array, free: Mask) -> Array:
        """Feasible point near x (d,) that SLSQP finds from a feasible start (d,), else the last one towards x."""
        from scipy.optimize import minimize

        def whole(z: Array) -> Array:
            point = start.copy()
            point[free] = z
            return point[None]

        A, b, leaving = self.polytope.A, self.polytope.b, self.polytope.leaving(free)[:, free]
        equal = [{"type": "eq", "fun": lambda z: leaving @ (z - start[free]), "jac": lambda z: leaving}]
        found = minimize(
            lambda z: (0.5 * np.sum((z - x[free]) ** 2), z - x[free]),
            start[free],
            jac=True,
            method="SLSQP",
            bounds=np.stack([self.polytope.low, self.polytope.high], axis=1)[free],
            constraints=[
                {"type": "ineq", "fun": lambda z: b - A @ whole(z)[0], "jac": lambda z: -A[:, free]},
                {
                    "type": "ineq",
                    "fun": lambda z: -self.quadrics.excess(whole(z))[0],
                    "jac": lambda z: -self.quadrics.slopes(whole(z))[0][:, free],
                },
                *(equal if len(leaving) else []),
            ],
            options={"ftol": 1e-14},
        )
        ends = self.entered(np.clip(whole(found.x), self.polytope.low, self.polytope.high), free)
        return np.asarray(ends[0]) if self.contains(ends)[0] else self._last(start, x)

    def _last(self, inside: Array, outside: Array) -> Array:
        """A feasible point on the boundary between a feasible point (d,) and an infeasible one."""
        near, far = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (near + far) / 2
            near, far = (
                (middle, far) if self.contains((inside + middle * (outside - inside))[None])[0] else (near, middle)
            )
        return inside + near * (outside - inside)

    def _combinations(self, x: Array, steps: Array) -> Array:
        """Points (n, d) that differ from x (d,) in lattice values, those of the fewest steps first."""
        whole = np.flatnonzero((steps > 0) & self._used)
        low, high, step = (side[whole] for side in (self.polytope.low, self.polytope.high, steps))
        counts = np.rint((high - low) / step).astype(int) + 1
        if math.prod(counts.tolist()) <= _COMBINATIONS:
            indices = np.array(list(product(*map(range, counts))), dtype=int)
        else:
            between = (self._spread(x[None], self._used)[:, whole] - low) / step
            indices = np.unique(_rounded(between, counts), axis=0)
        X = np.tile(x, (len(indices), 1))
        X[:, whole] = low + step * indices
        moves = np.abs((X - x)[:, whole] / step).sum(axis=1)
        return X[np.argsort(moves, kind="stable")]

    def _along(self, X: Array, direction: Array, rng: np.random.Generator) -> Array:
        """Lengths (n,), uniform over those at which the lines from X (n, d) are inside."""
        lines, curves = self.polytope, self.quadrics
        slope = np.concatenate([direction @ lines.A.T, direction, -direction], axis=1)
        slack = np.concatenate([lines.b - X @ lines.A.T, lines.high - X, X - lines.low], axis=1)
        # An inequality whose plane the direction lies in does not end it.
        slope[np.abs(slope) < _PARALLEL] = 0.0
        reach = np.divide(np.maximum(slack, 0), np.abs(slope), out=np.full_like(slack, np.inf), where=slope != 0)
        first = -np.where(slope < 0, reach, np.inf).min(axis=1, keepdims=True)
        last = np.where(slope > 0, reach, np.inf).min(axis=1, keepdims=True)
        square = np.einsum("knj,nj->nk", direction @ curves.Q, direction)
        linear = np.einsum("nkj,nj->nk", curves.slopes(X), direction)
        level = np.minimum(curves.excess(X), 0.0)
        cuts = np.clip(_roots(square, linear, level), first[..., None], last[..., None]).reshape(len(X), -1)
        ends = np.sort(np.concatenate([first, cuts, last], axis=1), axis=1)
        middle = ((ends[:, 1:] + ends[:, :-1]) / 2)[..., None]
        inside = np.all((square[:, None] * middle + linear[:, None]) * middle + level[:, None] <= 0, axis=2)
        return _uniform_over(ends, np.diff(ends, axis=1) * inside, rng)


def _stepped(X: Array, excess: Array, slopes: Array, within: Array) -> Array:
    """X (n, d) after a Newton step to zero where an excess (n,) of slopes (n, d) is positive; step projected (d, d)."""
    slopes = slopes @ within
    square = np.square(slopes).sum(axis=1)
    length = np.divide(np.maximum(excess, 0), square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(X - length[:, None] * slopes)


def _roots(square: Array, linear: Array, level: Array) -> Array:
    """Both roots t of square t^2 + linear t + level, shape (..., 2); 0 where there is none."""
    half = -(linear + np.copysign(np.sqrt(np.maximum(linear**2 - 4 * square * level, 0)), linear)) / 2
    roots = np.zeros((*half.shape, 2))
    np.divide(half, square, out=roots[..., 0], where=square != 0)
    np.divide(level, half, out=roots[..., 1], where=half != 0)
    return roots


def _uniform_over(ends: Array, lengths: Array, rng: np.random.Generator) -> Array:
    """Numbers (n,), uniform over intervals from ends (n, m + 1) of which those of lengths (n, m) > 0 count."""
    total = lengths.cumsum(axis=1)
    share = rng.random(len(ends)) * total[:, -1]
    index = np.minimum((total <= share[:, None]).sum(axis=1), lengths.shape[1] - 1)
    rows = np.arange(len(ends))
    before = total[rows, index] - lengths[rows, index]
    return np.where(total[:, -1] > 0, ends[rows, index] + share - before, 0.0)


def _rounded(between: Array, counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Indices (m, k) of the lattice about points (n, k) in units of its steps, at most 16 of each point."""
    upwards = np.array(list(product((0, 1), repeat=min(4, len(counts)))))
    upwards = np.pad(upwards, ((0, 0), (0, len(counts) - upwards.shape[1])))
    nearest = np.concatenate([np.rint(between), (np.floor(between)[:, None] + upwards).reshape(-1, len(counts))])
    return np.asarray(np.clip(nearest.astype(int), 0, counts - 1))
