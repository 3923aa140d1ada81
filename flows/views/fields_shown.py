"""Fields of a campaign that are drawn: that in which designs are places, and the best trial's as predicted."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.analysis.emulated_fields import Beside, beside
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.networks import network_at
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord, Trial


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
