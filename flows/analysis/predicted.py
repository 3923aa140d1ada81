"""Prediction of a design by the model that proposed it: every objective, and the probability of feasibility.

Reads records alone: no torch, no solver.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.records import CampaignRecord, Origin, Trial


def predicted_moments(objective: Objective, origin: Origin) -> list[tuple[float, float] | None]:
    """Mean and standard deviation of each objective, in its unit; None for one that was not predicted.

    Origins of earlier versions have the first of several objectives alone.
    """
    first = None if origin.mean is None else (origin.mean, origin.sd or 0.0)
    others = [origin.further.get(name) for name in objective.outputs[1:]]
    return [first, *(None if each is None else (each.mean, each.sd) for each in others)]


class Met(NamedTuple):
    """A prediction of one objective that a result has met.

    Args:
        trial: The trial.
        value: The result, in the objective's unit.
        mean: The prediction, in the same unit.
        sd: Its standard deviation, in the same unit; 0 where the model states none.
    """

    trial: Trial
    value: float
    mean: float
    sd: float


def predictions_met(campaign: CampaignRecord, trials: Sequence[Trial]) -> dict[str, list[Met]]:
    """Results beside the predictions of the models that proposed their designs, by objective; those with one alone.

    Only trials count whose very design was predicted: neither edited nor run differently.
    """
    objective = objective_of(campaign)
    own = [trial for trial in trials if trial.counts and trial.revision == 1 and trial.ran is None]
    found: dict[str, list[Met]] = {}
    for trial in own:
        for name, moments in zip(objective.outputs, predicted_moments(objective, trial.origin), strict=True):
            if moments is not None:
                found.setdefault(name, []).append(Met(trial, (trial.outputs or {})[name], *moments))
    return {name: found[name] for name in objective.outputs if name in found}


def predicted_data(campaign: CampaignRecord, origin: Origin) -> dict[str, Any] | None:
    """The prediction, or None where no model made one.

    ``output``, ``unit``, ``mean`` and ``sd`` of the objective, or of the first of several. Of several objectives there
    are ``others``, the same of each further one, and ``feasible``, the probability that all constraints are met, or
    None.
    """
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    objective = objective_of(campaign)
    told = [
        {"output": name, "unit": units[name], "mean": moments[0], "sd": moments[1]}
        for name, moments in zip(objective.outputs, predicted_moments(objective, origin), strict=True)
        if moments is not None
    ]
    if not told:
        return None
    first, *others = told
    return {**first, "others": others, "feasible": origin.feasible} if objective.goals else first
