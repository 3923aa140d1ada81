"""``fieldcraft retarget``: a new target over the stored fields of another campaign, without a simulation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.analysis.learnt import counting
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_outputs import require_units
from fieldcraft.flows.results.adopt import adopt
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import quoted
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.campaign_file import read
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.fit.derived import completed
from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.space import SpaceError
from fieldcraft.storage.fields import FieldDamaged, FieldStore, fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import FieldRef, Known, Trial, digest_of

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Retargeted:
    """Result of reading fields anew.

    Args:
        campaign: Name of the campaign with the new target.
        source: Name of the campaign whose fields were read.
        trials: Its new trials, by number; none if all fields had been read before.
        left: Reason why a trial of the source was left out, by its id.
    """

    campaign: str
    source: str
    trials: tuple[str, ...]
    left: Mapping[str, str]


def retarget(settings: Settings, source: str, file: Path, by: str) -> Retargeted:
    """Read the outputs of a campaign's problem from the fields of another, and adopt them as completed trials.

    The campaign of the file is created if it does not exist. Trials of the source that it has already are not read
    again. They cost nothing, count towards no limit and keep their fields.

    Args:
        settings: Settings of the stores.
        source: Campaign whose fields are read.
        file: Campaign file with the new target, over the same variables.
        by: Person who asks.

    Raises:
        InputError: there is no such campaign or it is that of the file, the variables differ, a field says nothing of
            the outputs, no trial has a field, or the campaign has ended. Nothing was adopted.
        storage.fields.FieldError: the store does not answer.
        storage.ledger.LeaseHeld: a pass is under way, which would propose without these results.
    """
    campaign = read(file, settings)
    ledger = open_ledger(settings.ledger, create=True)
    known = {each.name: each for each in ledger.campaigns()}
    if source not in known or source == campaign.name:
        others = ", ".join(name for name in known if name != campaign.name)
        raise InputError(f"{quoted(source)} is no other campaign of the ledger. Known: {others or 'none'}.")
    units = dict(known[source].environment["units"])
    if units != campaign.problem.space.units:
        raise InputError(
            f"{file}: the variables are {_told(campaign.problem.space.units)}, and those of {source} are "
            f"{_told(units)}. A new target reads the fields of the same designs: let them agree."
        )
    before = _adopted(ledger, campaign.name) if campaign.name in known else frozenset()
    left: dict[str, str] = {}
    found = list(_read(campaign, ledger, fields_at(settings.fields), source, before, left))
    if not found and not before:
        first = (f"{trial}: {reason.removesuffix('.')}" for trial, reason in list(left.items())[:3])
        reasons = "; ".join(first) or "it has no trial"
        raise InputError(f"No field of {source} can be read anew: {reasons}.")
    ended = created(ledger, campaign, file)
    if not found:
        return Retargeted(campaign.name, source, (), left)
    digest = digest_of([one.model_dump(mode="json") for one in found])
    trials = adopt(ledger, campaign.name, ended, found, digest, f"fields of {source}", by)
    return Retargeted(campaign.name, source, trials, left)


def _told(units: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({unit})" if unit else name for name, unit in units.items())


def _adopted(ledger: Ledger, name: str) -> frozenset[str]:
    """Trials of other campaigns whose fields were read before."""
    return frozenset(str(each.details["trial"]) for each in ledger.campaign_results(name) if "trial" in each.details)


def _read(
    campaign: Campaign, ledger: Ledger, fields: FieldStore, source: str, before: frozenset[str], left: dict[str, str]
) -> Iterator[Known]:
    """New results from the standing fields of a campaign; trials without one go to ``left`` with the reason."""
    results = counting(ledger.campaign_results(source))
    for trial in ledger.trials(source):
        if trial.id in before or trial.level is not None:
            continue
        result = results.get(trial.id)
        if result is None or result.field is None:
            left[trial.id] = "no result counts" if result is None else "its result has no field"
            continue
        try:
            campaign.space.check(trial.actual)
        except SpaceError as error:
            left[trial.id] = str(error)
            continue
        try:
            dataset = fields.read(result.field)
        except FieldDamaged as error:
            left[trial.id] = str(error)
            continue
        found = _known(campaign, trial, result.field, dataset)
        try:
            outputs = completed(campaign, found.outputs, trial.actual, trial.id)
        except InputError as error:
            left[trial.id] = str(error)
        else:
            yield found.model_copy(update={"outputs": outputs})


def _known(campaign: Campaign, trial: Trial, field: FieldRef, dataset: "xr.Dataset") -> Known:
    """One trial with the measured outputs that the new target reads from its field."""
    try:
        require_units(campaign.problem, dataset)
        outputs = numbers_given(campaign.problem.evaluate(trial.actual, dataset), campaign.problem.measured)
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        kind = "" if isinstance(error, ValueError | InputError) else f"{type(error).__name__}: "
        raise InputError(
            f"{trial.id}: problem {campaign.spec.problem.kind!r} cannot read its outputs from the field. "
            f"{kind}{str(error).removesuffix('.')}. Nothing was adopted."
        ) from error
    return Known(design=trial.actual, outputs=outputs, field=field, details={"trial": trial.id})
