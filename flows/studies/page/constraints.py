"""Text of a study's problems with constraints: names of the metrics, lines of the tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.studies.plan.spec import Metric

LABELS: Mapping[Metric, str] = {
    "regret_and_violation": "log10 regret + violation",
    "feasible_regret": "feasible regret",
    "cumulative_regret": "sum of regrets",
    "cumulative_violation": "sum of violations",
}
"""Names of the metrics in tables and on axes."""

IN_UNIT: frozenset[Metric] = frozenset({"feasible_regret", "cumulative_regret"})
"""The metrics that have the objective's unit; the others are pure numbers."""

SHORTFALL_HEAD = (
    *("algorithm", "feasible", "first feasible", "feasible trials", "feasible regret", "± s.e.", "sum of regrets"),
    *("sum of violations", "log10 r + v", "unscaled"),
)


def metric_label(problem: Mapping[str, Any]) -> str:
    """Name of the metric that compares a problem's algorithms: the study's metric with constraints, else the regret."""
    return LABELS[problem["metric"]] if "metric" in problem else "regret"


def compared_by(data: Mapping[str, Any]) -> str:
    """Names of the metrics that compare a study's algorithms, in words."""
    metrics = {metric_label(each) for each in data["problems"] if "metric" in each}
    return "regret" + "".join(f" ({metric} on problems with constraints)" for metric in metrics)


def shortfall_lines(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A line of ``SHORTFALL_HEAD`` for each row of a problem's table; none where it has no constraints."""
    return [_line(row["algorithm"], row["n"], row["constrained"]) for row in rows if "constrained" in row]


def _line(algorithm: str, n: int, of: Mapping[str, Any]) -> list[str]:
    metrics = of["metrics"]
    return [
        algorithm,
        f"{of['feasible']} of {n}",
        _or_none(of["first_feasible"], "{:g}"),
        f"{of['feasible_trials']:g}",
        _or_none(metrics["feasible_regret"]["mean"]),
        _or_none(metrics["feasible_regret"]["error"], none=""),
        f"{metrics['cumulative_regret']['mean']:.4g}",
        f"{metrics['cumulative_violation']['mean']:.4g}",
        f"{metrics['regret_and_violation']['mean']:.3g}",
        f"{of['unscaled']:.3g}",
    ]


def _or_none(value: float | None, form: str = "{:.3g}", none: str = "none") -> str:
    return none if value is None else form.format(value)


def violation_lines(problem: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the table of each constraint's cumulative violation; the first line has their spreads."""
    spreads = [f"{spread:.3g}" for spread in problem["spreads"][1:]]
    lines = [
        [row["algorithm"], *(f"{value:.3g}" for value in row["constrained"]["violations"].values())]
        for row in problem["rows"]
    ]
    return ["algorithm", *problem["constraints"]], [["spread", *spreads], *lines]


ABOUT_METRICS = (
    "On a problem with constraints c_k <= 0 all of this is of the exact objective f and constraints, without noise, at "
    "the designs tried. Positive regret: how much worse f is than its best feasible value, 0 where it is better; "
    "violation: how far a constraint is above 0, else 0. log10 regret + violation: of the least sum, over the trials "
    "so far, of positive regret and all violations, each divided by its spread over the problem's whole space (the "
    "objective's as the problem states it, the constraints' from a fixed Sobol sample of 4,096 designs; where only "
    "simulations tell the outputs, over the designs that the study has tried), so that no constraint counts for more "
    "because its numbers are larger; unscaled: the same without dividing. feasible regret: "
    "of the best feasible design tried, in the objective's unit, none while there is none: a mean over campaigns of "
    "which one has none counts as infinite, shares the last rank and has no test. sum of regrets, in the objective's "
    "unit, and sum of violations, each divided by its spread: over all trials, the start included. feasible: campaigns "
    "that tried a feasible design; first feasible: number of its trial, median; feasible trials: how many were, mean."
)
"""How to read the tables of problems with constraints."""
