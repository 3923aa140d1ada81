"""Section on constraints, apart from the objective: which are met, and by how much others are violated."""

from typing import Any

import numpy as np

from fieldcraft.flows.analysis.feasibility import is_infeasible, violation_text
from fieldcraft.flows.charts.constraints import margins, violation
from fieldcraft.flows.charts.series import completed
from fieldcraft.flows.report.answers import number
from fieldcraft.flows.report.markup import Content, Markup, chart, element, note, row, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import design_text


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
