"""Results of the earlier campaigns that a campaign's ``warm_start`` names, as their ledgers hold them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.analysis.existing import existing
from fieldcraft.flows.analysis.learnt import counting
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import WarmStart
from fieldcraft.flows.text import counted, quoted
from fieldcraft.flows.wiring.levels.results import of_target
from fieldcraft.flows.wiring.observations import as_read
from fieldcraft.models.data.earlier_results import MOST_EARLIER
from fieldcraft.physics.space import SpaceError
from fieldcraft.storage.ledger import Ledger, LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign


@dataclass(frozen=True, eq=False)
class SourceResults:
    """Results of one earlier campaign.

    Args:
        X: Designs, encoded by the new campaign's space, shape (n, d), n >= 1.
        Y: Outputs of the new campaign in their order and units, shape (n, outputs).
        until: Id of the latest result that was read.
        outside: Number of results whose designs the new campaign's space does not have, or in which other variables
            exist; they are left out.
    """

    X: np.ndarray
    Y: np.ndarray
    until: int
    outside: int


def read_source(campaign: "Campaign", source: WarmStart, until: int | None = None) -> SourceResults:
    """Read the results of an earlier campaign that count, by number.

    Args:
        campaign: The new campaign.
        source: The earlier one.
        until: Id of the latest result to read; None for all that there are.

    Raises:
        InputError: there is no such campaign, its variables or outputs are others, it has no result in the new space,
            or too many.
    """
    place, ledger = f"warm_start: campaign {quoted(source.campaign)}", _ledger(campaign.settings, source)
    record = _record(campaign, source, ledger, place)
    _require_same(campaign, record, place)
    results = [each for each in ledger.result_summaries(source.campaign) if until is None or each.id <= until]
    read = as_read(of_target(ledger.summaries(source.campaign)), counting(results))
    space, names = campaign.space, (*campaign.objective.outputs, *campaign.objective.constraints)
    inside = [trial for trial in read if trial.outputs is not None and _inside(campaign, record, dict(trial.actual))]
    if not inside:
        raise InputError(
            f"{place} has {len(read)} results, and none of a design in the space of {campaign.name!r}. Name another, "
            "or wait for its first."
        )
    if len(inside) > MOST_EARLIER:
        raise InputError(f"{place} has {len(inside)} results, and {MOST_EARLIER} can be read. Leave it out.")
    return SourceResults(
        X=space.encode([trial.actual for trial in inside]),
        Y=np.array([[(trial.outputs or {})[name] for name in names] for trial in inside], dtype=np.float64),
        until=max((each.id for each in results), default=0),
        outside=len(read) - len(inside),
    )


def require_earlier(campaign: "Campaign") -> None:
    """Accept the earlier campaigns of a file; once their results are kept, they are not asked for any more.

    Raises:
        InputError: as ``read_source``.
    """
    if campaign.spec.warm_start and not _kept(campaign):
        for source in campaign.spec.warm_start:
            read_source(campaign, source)


def told(campaign: "Campaign") -> str | None:
    """The earlier campaigns, with the number of their results; None where there are none or they are kept."""
    if not campaign.spec.warm_start or _kept(campaign):
        return None
    found = [(source, read_source(campaign, source)) for source in campaign.spec.warm_start]
    said = [
        f"{counted(len(results.X), 'result')} of campaign {source.campaign!r}"
        + (f" ({results.outside} of designs outside the space are left out)" if results.outside else "")
        for source, results in found
    ]
    return f"it begins with {' and '.join(said)}."


def _kept(campaign: "Campaign") -> bool:
    try:
        ledger = open_ledger(campaign.settings.ledger, upgrade=False)
    except LedgerError:
        return False
    if campaign.name not in {each.name for each in ledger.campaigns()}:
        return False
    return ledger.product(campaign.name, 0, "warm_start") is not None


def _ledger(settings: Settings, source: WarmStart) -> Ledger:
    try:
        place = settings.ledger if source.home is None else _within(settings.records, source.home)
        return open_ledger(place, upgrade=False)
    except LedgerError as error:
        raise InputError(f"warm_start: the ledger of campaign {quoted(source.campaign)}: {error}") from None


def _within(folder: Path | None, home: str) -> Path:
    """Place of the ledger of a home in the folder of records."""
    if folder is None:
        raise InputError(
            f"warm_start.home: {quoted(home)} is given, and the operator names no folder of records. Ask for "
            "FIELDCRAFT_RECORDS to be set."
        )
    try:
        file = (folder / home / "ledger.sqlite").resolve()
        inside = file.is_relative_to(folder.resolve()) and file.parent.is_dir()
    except (OSError, ValueError, RuntimeError):  # a name that no disk takes, or a link to itself
        inside = False
    if not inside:
        raise InputError(
            f"warm_start.home: {quoted(home)} is no folder in {folder}, which FIELDCRAFT_RECORDS names. Put the other "
            "home there."
        )
    return file


def _record(campaign: "Campaign", source: WarmStart, ledger: Ledger, place: str) -> CampaignRecord:
    if source.home is None and source.campaign == campaign.name:
        raise InputError(f"{place} is this campaign itself. Name an earlier one.")
    known = {each.name: each for each in ledger.campaigns()}
    if source.campaign not in known:
        raise InputError(f"{place} is not in its ledger. Known: {', '.join(known) or 'none'}.")
    return known[source.campaign]


def _require_same(campaign: "Campaign", record: CampaignRecord, place: str) -> None:
    """Accept an earlier campaign of the same variables, and with all outputs of this one, in the same units."""
    units, theirs = dict(campaign.problem.space.units), dict(record.environment["units"])
    if units != theirs:
        raise InputError(
            f"{place} has the variables {_in_units(theirs)}, and this one has {_in_units(units)}. Both must have the "
            "same, in the same units."
        )
    outputs = {output["name"]: output["unit"] for output in record.environment["outputs"]}
    formulas = {output["name"]: output.get("formula") for output in record.environment["outputs"]}
    for output in campaign.problem.outputs:
        if output.plain:
            continue
        own = None if output.formula is None else str(output.formula)
        if output.name in outputs and formulas[output.name] != own:
            raise InputError(
                f"{place} has the output {output.name!r} {_computed(formulas[output.name])}, and this one has it "
                f"{_computed(own)}. Both must have the same."
            )
        if outputs.get(output.name) != output.unit:
            raise InputError(
                f"{place} has the outputs {_in_units(outputs)}, and this one reads "
                f"{_in_units({output.name: output.unit})}. Let both agree in names and units."
            )


def _computed(formula: str | None) -> str:
    return "as it was measured" if formula is None else f"computed ({formula})"


def _in_units(units: dict[str, str]) -> str:
    return ", ".join(f"{name} ({unit})" if unit else name for name, unit in units.items())


def _inside(campaign: "Campaign", record: CampaignRecord, design: dict[str, float | str]) -> bool:
    """True if a design is in the new space, and its variables were measured and still are such as exist in it."""
    try:
        campaign.space.check(design)
    except SpaceError:
        return False
    here, there = set(campaign.space.folds.existing(design)), set(existing(record, design))
    return here <= there and not (there - here).intersection(record.environment.get("only_if", {}))
