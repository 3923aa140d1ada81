"""Section on several objectives: the front beside all results, its designs, and the hypervolume by trial."""

from fieldcraft.flows.analysis.front import front_text
from fieldcraft.flows.charts.front import MOST_PAIRS, fronts, hypervolume
from fieldcraft.flows.report.answers import number
from fieldcraft.flows.report.markup import Content, Markup, chart, note, row, section, table
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.report.thinning import ROWS
from fieldcraft.flows.text import level_text
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
    head = ["trial", *(_head(name, units[name]) for name in outputs)]
    head += [_head(name, material.units[name]) for name in names]
    rows: list[list[Content]] = [
        [
            entry["trial"],
            *(number(entry["outputs"][name]) for name in outputs),
            *(_level(entry["design"][name]) for name in names),
        ]
        for entry in shown
    ]
    most = most_hypervolume(material.wired) if material.wired else None
    more = len(found["trials"]) - len(shown)
    return section(
        "Front",
        note(f"{front_text(found, most)}."),
        row(*(chart(each) for each in fronts(material.campaign, material.trials))),
        note(_caption(len(found["objectives"]))),
        chart(
            hypervolume(material.campaign, material.trials, most),
            "Hypervolume of the results up to each trial, all within the same reference.",
        ),
        note(f"The first {len(shown)} by {outputs[0]}; {more} more are in the export.") if more else None,
        table(head, rows, numbers=range(1, len(head))),
    )


def _caption(objectives: int) -> str:
    caption = "All results, and those that no feasible one beats in every objective (the front)."
    if objectives == 2:
        return f"{caption} The steps bound what the front dominates."
    drawn = min(MOST_PAIRS, objectives * (objectives - 1) // 2)
    return f"{caption} {drawn} of the pairs of objectives are drawn; a point of the front may look beaten in one pair."


def _head(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _level(value: float | int | str) -> str:
    return number(value) if isinstance(value, float) else level_text(str(value))
