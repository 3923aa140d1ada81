"""The trace of a campaign: every result by trial, the best so far, and what is known to be the best."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.charts.chart import (
    BLUE,
    GREY,
    RED,
    Cell,
    Chart,
    axis,
    central,
    level,
    line,
    marks,
    numbers,
    whole,
)
from fieldcraft.flows.charts.series import (
    KINDS,
    Some,
    best_so_far,
    completed,
    drawn,
    kind_of,
    output_label,
    said,
    table,
)
from fieldcraft.flows.text import one_line
from fieldcraft.storage.records import CampaignRecord, TrialState


def trace(
    campaign: CampaignRecord, trials: Sequence[Some], optimum: float | None, threshold: float | None = None
) -> Chart:
    """Results by trial, the best so far, the true optimum and a threshold that is sought, all within the scale.

    Args:
        campaign: The campaign.
        trials: Its trials, by number.
        optimum: The true optimum in the objective's unit; None where it is not known.
        threshold: Value at which the campaign stops, in the same unit; None for none.
    """
    output, objective = campaign.environment["outputs"][0], objective_of(campaign)
    done, shown = completed(trials), drawn(campaign, trials)
    values = {trial.id: (trial.outputs or {})[output["name"]] for trial in done}
    data, told = [], list(values.values())
    for kind, text, symbol in KINDS:
        for feasible in (True, False):
            group = [t for t in shown if kind_of(t) == kind and objective.feasible(t.outputs or {}) is feasible]
            name, colour = (text, GREY) if kind == "initial" else (text, BLUE)
            mark: dict[str, Any] = {
                "symbol": symbol if feasible else "x-thin",
                "line": {"color": colour, "width": 0 if feasible else 2},
            }
            where = [t.number for t in group], numbers([values[t.id] for t in group], told)
            if group:
                hover = [said(campaign, t) for t in group]
                data.append(marks(*where, name if feasible else f"{name}, not feasible", colour, hover, **mark))
    found, best = best_so_far(campaign, trials)
    span = central(told, [optimum, threshold, *best[-1:]])
    beyond = [trial for trial in shown if not span[0] <= values[trial.id] <= span[1]]
    if beyond:
        edges = [span[0] if values[trial.id] < span[0] else span[1] for trial in beyond]
        symbols = ["triangle-down" if edge == span[0] else "triangle-up" for edge in edges]
        hover = [said(campaign, trial) for trial in beyond]
        name, x = "beyond the scale", [trial.number for trial in beyond]
        data.append({**marks(x, numbers(edges), name, GREY, hover, symbol=symbols, size=10), "cliponaxis": False})
    failed = [trial for trial in trials if trial.state is TrialState.FAILED and trial.level is None]
    if failed:
        hover = [one_line(f"{trial.id}: no result ({trial.failure})") for trial in failed[-200:]]
        at = [span[0]] * len(hover)
        data.append(marks([t.number for t in failed[-200:]], at, "no result", RED, hover, symbol="x", size=6))
    if len(found):
        steps = np.flatnonzero(np.append(True, np.diff(best) != 0))  # a step where it gets better
        x, y = [*found[steps].tolist(), int(done[-1].number)], [*best[steps], best[-1]]
        data.append({**line(x, numbers(y, told), "best so far", RED, shape="hv", width=2.5), "hoverinfo": "y+name"})
    levels = [
        level(value, name, span)
        for value, name in ((optimum, "true optimum"), (threshold, "sought"))
        if value is not None
    ]
    layout = {
        "xaxis": whole(max((trial.number for trial in trials), default=1)),
        "yaxis": axis(output_label(output), range=span),
        "shapes": levels,
    }
    return Chart(
        "Results by trial", data, layout, *_behind(campaign, done, dict(zip(found.tolist(), best, strict=True)))
    )


def _behind(
    campaign: CampaignRecord, done: Sequence[Some], best: dict[int, float]
) -> tuple[list[str], list[list[Cell]]]:
    head, rows = table(campaign, done)
    held: float | None = None
    for trial, row in zip(done, rows, strict=True):
        held = best.get(trial.number, held)
        row.append(held)
    return [*head, "best so far"], rows
