"""Boxes cut by linear inequalities: membership, nearest points and a random walk. Knows nothing of designs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WALK_STEPS = 64


class EmptyPolytopeError(ValueError):
    """No point satisfies the inequalities."""


@dataclass(frozen=True)
class Polytope:
    """The points u with A u <= b and low <= u <= high.

    Args:
        A: Shape (c, d), rows of length 1; c may be 0.
        b: Shape (c,).
        low: Lower bounds, shape (d,).
        high: Upper bounds, shape (d,).
        tolerance: An inequality holds when it is violated by no more than this.
    """

    A: Array
    b: Array
    low: Array
    high: Array
    tolerance: float

    def contains(self, X: Array) -> NDArray[np.bool_]:
        """Whether points X (n, d) inside the box satisfy A u <= b, shape (n,)."""
        return np.asarray(np.all(X @ self.A.T - self.b <= self.tolerance, axis=1))

    def project(self, x: Array, free: NDArray[np.bool_]) -> Array:
        """The nearest point to x (d,) that differs from it in the ``free`` coordinates (d,) only.

        Least-distance programming by non-negative least squares (Lawson and Hanson, 1974, ch. 23): finite, and exact
        to rounding.

        Raises:
            EmptyPolytopeError: there is none.
        """
        from scipy.optimize import nnls

        if self.contains(x[None])[0]:
            return x
        identity = np.eye(len(x))[:, free]
        # G z <= h for the move z of the free coordinates.
        G = np.concatenate([self.A[:, free], identity[free], -identity[free]])
        h = np.concatenate([self.b - self.A @ x, (self.high - x)[free], (x - self.low)[free]])
        E = np.concatenate([-G.T, -h[None]])
        target = np.zeros(len(E))
        target[-1] = 1.0
        dual, _ = nnls(E, target)
        rest = E @ dual - target
        found = x.copy()
        if abs(rest[-1]) > np.finfo(float).eps:
            found[free] -= rest[:-1] / rest[-1]
        found = np.clip(found, self.low, self.high)
        if not self.contains(found[None])[0]:
            raise EmptyPolytopeError("No point differs in the free coordinates only and satisfies the inequalities.")
        return found

    def nearest_on_lattice(self, x: Array, steps: Array) -> Array:
        """The point nearest to x (d,), in the sum of moves, whose coordinates with a step lie on their lattice.

        Args:
            x: A point of the lattice inside the box, shape (d,).
            steps: Spacing of each coordinate's values, shape (d,); 0 for a coordinate that moves freely between the
                bounds and does not move at all where no inequality needs it.

        Raises:
            EmptyPolytopeError: no such point satisfies the inequalities.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        scale = np.where(steps > 0, steps, 1.0)
        d, used = len(x), np.any(self.A != 0, axis=0)
        # Unknowns: upward and downward moves of each coordinate, in units of its scale.
        low, high = np.zeros(2 * d), np.concatenate([self.high - x, x - self.low]) / np.tile(scale, 2)
        # Lattice bounds are whole numbers of steps; rounding must not shave one off.
        high = np.where(np.tile(steps > 0, 2), np.rint(high), high) * np.tile(used, 2)
        moves = self.A * scale
        result = milp(
            np.tile(scale, 2),
            constraints=LinearConstraint(np.concatenate([moves, -moves], axis=1), ub=self.b - self.A @ x),
            bounds=Bounds(low, high),
            integrality=np.tile(steps > 0, 2),
        )
        if result.x is None:
            raise EmptyPolytopeError("No point of the lattice satisfies the inequalities.")
        up, down = result.x.reshape(2, d)
        whole = np.where(steps > 0, np.rint(up - down), up - down)
        return np.asarray(np.clip(x + whole * scale, self.low, self.high))

    def walk(self, X: Array, free: NDArray[np.bool_], rng: np.random.Generator) -> Array:
        """Points (n, d) of a random walk from X (n, d) inside, in the free coordinates (hit and run: Smith, 1984).

        It begins halfway to the middle of the polytope, for from a vertex hardly any direction leads inside.
        """
        if not free.any():
            return X
        slices, member = np.unique(X * ~free, axis=0, return_inverse=True)
        X = (X + np.stack([self._middle(x, free) for x in slices])[member.ravel()]) / 2
        G = np.concatenate([self.A, np.eye(X.shape[1]), -np.eye(X.shape[1])])
        h = np.concatenate([self.b, self.high, -self.low])
        for _ in range(_WALK_STEPS):
            direction = rng.standard_normal(X.shape) * free
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            slope, slack = direction @ G.T, np.maximum(h - X @ G.T, 0.0)
            reach = np.divide(slack, np.abs(slope), out=np.full_like(slack, np.inf), where=slope != 0)
            forward = np.where(slope > 0, reach, np.inf).min(axis=1)
            backward = np.where(slope < 0, reach, np.inf).min(axis=1)
            X += rng.uniform(-backward, forward)[:, None] * direction
        return np.asarray(np.clip(X, self.low, self.high))

    def _middle(self, x: Array, free: NDArray[np.bool_]) -> Array:
        """Centre of the largest ball in the slice of the polytope where the other coordinates are those of x (d,)."""
        from scipy.optimize import linprog

        inside = self.A[:, free]
        identity = np.eye(int(free.sum()))
        # Unknowns: the free coordinates and the radius, which is to be largest.
        normals = np.concatenate([inside, identity, -identity])
        rows = np.concatenate([normals, np.linalg.norm(normals, axis=1, keepdims=True)], axis=1)
        slack = self.tolerance + self.b - self.A @ np.where(free, 0.0, x)
        limits = np.concatenate([slack, self.high[free], -self.low[free]])
        cost = np.append(np.zeros(len(identity)), -1.0)
        found = x.copy()
        found[free] = linprog(cost, A_ub=rows, b_ub=limits, bounds=[(None, None)] * len(identity) + [(0, None)]).x[:-1]
        return found
