"""Objective, constraints, violation and feasibility of a trial and of a campaign, as data and as text.

A constraint g, an output beyond the first, is met where g <= 0. Reads records alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fieldcraft.storage.objective import Objective
from fieldcraft.storage.records import CampaignRecord, Trial, TrialState, TrialSummary

T = TypeVar("T", Trial, TrialSummary)


def is_infeasible(trial: Trial | TrialSummary) -> bool:
    """True if the target gave no result because the design is infeasible: refused by a gate or by the dispatcher."""
    return (
        trial.level is None
        and trial.state in (TrialState.FAILED, TrialState.ABANDONED)
        and trial.failure == "infeasible"
    )


def trial_feasibility(objective: Objective, trial: Trial) -> dict[str, Any] | None:
    """Feasibility of a trial; None where nothing is known of it, or the problem has no constraint.

    Returns:
        ``feasible``; ``violation``, the sum of the positive parts of the constraints, and ``constraints``, each with
        its ``value`` and ``violation`` in its own unit: None and empty where the design gave no result.
    """
    if is_infeasible(trial):
        return {"feasible": False, "violation": None, "constraints": {}}
    if not trial.counts or trial.outputs is None or not objective.constraints:
        return None
    outputs, excess = trial.outputs, objective.excess(trial.outputs)
    return {
        "feasible": objective.feasible(outputs),
        "violation": objective.violation(outputs),
        "constraints": {name: {"value": outputs[name], "violation": excess[name]} for name in objective.constraints},
    }


def campaign_feasibility(objective: Objective, trials: Sequence[T]) -> dict[str, Any] | None:
    """Feasibility of a campaign's trials; None where it has no constraints and no design was infeasible.

    Returns:
        Numbers of trials whose results are ``feasible`` and ``infeasible``; ``failed_infeasible``, the number of those
        that gave no result because their design is infeasible; and ``least_violation``, the trial with the least
        violation while no result is feasible, else None.
    """
    failed = sum(map(is_infeasible, trials))
    if not objective.constraints and not failed:
        return None
    done = _read(trials)
    feasible = sum(objective.feasible(trial.outputs or {}) for trial in done)
    nearest = None if feasible else closest(objective, done)
    return {
        "feasible": feasible,
        "infeasible": len(done) - feasible,
        "failed_infeasible": failed,
        "least_violation": nearest
        and {
            "trial": nearest.id,
            "design": dict(nearest.actual),
            "outputs": dict(nearest.outputs or {}),
            "violation": objective.violation(nearest.outputs or {}),
            "each": objective.excess(nearest.outputs or {}),
        },
    }


def closest(objective: Objective, trials: Sequence[T]) -> T | None:
    """The completed trial with the least violation, the first of equals; None where none is completed."""
    return min(_read(trials), key=lambda trial: objective.violation(trial.outputs or {}), default=None)


def _read(trials: Sequence[T]) -> list[T]:
    return [trial for trial in trials if trial.counts]


def feasible_text(found: Mapping[str, Any]) -> str:
    """``3 of 5 results; 1 design failed as infeasible``, from the data of ``campaign_feasibility``."""
    read, failed = found["feasible"] + found["infeasible"], found["failed_infeasible"]
    more = f"; {failed} more {'design' if failed == 1 else 'designs'} failed as infeasible" if failed else ""
    return f"{found['feasible']} of {read} {'result' if read == 1 else 'results'}{more}"


def violation_text(campaign: CampaignRecord, each: Mapping[str, float]) -> str:
    """``0.5 (porosity 0.5 %)``: the violation of a design, and its part from each constraint."""
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    parts = [f"{name} {value:.6g} {units[name]}".rstrip() for name, value in each.items() if value > 0]
    return f"{sum(each.values()):.6g}" + (f" ({', '.join(parts)})" if parts else "")


def verdict_text(campaign: CampaignRecord, found: Mapping[str, Any]) -> str:
    """``yes``, or ``no, violation 0.5 (porosity 0.5 %)``, from the data of ``trial_feasibility``."""
    if found["feasible"]:
        return "yes"
    if found["violation"] is None:
        return "no, the design itself is infeasible"
    each = {name: part["violation"] for name, part in found["constraints"].items()}
    return f"no, violation {violation_text(campaign, each)}"
