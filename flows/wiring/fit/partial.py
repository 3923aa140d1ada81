"""Results that give only some of several objectives, as data of a model."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.analysis.incomplete import Incomplete

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import PartialResults


def partial_results(campaign: "Campaign", known: Sequence[Incomplete], names: Sequence[str]) -> "PartialResults | None":
    """Known outputs of trials that are out, as data; None where none of these is known, or of one objective.

    Outputs that are computed from others are known once those are.
    """
    from fieldcraft.models.observations import PartialResults

    if not campaign.objective.goals:
        return None
    usual = {output.name: math.nan if output.sd is None else output.sd for output in campaign.problem.outputs}
    told = [(each, campaign.problem.completed(each.outputs, each.design)) for each in known]
    told = [(each, values) for each, values in told if any(math.isfinite(values.get(name, math.nan)) for name in names)]
    if not told:
        return None
    Y = np.array([[values.get(name, math.nan) for name in names] for _, values in told], dtype=np.float64)
    Y[np.isinf(Y)] = np.nan
    sds = np.array([[each.sd.get(name, usual[name]) for name in names] for each, _ in told], dtype=np.float64)
    return PartialResults(
        campaign.space.encode([each.design for each, _ in told]), Y, np.where(np.isnan(Y), np.nan, sds)
    )


def partial_remark(known: Sequence[Incomplete]) -> dict[str, str]:
    """A remark that names the trials, with the outputs of each that a model learnt; empty where there are none."""
    said = [f"{each.trial} ({', '.join(each.outputs)})" for each in known]
    return {"partial": f"learnt in part, since other outputs are still to come: {', '.join(said)}"} if said else {}
