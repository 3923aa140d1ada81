"""Results of a campaign by the noise-free objective: the designs of a cell with measured and true values."""

from typing import Any

from fieldcraft.flows.studies.scoring.certificates import acquired
from fieldcraft.flows.studies.scoring.hypervolumes import volumes
from fieldcraft.flows.views.all_failed import fruitless
from fieldcraft.flows.views.regret import exact_value, optimum_of
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.exact_outputs import exact_outputs, spreads
from fieldcraft.physics.problem import Problem
from fieldcraft.storage.fields import FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial

# Of an environment: the specification says the same.
_OF_PROBLEM = ("outputs", "units", "log", "orders", "only_if", "figures", "by_people", "resolved")


def measured(campaign: Campaign, ledger: Ledger) -> dict[str, Any]:
    """A finished campaign as data.

    Returns:
        ``trials``, by number, each with its ``design``, ``reading`` (measured value) and ``true`` value of the
        objective in its unit (both null where it has no accepted result, or breaks a constraint); ``finished``;
        ``fruitless``, the reason why all trials failed, where they did; ``optimum`` and ``range``, null where the
        campaign's space holds no known best or worst design; ``physics`` (true if an equation was learnt from) and
        ``oracle`` (true if the problem states an equation that was computed from the objective itself); ``acquired``
        (see ``flows.studies.scoring.certificates.acquired``); and ``environment``, in which the campaign was begun (it
        may have gone on in another): commit, versions, threads. Where the problem has constraints also their names as
        ``constraints``, the ``spreads`` of all outputs (null where only simulations know them), and for each trial the
        ``outputs``: objective and constraints without noise (null where it has no accepted result). Of several
        objectives the hypervolume up to each trial stands for its result (see ``flows.studies.scoring.hypervolumes``).
    """
    problem, spec = campaign.problem, campaign.spec
    record = ledger.campaign(campaign.name)
    best = optimum_of(campaign)
    worst = optimum_of(campaign, "minimize" if campaign.objective.maximize else "maximize")
    return {
        "cell": campaign.name,
        "digest": campaign.digest,
        "finished": record.finished,
        "fruitless": fruitless(ledger, campaign.name, ledger.summaries(campaign.name)),
        "algorithm": spec.algorithm.model_dump(mode="json", exclude_none=True),
        "sentence": spec.algorithm.in_words,
        "objective": problem.outputs[0].name,
        "unit": problem.outputs[0].unit,
        "maximize": campaign.objective.maximize,
        "noise_sd": campaign.noise_sd,
        "optimum": best and best.value,
        "range": abs(best.value - worst.value) if best and worst else None,
        "physics": campaign.known_physics is not None,
        "oracle": problem.oracle,
        "environment": {key: value for key, value in record.environment.items() if key not in _OF_PROBLEM},
        "trials": [] if campaign.objective.goals else _trials(campaign, ledger),
        "acquired": acquired(ledger, campaign.name),
        **_constrained(problem),
        **(volumes(campaign, ledger) if campaign.objective.goals else {}),
    }


def _constrained(problem: Problem) -> dict[str, Any]:
    """Names and spreads of the constraints; empty for a problem without constraints."""
    names = [] if problem.outputs[0].objective else [output.name for output in problem.outputs[1:] if not output.plain]
    return {"constraints": names, "spreads": spreads(problem)} if names else {}


def _trials(campaign: Campaign, ledger: Ledger) -> list[dict[str, Any]]:
    fields, output = fields_at(campaign.settings.fields), campaign.objective.output
    return [
        {
            "trial": trial.id,
            "origin": trial.origin.kind,
            "design": dict(trial.actual),
            "reading": (trial.outputs or {})[output] if (feasible := _counts(campaign, trial)) else None,
            "true": _true(campaign.problem, trial, fields) if feasible else None,
            **_all_outputs(campaign.problem, trial, fields),
        }
        for trial in ledger.trials(campaign.name)
    ]


def _counts(campaign: Campaign, trial: Trial) -> bool:
    return campaign.objective.best([trial]) is not None


def _true(problem: Problem, trial: Trial, fields: FieldStore) -> float:
    """The objective at a design without noise: the problem's exact value, or evaluated from the stored fields."""
    if (exact := exact_value(problem, trial)) is not None:
        return exact
    assert trial.field is not None  # a completed trial has its fields
    found = problem.completed(problem.evaluate(trial.actual, fields.read(trial.field)), trial.actual)
    return float(found[problem.outputs[0].name])


def _all_outputs(problem: Problem, trial: Trial, fields: FieldStore) -> dict[str, list[float] | None]:
    """Objective and constraints of a trial without noise; empty where there are no constraints."""
    names = [output.name for output in problem.outputs if not output.plain]
    if len(names) == 1:
        return {}
    if not trial.counts:
        return {"outputs": None}
    if (exact := exact_outputs(problem, [trial.actual])) is not None:
        return {"outputs": exact[0].tolist()}
    assert trial.field is not None  # a completed trial has its fields
    found = problem.completed(problem.evaluate(trial.actual, fields.read(trial.field)), trial.actual)
    return {"outputs": [float(found[name]) for name in names]}
