"""The one border between data and parts: a specification becomes components, records become arrays."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from fieldcraft.flows.analysis.feasibility import is_infeasible
from fieldcraft.flows.analysis.noise import noisy
from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.jobs.dispatcher import Place
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, Component, ConstraintsSpec, Dispatch, NamedSpec, stored
from fieldcraft.flows.spec.registry import build
from fieldcraft.flows.wiring.compatibility import (
    require_columns,
    require_fit,
    require_no_wall_time,
    require_one_answer,
    require_repeatable,
)
from fieldcraft.flows.wiring.equations import physics_at, same_axes
from fieldcraft.flows.wiring.named_algorithms import MODEL, expanded
from fieldcraft.flows.wiring.written_out import require_true_name, written_out
from fieldcraft.physics.domain import Domain
from fieldcraft.physics.operators import Equation, System
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import SearchSpace
from fieldcraft.storage.records import Brief, Limits, Product, Result, Trial, TrialState, digest_of
from fieldcraft.storage.tracking import Objective

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Answering, Dispatcher
    from fieldcraft.models.algorithm import Algorithm
    from fieldcraft.models.observations import Observations

T = TypeVar("T", Trial, Brief)


@dataclass(frozen=True)
class Campaign:
    """A specification with its components built.

    Args:
        spec: The specification, every default of every component written out.
        settings: Where the stores are.
        problem: What is optimised.
        simulator: What answers a design; None where people do, in a laboratory.
        space: The designs that may be proposed.
        noise_sd: Standard deviation of a reading in the objective's unit; 0 where none is added.
    """

    spec: CampaignSpec
    settings: Settings
    problem: Problem
    simulator: Simulator | None
    space: SearchSpace
    noise_sd: float

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.spec.name

    @cached_property
    def data(self) -> dict[str, Any]:
        """The specification as JSON data, which the ledger stores."""
        return self.spec.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """SHA-256 of ``data``."""
        return digest_of(self.data)

    @cached_property
    def environment(self) -> str:
        """Digest of what its components ran on when they were built (see ``flows.wiring.environment``)."""
        from fieldcraft.flows.wiring.environment import environment_of

        return digest_of(environment_of(self.problem, self.settings.plugins))

    @property
    def limits(self) -> Limits:
        """What may be spent, as the ledger enforces it; for people's time nothing is reserved."""
        budget = self.spec.budget
        return Limits(
            trials=budget.trials,
            cost=budget.cost,
            seconds=None if budget.wall_time_h is None else 3600.0 * budget.wall_time_h,
            attempt_seconds=0.0 if self.dispatcher.by_people else self.spec.dispatcher.wall_time_s,
        )

    @property
    def noisy(self) -> bool:
        """Whether the best reading may be a lucky one, so that the best design is the best by a model."""
        return noisy(self.data, people=self.dispatcher.by_people)

    @cached_property
    def objective(self) -> Objective:
        """What counts as best."""
        return Objective.of([output.name for output in self.problem.outputs], self.spec.sense)

    @cached_property
    def algorithm(self) -> "Algorithm":
        """How designs are chosen; imports torch."""
        from fieldcraft.models.algorithm import Algorithm
        from fieldcraft.models.constraints import Constraints

        part, plugins = self.spec.algorithm, self.settings.plugins
        faults = Faults()

        def built(group: str, component: Component | None, place: str) -> Any:
            with faults.noted():
                return component and build(group, component.model_dump(), plugins, f"algorithm.{place}")

        words = {word: built(f"{word}s", getattr(part, word), word) for word in MODEL}
        kept = {
            word: built(f"{word}s", getattr(part.constraints, word), f"constraints.{word}")
            for word in ConstraintsSpec.model_fields
        }
        proposer = built("proposers", part.start.proposer, "start.proposer")
        faults.tell()
        return Algorithm(initial=proposer, n_initial=part.start.n, constraints=Constraints(**kept), **words)

    @cached_property
    def dispatcher(self) -> "Dispatcher":
        """Where simulations run, or experiments are done."""
        return dispatcher_of(self.name, self.spec.dispatcher, self.settings)

    @property
    def idempotent(self) -> bool:
        """Whether an experiment may be repeated without harm; never where people do it."""
        if self.simulator is not None:
            return self.simulator.idempotent
        return self.answering is not None and self.answering.idempotent

    @property
    def answering(self) -> "Answering | None":
        """The dispatcher where it answers designs itself; None where a simulator or people do."""
        return cast("Answering", self.dispatcher) if getattr(self.dispatcher, "answers", False) else None

    @property
    def known_physics(self) -> tuple[Equation | System, Domain] | None:
        """The equation and its domain where the surrogate learns from them."""
        surrogate, equation, domain = self.algorithm.surrogate, self.problem.equation, self.problem.domain
        if surrogate is None or not surrogate.uses_physics or equation is None or domain is None:
            return None
        return (equation, domain) if same_axes(domain, self.space) else None


def wire(spec: CampaignSpec | NamedSpec, settings: Settings, *, algorithm: bool = True) -> Campaign:
    """Build the components of a specification and write every default out.

    Args:
        spec: The specification; a sentence in it is expanded.
        settings: Where further kinds are looked up.
        algorithm: Build the algorithm too, which validates its words and imports torch.

    Raises:
        InputError: an unknown kind, a misspelt or impossible option, bounds outside the problem's, noise that cannot
            be known, words that do not fit each other, the problem or the dispatcher or that are not what ``named``
            stands for, or names that a laboratory's tables cannot bear.
    """
    campaign = _wired(spec, settings, algorithm)
    if campaign.answering is not None:
        campaign.answering.require(campaign.problem)
    if algorithm and isinstance(spec, CampaignSpec):
        require_true_name(campaign)
    return campaign


def _wired(spec: CampaignSpec | NamedSpec, settings: Settings, algorithm: bool) -> Campaign:
    problem: Problem = build("problems", spec.problem.model_dump(), settings.plugins, "problem")
    faults, space, noise_sd = Faults(), problem.space, 0.0
    with faults.noted():
        space = _space(spec, problem)
    if isinstance(spec, NamedSpec):
        spec = expanded(spec, space.dimension, settings.plugins)
    dispatcher, simulator = dispatcher_of(spec.name, spec.dispatcher, settings), None
    with faults.noted():
        noise_sd = _noise_sd(spec, problem)
    with faults.noted():
        simulator = _simulator(spec, settings, dispatcher)
    campaign = Campaign(spec, settings, problem, simulator, space, noise_sd)
    if dispatcher.by_people:
        with faults.noted():
            require_columns(problem)
    if algorithm:
        with faults.noted():
            require_fit(campaign)
    faults.tell()
    return dataclasses.replace(campaign, spec=written_out(campaign)) if algorithm else campaign


def _space(spec: CampaignSpec | NamedSpec, problem: Problem) -> SearchSpace:
    try:
        return problem.space.narrowed(spec.space) if spec.space else problem.space
    except ValueError as error:
        raise InputError(f"space: {error}") from None


def rewire(data: Mapping[str, Any], settings: Settings, *, algorithm: bool = True) -> Campaign:
    """The campaign whose specification the ledger stores.

    Raises:
        InputError: the code or the plug-ins no longer know one of its kinds or options.
    """
    return _wired(stored(data, f"campaign {data.get('name')}"), settings, algorithm)


def dispatcher_of(name: str, chosen: Dispatch, settings: Settings) -> "Dispatcher":
    """The dispatcher of a campaign, of which nothing but its name and this part of its specification is needed.

    Raises:
        InputError: no such kind, or it has no such option.
    """
    place = Place(
        campaign=name,
        folder=settings.work / name,
        wall_time_s=chosen.wall_time_s,
        instructions=chosen.instructions,
        orders=(settings.lab or settings.home / "lab") / name,
        webhook=settings.lab_url,
        webhook_token=settings.webhook_token,
        settings=settings,
    )
    component, common = {"kind": chosen.kind, **chosen.options}, list(Dispatch.model_fields)
    made: Dispatcher = build(
        "dispatchers", component, settings.plugins, "dispatcher", given={"place": place}, beside=common
    )
    return made


def _simulator(spec: CampaignSpec, settings: Settings, dispatcher: "Dispatcher") -> Simulator | None:
    within_pass: bool = getattr(dispatcher, "within_pass", False)
    faults = Faults()
    with faults.noted():
        if dispatcher.by_people:
            require_no_wall_time(spec, "people do the experiments, and nothing ends their work at a limit")
        if within_pass:
            require_no_wall_time(spec, "simulations run within the pass, and nothing ends one at a limit")
    with faults.noted():
        require_one_answer(spec, dispatcher)
    faults.tell()
    if spec.simulator is None:
        return None
    made: Simulator = build("simulators", spec.simulator.model_dump(), settings.plugins, "simulator")
    if within_pass:
        require_repeatable(spec, made)
    return made


def _noise_sd(spec: CampaignSpec, problem: Problem) -> float:
    if spec.noise is None or spec.noise.fitted:
        return 0.0
    if spec.noise.sd is not None:
        return spec.noise.sd
    assert spec.noise.of_sd is not None  # the specification has exactly one of the three
    if problem.sd is None:
        raise InputError(
            f"noise.of_sd: {spec.noise.of_sd} of a standard deviation that problem {spec.problem.kind!r} does not "
            f"state. Give noise.sd in {problem.outputs[0].unit or 'its unit'} instead."
        )
    return spec.noise.of_sd * problem.sd


def successful(trials: Sequence[T]) -> list[T]:
    """The trials a surrogate learns from, by number."""
    return [trial for trial in trials if trial.state is TrialState.COMPLETED and trial.outputs is not None]


def standing(readings: Iterable[Result]) -> dict[str, Result]:
    """The result that counts of each trial, by its id: the last one accepted, or the retraction after it."""
    return {result.trial: result for result in readings if result.verdict in ("accepted", "retraction")}


def as_read(trials: Sequence[T], results: Mapping[str, Result]) -> list[T]:
    """The trials as these results have them, by number; a trial without a result, or retracted, is left out."""
    read = [(trial, results[trial.id]) for trial in trials if trial.id in results]
    return [_with(trial, result) for trial, result in read if result.verdict != "retraction"]


def _with(trial: T, result: Result) -> T:
    if isinstance(trial, Brief):
        return trial._replace(outputs=result.outputs, ran=result.ran)
    return trial.model_copy(update={"outputs": result.outputs, "field": result.field, "ran": result.ran})


def seen_by(product: Product, trials: Sequence[T], readings: Iterable[Result]) -> list[T]:
    """The trials that a trained model saw, with the very results it saw, whatever was corrected since."""
    if (ids := product.payload.get("results")) is None:  # written by a version that had no corrections
        named = set(product.payload["trials"])
        return [trial for trial in trials if trial.id in named]
    seen = set(ids)
    return as_read(trials, {result.trial: result for result in readings if result.id in seen})


def saw_all(product: Product, trials: Sequence[Trial | Brief], counting: Collection[int]) -> bool:
    """Whether a trained model saw every result that counts now (``Ledger.standing``) and every infeasible design."""
    known, failed = set(product.payload.get("results", ())), set(product.payload.get("failed", ()))
    return known == set(counting) and failed == {trial.id for trial in trials if is_infeasible(trial)}


def data_of(
    campaign: Campaign, product: Product, seen: Sequence[Trial | Brief], points: np.ndarray | None
) -> "Observations":
    """What a trained model saw: these trials, these collocation points and the infeasible designs of that time.

    A model of a version that knew of no constraints had learnt the objective alone.
    """
    failed = product.payload.get("failed")
    data = observations(campaign, seen, points, list((failed or {}).values()))
    return data.objective if failed is None else data


def infeasible(trials: Sequence[T]) -> list[T]:
    """The trials whose designs are themselves the reason why there is no result, by number."""
    return [trial for trial in trials if is_infeasible(trial)]


def observations(
    campaign: Campaign,
    trials: Sequence[Trial | Brief],
    points: np.ndarray | None,
    failed: Sequence[Mapping[str, Any]] = (),
) -> "Observations":
    """What a surrogate learns from.

    Args:
        campaign: The campaign.
        trials: Its trials with outputs, as they were really run.
        points: Collocation points, shape (r, d); None for none.
        failed: Designs that are infeasible.
    """
    from fieldcraft.models.observations import Observations

    done = [trial for trial in trials if trial.outputs is not None]
    known = campaign.known_physics
    physics = None if points is None or known is None else physics_at(known[0], campaign.space, points)
    outputs = [trial.outputs or {} for trial in done]
    return Observations(
        X=campaign.space.encode([trial.actual for trial in done]),
        y=np.array([each[campaign.objective.output] for each in outputs]),
        constraints=np.array([[each[name] for name in campaign.objective.constraints] for each in outputs]),
        failed=campaign.space.encode(failed) if failed else np.empty((0, campaign.space.dimension)),
        maximize=campaign.objective.maximize,
        noise_sd=None if campaign.spec.noise is None or campaign.spec.noise.fitted else campaign.noise_sd,
        exact=not campaign.noisy,
        physics=physics,
        images=campaign.space.images,
        columns=campaign.space.columns,
        space=campaign.space,
    )
