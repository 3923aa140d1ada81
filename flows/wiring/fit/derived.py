"""Outputs that are computed from measured ones: their values, how a model learns them, and what refuses them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.models.capability import Capability, provided, required
from fieldcraft.physics.outputs.checks import require_computable
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.outputs.output import Output
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, Design, Integer
from fieldcraft.storage.records import Trial, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.data.composite import Composite


def completed(campaign: "Campaign", values: Mapping[str, float], design: Design, where: str) -> dict[str, float]:
    """Measured values by name with those of the outputs that are computed from them and from the design as it was run.

    Raises:
        InputError: a computed value is not finite.
    """
    found = campaign.problem.completed(values, design)
    for output in campaign.problem.outputs:
        if output.formula is None or math.isfinite(found.get(output.name, 0.0)):
            continue
        known = {**design, **values}
        parts = ", ".join(f"{name} {known[name]}" for name in output.formula.names)
        raise InputError(
            f"{where}: {output.name} = {output.formula} is {found[output.name]} for {parts}. Correct the values; if "
            "they are right, the formula must give a number for them, such as by max(..., 0.001). Nothing was recorded."
        )
    return found


def require_outputs(problem: Problem) -> None:
    """Accept a problem if its outputs can be made, and each computed one from what every trial has.

    Raises:
        InputError: an output has options that contradict each other, or ``require_computable`` refuses them.
    """
    try:
        require_computable(problem.outputs, problem.space)
    except ValueError as error:
        raise InputError(f"problem: {error}") from None


def require_measured(campaign: "Campaign", name: str, where: str) -> None:
    """Accept a name unless it is an output that is computed from others.

    Raises:
        InputError: it is.
    """
    output = next((each for each in campaign.problem.outputs if each.name == name), None)
    if output is not None and output.formula is not None:
        raise InputError(
            f"{where}{name} is computed ({output.formula}): give {', '.join(output.formula.names)}, and leave it out."
        )


def require_measured_columns(campaign: "Campaign", columns: Iterable[str], file: Path) -> None:
    """Accept a table of results if none of its columns is an output that is computed, or the deviation of one.

    Raises:
        InputError: one is.
    """
    for column in columns:
        require_measured(campaign, column.removesuffix(" sd"), f"{file}: column {column!r}: ")


def require_derived(campaign: "Campaign") -> None:
    """Accept computed outputs of a problem of which nothing else predicts or disturbs them.

    Raises:
        InputError: noise is added to a computed objective, or the problem states an equation, fields or an emulator.
    """
    problem, noise = campaign.problem, campaign.spec.noise
    computed = [output for output in problem.outputs if output.formula is not None]
    if not computed:
        return
    if problem.equation is not None or problem.fields is not None or problem.emulator is not None:
        raise InputError(
            f"problem: the output {computed[0].name!r} is computed from others, and the problem states an equation, "
            "fields or an emulator, which predict measured outputs alone. Compute it in evaluate()."
        )
    if problem.outputs[0] in computed and noise is not None and not noise.fitted:
        raise InputError(
            f"noise: it would be added to {problem.outputs[0].name!r}, which is computed. Let the simulator add noise "
            "to what it is computed from, state the sd of those results, or say noise: fitted."
        )


def objective_of(campaign: "Campaign") -> Output | None:
    """The objective, if it is one alone and computed from other outputs; else None."""
    first = campaign.problem.outputs[0]
    return first if first.formula is not None and not campaign.objective.goals else None


def parts_of(campaign: "Campaign") -> tuple[Output, ...]:
    """The measured outputs that a computed objective reads; empty if it is not computed."""
    objective = objective_of(campaign)
    read = () if objective is None or objective.formula is None else objective.formula.names
    return tuple(output for output in campaign.problem.measured if output.name in read)


def only_number(campaign: "Campaign") -> str | None:
    """Reason why a computed objective is learnt as its number; None where it is learnt through its parts."""
    words, kinds, objective = campaign.algorithm, campaign.spec.algorithm, objective_of(campaign)
    if objective is None:
        return f"there are {len(campaign.objective.goals)} objectives"
    if words.peer is not None:
        return f"the rival {kinds.peer and kinds.peer.kind} takes one number"
    if Capability.COMPOSITE not in provided(words.acquisition):
        return f"the acquisition {kinds.acquisition and kinds.acquisition.kind} scores one number: log_ei scores parts"
    if required(words.maximizer):
        return f"the maximizer {kinds.maximizer and kinds.maximizer.kind} searches the score of one number"
    if required(words.surrogate):
        return f"the surrogate {kinds.surrogate and kinds.surrogate.kind} learns what the objective alone has"
    if campaign.spec.warm_start:
        return "the earlier campaign of warm_start teaches one number"
    if campaign.levels:
        return "coarser levels of the simulator teach one number"
    if kinds.repeats:
        return "repeats weighs results of one number"
    if (
        objective.formula is not None
        and not campaign.space.plain
        and set(objective.formula.names) & set(campaign.space.names)
    ):
        return "its formula reads a variable, of a space in which one design has several points"
    return None


def composite_of(
    campaign: "Campaign", trials: Sequence[Trial | TrialSummary], sds: Mapping[str, Mapping[str, float]] | None
) -> "Composite | None":
    """The parts of a computed objective as arrays; None where there are none, or only its number is learnt.

    Args:
        campaign: The campaign.
        trials: Its trials with outputs.
        sds: Standard deviations that results state, by trial and output; None to leave those out, and the problem's.
    """
    parts = parts_of(campaign)
    if not parts or only_number(campaign) is not None:
        return None
    from fieldcraft.models.data.composite import Composite

    formula, names = campaign.problem.outputs[0].formula, [part.name for part in parts]
    assert formula is not None  # it has parts
    usual = {part.name: math.nan if part.sd is None else part.sd for part in parts}
    values = [[(trial.outputs or {})[name] for name in names] for trial in trials]
    known = None if sds is None else [[sds.get(t.id, {}).get(name, usual[name]) for name in names] for t in trials]
    numeric = [v for v in campaign.space.variables if isinstance(v, Continuous | Integer)]
    return Composite(
        names=tuple(names),
        values=np.array(values, dtype=np.float64).reshape(-1, len(names)),
        formula=formula,
        band=(formula.low, formula.high) if isinstance(formula, Distance) else None,
        variables={v.name: v for v in numeric if v.name in formula.names},
        sds=np.empty((0, 0)) if known is None else np.array(known, dtype=np.float64).reshape(-1, len(names)),
    )


def told(campaign: "Campaign") -> str | None:
    """Words on how the computed outputs of a campaign are learnt; None if there are none, or nothing learns."""
    computed = [output for output in campaign.problem.outputs if output.formula is not None]
    words = campaign.algorithm
    if not computed or (words.surrogate is None and words.peer is None):
        return None
    objectives = [output for output in computed if output.name in campaign.objective.outputs]
    limits = [output.name for output in computed if output not in objectives]
    lines = []
    for output in objectives:
        reason = only_number(campaign)
        parts = [part.name for part in parts_of(campaign)]
        how = f"its number is learnt: {reason}" if reason else f"learnt through {', '.join(parts)}"
        how += ", each by a surrogate of its own" if not reason and len(parts) > 1 else ""
        lines.append(f"{output.name} is computed ({output.formula}); {how}.")
    if limits:
        lines.append(f"Constraints that are computed ({', '.join(limits)}) are learnt by their numbers.")
    return " ".join(lines)
