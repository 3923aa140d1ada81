"""Multistart search: many samples, then gradients from the best (L-BFGS-B in a box, SLSQP under constraints)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fieldcraft.models.acquisition import BoundedScore, PeakedScore, Score, ViolationScore, centre_of
from fieldcraft.models.feasibility.least_violation import least_violation
from fieldcraft.models.maximizer import Candidates
from fieldcraft.models.maximizers._batch_slot import SLACK, BatchSlot, fixed_columns
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array
from fieldcraft.physics.space import SearchSpace

# Steps from one combination of discrete values to a better one, and the least gain of one, relative above one: where a
# logarithm is nearly zero, as that of a probability near one, each neighbour would be better by rounding.
_MOST_HOPS, _GAIN = 50, 1e-6
# Starts that go on to the end, and the excess up to which one still leads SLSQP inside.
_LEADERS, _NEAR = 3, 0.1
# Least relative gain of an iteration, of each start and of the best of them. Steps along one direction, none of which
# gains at a kink, as the largest temperature has.
_FIRST_ACCURACY, _FULL_ACCURACY, _MOST_STEPS = 1e-3, 1e-9, 10


@dataclass(frozen=True)
class Multistart:
    """Score Sobol samples, then improve the best of them by gradients.

    If the score is bounded (``BoundedScore``), points within the bounds come first and SLSQP keeps them there. If none
    is found, the one with the least sum of excesses is chosen, and its value is minus that sum.

    If the score may be largest near some points (``AnchoredScore``), such as the designs of a front, 16 samples more
    lie about each of them.

    If it knows points that may be its best (``SuggestedScore``), these are among the samples.

    Where a surrogate has a cheaper form of itself, as exact_gp of more than 200 trials, the samples are judged by that,
    and by the surrogate itself only where gradients start.

    If the score is searched about one point (``LocalScore``), samples lie about it at distances over three decades, and
    the best sample is the answer.

    If the score may have a narrow peak (``PeakedScore``) and the best point found promises less than ``faint``, as many
    samples and starts again are spent about that peak, at distances over three decades, and the better point is chosen.

    Integers and categories keep the values of the sample during the gradient steps; the best point then changes to
    better values of one of them, each time improved by gradients, until no such step gains a millionth. The value is
    that of the repaired point, and the best sample is kept if no step improves on it. A wholly discrete space with at
    most n_samples points is searched in full.

    Args:
        n_samples: Feasible samples scored for each place of the batch.
        n_starts: Samples that are improved by gradients, all at once in a box; with 0 the best sample is the answer.
        max_iterations: Limit on the iterations of each gradient search.

    Raises:
        ValueError: a number is too small, or there are more starts than samples.
    """

    n_samples: int = 2048
    n_starts: int = 16
    max_iterations: int = 100

    def __post_init__(self) -> None:
        for name, least in (("n_samples", 1), ("n_starts", 0), ("max_iterations", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least {least}.")
        if self.n_starts > self.n_samples:
            raise ValueError(
                f"n_starts is {self.n_starts} and n_samples {self.n_samples}: the starts are the best of the samples; "
                "lower n_starts."
            )

    def maximize(
        self, score: Score, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None = None
    ) -> Candidates:
        """The batch, place by place (see Maximizer.maximize)."""
        if q < 1:
            raise ValueError(f"q is {q}: a batch has at least one place.")
        everything, centre = every_point(space, self.n_samples), centre_of(score)
        samples = sobol_points(space, rng)
        chosen, values = np.empty((0, space.dimension)), np.empty(0)
        before = chosen if taken is None else taken
        for slot in range(q):
            place = BatchSlot(score, slot, torch.tensor(chosen), space, np.vstack([before, chosen]))
            if everything is not None:
                X = everything
            elif centre is not None:
                X = place.about(centre, self.n_samples, rng)
            else:
                X = np.vstack([take(samples, self.n_samples), place.around_anchors(rng), place.suggested])
            looked_through = everything is not None or centre is not None
            point, value = self._fill(place, place.remaining(X), exhaustive=looked_through)
            if not looked_through:
                point, value = self._beside_peak(place, point, value, rng)
            chosen, values = np.vstack([chosen, point]), np.append(values, value)
        return Candidates(X=chosen, value=values)

    def _beside_peak(
        self, place: BatchSlot, point: Array, value: float, rng: np.random.Generator
    ) -> tuple[Array, float]:
        """A point (d,) and its value, or the better one that a search about the peak of the score finds."""
        score = place.score
        if not isinstance(score, PeakedScore) or score.peak is None or value >= score.faint:
            return point, value
        about = place.free(place.about(score.peak, self.n_samples, rng))
        if len(about) == 0:
            return point, value
        there, reached = self._fill(place, about, exhaustive=False)
        return (there, reached) if reached > value else (point, value)

    def best(
        self, score: Score, space: SearchSpace, slot: int, chosen: Array, gone: Array, X: Array
    ) -> tuple[Array, float]:
        """The best point of one place and its value, among feasible samples and points that gradients reach from them.

        Args:
            score: Worth of a candidate.
            space: Where to search.
            slot: Number of the place that is filled.
            chosen: Points of the places before it, shape (j, d).
            gone: Points that the place cannot have, shape (k, d).
            X: Feasible samples, shape (n, d).

        Raises:
            ValueError: the score is not finite somewhere, or a discrete space has no point left.
        """
        place = BatchSlot(score, slot, torch.tensor(chosen), space, gone)
        return self._fill(place, place.remaining(X), exhaustive=False)

    def _fill(self, place: BatchSlot, X: Array, *, exhaustive: bool) -> tuple[Array, float]:
        if exhaustive or self.n_starts == 0:
            return place.said(*_best(X, place.values(X)))
        starts = X[_starts(X, place.screened(X), self.n_starts)]
        point, value = self._improve(place, starts, place.values(starts))
        return place.said(*(self._hop(place, point, value) if np.any(place.fixed) else (point, value)))

    def _improve(self, place: BatchSlot, starts: Array, values: Array) -> tuple[Array, float]:
        """The best among feasible starts (s, d) with values (s,) and the points that gradients reach from them."""
        if np.all(place.fixed):
            return _best(starts, values)
        polished = place.free(self._polish(place, starts))
        return _best(np.vstack([starts, polished]), np.append(values, place.values(polished)))

    def _hop(self, place: BatchSlot, point: Array, value: float) -> tuple[Array, float]:
        """Move a point to better values of its discrete variables, one after the other, until none is better."""
        for _ in range(_MOST_HOPS):
            near = place.free(neighbours(place.space, point))
            if len(near) == 0:
                break
            values = place.values(near)
            best = np.argsort(-values, kind="stable")[: self.n_starts]
            there, reached = self._improve(place, near[best], values[best])
            if reached <= value + _GAIN * max(1.0, abs(value)):
                break
            point, value = there, reached
        return point, value

    def _polish(self, place: BatchSlot, starts: Array) -> Array:
        """Feasible points reached by gradients from feasible starts (s, d), shape (s or s + 1, d)."""
        if place.bounded is not None:
            ends = self._keep_within(place, place.bounded, starts)
        elif place.space.constraints:
            together = np.array([self._ascend_constrained(place, x, _FIRST_ACCURACY) for x in starts])
            leaders = together[np.argsort(-place.values(place.space.repair(together)), kind="stable")[:_LEADERS]]
            ends = np.vstack([together, *(self._ascend_constrained(place, x, _FULL_ACCURACY)[None] for x in leaders)])
        else:
            together, losses = self._ascend(place, starts, _FIRST_ACCURACY)
            leaders = together[np.argsort(losses, kind="stable")[:_LEADERS]]
            ends = np.vstack([together, self._ascend_further(place, leaders)])
        return place.space.repair(ends)

    def _keep_within(self, place: BatchSlot, bounded: BoundedScore, starts: Array) -> Array:
        """Points reached from starts (s, d) under the bounds of a score: all by a penalty, the best also by SLSQP."""
        together = starts if place.space.constraints else self._ascend(place, starts, _FIRST_ACCURACY)[0]
        leaders = together[np.argsort(-place.values(together, _NEAR), kind="stable")[:_LEADERS]]
        return np.vstack(
            [together, *(self._ascend_constrained(place, x, _FULL_ACCURACY, bounded)[None] for x in leaders)]
        )

    def _ascend_further(self, place: BatchSlot, leaders: Array) -> Array:
        """Points reached from the best starts (l, d), first one first: over the kinks of a violation, by gradients."""
        score, leader = place.score, leaders[:1]
        if isinstance(score, ViolationScore) and place.values(leader)[0] < 0:
            box = np.stack(_box(place.space, leader[0]), axis=1)
            leader = least_violation(place.room(score.violations), leader[0], box, self.max_iterations)[None]
            if place.values(leader)[0] < -SLACK:
                return leader
            leaders = np.vstack([leader, leaders[1:]])
        return self._ascend(place, leaders, _FULL_ACCURACY)[0]

    def _ascend(self, place: BatchSlot, starts: Array, accuracy: float) -> tuple[Array, Array]:
        """Ends (s, d) of L-BFGS-B from each of the starts (s, d), and the losses there, shape (s,).

        Values and gradients of one step are computed together.

        Each ends when an iteration gains less than ``accuracy``, relative to its value.
        """
        from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched

        free, (low, high), losses = ~place.fixed, place.space.reach, place.scaled_losses(starts)

        def of_free(moved: Array, batch_indices: list[int]) -> tuple[Array, Array]:
            X = starts[batch_indices]
            X[:, free] = moved
            values, gradients = losses(X)
            return values, gradients[:, free]

        ends = starts.copy()
        ends[:, free], reached, _ = fmin_l_bfgs_b_batched(  # type: ignore[no-untyped-call]
            of_free,
            starts[:, free],
            bounds=np.stack([low, high], axis=1)[free],
            factr=None,
            ftol=accuracy,
            pgtol=1e-8,
            maxiter=self.max_iterations,
            maxls=_MOST_STEPS,
            pass_batch_indices=True,
        )
        return np.asarray(np.clip(ends, *_box(place.space, starts))), np.asarray(reached)

    def _ascend_constrained(
        self, place: BatchSlot, start: Array, accuracy: float, bounded: BoundedScore | None = None
    ) -> Array:
        """SLSQP from one start (d,) under the known constraints and the bounds of a score; (d,)."""
        lower, upper = _box(place.space, start)
        kept = _known(place.space, start)
        if bounded is not None:
            room = place.room(bounded.excess)
            kept.append({"type": "ineq", "fun": lambda x: room(x)[0], "jac": lambda x: room(x)[1]})
        losses = place.scaled_losses(start[None], penalty=0.0)

        def loss(x: Array) -> tuple[float, Array]:
            (value,), (gradient,) = losses(x[None])
            return value, gradient

        found = minimize(
            loss,
            start,
            jac=True,
            method="SLSQP",
            bounds=np.stack([lower, upper], axis=1),
            constraints=kept,
            options={"maxiter": self.max_iterations, "ftol": accuracy},
        )
        return np.asarray(np.clip(found.x, lower, upper))


def _best(X: Array, values: Array) -> tuple[Array, float]:
    best = int(np.argmax(values))
    return X[best], float(values[best])


def _box(space: SearchSpace, starts: Array) -> tuple[Array, Array]:
    """Bounds of the search from starts (..., d): a discrete coordinate stays where it is, a periodic one has none."""
    fixed = fixed_columns(space)
    low, high = space.reach
    return np.where(fixed, starts, low), np.where(fixed, starts, high)


def _known(space: SearchSpace, start: Array) -> list[dict[str, Any]]:
    """The known constraints of a space as SLSQP takes them: functions of a point (d,) that are to be >= 0, or 0.

    A feasible start (d,) is on the planes of the equalities, which are kept by moves from it.
    """
    (A, b), curved, leaving = space.linear, space.quadratic, space.leaving
    known: list[dict[str, Any]] = [
        {"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda x: -A},
        {"type": "ineq", "fun": lambda x: -curved.excess(x[None])[0], "jac": lambda x: -curved.slopes(x[None])[0]},
    ]
    if len(leaving):
        known.append({"type": "eq", "fun": lambda x: leaving @ (x - start), "jac": lambda x: leaving})
    return known


def _starts(X: Array, values: Array, n: int) -> NDArray[np.intp]:
    """Indices of the n samples to improve: those better than their nearest neighbours first, each by value.

    The best samples alone often lie on one hill. No more samples are looked at than are needed.
    """
    near_by = min(len(X) - 1, 2 * X.shape[1] + 2)
    order, places = np.argsort(-values, kind="stable"), np.arange(len(X))
    better = np.searchsorted(-values[order], -values[order])
    points = X[order].astype(np.float32)
    size = (points**2).sum(axis=1, keepdims=True)
    left, right = np.hstack([-2 * points, np.ones_like(size), size]), np.hstack([points, size, np.ones_like(size)]).T
    summit = np.zeros(0, dtype=bool)
    for rows in np.array_split(places, -(-len(X) // (8 * n))):
        apart = left[rows] @ right
        apart[np.arange(len(rows)), rows] = np.inf
        least, most = better[rows[0]], better[rows[-1]]
        some = np.where(places[least:most] < better[rows, None], apart[:, least:most], np.inf)
        above = np.minimum(apart[:, :least].min(axis=1, initial=np.inf), some.min(axis=1, initial=np.inf))
        summit = np.append(summit, np.count_nonzero(apart < above[:, None], axis=1) >= near_by)
        if np.count_nonzero(summit) >= n:
            break
    found: NDArray[np.intp] = order[np.argsort(~summit, kind="stable")][:n]
    return found
