"""Charts of one campaign's page, from its material."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.predicted import Met
from fieldcraft.flows.charts import fields, model, space, spending
from fieldcraft.flows.charts.chart import VALUES, Chart, marks, numbers
from fieldcraft.flows.charts.series import completed, drawn, said
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.report.belief import Missed, Slice
from fieldcraft.flows.report.material import Material
from fieldcraft.storage.records import Trial


def source_of(material: Material) -> str:
    """Word for the source of results: experiment or simulator."""
    return "experiment" if material.by_people else "simulator"


def read_as(material: Material) -> str:
    """Word for a result: measured or simulated."""
    return "measured" if material.by_people else "simulated"


def optimum_of(material: Material) -> float | None:
    """The true optimum where it is known."""
    return material.regret["optimum"] if material.regret else None


def best_chart(material: Material) -> Chart:
    """Results and the best so far, with the optimum and the target."""
    target = (material.campaign.spec.get("stop") or {}).get("target")
    return trace(material.campaign, material.trials, optimum_of(material), target)


def trials_chart(material: Material) -> Chart:
    """The trials over the field where designs are places in one, else in the space of their variables."""
    return space.where(material.campaign, material.trials, material.field, optimum_of(material))


def surrogate_charts(material: Material, plane: Slice) -> list[Chart]:
    """The prediction beside the results: over a plane, or along one variable."""
    campaign, trials = material.campaign, material.trials
    if len(plane.names) == 1:
        return [model.along(campaign, trials, plane.names[0], plane.axes[0], plane.mean, plane.sd)]
    names, axes = (plane.names[0], plane.names[1]), (plane.axes[0], plane.axes[1])
    limits = _limits(material, plane)
    charts = model.plane(campaign, names, axes, plane.mean, plane.sd, limits)
    if material.field is not None:
        field = material.field.transpose(*names)
        found = fields.field(f"Field of the {source_of(material)}", field, limits)
        return [*charts, *([found] if found else [])]
    mean = charts[0]
    shown = drawn(campaign, trials)
    points = [numbers([float(trial.actual[name]) for trial in shown]) for name in names]
    values: dict[str, Any] = {"color": numbers([_value(material, trial) for trial in shown]), "colorscale": VALUES}
    values |= {"cmin": limits[0], "cmax": limits[1], "size": 9, "line": {"color": "#FFFFFF", "width": 1.2}}
    dots = marks(points[0], points[1], "results", "", [said(campaign, trial) for trial in shown])
    dots["marker"] = values
    return [Chart(mean.title, [*mean.data, dots], mean.layout, mean.head, mean.rows, mean.height), *charts[1:]]


def _limits(material: Material, plane: Slice) -> tuple[float, float]:
    """Ends of one colour scale for prediction and simulation: all results, the optimum, 98% of the cells of each."""
    told = [_value(material, trial) for trial in completed(material.trials)]
    told += [] if optimum_of(material) is None else [optimum_of(material) or 0.0]
    if material.field is not None:
        told += fields.reach(material.field.values)
    return fields.reach(plane.mean, told)


def _value(material: Material, trial: Trial) -> float:
    return float((trial.outputs or {})[material.output[0]])


def foreseen_chart(material: Material, name: str, met: Sequence[Met]) -> Chart:
    """Predicted values of an objective, with two standard deviations, against results."""
    return model.foreseen(material.campaign, name, met, read_as(material))


def residual_chart(material: Material, missed: Missed) -> Chart:
    """|N[mean] - g| as a map over a domain of two axes, else sorted over the collocation points."""
    return model.residual(missed.names, missed.axes, missed.values, missed.points, material.units)


def field_charts(material: Material) -> list[Chart]:
    """The fields of the last trials with a slider, and the best trial's field as predicted beside as simulated."""
    charts = fields.twice(material.twice) if material.twice is not None else []
    found = fields.slider("Fields of the trials", material.fields) if material.fields else None
    return [*([found] if found else []), *charts]


def time_chart(material: Material) -> Chart | None:
    """Seconds of every trial's simulation or experiment, and of the training before it; None where none was told."""
    trained = {iteration: said.seconds for iteration, said in material.trained.items()}
    return spending.times(material.trials, trained, material.work)


def cost_chart(material: Material) -> Chart | None:
    """Cost so far and the budget; None where nothing was spent."""
    spent = np.array([trial.spent for trial in material.trials])
    return spending.cost(material.campaign, material.trials) if spent.any() else None
