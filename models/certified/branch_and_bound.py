"""Branch and bound over boxes: many boxes in each step, as one tensor batch.

The boxes with the highest ceilings are halved; a half that cannot beat the best point found by more than the gap is
dropped. At any time the highest ceiling among remaining and dropped boxes bounds the score everywhere. A box that
is one design is not halved: it is dropped too, whatever its ceiling.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.certified.box_region import Region
from fieldcraft.models.maximizer import SAME, Status

# Boxes to begin with: a step with fewer takes hardly less time.
_FIRST = 64
# A point must be better by this to replace the best.
_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of a score in B boxes, and its values at their centres.

    Args:
        ceiling: Upper bound of the score in the box, shape (B,).
        centre: The score at the centre, or at the point of the region's ``centres`` for it, shape (B,).
    """

    ceiling: Tensor
    centre: Tensor


@dataclass(frozen=True)
class Limits:
    """Limits at which a search ends.

    Args:
        gap: Largest ceiling minus best score at which the search is done.
        nodes: Boxes that may be bounded; those that the search begins with are bounded in any case.
        time_s: Wall time in seconds; None for no limit.
        batch: Boxes that are halved in one step.
    """

    gap: float
    nodes: int
    time_s: float | None
    batch: int


@dataclass(frozen=True, eq=False)
class Found:
    """Result of a search.

    Args:
        x: The best point, encoded, shape (d,).
        value: Its score.
        ceiling: Upper bound of the score in the region, not below ``value``.
        status: "optimal" where ceiling - value <= gap, else the limit that ended the search; "numerical" where the
            ceilings of single points are too high, and nothing else is left.
        nodes: Boxes that were bounded.
    """

    x: Tensor
    value: float
    ceiling: float
    status: Status
    nodes: int


@dataclass(frozen=True)
class Search:
    """The search for the best point of a region to within a gap.

    Args:
        bound: Function from the corners (B, d) of boxes to the bounds of the score in them.
        improve: Function from a feasible point (d,) to one that is not worse, and its score.
        region: Where to search.
        limits: Limits at which it ends.
    """

    bound: Callable[[Tensor, Tensor], Bounds]
    improve: Callable[[Tensor], tuple[Tensor, float]]
    region: Region
    limits: Limits

    def __call__(self, x: Tensor, value: float) -> Found:
        """Result of the search that begins with a feasible point (d,) and its score."""
        limits = self.limits
        deadline = None if limits.time_s is None else time.monotonic() + limits.time_s
        state = _State(x, value, -torch.inf, 0)
        lower, upper = self.region.first(min(_FIRST, limits.nodes))
        state, front = self._bounded(state, _Front(lower, upper, lower.new_full((len(lower),), torch.inf)))
        while (status := self._status(state, front, deadline)) is None:
            chosen, front = front.parted(min(limits.batch, (limits.nodes - state.nodes) // 2 + 1))
            halves, parents = self.region.halves(chosen.lower, chosen.upper)
            state, grown = self._bounded(state, _Front(*halves, chosen.ceiling[parents]))
            state, front = state.without_hopeless(_Front.joined([front, grown]), limits.gap)
        ceiling = max(state.dropped, state.value, front.highest)
        return Found(state.x, state.value, ceiling, status, state.nodes)

    def _bounded(self, state: "_State", front: "_Front") -> tuple["_State", "_Front"]:
        """The boxes, with their own ceilings where these are lower, and the state updated by their centres."""
        parts = []
        for first in range(0, len(front.ceiling), 2 * self.limits.batch):
            part = front[first : first + 2 * self.limits.batch]
            bounds = self.bound(part.lower, part.upper)
            # Where arithmetic overflowed nothing is known.
            ceiling = torch.minimum(bounds.ceiling.nan_to_num(torch.inf), part.ceiling)
            state = self._advanced(state, part, bounds.centre)
            state, part = state.without_hopeless(_Front(part.lower, part.upper, ceiling), self.limits.gap)
            state, part = state.without_points(part)
            parts.append(part)
        return state, _Front.joined([front[:0], *parts])

    def _advanced(self, state: "_State", boxes: "_Front", scores: Tensor) -> "_State":
        """The state after evaluation of the centres of boxes with their scores (B,)."""
        x, value, nodes = state.x, state.value, state.nodes + len(scores)
        best = self.region.best_centre(boxes.lower, boxes.upper, scores, value + _GAIN)
        if best is not None:
            reached, better = self.improve(best)
            x, value = (reached, better) if better > value else (x, value)
        return _State(x, value, state.dropped, nodes)

    def _status(self, state: "_State", front: "_Front", deadline: float | None) -> Status | None:
        if front.highest <= state.value + self.limits.gap:
            return "optimal" if state.dropped <= state.value + self.limits.gap else "numerical"
        if state.nodes >= self.limits.nodes:
            return "node_limit"
        return "time_limit" if deadline is not None and time.monotonic() >= deadline else None


@dataclass(frozen=True, eq=False)
class _Front:
    """Remaining boxes: corners (B, d) and ceilings (B,)."""

    lower: Tensor
    upper: Tensor
    ceiling: Tensor

    def __getitem__(self, rows: Tensor | slice) -> "_Front":
        return _Front(self.lower[rows], self.upper[rows], self.ceiling[rows])

    @classmethod
    def joined(cls, parts: list["_Front"]) -> "_Front":
        """All boxes of several fronts."""
        return cls(*(torch.cat([getattr(p, name) for p in parts]) for name in ("lower", "upper", "ceiling")))

    @property
    def highest(self) -> float:
        """The highest ceiling; minus infinity if no box is left."""
        return float(self.ceiling.max()) if len(self.ceiling) else -torch.inf

    def parted(self, n: int) -> tuple["_Front", "_Front"]:
        """The n boxes of the highest ceilings, and the others."""
        order = torch.argsort(self.ceiling, descending=True, stable=True)
        return self[order[:n]], self[order[n:]]


@dataclass(frozen=True, eq=False)
class _State:
    """Best point, its score, the highest ceiling of a box that was dropped, and the number of boxes bounded."""

    x: Tensor
    value: float
    dropped: float
    nodes: int

    def without_hopeless(self, front: _Front, gap: float) -> tuple["_State", _Front]:
        """The front without boxes that cannot beat the best by more than the gap; keeps their highest ceiling."""
        return self._without(front, front.ceiling <= self.value + gap)

    def without_points(self, front: _Front) -> tuple["_State", _Front]:
        """The front without boxes of one design; the state keeps their highest ceiling."""
        return self._without(front, (front.upper - front.lower < SAME / 2).all(1))

    def _without(self, front: _Front, gone: Tensor) -> tuple["_State", _Front]:
        dropped = max(self.dropped, front[gone].highest)
        return _State(self.x, self.value, dropped, self.nodes), front[~gone]
