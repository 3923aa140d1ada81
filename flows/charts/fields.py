"""Fields as pictures: a map or a line, one of many by a slider, and a prediction beside a simulation."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.analysis.emulated_fields import Beside
from fieldcraft.flows.charts.chart import (
    BLUE,
    DIFFERENCES,
    LOG,
    RED,
    VALUES,
    Cell,
    Chart,
    axis,
    ends,
    labelled,
    line,
    literal,
    marks,
    numbers,
    whole,
)
from fieldcraft.physics.parametric.readings import PLACE

Array = NDArray[np.float64]
FINEST = 64  # cells along an axis that a map draws; a finer field is averaged down
SHOWN = 24  # fields of one slider


def coarse(axes: Mapping[str, Array], values: Array, finest: int = FINEST) -> tuple[dict[str, Array], Array]:
    """Axes and values (n, ...) with at most ``finest`` cells along each axis, means over blocks of cells."""
    found, made = np.asarray(values, dtype=float), dict[str, Array]()
    for place, (name, along) in enumerate(axes.items()):
        edges = np.linspace(0, len(along), min(len(along), finest) + 1).astype(int)
        counts = np.diff(edges)
        shape = [-1 if i == place else 1 for i in range(found.ndim)]
        found = np.add.reduceat(found, edges[:-1], axis=place) / counts.reshape(shape)
        made[name] = np.add.reduceat(np.asarray(along, dtype=float), edges[:-1]) / counts
    return made, found


def reach(values: Array, told: Sequence[float] = ()) -> tuple[float, float]:
    """Ends of a scale of colours: 98% of the values, and all that is told.

    Without the cut at 98%, a few cells at corners where boundary values jump would take most of the colours.
    """
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    low, high = np.quantile(known, [0.01, 0.99]) if known.size else (0.0, 1.0)
    return float(min(low, *told)) if told else float(low), float(max(high, *told)) if told else float(high)


def heat(
    title: str,
    axes: Mapping[str, Array],
    units: Mapping[str, str],
    values: Array,
    label: str,
    *,
    limits: tuple[float, float] | None = None,
    colours: str = VALUES,
    log: Collection[str] = (),
) -> Chart:
    """A map of values (n, m) over two axes, coarsened to ``FINEST`` cells an axis.

    Args:
        title: Name of the picture.
        axes: Values of both axes by name, (n,) and (m,).
        units: Unit of each axis by name; without one where it is missing.
        values: The values; NaN stays blank.
        label: Label of the scale of colours.
        limits: Its ends; those of ``reach`` when left out.
        colours: A scale of plotly's.
        log: Names of the axes that are logarithmic.
    """
    small, cells = coarse(axes, values)
    (across, x), (up, y) = small.items()
    layout = {
        f"{side}axis": axis(
            labelled(name, units.get(name, "")),
            showgrid=False,
            constrain="domain",
            **({**LOG, "range": _span(np.log10(at))} if name in log else {"range": _span(at)}),
        )
        for side, (name, at) in zip("xy", small.items(), strict=True)
    }
    if units.get(across, "") == units.get(up, "") and _alike(x, y) and not {across, up} & set(log):
        layout["yaxis"] |= {"scaleanchor": "x"}
    head = [labelled(across, units.get(across, "")), labelled(up, units.get(up, "")), label]
    places, told = (numbers(x), numbers(y)), numbers(cells)
    rows: list[list[Cell]] = [[a, b, told[i][j]] for i, a in enumerate(places[0]) for j, b in enumerate(places[1])]
    return Chart(title, [_map(x, y, cells, label, limits or reach(values), colours)], layout, head, rows, height=380)


def _span(at: Array) -> list[float]:
    """Ends of an axis of cells, which reach half a cell beyond the centres."""
    half = (at[-1] - at[0]) / (2 * len(at) - 2) if len(at) > 1 else 0.5
    return [float(at[0] - half), float(at[-1] + half)]


def _alike(x: Array, y: Array) -> bool:
    """True if two axes are of about one length, so that a picture true to scale is no strip."""
    lengths = sorted((float(np.ptp(x)), float(np.ptp(y))))
    return lengths[1] < 4 * lengths[0]


def _map(x: Array, y: Array, cells: Array, label: str, limits: tuple[float, float], colours: str) -> dict[str, Any]:
    low, high = numbers(limits)
    return {
        "type": "heatmap",
        "x": numbers(x),
        "y": numbers(y),
        "z": numbers(cells.T),
        "zmin": low,
        "zmax": high,
        "colorscale": colours,
        "reversescale": colours == DIFFERENCES,
        "hoverongaps": False,
        "colorbar": {"title": {"text": literal(label), "side": "right"}, "thickness": 12, "outlinewidth": 0},
    }


def field(title: str, array: Any, limits: tuple[float, float] | None = None) -> Chart | None:
    """A field (an ``xarray.DataArray`` of numbers) of one or two dimensions; of more, its middle section.

    Readings at places are marks, numbered from 1 as errors number them.

    None where it has no dimension.
    """
    array = _section(array)
    if array.ndim == 0:
        return None
    axes, units = axes_of(array)
    label = labelled(str(array.name), str(array.attrs.get("units", "")))
    if array.ndim == 2:
        return heat(title, axes, units, array.values, label, limits=limits)
    (name, along), values = next(iter(axes.items())), np.asarray(array.values, dtype=float)
    if readings := name == PLACE and name not in array.coords:
        along = along + 1.0
    layout = {
        "xaxis": whole(len(along), "reading") if readings else axis(labelled(name, units[name])),
        "yaxis": axis(label, range=list(limits) if limits else ends(values)),
    }
    rows = [list(row) for row in zip(numbers(along), numbers(values), strict=True)]
    drawn = marks if readings else line
    data = [{**drawn(numbers(along), numbers(values), str(array.name), BLUE), "showlegend": False}]
    return Chart(title, data, layout, ["reading" if readings else labelled(name, units[name]), label], rows)


def _section(array: Any) -> Any:
    """A field with its last two dimensions whole and all others at their middle."""
    for name in array.dims[: max(0, array.ndim - 2)]:
        array = array.isel({name: array.sizes[name] // 2})
    return array


def axes_of(array: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """Values of the dimensions of an ``xarray.DataArray``, else numbers of cells, and their units."""
    names = [str(name) for name in array.dims]
    axes = {
        name: np.asarray(array[name], dtype=float)
        if name in array.coords
        else np.arange(array.sizes[name], dtype=float)
        for name in names
    }
    return axes, {name: str(array[name].attrs.get("units", "")) if name in array.coords else "" for name in names}


def slider(title: str, arrays: Mapping[str, Any]) -> Chart | None:
    """Fields of trials, by the trial's id, one at a time with a slider, on one scale; at most ``SHOWN``, the last ones.

    None where there is nothing to draw.
    """
    last = list(arrays.items())[-SHOWN:]
    span = [float(end) for _, array in last for end in reach(array.values)]
    charts = [(trial, field(title, array, (min(span), max(span)))) for trial, array in last]
    made = [(trial, chart) for trial, chart in charts if chart is not None]
    if not made:
        return None
    data = [{**chart.data[0], "visible": place == len(made) - 1} for place, (_, chart) in enumerate(made)]
    steps = [
        {"method": "restyle", "label": literal(trial), "args": [{"visible": [i == place for i in range(len(made))]}]}
        for place, (trial, _) in enumerate(made)
    ]
    layout = {
        **made[-1][1].layout,
        "sliders": [{"steps": steps, "active": len(made) - 1, "currentvalue": {"prefix": "trial "}, "pad": {"t": 36}}],
    }
    head = ["trial", *made[0][1].head]
    rows = [[trial, *row] for trial, chart in made for row in chart.rows]
    return Chart(title, data, layout, head, rows, height=480)


def twice(beside: Beside) -> list[Chart]:
    """A field as predicted and as simulated, and their difference; of one dimension both lines in one picture."""
    label, (first, *others) = labelled(beside.name, beside.unit), beside.axes
    if not others:
        x = numbers(beside.axes[first])
        both = numbers(beside.simulated), numbers(beside.emulated)
        data = [line(x, both[0], "simulated", BLUE), marks(x, both[1], "predicted", RED, symbol="circle-open")]
        layout = {"xaxis": axis(labelled(first, beside.units[first])), "yaxis": axis(label)}
        head = [labelled(first, beside.units[first]), f"simulated {label}", f"predicted {label}"]
        return [Chart("Predicted beside simulated", data, layout, head, list(zip(x, *both, strict=True)))]
    apart = beside.simulated - beside.emulated
    most = float(np.nanmax(np.abs(apart))) or 1.0
    limits = reach(np.stack([beside.emulated, beside.simulated]))
    axes = beside.axes
    return [
        heat("Predicted", axes, beside.units, beside.emulated, label, limits=limits),
        heat("Simulated", axes, beside.units, beside.simulated, label, limits=limits),
        heat("Simulated less predicted", axes, beside.units, apart, label, limits=(-most, most), colours=DIFFERENCES),
    ]
