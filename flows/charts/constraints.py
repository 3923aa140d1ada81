"""Constraints by trial: by how much each is met or violated, and the sum of the violations."""

from collections.abc import Sequence

import numpy as np

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.feasibility import is_infeasible
from fieldcraft.flows.charts.chart import (
    BLUE,
    COLOURS,
    DASHES,
    RED,
    Cell,
    Chart,
    axis,
    ends,
    labelled,
    level,
    marks,
    numbers,
    whole,
)
from fieldcraft.flows.charts.series import Some, completed, drawn, said
from fieldcraft.storage.records import CampaignRecord

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")


def violation(campaign: CampaignRecord, trials: Sequence[Some]) -> Chart:
    """Sum of the positive parts of the constraints by trial; 0 where the design is feasible."""
    objective, shown, done = objective_of(campaign), drawn(campaign, trials), completed(trials)
    data = []
    for feasible, name, colour, symbol in ((True, "feasible", BLUE, "circle"), (False, "not feasible", RED, "x")):
        group = [t for t in shown if objective.feasible(t.outputs or {}) is feasible]
        if group:
            heights = numbers([objective.violation(t.outputs or {}) for t in group])
            hover = [said(campaign, t) for t in group]
            data.append(marks([t.number for t in group], heights, name, colour, hover, symbol=symbol))
    failed = [trial for trial in trials if is_infeasible(trial)]
    if failed:
        hover = [trial.id for trial in failed]
        data.append(
            marks([t.number for t in failed], [0.0] * len(failed), "failed as infeasible", RED, hover, symbol="x-open")
        )
    layout = {
        "xaxis": whole(max((trial.number for trial in trials), default=1)),
        "yaxis": axis("violation", rangemode="tozero"),
    }
    rows: list[list[Cell]] = [[t.id, objective.violation(t.outputs or {})] for t in done]
    return Chart("Violation by trial", data, layout, ["trial", "violation"], rows)


def margins(campaign: CampaignRecord, trials: Sequence[Some]) -> Chart | None:
    """Each constraint g <= 0 by trial as a share of its greatest size, so that those of several units fit one picture.

    Below the line a constraint is met. None without constraints that are read.
    """
    objective, shown, done = objective_of(campaign), drawn(campaign, trials), completed(trials)
    names = list(objective.constraints)
    if not names or not done:
        return None
    units = {output["name"]: output["unit"] for output in campaign.environment["outputs"]}
    data, heights = [], [0.0]
    for place, name in enumerate(names):
        values = np.array([(t.outputs or {})[name] for t in shown], dtype=float)
        share = values / (np.abs(values).max() or 1.0)
        heights += share.tolist()
        hover = [said(campaign, t) for t in shown]
        colour, symbol = COLOURS[place % len(COLOURS)], _SYMBOLS[place % len(_SYMBOLS)]
        data.append(marks([t.number for t in shown], numbers(share), name, colour, hover, symbol=symbol, size=6))
    layout = {
        "xaxis": whole(max(trial.number for trial in trials)),
        "yaxis": axis("g / greatest |g|", range=ends(heights)),
        "shapes": [level(0.0, "allowed below", ends(heights))],
    }
    head = ["trial", *(labelled(name, units[name]) for name in names)]
    return Chart(
        "Margins of the constraints", data, layout, head, [[t.id, *((t.outputs or {})[n] for n in names)] for t in done]
    )


def dash(place: int) -> str:
    """Dash of the line at a place, so that colour alone tells nothing apart."""
    return DASHES[place // len(COLOURS) % len(DASHES)]
