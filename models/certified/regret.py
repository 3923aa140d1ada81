"""Bound of the regret: the best result less a proven lower bound of the objective over the space.

Branch and bound over boxes. What is known is a lower bound for the convex hull of some points, such as the least value
there of a concave function that is nowhere above the objective. The part of a box that keeps to a linear equality is
the hull of its corners, which are all on edges of the box. Further constraints only cut the boxes: a bound over more
designs holds for fewer.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.certified.box_region import Region
from fieldcraft.models.certified.branch_and_bound import Bounds, Limits, Search
from fieldcraft.models.maximizer import Status
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Minorants
from fieldcraft.physics.space import Continuous, SearchSpace

# Boxes that are bounded at most, and halved together.
_NODES, _BATCH = 20_000, 64
# Where the search ends: this share of the best result, or of the regret as far as samples tell it.
_GAP, _SHARE = 5e-4, 0.05
_SAMPLES, _SEED = 512, 11
# Variables up to which the corners of a box are few.
_MOST = 8
# Share of a bound that stands for rounding.
_ROUNDING = 1e-9
# Share of a result by which rounding may put it below its own bound.
_SAME = 1e-6


class Refuted(ValueError):
    """A result is below the bound: what was stated to prove it is wrong."""


@dataclass(frozen=True)
class RegretBound:
    """A proven bound of the regret.

    Args:
        lower: No design of the space has a smaller objective.
        regret: The best result less that, in the objective's unit.
        status: "optimal" where the bound is as close to the least of the lower bounds as asked, else the limit that
            ended the search; the bound holds in any case.
        nodes: Boxes that were bounded.
    """

    lower: float
    regret: float
    status: Literal["optimal", "node_limit", "time_limit", "numerical"]
    nodes: int


def unbounded(space: SearchSpace) -> str:
    """Reason why nothing is proven over a space; empty if it can be."""
    if space.dimension > _MOST:
        return f"the space has {space.dimension} coordinates, and the corners of a box are too many beyond {_MOST}"
    for each in space.variables:
        if not isinstance(each, Continuous):
            return f"{each.name} is no real number"
        if each.log:
            return f"{each.name} has a logarithmic scale"
    return ""


def regret_bound(minorants: Minorants, space: SearchSpace) -> RegretBound | None:
    """The bound that branch and bound proves; None for other than some continuous variables on linear scales.

    Raises:
        Refuted: the best result is below it.
    """
    if unbounded(space):
        return None
    best = minorants.best
    tried = space.sample(_SAMPLES, np.random.default_rng(_SEED))
    values = minorants.values(tried)
    least = int(values.argmin())
    gap = _GAP * abs(best) + _SHARE * max(best - float(values[least]), 0.0)
    region = Region.of(space, torch.ones(space.dimension, dtype=torch.float64), np.empty((0, space.dimension)))
    plane = space.equalities
    bounded = _Bounded(minorants, region, (plane[0][0], float(plane[1][0])) if len(plane[1]) else None)
    search = Search(bounded, lambda x: (x, bounded.score(x)), region, Limits(gap, _NODES, None, _BATCH))
    found = search(torch.from_numpy(tried[least]), -float(values[least]))
    lower = -found.ceiling - _ROUNDING * abs(found.ceiling)
    status: Status = found.status
    if lower > best + _SAME * abs(best):
        raise Refuted(
            f"what is known of the equations is refuted: by it no design has less than {lower:.6g}, and the best "
            f"result is {best:.6g}"
        )
    return RegretBound(lower, max(best - lower, 0.0), status, found.nodes)


@dataclass(frozen=True, eq=False)
class _Bounded:
    """Bounds of minus the objective in boxes.

    Args:
        minorants: Lower bounds of the objective.
        region: The space.
        plane: A normal (d,) and an offset that all designs keep to; None where there is no equality.
    """

    minorants: Minorants
    region: Region
    plane: tuple[Array, float] | None

    def __call__(self, lower: Tensor, upper: Tensor) -> Bounds:
        """Ceilings in boxes with corners (B, d), and minus the lower bounds at their centres."""
        centres = self.region.centres(lower, upper).numpy()
        points, kept = corners(lower.numpy(), upper.numpy(), self.plane)
        least = self.minorants.over(centres, points, kept)
        return Bounds(torch.from_numpy(-least), torch.from_numpy(-self.minorants.values(centres)))

    def score(self, x: Tensor) -> float:
        """Minus the lower bound at a design (d,)."""
        return -float(self.minorants.values(x.numpy()[None])[0])


def corners(lower: Array, upper: Array, plane: tuple[Array, float] | None) -> tuple[Array, Array]:
    """Corners of boxes with corners (B, d), or of what a plane a . x = b leaves of them.

    Returns:
        Points (B, v, d), and True for those that are corners, shape (B, v); a box has at least one.
    """
    d = lower.shape[1]
    sides = np.array(list(product((False, True), repeat=d)))
    points = np.where(sides, upper[:, None], lower[:, None])
    if plane is None:
        return points, np.ones(points.shape[:2], dtype=bool)
    normal, offset = plane
    found, kept = [], []
    for i in np.flatnonzero(normal):
        edges = points[:, ~sides[:, i]].copy()
        edges[..., i] = 0.0
        at = (offset - edges @ normal) / normal[i]
        low, high = lower[:, None, i], upper[:, None, i]
        # The region's boxes have room for rounding, by which a corner may lie beside the plane.
        room = 1e-9 + 1e-6 * (high - low)
        kept.append((at >= low - room) & (at <= high + room))
        edges[..., i] = np.clip(at, low - room, high + room)
        found.append(edges)
    return np.concatenate(found, axis=1), np.concatenate(kept, axis=1)
