"""Maximisation of a score that is a sum over groups of variables, group by group, with a proof for the whole.

The best point combines the best of each group, and the bound of the whole is the sum of theirs. If that point is taken,
the next ones are tried in the order of their scores: each group is searched for its next best, and a heap orders the
combinations (as in the enumeration of the best sums of sorted lists).
"""

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fieldcraft.models.gaussian.grouped_kernel import Groups
from fieldcraft.models.maximizer import SAME, Candidates, Certificate, Status
from fieldcraft.models.maximizers._batch_slot import no_point_left
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.models.scoring.separable import ScoreTerm, SeparableScore
from fieldcraft.physics.space import SearchSpace

# From the best end to the one that says most of what went wrong: time alone makes a search unrepeatable.
_WORSE: tuple[Status, ...] = ("optimal", "node_limit", "numerical", "time_limit")
# Discrete groups with more points than this are not looked through for one that is left.
_MOST_POINTS = 65_536


@dataclass(frozen=True)
class Allowance:
    """Limits at which a search ends.

    Args:
        gap: Difference of bound and value at which it ends, > 0.
        nodes: Nodes that it may take, >= 1.
        time_s: Wall time in seconds, > 0; None for no limit.
    """

    gap: float
    nodes: int
    time_s: float | None


Proven = tuple[Array, Certificate]
"""A point (d_g,) of a group and what is proven of it."""

Solve = Callable[[Array, Array, Allowance], Proven]
"""The best point of one group from feasible samples (n, d_g), without those that are gone (k, d_g)."""

Prepare = Callable[[Sequence[ScoreTerm], Sequence[SearchSpace], int], Sequence[Solve]]
"""From the terms and spaces of all groups and the place of the batch to the search of each group."""


@dataclass(frozen=True)
class GroupSearch:
    """The search, whose gap, nodes and time are shared out to the groups in equal parts.

    Args:
        allowance: Limits for each place of the batch.
        n_samples: Samples of each group with which its search begins.
        prepare: Function that makes the searches of the groups.
    """

    allowance: Allowance
    n_samples: int
    prepare: Prepare

    def maximize(
        self, score: SeparableScore, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None
    ) -> Candidates:
        """The batch, place by place (see Maximizer.maximize).

        Raises:
            ValueError: also where a constraint couples two groups.
        """
        spaces = group_spaces(space, score.groups)
        samples = [sobol_points(part, rng) for part in spaces]
        chosen = np.empty((0, space.dimension))
        before = chosen if taken is None else taken
        certificates: list[Certificate] = []
        for slot in range(q):
            gone = np.vstack([before, chosen])
            solves = self.prepare(score.terms(torch.tensor(chosen)), spaces, slot)
            starts = [take(part, self.n_samples) for part in samples]
            x, certificate = _BatchSlot(solves, spaces, score.groups, starts, self.allowance, gone).best(slot)
            chosen = np.vstack([chosen, x])
            certificates.append(certificate)
        return Candidates(chosen, np.array([c.value for c in certificates]), tuple(certificates))


@dataclass(frozen=True, eq=False)
class _BatchSlot:
    """The search for one place of the batch; ``lists`` are the best points of each group, as far as they are known."""

    solves: Sequence[Solve]
    spaces: Sequence[SearchSpace]
    groups: Groups
    samples: Sequence[Array]
    allowance: Allowance
    gone: Array
    began: float = field(default_factory=time.monotonic)
    lists: list[list[Proven]] = field(default_factory=list)

    def best(self, slot: int) -> Proven:
        """The best point (d,) that is not gone, and its certificate.

        Raises:
            ValueError: all are gone.
        """
        self.lists.extend([] for _ in self.groups)
        for group in range(len(self.groups)):
            self._extend(group, len(self.groups) - group)
        first = (0,) * len(self.groups)
        heap, seen = [(-self._sum(first), first)], {first}
        while heap:
            _, ranks = heapq.heappop(heap)
            x = self._joined(ranks)
            if not self._is_gone(x):
                return x, self._certificate(ranks, [other for _, other in heap])
            for following in self._following(ranks):
                if following not in seen:
                    seen.add(following)
                    heapq.heappush(heap, (-self._sum(following), following))
        raise no_point_left(slot, self.gone)

    def _extend(self, group: int, left: int) -> bool:
        """Find one more point of a group; False if it has no more. The limits are shared by ``left`` groups."""
        known = np.array([x for x, _ in self.lists[group]]).reshape(-1, self.spaces[group].dimension)
        if len(known) and _exhausted(self.spaces[group], len(known)):
            return False
        self.lists[group].append(self.solves[group](self.samples[group], known, self._share(left)))
        return True

    def _share(self, left: int) -> Allowance:
        nodes = max(1, (self.allowance.nodes - self._nodes) // left)
        if (time_s := self.allowance.time_s) is not None:
            time_s = max(1e-3, (time_s - (time.monotonic() - self.began)) / left)
        return Allowance(self.allowance.gap / len(self.groups), nodes, time_s)

    def _following(self, ranks: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The combinations that follow one: the next point in one group, the same in all others."""
        found = []
        for group, rank in enumerate(ranks):
            if rank + 1 < len(self.lists[group]) or self._extend(group, len(ranks)):
                found.append((*ranks[:group], rank + 1, *ranks[group + 1 :]))
        return found

    def _joined(self, ranks: tuple[int, ...]) -> Array:
        """The point (d,) of a combination."""
        x = np.empty(sum(map(len, self.groups)))
        for columns, (part, _) in zip(self.groups, self._chosen(ranks), strict=True):
            x[list(columns)] = part
        return x

    def _chosen(self, ranks: tuple[int, ...]) -> list[Proven]:
        return [points[rank] for points, rank in zip(self.lists, ranks, strict=True)]

    def _sum(self, ranks: tuple[int, ...]) -> float:
        return sum(certificate.value for _, certificate in self._chosen(ranks))

    def _is_gone(self, x: Array) -> bool:
        return bool((np.abs(self.gone - x).max(axis=1, initial=0.0) < SAME).any())

    def _certificate(self, ranks: tuple[int, ...], others: list[tuple[int, ...]]) -> Certificate:
        """Certificate of a combination. Every point but those gone comes after it or after one of the others."""
        bounds = [sum(c.bound for _, c in self._chosen(each)) for each in (ranks, *others)]
        all_found = [certificate for points in self.lists for _, certificate in points]
        status = max((certificate.status for certificate in all_found), key=_WORSE.index)
        return Certificate(self._sum(ranks), max(bounds), status, self._nodes, all_found[0].bound_of)

    @property
    def _nodes(self) -> int:
        return sum(certificate.nodes for points in self.lists for _, certificate in points)


def group_spaces(space: SearchSpace, groups: Groups) -> tuple[SearchSpace, ...]:
    """The space of each group of coordinates: its variables in the order of these, and the constraints on them.

    Raises:
        ValueError: the space is not plain, a variable is in two groups, or a constraint couples two.
    """
    if reasons := space.folds.reasons:
        raise ValueError(
            f"Groups of variables are searched one by one among the encoded points themselves, and "
            f"{'; '.join(reasons)}: use `maximizer: multistart`."
        )
    names = [_names(space, group) for group in groups]
    for name in space.names:
        if not any(name in group for group in names):
            raise ValueError(
                f"The variable {name!r} has coordinates in two groups: fit the surrogate to observations that state "
                "the columns of the space."
            )
    for constraint in space.constraints:
        if not any(set(constraint.names) <= set(group) for group in names):
            raise ValueError(
                f"The constraint {constraint} couples groups of variables that are searched one by one: put "
                f"{', '.join(constraint.names)} into one of the surrogate's groups, or use `maximizer: multistart`."
            )
    return tuple(_restricted(space, group) for group in names)


def _names(space: SearchSpace, group: Sequence[int]) -> list[str]:
    """The variables whose coordinates are all in a group, as it orders them."""
    within = {name: at for name, at in space.columns.items() if set(range(at.start, at.stop)) <= set(group)}
    return sorted(within, key=lambda name: group.index(within[name].start))


def _restricted(space: SearchSpace, names: list[str]) -> SearchSpace:
    variables = tuple(space.variables[space.names.index(name)] for name in names)
    return replace(
        space, variables=variables, constraints=tuple(c for c in space.constraints if set(c.names) <= set(names))
    )


def _exhausted(space: SearchSpace, known: int) -> bool:
    """True if a space has no more than ``known`` points."""
    everything = every_point(space, _MOST_POINTS)
    return everything is not None and len(everything) <= known
