"""Charts of several objectives: the front among all results, and the hypervolume by trial."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.front import front_data, hypervolumes
from fieldcraft.flows.views.charts import BEST, INK, READING, completed, crowded, labelled, whole_numbers
from fieldcraft.storage.records import CampaignRecord, Trial

MOST_PAIRS = 3
"""Pairs of objectives that are drawn; of more than three objectives these are the first with each other."""


def pairs(campaign: CampaignRecord, trials: Sequence[Trial]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pairs of objectives, at most ``MOST_PAIRS``, as in the data of ``front_data``; empty where there is one."""
    found = front_data(campaign, trials)
    return [] if found is None else list(combinations(found["objectives"], 2))[:MOST_PAIRS]


def front_chart(
    axis: Any,
    campaign: CampaignRecord,
    trials: Sequence[Trial],
    across: Mapping[str, Any],
    up: Mapping[str, Any],
) -> None:
    """Draw all results in the plane of two objectives, those on the front, and the reference point.

    The steps bound what the front dominates; they are drawn where there are two objectives.
    """
    found = front_data(campaign, trials)
    assert found is not None  # the pairs come from it
    members, names = {entry["trial"] for entry in found["trials"]}, (across["output"], up["output"])
    objective = objective_of(campaign)
    groups: dict[str, list[Trial]] = {"result": [], "not feasible": [], "front": []}
    for trial in completed(trials):
        broken = not objective.feasible(trial.outputs or {})
        groups["front" if trial.id in members else "not feasible" if broken else "result"].append(trial)
    styles = {"result": ("o", READING), "not feasible": ("x", READING), "front": ("o", BEST)}
    for label, shown in groups.items():
        if shown:
            places = zip(*([(trial.outputs or {})[name] for name in names] for trial in shown), strict=True)
            marker, colour = styles[label]
            axis.plot(*places, marker, ms=4.5, color=colour, label=label, rasterized=crowded(shown))
    if len(found["objectives"]) == 2 and groups["front"]:
        _steps(axis, found, (across, up))
    if across["reference"] is not None and up["reference"] is not None:
        label = "reference, inferred" if across["inferred"] or up["inferred"] else "reference"
        axis.plot(across["reference"], up["reference"], "+", ms=10, color=INK, label=label)
    axis.set(**{f"{side}label": _aim(each) for side, each in (("x", across), ("y", up))})
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)  # hides no result


def _steps(axis: Any, found: Mapping[str, Any], objectives: tuple[Mapping[str, Any], Mapping[str, Any]]) -> None:
    """Draw the edge of the region that the front dominates, out to the reference point."""
    ends = [each["reference"] for each in objectives]
    points = [[entry["outputs"][each["output"]] for each in objectives] for entry in found["trials"]]
    signs = [1 if each["sense"] == "minimize" else -1 for each in objectives]
    if None not in ends:
        points = [p for p in points if all(s * v < s * e for s, v, e in zip(signs, p, ends, strict=True))]
    if not points:
        return
    corners = [points[0]]
    for before, after in pairwise(points):
        corners += [[after[0], before[1]], after]
    if None not in ends:
        corners = [[corners[0][0], ends[1]], *corners, [ends[0], corners[-1][1]]]
    axis.plot(*zip(*corners, strict=True), "-", color=BEST, lw=1.0, alpha=0.7)


def _aim(objective: Mapping[str, Any]) -> str:
    sense = "maximised" if objective["sense"] == "maximize" else "minimised"
    return f"{labelled(objective['output'], objective['unit'])}, {sense}"


def hypervolume_chart(axis: Any, campaign: CampaignRecord, trials: Sequence[Trial], most: float | None) -> None:
    """Draw the hypervolume by trial, and the largest possible one where it is known."""
    numbers, values = hypervolumes(campaign, trials)
    if numbers:
        axis.step(numbers, values, where="post", color=BEST, lw=1.8, label="hypervolume")
    if most is not None:
        axis.axhline(most, color=INK, linestyle=":", label="largest possible")
    axis.set(xlabel="trial", ylabel="hypervolume of the front", ylim=(0, None))
    whole_numbers(axis)
    if numbers or most is not None:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
