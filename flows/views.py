"""What a person sees of a campaign, as data and as text. Reads records alone: no torch, no solver."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flows.exporting import objective_of
from storage.ledger import Ledger
from storage.records import Campaign, Product, Trial, TrialState


def best_trial(campaign: Campaign, trials: Sequence[Trial]) -> Trial | None:
    """The completed trial with the best reading among those that meet the constraints; the first of equals."""
    objective = objective_of(campaign)
    sign = -1.0 if objective.maximize else 1.0
    feasible = [t for t in trials if t.state is TrialState.COMPLETED and objective.best([t]) is not None]
    return min(feasible, key=lambda t: sign * (t.outputs or {})[objective.output], default=None)


def quantity(value: float | int | str, unit: str) -> str:
    """A value with its unit, to six figures."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}" if unit else text


def design_text(campaign: Campaign, design: Mapping[str, float | int | str]) -> str:
    """A design with units: ``x 6.18319 m, y 5.92621 m``."""
    units = campaign.environment["units"]
    return ", ".join(f"{name} {quantity(value, units.get(name, ''))}" for name, value in design.items())


def outputs_text(campaign: Campaign, outputs: Mapping[str, float] | None) -> str:
    """Outputs with units: ``temperature 575.2 K``."""
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    return ", ".join(f"{name} {quantity(value, units.get(name, ''))}" for name, value in (outputs or {}).items()) or "-"


def status_data(ledger: Ledger, campaign: Campaign) -> dict[str, Any]:
    """Where a campaign stands."""
    trials = ledger.trials(campaign.name)
    best, holder = best_trial(campaign, trials), ledger.holder(campaign.name)
    return {
        "campaign": campaign.name,
        "finished": campaign.finished,
        "running": holder and {"host": holder.host, "pid": holder.pid},
        "trials": len(trials),
        "budget": campaign.spec["budget"]["trials"],
        "states": dict(sorted(Counter(str(trial.state) for trial in trials).items())),
        "iteration": max((trial.iteration for trial in trials), default=None),
        "best": best and {"trial": best.id, "design": dict(best.design), "outputs": dict(best.outputs or {})},
        "untracked": len(ledger.pending(campaign.name)),
    }


def status_text(ledger: Ledger, campaign: Campaign) -> str:
    """The same as text."""
    data = status_data(ledger, campaign)
    if data["finished"]:
        condition = f"finished ({data['finished']})"
    elif data["running"]:
        condition = f"running (pid {data['running']['pid']} on {data['running']['host']})"
    else:
        condition = "stopped; 'fieldcraft run FILE' goes on"
    states = ", ".join(f"{count} {state.lower()}" for state, count in data["states"].items()) or "none yet"
    lines = [f"{campaign.name}: {condition}", f"  trials   {data['trials']} of {data['budget']}: {states}"]
    if data["best"]:
        found = data["best"]
        lines.append(f"  best     {outputs_text(campaign, found['outputs'])} in {found['trial']}")
        lines.append(f"           at {design_text(campaign, found['design'])}")
    if data["untracked"]:
        lines.append(f"  MLflow   {data['untracked']} events wait; 'fieldcraft export mlflow' shows them")
    return "\n".join(lines)


def show_data(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    """A trial with its approvals, results and history."""
    return {
        **trial.model_dump(mode="json"),
        "approvals": [approval.model_dump(mode="json") for approval in ledger.approvals(trial.id)],
        "results": [result.model_dump(mode="json") for result in ledger.results(trial.id)],
        "history": [event.model_dump(mode="json") for event in ledger.history(trial.campaign, trial.id)],
    }


def show_text(ledger: Ledger, trial: Trial) -> str:
    """The same as text."""
    campaign = ledger.campaign(trial.campaign)
    lines = [
        f"{trial.id}: {trial.state.lower()}, iteration {trial.iteration}, slot {trial.slot}, attempt {trial.attempt}",
        f"  design   {design_text(campaign, trial.design)}",
        f"  outputs  {outputs_text(campaign, trial.outputs)}",
    ]
    if trial.origin.mean is not None:
        unit = campaign.environment["outputs"][0]["unit"]
        predicted = f"{quantity(trial.origin.mean, unit)} +- {quantity(trial.origin.sd or 0.0, unit)}"
        lines.append(f"  foreseen {predicted} by {trial.origin.algorithm}")
    if trial.field:
        lines.append(f"  field    {trial.field.digest[:16]}... ({trial.field.size} bytes)")
    lines.append("  history")
    for event in ledger.history(trial.campaign, trial.id):
        moved = f"{event.before or ''} -> {event.after}" if event.after else event.action
        lines.append(f"    {_clock(event.created)}  {moved.strip():<24} {event.by}: {event.reason}")
    return "\n".join(lines)


def trace_data(ledger: Ledger, trial: Trial, field_path: str | None, checkpoint_path: str | None) -> dict[str, Any]:
    """A trial's lineage, back to seed, code and environment, and forward to its MLflow run and field."""
    campaign, origin = ledger.campaign(trial.campaign), trial.origin
    runs = ledger.tracked(trial.campaign)
    lineage: dict[str, Any] = {
        "trial": {"id": trial.id, "digest": trial.digest, "state": str(trial.state), "design": dict(trial.design)},
        "acquisition": {
            "algorithm": origin.algorithm,
            "kind": origin.kind,
            "iteration": origin.iteration,
            "slot": origin.slot,
            "value": origin.acquisition,
            "mean": origin.mean,
            "sd": origin.sd,
            "reproducible": origin.reproducible,
        },
    }
    model = ledger.product(trial.campaign, origin.model.iteration, "train") if origin.model else None
    points = ledger.product(trial.campaign, origin.model.iteration, "collocate") if origin.model else None
    lineage["model"] = model and _model(model, checkpoint_path, runs)
    lineage["data"] = model and {"digest": origin.data_digest, "trials": list(model.payload["trials"])}
    lineage["collocation"] = points and {**points.payload, "digest": points.reference and points.reference.digest}
    lineage["seed"] = {"seed": origin.seed, "address": [origin.iteration, origin.slot]}
    environment = model.payload["environment"] if model else campaign.environment
    lineage["code"] = {"commit": environment.get("commit"), "specification": campaign.digest}
    lineage["environment"] = {"digest": origin.environment, **environment}
    lineage["approvals"] = [a.model_dump(mode="json") for a in ledger.approvals(trial.id)]
    lineage["mlflow"] = runs.get(f"trial:{trial.id}")
    lineage["field"] = trial.field and {"digest": trial.field.digest, "path": field_path}
    return lineage


def _model(product: Product, path: str | None, runs: Mapping[str, str]) -> dict[str, Any]:
    kept = {key: product.payload[key] for key in ("surrogate", "metrics", "seconds")}
    return {
        "iteration": product.iteration,
        "digest": product.digest,
        **kept,
        "checkpoint": product.reference and {"digest": product.reference.digest, "path": path},
        "mlflow": runs.get(f"surrogate:{product.iteration}"),
    }


def trace_text(data: Mapping[str, Any]) -> str:
    """The lineage as indented text."""
    return "\n".join(_lines(data, 0))


def _lines(data: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{'  ' * depth}{key}", *_lines(value, depth + 1)]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, item in enumerate(value):
                lines += [f"{'  ' * depth}{key} {number + 1}", *_lines(item, depth + 1)]
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            lines.append(f"{'  ' * depth}{key:<14} {'-' if text is None else text}")
    return lines


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f".{math.floor(at % 1 * 10)}"
