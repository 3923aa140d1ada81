"""Boxes cut by linear inequalities and equalities: membership, nearest points, breadth and a random walk."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ON_PLANE = 1e-12
"""A point lies on a plane where its distance to it, in encoded coordinates, is no more: rounding."""
_AT_BOUND = 1e-11  # a tied coordinate this close to a bound is at it
_PARALLEL = 1e-9  # a direction of unit length that leaves a plane by less lies in it
_FLAT = (
    1e-6  # a set whose largest ball has a smaller radius has no breadth: ten times what a linear program leaves open
)
_LEAST_SLACK = 1e-30  # that steps are measured by
_NEWTON_STEPS, _CENTRED = 50, 1e-3
_ROUNDS = 3
# The walk's steps: at least so many, and so many for each pair of coordinates that it moves in.
_WALK_STEPS, _STEPS_A_PAIR = 64, 2


class EmptyPolytopeError(ValueError):
    """No point satisfies the inequalities and equalities."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """The points u with A u <= b, E u = e and low <= u <= high.

    Args:
        A: Shape (c, d), rows of length 1; c may be 0.
        b: Shape (c,).
        low: Lower bounds, shape (d,).
        high: Upper bounds, shape (d,).
        tolerance: An inequality holds when it is violated by no more than this; an equality holds to ``ON_PLANE``.
        E: Shape (k, d), rows of length 1, linearly independent; none when left out.
        e: Shape (k,).
    """

    A: Array
    b: Array
    low: Array
    high: Array
    tolerance: float
    E: Array = field(default_factory=lambda: np.empty((0, 0)))
    e: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "E", self.E.reshape(-1, len(self.low)))

    def contains(self, X: Array) -> Mask:
        """True for each of the points X (n, d) inside the box that satisfies A u <= b and E u = e, shape (n,)."""
        return np.asarray(np.all(X @ self.A.T - self.b <= self.tolerance, axis=1) & self.on_planes(X))

    def on_planes(self, X: Array) -> Mask:
        """True for each of the points X (n, d) that satisfies E u = e, shape (n,)."""
        return np.asarray(np.all(np.abs(X @ self.E.T - self.e) <= ON_PLANE, axis=1))

    def moves(self, free: Mask) -> Array:
        """Orthonormal directions in the ``free`` coordinates (d,) that stay on the planes, as columns (d, m)."""
        identity = np.eye(len(free))[:, free]
        if len(self.E) == 0:
            return identity
        _, sizes, rows = np.linalg.svd(self.E[:, free])
        return np.asarray(identity @ rows[int(np.sum(sizes > _PARALLEL)) :].T)

    def leaving(self, free: Mask) -> Array:
        """Orthonormal directions in the ``free`` coordinates (d,) that leave the planes, as rows (r, d)."""
        _, sizes, rows = np.linalg.svd(self.E[:, free])
        return np.asarray(rows[: int(np.sum(sizes > _PARALLEL))] @ np.eye(len(free))[free])

    def onto(self, X: Array, free: Mask) -> Array:
        """X (n, d) moved onto the planes, by the shortest way in the ``free`` coordinates (d,); bounds are not kept."""
        X = X.copy()
        if len(self.E):
            X[:, free] += (self.e - X @ self.E.T) @ np.linalg.pinv(self.E[:, free], rcond=_PARALLEL).T
        return X

    def rested(self, X: Array, free: Mask) -> Array:
        """X (n, d) set to a bound where only rounding separates them, in the ``free`` coordinates (d,) of planes."""
        tied = free & np.any(self.E != 0, axis=0)
        near = [tied & (np.abs(X - side) <= _AT_BOUND) for side in (self.low, self.high)]
        found = np.where(near[0], self.low, np.where(near[1], self.high, X))
        for row in np.flatnonzero(np.any(found != X, axis=1)):
            found[row] = self._settled(found[row], free)
        return found

    def project(self, x: Array, free: Mask) -> Array:
        """The nearest point to x (d,) that differs from it in the ``free`` coordinates (d,) only.

        Least-distance programming by non-negative least squares (Lawson and Hanson, 1974, ch. 23), within the planes:
        finite, and exact to rounding.

        Raises:
            EmptyPolytopeError: there is no such point.
        """
        if self.contains(x[None])[0]:
            return x
        start, moves = self.onto(x[None], free)[0], self.moves(free)
        found = start + moves @ self._nearest(start, moves, free) if moves.shape[1] else start
        found = self._settled(np.clip(found, self.low, self.high), free)
        if not self.contains(found[None])[0]:
            raise EmptyPolytopeError("No point differs in the free coordinates only and satisfies the inequalities.")
        return found

    def _nearest(self, start: Array, moves: Array, free: Mask) -> Array:
        """The shortest z (m,) for which start + moves @ z is inside; 0 where there is none."""
        from scipy.optimize import nnls

        # G z <= h for the move z along the directions.
        G = np.concatenate([self.A @ moves, moves[free], -moves[free]])
        h = np.concatenate([self.b - self.A @ start, (self.high - start)[free], (start - self.low)[free]])
        E = np.concatenate([-G.T, -h[None]])
        target = np.zeros(len(E))
        target[-1] = 1.0
        dual, _ = nnls(E, target)
        rest = E @ dual - target
        return np.asarray(-rest[:-1] / rest[-1]) if abs(rest[-1]) > np.finfo(float).eps else np.zeros(moves.shape[1])

    def nearest_on_lattice(self, x: Array, steps: Array) -> Array:
        """The point nearest to x (d,), in the sum of moves, whose coordinates with a step lie on their lattice.

        Args:
            x: A point of the lattice inside the box, shape (d,).
            steps: Spacing of each coordinate's values, shape (d,); 0 for a coordinate that moves freely between the
                bounds and does not move at all where no constraint needs it.

        Raises:
            EmptyPolytopeError: no such point satisfies the inequalities and equalities.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        scale = np.where(steps > 0, steps, 1.0)
        d, used = len(x), np.any(self.A != 0, axis=0) | np.any(self.E != 0, axis=0)
        # Unknowns: upward and downward moves of each coordinate, in units of its scale.
        low, high = np.zeros(2 * d), np.concatenate([self.high - x, x - self.low]) / np.tile(scale, 2)
        # Lattice bounds are whole numbers of steps; rounding must not shave one off.
        high = np.where(np.tile(steps > 0, 2), np.rint(high), high) * np.tile(used, 2)
        moves, along = self.A * scale, self.E * scale
        rows = [LinearConstraint(np.concatenate([moves, -moves], axis=1), ub=self.b - self.A @ x)]
        if len(self.E):
            missing = self.e - self.E @ x
            rows.append(LinearConstraint(np.concatenate([along, -along], axis=1), lb=missing, ub=missing))
        result = milp(np.tile(scale, 2), constraints=rows, bounds=Bounds(low, high), integrality=np.tile(steps > 0, 2))
        if result.x is None:
            raise EmptyPolytopeError("No point of the lattice satisfies the inequalities.")
        up, down = result.x.reshape(2, d)
        whole = np.where(steps > 0, np.rint(up - down), up - down)
        return np.asarray(np.clip(x + whole * scale, self.low, self.high))

    def extent(self, direction: Array, steps: Array) -> tuple[float, float]:
        """Least and greatest value of direction . u, for a direction (d,), over the lattice of ``steps`` (d,).

        Raises:
            EmptyPolytopeError: no point satisfies the inequalities and equalities.
        """
        ends = [self._best(np.append(sign * direction, 0.0), steps, 0.0)[0] for sign in (1.0, -1.0)]
        return float(direction @ ends[0]), float(direction @ ends[1])

    def breadth(self, steps: Array) -> float:
        """Radius of the largest ball, within the planes, in the coordinates without a step; 0 where that is rounding.

        The other coordinates are on their lattice. The radius is infinite where planes and lattice leave no direction
        to move in.

        Raises:
            EmptyPolytopeError: no point satisfies the inequalities and equalities.
        """
        if self.moves(self._movable(steps)).shape[1] == 0:
            return np.inf
        radius = self._ball(steps)[1]
        return radius if radius > _FLAT else 0.0

    def walk(self, X: Array, free: Mask, rng: np.random.Generator) -> Array:
        """Points (n, d) of a random walk from X (n, d) inside, in the free coordinates (hit and run: Smith, 1984).

        It begins halfway to the middle of the polytope, for from a vertex hardly any direction leads inside, and its
        directions are uniform in a metric in which the polytope is about as wide as long.
        """
        if not free.any():
            return X
        slices, member = np.unique(X * ~free, axis=0, return_inverse=True)
        X = X.copy()
        for number, slice_ in enumerate(slices):
            rows = member.ravel() == number
            X[rows] = self._walked(X[rows], slice_, free, rng)
        return np.asarray(np.clip(X, self.low, self.high))

    def _walked(self, X: Array, slice_: Array, free: Mask, rng: np.random.Generator) -> Array:
        """The end of the walk from points X (n, d) of one slice."""
        if (found := self._frame(slice_, free)) is None:
            return X
        (centre, frame), (G, h) = found, self.sides(free)
        X, slopes, way = (X + centre) / 2, G @ frame, np.zeros((len(X), frame.shape[1]))
        slack = np.maximum(h - X @ G.T, _LEAST_SLACK)
        for _ in range(max(_WALK_STEPS, _STEPS_A_PAIR * frame.shape[1] ** 2)):
            step = rng.standard_normal(way.shape)
            slope = step @ slopes.T
            share = slope / slack
            length = rng.uniform(1 / share.min(axis=1), 1 / share.max(axis=1))[:, None]
            way, slack = way + length * step, np.maximum(slack - length * slope, _LEAST_SLACK)
        return np.asarray(X + way @ frame.T)

    def sides(self, free: Mask) -> tuple[Array, Array]:
        """G (g, d) and h (g,): the inequalities G u <= h, bounds with them, that a move in the planes can break."""
        identity = np.eye(len(free))
        G = np.concatenate([self.A, identity, -identity])
        h = np.concatenate([self.b, self.high, -self.low])
        touched = np.linalg.norm(G @ self.moves(free), axis=1) > _PARALLEL
        return G[touched], h[touched]

    def _frame(self, x: Array, free: Mask) -> tuple[Array, Array] | None:
        """Analytic centre (d,) of the slice where the other coordinates are those of x (d,), and directions (d, m).

        They are the axes of the Dikin ellipsoid there, in proportion to which the slice is about as wide as long. None
        where the slice has no breadth, so that nothing can move.
        """
        moves, (G, h) = self.moves(free), self.sides(free)
        low, high = (np.where(free, side, x) for side in (self.low, self.high))
        held = replace(self, b=self.b + self.tolerance, low=low, high=high)
        centre, radius = held._ball(np.zeros(len(x)))
        if radius <= _FLAT or moves.shape[1] == 0:
            return None
        G, room, z = G @ moves, h - G @ centre, np.zeros(moves.shape[1])
        for _ in range(_NEWTON_STEPS):
            inverse = 1 / (room - G @ z)
            root = np.linalg.cholesky((G * inverse[:, None] ** 2).T @ G)
            descent = np.linalg.solve(root, G.T @ inverse)
            length = float(np.linalg.norm(descent))
            z -= np.linalg.solve(root.T, descent) / (1 + length)
            if length < _CENTRED:
                break
        return centre + moves @ z, np.asarray(moves @ np.linalg.inv(root).T)

    def _settled(self, x: Array, free: Mask) -> Array:
        """x (d,) put back onto the planes, from which its clipping to the box has moved it by rounding."""
        for _ in range(len(self.E) and _ROUNDS):
            x = np.clip(self.onto(x[None], free & (x > self.low) & (x < self.high))[0], self.low, self.high)
        return x

    def _movable(self, steps: Array) -> Mask:
        """The coordinates without a step that a constraint holds and that have room, shape (d,)."""
        used = np.any(self.A != 0, axis=0) | np.any(self.E != 0, axis=0)
        return np.asarray(used & (steps == 0) & (self.low < self.high))

    def _ball(self, steps: Array) -> tuple[Array, float]:
        """Centre (d,) and radius of the largest ball within the planes in what ``_movable`` holds, over the lattice."""
        centre, radius = self._best(np.append(np.zeros(len(steps)), -1.0), steps, 2.0)
        if not np.any(steps > 0):
            return centre, radius
        # A solver's whole numbers are whole to its tolerance only, which would lend a flat slice some breadth.
        low, high = (np.where(steps > 0, centre, side) for side in (self.low, self.high))
        return replace(self, low=low, high=high)._best(np.append(np.zeros(len(steps)), -1.0), np.zeros(len(steps)), 2.0)

    def _best(self, cost: Array, steps: Array, widest: float) -> tuple[Array, float]:
        """Point (d,) and radius r <= ``widest`` of least cost . (u, r), where a ball of that radius about u is inside.

        Inside the slice of the planes with the lattice values of u, that is. No constraint holds the other coordinates,
        which are in the middle of their bounds.

        Raises:
            EmptyPolytopeError: there is no such point.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        movable, identity = self._movable(steps), np.eye(len(steps))
        G = np.concatenate([self.A, identity[movable], -identity[movable]])
        h = np.concatenate([self.b, self.high[movable], -self.low[movable]])
        scale = np.where(steps > 0, steps, 1.0)
        radii = np.linalg.norm(G @ self.moves(movable), axis=1, keepdims=True)
        rows = [LinearConstraint(np.hstack([G * scale, radii]), ub=h - G @ self.low)]
        if len(self.E):
            total = self.e - self.E @ self.low
            rows.append(LinearConstraint(np.hstack([self.E * scale, np.zeros((len(total), 1))]), lb=total, ub=total))
        most = (self.high - self.low) / scale
        most = np.append(np.where(steps > 0, np.rint(most), most), widest)
        result = milp(
            cost * np.append(scale, 1.0),
            constraints=rows,
            bounds=Bounds(np.zeros(len(most)), most),
            integrality=np.append(steps > 0, False),
        )
        if result.x is None:
            raise EmptyPolytopeError("No point satisfies the inequalities and equalities.")
        found = np.where(steps > 0, np.rint(result.x[:-1]), result.x[:-1])
        held = movable | (steps > 0) | (self.low == self.high)
        return np.where(held, self.low + scale * found, (self.low + self.high) / 2), float(result.x[-1])
