"""Multistart search: many samples, then gradients from the best (L-BFGS-B in a box, SLSQP under constraints)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from torch import Tensor

from fieldcraft.models.acquisition import BoundedScore, DifferentiableScore, Score, ScreenedScore, ViolationScore
from fieldcraft.models.feasibility.least_violation import Room, least_violation
from fieldcraft.models.maximizer import SAME, Candidates
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.physics.space import SearchSpace

# Rows scored at once: keeps the intermediate arrays of a surrogate in the cache.
_ROWS = 256
# Steps from one combination of discrete values to a better one.
_MOST_HOPS = 50
# Least relative gain of an iteration, of each start and of the best of them.
_FIRST_ACCURACY, _FULL_ACCURACY = 1e-3, 1e-13
# An excess up to the first counts as none, that of SLSQP's end; one up to the second still leads SLSQP inside.
_SLACK, _NEAR = 1e-6, 0.1
# Value of a point outside the bounds of a score with an excess of zero: below that of any point inside.
_OUTSIDE = -1e100
# Weight of the squared excess beside a score whose largest slope is one, while all starts go together.
_PENALTY = 100.0
# Starts that then go on, and samples about each anchor of a bounded score by their distances.
_LEADERS, _AROUND, _DISTANCES = 3, 16, (0.1, 0.01)


@dataclass(frozen=True)
class Multistart:
    """Score Sobol samples, then improve the best of them by gradients.

    If the score is bounded (``BoundedScore``), points within the bounds come first and SLSQP keeps them there. If none
    is found, the one with the least sum of excesses is chosen, and its value is minus that sum.

    Integers and categories keep the values of the sample during the gradient steps; the best point then changes to
    better values of one of them, each time improved by gradients, until no such step is better. The value is that of
    the repaired point, and the best sample is kept if no step improves on it. A wholly discrete space with at most
    n_samples points is searched in full.

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
        everything = every_point(space, self.n_samples)
        samples = sobol_points(space, rng)
        chosen, values = np.empty((0, space.dimension)), np.empty(0)
        before = chosen if taken is None else taken
        for slot in range(q):
            place = _BatchSlot(score, slot, torch.tensor(chosen), space, np.vstack([before, chosen]))
            X = everything
            if X is None:
                X = np.vstack([take(samples, self.n_samples), place.around_anchors(rng)])
            point, value = self._fill(place, place.remaining(X), exhaustive=everything is not None)
            chosen, values = np.vstack([chosen, point]), np.append(values, value)
        return Candidates(X=chosen, value=values)

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
        place = _BatchSlot(score, slot, torch.tensor(chosen), space, gone)
        return self._fill(place, place.remaining(X), exhaustive=False)

    def _fill(self, place: "_BatchSlot", X: Array, *, exhaustive: bool) -> tuple[Array, float]:
        if exhaustive or self.n_starts == 0:
            return place.said(*_best(X, place.values(X)))
        starts = X[_starts(X, place.screened(X), self.n_starts)]
        point, value = self._improve(place, starts, place.values(starts))
        return place.said(*(self._hop(place, point, value) if np.any(place.fixed) else (point, value)))

    def _improve(self, place: "_BatchSlot", starts: Array, values: Array) -> tuple[Array, float]:
        """The best among feasible starts (s, d) with values (s,) and the points that gradients reach from them."""
        if np.all(place.fixed):
            return _best(starts, values)
        polished = place.free(self._polish(place, starts))
        return _best(np.vstack([starts, polished]), np.append(values, place.values(polished)))

    def _hop(self, place: "_BatchSlot", point: Array, value: float) -> tuple[Array, float]:
        """Move a point to better values of its discrete variables, one after the other, until none is better."""
        for _ in range(_MOST_HOPS):
            near = place.free(neighbours(place.space, point))
            if len(near) == 0:
                break
            values = place.values(near)
            best = np.argsort(-values, kind="stable")[: self.n_starts]
            there, reached = self._improve(place, near[best], values[best])
            if reached <= value:
                break
            point, value = there, reached
        return point, value

    def _polish(self, place: "_BatchSlot", starts: Array) -> Array:
        """Feasible points reached by gradients from feasible starts (s, d), shape (s or s + 1, d)."""
        if place.bounded is not None:
            ends = self._keep_within(place, place.bounded, starts)
        elif place.space.constraints:
            ends = np.array([self._ascend_constrained(place, x) for x in starts])
        else:
            together = self._ascend(place, starts, _FIRST_ACCURACY)
            leaders = together[np.argsort(-place.values(together), kind="stable")[:_LEADERS]]
            ends = np.vstack([together, self._ascend_further(place, leaders)])
        return place.space.repair(ends)

    def _keep_within(self, place: "_BatchSlot", bounded: BoundedScore, starts: Array) -> Array:
        """Points reached from starts (s, d) under the bounds of a score: all by a penalty, the best also by SLSQP."""
        together = starts if place.space.constraints else self._ascend(place, starts, _FIRST_ACCURACY)
        leaders = together[np.argsort(-place.values(together, _NEAR), kind="stable")[:_LEADERS]]
        return np.vstack([together, *(self._ascend_constrained(place, x, bounded)[None] for x in leaders)])

    def _ascend_further(self, place: "_BatchSlot", leaders: Array) -> Array:
        """Points reached from the best starts (l, d), first one first: over the kinks of a violation, by gradients."""
        score, leader = place.score, leaders[:1]
        if isinstance(score, ViolationScore) and place.values(leader)[0] < 0:
            box = np.stack(_box(place.space, leader[0]), axis=1)
            leader = least_violation(place.room(score.violations), leader[0], box, self.max_iterations)[None]
            if place.values(leader)[0] < -_SLACK:
                return leader
            leaders = np.vstack([leader, leaders[1:]])
        return self._ascend(place, leaders, _FULL_ACCURACY)

    def _ascend(self, place: "_BatchSlot", starts: Array, accuracy: float) -> Array:
        """Ends of L-BFGS-B from each of the starts (s, d); values and gradients of one step are computed together.

        Each ends when an iteration gains less than ``accuracy``, relative to its value.
        """
        free, (low, high), losses = ~place.fixed, place.space.bounds, place.scaled_losses(starts)

        def of_free(moved: Array, batch_indices: list[int]) -> tuple[Array, Array]:
            X = starts[batch_indices]
            X[:, free] = moved
            values, gradients = losses(X)
            return values, gradients[:, free]

        ends = starts.copy()
        ends[:, free], *_ = fmin_l_bfgs_b_batched(
            of_free,
            starts[:, free],
            bounds=np.stack([low, high], axis=1)[free],
            factr=None,
            ftol=accuracy,
            pgtol=1e-8,
            maxiter=self.max_iterations,
            pass_batch_indices=True,
        )
        return np.asarray(np.clip(ends, *_box(place.space, starts)))

    def _ascend_constrained(self, place: "_BatchSlot", start: Array, bounded: BoundedScore | None = None) -> Array:
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
            options={"maxiter": self.max_iterations, "ftol": 1e-12},
        )
        return np.asarray(np.clip(found.x, lower, upper))


@dataclass(frozen=True, eq=False)
class _BatchSlot:
    """The score of one place of the batch, as functions of arrays, and the points it cannot have, shape (k, d)."""

    score: Score
    slot: int
    chosen: Tensor
    space: SearchSpace
    gone: Array

    @cached_property
    def fixed(self) -> NDArray[np.bool_]:
        """Encoded coordinates that gradients may not move, shape (d,)."""
        return _fixed_columns(self.space)

    @cached_property
    def bounded(self) -> BoundedScore | None:
        """The score if it has bounds, else None."""
        return self.score if isinstance(self.score, BoundedScore) else None

    @cached_property
    def differentiable(self) -> DifferentiableScore | None:
        """The score if it has gradients in closed form, else None."""
        return self.score if isinstance(self.score, DifferentiableScore) else None

    def around_anchors(self, rng: np.random.Generator) -> Array:
        """Feasible samples near the anchors of a bounded score, shape (n, d); empty, with no draw, for others."""
        if self.bounded is None:
            return np.empty((0, self.space.dimension))
        anchors = np.repeat(self.bounded.anchors.numpy(), _AROUND, axis=0)
        steps = rng.choice(_DISTANCES, size=(len(anchors), 1)) * rng.standard_normal(anchors.shape)
        return self.space.repair(anchors + steps)

    def room(self, excess: Callable[[Tensor, int, Tensor], Tensor]) -> Room:
        """Minus the excesses of one point (d,), shape (k,), and their gradients, shape (k, d)."""

        @lru_cache(maxsize=1)
        def at(point: bytes) -> tuple[Array, Array]:
            x = torch.tensor(np.frombuffer(point))
            with torch.no_grad():
                left = -excess(x[None], self.slot, self.chosen)[0]
            # One row for each excess: a row's gradient is that of its own, and all are had in one pass back.
            rows = x.repeat(len(left), 1).requires_grad_()
            own = -excess(rows, self.slot, self.chosen).diagonal()
            (slopes,) = torch.autograd.grad(own.sum(), rows)
            return left.numpy(), slopes.numpy()

        return lambda x: at(np.ascontiguousarray(x).tobytes())

    def said(self, point: Array, value: float) -> tuple[Array, float]:
        """A point with its value; outside the bounds of a score the value is minus the sum of its excesses."""
        return point, value if value > _OUTSIDE else 1 - value / _OUTSIDE

    def free(self, X: Array) -> Array:
        """The rows of X (n, d) that this place can have."""
        distance, _ = cKDTree(self.gone).query(X, p=np.inf)
        return np.asarray(X[distance >= SAME])

    def remaining(self, X: Array) -> Array:
        """Rows of X (n, d) that this place can have; if there are none, discrete neighbours of points gone.

        Raises:
            ValueError: there are no such neighbours either.
        """
        left = self.free(X)
        if len(left) == 0:
            left = self.free(np.vstack([X[:0], *(neighbours(self.space, x) for x in self.gone)]))
        if len(left) == 0:
            raise no_point_left(self.slot, self.gone)
        return left

    def values(self, X: Array, slack: float = _SLACK) -> Array:
        """Scores of X (n, d), shape (n,), by blocks; where an excess is above ``slack``, below all others."""
        if len(X) == 0:
            return np.empty(0)
        with torch.no_grad():
            blocks = [self._worth(block, slack) for block in torch.split(torch.tensor(X), _ROWS)]
        return _finite(torch.cat(blocks).numpy(), X)

    def _worth(self, X: Tensor, slack: float) -> Tensor:
        value = self.score.value(X, self.slot, self.chosen)
        if self.bounded is None:
            return value
        excess = self.bounded.excess(X, self.slot, self.chosen)
        outside = _OUTSIDE * (1 + excess.clamp_min(0).sum(dim=1))
        return torch.where((excess <= slack).all(dim=1), value, outside)

    def screened(self, X: Array) -> Array:
        """What ``values`` gives, or nearly that at less cost, shape (n,)."""
        if self.bounded is not None or not isinstance(self.score, ScreenedScore):
            return self.values(X)
        with torch.no_grad():
            blocks = [self.score.screened(block, self.slot, self.chosen) for block in torch.tensor(X).split(_ROWS)]
        return _finite(torch.cat(blocks).numpy(), X)

    def scaled_losses(self, starts: Array, penalty: float = _PENALTY) -> Callable[[Array], tuple[Array, Array]]:
        """Minus the score at points (n, d) and its gradients (n, d), divided by the largest slope at the starts.

        SciPy's tolerances are absolute, and SLSQP leaves the constraints where slopes are huge. ``penalty`` times the
        squared excesses of a bounded score are added to that.
        """
        steepest = float(np.max(np.abs(self._sloped(starts)[1]))) or 1.0
        bounded = self.bounded if penalty else None

        def scaled(X: Array) -> tuple[Array, Array]:
            values, gradients = (-each / steepest for each in self._sloped(X))
            if bounded is None:
                return values, gradients
            points = torch.tensor(X, requires_grad=True)
            excess = bounded.excess(points, self.slot, self.chosen).clamp_min(0).square().sum(dim=1)
            outside, slopes = _with_gradients(penalty * excess, points)
            return values + outside, gradients + slopes

        return scaled

    def _sloped(self, X: Array) -> tuple[Array, Array]:
        """Scores (n,) of points (n, d) and their gradients (n, d), all finite."""
        if self.differentiable is not None:
            values, gradients = self.differentiable.value_and_grad(torch.tensor(X), self.slot, self.chosen)
            return _checked(values, gradients, X)
        points = torch.tensor(X, requires_grad=True)
        return _with_gradients(self.score.value(points, self.slot, self.chosen), points)


def _with_gradients(values: Tensor, X: Tensor) -> tuple[Array, Array]:
    """Values (n,) of points (n, d), each of its own, and their gradients (n, d)."""
    (gradients,) = torch.autograd.grad(values.sum(), X)
    return _checked(values.detach(), gradients, X.detach().numpy())


def _checked(values: Tensor, gradients: Tensor, X: Array) -> tuple[Array, Array]:
    """Values (n,) and gradients (n, d) at X (n, d), if they are finite."""
    _finite(gradients.sum(dim=1).numpy() + values.numpy(), X)
    return values.numpy(), gradients.numpy()


def no_point_left(slot: int, gone: Array) -> ValueError:
    """The error for a place of the batch that cannot be filled, since ``gone`` (k, d) are all points of the space."""
    return ValueError(
        f"No point is left for place {slot + 1} of the batch: the space is discrete and {len(gone)} of its points are "
        "taken; lower the batch size or widen the space."
    )


def _finite(values: Array, X: Array) -> Array:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"The score or its gradient is {values[bad[0]]} at the encoded point {X[bad[0]].tolist()} ({len(bad)} of "
            f"{len(X)} points): nothing can be proposed from it; look at the surrogate's fit and its data."
        )
    return values


def _best(X: Array, values: Array) -> tuple[Array, float]:
    best = int(np.argmax(values))
    return X[best], float(values[best])


def _fixed_columns(space: SearchSpace) -> NDArray[np.bool_]:
    """Encoded coordinates that gradients may not move: integers and one-hot columns, shape (d,)."""
    fixed = np.array(space.discrete, dtype=bool)
    for group in space.groups:
        fixed[group] = True
    return fixed


def _box(space: SearchSpace, starts: Array) -> tuple[Array, Array]:
    """Bounds of the search from starts (..., d): a discrete coordinate stays where it is."""
    fixed = _fixed_columns(space)
    low, high = space.bounds
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
        most = better[rows[-1]]
        above = np.where(places[:most] < better[rows, None], apart[:, :most], np.inf).min(axis=1, initial=np.inf)
        summit = np.append(summit, np.count_nonzero(apart < above[:, None], axis=1) >= near_by)
        if np.count_nonzero(summit) >= n:
            break
    found: NDArray[np.intp] = order[np.argsort(~summit, kind="stable")][:n]
    return found
