"""A campaign: its specification together with the components built from it."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.analysis.noise import noisy, noisy_constraints
from fieldcraft.flows.errors import Faults, FieldcraftError, InputError, at
from fieldcraft.flows.jobs.dispatcher import Place, answering
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, Component, ConstraintsSpec, Dispatch
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.flows.spec.registry import build
from fieldcraft.flows.wiring.environment import outputs_of
from fieldcraft.flows.wiring.levels.built import BuiltLevel
from fieldcraft.flows.wiring.named_algorithms import GROUPS
from fieldcraft.flows.wiring.physics.exact_outputs import spreads
from fieldcraft.models.capability import require_known
from fieldcraft.models.data.level_start import nested_start
from fieldcraft.physics.domain import Domain, same_axes
from fieldcraft.physics.operators import Equation, System
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import Design, SearchSpace
from fieldcraft.storage.records import SETTLED, Limits, TrialState, TrialSummary, digest_of
from fieldcraft.storage.trackers.campaigns import Objective

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Answering, Dispatcher
    from fieldcraft.models.algorithm import Algorithm


# While every design was infeasible the start goes on to so many times its number, and at least to so many designs: with
# a feasible share of a fifth, 20 designs miss it once in 87 campaigns, and four designs in two of five.
_LONGER_START, _LEAST_LONGER_START = 5, 20


@dataclass(frozen=True)
class KnownPhysics:
    """Physics of the objective as its problem states it.

    Args:
        equation: The equation.
        domain: Domain on which it holds; its axes are the design's variables.
        conditions: Conditions on sides of the domain.
    """

    equation: Equation | System
    domain: Domain
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Campaign:
    """A specification with its components built.

    Args:
        spec: The specification, every default of every component written out.
        settings: Settings, with the places of the stores.
        problem: Problem that is optimised.
        simulator: Simulator that evaluates a design; None where people or the dispatcher itself do.
        dispatcher: Dispatcher that runs the simulations, or has people do the experiments.
        space: Search space of the designs that may be proposed.
        noise_sd: Standard deviation of the noise that is added to a result, in the objective's unit; 0 where none is.
        levels: Coarser and cheaper levels of the simulator, by number.
        accept: Check of an algorithm that is built when it is first asked for; None where it was checked before.
    """

    spec: CampaignSpec
    settings: Settings
    problem: Problem
    simulator: Simulator | None
    dispatcher: "Dispatcher"
    space: SearchSpace
    noise_sd: float
    levels: tuple[BuiltLevel, ...] = ()
    accept: "Callable[[Campaign], None] | None" = None

    def with_spec(self, spec: CampaignSpec) -> "Campaign":
        """Return the campaign with another specification of the same components; none of them is built again."""
        return dataclasses.replace(self, spec=spec)._of(self.algorithm)

    def _of(self, algorithm: "Algorithm") -> "Campaign":
        """The campaign, its algorithm built."""
        vars(self)["algorithm"] = algorithm
        return self

    @property
    def name(self) -> str:
        """Name of the campaign."""
        return self.spec.name

    @cached_property
    def data(self) -> dict[str, Any]:
        """The specification as JSON data, as the ledger stores it."""
        return self.spec.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """SHA-256 of ``data``."""
        return digest_of(self.data)

    @cached_property
    def environment(self) -> str:
        """Digest of the environment in which its components were built (see ``flows.wiring.environment``)."""
        from fieldcraft.flows.wiring.environment import environment_of

        return digest_of(environment_of(self.problem, self.settings.plugins))

    @property
    def limits(self) -> Limits:
        """Limits of the budget, as the ledger enforces them; where people do the experiments, no time is reserved."""
        budget = self.spec.budget
        return Limits(
            trials=budget.trials,
            cost=budget.cost,
            seconds=None if budget.wall_time_h is None else 3600.0 * budget.wall_time_h,
            attempt_seconds=0.0 if self.dispatcher.by_people else self.spec.dispatcher.wall_time_s,
        )

    @property
    def noisy(self) -> bool:
        """True if results are noisy: the best result may be a lucky one, so a model tells the best design."""
        return noisy(self.data, outputs_of(self.problem), people=self.dispatcher.by_people)

    @cached_property
    def constraint_sds(self) -> tuple[float, ...]:
        """Standard deviations of the noise that is added to the constraints, in their units; empty where none is.

        Raises:
            InputError: noise is asked for, and the problem has no constraints or does not know them exactly.
        """
        noise = self.spec.noise
        if noise is None or not noise.constraints or noise.of_sd is None:
            return ()
        if not self.objective.constraints or self.objective.goals:
            raise InputError(f"noise.constraints: problem {self.spec.problem.kind!r} has no constraints. Leave it out.")
        found = spreads(self.problem)
        if found is None:
            raise InputError(
                f"noise.constraints: {noise.of_sd} of the constraints' standard deviations, and problem "
                f"{self.spec.problem.kind!r} does not know its constraints exactly. State the noise of its outputs as "
                "their sd."
            )
        return tuple(noise.of_sd * sd for sd in found[1:])

    @property
    def added_sds(self) -> dict[str, float]:
        """Standard deviation of the noise that is added to each output; the objective first, then the constraints."""
        if not self.noise_sd:
            return {}
        constraints = zip(self.objective.constraints, self.constraint_sds, strict=False)
        return {self.objective.output: self.noise_sd, **dict(constraints)}

    @property
    def noisy_constraints(self) -> bool:
        """True if results of the constraints are noisy."""
        return noisy_constraints(self.data, outputs_of(self.problem), people=self.dispatcher.by_people)

    @cached_property
    def objective(self) -> Objective:
        """The objectives: their outputs and directions, and the outputs that are constraints."""
        return Objective.of(outputs_of(self.problem), self.spec.sense)

    @property
    def chooses(self) -> bool:
        """True if designs after the start are chosen from the results."""
        part = self.spec.algorithm
        return part.surrogate is not None or part.peer is not None

    @cached_property
    def start(self) -> Mapping[int | None, int]:
        """Number of designs that the start runs at each level, the cheapest first and the target, None, last."""
        return nested_start(self.spec.algorithm.start.n, [level.cost for level in self.levels])

    def share(self, level: int | None) -> float:
        """Expected cost of a run at a level, as a share of that of a run of the simulator as it stands, level None."""
        return 1.0 if level is None else self.level(level).cost

    def cost(self, design: Design, level: int | None = None) -> float:
        """Expected cost of a design at a level, in the budget's unit.

        Raises:
            InputError: the problem's code fails, or tells no finite number >= 0.
        """
        with at("problem"), asked(type(self.problem), "tell the cost of a design"):
            found = self.problem.cost(design)
            if not isinstance(found, Real) or not math.isfinite(found) or found < 0:
                raise ValueError(f"its cost is {found!r}: give a finite number >= 0")
        return float(found) * self.share(level)

    def level(self, number: int) -> BuiltLevel:
        """A level by its number.

        Raises:
            FieldcraftError: the campaign has no such level.
        """
        if number >= len(self.levels):
            raise FieldcraftError(
                f"A trial of {self.name} is of level {number}, and the campaign has {len(self.levels)} levels: the "
                "ledger was changed by something else. 'fieldcraft doctor' names the trial."
            )
        return self.levels[number]

    def start_left(self, trials: Sequence[TrialSummary]) -> Mapping[int | None, int]:
        """Number of designs of the start without a trial that counts, by level; levels without any are left out.

        The target goes on with the sequence while all its runs ended without a result: where the simulator has levels,
        as a start without levels would; and where designs were infeasible and nothing else is to be mended, to five
        times the start, at least 20, so that a small feasible region can be found.
        """
        counted = Counter(trial.level for trial in trials if trial.state is not TrialState.REJECTED)
        left = {level: n - counted[level] for level, n in self.start.items() if n > counted[level]}
        own = [trial for trial in trials if trial.level is None]
        if left or any(trial.counts or trial.state not in SETTLED for trial in own):
            return left
        n = self.spec.algorithm.start.n
        infeasible = [trial for trial in own if trial.failure == "infeasible"]
        given_up = sum(trial.state in (TrialState.ABANDONED, TrialState.REJECTED) for trial in own)
        if infeasible and len(infeasible) + given_up == len(own):
            n = max(_LONGER_START * n, _LEAST_LONGER_START)
        rest = min(self.spec.batch, n - counted[None])
        return {None: rest} if rest > 0 else left

    @cached_property
    def algorithm(self) -> "Algorithm":
        """The algorithm that chooses designs; imports torch.

        Raises:
            InputError: the code or the plug-ins no longer know one of its words, or the words no longer fit.
        """
        made = self._algorithm()
        if self.accept is not None:
            self.accept(dataclasses.replace(self, accept=None)._of(made))
        return made

    def _algorithm(self) -> "Algorithm":
        from fieldcraft.models.algorithm import Algorithm
        from fieldcraft.models.constraints import Constraints

        part, plugins = self.spec.algorithm, self.settings.plugins
        faults = Faults()

        def built(group: str, component: Component | None, place: str) -> Any:
            if component is None:
                return None
            with faults.noted():
                made = build(group, component.model_dump(), plugins, f"algorithm.{place}")
                with at(f"algorithm.{place}"), asked(type(made), "say what it provides and requires"):
                    require_known(made)
                return made

        words = {word: built(group, getattr(part, word), word) for word, group in GROUPS.items()}
        kept = {
            word: built(f"{word}s", getattr(part.constraints, word), f"constraints.{word}")
            for word in ConstraintsSpec.model_fields
        }
        proposer = built("proposers", part.start.proposer, "start.proposer")
        faults.tell()
        return Algorithm(
            initial=proposer, n_initial=part.start.n, constraints=Constraints(**kept), repeats=part.repeats, **words
        )

    @property
    def idempotent(self) -> bool:
        """True if an experiment may be repeated without harm; False where people do it."""
        if self.simulator is not None:
            return self.simulator.idempotent
        return self.answering is not None and self.answering.idempotent

    @property
    def answering(self) -> "Answering | None":
        """The dispatcher where it evaluates designs itself; None where a simulator or people do."""
        return answering(self.dispatcher)

    @property
    def known_physics(self) -> KnownPhysics | None:
        """The equation, its domain and the conditions where the surrogate learns from them."""
        surrogate, equation, domain = self.algorithm.surrogate, self.problem.equation, self.problem.domain
        if surrogate is None or not surrogate.uses_physics or equation is None or domain is None:
            return None
        return KnownPhysics(equation, domain, self.problem.conditions) if same_axes(domain, self.space) else None


def dispatcher_of(name: str, chosen: Dispatch, settings: Settings) -> "Dispatcher":
    """Build the dispatcher of a campaign; it needs only the campaign's name and this part of the specification.

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
        parallel=chosen.parallel,
        settings=settings,
    )
    component, common = {"kind": chosen.kind, **chosen.options}, list(Dispatch.model_fields)
    made: Dispatcher = build(
        "dispatchers", component, settings.plugins, "dispatcher", given={"place": place}, beside=common
    )
    return made
