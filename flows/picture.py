"""``fieldcraft plot``: one picture of a campaign, from the ledger and the field store."""

from pathlib import Path
from typing import Any

import numpy as np

from flows.errors import InputError
from flows.exporting import objective_of
from flows.settings import Settings
from flows.views import best_trial
from flows.wiring import rewire
from storage.fields import FieldStore
from storage.ledger import Ledger
from storage.records import Campaign, Trial, TrialState


def draw(settings: Settings, ledger: Ledger, campaign: Campaign, file: Path) -> None:
    """Best reading by trial, and where the design is a place in a two-dimensional field, the trials over that field.

    Raises:
        InputError: the file's ending is that of no picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trials = ledger.trials(campaign.name)
    field = _field(settings, campaign, trials)
    panels = 1 if field is None else 2
    figure = Figure(figsize=(5.5 * panels, 4.4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    if file.suffix.lstrip(".") not in canvas.get_supported_filetypes():
        raise InputError(f"{file}: a picture cannot be written as {file.suffix!r}. Name a .png, .svg or .pdf file.")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    if field is not None:
        _over_field(figure, axes[0], campaign, trials, field)
    _progress(axes[-1], settings, campaign, trials)
    figure.suptitle(f"{campaign.name}: {rewire(campaign.spec, settings, algorithm=False).spec.algorithm.sentence}")
    figure.savefig(file, dpi=130)


def _field(settings: Settings, campaign: Campaign, trials: tuple[Trial, ...]) -> Any:
    """The best trial's field of two dimensions that bear the names of design variables, or None."""
    best, names = best_trial(campaign, trials), set(campaign.environment["units"])
    if best is None or best.field is None:
        return None
    dataset = FieldStore(settings.fields).read(best.field)
    found = [v for v in dataset.data_vars.values() if v.ndim == 2 and set(map(str, v.dims)) <= names]
    return found[0] if found else None


def _over_field(figure: Any, axis: Any, campaign: Campaign, trials: tuple[Trial, ...], field: Any) -> None:
    down, across = map(str, field.dims)
    units = campaign.environment["units"]
    # The colours span 98% of the field: at a corner where boundary values jump a few cells would take them all.
    low, high = np.quantile(field.values, [0.01, 0.99])
    image = axis.pcolormesh(
        field[down],
        field[across],
        field.values.T,
        cmap="inferno",
        vmin=low,
        vmax=high,
        shading="nearest",
        rasterized=True,
    )
    figure.colorbar(image, ax=axis, label=f"{field.name} ({field.attrs.get('units', '')})", extend="both")
    done = [trial for trial in trials if trial.state is TrialState.COMPLETED]
    for kind, marker, label in (("initial", "s", "start"), ("model", "o", "proposed")):
        points = [(t.design[down], t.design[across]) for t in done if t.origin.kind == kind]
        if points:
            axis.scatter(
                *np.array(points, dtype=float).T, marker=marker, s=30, c="white", edgecolors="black", label=label
            )
    if best := best_trial(campaign, done):
        axis.scatter(
            best.design[down], best.design[across], marker="*", s=260, c="cyan", edgecolors="black", label="best"
        )
    axis.set(xlabel=f"{down} ({units[down]})", ylabel=f"{across} ({units[across]})", aspect="equal")
    axis.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, frameon=False)  # hides no trial


def _progress(axis: Any, settings: Settings, campaign: Campaign, trials: tuple[Trial, ...]) -> None:
    output = campaign.environment["outputs"][0]
    objective = objective_of(campaign)
    done = [trial for trial in trials if trial.state is TrialState.COMPLETED and trial.outputs]
    readings = [(trial.number, (trial.outputs or {})[output["name"]]) for trial in done]
    axis.plot([n for n, _ in readings], [value for _, value in readings], "o", color="0.55", label="reading")
    feasible = [reading for reading, trial in zip(readings, done, strict=True) if objective.best([trial]) is not None]
    if feasible:
        numbers, values = zip(*feasible, strict=True)
        best = (np.maximum if objective.maximize else np.minimum).accumulate(values)
        axis.step(numbers, best, where="post", color="C3", label="best so far")
    optimum = rewire(campaign.spec, settings, algorithm=False).problem.optimum(campaign.spec["sense"])
    if optimum is not None:
        axis.axhline(optimum.value, color="0.2", linestyle=":", label="true optimum")
    axis.set(xlabel="trial", ylabel=f"{output['name']} ({output['unit']})")
    axis.legend(loc="lower right")
