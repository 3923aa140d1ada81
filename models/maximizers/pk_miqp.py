"""PK-MIQP (paper 004): a piecewise-linear kernel turns the confidence bound's optimum into a mixed-integer program."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch

from fieldcraft.models.acquisition import MomentScore, Score
from fieldcraft.models.capability import Capability
from fieldcraft.models.certified.box_region import refuse_folds, refuse_uneven
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess, interpolated
from fieldcraft.models.certified.scip_program import Effort, Program, Solved
from fieldcraft.models.gaussian.grouped_process import UnitProcess, unit_process
from fieldcraft.models.maximizer import Candidates, Certificate, Status
from fieldcraft.models.maximizers._groups import Allowance, GroupSearch, Proven, Solve
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.models.rival import require
from fieldcraft.models.scoring.separable import ScoreTerm, SeparableScore
from fieldcraft.physics.space import SearchSpace

# Points of each kind from which the program starts, and solutions of the subproblem among them: the paper's.
_POOL = 10
# Share of nodes and time that is kept for the subproblem of the mean: the paper's.
_SHARE = 0.25


@dataclass(frozen=True)
class PKMIQP:
    """The optimum of an approximate confidence bound by SCIP, then gradients on the true one.

    For the exact Gaussian process with the kernel matern32, matern52 or rbf and the acquisition ucb, in a box, under
    linear and quadratic constraints, with integers and categories. The program starts from the best of samples and, in
    the published form, from solutions of the subproblem that minimises the mean alone; its solutions and the samples
    are then scored by the true bound, and gradients improve the best. The bound is that of the approximation: the true
    score may exceed it. A point that is taken cannot be chosen, but is included in the bound. For grouped_gp and
    add_ucb there is one program for each group of variables, and the bounds are summed; a constraint must lie within
    one group.

    Args:
        gap: Distance of the program's bound to its best value at which it ends, > 0, in standard deviations of the
            results.
        nodes: Nodes of SCIP's tree for each place of the batch, >= 1; then it ends with the gap that is left.
        time_s: Wall time in seconds for each place; None for no limit. A search that it ended cannot be repeated bit
            for bit, and the trial's origin records this.
        form: "r" (the paper): the kernel is linear in pieces of the distance r, and r^2 a quadratic of x; "q": in
            pieces of q = r^2, of which one quadratic serves all inputs.
        exact_gram: True: the covariance of the results is the kernel's own and only k(x, X) is approximated; a
            variance that comes out below zero counts as zero. False: the paper's published form, where the covariance
            is interpolated too and its diagonal raised until the smallest eigenvalue is 1e-6. The program may then
            optimise noise; a remark states the number added.
        tolerance: Pieces on which k~ is off by more, in prior variances, are halved, > 0; None for the paper's pieces,
            which are off by up to 0.11 where length scales are short. A remark states the largest error.
        n_samples: Samples among which the search begins, >= 1.
        n_starts: Number of the points found that gradients improve, >= 1.

    Raises:
        ValueError: a number is out of its range, or SCIP is not installed; names the command that installs it.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.BY_GROUP})
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.EXACT, Capability.OF_MOMENTS, Capability.OPTIMISTIC}
    )

    gap: float = 0.01
    nodes: int = 200_000
    time_s: float | None = 60.0
    form: Literal["r", "q"] = "r"
    exact_gram: bool = True
    tolerance: float | None = 0.025
    n_samples: int = 1024
    n_starts: int = 8

    def __post_init__(self) -> None:
        require("SCIP, which the maximizer pk_miqp needs,", "pyscipopt", extra="scip")
        refuse_non_positive("gap", self.gap)
        refuse_below("nodes", self.nodes, 1)
        for name in ("time_s", "tolerance"):
            if (value := getattr(self, name)) is not None:
                refuse_non_positive(name, value)
        refuse_below("n_starts", self.n_starts, 1)
        Multistart(self.n_samples, self.n_starts)

    def maximize(
        self, score: Score, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None = None
    ) -> Candidates:
        """The batch, place by place (see Maximizer.maximize), each with a certificate of the approximation.

        Raises:
            ValueError: also if the program cannot state the score, the posterior or the space.
        """
        if q < 1:
            raise ValueError(f"q is {q}: a batch has at least one place.")
        if isinstance(score, SeparableScore):
            return self._by_group(score, space, q, rng, taken)
        self.refuse_space(space)
        bound, samples = confidence_bound(score), sobol_points(space, rng)
        chosen = np.empty((0, space.dimension))
        before = chosen if taken is None else taken
        certificates: list[Certificate] = []
        processes: list[PiecewiseProcess] = []
        for slot in range(q):
            processes.append(self._process(bound, chosen, space))
            place = _BatchSlot(bound, processes[-1], slot, chosen, space, np.vstack([before, chosen]), self)
            x, certificate = place.solved(take(samples, self.n_samples))
            chosen = np.vstack([chosen, x])
            certificates.append(certificate)
        return Candidates(chosen, np.array([c.value for c in certificates]), tuple(certificates), _remarks(processes))

    def refuse_space(self, space: SearchSpace) -> None:
        """Accept a space that the program can state.

        Raises:
            ValueError: it is not plain, has images, or whole numbers with a logarithmic scale.
        """
        if space.images:
            raise ValueError(
                f"The maximizer pk_miqp cannot search the {space.dimension} coordinates of a space with images: use "
                "`maximizer: multistart`."
            )
        refuse_folds(space, "pk_miqp")
        refuse_uneven(space, "pk_miqp")

    def _process(self, score: MomentScore, chosen: Array, space: SearchSpace) -> PiecewiseProcess:
        believed = unit_process(score.fantasized(torch.tensor(chosen)), "maximizer pk_miqp", "maximizer: multistart")
        made = self._exact(believed, float(score.optimism or 0.0), space)
        if self.exact_gram:
            return made
        y = (believed.fit.targets - believed.constant).numpy()
        return interpolated([made], [1.0], y, believed.noises)[0]

    def _exact(self, process: UnitProcess, optimism: float, space: SearchSpace) -> PiecewiseProcess:
        return PiecewiseProcess.of(process, optimism, space.bounds, form=self.form, tolerance=self.tolerance)

    def _by_group(
        self, score: SeparableScore, space: SearchSpace, q: int, rng: np.random.Generator, taken: Array | None
    ) -> Candidates:
        """The batch, one program for each group and place."""
        processes: list[PiecewiseProcess] = []

        def prepare(terms: Sequence[ScoreTerm], spaces: Sequence[SearchSpace], slot: int) -> list[Solve]:
            for part in spaces:
                self.refuse_space(part)
            made = self._processes(terms, spaces)
            processes.extend(made)
            triples = zip(terms, made, spaces, strict=True)
            return [self._solve(term, process, part, slot) for term, process, part in triples]

        search = GroupSearch(Allowance(self.gap, self.nodes, self.time_s), self.n_samples, prepare)
        return replace(search.maximize(score, space, q, rng, taken), remarks=_remarks(processes))

    def _processes(self, terms: Sequence[ScoreTerm], spaces: Sequence[SearchSpace]) -> list[PiecewiseProcess]:
        pairs = zip(terms, spaces, strict=True)
        made = [self._exact(term.part, term.optimism, space) for term, space in pairs]
        if self.exact_gram:
            return made
        part = terms[0].part
        variances = [term.part.size**2 for term in terms]
        return interpolated(made, variances, part.fit.targets.numpy(), part.noise_variance * part.size**2)

    def _solve(self, term: ScoreTerm, process: PiecewiseProcess, space: SearchSpace, slot: int) -> Solve:
        """The search of one group. Points gone do not enter its program, which is therefore solved once."""
        known: list[_Searched] = []

        def solve(samples: Array, gone: Array, allowance: Allowance) -> Proven:
            options = replace(self, gap=allowance.gap, nodes=allowance.nodes, time_s=allowance.time_s)
            place = _BatchSlot(term, process, slot, gone[:0], space, gone, options)
            if known:
                x, certificate = place.chosen_from(known[0])
                return x, replace(certificate, nodes=0)
            known.append(place.searched(samples))
            return place.chosen_from(known[0])

        return solve


@dataclass(frozen=True, eq=False)
class _Searched:
    """Programs that were solved, and points (m, d) to choose from: samples and the programs' solutions."""

    programs: list[Solved]
    pool: Array


@dataclass(frozen=True, eq=False)
class _BatchSlot:
    """The search for one place of the batch."""

    score: Score
    process: PiecewiseProcess
    slot: int
    chosen: Array
    space: SearchSpace
    gone: Array
    options: PKMIQP

    def solved(self, samples: Array) -> Proven:
        """The point (d,) of this place and its certificate, from feasible samples (n, d)."""
        return self.chosen_from(self.searched(samples))

    def searched(self, samples: Array) -> _Searched:
        """The programs' solutions, from feasible samples (n, d), with these."""
        ends = None if self.options.time_s is None else time.monotonic() + self.options.time_s
        starts = np.vstack([self._best(samples), samples[:_POOL]])
        programs = (self._clipped if self.process.clipped else self._published)(starts, ends)
        return _Searched(programs, np.vstack([samples, *map(self._repaired, programs)]))

    def chosen_from(self, searched: _Searched) -> Proven:
        """The best point (d,) that is not gone, and its certificate."""
        programs, pool = searched.programs, searched.pool
        local = Multistart(len(pool), min(self.options.n_starts, len(pool)))
        x, value = local.best(self.score, self.space, self.slot, self.chosen, self.gone, pool)
        bounding = programs if self.process.clipped else programs[-1:]
        bound = max(value, *(program.bound for program in bounding))
        nodes = sum(program.nodes for program in programs)
        return x, Certificate(value, bound, self._status(programs, bounding, pool), nodes, "approximate")

    def _clipped(self, starts: Array, ends: float | None) -> list[Solved]:
        """The program, then the subproblem for the points whose variance counts as zero.

        Only values of the subproblem above the program's bound matter.
        """
        found = Program(self.process, self.space).solved(starts, self._effort(1 - _SHARE, 0, ends))
        floor = max(found.bound, float(self.process.value(starts).max()) + self.options.gap)
        left = self._effort(1.0, found.nodes, ends)
        return [found, Program(self.process, self.space, mean_only=True).solved(starts, left, floor)]

    def _published(self, starts: Array, ends: float | None) -> list[Solved]:
        """The subproblem, then the program, from the best of the subproblem's solutions too."""
        mean = Program(self.process, self.space, mean_only=True).solved(starts, self._effort(_SHARE, 0, ends))
        warm = np.vstack([starts, self._repaired(mean)[:_POOL]])
        return [mean, Program(self.process, self.space).solved(warm, self._effort(1.0, mean.nodes, ends))]

    def _effort(self, share: float, spent: int, ends: float | None) -> Effort:
        """A share of the nodes that are left after those ``spent``, and of the time until ``ends``."""
        nodes = max(1, int(share * (self.options.nodes - spent)))
        return Effort(self.options.gap, nodes, None if ends is None else share * (ends - time.monotonic()))

    def _best(self, X: Array) -> Array:
        """The best of X (n, d) by the approximate score, shape (at most 10, d)."""
        return X[np.argsort(-self.process.value(X), kind="stable")[:_POOL]]

    def _repaired(self, found: Solved) -> Array:
        """Solutions of a program as points of the space: SCIP's own are feasible to its tolerances only."""
        return self.space.repair(found.X)

    def _status(self, programs: list[Solved], bounding: list[Solved], pool: Array) -> Status:
        """Reason for the end of the search: "optimal" if the highest bound is within the gap of the best of the pool.

        Otherwise it is the status of the program with that bound. A time limit is reported even if it ended only one
        program, because another run may then find another design.
        """
        if any(program.status == "time_limit" for program in programs):
            return "time_limit"
        worst = max(bounding, key=lambda program: program.bound)
        return "optimal" if worst.bound <= self.process.value(pool).max() + self.options.gap else worst.status


def confidence_bound(score: Score) -> MomentScore:
    """The score as b sd - mean.

    Raises:
        ValueError: it is another function, or b is not finite.
    """
    if not isinstance(score, MomentScore) or score.optimism is None:
        raise ValueError(
            f"The maximizer pk_miqp states the confidence bound as a program, and the score, a {type(score).__name__}, "
            "is another: use the acquisition ucb, or `maximizer: certified`, which takes log_ei and pi too."
        )
    if not math.isfinite(score.optimism):
        raise ValueError(f"The confidence bound takes {score.optimism} standard deviations: give ucb a finite beta.")
    return score


def _remarks(processes: list[PiecewiseProcess]) -> dict[str, str]:
    """Remarks on the largest error of the approximation over the places of a batch."""
    worst = max((process.kernel for process in processes), key=lambda kernel: kernel.error)
    pieces = f"{len(worst.nodes) - 1} pieces in {worst.form}, off by up to {worst.error:.3g} prior variances"
    if all(process.gram == "exact" for process in processes):
        return {"piecewise_kernel": pieces}
    shift = max(process.shift for process in processes)
    said = f"interpolated; {shift:.3g} was added to its diagonal"
    if shift > 0:
        said += ", so that the program may have optimised noise: exact_gram: true does not"
    return {"piecewise_kernel": pieces, "gram_matrix": said}
