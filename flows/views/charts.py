"""Charts of pictures in files, by matplotlib: the best so far, the front, the trials over a field.

Pages have those of ``flows.charts``, which need a browser. A chart is drawn into a matplotlib axis (``axis``) from
records and arrays; nothing here reads a store.
"""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.best import best_trial, objective_of
from fieldcraft.flows.analysis.front import front_data, hypervolume_label, hypervolumes
from fieldcraft.flows.charts.chart import Chart, labelled
from fieldcraft.flows.charts.series import best_so_far, completed
from fieldcraft.storage.records import CampaignRecord, Trial

STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.35",
    "legend.frameon": False,
    "text.parse_math": False,  # a dollar sign in a unit or a name is a dollar sign
    "svg.hashsalt": "fieldcraft",  # the same chart is the same bytes
}
READING, BEST, INK, ACCENT = "0.55", "#b4371f", "0.2", "#1f5fa8"
CROWD = 1000  # more marks than this are drawn into an SVG as one picture, whatever their number
_DPI = 130
_MARKS = (("initial", "s", "start"), ("model", "o", "proposed"), ("imported", "^", "imported"))
_BEYOND = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}


def new_figure(width: float, height: float) -> Any:
    """An empty figure of that size in inches, without a window system; sets matplotlib's style for this process."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mpl.rcParams.update(STYLE)
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_data_uri(figure: Any) -> str:
    """The figure as an SVG in a ``data:`` URI: sharp in print, and self-contained."""
    made = io.BytesIO()
    figure.savefig(made, format="svg", dpi=_DPI, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(made.getvalue()).decode("ascii")


def crowded(marks: Sequence[Any]) -> bool:
    """True if there are too many marks for an SVG (over ``CROWD``), so that they are drawn as one picture."""
    return len(marks) > CROWD


_STILL = {"circle": "o", "square": "s", "triangle-up": "^", "triangle-down": "v", "x-thin": "x", "x": "X"}


def drawn_still(chart: Chart, width: float, height: float) -> Any:
    """A chart of lines, marks and levels as a figure of that size in inches, for places that run no scripts."""
    figure = new_figure(width, height)
    axis = figure.subplots()
    for trace in chart.data:
        name = html.unescape(trace["name"])
        if trace["mode"] == "lines":
            where = "steps-post" if trace["line"].get("shape") == "hv" else "default"
            axis.plot(trace["x"], trace["y"], color=trace["line"]["color"], lw=1.8, drawstyle=where, label=name)
            continue
        symbol = trace["marker"]["symbol"]
        marker = _STILL[symbol if isinstance(symbol, str) else symbol[0]]
        style: dict[str, Any] = {"color": trace["marker"]["color"], "rasterized": crowded(trace["x"])}
        axis.plot(trace["x"], trace["y"], marker, ms=4.5, label=name, **style)
    for shape in chart.layout["shapes"]:
        axis.axhline(shape["y0"], color=INK, linestyle=":", label=html.unescape(shape["label"]["text"]))
    titles = {f"{side}label": html.unescape(chart.layout[f"{side}axis"]["title"]["text"]) for side in "xy"}
    axis.set(**titles, ylim=chart.layout["yaxis"]["range"])
    whole_numbers(axis)
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)  # hides no result
    return figure


def whole_numbers(axis: Any) -> None:
    """Set ticks of the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def progress(axis: Any, campaign: CampaignRecord, trials: Sequence[Trial], optimum: float | None) -> None:
    """Draw results and the best so far by trial, and the true optimum in the objective's unit where it is known."""
    output, objective = campaign.environment["outputs"][0], objective_of(campaign)
    for feasible, marker, label in ((True, "o", "result"), (False, "x", "not feasible")):
        shown = [trial for trial in completed(trials) if objective.feasible(trial.outputs or {}) is feasible]
        values = [(trial.outputs or {})[output["name"]] for trial in shown]
        if shown:
            style: dict[str, Any] = {"color": READING, "label": label, "rasterized": crowded(shown)}
            axis.plot([trial.number for trial in shown], values, marker, ms=4.5, **style)
    numbers, best = best_so_far(campaign, trials)
    if len(numbers):
        axis.step(numbers, best, where="post", color=BEST, lw=1.8, label="best so far")
    if optimum is not None:
        axis.axhline(optimum, color=INK, linestyle=":", label="true optimum")
    axis.set(xlabel="trial", ylabel=labelled(output["name"], output["unit"]))
    if not completed(trials):
        axis.text(0.5, 0.5, "no result yet", transform=axis.transAxes, ha="center")
        axis.set(xticks=[], yticks=[])
        return
    whole_numbers(axis)
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5)  # hides no result


def over_field(axis: Any, campaign: CampaignRecord, trials: Sequence[Trial], field: Any, optimum: float | None) -> None:
    """Draw the trials over a field (an ``xarray.DataArray`` of two dimensions that are design variables)."""
    down, across = map(str, field.dims)
    label = labelled(str(field.name), field.attrs.get("units", ""))
    limits = colour_ends(campaign, trials, field, optimum)
    heat_map(axis, (field[down], field[across]), field.values, label, limits=limits)
    places(axis, campaign, trials, (down, across))


def colour_ends(
    campaign: CampaignRecord, trials: Sequence[Trial], field: Any, optimum: float | None
) -> tuple[float, float]:
    """Ends of a field's colours: 98% of it and, if it is the objective's field, all results and the optimum.

    Without the cut at 98%, a few cells at corners where boundary values jump would take most of the colours.
    """
    output = campaign.environment["outputs"][0]["name"]
    told = list(np.nanquantile(field.values, [0.01, 0.99]))
    if field.name == output:
        told += [(trial.outputs or {})[output] for trial in completed(trials)]
        told += [] if optimum is None else [optimum]
    return float(min(told)), float(max(told))


def heat_map(
    axis: Any,
    along: Sequence[Any],
    values: Any,
    label: str,
    *,
    limits: tuple[float, float] | None = None,
    colours: str = "inferno",
) -> None:
    """Draw values (n, m) over the two axes ``along``, (n,) and (m,), with a colour bar of these ends (``limits``)."""
    shown = np.asarray(values).T
    low, high = limits or (np.nanmin(shown), np.nanmax(shown))
    image = axis.pcolormesh(*along, shown, cmap=colours, vmin=low, vmax=high, rasterized=True)
    colour_bar(axis, image, label, _BEYOND[bool(np.nanmin(shown) < low), bool(np.nanmax(shown) > high)])


def colour_bar(axis: Any, image: Any, label: str, extend: str = "neither") -> None:
    """Draw a colour bar of the same height as the axis."""
    axis.figure.colorbar(image, ax=axis, label=label, extend=extend, shrink=0.85, aspect=24)


def places(axis: Any, campaign: CampaignRecord, trials: Sequence[Trial], names: tuple[str, str]) -> None:
    """Draw completed trials as open marks in the plane of two variables, so that the field under them stays visible."""
    units, done = campaign.environment["units"], completed(trials)
    for kind, marker, label in _MARKS:
        points = [[float(trial.actual[name]) for name in names] for trial in done if trial.origin.kind == kind]
        if points:
            _open_marks(axis, points, marker, 34, "white", label)
    if best := best_trial(campaign, done):
        _open_marks(axis, [[float(best.actual[name]) for name in names]], "o", 190, "cyan", "best")
    across = [labelled(name, units.get(name, "")) for name in names]
    axis.set(xlabel=across[0], ylabel=across[1])
    log = set(names) & set(campaign.environment.get("log", ()))
    axis.set(**{f"{side}scale": "log" for side, name in zip("xy", names, strict=True) if name in log})
    if len({units.get(name, "") for name in names}) == 1 and not log:
        axis.set_aspect("equal")
    axis.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, handletextpad=0.2)  # hides no trial


def _open_marks(
    axis: Any, points: Sequence[Sequence[float]], marker: str, size: float, colour: str, label: str
) -> None:
    """Draw marks without a face at places (n, 2), with a light edge on a dark one, visible on any colour."""
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=1.9, foreground="black")]
    style: dict[str, Any] = {"marker": marker, "s": size, "facecolors": "none", "edgecolors": colour, "linewidths": 0.9}
    axis.scatter(
        *np.array(points).T, **style, label=label, rasterized=crowded(points), path_effects=edge, clip_on=False
    )


def front_chart(
    axis: Any,
    campaign: CampaignRecord,
    trials: Sequence[Trial],
    across: Mapping[str, Any],
    up: Mapping[str, Any],
    picked: str | None,
) -> None:
    """Draw all results in the plane of two objectives, those on the front, the picked trial and the reference point.

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
    for trial in completed(trials):
        if trial.id == picked:
            place = [(trial.outputs or {})[name] for name in names]
            axis.plot(*place, "o", ms=11, mfc="none", mew=1.6, color=INK, label="picked")
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
    axis.set(xlabel="trial", ylabel=hypervolume_label(campaign), ylim=(0, None))
    whole_numbers(axis)
    if numbers or most is not None:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
