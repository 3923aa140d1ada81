"""Pictures of a surrogate: predicted against measured values, and its prediction along a variable."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.analysis.best import objective_of
from fieldcraft.flows.analysis.predicted import Met
from fieldcraft.flows.charts.chart import BLUE, DOUBTS, GREY, Chart, axis, ends, labelled, line, marks, numbers
from fieldcraft.flows.charts.fields import heat
from fieldcraft.flows.charts.series import Some, drawn, logarithmic, output_label, said, variable_axis
from fieldcraft.storage.records import CampaignRecord

Array = NDArray[np.float64]


def foreseen(campaign: CampaignRecord, name: str, met: Sequence[Met], source: str = "simulated") -> Chart:
    """Values as predicted before, with two standard deviations, against results; equal ones lie on the line.

    Args:
        campaign: The campaign.
        name: The objective.
        met: Its predictions that results have met, at least one.
        source: Word for a result: simulated or measured.
    """
    output = next(each for each in campaign.environment["outputs"] if each["name"] == name)
    trials = [each.trial for each in met]
    read, mean, sd = (np.array([getattr(each, of) for each in met], dtype=float) for of in ("value", "mean", "sd"))
    span = ends([*read, *mean])
    room = 0.6 * (span[1] - span[0])
    x, y = numbers(np.array([read, mean]))
    hover = [
        f"{said(campaign, trial)}<br>predicted {m:.9g} ± {s:.3g}" for trial, m, s in zip(trials, y, sd, strict=True)
    ]
    points = marks(x, y, "trials", BLUE, hover)
    points["error_y"] = {"type": "data", "array": numbers(2 * sd), "color": GREY, "thickness": 1, "width": 2}
    data = [{**line(span, span, f"predicted as {source}", GREY, dash="dot"), "hoverinfo": "skip"}, points]
    label = labelled(output["name"], output["unit"])
    layout = {
        "xaxis": axis(f"{label}, {source}", range=span),
        "yaxis": axis(f"{label}, predicted", range=[span[0] - room, span[1] + room]),  # a wide bar must not flatten all
    }
    head = ["trial", f"{source} {label}", f"predicted {label}", "standard deviation"]
    rows = [list(row) for row in zip([t.id for t in trials], x, y, numbers(sd), strict=True)]
    title = f"Predicted against {source}"
    if objective_of(campaign).goals:
        title = f"{title}: {name}"
    return Chart(title, data, layout, head, rows, height=380)


def along(campaign: CampaignRecord, trials: Sequence[Some], name: str, at: Array, mean: Array, sd: Array) -> Chart:
    """The prediction along one variable with two standard deviations, and the results.

    Args:
        campaign: The campaign.
        trials: Its trials.
        name: The variable.
        at: Its values, shape (g,).
        mean: Predicted objective there, shape (g,); NaN stays blank.
        sd: Its standard deviation, shape (g,).
    """
    units, output = campaign.environment["units"], campaign.environment["outputs"][0]
    shown, x = drawn(campaign, trials), numbers(at)
    known = np.isfinite(mean)
    low, high = numbers((mean - 2 * sd)[known]), numbers((mean + 2 * sd)[known])
    inside = numbers(at[known])
    band = line([*inside, *inside[::-1]], [*high, *low[::-1]], "two standard deviations", BLUE, width=0)
    data: list[dict[str, Any]] = [
        {**band, "fill": "toself", "fillcolor": "rgba(0,114,178,0.18)", "hoverinfo": "skip"},
        line(x, numbers(mean), "predicted", BLUE),
    ]
    places = [float(trial.actual[name]) for trial in shown]
    values = [(trial.outputs or {})[output["name"]] for trial in shown]
    data.append(marks(places, numbers(values), "results", GREY, [said(campaign, trial) for trial in shown]))
    layout = {"xaxis": variable_axis(campaign, name), "yaxis": axis(output_label(output))}
    head = [labelled(name, units[name]), f"predicted {output_label(output)}", "standard deviation"]
    rows = [list(row) for row in zip(x, numbers(mean), numbers(sd), strict=True)]
    return Chart("Prediction", data, layout, head, rows, height=340)


def plane(
    campaign: CampaignRecord, names: tuple[str, str], axes: tuple[Array, Array], mean: Array, sd: Array, limits: Any
) -> list[Chart]:
    """Maps of the predicted mean over two variables, (g,) and (g,), and of its standard deviation where there is one.

    Args:
        campaign: The campaign.
        names: The variables.
        axes: Values of each.
        mean: Predicted objective, shape (g, g).
        sd: Its standard deviation, shape (g, g).
        limits: Ends of the colours of the mean.
    """
    units, output = campaign.environment["units"], campaign.environment["outputs"][0]
    over = dict(zip(names, axes, strict=True))
    log = logarithmic(campaign)
    charts = [heat("Predicted mean", over, units, mean, output_label(output), limits=limits, log=log)]
    if np.any(sd > 0):
        label = labelled("standard deviation", output["unit"])
        charts.append(heat("Predicted standard deviation", over, units, sd, label, colours=DOUBTS, log=log))
    return charts


def residual(names: Sequence[str], axes: tuple[Array, Array] | None, values: Array, points: Array, units: Any) -> Chart:
    """|N[mean] - g| as a map over a domain of two axes, its points as marks; elsewhere sorted over the points.

    Args:
        names: Axes of the domain.
        axes: Values along both, (g,) and (g,), of a domain of two; None elsewhere.
        values: The residual, shape (g, g), or (r,) at the points.
        points: Collocation points, shape (r, d).
        units: Units of the axes by name.
    """
    label = "|N[mean] - g|"
    if axes is None:
        share = numbers((np.arange(len(values)) + 0.5) / len(values))
        sorted_ = numbers(np.sort(values))
        layout = {"xaxis": axis("share of the collocation points"), "yaxis": axis(label, rangemode="tozero")}
        data = [{**line(share, sorted_, label, BLUE), "showlegend": False}]
        return Chart("Residual of the equation", data, layout, ["share", label], list(zip(share, sorted_, strict=True)))
    log = np.log10(np.maximum(values, 1e-6 * np.nanmax(values)))
    limits = (float(np.nanquantile(log, 0.02)), float(np.nanmax(log)))
    chart = heat(
        "Residual of the equation", dict(zip(names, axes, strict=True)), units, log, f"log10 {label}", limits=limits
    )
    dots = marks(
        numbers(points[:, 0]),
        numbers(points[:, 1]),
        "collocation points",
        "#FFFFFF",
        size=5,
        line={"color": "#000000", "width": 1},
    )
    return Chart(chart.title, [*chart.data, dots], chart.layout, chart.head, chart.rows, chart.height)
