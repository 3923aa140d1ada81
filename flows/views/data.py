"""Views of a campaign as data; ``flows.views.text`` has the text.

Reads records alone: no torch, no solver.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fieldcraft.flows.analysis.best import best_data, best_of, objective_of
from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.analysis.feasibility import campaign_feasibility, trial_feasibility
from fieldcraft.flows.analysis.front import dominated_by, front_data
from fieldcraft.flows.analysis.incomplete import incomplete_data
from fieldcraft.flows.analysis.learnt import learnt_by
from fieldcraft.flows.analysis.levels import level_counts, level_data, levels_of
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.analysis.picks import picked_data
from fieldcraft.flows.analysis.predicted import predicted_data
from fieldcraft.flows.notices.deliver import current
from fieldcraft.flows.products import Collocated, Trained
from fieldcraft.flows.rules.final_model import given_up
from fieldcraft.flows.rules.retries import retries
from fieldcraft.flows.spec.campaign_file import Approval, Dispatch
from fieldcraft.flows.text import FIGURES, clock, counted, level_text, one_line
from fieldcraft.flows.views.all_failed import fruitless, mending
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import (
    SETTLED,
    CampaignRecord,
    Event,
    Origin,
    Product,
    Result,
    Spending,
    Trial,
    TrialState,
    TrialSummary,
)

# Significant figures of a float64 number.
_MOST_FIGURES = 17


def corrections(trials: Sequence[Trial | TrialSummary], replaced: Collection[str]) -> dict[str, str]:
    """``corrected`` or ``retracted`` by trial, for the trials whose first accepted result no longer counts.

    Args:
        trials: The trials.
        replaced: Trials with a replaced result, from ``Ledger.corrected``.
    """
    return {t.id: "retracted" if t.outputs is None else "corrected" for t in trials if t.id in replaced}


def quantity(value: float | int | str, unit: str, figures: int = FIGURES) -> str:
    """A value with its unit, to so many significant figures; an image by its size."""
    text = f"{value:.{figures}g}" if isinstance(value, float) else level_text(str(value))
    return f"{text} {one_line(unit)}" if unit else text


def quantity_pm(value: float, sd: float, unit: str) -> str:
    """A value with its standard deviation and unit, ``50.2 +- 0.8 MPa``; without the deviation where it is 0."""
    if sd == 0:
        return quantity(value, unit)
    return f"{value:.{_figures_beside(value, sd)}g} +- {quantity(float(f'{sd:.3g}'), unit)}"


def _figures_beside(value: float, sd: float) -> int:
    """Significant figures of a value that show what its standard deviation leaves: two of that, and six at least."""
    if not (value and math.isfinite(value) and math.isfinite(sd)):
        return FIGURES
    return min(_MOST_FIGURES, max(FIGURES, math.floor(math.log10(abs(value))) - math.floor(math.log10(sd)) + 2))


def setting(campaign: CampaignRecord, name: str, value: float | int | str, *, unit: bool = True) -> str:
    """A variable's value with its unit, to the figures that its range asks for (``Continuous.figures``)."""
    figures = campaign.environment.get("figures", {}).get(name, FIGURES)
    return quantity(value, campaign.environment["units"].get(name, "") if unit else "", figures)


def predicted_text(found: Mapping[str, Any], *, named: bool = True) -> str:
    """The data of ``predicted_data``: ``strength 39.1 +- 1 MPa, price 3 +- 0.2 EUR, feasible with probability ...``.

    Args:
        found: The prediction.
        named: False to leave out the name of an only objective.
    """
    several = "others" in found
    said = []
    for each in (found, *found.get("others", ())):
        value = quantity_pm(each["mean"], each["sd"], each["unit"])
        said.append(f"{each['output']} {value}" if named or several else value)
    if found.get("feasible") is not None:
        said.append(f"feasible with probability {found['feasible']:.2g}")
    return ", ".join(said)


def design_text(
    campaign: CampaignRecord,
    design: Mapping[str, float | int | str],
    unlike: Mapping[str, float | int | str] | None = None,
) -> str:
    """A design with units: ``x 6.18319 m, y 5.92621 m``; without variables that do not exist in it.

    Args:
        campaign: The campaign.
        design: The whole design.
        unlike: Another design, where only what differs from it is told.
    """
    told = existing(campaign, design)
    if unlike is not None:
        other = existing(campaign, unlike)
        told = {name: value for name, value in told.items() if value != other.get(name)}
    return ", ".join(f"{name} {setting(campaign, name, value)}" for name, value in told.items())


def outputs_text(
    campaign: CampaignRecord, outputs: Mapping[str, float] | None, sd: Mapping[str, float] | None = None
) -> str:
    """Outputs with units, and standard deviations in the same units: ``strength 51 MPa (sd 0.8)``."""
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    known = sd or {}
    texts = [
        f"{name} {quantity(value, units.get(name, ''))}" + (f" (sd {known[name]:.6g})" if name in known else "")
        for name, value in (outputs or {}).items()
    ]
    return ", ".join(texts) or "-"


def incomplete_text(campaign: CampaignRecord, item: Mapping[str, Any]) -> str:
    """``incomplete: price 0.4 EUR; still missing: strength``, from one of ``incomplete_data``."""
    known = outputs_text(campaign, item["outputs"], item["sd"])
    return f"incomplete: {known}; still missing: {', '.join(item['missing'])}"


def recorded_text(item: Mapping[str, Any]) -> str:
    """``price recorded by ann, 2026-02-25 10:33:20 UTC; smoke by ...``, from one of ``incomplete_data``."""
    said = [
        f"{name} recorded by {one_line(each['by'])}, {clock(each['created'])}" for name, each in item["known"].items()
    ]
    return "; ".join(said)


def status_data(ledger: Ledger, campaign: CampaignRecord) -> dict[str, Any]:
    """State of a campaign, its spending, and the trials and notices that wait for a person."""
    name = campaign.name
    trials = ledger.summaries(name)
    notices = current(ledger, ledger.notices(name, limit=1000))
    changed = Counter(corrections(trials, ledger.corrected(name)).values())
    holder, trainer = ledger.holder(name), ledger.trainer(name)
    return {
        "campaign": name,
        "finished": campaign.finished,
        "running": holder and {"host": holder.host, "pid": holder.pid},
        "training": trainer and {"host": trainer.host, "pid": trainer.pid},
        "trials": sum(trial.level is None for trial in trials),
        "budget": campaign.spec["budget"]["trials"],
        "states": dict(sorted(Counter(str(trial.state) for trial in trials if trial.level is None).items())),
        **({"levels": level_counts(campaign, trials)} if levels_of(campaign) else {}),
        "iteration": max((trial.iteration for trial in trials), default=None),
        **best_data(best_of(ledger, campaign, trials)),
        "untrained": given_up(ledger, name) if campaign.finished else None,
        "feasibility": campaign_feasibility(objective_of(campaign), trials),
        "front": front_data(campaign, trials),
        "picked": picked_data(ledger.picked(name), campaign, trials),
        "spending": spending_data(campaign, ledger.spending(name)),
        "imported": sum(trial.imported for trial in trials),
        "corrected": changed["corrected"],
        "retracted": changed["retracted"],
        "waiting": _waiting(ledger, campaign, trials),
        "incomplete": incomplete_data(ledger, campaign, trials),
        "notices": {"waiting": len(notices), "failing": sum(notice.tries > 0 for notice in notices)},
        "untracked": ledger.unexported(name),
        "fruitless": (why := fruitless(ledger, name, trials)),
        "mending": why and mending(name, trials, campaign.finished),
    }


def settled(trials: Sequence[Trial | TrialSummary]) -> int:
    """Number of trials of the budget that have ended; a rejected, an imported or a coarser one takes none of it."""
    ended = SETTLED - {TrialState.REJECTED}
    return sum(trial.state in ended and not trial.imported and trial.level is None for trial in trials)


def spending_data(campaign: CampaignRecord, spending: Spending) -> dict[str, dict[str, Any]]:
    """Spent, reserved and limit (None for none) of each part of a budget: trials, cost and wall time in s."""
    limits, unit = campaign.limits, budget_unit(campaign)
    trials = int(campaign.spec["budget"]["trials"]) if limits.trials is None else limits.trials
    return {
        "trials": _against(spending.trials, 0, trials, ""),
        "cost": _against(spending.spent, spending.reserved, limits.cost, unit),
        "seconds": _against(spending.seconds, spending.seconds_reserved, limits.seconds, "s"),
    }


def _against(spent: float, reserved: float, limit: float | None, unit: str) -> dict[str, Any]:
    return {"spent": spent, "reserved": reserved, "limit": limit, "unit": unit}


def budget_unit(campaign: CampaignRecord) -> str:
    """Name of the campaign's budget unit; empty where its file names none."""
    return str(campaign.spec["budget"].get("unit", ""))


def _waiting(ledger: Ledger, campaign: CampaignRecord, trials: Sequence[TrialSummary]) -> dict[str, Any]:
    """Trials that wait for a person or a laboratory, and those that will be retried."""
    policy = Approval.model_validate(campaign.spec.get("approval", {})).policy
    chosen = Dispatch.model_validate(campaign.spec.get("dispatcher", {}))
    held = [trial.id for trial in trials if trial.state is TrialState.HELD]
    return {
        "approval": [t.id for t in trials if t.state is TrialState.PROPOSED and policy != "auto"],
        "held": [{"trial": held_id, "reason": ledger.history(campaign.name, held_id)[-1].reason} for held_id in held],
        "laboratory": [t.id for t in trials if t.state is TrialState.RUNNING and by_people(campaign)],
        "retries": [{"trial": retry.trial.id, "due": retry.due} for retry in retries(ledger, chosen, campaign.name)],
    }


def next_steps(data: Mapping[str, Any]) -> list[str]:
    """Actions that a person can take now, each with its command, from the data of ``status_data``."""
    name, waiting = data["campaign"], data["waiting"]
    queue, record = f"fieldcraft queue {name}", "fieldcraft record TRIAL --value NAME=NUMBER"
    open_to_people = {
        f"to approve: {queue}": waiting["approval"],
        f"held, to retry, record or abandon: {queue}": waiting["held"],
        f"with the laboratory: {record}": waiting["laboratory"],
    }
    steps = [f"{counted(len(trials), 'trial')} {what}" for what, trials in open_to_people.items() if trials]
    if (away := data["training"]) and not data["running"]:
        steps.append(f"its model is being trained by pid {away['pid']} on {away['host']}: the next pass goes on")
    if data["mending"] and not steps and not data["running"]:
        return [data["mending"]]
    if steps or data["finished"] or data["running"]:
        return [] if data["finished"] else steps
    return [f"nobody makes passes over it: 'fieldcraft run FILE' or 'fieldcraft iterate {name}' goes on"]


def revisions(history: Sequence[Event]) -> list[dict[str, Any]]:
    """Edits of a trial's design, oldest first: time, author, reason, and the details of the event."""
    return [
        {"created": event.created, "by": event.by, "reason": event.reason, **event.details}
        for event in history
        if event.action == "edit"
    ]


def show_data(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    """A trial with its approvals, revisions, results and history."""
    history, campaign = ledger.history(trial.campaign, trial.id), ledger.campaign(trial.campaign)
    return {
        **trial.model_dump(mode="json"),
        **level_data(campaign, trial.level),
        "feasibility": trial_feasibility(objective_of(campaign), trial),
        "dominated_by": dominated_by(ledger, campaign, trial),
        "approvals": [approval.model_dump(mode="json") for approval in ledger.approvals(trial.id)],
        "revisions": revisions(history),
        "results": [result.model_dump(mode="json") for result in ledger.results(trial.id)],
        "history": [event.model_dump(mode="json") for event in history],
    }


def trace_data(ledger: Ledger, trial: Trial, field_path: str | None, checkpoint_path: str | None) -> dict[str, Any]:
    """A trial's lineage, back to seed, code and environment, and forward to its MLflow run and field."""
    campaign, origin = ledger.campaign(trial.campaign), trial.origin
    runs = ledger.tracked(trial.campaign)
    own = {"id": trial.id, "digest": trial.digest, "state": str(trial.state), "design": dict(trial.design)}
    lineage: dict[str, Any] = {
        "trial": {**own, **level_data(campaign, trial.level)},
        "acquisition": {
            "algorithm": origin.algorithm,
            "kind": origin.kind,
            "iteration": origin.iteration,
            "slot": origin.slot,
            "value": origin.acquisition,
            "mean": origin.mean,
            "sd": origin.sd,
            **_several(campaign, origin),
            "certificate": origin.certificate and origin.certificate.model_dump(),
            **({} if origin.regret is None else {"regret": origin.regret.model_dump()}),
            "reproducible": origin.reproducible,
            "remarks": dict(origin.remarks),
            "scores": ranked(origin.scores),
        },
    }
    model = ledger.product(trial.campaign, origin.model.iteration, "train") if origin.model else None
    points = ledger.product(trial.campaign, origin.model.iteration, "collocate") if origin.model else None
    lineage["model"] = model and _model(model, checkpoint_path, runs)
    lineage["data"] = model and _data(origin, model, ledger)
    lineage["collocation"] = points and _points(points)
    lineage["seed"] = {"seed": origin.seed, "address": [origin.iteration, origin.slot]}
    environment = Trained.of(model).environment if model else campaign.environment
    lineage["code"] = {
        "commit": environment.get("commit"),
        "specification": campaign.digest,
        **_approved(ledger, trial),
    }
    lineage["environment"] = {"digest": origin.environment, **environment}
    lineage["approvals"] = [approval.model_dump(mode="json") for approval in ledger.approvals(trial.id)]
    lineage["revisions"] = revisions(ledger.history(trial.campaign, trial.id))
    lineage["results"] = [_result(result) for result in ledger.results(trial.id)]
    lineage["feasibility"] = trial_feasibility(objective_of(campaign), trial)
    lineage["mlflow"] = runs.get(f"trial:{trial.id}")
    chosen = ledger.product(trial.campaign, origin.model.iteration, "acquire") if origin.model else None
    if chosen is not None and chosen.reference is not None:
        lineage["acquisition"]["field"] = {"digest": chosen.reference.digest, "slot": origin.slot}
    lineage["field"] = trial.field and {"digest": trial.field.digest, "path": field_path}
    return lineage


def _several(campaign: CampaignRecord, origin: Origin) -> dict[str, Any]:
    """Entries for several objectives: whose ``mean`` and ``sd`` are, those of the others, the chance to be feasible."""
    found = predicted_data(campaign, origin) or {}
    if not objective_of(campaign).goals:
        return {}
    return {
        "predicted": objective_of(campaign).output,
        "others": {
            each["output"]: {key: each[key] for key in ("mean", "sd", "unit")} for each in found.get("others", [])
        },
        "feasible": found.get("feasible"),
    }


def _points(product: Product) -> dict[str, Any]:
    return {**asdict(Collocated.of(product)), "digest": product.reference and product.reference.digest}


def _approved(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    """The source files that the trial's last approval covers, by name, with the SHA-256 of each."""
    digests = [approval.code for approval in ledger.approvals(trial.id) if approval.code is not None]
    code = ledger.codes(trial.campaign).get(digests[-1]) if digests else None
    return {"approved": code and dict(code.files)}


def ranked(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores of the surrogates from which a model was selected, best first."""
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def _data(origin: Origin, model: Product, ledger: Ledger) -> dict[str, Any]:
    """Training data of a model; models of the first version do not record the results of their trials."""
    made = Trained.of(model)
    if made.seen is None:
        results = None if made.results is None else list(made.results)
        return {"digest": origin.data_digest, "trials": list(made.trials), "results": results}
    numbers = {trial.id: trial.number for trial in ledger.summaries(model.campaign)}
    learnt = sorted(learnt_by(made, ledger.result_summaries(model.campaign)).values(), key=lambda r: numbers[r.trial])
    return {
        "digest": origin.data_digest,
        "trials": [result.trial for result in learnt],
        "results": [result.id for result in learnt],
        **({"partial": {trial: part["result"] for trial, part in made.partial.items()}} if made.partial else {}),
    }


def _result(result: Result) -> dict[str, Any]:
    kept = {"id", "attempt", "verdict", "replaces", "outputs", "ran", "by", "source", "digest"}
    return result.model_dump(mode="json", include=kept)


def _model(product: Product, path: str | None, runs: Mapping[str, str]) -> dict[str, Any]:
    made = Trained.of(product)
    return {
        "iteration": product.iteration,
        "digest": product.digest,
        "surrogate": made.surrogate,
        "metrics": made.metrics,
        "seconds": made.seconds,
        "trained": made.trained and asdict(made.trained),
        "remarks": dict(made.remarks),
        "checkpoint": product.reference and {"digest": product.reference.digest, "path": path},
        "mlflow": runs.get(f"surrogate:{product.iteration}"),
    }
