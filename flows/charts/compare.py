"""Curves of several campaigns or algorithms in one picture, with bands where there are several runs of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fieldcraft.flows.charts.chart import COLOURS, Cell, Chart, axis, ends, level, line, numbers, whole
from fieldcraft.flows.charts.constraints import dash


@dataclass(frozen=True)
class Curve:
    """One line, by trials.

    Args:
        name: Its name.
        at: Numbers of trials, shape (n,).
        values: Values there, shape (n,).
        error: Half the width of a band around it, shape (n,); None for none.
        place: Place among all curves of its kind, by which it has the same colour in every picture; None for the
            place in this one.
    """

    name: str
    at: Sequence[int]
    values: Sequence[float]
    error: Sequence[float] | None = None
    place: int | None = None


def curves(title: str, label: str, lines: Sequence[Curve], optimum: float | None = None, steps: bool = True) -> Chart:
    """Curves by completed trials, and the true optimum.

    Args:
        title: Name of the picture.
        label: Label of the vertical axis.
        lines: The curves.
        optimum: The true optimum where it is one for all.
        steps: True where a curve keeps a value until the next one.
    """
    places = [place if curve.place is None else curve.place for place, curve in enumerate(lines)]
    shape = "hv" if steps else "linear"
    data = [trace for place, curve in zip(places, lines, strict=True) for trace in _curve(place, curve, shape)]
    values = [value for curve in lines for value in curve.values]
    layout = {
        "xaxis": whole(max((n for curve in lines for n in curve.at), default=1), "completed trials"),
        "yaxis": axis(label, range=ends([*values, optimum])),
        "shapes": [] if optimum is None else [level(optimum, "true optimum", ends([*values, optimum]))],
    }
    rows: list[list[Cell]] = [
        [curve.name, n, value] for curve in lines for n, value in zip(curve.at, numbers(curve.values), strict=True)
    ]
    return Chart(title, data, layout, ["curve", "completed trials", label], rows, height=360)


def _curve(place: int, curve: Curve, shape: str) -> list[dict[str, Any]]:
    colour = COLOURS[place % len(COLOURS)]
    made = [line(list(curve.at), numbers(curve.values), curve.name, colour, shape=shape, dash=dash(place))]
    if curve.error is not None:
        low, high = ([v + sign * e for v, e in zip(curve.values, curve.error, strict=True)] for sign in (-1, 1))
        x = [*curve.at, *reversed(list(curve.at))]
        band = line(x, numbers([*high, *low[::-1]]), curve.name, colour, width=0)
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        fill = {"fill": "toself", "fillcolor": f"rgba({red},{green},{blue},0.16)", "hoverinfo": "skip"}
        made.insert(0, {**band, **fill, "showlegend": False})
    return made
