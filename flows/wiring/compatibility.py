"""Requirements of a campaign's parts on each other, checked before the first trial and the first model."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.tables import OWN_COLUMNS, readable
from fieldcraft.flows.jobs.dispatcher import answering
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.wiring.fit.derived import require_derived
from fieldcraft.flows.wiring.fit.needs import NEEDS
from fieldcraft.flows.wiring.objectives import in_words, require_start
from fieldcraft.flows.wiring.physics.emulators import (
    no_emulator,
    require_derivatives,
    require_mask,
    require_own_names,
    require_predictions,
    require_regret,
    require_stated,
)
from fieldcraft.flows.wiring.physics.equations import require_conditions, require_equation
from fieldcraft.flows.wiring.physics.folded_spaces import require_takes_folds
from fieldcraft.flows.wiring.physics.networks import require_network
from fieldcraft.flows.wiring.physics.stated_fields import no_fields
from fieldcraft.flows.wiring.physics.stated_noise import require_known_noise, require_noise, require_repeats
from fieldcraft.models.capability import Capability, TakesSomeSpaces, provided, required
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Dispatcher
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.algorithm import Algorithm


def require_columns(problem: Problem) -> None:
    """Accept a problem if each of its variables and outputs can be a column of a laboratory's table.

    Raises:
        InputError: a name that cannot be a column, or that would be a column twice.
    """
    outputs = [output.name for output in problem.measured]
    taken = {name: f"the table's own column {name!r}" for name in OWN_COLUMNS}
    taken |= {f"{name} sd": f"the standard deviation of {name!r}" for name in outputs}
    for name in (*problem.space.names, *outputs):
        if name in taken:
            raise InputError(f"problem: {name!r} would be a column's name twice: {taken[name]} has it. Rename it.")
        if not readable(name) or "=" in name:
            raise InputError(
                f"problem: {name!r} cannot be a column of a laboratory's table. Leave out brackets at its end, '=' "
                "and spaces around it."
            )
        taken[name] = f"another variable or output {name!r}"


def require_no_wall_time(spec: CampaignSpec, why: str) -> None:
    """Accept a budget without a limit of wall time, which the dispatcher could not enforce.

    Args:
        spec: The specification.
        why: Reason why it cannot be enforced, for the error.

    Raises:
        InputError: there is a limit.
    """
    if spec.budget.wall_time_h is not None:
        raise InputError(
            f"budget.wall_time_h: {spec.budget.wall_time_h:g} is given, but with the dispatcher "
            f"{spec.dispatcher.kind!r} {why}. Leave it out, and limit budget.cost instead."
        )


def require_one_answer(spec: CampaignSpec, dispatcher: "Dispatcher") -> None:
    """Accept a simulator where the dispatcher needs one, and none where people or the dispatcher itself give results.

    Raises:
        InputError: a needed simulator is missing, or one is given that nothing would use.
    """
    kind, itself = spec.dispatcher.kind, dispatcher.by_people or answering(dispatcher) is not None
    if spec.simulator is None and not itself:
        raise InputError(
            f"simulator: missing. The dispatcher {kind!r} needs one: name it. Only people (dispatcher: {{kind: lab}}) "
            "and external programs (command) do without."
        )
    if spec.simulator is not None and itself:
        who = "people do the experiments" if dispatcher.by_people else "nothing is simulated but by it"
        raise InputError(
            f"simulator: {spec.simulator.kind!r} is given, but with the dispatcher {kind!r} {who}. Leave simulator out."
        )


def require_repeatable(spec: CampaignSpec, simulator: Simulator) -> None:
    """Accept a simulator that a pass may run again after a crash.

    Raises:
        InputError: it is not idempotent.
    """
    if not simulator.idempotent:
        raise InputError(
            f"simulator: {spec.simulator and spec.simulator.kind!r} is not idempotent, and with the dispatcher "
            f"{spec.dispatcher.kind!r} it runs within the pass, which may run it again after a crash. Use the "
            "dispatcher 'local', or declare the simulator `idempotent = True` if it is."
        )


def require_fit(campaign: "Campaign") -> None:
    """Accept an algorithm whose words fit each other, the problem and its space.

    Raises:
        InputError: a word needs a capability that another lacks (see ``models.capability``), or cannot take this
            equation, this space or these groups.
    """
    require_stated(campaign.problem)
    faults = Faults()
    for require in (
        require_derived,
        require_noise,
        require_known_noise,
        require_conditions,
        require_equation,
        require_own_names,
        require_derivatives,
        require_mask,
        require_predictions,
        partial(_require, "emulator"),
        partial(_require, "earlier"),
        partial(_require, "levels"),
        partial(_require, "fields"),
        require_network,
        _require_space_of_rival,
        _require_groups,
        _require_images,
        require_takes_folds,
        partial(_require, "exactness"),
        partial(_require, "objectives"),
        require_start,
        _require_bounds,
        require_repeats,
        partial(_require, "constraints"),
        _require_proof,
        require_regret,
    ):
        with faults.noted():
            require(campaign)
    faults.tell()


def _require(topic: str, campaign: "Campaign") -> None:
    """Accept an algorithm whose needs of one topic are met."""
    needed, had = _required(campaign), _provided(campaign)
    for need in NEEDS[topic]:
        if need.what in needed[need.who] - had[need.whose]:
            raise InputError(need.said.format_map(_named(campaign)))


def _required(campaign: "Campaign") -> Mapping[str, frozenset[Capability]]:
    """Capabilities that the algorithm's words, the problem and the stop rule need, by word."""
    words = campaign.algorithm
    return {
        "surrogate": required(words.surrogate),
        "start.proposer": required(words.initial),
        "peer": required(words.peer),
        "acquisition": required(words.acquisition),
        "maximizer": required(words.maximizer),
        "groups": frozenset({Capability.SEPARABLE}),
        "constraints.surrogate": required(words.constraints.surrogate),
        "constraints.rule": required(words.constraints.rule),
        "problem": frozenset({Capability.CONSTRAINED} if _unknown(campaign) else ())
        | frozenset({Capability.SEVERAL} if campaign.objective.goals else ()),
        "warm_start": frozenset({Capability.EARLIER} if campaign.spec.warm_start else ()),
        "levels": frozenset({Capability.LEVELS} if campaign.spec.levels else ()),
        "stop": frozenset({Capability.PROVES} if campaign.spec.stop.certified_gap is not None else ()),
    }


def _provided(campaign: "Campaign") -> Mapping[str, frozenset[Capability]]:
    """Capabilities that the algorithm's words and the problem have, by word; all of them where a word is absent."""
    words, everything = campaign.algorithm, frozenset(Capability)
    own, unknown = words.constraints.surrogate, _unknown(campaign)
    lacking = frozenset({Capability.OF_MOMENTS} if unknown else ())
    lacking |= frozenset({Capability.EMULATOR} if no_emulator(campaign.problem, campaign.space) else ())
    lacking |= frozenset() if campaign.spec.warm_start else frozenset({Capability.EARLIER})
    lacking |= frozenset() if campaign.spec.levels else frozenset({Capability.LEVELS})
    lacking |= frozenset() if campaign.objective.goals else frozenset({Capability.SEVERAL})
    lacking |= frozenset({Capability.FIELDS} if no_fields(campaign.problem, campaign.space) else ())
    learner = own if words.surrogate is None else words.constraints.learner(words.surrogate)
    return {
        "surrogate": provided(words.surrogate),
        "acquisition": everything if words.acquisition is None else provided(words.acquisition),
        "maximizer": provided(words.maximizer),
        "peer": everything if words.peer is None else provided(words.peer),
        "learners": frozenset({Capability.EARLIER} if begins_earlier(words) else ())
        | frozenset({Capability.LEVELS} if learns_levels(words) else ()),
        "problem": everything - lacking,
        "results": everything - lacking - frozenset({Capability.FIELDS} if campaign.noise_sd else ()),
        "constraints": frozenset(),
        "learner": provided(learner) if unknown else everything,
    }


def begins_earlier(algorithm: "Algorithm") -> bool:
    """True if a surrogate of the algorithm learns from earlier campaigns."""
    from fieldcraft.models.surrogate import TakesEarlier

    words = (algorithm.surrogate, algorithm.constraints.surrogate)
    return any(isinstance(each, TakesEarlier) and each.uses_earlier for each in words)


def learns_levels(algorithm: "Algorithm") -> bool:
    """True if the surrogate of the objective learns from coarser levels of the simulator."""
    from fieldcraft.models.surrogate import TakesLevels

    return isinstance(algorithm.surrogate, TakesLevels) and algorithm.surrogate.uses_levels


def _unknown(campaign: "Campaign") -> list[str]:
    """Names of the outputs that are unknown constraints."""
    return list(campaign.objective.constraints)


def _named(campaign: "Campaign") -> Mapping[str, Any]:
    """Kinds of the words and further values, by their placeholders in an error."""
    part = campaign.spec.algorithm
    words = {"surrogate": part.surrogate, "acquisition": part.acquisition, "maximizer": part.maximizer}
    words |= {"peer": part.peer, "constraints_surrogate": part.constraints.surrogate, "rule": part.constraints.rule}
    kinds = {name: component and component.kind for name, component in words.items()}
    maximizer = kinds["maximizer"]
    proofless = "there is no maximizer" if maximizer is None else f"the maximizer {maximizer!r} has none"
    return {
        **kinds,
        "outputs": ", ".join(_unknown(campaign)),
        "objectives": in_words(campaign.problem),
        "proposer": part.start.proposer.kind,
        "algorithm": part.in_words,
        "emulatorless": no_emulator(campaign.problem, campaign.space),
        "fieldless": no_fields(campaign.problem, campaign.space) or "noise is added to the results, which fields lack",
        "gap": campaign.spec.stop.certified_gap,
        "proofless": proofless,
    }


def _require_space_of_rival(campaign: "Campaign") -> None:
    """Accept a rival that can search the space."""
    peer = campaign.algorithm.peer
    if peer is None:
        return
    from fieldcraft.models.rival import require_box

    try:
        if Capability.BOX in required(peer):
            require_box(campaign.space, str(_named(campaign)["peer"]))
        if isinstance(peer, TakesSomeSpaces):
            peer.refuse_space(campaign.space)
    except ValueError as error:
        raise InputError(f"algorithm.peer: {error}") from None


def _require_groups(campaign: "Campaign") -> None:
    """Accept groups that fit the space's variables; an acquisition of groups needs a surrogate that has them."""
    for where, surrogate in _surrogates(campaign).items():
        if Capability.GROUPED in provided(surrogate):
            try:
                surrogate.columns(campaign.space)
            except ValueError as error:
                raise InputError(f"algorithm.{where}: {error}") from None
    _require("groups", campaign)


def _surrogates(campaign: "Campaign") -> dict[str, Any]:
    """The surrogates of the objective and of the constraints, by their keys in a campaign file."""
    words = campaign.algorithm
    return {"surrogate": words.surrogate, "constraints.surrogate": words.constraints.surrogate}


def _require_images(campaign: "Campaign") -> None:
    """Accept networks that fit the space's images."""
    from fieldcraft.models.tangent.settings import TangentSettings

    for where, surrogate in _surrogates(campaign).items():
        if isinstance(surrogate, TangentSettings):
            try:
                surrogate.require_images(len(campaign.space.images))
            except ValueError as error:
                raise InputError(f"algorithm.{where}: {error}") from None


def _require_bounds(campaign: "Campaign") -> None:
    """Accept a maximizer that bounds the score if the surrogate, the acquisition and the space allow it."""
    words = campaign.algorithm
    spaces: Sequence[SearchSpace] = (campaign.space,)
    if Capability.BY_GROUP in provided(words.maximizer) and Capability.GROUPED in provided(words.surrogate):
        _require("bounds by group", campaign)
        spaces = _group_spaces(campaign, words.surrogate)
    else:
        _require("bounds", campaign)
    if isinstance(words.maximizer, TakesSomeSpaces):
        try:
            for space in spaces:
                words.maximizer.refuse_space(space)
        except ValueError as error:
            raise InputError(f"algorithm.maximizer: {error}") from None


def _group_spaces(campaign: "Campaign", surrogate: Any) -> Sequence[SearchSpace]:
    from fieldcraft.models.maximizers._groups import group_spaces

    try:
        return group_spaces(campaign.space, surrogate.columns(campaign.space))
    except ValueError as error:
        raise InputError(f"algorithm.maximizer: {error}") from None


def _require_proof(campaign: "Campaign") -> None:
    """Accept the stop rule ``certified_gap`` if the algorithm proves a bound of the gain that is left."""
    if (gap := campaign.spec.stop.certified_gap) is None:
        return
    from fieldcraft.models.acquisition import Improving

    _require("proof", campaign)
    if not isinstance(campaign.algorithm.acquisition, Improving):
        raise InputError(
            f"stop.certified_gap: {gap:g} is in the objective's unit, and a bound of the acquisition "
            f"{_named(campaign)['acquisition']!r} does not say how much is left to be gained. Use ucb or log_ei, or "
            "stop by no_improvement, which needs no proof."
        )
