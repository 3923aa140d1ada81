"""The field that a model predicted of a design as it proposed it, as it was stored then."""

from typing import Any

from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.plot import drawable
from fieldcraft.storage.fields import FieldError, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial


def predicted_field(settings: Settings, ledger: Ledger, trial: Trial) -> Any:
    """The first field (an ``xarray.DataArray``) that a trial's model predicted of its design.

    None where the model knew no field, where the store has lost it, and where the design is another than the model's:
    edited, or run otherwise.
    """
    if trial.origin.model is None or trial.revision > 1 or trial.ran is not None:
        return None
    chosen = ledger.product(trial.campaign, trial.origin.model.iteration, "acquire")
    if chosen is None or chosen.reference is None:
        return None
    try:
        return drawable(fields_at(settings.fields).read(chosen.reference).isel(slot=trial.origin.slot))
    except FieldError:  # the doctor tells of it
        return None
