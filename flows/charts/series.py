"""Series of a campaign's records, of which charts are made: trials that count, the best so far, what a trial says."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.charts.chart import FIGURES, LOG, MOST, Cell, axis, labelled, literal, numbers, plain
from fieldcraft.flows.text import level_text, one_line
from fieldcraft.storage.records import CampaignRecord, Level, Trial, TrialSummary

Some = Trial | TrialSummary
"""A trial, or one in brief."""

T = TypeVar("T", Trial, TrialSummary, Trial | TrialSummary)
KINDS = (("initial", "start", "square"), ("model", "proposed", "circle"), ("imported", "imported", "triangle-up"))
"""Origins of trials: as recorded, in words, and their marks."""


def completed(trials: Sequence[T]) -> list[T]:
    """Trials with a result that counts, by number."""
    return [trial for trial in trials if trial.counts]


def kind_of(trial: Some) -> str:
    """Origin of a trial: initial, model or imported. A summary's is taken from its iteration."""
    if isinstance(trial, Trial):
        return trial.origin.kind
    return "imported" if trial.imported else "model" if trial.iteration else "initial"


def best_so_far(campaign: CampaignRecord, trials: Sequence[Some]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers (n,) of the feasible trials, and the best result (n,) up to each, in its unit."""
    objective = objective_of(campaign)
    feasible = [trial for trial in completed(trials) if objective.feasible(trial.outputs or {})]
    values = np.array([(trial.outputs or {})[objective.output] for trial in feasible], dtype=float)
    best = (np.maximum if objective.maximize else np.minimum).accumulate(values)
    return np.array([trial.number for trial in feasible], dtype=int), best


def drawn(campaign: CampaignRecord, trials: Sequence[T]) -> list[T]:
    """Completed trials that are drawn: all of ``MOST``; of more the best, which lie closest to what is sought.

    Feasible trials rank first, by the (first) objective; infeasible ones by their violation.
    """
    done = completed(trials)
    if len(done) <= MOST:
        return done
    objective = objective_of(campaign)
    output, sign = campaign.environment["outputs"][0]["name"], -1.0 if objective.maximize else 1.0

    def rank(trial: T) -> tuple[float, float]:
        outputs = trial.outputs or {}
        return objective.violation(outputs), sign * outputs[output]

    return sorted(sorted(done, key=rank)[:MOST], key=lambda trial: trial.number)


def variable_axis(campaign: CampaignRecord, name: str) -> dict[str, Any]:
    """An axis of one variable, logarithmic where the variable is."""
    kind = LOG if name in logarithmic(campaign) else {}
    return axis(labelled(name, campaign.environment["units"][name]), **kind)


def logarithmic(campaign: CampaignRecord) -> tuple[str, ...]:
    """Names of the variables with a logarithmic scale."""
    return tuple(campaign.environment.get("log", ()))


def variables(campaign: CampaignRecord, trials: Sequence[Some]) -> list[str]:
    """Names of the design variables but images, in order."""
    return [name for name in campaign.environment["units"] if not any(is_image(trial.actual[name]) for trial in trials)]


def is_image(value: Level) -> bool:
    """True if a level is the text of an image."""
    return isinstance(value, str) and level_text(value) != one_line(value)


def said(campaign: CampaignRecord, trial: Some) -> str:
    """Text of a trial under the pointer: id, results and the design as run."""
    units, figures = campaign.environment["units"], _figures(campaign)
    outputs = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    told = [f"<b>{literal(trial.id)}</b>"]
    told += [_said(name, value, outputs.get(name, "")) for name, value in (trial.outputs or {}).items()]
    for name, value in existing(campaign, trial.actual).items():
        told.append(_said(name, value, units.get(name, ""), figures.get(name, FIGURES)))
    return "<br>".join(told)


def _figures(campaign: CampaignRecord) -> Mapping[str, int]:
    """Significant figures of variables by name, where a narrow range asks for more than ``FIGURES``."""
    told: Mapping[str, int] = campaign.environment.get("figures", {})
    return told


def _said(name: str, value: Level, unit: str, figures: int = FIGURES) -> str:
    text = level_text(value) if isinstance(value, str) else f"{value:.{figures}g}"
    return literal(f"{name} = {text} {unit}".rstrip())


def table(campaign: CampaignRecord, trials: Sequence[Some]) -> tuple[list[str], list[list[Cell]]]:
    """Head and rows of trials: id, origin, design as run and results."""
    units, figures = campaign.environment["units"], _figures(campaign)
    outputs = campaign.environment["outputs"]
    head = ["trial", "origin", *(labelled(name, unit) for name, unit in units.items())]
    head += [labelled(output["name"], output["unit"]) for output in outputs]
    words = {kind: text for kind, text, _ in KINDS}
    results = [numbers([(trial.outputs or {}).get(output["name"], np.nan) for trial in trials]) for output in outputs]
    rows = [
        [
            trial.id,
            words[kind_of(trial)],
            *(_cell(existing(campaign, trial.actual).get(name), figures.get(name, FIGURES)) for name in units),
            *(column[place] for column in results),
        ]
        for place, trial in enumerate(trials)
    ]
    return head, rows


def _cell(value: Level | None, figures: int) -> Cell:
    return level_text(value) if isinstance(value, str) else None if value is None else plain(float(value), figures)


def output_label(output: Mapping[str, Any]) -> str:
    """Label of an output of ``environment["outputs"]``."""
    return labelled(output["name"], output["unit"])
