"""Certified maximisation: branch and bound on the exact Gaussian process behind the score, with a proof."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import MomentFunction, MomentScore, Score
from fieldcraft.models.capability import Capability
from fieldcraft.models.certified.box_region import Region, refuse_folds, refuse_uneven
from fieldcraft.models.certified.branch_and_bound import Bounds, Found, Limits, Search
from fieldcraft.models.certified.posterior_bounds import Process, ScoreBounds
from fieldcraft.models.gaussian.grouped_process import UnitProcess, unit_process
from fieldcraft.models.maximizer import Candidates, Certificate
from fieldcraft.models.maximizers._groups import Allowance, GroupSearch, Proven, Solve
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.devices import named_device, require_cuda
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.models.scoring.separable import ScoreTerm, SeparableScore
from fieldcraft.physics.space import SearchSpace

# Boxes halved in one step, by device: as many as stay in the cache, or as keep the device busy.
_BATCHES = {"cpu": 256, "cuda": 8192}
# Share of the gap that is kept for the rounding of the score itself.
_SPARE = 0.1
# Combinations of categories, each a box of its own.
_MOST_ROOTS = 4096


@dataclass(frozen=True)
class Certified:
    """Search in boxes, each with a proven ceiling of the score, until no box can improve by more than the gap.

    For the exact Gaussian process with any of its kernels and for ucb, log_ei and pi, in a box, under linear and
    quadratic constraints, with integers and categories. It starts from the best of samples and gradients, and ends at
    any limit with the best point found and a valid bound. A point that is taken cannot be chosen, but with continuous
    coordinates the bound is that of the whole space, including those points.

    Args:
        gap: Proven largest distance to the maximum at which it ends, > 0, in units of the score: standard deviations
            of the results for ucb, natural logarithms of the improvement or its probability for log_ei and pi.
        nodes: Boxes bounded for each place of the batch, >= 1; then it ends with the gap that is left.
        time_s: Wall time in seconds for each place; None for no limit. A search that it ended cannot be repeated bit
            for bit, and the trial's origin records this.
        n_samples: Samples among which the search for a first point begins, >= 1.
        n_starts: Number of these that gradients improve, >= 1.
        device: Device on which boxes are bounded.

    Raises:
        ValueError: a number is out of its range, or the device is missing.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.PROVES, Capability.BY_GROUP})
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EXACT, Capability.OF_MOMENTS})

    gap: float = 0.01
    nodes: int = 200_000
    time_s: float | None = None
    n_samples: int = 1024
    n_starts: int = 8
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        refuse_non_positive("gap", self.gap)
        refuse_below("nodes", self.nodes, 1)
        if self.time_s is not None:
            refuse_non_positive("time_s", self.time_s)
        refuse_below("n_starts", self.n_starts, 1)
        Multistart(self.n_samples, self.n_starts)
        if self.device == "cuda":
            require_cuda()

    def maximize(
        self, score: Score, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None = None
    ) -> Candidates:
        """The batch, place by place (see Maximizer.maximize), each with its certificate.

        Raises:
            ValueError: also if nothing can be proven here for the score or the space.
        """
        if q < 1:
            raise ValueError(f"q is {q}: a batch has at least one place.")
        if isinstance(score, SeparableScore):
            allowance = Allowance(self.gap, self.nodes, self.time_s)
            return GroupSearch(allowance, self.n_samples, self._searches).maximize(score, space, q, rng, taken)
        self.refuse_space(space)
        samples = sobol_points(space, rng)
        chosen = np.empty((0, space.dimension))
        before = chosen if taken is None else taken
        certificates: list[Certificate] = []
        for slot in range(q):
            place = self._place(score, slot, chosen, space, np.vstack([before, chosen]))
            x, certificate = place.solved(take(samples, self.n_samples))
            chosen = np.vstack([chosen, x])
            certificates.append(certificate)
        return Candidates(chosen, np.array([c.value for c in certificates]), tuple(certificates))

    def _place(self, score: Score, slot: int, chosen: Array, space: SearchSpace, gone: Array) -> "_BatchSlot":
        proven = moment_score(score)
        before = torch.tensor(chosen)
        believed = unit_process(proven.fantasized(before), "maximizer certified", "maximizer: multistart")
        return self._of(proven.after(before), believed, slot, chosen, space, gone)

    def _of(
        self, score: MomentFunction, process: UnitProcess, slot: int, chosen: Array, space: SearchSpace, gone: Array
    ) -> "_BatchSlot":
        bounds = ScoreBounds(Process.of(process, named_device(self.device)), score)
        limits = Limits((1 - _SPARE) * self.gap, self.nodes, self.time_s, _BATCHES[self.device])
        return _BatchSlot(score, bounds, slot, chosen, space, gone, limits, self._local)

    def _searches(self, terms: Sequence[ScoreTerm], spaces: Sequence[SearchSpace], slot: int) -> list[Solve]:
        """Searches of all groups (see fieldcraft.models.maximizers._groups)."""
        for space in spaces:
            self.refuse_space(space)
        return [partial(self._solved, *pair, slot) for pair in zip(terms, spaces, strict=True)]

    def _solved(
        self, term: ScoreTerm, space: SearchSpace, slot: int, samples: Array, gone: Array, allowance: Allowance
    ) -> Proven:
        limited = replace(self, gap=allowance.gap, nodes=allowance.nodes, time_s=allowance.time_s)
        return limited._of(term, term.part, slot, gone[:0], space, gone).solved(samples)

    def refuse_space(self, space: SearchSpace) -> None:
        """Accept a space that can be halved.

        Raises:
            ValueError: it is not plain, has images, whole numbers with a logarithmic scale, or categories of too many
                combinations.
        """
        if space.images:
            raise ValueError(
                f"The maximizer certified cannot halve the {space.dimension} coordinates of a space with images: use "
                "`maximizer: multistart`."
            )
        refuse_folds(space, "certified")
        refuse_uneven(space, "certified")
        roots = math.prod(group.stop - group.start for group in space.groups)
        if roots > _MOST_ROOTS:
            raise ValueError(
                f"The categories have {roots} combinations, and the maximizer certified takes at most {_MOST_ROOTS}: "
                "use `maximizer: multistart`."
            )

    @property
    def _local(self) -> Multistart:
        return Multistart(self.n_samples, self.n_starts)


@dataclass(frozen=True, eq=False)
class _BatchSlot:
    """The search for one place of the batch."""

    score: MomentFunction
    bounds: ScoreBounds
    slot: int
    chosen: Array
    space: SearchSpace
    gone: Array
    limits: Limits
    local: Multistart

    def solved(self, samples: Array) -> Proven:
        """The point (d,) of this place and its certificate, from feasible samples (n, d)."""
        region = Region.of(self.space, self.bounds.process.scales, self.gone)
        first, value = self._climbed(samples)
        search = Search(
            lambda lower, upper: self._bounded(region, lower, upper),
            lambda x: self._climbed(self.space.repair(x.cpu().numpy()[None])),
            region,
            self.limits,
        )
        return self._certified(search(first, value))

    def _bounded(self, region: Region, lower: Tensor, upper: Tensor) -> Bounds:
        """Bounds over boxes with corners (B, d); with equalities, scores are of points on their planes."""
        found = self.bounds.bounds(lower, upper, *region.half_spaces(lower, upper))
        if len(region.planes) == 0:
            return found
        with torch.no_grad():
            return replace(found, centre=self.bounds.value(region.centres(lower, upper)))

    def _climbed(self, samples: Array) -> tuple[Tensor, float]:
        """The best feasible point (d,) that gradients reach from samples (n, d), and its score."""
        x, value = self.local.best(_Direct(self.bounds), self.space, self.slot, self.chosen, self.gone, samples)
        return torch.from_numpy(x), value

    def _certified(self, found: Found) -> Proven:
        """The point, with the score as the acquisition itself computes it."""
        X = found.x.numpy()[None]
        with torch.no_grad():
            value = float(self.score.value(torch.from_numpy(X), self.slot, torch.tensor(self.chosen))[0])
        error = abs(value - found.value)
        off = 2 * error > _SPARE * self.limits.gap
        bound = max(found.ceiling + error, value)
        return X[0], Certificate(value, bound, "numerical" if off else found.status, found.nodes)


@dataclass(frozen=True, eq=False)
class _Direct:
    """The score without BoTorch's overhead."""

    bounds: ScoreBounds

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score of X (n, d), shape (n,)."""
        return self.bounds.value(X.to(self.bounds.process.scales.device)).cpu()

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Score (n,) and gradient (n, d) of X (n, d)."""
        value, gradient = self.bounds.value_and_grad(X.to(self.bounds.process.scales.device))
        return value.cpu(), gradient.cpu()


def moment_score(score: Score) -> MomentScore:
    """The score as a function of mean and standard deviation.

    Raises:
        ValueError: it is not such a score.
    """
    if not isinstance(score, MomentScore):
        raise ValueError(
            f"The maximizer certified bounds functions of mean and standard deviation, and the score is a "
            f"{type(score).__name__}: use the acquisition ucb, log_ei or pi, or `maximizer: multistart`."
        )
    return score
