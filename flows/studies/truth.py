"""What a campaign found, by the noise-free objective: the designs of a cell with readings and truth."""

from typing import Any

import numpy as np

from flows.wiring import Campaign
from physics.problem import Problem
from storage.fields import FieldStore
from storage.ledger import Ledger
from storage.records import Trial, TrialState


def measured(campaign: Campaign, ledger: Ledger) -> dict[str, Any]:
    """A finished campaign as data.

    Returns:
        ``trials``, by number, each with its ``design``, ``reading`` and ``true`` value of the objective in its unit
        (both null where it has no accepted result, or breaks a constraint); ``finished``; ``optimum`` and ``range``,
        null where they are not known; ``physics`` (whether an equation was learnt from) and ``oracle`` (whether the
        problem states one that was computed from the objective itself).
    """
    problem, spec = campaign.problem, campaign.spec
    best, worst = (problem.optimum(sense) for sense in _senses(campaign))
    return {
        "cell": campaign.name,
        "digest": campaign.digest,
        "finished": ledger.campaign(campaign.name).finished,
        "algorithm": spec.algorithm.model_dump(mode="json", exclude_none=True),
        "sentence": spec.algorithm.sentence,
        "objective": problem.outputs[0].name,
        "unit": problem.outputs[0].unit,
        "maximize": campaign.objective.maximize,
        "noise_sd": campaign.noise_sd,
        "optimum": best and best.value,
        "range": abs(best.value - worst.value) if best and worst else None,
        "physics": campaign.known_physics is not None,
        "oracle": problem.oracle,
        "trials": _trials(campaign, ledger),
    }


def _senses(campaign: Campaign) -> Any:
    return ("maximize", "minimize") if campaign.objective.maximize else ("minimize", "maximize")


def _trials(campaign: Campaign, ledger: Ledger) -> list[dict[str, Any]]:
    fields, output = FieldStore(campaign.settings.fields), campaign.objective.output
    return [
        {
            "trial": trial.id,
            "origin": trial.origin.kind,
            "design": dict(trial.actual),
            "reading": (trial.outputs or {})[output] if (feasible := _counts(campaign, trial)) else None,
            "true": _true(campaign.problem, trial, fields) if feasible else None,
        }
        for trial in ledger.trials(campaign.name)
    ]


def _counts(campaign: Campaign, trial: Trial) -> bool:
    return trial.state is TrialState.COMPLETED and bool(trial.outputs) and campaign.objective.best([trial]) is not None


def _true(problem: Problem, trial: Trial, fields: FieldStore) -> float:
    """The objective at a design without noise: the problem's exact value, or what the stored simulation shows."""
    names = problem.domain.names if problem.domain else problem.space.names
    place = [trial.actual[name] for name in names]
    if all(isinstance(value, int | float) for value in place):
        exact = problem.exact(np.array([place], dtype=float))
        if exact is not None:
            return float(exact[0])
    assert trial.field is not None  # a completed trial has its fields
    return float(problem.evaluate(trial.actual, fields.read(trial.field))[problem.outputs[0].name])
