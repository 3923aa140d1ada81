"""Trials where they lie in the space of designs: over one variable, over two or a field, or in parallel coordinates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.best import best_trial, objective_of
from fieldcraft.flows.analysis.existing import absent
from fieldcraft.flows.analysis.front import on_front
from fieldcraft.flows.charts.chart import BLUE, GREY, RED, VALUES, Chart, axis, labelled, line, literal, marks, numbers
from fieldcraft.flows.charts.fields import heat, reach
from fieldcraft.flows.charts.series import (
    KINDS,
    Some,
    completed,
    drawn,
    kind_of,
    logarithmic,
    output_label,
    said,
    table,
    variable_axis,
    variables,
)
from fieldcraft.flows.text import one_line
from fieldcraft.storage.records import CampaignRecord, Level

_LONGEST_LABEL = 24  # characters of the name of an axis
_SHADES = 16  # colours of the lines of parallel coordinates
_PROPOSED = "this proposal"
_Heights = list[float]
_Marks = list[tuple[float, str]]


def where(
    campaign: CampaignRecord,
    trials: Sequence[Some],
    field: Any = None,
    optimum: float | None = None,
    proposal: Mapping[str, Level] | None = None,
) -> Chart:
    """The trials over a field where designs are places in one, over one or two numeric variables, or as parallel lines.

    Args:
        campaign: The campaign.
        trials: Its trials.
        field: An ``xarray.DataArray`` whose two dimensions are design variables; None where there is none.
        optimum: The true optimum in the objective's unit, where it is known.
        proposal: A design to be shown among the trials.
    """
    names = list(campaign.environment["units"])
    designs = [trial.actual for trial in completed(trials)] + ([] if proposal is None else [proposal])
    numeric = not any(isinstance(design[name], str) for design in designs for name in names)
    if field is not None:
        return over_field(campaign, trials, field, optimum, proposal)
    if numeric and len(names) == 2 and not objective_of(campaign).goals:
        return _plane(campaign, trials, (names[0], names[1]), proposal)
    if numeric and len(names) == 1 and not objective_of(campaign).goals:
        return _line(campaign, trials, names[0], proposal)
    return parallel(campaign, trials, proposal)


def over_field(
    campaign: CampaignRecord,
    trials: Sequence[Some],
    field: Any,
    optimum: float | None,
    proposal: Mapping[str, Level] | None = None,
) -> Chart:
    """The trials as open marks over a field of two design variables; its colours hold all results and the optimum."""
    names = (str(field.dims[0]), str(field.dims[1]))
    units = campaign.environment["units"]
    told = [] if field.name != campaign.environment["outputs"][0]["name"] else _values(campaign, trials)
    told += [optimum] if optimum is not None and told else []
    label = labelled(str(field.name), field.attrs.get("units", ""))
    axes = {name: np.asarray(field[name], dtype=float) for name in names}
    chart = heat(
        "Trials over the field",
        axes,
        units,
        field.values,
        label,
        limits=reach(field.values, told),
        log=logarithmic(campaign),
    )
    data = [*chart.data, *_marks(campaign, trials, names, proposal, "#FFFFFF")]
    return Chart(chart.title, data, chart.layout, *table(campaign, completed(trials)), height=chart.height)


def _plane(
    campaign: CampaignRecord, trials: Sequence[Some], names: tuple[str, str], proposal: Mapping[str, Level] | None
) -> Chart:
    """The trials in the plane of two variables, coloured by their results."""
    shown = drawn(campaign, trials)
    values = _values(campaign, shown)
    scale: dict[str, Any] = {
        "colorscale": VALUES,
        "color": numbers(values),
        "colorbar": bar(output_label(_first(campaign))),
    }
    data = []
    if shown:
        points = [[float(trial.actual[name]) for trial in shown] for name in names]
        hover = [said(campaign, trial) for trial in shown]
        symbols = [{kind: mark for kind, _, mark in KINDS}[kind_of(trial)] for trial in shown]
        style: dict[str, Any] = {"symbol": symbols, "size": 10, "line": {"color": GREY, "width": 1}, **scale}
        data.append({**marks(points[0], points[1], "trials", BLUE, hover, **style), "showlegend": False})
    data += _best_mark(campaign, trials, names) + _proposed(names, proposal)
    axes = {f"{side}axis": variable_axis(campaign, name) for side, name in zip("xy", names, strict=True)}
    return Chart("Designs of the trials", data, axes, *table(campaign, completed(trials)), height=400)


def _line(campaign: CampaignRecord, trials: Sequence[Some], name: str, proposal: Mapping[str, Level] | None) -> Chart:
    """Results over the one variable."""
    shown, output = drawn(campaign, trials), _first(campaign)
    data = []
    for kind, text, symbol in KINDS:
        group = [trial for trial in shown if kind_of(trial) == kind]
        if group:
            x, hover = [float(trial.actual[name]) for trial in group], [said(campaign, trial) for trial in group]
            colour = GREY if kind == "initial" else BLUE
            data.append(marks(x, numbers(_values(campaign, group)), text, colour, hover, symbol=symbol))
    layout: dict[str, Any] = {
        "xaxis": variable_axis(campaign, name),
        "yaxis": axis(output_label(output)),
    }
    if proposal is not None:
        place = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": proposal[name], "x1": proposal[name]}
        layout["shapes"] = [{**place, "line": {"color": RED, "width": 2}, "label": {"text": _PROPOSED}}]
    return Chart("Designs of the trials", data, layout, *table(campaign, completed(trials)))


def _first(campaign: CampaignRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = campaign.environment["outputs"][0]
    return found


def _values(campaign: CampaignRecord, trials: Sequence[Some]) -> list[float]:
    return [float((trial.outputs or {})[_first(campaign)["name"]]) for trial in completed(trials)]


def _marks(
    campaign: CampaignRecord,
    trials: Sequence[Some],
    names: tuple[str, str],
    proposal: Mapping[str, Level] | None,
    colour: str,
) -> list[dict[str, Any]]:
    """Open marks of the trials, with a dark rim, so that the field under them stays visible."""
    made = []
    for kind, text, symbol in KINDS:
        group = [trial for trial in drawn(campaign, trials) if kind_of(trial) == kind]
        points = [[float(trial.actual[name]) for trial in group] for name in names]
        if group:
            hover = [said(campaign, trial) for trial in group]
            rim = {
                **marks(points[0], points[1], text, "#000000", (), symbol=f"{symbol}-open", size=11),
                "showlegend": False,
            }
            rim["marker"]["line"] = {"width": 3.2}
            rim["hoverinfo"] = "skip"
            mark = marks(
                points[0], points[1], text, colour, hover, symbol=f"{symbol}-open", size=11, line={"width": 1.6}
            )
            made += [{**each, "showlegend": False, "cliponaxis": False} for each in (rim, mark)]
    return made + _best_mark(campaign, trials, names) + _proposed(names, proposal)


def _best_mark(campaign: CampaignRecord, trials: Sequence[Some], names: tuple[str, str]) -> list[dict[str, Any]]:
    best = best_trial(campaign, list[Any](completed(trials)))
    if best is None:
        return []
    at = [[float(best.actual[name])] for name in names]
    style: dict[str, Any] = {"symbol": "circle-open", "size": 20, "line": {"width": 3}}
    return [{**marks(at[0], at[1], "best", RED, [said(campaign, best)], **style), "cliponaxis": False}]


def _proposed(names: tuple[str, str], proposal: Mapping[str, Level] | None) -> list[dict[str, Any]]:
    if proposal is None:
        return []
    at = [[float(proposal[name])] for name in names]
    return [
        marks(at[0], at[1], _PROPOSED, RED, [_PROPOSED], symbol="star", size=16, line={"width": 1, "color": "#FFFFFF"})
    ]


def bar(label: str) -> dict[str, Any]:
    """The scale of colours beside a picture."""
    return {"title": {"text": literal(label), "side": "right"}, "thickness": 12, "outlinewidth": 0}


def parallel(campaign: CampaignRecord, trials: Sequence[Some], proposal: Mapping[str, Level] | None = None) -> Chart:
    """Completed trials as lines through their variables (but images) and objectives, coloured by the objective.

    Of several objectives the lines on the front are coloured. A line is dotted where a constraint is violated. Of many
    trials the best are drawn, on scales that reach over all. They are plain lines: plotly's own parallel coordinates
    build functions from text, which a page that forbids it cannot draw.
    """
    objective, done = objective_of(campaign), completed(trials)
    read = campaign.environment["outputs"][: len(objective.outputs)]
    units, names = campaign.environment["units"], variables(campaign, done)
    asked = [] if proposal is None else [proposal]
    log, orders = logarithmic(campaign), campaign.environment.get("orders", {})
    told = [*(trial.actual for trial in done), *asked]
    gone = [absent(campaign, design) for design in told]
    scales = [
        _without(
            _scale([design[name] for design in told], name in log, orders.get(name)), [name in each for each in gone]
        )
        for name in names
    ]
    scales += [_scale([(trial.outputs or {})[each["name"]] for trial in done]) for each in read]
    labels = [labelled(name, units[name]) for name in names] + [output_label(each) for each in read]
    shown = {trial.id for trial in drawn(campaign, trials)}
    members = set(on_front(campaign, list[Any](done)))
    values = np.array([(trial.outputs or {})[objective.output] for trial in done], dtype=float)
    order = np.argsort(np.argsort(values if objective.maximize else -values, kind="stable"), kind="stable")
    ranks = order / max(len(done) - 1, 1)  # 1 for the best
    groups: dict[tuple[float, bool], list[int]] = {}
    for place, trial in enumerate(done):
        if trial.id in shown:
            worth = float(trial.id in members) if objective.goals else float(ranks[place])
            shade = round(worth * (_SHADES - 1)) / (_SHADES - 1)
            groups.setdefault((shade, objective.feasible(trial.outputs or {})), []).append(place)
    data = [
        _bundle(
            campaign,
            [done[i] for i in group],
            [[scale[0][i] for scale in scales] for i in group],
            shade,
            met,
            bool(members),
        )
        for (shade, met), group in sorted(groups.items(), key=lambda each: (each[0][1], each[0][0]))
    ]
    if proposal is not None:
        heights = [scale[0][-1] for scale in scales[: len(names)]]
        made = line(list(range(len(names))), numbers(heights), _PROPOSED, RED, width=4)
        data.append({**made, "mode": "lines+markers", "showlegend": True, "hoverinfo": "name"})
    places = range(len(scales))
    posts = [{"type": "line", "x0": i, "x1": i, "y0": 0, "y1": 1, "line": {"color": GREY, "width": 1}} for i in places]
    layout = {
        "xaxis": axis(
            "",
            tickvals=list(places),
            ticktext=[literal(_short(label)) for label in labels],
            ticklabeloverflow="allow",
            range=[-0.15, len(scales) - 0.55],
            showgrid=False,
        ),
        "yaxis": {"visible": False, "range": [-0.06, 1.06]},
        "shapes": posts,
        "annotations": [note for place, (_, ticks) in enumerate(scales) for note in _ticks(place, ticks)],
        "margin": {"l": 24, "r": 24, "t": 36, "b": 52},
    }
    return Chart("Designs of the trials", data, layout, *table(campaign, done), height=380)


def _bundle(
    campaign: CampaignRecord,
    trials: Sequence[Some],
    heights: Sequence[_Heights],
    shade: float,
    met: bool,
    front: bool,
) -> dict[str, Any]:
    """Lines of one colour as one trace, with a gap after each."""
    x = [place for _ in trials for place in (*range(len(heights[0])), None)]
    y = [value for row in heights for value in (*numbers(row), None)]
    colour = (RED if shade else GREY) if front else _viridis(shade)
    made = line(x, y, "trials", colour, width=1.0 + shade, dash="solid" if met else "dot")
    hover = [text for trial in trials for text in [said(campaign, trial)] * (len(heights[0]) + 1)]
    return {**made, "showlegend": False, "hovertext": hover, "hoverinfo": "text", "opacity": 0.85}


_VIRIDIS = ((0.0, (110, 110, 125)), (0.5, (33, 144, 141)), (0.85, (94, 170, 60)), (1.0, (213, 94, 0)))


def _viridis(share: float) -> str:
    """A colour from grey over green to red, legible on light and on dark."""
    at = [point for point, _ in _VIRIDIS]
    return "rgb({},{},{})".format(*(round(float(np.interp(share, at, [c[i] for _, c in _VIRIDIS]))) for i in range(3)))


def _ticks(place: int, ticks: Sequence[tuple[float, str]]) -> list[dict[str, Any]]:
    options = {"x": place, "xanchor": "left", "xshift": 4, "showarrow": False, "font": {"size": 10}}
    return [{**options, "y": height, "text": literal(text)} for height, text in ticks]


def _without(scale: tuple[_Heights, _Marks], gone: Sequence[bool]) -> tuple[_Heights, _Marks]:
    """Heights with gaps where a variable does not exist, and the ticks."""
    return [math.nan if none else height for height, none in zip(scale[0], gone, strict=True)], scale[1]


def _short(label: str) -> str:
    """A label that leaves room for others, both ends of its name; the table below has it whole."""
    if len(label) <= _LONGEST_LABEL:
        return label
    name, half = label.rsplit(" (", 1)[0], _LONGEST_LABEL // 2
    return name if len(name) <= _LONGEST_LABEL else f"{name[:half]}…{name[1 - half :]}"


def _scale(values: Sequence[Any], log: bool = False, order: Sequence[str] | None = None) -> tuple[_Heights, _Marks]:
    """Heights in [0, 1] of values of one variable, and the ticks (height, text) that label them.

    Levels are in their order, or in that of the alphabet.
    """
    if any(isinstance(value, str) for value in values):
        levels = list(order or sorted({str(value) for value in values}))
        places = {each: i / max(len(levels) - 1, 1) for i, each in enumerate(levels)}
        return [places[str(value)] for value in values], [(at, one_line(each)) for each, at in places.items()]
    if not values:
        return [], []
    found = np.log10(values) if log else np.array(values, dtype=float)
    low, high = float(found.min()), float(found.max())
    if low == high:
        return [0.5] * len(found), [(0.5, f"{float(values[0]):.4g}")]
    at = [(share, low + share * (high - low)) for share in (0.0, 0.5, 1.0)]
    ticks = [(share, f"{10**value if log else value:.4g}") for share, value in at]
    return ((found - low) / (high - low)).tolist(), ticks
