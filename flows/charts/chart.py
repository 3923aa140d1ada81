"""A chart: a Plotly figure as plain data, and the table of the numbers behind it.

A figure is made without plotly, of whose package pages need plotly.js alone; the tests hold every figure against
plotly's own schema. Figures name no colour of the paper, the grid or the text: the script of the page sets those for
light, for dark and for print (``static/charts.js``). What a figure does name is legible on either.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcraft.flows.text import one_line

# Okabe and Ito's palette, those of its colours with a contrast of 3 to white and to the dark page alike
BLUE, RED, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A8490"
COLOURS = (BLUE, RED, GREEN, PINK, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")
VALUES, DOUBTS, DIFFERENCES = "Viridis", "Cividis", "RdBu"
"""Scales of colours: of values, of standard deviations, and of differences around 0."""
MOST = 1000  # marks that a browser draws at ease in a figure
FIGURES = 6  # significant figures of a drawn number, or of the spread of numbers that lie close together
_ROUNDING = 1e-10  # spread of numbers, as a share of the largest, up to which they are taken for equal

Cell = str | float | int | None


@dataclass(frozen=True)
class Chart:
    """A picture and its data.

    Args:
        title: Name of the picture.
        data: Traces, as plotly has them.
        layout: Layout, as plotly has it.
        head: Columns of the table behind it, with units.
        rows: Rows of that table.
        height: Height in pixels.
    """

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    height: int = 320

    def payload(self) -> dict[str, Any]:
        """Plain data of the chart, for ``json.dumps``."""
        return {
            "title": self.title,
            "data": list(self.data),
            "layout": {**_FRAME, **self.layout, "height": self.height},
            "head": list(self.head),
            "rows": [list(row) for row in self.rows],
        }


_FRAME: Mapping[str, Any] = {
    "margin": {"l": 64, "r": 16, "t": 36, "b": 52},
    "hovermode": "closest",
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
}


def literal(text: str) -> str:
    """A text that plotly draws as it stands, on one line: its markup is escaped."""
    return html.escape(one_line(text), quote=False)


def labelled(name: str, unit: str) -> str:
    """A label with its unit, ``temperature (K)``; without a unit, the name."""
    return one_line(f"{name} ({unit})" if unit else name)


def plain(value: float, figures: int = FIGURES) -> float | None:
    """A number to so many figures; None where it is none."""
    return float(f"{value:.{figures}g}") if math.isfinite(value) else None


def numbers(values: ArrayLike, among: ArrayLike | None = None) -> list[Any]:
    """Numbers of any shape as lists, each to as many figures as tell them apart, and ``FIGURES`` at least.

    Args:
        values: The numbers; None where one is none.
        among: All numbers of the picture from which they are to be told; the values themselves when left out.
    """
    found = np.asarray(values, dtype=float)
    return _rounded(found, _figures(found if among is None else np.asarray(among, dtype=float)))


def _rounded(values: NDArray[np.float64], figures: int) -> list[Any]:
    return [plain(float(v), figures) if values.ndim == 1 else _rounded(v, figures) for v in values]


def _figures(values: NDArray[np.float64]) -> int:
    """Significant figures: ``FIGURES`` of the spread of the values, where that is wider than rounding."""
    known = values[np.isfinite(values)]
    largest, spread = (float(np.abs(known).max()), float(np.ptp(known))) if known.size else (0.0, 0.0)
    if not (spread > _ROUNDING * largest and math.isfinite(spread)):
        return FIGURES
    return FIGURES + max(0, math.floor(math.log10(largest)) - math.floor(math.log10(spread)))


# An axis of orders of magnitude: 10^-3, not 1m.
LOG: dict[str, Any] = {"type": "log", "exponentformat": "power"}


def axis(label: str, **options: Any) -> dict[str, Any]:
    """An axis with its title, which makes room for itself."""
    return {"title": {"text": literal(label)}, "automargin": True, **options}


def whole(last: int, label: str = "trial") -> dict[str, Any]:
    """An axis of numbers from 1 to ``last`` with ticks at whole ones."""
    step = next(step for n in count() for step in (10**n, 2 * 10**n, 5 * 10**n) if last <= 10 * step)
    return axis(label, dtick=step, tick0=0, range=[0.5 - 0.02 * last, last + 0.5 + 0.02 * last])


def ends(values: Iterable[float | None], room: float = 0.06) -> list[float]:
    """Ends of an axis that holds all values, with room on either side."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return [0.0, 1.0]
    low, high = min(known), max(known)
    apart = (high - low) * room or abs(high) * room or 1.0
    return [low - apart, high + apart]


def marks(
    x: Sequence[Any], y: Sequence[Any], name: str, colour: str, hover: Sequence[str] = (), **style: Any
) -> dict[str, Any]:
    """A trace of marks; ``hover`` is what each says, and ``style`` its marker."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": literal(name),
        "x": list(x),
        "y": list(y),
        "marker": {"color": colour, "size": 8, **style},
        **({"hovertext": list(hover), "hoverinfo": "text"} if hover else {}),
    }


def line(x: Sequence[Any], y: Sequence[Any], name: str, colour: str, **style: Any) -> dict[str, Any]:
    """A trace of a line; ``style`` is of the line."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": literal(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 2, **style},
    }


def central(values: Sequence[float], told: Iterable[float | None], share: float = 0.8) -> list[float]:
    """Ends of an axis that holds all that is told and all values, but for a few that would flatten the rest.

    Where the central ``share`` of the values and all that is told lie within a fifth of the whole, the axis is theirs.
    """
    whole_axis = ends([*values, *told])
    if len(values) < 2:
        return whole_axis
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    most = ends([low, high, *told], room=0.25)
    return most if 5 * (most[1] - most[0]) < whole_axis[1] - whole_axis[0] else whole_axis


def level(value: float, name: str, span: Sequence[float]) -> dict[str, Any]:
    """A shape: a dotted horizontal line as wide as the picture, its name on the side where ``span`` has more room."""
    above = value < (span[0] + span[1]) / 2
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": GREY, "width": 1.5, "dash": "dot"},
        "label": {
            "text": literal(name),
            "textposition": "start",
            "yanchor": "bottom" if above else "top",
            "font": {"size": 11},
        },
    }
