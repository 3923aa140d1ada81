"""Sections on what is sought: the front of several objectives, and the constraints, apart from the objective."""

from typing import Any

import numpy as np

from fieldcraft.flows.analysis.feasibility import is_infeasible, violation_text
from fieldcraft.flows.analysis.front import front_text
from fieldcraft.flows.charts.constraints import margins, violation
from fieldcraft.flows.charts.front import MOST_PAIRS, fronts, hypervolume
from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.answers import number
from fieldcraft.flows.report.markup import Content, Markup, chart, element, note, row, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.report.sections import design_cells, headed
from fieldcraft.flows.report.thinning import ROWS
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import design_text
from fieldcraft.flows.views.regret import most_hypervolume


def front_section(material: Material) -> Markup | None:
    """The front of several objectives; None where there is one."""
    found = material.front
    if found is None:
        return None
    if not found["trials"]:
        return section(
            "Front", note("No result is feasible yet." if found["results"] else "No trial has a result yet.")
        )
    shown = found["trials"][:ROWS]
    units = {output["name"]: output["unit"] for output in material.campaign.environment["outputs"]}
    outputs, names = list(units), list(material.units)
    head = ["trial", *(headed(name, units[name]) for name in outputs)]
    head += [headed(name, material.units[name]) for name in names]
    rows: list[list[Content]] = [
        [
            entry["trial"],
            *(number(entry["outputs"][name]) for name in outputs),
            *design_cells(material, entry["design"], names),
        ]
        for entry in shown
    ]
    most, picked = most_hypervolume(material.wired) if material.wired else None, material.picked
    more = len(found["trials"]) - len(shown)
    return section(
        "Front",
        note(f"{front_text(found, most)}."),
        row(*(chart(each) for each in fronts(material.campaign, material.trials, picked["trial"] if picked else None))),
        note(_caption(len(found["objectives"]))),
        chart(
            hypervolume(material.campaign, material.trials, most),
            "Hypervolume of the results up to each trial, all within the same reference.",
        ),
        note(f"The first {len(shown)} by {outputs[0]}; {more} more are in the export.") if more else None,
        table(head, rows, numbers=range(1, len(head))),
    )


def _caption(objectives: int) -> str:
    caption = "All results, and those on the front: no feasible one is as good in every objective and better in one."
    if objectives == 2:
        return f"{caption} The steps bound what the front dominates."
    drawn = min(MOST_PAIRS, objectives * (objectives - 1) // 2)
    return f"{caption} {drawn} of the pairs of objectives are drawn; a point of the front may look beaten in one pair."


def feasibility_section(material: Material) -> Markup | None:
    """Violation by trial, and every constraint by itself; None where the designs have no constraints."""
    found = material.feasibility
    if found is None:
        return None
    return section("Feasibility", note(_standing(found)), _closest(material, found), *_constraints(material))


def _standing(found: dict[str, Any]) -> str:
    read, failed = found["feasible"] + found["infeasible"], found["failed_infeasible"]
    more = f" {counted(failed, 'design')} gave no result, because of being infeasible." if failed else ""
    return f"{found['feasible']} of {counted(read, 'result')} meet every constraint.{more}"


def _closest(material: Material, found: dict[str, Any]) -> Markup | None:
    if (closest := found["least_violation"]) is None:
        return None
    violation, design = violation_text(material.campaign, closest["each"]), closest["design"]
    text = f"{closest['trial']} with {violation}, at {design_text(material.campaign, design)}."
    return element("p", element("strong", "Least violation: "), text)


def _constraints(material: Material) -> list[Markup]:
    if not (material.objective.constraints and completed(material.trials)):
        return []
    caption = (
        "Sum of the positive parts of the constraints by trial, each in its own unit; 0 where the design is feasible."
    )
    if any(map(is_infeasible, material.trials)):
        caption += " Crosses stand for designs that gave no result because they are infeasible."
    head = ["constraint g", "met (g <= 0)", "least", "median", "largest", "at the best design"]
    rows = [_constraint_row(material, name) for name in material.objective.constraints]
    apart, below = margins(material.campaign, material.trials), "Each constraint by itself; it is met below the line."
    pictures = [
        chart(violation(material.campaign, material.trials), caption),
        *([chart(apart, below)] if apart else []),
    ]
    return [row(*pictures), table(head, rows, numbers=(2, 3, 4, 5))]


def _constraint_row(material: Material, name: str) -> list[Content]:
    values = np.array([(trial.outputs or {})[name] for trial in completed(material.trials)])
    unit = next(output["unit"] for output in material.campaign.environment["outputs"] if output["name"] == name)
    best = material.best.trial
    there = (best.outputs or {})[name] if best else None
    figures = [number(float(value)) for value in (values.min(), np.median(values), values.max())]
    return [f"{name} ({unit})" if unit else name, f"{(values <= 0).sum()} of {len(values)}", *figures, number(there)]
