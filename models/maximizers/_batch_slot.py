"""One place of a batch: the score to maximise there as functions of arrays, and the points it cannot have."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from fieldcraft.models.acquisition import BoundedScore, Score, ScreenedScore, anchors_of, suggested_by
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.feasibility.least_violation import Room
from fieldcraft.models.maximizer import SAME
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import is_feasible
from fieldcraft.models.observations import Array
from fieldcraft.models.scoring.gradients import automatic, with_gradients
from fieldcraft.physics.space import SearchSpace

SLACK = 1e-6
"""Excess up to which a point counts as within the bounds of a score: that of SLSQP's end."""

# Rows scored at once: keeps the intermediate arrays of a surrogate in the cache.
_ROWS = 256
# Value of a point outside the bounds of a score with an excess of zero: below that of any point inside.
_OUTSIDE = -1e100
# Weight of the squared excess beside a score whose largest slope is one, while all starts go together.
_PENALTY = 100.0
# Samples about each anchor of a score by their distances.
_AROUND, _DISTANCES = 16, (0.1, 0.01)
# Samples on faces of the box beside them.
_ON_FACES = 512
# Least share of the way from a centre to another point of the space.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class BatchSlot:
    """The score of one place of the batch, as functions of arrays, and the points it cannot have, shape (k, d)."""

    score: Score
    slot: int
    chosen: Tensor
    space: SearchSpace
    gone: Array

    @cached_property
    def fixed(self) -> NDArray[np.bool_]:
        """Encoded coordinates that gradients may not move, shape (d,)."""
        return fixed_columns(self.space)

    @cached_property
    def bounded(self) -> BoundedScore | None:
        """The score if it has bounds, else None."""
        return self.score if isinstance(self.score, BoundedScore) else None

    @cached_property
    def suggested(self) -> Array:
        """Feasible points that the score suggests, shape (n, d); empty where it has none."""
        points = suggested_by(self.score)
        return np.empty((0, self.space.dimension)) if points is None else self.space.repair(points.numpy())

    def around_anchors(self, rng: np.random.Generator) -> Array:
        """Feasible samples near the anchors of a score, shape (n, d); empty, with no draw, where it has none.

        Where the anchors are not there for the bounds of the score, some samples lie on faces of the box, too.
        """
        points = anchors_of(self.score)
        if points is None:
            return np.empty((0, self.space.dimension))
        anchors = np.repeat(points.numpy(), _AROUND, axis=0)
        steps = rng.choice(_DISTANCES, size=(len(anchors), 1)) * rng.standard_normal(anchors.shape)
        faces = self._on_faces(0 if self.bounded else _ON_FACES, rng)
        return self.space.repair(np.concatenate([anchors + steps, faces]))

    def _on_faces(self, n: int, rng: np.random.Generator) -> Array:
        """Points (n, d), each with a share of its coordinates at bounds, from none to all, and the others uniform."""
        low, high = self.space.bounds
        X = rng.uniform(low, high, size=(n, self.space.dimension))
        ends = np.where(rng.random(X.shape) < 0.5, low, high)
        return np.where(rng.random(X.shape) < rng.random((n, 1)), ends, X)

    def about(self, centre: Tensor, n: int, rng: np.random.Generator) -> Array:
        """Feasible samples about a point (d,), shape (k, d), 1 <= k <= n.

        Each lies on the way from there to a uniform point of the space, at a share of it whose logarithm is uniform.
        Around a circle the shorter way counts. A number of equal steps is rounded up or down at random, to its place on
        the way in the mean; other discrete variables have the value of that point with a probability that is the share.
        Where an equality ties discrete variables to others, the others make up for what these change.
        """
        here, ends = self.space.repair(centre[None]), self.space.sample(n, rng)
        shares, around, steps = _LEAST_SHARE ** rng.random((n, 1)), self.space.folds.around, self.space.steps
        way = ends - here
        way[:, around] = _in_period(way[:, around])
        X = here + shares * way
        X[:, around] = _in_period(X[:, around])
        for at in self.space.columns.values():
            if np.all(self.fixed[at]):
                chance, step = rng.random((n, 1)), steps[at]
                if np.all(step > 0):
                    X[:, at] = here[:, at] + step * np.floor((X[:, at] - here[:, at]) / step + chance)
                else:
                    X[:, at] = np.where(chance < shares, ends[:, at], here[:, at])
        X = self._tied(X)
        X = X[is_feasible(self.space, X)]
        return self.space.repair(X if len(X) else ends)

    def _tied(self, X: Array) -> Array:
        """X (n, d) moved to the planes of the equalities by its continuous coordinates, as far as these reach them."""
        (E, e), free = self.space.equalities, ~self.fixed
        moved = X.copy()
        moved[:, free] -= (X @ E.T - e) @ np.linalg.pinv(E[:, free]).T
        return moved

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
        distance, _ = cKDTree(self._told(self.gone)).query(self._told(X), p=np.inf)
        return np.asarray(X[distance >= SAME])

    def _told(self, X: Array) -> Array:
        """Coordinates of X (n, d) that are equal for equal designs, shape (n, m)."""
        coordinates = ModelCoordinates.of(self.space)
        return X if coordinates is None else coordinates.array(X)

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

    def values(self, X: Array, slack: float = SLACK) -> Array:
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
        """Scores of X (n, d) as ``values`` gives them, or nearly so at less cost, shape (n,)."""
        if self.bounded is not None or not isinstance(self.score, ScreenedScore):
            return self.values(X)
        with torch.no_grad():
            blocks = [
                self.score.screened(block, self.slot, self.chosen) for block in torch.split(torch.tensor(X), _ROWS)
            ]
        return _finite(torch.cat(blocks).numpy(), X)

    def scaled_losses(self, starts: Array, penalty: float = _PENALTY) -> Callable[[Array], tuple[Array, Array]]:
        """Minus the score at points (n, d) and its gradients (n, d), divided by the largest slope at the starts.

        SciPy's tolerances are absolute, and SLSQP leaves the constraints where slopes are huge. ``penalty`` times the
        squared excesses of a bounded score are added to that.
        """
        begun = self._sloped(starts)
        steepest = float(np.max(np.abs(begun[1]))) or 1.0
        bounded = self.bounded if penalty else None

        def scaled(X: Array) -> tuple[Array, Array]:
            # A search asks for its starts first.
            found = begun if np.array_equal(X, starts) else self._sloped(X)
            values, gradients = (-each / steepest for each in found)
            if bounded is None:
                return values, gradients
            outside, slopes = _checked(*automatic(partial(self._penalty, bounded), torch.tensor(X)), X)
            return values + penalty * outside, gradients + penalty * slopes

        return scaled

    def _sloped(self, X: Array) -> tuple[Array, Array]:
        """Scores (n,) of points (n, d) and their gradients (n, d), all finite."""
        return _checked(*with_gradients(self.score, torch.tensor(X), self.slot, self.chosen), X)

    def _penalty(self, bounded: BoundedScore, X: Tensor) -> Tensor:
        """Sum of the squared excesses at X (n, d), shape (n,)."""
        return bounded.excess(X, self.slot, self.chosen).clamp_min(0).square().sum(dim=1)


def _in_period(X: Array) -> Array:
    """Encoded angles, or differences of them, in [-1, 1)."""
    return np.asarray((X + 1) % 2 - 1)


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


def fixed_columns(space: SearchSpace) -> NDArray[np.bool_]:
    """Encoded coordinates that gradients may not move: integers and one-hot columns, shape (d,)."""
    fixed = np.array(space.discrete, dtype=bool)
    for group in space.groups:
        fixed[group] = True
    return fixed
