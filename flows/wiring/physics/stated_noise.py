"""Noise that single results or the problem state: what of a campaign learns from it, and what refuses it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.wiring.fit.derived import only_number, parts_of
from fieldcraft.models.capability import Capability, provided

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import Observations


def require_noise(campaign: "Campaign") -> None:
    """Accept a problem that states the noise of an output if no noise is added to the same, and noise that has a size.

    Raises:
        InputError: the noise of an output is stated by the problem and by the campaign file, or nothing tells the size
            of noise that is added to the constraints.
    """
    if campaign.spec.noise is None or campaign.spec.noise.fitted:
        return
    names = (campaign.problem.outputs[0].name, *campaign.objective.constraints)
    added = dict(zip(names, (campaign.noise_sd, *campaign.constraint_sds), strict=False))
    for output in campaign.problem.outputs:
        if output.sd is not None and output.name in added:
            raise InputError(
                f"noise: the campaign file gives results of {output.name!r} the standard deviation "
                f"{added[output.name]:g}, and the problem {output.sd:g}. Leave noise out, or the output's sd."
            )


def require_known_noise(campaign: "Campaign") -> None:
    """Accept ``noise: known`` of a surrogate if the noise of all that it learns is stated, or people may state it.

    Raises:
        InputError: nothing states the noise of an output, or nothing can, for its number is learnt and computed.
    """
    if campaign.spec.noise is not None and not campaign.spec.noise.fitted:
        return
    words, stated = campaign.algorithm, {output.name: output.sd for output in campaign.problem.outputs}
    derived = {output.name for output in campaign.problem.outputs if output.formula is not None}
    own = words.constraints.surrogate
    parts = _parts(campaign)
    learners = (
        ("surrogate", words.surrogate, parts or campaign.objective.outputs),
        ("constraints.surrogate" if own else "surrogate", own or words.surrogate, campaign.objective.constraints),
    )
    for word, surrogate, names in learners:
        if getattr(surrogate, "noise", None) != "known":
            continue
        weighs = _weighs(surrogate)
        if computed := [name for name in names if name in derived]:
            raise InputError(
                f"algorithm.{word}.noise is known, and {', '.join(computed)} is computed and learnt by its number: "
                "nobody can state its noise. Leave noise: known out."
            )
        unknown = [name for name in names if stated[name] is None or not weighs]
        if unknown and not (weighs and campaign.dispatcher.by_people):
            ways = [] if parts else ["noise: {sd: ...} in the campaign file"]  # no part has the noise of the file
            ways += ["the output's sd"] if weighs else []
            remedy = f"State {', or '.join(ways)}, or leave" if ways else "Leave"
            raise InputError(
                f"algorithm.{word}.noise is known, and nothing states the noise of {', '.join(unknown)}"
                f"{'' if weighs else ' to this surrogate'}. {remedy} noise: known out."
            )


def _parts(campaign: "Campaign") -> tuple[str, ...]:
    """Names of the outputs through which a computed objective is learnt; empty where there are none."""
    computed = campaign.problem.outputs[0].formula is not None
    return tuple(part.name for part in parts_of(campaign)) if computed and only_number(campaign) is None else ()


def require_repeats(campaign: "Campaign") -> None:
    """Accept ``repeats`` where results are noisy, one objective is modelled exactly, and no maximizer proves a bound.

    Raises:
        InputError: it would have no effect, or a proof would be of another design.
    """
    if not campaign.spec.algorithm.repeats:
        return
    part, words = campaign.spec.algorithm, campaign.algorithm
    if not campaign.noisy:
        raise InputError(
            "algorithm.repeats: a design that is run again has the same result. State the noise (noise: fitted, or the "
            "sd of an output), or leave repeats out."
        )
    if Capability.EXACT not in provided(words.surrogate):
        kind = part.surrogate and part.surrogate.kind
        other = "there is no surrogate" if kind is None else f"the surrogate {kind!r} is none"
        raise InputError(
            f"algorithm.repeats: what a result is worth is computed by an exact Gaussian process, and {other}. Use "
            "exact_gp, or leave repeats out."
        )
    if reasons := campaign.space.folds.reasons:
        raise InputError(
            f"algorithm.repeats: what a result is worth is computed where each encoded point is one design, and "
            f"{'; '.join(reasons)}. Leave repeats out."
        )
    if campaign.objective.goals:
        raise InputError(
            f"algorithm.repeats: what a result is worth is computed for one objective, and the problem has "
            f"{len(campaign.objective.goals)}. Leave repeats out."
        )
    if Capability.PROVES in provided(words.maximizer):
        raise InputError(
            f"algorithm.repeats: the maximizer {part.maximizer and part.maximizer.kind!r} proves a bound of the design "
            "that it found, and another one would be proposed. Use multistart, or leave repeats out."
        )


def told(campaign: "Campaign") -> str | None:
    """Use of the standard deviations that results may state; None where none are expected."""
    learnt = {*_parts(campaign), *campaign.objective.constraints}
    learnt |= set() if _parts(campaign) else set(campaign.objective.outputs)
    idle = [output.name for output in campaign.problem.outputs if output.sd and output.name not in learnt]
    note = (
        f"The standard deviation of {', '.join(idle)} is not used: no surrogate learns that result." if idle else None
    )
    stated = [output.name for output in campaign.problem.outputs if output.sd and output.name in learnt]
    if not stated and not campaign.dispatcher.by_people:
        return note
    return " ".join(filter(None, (_use(campaign, stated), note))) or None


def _use(campaign: "Campaign", stated: Sequence[str]) -> str | None:
    outputs = f"the problem states the standard deviation of {', '.join(stated)}"
    said, words = outputs if stated else "results may state their standard deviation", campaign.algorithm
    if words.surrogate is None and words.peer is None:
        return None
    if words.surrogate is None:
        return f"{said}, and {campaign.spec.algorithm.in_words} does not use it: the surrogate exact_gp does."
    part = campaign.spec.algorithm
    kinds = {part.surrogate: words.surrogate, part.constraints.surrogate: words.constraints.surrogate}
    ignoring = [f"{of.kind}" for of, surrogate in kinds.items() if of and not _weighs(surrogate)]
    if ignoring:
        return f"{said}, and the surrogate {' and '.join(ignoring)} does not use it: exact_gp does."
    return f"{said}, and the surrogate weighs each result by it." if stated else None


def unused_sds(data: "Observations", remarks: Mapping[str, str]) -> dict[str, str]:
    """Remark that a model did not use the standard deviations of results; empty where it did, or none states one."""
    if not data.sds.size or any(name.rpartition(".")[2] == "noise" for name in remarks):
        return {}
    count = np.count_nonzero((~np.isnan(data.sds)).any(axis=1))
    return {"noise": f"stated by {count} of {len(data)} results, and not used: the surrogate exact_gp does"}


def _weighs(surrogate: object) -> bool:
    from fieldcraft.models.surrogate import WeighsResults

    return isinstance(surrogate, WeighsResults) and surrogate.weighs_results
