"""One result as a person enters it, in words: at the command ``record`` or ``correct``, or in a form of the desk."""

from collections.abc import Mapping
from pathlib import Path

from fieldcraft.flows.files.tables import Measurement, level, number
from fieldcraft.flows.results.record import attempt_named, known_trial, site_for
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.open_ledger import open_ledger


def entered(
    settings: Settings,
    word: str,
    values: Mapping[str, str],
    sd: Mapping[str, str],
    ran: Mapping[str, str],
    field: Path | None,
    note: str,
    cost: float | None = None,
    seconds: float | None = None,
) -> tuple[Site, Measurement]:
    """The measurement that words describe, and the site of its trial's campaign; nothing of it is checked yet.

    Args:
        settings: Settings of the stores.
        word: Id of the trial, or the key of its work order.
        values: Outputs as text, in their units.
        sd: Their standard deviations, likewise.
        ran: Variables that were run otherwise than asked, as text.
        field: File of the field.
        note: Remarks.
        cost: Cost of the attempt, in budget units.
        seconds: Wall time of the attempt.

    Raises:
        InputError: the trial is unknown, or a text that must be a number is none.
    """
    ledger = open_ledger(settings.ledger)
    trial_id, key = attempt_named(ledger, word)
    site = site_for(settings, known_trial(ledger, trial_id).campaign)
    variables = {v.name: v for v in site.campaign.problem.space.variables}
    return site, Measurement(
        trial=trial_id,
        key=key,
        values={name: number(text, name) for name, text in values.items()},
        sd={name: number(text, f"sd of {name}") for name, text in sd.items()},
        ran={name: level(variables[name], text, name) if name in variables else text for name, text in ran.items()},
        field=field,
        cost=cost,
        seconds=seconds,
        note=note,
    )
