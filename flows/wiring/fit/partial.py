"""Results that give only some of several objectives, as data of a model."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.analysis.incomplete import Incomplete
from fieldcraft.flows.wiring.physics.snapshots import uses_fields

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import PartialResults

_UNTIL = "A result of which some outputs are still to come teaches nothing until it is whole:"


def taught(campaign: "Campaign", known: Incomplete) -> dict[str, float]:
    """Objectives and constraints that are known of a trial, by name; those that are computed from known outputs too."""
    values = campaign.problem.completed(known.outputs, known.design)
    learnt = (*campaign.objective.outputs, *campaign.objective.constraints)
    return {name: values[name] for name in learnt if math.isfinite(values.get(name, math.nan))}


def partial_results(campaign: "Campaign", known: Sequence[Incomplete], names: Sequence[str]) -> "PartialResults | None":
    """Data from trials that are out, in the order in which they came; None where there are none.

    Args:
        campaign: A campaign with several objectives.
        known: Parts, each of which teaches something (see ``taught``).
        names: Columns of the data: objectives and constraints.
    """
    from fieldcraft.models.observations import PartialResults

    if not known:
        return None
    told = [(each, taught(campaign, each)) for each in sorted(known, key=lambda each: each.result)]
    usual = {output.name: math.nan if output.sd is None else output.sd for output in campaign.problem.outputs}
    Y = np.array([[values.get(name, math.nan) for name in names] for _, values in told], dtype=np.float64)
    sds = np.array([[each.sd.get(name, usual[name]) for name in names] for each, _ in told], dtype=np.float64)
    return PartialResults(
        campaign.space.encode([each.design for each, _ in told]), Y, np.where(np.isnan(Y), np.nan, sds)
    )


def partial_remark(campaign: "Campaign", known: Sequence[Incomplete]) -> dict[str, str]:
    """A remark that names the trials, with the outputs of each that a model learnt; empty where there are none."""
    said = [f"{each.trial} ({', '.join(taught(campaign, each))})" for each in known]
    return {"partial": f"learnt in part, since other outputs are still to come: {', '.join(said)}"} if said else {}


def told(campaign: "Campaign") -> str | None:
    """Words on what leaves results out until they are whole; None where all results come whole, or parts teach."""
    from fieldcraft.models.surrogate import TakesFields

    words, spec = campaign.algorithm, campaign.spec.algorithm
    if not campaign.objective.goals or not campaign.dispatcher.by_people:
        return None
    if spec.peer is not None:
        return f"{_UNTIL} {spec.peer.kind} learns from whole results alone. gp_ehvi learns from the known ones at once."
    pairs = ((words.surrogate, spec.surrogate), (words.constraints.surrogate, spec.constraints.surrogate))
    learners = [stated for made, stated in pairs if isinstance(made, TakesFields) and made.uses_fields]
    names = [stated.kind for stated in learners if stated is not None]
    if not names or not uses_fields(campaign):
        return None
    return f"{_UNTIL} {' and '.join(names)} learns from fields. exact_gp learns from the known ones at once."
