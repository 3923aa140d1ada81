"""``fieldcraft plot``: one picture of a campaign, from the ledger and the field store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.charts import new_figure, over_field, progress
from fieldcraft.flows.views.export import require_place
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord, Trial


def draw(settings: Settings, ledger: Ledger, campaign: CampaignRecord, file: Path) -> None:
    """Draw the best result by trial and, where designs are places in a field of two dimensions, the trials over it.

    Raises:
        InputError: the file's ending is not one of a picture, or its folder is not there.
    """
    require_place(file)
    trials = ledger.trials(campaign.name)
    field = field_of_places(settings, campaign, trials)
    panels = 1 if field is None else 2
    figure = new_figure(5.5 * panels, 4.4)
    ending = file.suffix.lstrip(".").lower()
    if ending not in figure.canvas.get_supported_filetypes():
        raise InputError(f"{file}: a picture cannot be written as {file.suffix!r}. Name a .png, .svg or .pdf file.")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    wired = rewire(campaign.spec, settings, algorithm=False)
    known = optimum_of(wired)
    optimum = None if known is None else known.value
    if field is not None:
        over_field(axes[0], campaign, trials, field, optimum)
    progress(axes[-1], campaign, trials, optimum)
    figure.suptitle(f"{campaign.name}: {wired.spec.algorithm.in_words}")
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
