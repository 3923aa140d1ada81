"""What a campaign's parts ask of each other, said before anything begins rather than at the first model or trial."""

from typing import TYPE_CHECKING, Any

from fieldcraft.flows.errors import Faults, InputError
from fieldcraft.flows.files.tables import OWN_COLUMNS, readable
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.wiring.equations import require_equation
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.jobs.dispatcher import Dispatcher
    from fieldcraft.flows.wiring.campaign import Campaign


def require_columns(problem: Problem) -> None:
    """Accept a problem if each of its variables and outputs can be a column of a laboratory's table.

    Raises:
        InputError: a name that a table cannot bear, or that it would bear twice.
    """
    outputs = [output.name for output in problem.outputs]
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
    """Accept a budget without a limit of wall time, which here nothing could keep.

    Args:
        spec: The specification.
        why: What the dispatcher does instead, for the error.

    Raises:
        InputError: there is a limit.
    """
    if spec.budget.wall_time_h is not None:
        raise InputError(
            f"budget.wall_time_h: {spec.budget.wall_time_h:g} is given, but with the dispatcher "
            f"{spec.dispatcher.kind!r} {why}. Leave it out, and limit budget.cost instead."
        )


def require_one_answer(spec: CampaignSpec, dispatcher: "Dispatcher") -> None:
    """Accept a simulator where the dispatcher needs one, and none where people or the dispatcher itself answer.

    Raises:
        InputError: there is none, or one too many.
    """
    kind, itself = spec.dispatcher.kind, dispatcher.by_people or getattr(dispatcher, "answers", False)
    if spec.simulator is None and not itself:
        raise InputError(
            f"simulator: missing. The dispatcher {kind!r} needs one; only people and external programs do without."
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
        InputError: an equation, a box, an exact Gaussian process or a sum over groups is needed and there is none, or
            the groups are not of the space's variables.
    """
    faults = Faults()
    for require in (
        require_equation,
        _require_box,
        _require_groups,
        _require_exactness,
        _require_bounds,
        _require_constraints,
        _require_proof,
    ):
        with faults.noted():
            require(campaign)
    faults.tell()


def _require_exactness(campaign: "Campaign") -> None:
    """Accept an acquisition for exact Gaussian processes with one."""
    part, words = campaign.spec.algorithm, campaign.algorithm
    if getattr(words.acquisition, "exact_only", False) and not getattr(words.surrogate, "exact", False):
        raise InputError(
            f"algorithm.acquisition: {part.acquisition and part.acquisition.kind!r} needs an exact Gaussian process, "
            f"and the surrogate {part.surrogate and part.surrogate.kind!r} gives none. Use the surrogate exact_gp, or "
            "the acquisition log_ei, which takes any."
        )


def _require_constraints(campaign: "Campaign") -> None:
    """Accept an algorithm that can keep to constraints which only experiments tell."""
    part, words = campaign.spec.algorithm, campaign.algorithm
    unknown = [output.name for output in campaign.problem.outputs[1:]]
    if unknown and getattr(words.maximizer, "of_moments_only", False):
        raise InputError(
            f"algorithm.maximizer: {part.maximizer and part.maximizer.kind!r} keeps to known constraints only, and the "
            f"problem has the outputs {', '.join(unknown)}, each of which must come out <= 0. Use the maximizer "
            "multistart."
        )
    if unknown and words.peer is not None and not getattr(words.peer, "constrained", False):
        raise InputError(
            f"algorithm.peer: {part.peer and part.peer.kind!r} is not told of constraints, and the problem has the "
            f"outputs {', '.join(unknown)}, each of which must come out <= 0. Use another sentence, such as cei, "
            "neural_cbo, botorch_qlognei or optuna_gp."
        )
    own = words.constraints.surrogate
    if own is not None and own.needs_physics:
        raise InputError(
            f"algorithm.constraints.surrogate: {part.constraints.surrogate and part.constraints.surrogate.kind!r} "
            "needs an equation, and constraints have none. Use exact_gp."
        )
    learns = own or words.surrogate
    informed = learns is not None and (learns.needs_physics or getattr(learns, "informed", False))
    if unknown and getattr(words.constraints.rule, "informed_only", False) and not informed:
        raise InputError(
            "algorithm.constraints.rule: beta is gamma, and the surrogate of the constraints does not know its "
            "information gain. Give beta a number, or let tangent_network or exact_gp learn the constraints."
        )
    scale = getattr(words.acquisition, "scale", "free")
    if getattr(words.constraints.rule, "scaled_only", False) and scale == "free" and words.acquisition is not None:
        raise InputError(
            f"algorithm.constraints.rule: {part.constraints.rule and part.constraints.rule.kind!r} multiplies the "
            f"score, and that of the acquisition {part.acquisition and part.acquisition.kind!r} may be negative. Use "
            "the rule bound, or the acquisition log_ei."
        )


def _require_bounds(campaign: "Campaign") -> None:
    """Accept a maximizer that proves its optimum if surrogate, acquisition and space are such that it can."""
    part, words = campaign.spec.algorithm, campaign.algorithm
    maximizer = part.maximizer and part.maximizer.kind
    if getattr(words.maximizer, "by_group", False) and getattr(words.surrogate, "grouped", False):
        _require_separable(campaign)
        return
    if getattr(words.maximizer, "exact_only", False) and not getattr(words.surrogate, "exact", False):
        raise InputError(
            f"algorithm.maximizer: {maximizer!r} bounds exact Gaussian processes, and the surrogate "
            f"{part.surrogate and part.surrogate.kind!r} is none. Use the surrogate exact_gp, or the maximizer "
            "multistart, which takes any."
        )
    if getattr(words.maximizer, "of_moments_only", False) and not getattr(words.acquisition, "of_moments", False):
        raise InputError(
            f"algorithm.maximizer: {maximizer!r} bounds functions of mean and standard deviation, and the acquisition "
            f"{part.acquisition and part.acquisition.kind!r} is none. Use ucb, log_ei or pi, or the maximizer "
            "multistart, which takes any."
        )
    if getattr(words.maximizer, "optimism_only", False) and not getattr(words.acquisition, "optimistic", False):
        raise InputError(
            f"algorithm.maximizer: {maximizer!r} takes the confidence bound alone, and the acquisition "
            f"{part.acquisition and part.acquisition.kind!r} is another. Use ucb, or the maximizer certified, which "
            "takes log_ei and pi too."
        )
    _require_space(campaign, campaign.space)


def _require_space(campaign: "Campaign", space: SearchSpace) -> None:
    if refuse := getattr(campaign.algorithm.maximizer, "refuse_space", None):
        try:
            refuse(space)
        except ValueError as error:
            raise InputError(f"algorithm.maximizer: {error}") from None


def _require_proof(campaign: "Campaign") -> None:
    """Accept a stop rule that asks for a proof if the algorithm gives one that says what is left to be gained."""
    if (gap := campaign.spec.stop.certified_gap) is None:
        return
    from fieldcraft.models.acquisition import Improving

    part, words = campaign.spec.algorithm, campaign.algorithm
    rule, instead = f"stop.certified_gap: {gap:g}", "or stop by no_improvement, which needs no proof"
    if not getattr(words.maximizer, "proves", False):
        chosen = (
            "there is no maximizer" if part.maximizer is None else f"the maximizer {part.maximizer.kind!r} has none"
        )
        raise InputError(
            f"{rule} is to be proven by a bound of the acquisition itself, and {chosen}. Use the maximizer certified, "
            f"{instead}."
        )
    if not isinstance(words.acquisition, Improving):
        raise InputError(
            f"{rule} is in the objective's unit, and a bound of the acquisition "
            f"{part.acquisition and part.acquisition.kind!r} does not say how much is left to be gained. Use ucb or "
            f"log_ei, {instead}."
        )


def _require_groups(campaign: "Campaign") -> None:
    """Accept groups of the space's variables, and an acquisition of groups with a surrogate that has them."""
    part, words = campaign.spec.algorithm, campaign.algorithm
    both: dict[str, Any] = {"surrogate": words.surrogate, "constraints.surrogate": words.constraints.surrogate}
    for where, surrogate in both.items():
        if getattr(surrogate, "grouped", False):
            try:
                surrogate.columns(campaign.space)
            except ValueError as error:
                raise InputError(f"algorithm.{where}: {error}") from None
    if getattr(words.acquisition, "grouped_only", False) and not getattr(words.surrogate, "grouped", False):
        raise InputError(
            f"algorithm.acquisition: {part.acquisition and part.acquisition.kind!r} needs a sum of functions of groups "
            f"of variables, and the surrogate {part.surrogate and part.surrogate.kind!r} gives none. Use the surrogate "
            "grouped_gp, or the acquisition ucb, which takes any."
        )


def _require_separable(campaign: "Campaign") -> None:
    """Accept an acquisition and a space that can be taken apart, where the maximizer takes group by group."""
    from fieldcraft.models.maximizers._groups import group_spaces

    part, words = campaign.spec.algorithm, campaign.algorithm
    if not getattr(words.acquisition, "separable", False):
        raise InputError(
            f"algorithm.maximizer: {part.maximizer and part.maximizer.kind!r} searches the groups of the surrogate "
            f"{part.surrogate and part.surrogate.kind!r} one by one, and the acquisition "
            f"{part.acquisition and part.acquisition.kind!r} is no sum over them. Use add_ucb, or the surrogate "
            "exact_gp, or the maximizer multistart, which takes any."
        )
    surrogate: Any = words.surrogate
    try:
        spaces = group_spaces(campaign.space, surrogate.columns(campaign.space))
    except ValueError as error:
        raise InputError(f"algorithm.maximizer: {error}") from None
    for space in spaces:
        _require_space(campaign, space)


def _require_box(campaign: "Campaign") -> None:
    """Accept a peer that can search the space."""
    peer = campaign.spec.algorithm.peer
    if peer is None:
        return
    from fieldcraft.models.peer import require_box

    try:
        if getattr(campaign.algorithm.peer, "box_only", False):
            require_box(campaign.space, peer.kind)
        if refuse := getattr(campaign.algorithm.peer, "refuse_space", None):
            refuse(campaign.space)
    except ValueError as error:
        raise InputError(f"algorithm.peer: {error}") from None
