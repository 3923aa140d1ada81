"""Charts of one campaign's page, each as a ``data:`` URI."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.report.belief import Missed, Slice
from fieldcraft.flows.report.material import Material
from fieldcraft.flows.views.charts import (
    ACCENT,
    BEST,
    INK,
    READING,
    as_data_uri,
    bars,
    colour_bar,
    colour_ends,
    completed,
    crowded,
    heat_map,
    labelled,
    new_figure,
    over_field,
    parallel,
    progress,
    whole_numbers,
)
from fieldcraft.storage.records import Trial


def source_of(material: Material) -> str:
    """Word for the source of results: experiment or simulator."""
    return "experiment" if material.by_people else "simulator"


def best_chart(material: Material) -> str:
    """Results and the best so far."""
    figure = new_figure(7.4, 3.4)
    progress(figure.subplots(), material.campaign, material.trials, _optimum(material))
    return as_data_uri(figure)


def _optimum(material: Material) -> float | None:
    return material.regret["optimum"] if material.regret else None


def trials_chart(material: Material) -> str:
    """The trials over the field where designs are places in one, else in parallel coordinates."""
    if material.field is not None:
        figure = new_figure(5.6, 4.6)
        over_field(figure.subplots(), material.campaign, material.trials, material.field, _optimum(material))
    else:
        figure = new_figure(min(3.4 + 1.3 * len(material.units), 11.0), 3.8)
        parallel(figure.subplots(), material.campaign, material.trials)
    return as_data_uri(figure)


def surrogate_chart(material: Material, plane: Slice) -> str:
    """The prediction beside the results: over a plane, or along one variable."""
    return _plane_chart(material, plane) if len(plane.names) == 2 else _line_chart(material, plane)


def _plane_chart(material: Material, plane: Slice) -> str:
    name, unit = material.output
    uncertain = bool(np.any(plane.sd > 0))
    figure = new_figure(4.0 * (2 + uncertain), 3.5)
    axes = list(figure.subplots(1, 2 + uncertain))
    limits = _limits(material, plane)
    heat_map(axes[0], plane.axes, plane.mean, labelled(name, unit), limits=limits)
    axes[0].set_title("surrogate: mean")
    if uncertain:
        heat_map(axes[1], plane.axes, plane.sd, labelled("standard deviation", unit), colours="viridis")
        axes[1].set_title("surrogate: standard deviation")
    if material.field is not None:
        field = material.field.transpose(*plane.names)
        heat_map(axes[-1], [field[axis] for axis in plane.names], field.values, labelled(name, unit), limits=limits)
        axes[-1].set_title("simulator: field")
    else:
        _readings(axes[-1], material, plane, limits)
        axes[-1].set_title(f"{source_of(material)}: results")
    same_unit = len({material.units[axis] for axis in plane.names}) == 1
    for axis in axes:
        across, up = (labelled(axis_name, material.units[axis_name]) for axis_name in plane.names)
        axis.set(xlabel=across, ylabel=up, aspect="equal" if same_unit and material.field is not None else "auto")
        axis.set(xlim=plane.axes[0][[0, -1]], ylim=plane.axes[1][[0, -1]])
    return as_data_uri(figure)


def _limits(material: Material, plane: Slice) -> tuple[float, float]:
    """Ends of one colour scale for prediction and simulation: all results, and 98% of the cells of each."""
    values = [_value(material, trial) for trial in completed(material.trials)]
    ends = [(min(values), max(values)), tuple(np.nanquantile(plane.mean, [0.01, 0.99]))]
    if material.field is not None:
        ends.append(colour_ends(material.campaign, material.trials, material.field, _optimum(material)))
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))


def _readings(axis: Any, material: Material, plane: Slice, limits: tuple[float, float]) -> None:
    done = completed(material.trials)
    points = np.array([[float(trial.actual[name]) for name in plane.names] for trial in done])
    values = [_value(material, trial) for trial in done]
    options = {
        "cmap": "inferno",
        "vmin": limits[0],
        "vmax": limits[1],
        "edgecolors": INK,
        "s": 42,
        "rasterized": crowded(done),
    }
    image = axis.scatter(*points.T, c=values, **options)
    colour_bar(axis, image, labelled(*material.output), "both")


def _value(material: Material, trial: Trial) -> float:
    return float((trial.outputs or {})[material.output[0]])


def _line_chart(material: Material, plane: Slice) -> str:
    figure = new_figure(7.4, 3.6)
    axis, (name,), (along,), done = figure.subplots(), plane.names, plane.axes, completed(material.trials)
    axis.fill_between(along, plane.mean - 2 * plane.sd, plane.mean + 2 * plane.sd, color=ACCENT, alpha=0.15, lw=0)
    axis.plot(along, plane.mean, color=ACCENT, label="surrogate: mean and two standard deviations")
    values = [_value(material, trial) for trial in done]
    places, label = [float(trial.actual[name]) for trial in done], f"{source_of(material)}: results"
    axis.plot(places, values, "o", ms=4.5, color=INK, label=label, rasterized=crowded(done))
    axis.set(xlabel=labelled(name, material.units[name]), ylabel=labelled(*material.output))
    axis.legend(loc="best")
    return as_data_uri(figure)


def foreseen_chart(material: Material, foreseen: Sequence[Trial]) -> str:
    """Predicted values, with two standard deviations, against results."""
    figure = new_figure(5.0, 3.9)
    axis, (name, unit) = figure.subplots(), material.output
    mean = np.array([trial.origin.mean for trial in foreseen], dtype=float)
    sd = np.array([trial.origin.sd or 0.0 for trial in foreseen])
    read = np.array([_value(material, trial) for trial in foreseen])
    style = {"color": ACCENT, "ecolor": READING, "rasterized": crowded(foreseen)}
    axis.errorbar(read, mean, yerr=2 * sd, fmt="o", ms=4.5, elinewidth=1.0, **style)
    ends = [float(min(mean.min(), read.min())), float(max(mean.max(), read.max()))]
    axis.plot(ends, ends, ":", color=INK, label="foreseen as read")
    room = 0.6 * (ends[1] - ends[0]) or 1.0
    axis.set(xlabel=labelled(f"{name} read", unit), ylabel=labelled(f"{name} foreseen", unit))
    axis.set_ylim(ends[0] - room, ends[1] + room)  # one wide bar must not flatten the rest
    axis.legend(loc="lower right")
    return as_data_uri(figure)


def residual_chart(material: Material, missed: Missed) -> str:
    """|N[mean] - g| as a map over a domain of two axes, else as a histogram over the collocation points."""
    if missed.axes is None:
        figure = new_figure(6.0, 3.2)
        axis = figure.subplots()
        axis.hist(missed.values, bins=24, color=ACCENT)
        axis.set(xlabel="|N[mean] - g|", ylabel="collocation points")
        return as_data_uri(figure)
    figure = new_figure(5.6, 4.4)
    axis, values = figure.subplots(), np.log10(np.maximum(missed.values, 1e-6 * np.nanmax(missed.values)))
    limits = (float(np.nanquantile(values, 0.02)), float(np.nanmax(values)))
    heat_map(axis, missed.axes, values, "log10 |N[mean] - g|", limits=limits, colours="magma")
    axis.scatter(*missed.points.T, s=7, c="white", edgecolors="black", linewidths=0.4, label="collocation points")
    across, up = (labelled(name, material.units.get(name, "")) for name in missed.names)
    same_unit = len({material.units.get(name) for name in missed.names}) == 1
    axis.set(xlabel=across, ylabel=up, aspect="equal" if same_unit else "auto")
    axis.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), handletextpad=0.2, markerscale=2)
    return as_data_uri(figure)


def time_chart(material: Material) -> str:
    """Seconds of every trial's simulation or experiment, and of the training before it."""
    figure = new_figure(7.4, 2.9)
    axis = figure.subplots()
    numbers = [trial.number for trial in material.trials]
    bars(axis, numbers, [trial.seconds for trial in material.trials], color=ACCENT, label=material.work)
    first = {trial.iteration: trial for trial in reversed(material.trials)}
    trained = [(first[n], said.seconds) for n, said in material.trained.items() if n in first]
    if trained:
        before, under = [trial.number for trial, _ in trained], [trial.seconds for trial, _ in trained]
        style = {"color": BEST, "alpha": 0.75, "label": "training"}
        bars(axis, before, [seconds for _, seconds in trained], under, **style)
    axis.set(xlabel="trial", ylabel="time (s)")
    whole_numbers(axis)
    axis.legend(loc="best")
    return as_data_uri(figure)
