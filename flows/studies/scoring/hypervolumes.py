"""Campaigns of several objectives in a study: their hypervolume by trial takes the place of a result."""

from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.views.regret import most_hypervolume
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.pareto import gains


def require_references(campaign: Campaign) -> None:
    """Accept a problem of several objectives that states the reference of each, so that hypervolumes compare.

    Raises:
        InputError: one is not stated.
    """
    if missing := [goal.output for goal in campaign.objective.goals if goal.reference is None]:
        raise InputError(
            f"problem {campaign.spec.problem.kind!r}: {missing[0]} states no reference, and a study compares "
            "hypervolumes within one. Give the output its worst value that counts."
        )


def volumes(campaign: Campaign, ledger: Ledger) -> dict[str, Any]:
    """Hypervolumes of a finished campaign, in the form of ``flows.studies.scoring.truth.measured``.

    Returns:
        ``trials``, each with the hypervolume of the results up to it as ``reading`` and ``true`` (null where it has no
        result); ``objective``, ``unit``, ``maximize`` and, where it is known, the largest hypervolume as ``optimum``
        and ``range``.
    """
    objective, trials = campaign.objective, ledger.trials(campaign.name)
    done = [trial for trial in trials if trial.counts]
    reference = tuple(goal.reference or 0.0 for goal in objective.goals)  # each is stated
    total, reached = 0.0, dict[str, float]()
    for trial, gain in zip(done, gains(objective, [trial.outputs or {} for trial in done], reference), strict=True):
        total += gain
        reached[trial.id] = total
    most = most_hypervolume(campaign)
    return {
        "objective": "hypervolume",
        "unit": "",
        "maximize": True,
        "noise_sd": 0.0,
        "optimum": most,
        "range": most,
        "trials": [
            {
                "trial": trial.id,
                "origin": trial.origin.kind,
                "design": dict(trial.actual),
                "reading": (volume := reached.get(trial.id)),
                "true": volume,
            }
            for trial in trials
        ],
    }
