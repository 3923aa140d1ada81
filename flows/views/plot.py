"""``fieldcraft plot``: one picture of a campaign, from the ledger and the field store."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.analysis.emulated_fields import Beside, beside
from fieldcraft.flows.charts.chart import labelled
from fieldcraft.flows.charts.front import pairs
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.products import Trained
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import (
    BEST,
    INK,
    front_chart,
    heat_map,
    hypervolume_chart,
    new_figure,
    over_field,
    progress,
    whole_numbers,
    wrapped,
)
from fieldcraft.flows.views.data import quantity
from fieldcraft.flows.views.export import require_place
from fieldcraft.flows.views.regret import most_hypervolume, optimum_of
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.networks import network_at
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord, Product, Trial

DOUBTFUL = 0.1
"""Share of its largest term from which an equation is in doubt: wrong ones leave about as much, or more
(docs/fields.md)."""


def draw(settings: Settings, ledger: Ledger, campaign: CampaignRecord, file: Path) -> None:
    """Draw the best result by trial, and the field of the best trial where one can be drawn.

    Of several objectives the front and the hypervolume by trial are drawn.

    Where designs are places in a field of two dimensions, the trials are drawn over it. Where the problem states the
    equation of its fields, the best trial's field is drawn beside the emulator's, and so are their difference, the
    coefficients that were fitted to the fields, and what the fields leave of the equation.

    Raises:
        InputError: the file's ending is not one of a picture, or its folder is not there.
    """
    require_place(file)
    trials = ledger.trials(campaign.name)
    wired = rewire(campaign.spec, settings, algorithm=False)
    known = optimum_of(wired)
    optimum = None if known is None else known.value
    panels: list[Callable[[Any], None]] = [lambda axis: progress(axis, campaign, trials, optimum)]
    if wired.objective.goals:
        pick = ledger.picked(campaign.name)
        drawn = partial(front_chart, campaign=campaign, trials=trials, picked=pick.trial if pick else None)
        panels = [partial(drawn, across=x, up=y) for x, y in pairs(campaign, trials)]
        panels.append(lambda axis: hypervolume_chart(axis, campaign, trials, most_hypervolume(wired)))
    field = field_of_places(settings, campaign, trials)
    if field is not None:
        panels.insert(0, lambda axis: over_field(axis, campaign, trials, field, optimum))
    if (twice := beside_emulator(settings, wired, ledger, campaign, trials)) is not None:
        panels += [*_against_emulator(twice), *of_equation(wired, ledger.products(campaign.name))]
    rows = 2 if len(panels) > 3 else 1
    columns = -(-len(panels) // rows)
    figure = new_figure(5.5 * columns, 4.4 * rows)
    ending = file.suffix.lstrip(".").lower()
    if ending not in figure.canvas.get_supported_filetypes():
        raise InputError(f"{file}: a picture cannot be written as {file.suffix!r}. Name a .png, .svg or .pdf file.")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        panel(axis)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle(wrapped(f"{campaign.name}: {wired.spec.algorithm.in_words}", 60 * columns))
    figure.savefig(file, dpi=130, format=ending)


def field_of_places(settings: Settings, campaign: CampaignRecord, trials: Sequence[Trial]) -> Any:
    """The best trial's field of two dimensions that have the names of design variables, or None.

    Raises:
        storage.fields.FieldError: the field store has lost it.
    """
    best, names = best_trial(campaign, trials), set(campaign.environment["units"])
    if best is None or best.field is None:
        return None
    dataset = fields_at(settings.fields).read(best.field)
    found = [v for v in dataset.data_vars.values() if v.ndim == 2 and set(map(str, v.dims)) <= names]
    return found[0] if found else None


def beside_emulator(
    settings: Settings, wired: Campaign, ledger: Ledger, campaign: CampaignRecord, trials: Sequence[Trial]
) -> Beside | None:
    """The best trial's field beside the emulator's; None where there is none to draw.

    Raises:
        storage.fields.FieldError: the field store has lost it.
    """
    best, problem = best_trial(campaign, trials), wired.problem
    if best is None or best.field is None or problem.parametric is None or len(problem.parametric.cells) > 2:
        return None
    return beside(problem, best.actual, fields_at(settings.fields).read(best.field), network_at(wired, ledger))


def drawable(dataset: Any) -> Any:
    """The first variable of a dataset that has an axis of more than one number, as an ``xarray.DataArray``; or None."""
    for array in dataset.data_vars.values():
        if array.ndim and max(array.shape) > 1 and np.issubdtype(array.dtype, np.number):
            return array
    return None


def _against_emulator(twice: Beside) -> list[Callable[[Any], None]]:
    """Panels of a field by the emulator and by the simulation: maps and their difference, or lines."""
    label, (along, *others) = labelled(twice.name, twice.unit), twice.axes
    axes = [labelled(name, twice.units[name]) for name in twice.axes]
    if not others:

        def lines(axis: Any) -> None:
            axis.plot(twice.axes[along], twice.simulated, "-", color=INK, label="simulation")
            axis.plot(twice.axes[along], twice.emulated, "o", color=BEST, mfc="none", label="emulator")
            axis.set(xlabel=axes[0], ylabel=label, title="best trial")
            axis.legend()

        return [lines]
    both = np.concatenate([twice.emulated.ravel(), twice.simulated.ravel()])
    ends = float(both.min()), float(both.max())
    apart = twice.simulated - twice.emulated
    most = float(np.abs(apart).max()) or 1.0

    def mapped(values: np.ndarray, title: str, text: str, limits: tuple[float, float], colours: str) -> Any:
        def panel(axis: Any) -> None:
            heat_map(axis, list(twice.axes.values()), values, text, limits=limits, colours=colours)
            axis.set(xlabel=axes[0], ylabel=axes[1], title=f"best trial: {title}")
            if len(set(twice.units.values())) == 1:
                axis.set_aspect("equal")

        return panel

    return [
        mapped(twice.emulated, "emulator", label, ends, "inferno"),
        mapped(twice.simulated, "simulation", label, ends, "inferno"),
        mapped(apart, "simulation - emulator", label, (-most, most), "RdBu_r"),
    ]


def of_equation(wired: Campaign, products: Sequence[Product]) -> list[Callable[[Any], None]]:
    """Panels of the coefficients that each model fitted, and of what the fields leave of the equation with them.

    A coefficient is drawn by its stated value, and one that is stated as 0 by its bound that is the largest.
    """
    stated = () if wired.problem.parametric is None else wired.problem.parametric.coefficients
    models = [Trained.of(product) for product in products if product.step == "train"]
    told = [(model.count, model.metrics) for model in models]
    fitted = [(count, found) for count, found in told if all(f"coefficient.{each.name}" in found for each in stated)]
    judged = [(count, found["equation_residual"]) for count, found in told if "equation_residual" in found]

    def coefficients(axis: Any) -> None:
        for each, marker in zip(stated, cycle("osD^v"), strict=False):
            one = each.value or max(abs(each.low), abs(each.high))
            shares = [found[f"coefficient.{each.name}"] / one for _, found in fitted]
            label = each.name if each.value else f"{each.name} by {quantity(one, each.unit)}"
            axis.plot([count for count, _ in fitted], shares, f"{marker}-", mfc="none", label=label)
        axis.axhline(1.0, color=INK, linestyle=":", label="as stated")
        _by_results(axis, "coefficient by its stated value")

    def residual(axis: Any) -> None:
        axis.plot(*zip(*judged, strict=True), "o-", color=BEST, label="left by the fields")
        axis.axhline(DOUBTFUL, color=INK, linestyle=":", label="in doubt from here")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        _by_results(axis, "share of the equation's largest term")

    return [*([coefficients] if stated and fitted else []), *([residual] if judged else [])]


def _by_results(axis: Any, label: str) -> None:
    """Axes by the number of results that a model knows, and a legend that hides none of it."""
    axis.set(xlabel="results known", ylabel=label)
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)
    whole_numbers(axis)
