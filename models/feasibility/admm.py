"""Alternating direction method of multipliers over the trials of a campaign, computed from their results alone.

    min f(x) subject to c_i(x) <= 0  becomes  min f(x) + M sum_i 1[c_i(z_i) > 0] subject to x = z_i,

with multipliers y_i and penalty rho, one copy z_i of the design for each constraint (Ariafar et al., 2019):

    optimality   x   = argmin_x f(x) + rho/2 sum_i ||x - z_i + y_i/rho||^2
    feasibility  z_i = argmin_z 1[c_i(z) > 0] + rho/(2M) ||x - z + y_i/rho||^2
    multipliers  y_i <- y_i + rho (x - z_i)

and rho doubles or halves where mean ||x - z_i|| and mean rho ||z_i - last z_i|| differ by more than a factor of ten.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.observations import Array

_APART, _STEP = 10.0, 2.0
# A feasibility subproblem with a satisfied trial so near its target, by sqrt(d), is solved.
_NEAR = 0.05


@dataclass(frozen=True, eq=False)
class TrialData:
    """Data of the trials that the method uses, in their order.

    Args:
        X: Encoded designs, shape (n, d).
        f: Objective, minimised, in targets, shape (n,).
        satisfied: True where each constraint holds, shape (n, c).
    """

    X: Array
    f: Array
    satisfied: NDArray[np.bool_]

    def first(self, n: int) -> "TrialData":
        """Data of the first n trials."""
        return TrialData(self.X[:n], self.f[:n], self.satisfied[:n])

    def extended(self, more: "TrialData") -> "TrialData":
        """These trials followed by more."""
        X, f = np.concatenate([self.X, more.X]), np.concatenate([self.f, more.f])
        return TrialData(X, f, np.concatenate([self.satisfied, more.satisfied]))


@dataclass(frozen=True, eq=False)
class Iterate:
    """State of the method.

    Args:
        x: Solution of the optimality subproblem, shape (d,).
        z: Copies of the design, shape (c, d).
        y: Multipliers, shape (c, d).
        rho: Penalty.
        turn: Subproblem of the next trial: None for optimality, else the constraint's number from 0.
    """

    x: Array
    z: Array
    y: Array
    rho: float
    turn: int | None = None

    def augmentation(self, X: Array) -> Array:
        """rho/2 sum_i ||x - z_i + y_i/rho||^2 at X (n, d), shape (n,)."""
        return np.asarray(self.rho / 2 * np.sum((X[:, None] - self.z + self.y / self.rho) ** 2, axis=(1, 2)))

    def target(self, i: int) -> Array:
        """x + y_i/rho, the point towards which z_i is drawn, shape (d,)."""
        return np.asarray(self.x + self.y[i] / self.rho)


@dataclass(frozen=True)
class Alternation:
    """The order of the trials: one or more for the optimality subproblem, then as many for each feasibility one.

    Args:
        start: Trials before the first subproblem, which count for all subproblems.
        each: Trials of one turn.
        rho: First penalty.
        M: Weight of a violated constraint.
    """

    start: int
    each: int
    rho: float
    M: float

    def replayed(self, readings: TrialData) -> Iterate:
        """State of the method after these trials.

        A feasibility subproblem that the trials before it have solved has no trial of its own.
        """
        n, c = readings.satisfied.shape
        seen = min(self.start, n)
        now = self._begun(readings.first(max(seen, 1)))
        while seen + self.each <= n:
            seen += self.each
            now = before = self._optimality(now, readings.first(seen))
            for i in range(c):
                if not self.settled(now, i, readings.first(seen)):
                    if seen + self.each > n:
                        return replace(now, turn=i)
                    seen += self.each
                now = self._feasibility(now, i, readings.first(seen))
            now = self._penalised(before, now)
        return now

    def feasibility(self, now: Iterate, i: int, readings: TrialData) -> Array:
        """1[c_i(z) > 0] + rho/(2M) ||x - z + y_i/rho||^2 at the trials, shape (n,)."""
        apart = np.sum((readings.X - now.target(i)) ** 2, axis=1)
        return np.asarray(~readings.satisfied[:, i] + now.rho / (2 * self.M) * apart)

    def settled(self, now: Iterate, i: int, readings: TrialData) -> bool:
        """True if a trial where the constraint holds is within 0.05 sqrt(d) of the point towards which z_i is drawn."""
        near = now.rho / (2 * self.M) * _NEAR**2 * readings.X.shape[1]
        return bool(self.feasibility(now, i, readings).min() <= near)

    def _begun(self, readings: TrialData) -> Iterate:
        """First state: no multipliers, and each z_i the trial nearest to the best one where its constraint holds."""
        (_, c), (_, d) = readings.satisfied.shape, readings.X.shape
        best = readings.X[int(np.argmin(readings.f))]
        now = Iterate(best, np.tile(best, (c, 1)), np.zeros((c, d)), self.rho)
        nearest = [readings.X[int(np.argmin(self.feasibility(now, i, readings)))] for i in range(c)]
        return replace(now, z=np.reshape(nearest, (c, d)))

    def _optimality(self, now: Iterate, readings: TrialData) -> Iterate:
        lagrangian = readings.f + now.augmentation(readings.X)
        return replace(now, x=readings.X[int(np.argmin(lagrangian))])

    def _feasibility(self, now: Iterate, i: int, readings: TrialData) -> Iterate:
        z, y = now.z.copy(), now.y.copy()
        z[i] = readings.X[int(np.argmin(self.feasibility(now, i, readings)))]
        y[i] += now.rho * (now.x - z[i])
        return replace(now, z=z, y=y)

    def _penalised(self, before: Iterate, after: Iterate) -> Iterate:
        if len(after.z) == 0:
            return after
        primal = float(np.mean(np.linalg.norm(after.x - after.z, axis=1)))
        dual = float(np.mean(np.linalg.norm(after.rho * (after.z - before.z), axis=1)))
        if primal > _APART * dual:
            return replace(after, rho=after.rho * _STEP)
        return replace(after, rho=after.rho / _STEP) if dual > _APART * primal else after
