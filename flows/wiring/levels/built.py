"""Levels of a campaign's simulator, built and checked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, Component
from fieldcraft.flows.spec.levels import LevelSpec
from fieldcraft.flows.spec.registry import build, options_of
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.storage.records import canonical

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Dispatcher


@dataclass(frozen=True)
class BuiltLevel:
    """A level of a campaign's simulator.

    Args:
        cost: Expected cost of a run, as a share of the target's.
        component: The simulator with all options of this level.
        simulator: The same, built.
    """

    cost: float
    component: Component
    simulator: Simulator


def levels_of(
    spec: CampaignSpec, problem: Problem, target: Simulator | None, dispatcher: "Dispatcher", settings: Settings
) -> tuple[BuiltLevel, ...]:
    """Build the levels of a specification, by rising cost.

    Args:
        spec: The specification.
        problem: Its problem.
        target: Its simulator as it stands; None where it has none.
        dispatcher: Its dispatcher.
        settings: Settings, whose plug-in directories hold further kinds.

    Raises:
        InputError: nothing is simulated by a simulator of the campaign file, there are several objectives, the budget
            has no limit of cost, the simulator does not have an option, or two levels are equal.
    """
    if not spec.levels:
        return ()
    faults = Faults()
    with faults.noted():
        _require_simulator(spec, dispatcher)
    with faults.noted():
        if problem.objectives:
            raise InputError(
                f"levels: the problem has {len(problem.objectives)} objectives, and a level is chosen by what it tells "
                "of one. Leave levels out."
            )
    with faults.noted():
        if spec.budget.cost is None:
            raise InputError(
                "budget.cost: missing. Runs of `levels` do not count towards budget.trials: give the cost of all runs "
                "together, where a run of the simulator as it stands costs what the problem states, most often 1."
            )
    made = list[BuiltLevel]()
    if spec.simulator is not None and target is not None:
        for number, level in enumerate(spec.levels):
            with faults.noted():
                made.append(_built(level, number, spec.simulator, target, settings))
        with faults.noted():
            _require_different(made, target)
    faults.tell()
    return tuple(sorted(made, key=lambda level: (level.cost, canonical(level.component.model_dump()))))


def shortened(levels: tuple[BuiltLevel, ...], target: Component) -> tuple[LevelSpec, ...]:
    """Levels as the ledger stores them: each cost, and the options that differ from the target's."""
    whole = target.model_dump()
    return tuple(
        LevelSpec.model_validate(
            {name: value for name, value in level.component.model_dump().items() if whole.get(name) != value}
            | {"cost": level.cost}
        )
        for level in levels
    )


def _built(level: LevelSpec, number: int, target: Component, simulator: Simulator, settings: Settings) -> BuiltLevel:
    where = f"levels.{number}"
    if not level.options:
        raise InputError(
            f"{where}: no option of the simulator {target.kind!r} is given. Say what is coarser, such as its number of "
            "cells."
        )
    given = {**options_of(target.kind, simulator), **level.options}
    made: Simulator = build("simulators", given, settings.plugins, where, beside=["cost"])
    return BuiltLevel(level.cost, Component.model_validate(options_of(target.kind, made)), made)


def _require_simulator(spec: CampaignSpec, dispatcher: "Dispatcher") -> None:
    if spec.simulator is None:
        who = "people do the experiments" if dispatcher.by_people else "no simulator of the campaign file runs"
        raise InputError(
            f"levels: with the dispatcher {spec.dispatcher.kind!r} {who}, and only a simulator has levels. Leave "
            "levels out."
        )


def _require_different(made: list[BuiltLevel], target: Simulator) -> None:
    seen = [(target, "the simulator as it stands")]
    for number, level in enumerate(made):
        equal = [name for other, name in seen if other == level.simulator]
        if equal:
            raise InputError(
                f"levels.{number}: its options are those of {equal[0]}. Give it other options, or leave it out."
            )
        seen.append((level.simulator, f"levels.{number}"))
