"""Several objectives: the front beside all results, and the hypervolume by trial."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.front import front_data, hypervolume_label, hypervolumes
from fieldcraft.flows.charts.chart import (
    GREEN,
    GREY,
    RED,
    Chart,
    axis,
    ends,
    labelled,
    level,
    line,
    marks,
    numbers,
    whole,
)
from fieldcraft.flows.charts.series import Some, completed, drawn, said, table
from fieldcraft.storage.records import CampaignRecord

_STYLES: Mapping[str, Mapping[str, Any]] = {
    "result": {"colour": GREY, "symbol": "circle"},
    "not feasible": {"colour": GREY, "symbol": "x"},
    "front": {"colour": RED, "symbol": "diamond"},
    "picked": {"colour": GREEN, "symbol": "circle-open", "size": 18, "line": {"width": 3}},
}
MOST_PAIRS = 3  # pairs of objectives that are drawn; of more than three objectives, the first with each other


def pairs(campaign: CampaignRecord, trials: Sequence[Some]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pairs of objectives, at most ``MOST_PAIRS``, as in the data of ``front_data``; empty where there is one."""
    found = front_data(campaign, list[Any](trials))
    return [] if found is None else list(combinations(found["objectives"], 2))[:MOST_PAIRS]


def fronts(campaign: CampaignRecord, trials: Sequence[Some], picked: str | None) -> list[Chart]:
    """A chart for each pair of objectives: all results, those on the front, and the reference point.

    The steps bound what the front dominates; they are drawn where there are two objectives.

    Args:
        campaign: Record of the campaign.
        trials: Its trials.
        picked: The trial that a person picked, which has a mark of its own; None for none.
    """
    found = front_data(campaign, list[Any](trials))
    return [] if found is None else [_front(campaign, trials, found, picked, *pair) for pair in pairs(campaign, trials)]


def _front(
    campaign: CampaignRecord,
    trials: Sequence[Some],
    found: Mapping[str, Any],
    picked: str | None,
    across: Mapping[str, Any],
    up: Mapping[str, Any],
) -> Chart:
    members, names = {entry["trial"] for entry in found["trials"]}, (across["output"], up["output"])
    objective = objective_of(campaign)
    shown = {trial.id for trial in drawn(campaign, trials)} | members | {picked}
    groups: dict[str, list[Some]] = {"result": [], "not feasible": [], "front": [], "picked": []}
    for trial in completed(trials):
        if trial.id in shown:
            broken = not objective.feasible(trial.outputs or {})
            groups["front" if trial.id in members else "not feasible" if broken else "result"].append(trial)
            groups["picked"] += [trial] if trial.id == picked else []
    data = [_steps(found, (across, up))] if len(found["objectives"]) == 2 else []
    for name, group in groups.items():
        if group:
            x, y = (numbers([(trial.outputs or {})[each] for trial in group]) for each in names)
            data.append(marks(x, y, name, hover=[said(campaign, trial) for trial in group], **_STYLES[name]))
    if across["reference"] is not None and up["reference"] is not None:
        name = "reference, inferred" if across["inferred"] or up["inferred"] else "reference"
        data.append(
            marks(
                [across["reference"]],
                [up["reference"]],
                name,
                GREY,
                symbol="cross-thin",
                size=12,
                line={"width": 2, "color": GREY},
            )
        )
    layout = {"xaxis": axis(_aim(across)), "yaxis": axis(_aim(up))}
    head, rows = table(campaign, completed(trials))
    rows = [[*row, "yes" if row[0] in members else "no"] for row in rows]
    return Chart(
        "Results and the front", [each for each in data if each], layout, [*head, "on the front"], rows, height=400
    )


def _steps(found: Mapping[str, Any], objectives: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
    """The edge of the region that the front dominates, out to the reference point; empty where there is none."""
    limits = [each["reference"] for each in objectives]
    points = [[entry["outputs"][each["output"]] for each in objectives] for entry in found["trials"]]
    signs = [1 if each["sense"] == "minimize" else -1 for each in objectives]
    if None not in limits:
        points = [p for p in points if all(s * v < s * e for s, v, e in zip(signs, p, limits, strict=True))]
    if not points:
        return {}
    corners = [points[0]]
    for before, after in pairwise(points):
        corners += [[after[0], before[1]], after]
    if None not in limits:
        corners = [[corners[0][0], limits[1]], *corners, [limits[0], corners[-1][1]]]
    x, y = (numbers([corner[i] for corner in corners]) for i in range(2))
    return {**line(x, y, "edge of the front", RED, width=1), "showlegend": False, "hoverinfo": "skip"}


def _aim(objective: Mapping[str, Any]) -> str:
    sense = "maximised" if objective["sense"] == "maximize" else "minimised"
    return f"{labelled(objective['output'], objective['unit'])}, {sense}"


def hypervolume(campaign: CampaignRecord, trials: Sequence[Some], most: float | None) -> Chart:
    """Hypervolume by trial, and the largest possible one where it is known."""
    x, values = hypervolumes(campaign, list[Any](trials))
    y = numbers(values)
    layout = {
        "xaxis": whole(max(x, default=1)),
        "yaxis": axis(hypervolume_label(campaign), range=ends([0.0, *values, most])),
        "shapes": [] if most is None else [level(most, "largest possible", [0.0, most])],
    }
    data = [{**line(x, y, "hypervolume", RED, shape="hv"), "showlegend": False}]
    return Chart(
        "Hypervolume by trial", data, layout, ["trial", "hypervolume"], list(zip(x, y, strict=True)), height=280
    )
