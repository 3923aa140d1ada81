"""A page of two campaigns: both curves on one axis, figures side by side, and differences of their specifications."""

from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.charts.chart import Chart, labelled
from fieldcraft.flows.charts.compare import Curve, curves
from fieldcraft.flows.report.answers import number
from fieldcraft.flows.report.markup import Content, chart, element, facts, note, page, section, table
from fieldcraft.flows.views.compare import FACTS, NOT_COMPARABLE, figures, milestones


def comparison_page(data: Mapping[str, Any]) -> str:
    """The page of the data of ``flows.views.compare.compare``."""
    sides = data["campaigns"]
    names = [side["campaign"] for side in sides]
    cards = [
        (f"front of {side['campaign']}", FACTS["front"](side), "")
        if side["front"]
        else (f"best of {side['campaign']}", FACTS["best result"](side), f"regret {FACTS['regret'](side)}")
        for side in sides
    ]
    rows: list[list[Content]] = [list(row) for row in figures(sides)]
    differences = [_difference(line) for line in data["differences"]]
    return page(
        f"{names[0]} and {names[1]}: compared",
        element("h1", f"{names[0]} and {names[1]}"),
        element("p", "Two campaigns, told apart.", class_="lead"),
        facts(cards),
        section("Best so far", *(_progress(data, names) if data["comparable"] else [note(NOT_COMPARABLE)])),
        section("Figures", table(["", *names], rows)),
        section(
            "Differences of the specifications",
            table(["key", f"{names[0]} -> {names[1]}"], differences) if differences else note("None but the name."),
        ),
    )


def _difference(line: str) -> list[Content]:
    key, _, values = line.partition(": ")
    return [element("code", key), values]


def _progress(data: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    unit = data["campaigns"][0]["unit"]
    rows = [[str(row["trials"]), *(number(value) for value in row["best"])] for row in milestones(data["progress"])]
    head = ["completed trials", *(f"{name} ({unit})" if unit else name for name in names)]
    several = data["campaigns"][0]["front"]
    what = "Hypervolume of the results" if several else "Best result"
    caption = f"{what} that {'meet' if several else 'meets'} the constraints, after equal numbers of completed trials."
    caption += " Both are within one reference." if several else ""
    return [
        chart(comparison_chart(data, names), caption),
        table(head, rows, numbers=(1, 2)),
    ]


def comparison_chart(data: Mapping[str, Any], names: Sequence[str]) -> Chart:
    """Curves of two campaigns, from the data of ``flows.views.compare.compare``."""
    side, lines = data["campaigns"][0], []
    for place, name in enumerate(names):
        points = [(row["trials"], row["best"][place]) for row in data["progress"] if row["best"][place] is not None]
        lines.append(Curve(name, [n for n, _ in points], [best for _, best in points]))
    optima = {each["optimum"] for each in data["campaigns"]} - {None}
    label = labelled(f"{'' if side['front'] else 'best '}{side['objective']}", side["unit"])
    return curves("Best so far of both campaigns", label, lines, optima.pop() if len(optima) == 1 else None)
