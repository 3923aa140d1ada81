"""Construction of a campaign's components from its specification, with every default written out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.jobs.dispatcher import within_pass
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, NamedSpec, stored
from fieldcraft.flows.spec.registry import build
from fieldcraft.flows.wiring.campaign import Campaign, dispatcher_of
from fieldcraft.flows.wiring.compatibility import (
    require_columns,
    require_fit,
    require_no_wall_time,
    require_one_answer,
    require_repeatable,
)
from fieldcraft.flows.wiring.environment import require_recorded
from fieldcraft.flows.wiring.fit.derived import require_outputs
from fieldcraft.flows.wiring.levels.built import BuiltLevel, levels_of
from fieldcraft.flows.wiring.named_algorithms import expanded
from fieldcraft.flows.wiring.objectives import require_sense
from fieldcraft.flows.wiring.warm.sources import require_earlier
from fieldcraft.flows.wiring.written_out import require_true_name, written_out
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import SearchSpace
from fieldcraft.storage.records import CampaignRecord

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Dispatcher


def wire(spec: CampaignSpec | NamedSpec, settings: Settings, *, algorithm: bool = True) -> Campaign:
    """Build the components of a specification, check that they fit, and write every default out.

    Args:
        spec: The specification; a named algorithm in it is expanded.
        settings: Settings, whose plug-in directories hold further kinds.
        algorithm: True to build the algorithm too, which validates its words and imports torch; else that is done
            when it is first asked for.

    Raises:
        InputError: an unknown kind, a misspelt or impossible option, bounds outside the problem's, noise whose
            standard deviation is not stated, words of the algorithm that do not fit each other, the problem or the
            dispatcher, words that differ from what ``named`` stands for, names that a laboratory's table cannot
            have as columns, or an earlier campaign that is not there or has other variables.
    """
    campaign = assemble(spec, settings, algorithm=algorithm)
    if campaign.answering is not None:
        campaign.answering.require(campaign.problem)
    require_earlier(campaign)
    if algorithm and isinstance(spec, CampaignSpec):
        require_true_name(campaign)
    return campaign


def rewire(data: Mapping[str, Any], settings: Settings, *, algorithm: bool = True) -> Campaign:
    """Build the campaign of a specification that the ledger stores.

    Raises:
        InputError: the code or the plug-ins no longer know one of its kinds or options.
    """
    return assemble(stored(data, f"campaign {data.get('name')}"), settings, algorithm=algorithm)


def recorded(campaign: CampaignRecord, settings: Settings, *, algorithm: bool = True) -> Campaign:
    """Build a campaign of the ledger, whose results are to be read or added to.

    Raises:
        InputError: as for ``rewire``, or its problem's outputs or variables are no longer those it was begun with.
    """
    built = rewire(campaign.spec, settings, algorithm=algorithm)
    require_recorded(campaign, built.problem)
    return built


def assemble(spec: CampaignSpec | NamedSpec, settings: Settings, *, algorithm: bool = True) -> Campaign:
    """Build a campaign as ``wire`` does, from a specification that was accepted before, possibly by other code."""
    campaign = _built(spec, settings, algorithm)
    return campaign.with_spec(written_out(campaign)) if algorithm else campaign


def _built(spec: CampaignSpec | NamedSpec, settings: Settings, algorithm: bool) -> Campaign:
    problem: Problem = build("problems", spec.problem.model_dump(), settings.plugins, "problem")
    require_outputs(problem)
    faults, space, noise_sd = Faults(), problem.space, 0.0
    with faults.noted():
        space = _space(spec, problem)
    if isinstance(spec, NamedSpec):
        spec = expanded(spec, space.dimension, settings.plugins)
    dispatcher, simulator = dispatcher_of(spec.name, spec.dispatcher, settings), None
    levels: tuple[BuiltLevel, ...] = ()
    with faults.noted():
        require_sense(spec, problem)
    with faults.noted():
        noise_sd = _noise_sd(spec, problem)
    with faults.noted():
        simulator = _simulator(spec, settings, dispatcher)
    with faults.noted():
        levels = levels_of(spec, problem, simulator, dispatcher, settings)
    accept = None if algorithm else require_fit
    campaign = Campaign(spec, settings, problem, simulator, dispatcher, space, noise_sd, levels, accept)
    if dispatcher.by_people:
        with faults.noted():
            require_columns(problem)
    if algorithm:
        with faults.noted():
            require_fit(campaign)
    faults.tell()
    return campaign


def _space(spec: CampaignSpec | NamedSpec, problem: Problem) -> SearchSpace:
    try:
        return problem.space.narrowed(spec.space) if spec.space else problem.space
    except ValueError as error:
        raise InputError(f"space: {error}") from None


def _simulator(spec: CampaignSpec, settings: Settings, dispatcher: "Dispatcher") -> Simulator | None:
    faults = Faults()
    with faults.noted():
        if dispatcher.by_people:
            require_no_wall_time(spec, "people do the experiments, and nothing ends their work at a limit")
        if within_pass(dispatcher):
            require_no_wall_time(spec, "simulations run within the pass, and nothing ends one at a limit")
    with faults.noted():
        require_one_answer(spec, dispatcher)
    faults.tell()
    if spec.simulator is None:
        return None
    made: Simulator = build("simulators", spec.simulator.model_dump(), settings.plugins, "simulator")
    if within_pass(dispatcher):
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
