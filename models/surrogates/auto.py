"""Choice by evidence: several surrogates are fitted, and the one that predicts unseen results best proposes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability, required
from fieldcraft.models.levels.process import LevelsPosterior
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.digests import refuse_other_data
from fieldcraft.models.numerics.milestones import EVERY_TRIAL_TO, ByDigest, milestone, thinned
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.selection.contest import Chosen, Contest
from fieldcraft.models.selection.predictive_score import score
from fieldcraft.models.surrogate import Posterior, Report, Surrogate, no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.field_ensemble import FieldEnsemble
from fieldcraft.models.surrogates.field_pod import FieldPod
from fieldcraft.models.surrogates.multilevel_gp import MultilevelGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.models.surrogates.reduced_basis import ReducedBasis
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.warm_gp import WarmGP

_KNOWN: Mapping[str, Surrogate] = {
    "exact_gp": ExactGP(restarts=1),
    "additive_gp": AdditiveGP(),
    "sampled_linear": SampledLinear(),
    "warm_gp": WarmGP(),
    "multilevel_gp": MultilevelGP(),
    "emulated_gp": EmulatedGP(restarts=0),
    "emulated_field": EmulatedField(),
    "field_pod": FieldPod(stand_in=False),
    "field_ensemble": FieldEnsemble(stand_in=False),
    "reduced_basis": ReducedBasis(),
    "physics_informed/basis": PhysicsInformed(engine="basis"),
    "physics_informed/kernel": PhysicsInformed(engine="kernel"),
    "physics_informed/ntk": PhysicsInformed(engine="ntk"),
    "physics_informed/trained": PhysicsInformed(engine="trained"),
}
_EMULATED = frozenset({"multilevel_gp", "emulated_gp", "emulated_field", "reduced_basis"})
_FIELDS = frozenset({"multilevel_gp", "emulated_field", "field_pod", "field_ensemble", "reduced_basis"})
_ALWAYS = ("exact_gp", "additive_gp", "sampled_linear")
_EQUATION = ("physics_informed/basis", "physics_informed/kernel")
# Candidates whose fits take seconds at most. Above 50 trials they are judged at milestones only, by so many trials.
_QUICK = frozenset(_ALWAYS)
_JUDGED = 512
# Correlation of a coarser level and the target from which on a model learns from it.
_ALIKE = 0.5
# Networks take 7 s to train on 100 results, and are left out where there are many.
_UNSTATED = ("field_pod", "field_ensemble")
# Steps of the golden ratio fill the unit interval evenly, whatever the batch by which the trials grow.
_GOLDEN = (math.sqrt(5) - 1) / 2
_DOUBTED = frozenset(name for name, surrogate in _KNOWN.items() if surrogate.uses_physics)


@dataclass(frozen=True)
class Auto:
    """Fit every candidate that applies, judge each by its predictions of results it has not seen, keep the best.

    The score is the sum over the trials of the leave-one-out log predictive density, in nats, of standardised targets:
    in closed form where the posterior has one, else by ``folds`` refits. A candidate whose fit is refused is out, with
    the reason in the posterior's ``remarks``; ``chosen`` there is the winner; its metrics have each ``score.NAME``.

    Without an equation, the candidates are judged at every trial up to 50 and then at growths of 10%, by at most 512 of
    the trials, evenly spaced; between these only the best is fitted.

    A surrogate that learns from an equation is judged only by its predictions, and must be 3 nats better than the
    others, which seldom happens by chance: a wrong equation loses as soon as the trials contradict it. If solutions of
    the wrong equation pass through the trials as easily as any other function, as those of Laplace's do with a dozen
    trials in the plane, no trial contradicts it and it may win.

    Where runs left fields and no equation of them is stated, the better one of field_pod and field_ensemble proposes
    in about every second iteration, whatever the others' scores: these sum over all results, and do not tell what
    fields teach of the designs beside the best. Above 50 trials field_ensemble is no candidate.

    multilevel_gp is out while the cheapest level that it uses is correlated with the target by less than 0.5.

    Args:
        candidates: Names of surrogates, with the engine after a slash; empty for exact_gp, additive_gp and
            sampled_linear, with results of an earlier campaign warm_gp, with results of
            coarser levels multilevel_gp, with an emulator of the outputs emulated_gp
            (and with the stored fields of its equation emulated_field, and reduced_basis where the problem states its
            discrete equations), with stored fields of which no equation is stated field_pod and field_ensemble, which
            take turns, and with an equation for the objective physics_informed/basis and physics_informed/kernel too
            (both learn from a linear one, basis from one for the objective alone, in few variables). Where names are
            given none takes turns.
        folds: Refits of a candidate without a closed form, at least 2.

    Raises:
        ValueError: an unknown name, one name twice, or folds < 2.
    """

    candidates: tuple[str, ...] = ()
    folds: int = 5

    def __post_init__(self) -> None:
        unknown = [name for name in self.candidates if name not in _KNOWN]
        if unknown:
            raise ValueError(f"There is no candidate {unknown[0]!r}: choose from {', '.join(_KNOWN)}.")
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"One of the candidates {', '.join(self.candidates)} is given twice: give it once.")
        refuse_below("folds", self.folds, 2)

    @property
    def uses_physics(self) -> bool:
        """True if a candidate learns from an equation."""
        return not self.candidates or any(_KNOWN[name].uses_physics for name in self.candidates)

    @property
    def uses_emulator(self) -> bool:
        """True if a candidate learns from an emulator."""
        return not self.candidates or not _EMULATED.isdisjoint(self.candidates)

    @property
    def uses_earlier(self) -> bool:
        """True if a candidate learns from an earlier campaign."""
        return not self.candidates or "warm_gp" in self.candidates

    @property
    def uses_levels(self) -> bool:
        """True if a candidate learns from coarser levels."""
        return not self.candidates or "multilevel_gp" in self.candidates

    @property
    def weighs_results(self) -> bool:
        """True if exact_gp is a candidate; while another one is the best, results are not weighed."""
        return not self.candidates or "exact_gp" in self.candidates

    @property
    def uses_fields(self) -> bool:
        """True if a candidate learns from stored fields."""
        return not self.candidates or not _FIELDS.isdisjoint(self.candidates)

    @property
    def provides(self) -> frozenset[Capability]:
        """BOUNDS_REGRET if reduced_basis is a candidate: a campaign has a certificate while that is the best."""
        return frozenset({Capability.BOUNDS_REGRET} if "reduced_basis" in (self.candidates or _KNOWN) else ())

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities that all candidates need, such as EQUATION; mostly none."""
        each = [required(_KNOWN[name]) for name in self.candidates]
        return frozenset.intersection(*each) if each else frozenset()

    def refuse(self, physics: Physics) -> None:
        """Accept an equation that one of the candidates which learn from equations can learn from.

        Raises:
            ValueError: none of them can, each with its reason.
        """
        names = [name for name in self.candidates or _EQUATION if _KNOWN[name].uses_physics]
        refused = {name: reason for name in names if (reason := _refusal(name, physics)) is not None}
        if len(refused) == len(names):
            raise ValueError(" ".join(f"{name}: {reason}" for name, reason in refused.items()))

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> Chosen:
        """Fit and judge the candidates, one after the other (see Surrogate.fit).

        Raises:
            ValueError: no candidate could be fitted, or ``start`` is of other data.
        """
        names = self._names(data)
        if len(data) > EVERY_TRIAL_TO and set(names) <= _QUICK:
            if start is not None:
                refuse_other_data(data, start)
            return self._by_milestone(names, data, rng, report)
        seeds = rng.integers(2**63 - 1, size=(len(names), 2)).tolist()
        contest = _contest(data, self._turn(data)) if start is None else self._restored(data, start)
        for name, (fitting, judging) in zip(names, seeds, strict=True):
            if contest.knows(name):
                continue
            surrogate, relay = _KNOWN[name], contest.relayed(name, report)
            try:
                posterior = surrogate.fit(data, np.random.default_rng(fitting), contest.begun(name), relay)
                worth = score(surrogate, posterior, data, self.folds, np.random.default_rng(judging))
                _refuse_unlike(posterior)
            except ValueError as error:
                contest = contest.without(name, str(error))
            else:
                contest = contest.judged(name, posterior, worth)
            report(len(contest.scores) + len(contest.refused), contest.metrics, contest.state)
        return contest.chosen()

    def _by_milestone(
        self, names: tuple[str, ...], data: Observations, rng: np.random.Generator, report: Report
    ) -> Chosen:
        """Fit the candidate that was best at the last milestone; the next best if its fit is refused."""
        first = data.first(milestone(len(data)))
        rows = thinned(len(first), _JUDGED)
        told = first.among(rows)
        contest = replace(judged(ByDigest.of(told), names, self.folds), data=data)
        seeds = dict(zip(names, rng.integers(2**63 - 1, size=len(names)).tolist(), strict=True))
        for name in contest.ranking:
            try:
                posterior = _KNOWN[name].fit(
                    data, np.random.default_rng(seeds[name]), None, contest.relayed(name, report)
                )
            except ValueError as error:
                contest = contest.without(name, str(error))
            else:
                contest = replace(contest, leader=(name, posterior))
                report(len(contest.scores) + len(contest.refused), contest.metrics, contest.state)
                break
        return contest.chosen()

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> Chosen:
        """The posterior whose state this was (see Surrogate.restore)."""
        return self._restored(data, state).chosen()

    def _restored(self, data: Observations, state: Mapping[str, Tensor]) -> Contest:
        return Contest.of(data, state, _KNOWN, _DOUBTED, self._turn(data))

    def _turn(self, data: Observations) -> frozenset[str]:
        """Candidates whose turn it is, a function of the number of trials."""
        if self.candidates or data.snapshots is None or data.snapshots.predict is not None:
            return frozenset()
        return frozenset(_UNSTATED if len(data) * _GOLDEN % 1 < 0.5 else ())

    def _names(self, data: Observations) -> tuple[str, ...]:
        if self.candidates:
            return self.candidates
        emulated = ("warm_gp",) if data.earlier else ()
        emulated = (*emulated, "multilevel_gp") if data.lower else emulated
        emulated = (*emulated, "emulated_gp") if data.emulators else emulated
        fields: tuple[str, ...] = ()
        if data.snapshots is not None:
            unstated = _UNSTATED if len(data) <= EVERY_TRIAL_TO else _UNSTATED[:1]
            fields = unstated if data.snapshots.predict is None else ("emulated_field",)
            if data.snapshots.discrete is not None:
                fields = (*fields, "reduced_basis")
        return (*_ALWAYS, *emulated, *fields, *(() if data.physics is None else _EQUATION))


@lru_cache(maxsize=64)
def judged(trials: ByDigest, names: tuple[str, ...], folds: int) -> Contest:
    """Scores of candidates, without their posteriors; a function of the trials alone."""
    data = trials.data
    contest = _contest(data)
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        try:
            posterior = _KNOWN[name].fit(data, rng, None, no_report)
            contest = contest.judged(name, posterior, score(_KNOWN[name], posterior, data, folds, rng))
        except ValueError as error:
            contest = contest.without(name, str(error))
    return replace(contest, leader=None)


def _contest(data: Observations, turn: frozenset[str] = frozenset()) -> Contest:
    """A contest that nobody has taken part in."""
    return Contest(data, _DOUBTED, turn, surrogates=_KNOWN)


def _refuse_unlike(posterior: Posterior) -> None:
    """Accept a posterior, unless it rests on levels that are unlike the target: it is then one without levels."""
    if isinstance(posterior, LevelsPosterior) and posterior.likeness < _ALIKE:
        raise ValueError(f"the correlation of level {posterior.levels[0]} and the target is {posterior.likeness:.2g}")


def _refusal(name: str, physics: Physics) -> str | None:
    """Reason why a candidate cannot learn from an equation; None if it can."""
    surrogate = _KNOWN[name]
    assert isinstance(surrogate, PhysicsInformed)  # no other candidate uses an equation
    try:
        surrogate.refuse(physics)
    except ValueError as error:
        return str(error)
    return None
