"""Curves of a study as Plotly figures: mean of a metric by trials, a line for each algorithm, with the data behind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fieldcraft.flows.charts.chart import Cell, Chart, labelled, plain
from fieldcraft.flows.charts.compare import Curve, curves
from fieldcraft.flows.studies.page.constraints import IN_UNIT, LABELS, metric_label

_WIDE = 8.0  # ratio of the greatest mean to the least from which on a linear scale hides the small ones
_LEAST = 0.1  # of a mean: a band that reached below zero would reach the bottom of a logarithmic scale


def problem_charts(problem: Mapping[str, Any], order: Sequence[str]) -> list[Chart]:
    """Charts of a problem's metrics: the one that compares its algorithms, then those of its constraints.

    A metric is left out where no algorithm has campaigns that all had a result by the same trial.

    Args:
        problem: A problem of ``flows.studies.scoring.results.results``.
        order: Labels of all algorithms of the study, so that each has its colour in every picture.
    """
    metric, unit, rows = problem.get("metric"), problem["unit"], problem["rows"]
    first = labelled(metric_label(problem), unit if metric in (None, *IN_UNIT) else "")
    found = [_chart(problem, [(row, row["curve"]) for row in rows], order, first)]
    for name, label in LABELS.items() if metric is not None else ():
        if name != metric:
            told = [(row, row["constrained"]["metrics"][name]["curve"]) for row in rows]
            found.append(_chart(problem, told, order, labelled(label, unit if name in IN_UNIT else "")))
    return [chart for chart in found if chart is not None]


def _chart(
    problem: Mapping[str, Any], told: Sequence[tuple[Any, Any]], order: Sequence[str], label: str
) -> Chart | None:
    points = [(row, _known(curve)) for row, curve in told]
    points = [(row, known) for row, known in points if known]
    if not points:
        return None
    means = [mean for _, known in points for _, mean, _ in known]
    wide = min(means) > 0 and max(means) > _WIDE * min(means)
    lines = [_curve(row, known, order.index(row["algorithm"]), wide) for row, known in points]
    chart = curves(f"{label[0].upper()}{label[1:]}, {problem['problem']}", label, lines, steps=False)
    yaxis = {key: value for key, value in chart.layout["yaxis"].items() if key != "range"}
    start = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": problem["start"], "x1": problem["start"]}
    layout = {
        **chart.layout,
        "yaxis": {**yaxis, "type": "log"} if wide else chart.layout["yaxis"],
        "shapes": [{**start, "line": {"color": "#7A8490", "width": 1, "dash": "dot"}}],
    }
    rows: list[list[Cell]] = [
        [row["algorithm"], row["n"], n, plain(mean), plain(error)] for row, known in points for n, mean, error in known
    ]
    return replace(chart, layout=layout, head=["algorithm", "campaigns", "trials", label, "standard error"], rows=rows)


def _known(curve: Mapping[str, Any]) -> list[tuple[int, float, float]]:
    """Trials with a mean, the mean and its standard error (0 where there is none)."""
    pairs = zip(curve["mean"], curve["error"], strict=True)
    return [
        (n, float(mean), 0.0 if error is None else float(error))
        for n, (mean, error) in enumerate(pairs, 1)
        if mean is not None and math.isfinite(mean)
    ]


def _curve(row: Mapping[str, Any], known: Sequence[tuple[int, float, float]], place: int, wide: bool) -> Curve:
    at, means, errors = [each[0] for each in known], [each[1] for each in known], [each[2] for each in known]
    most = [(1 - _LEAST) * mean if wide else math.inf for mean in means]
    bands = [min(error, limit) for error, limit in zip(errors, most, strict=True)]
    return Curve(f"{row['algorithm']} (n = {row['n']})", at, means, bands, place)
