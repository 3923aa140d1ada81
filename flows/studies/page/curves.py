"""Charts of a study: mean regret with its standard error by trials, one curve an algorithm."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.charts.chart import labelled
from fieldcraft.flows.studies.page.constraints import IN_UNIT, LABELS, metric_label
from fieldcraft.flows.studies.plan.spec import Metric
from fieldcraft.flows.views.charts import BEST, as_data_uri, new_figure, whole_numbers

Array = NDArray[np.float64]

_COLOURS = ("#1f5fa8", "#3a8f5c", "#8a5ba8", "#c58a1c", "#2b9aa8", "#7a5c46", "#c2579a", "#5b6570", "#8fa32a")
_LINES = ("-", "--", ":")
_WIDE = 8.0  # ratio of regrets from which on a linear scale hides the small ones


def regret_chart(problem: Mapping[str, Any], order: Sequence[str], reference: str) -> str | None:
    """Mean of the metric that compares a problem's algorithms, by trials, as a ``data:`` URI.

    The scale is logarithmic where the means are positive and far apart. None where there is no mean to draw: no
    algorithm has campaigns that all had a result by the same trial.

    Args:
        problem: A problem of ``flows.studies.scoring.results.results``.
        order: Labels of all algorithms of the study, so that each has its colour on every chart.
        reference: The highlighted algorithm.
    """
    unit = problem["unit"] if problem.get("metric") in (None, *IN_UNIT) else ""
    curves = [(row, row["curve"]) for row in problem["rows"]]
    return _chart(problem, curves, order, reference, labelled(metric_label(problem), unit))


def metric_chart(problem: Mapping[str, Any], order: Sequence[str], reference: str, metric: Metric) -> str | None:
    """Mean of another metric of a problem with constraints, as a ``data:`` URI; None where there is no mean to draw."""
    unit = problem["unit"] if metric in IN_UNIT else ""
    curves = [(row, row["constrained"]["metrics"][metric]["curve"]) for row in problem["rows"]]
    return _chart(problem, curves, order, reference, labelled(LABELS[metric], unit))


def _chart(
    problem: Mapping[str, Any], curves: Sequence[tuple[Any, Any]], order: Sequence[str], reference: str, label: str
) -> str | None:
    lines = [(row, _line(curve["mean"]), _line(curve["error"])) for row, curve in curves]
    lines = [line for line in lines if np.isfinite(line[1]).any()]
    if not lines:
        return None
    figure = new_figure(9.6, 4.4)
    axis, means = figure.subplots(), [mean for _, mean, _ in lines]
    ends = [end for mean in means for end in (np.nanmin(mean), np.nanmax(mean))]
    wide = bool(min(ends) > 0 and max(ends) > _WIDE * min(ends))
    for row, mean, error in lines:
        _draw(axis, row, (mean, error), order.index(row["algorithm"]), row["algorithm"] == reference, wide)
    axis.axvline(problem["start"], color="0.8", lw=0.8, zorder=0)
    axis.set(
        xlabel="trials",
        ylabel=label,
    )
    if wide:
        _logarithmic(axis)
    axis.set_xlim(1, max(2, *map(len, means)))
    whole_numbers(axis)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=8.5)
    return as_data_uri(figure)


def _draw(axis: Any, row: Mapping[str, Any], of: tuple[Array, Array], place: int, stands_out: bool, wide: bool) -> None:
    colour = BEST if stands_out else _COLOURS[place % len(_COLOURS)]
    line = "-" if stands_out else _LINES[place // len(_COLOURS) % len(_LINES)]
    mean, error = of[0], np.nan_to_num(of[1])
    trials = np.arange(1, len(mean) + 1)
    label, order = f"{row['algorithm']} (n = {row['n']})", 3 if stands_out else 2
    axis.plot(trials, mean, line, color=colour, lw=2.2 if stands_out else 1.4, label=label, zorder=order)
    # On a logarithmic scale a band that reaches below zero would reach the bottom of the chart.
    low = np.maximum(mean - error, 0.1 * mean) if wide else mean - error
    axis.fill_between(trials, low, mean + error, color=colour, alpha=0.16 if stands_out else 0.08, lw=0)


def _logarithmic(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # matplotlib's own is mathematics
    axis.yaxis.set_minor_formatter(NullFormatter())


def _line(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
