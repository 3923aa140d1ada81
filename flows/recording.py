"""What people measured, judged and kept: recorded, in parts or whole, corrected, retracted. Nothing is ever dropped."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from flows.dispatching import attempt_key
from flows.errors import FieldcraftError, InputError
from flows.fieldfiles import read_field
from flows.plugins import suggestion
from flows.remarks import remark
from flows.settings import Settings
from flows.sites import Site
from flows.tables import Reading, differs
from flows.wiring import Campaign, rewire
from physics.space import Design, SpaceError
from storage.fields import FieldStore
from storage.ledger import Ledger, StaleTrial, UnknownTrial, open_ledger
from storage.records import FieldRef, Result, Trial, TrialState

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")
_TRIES = 5  # a pass or another person may move the trial between a look and the write


class NotYet(FieldcraftError):
    """The trial is between being claimed and being sent: only a pass can say whether it was sent."""


@dataclass(frozen=True)
class Finding:
    """A reading that was found to make sense.

    Args:
        reading: What was handed in.
        attempt: Which attempt it belongs to.
        values: Outputs in their units; from the field where no values were given.
        ran: The whole design that was run; None where it is the one asked for.
        dataset: The field.
        warnings: What is unusual and kept all the same.
    """

    reading: Reading
    attempt: int
    values: Mapping[str, float]
    ran: Design | None
    dataset: "xr.Dataset | None"
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Recorded:
    """What became of a reading.

    Args:
        trial: Trial id.
        state: The trial's state now.
        verdict: The ledger's.
        result: Number of the stored result; None when nothing new was stored.
        missing: Outputs that are still needed.
        text: All this in one line.
        warnings: What is unusual and was kept all the same.
    """

    trial: str
    state: TrialState
    verdict: str
    result: int | None
    missing: tuple[str, ...]
    text: str
    warnings: tuple[str, ...] = ()


def site_for(settings: Settings, name: str) -> Site:
    """A campaign with its stores, to be written to by a person; its algorithm is not built."""
    ledger = open_ledger(settings.ledger)
    campaign = rewire(ledger.campaign(name).spec, settings, algorithm=False)
    return Site(campaign, ledger, FieldStore(settings.fields))


def known_trial(ledger: Ledger, trial_id: str) -> Trial:
    """The trial of that id.

    Raises:
        InputError: there is none; names the nearest.
    """
    try:
        return ledger.trial(trial_id)
    except UnknownTrial:
        known = [trial.id for campaign in ledger.campaigns() for trial in ledger.trials(campaign.name)]
        raise InputError(
            f"No trial {trial_id!r} here.{suggestion(trial_id, known)} 'fieldcraft status' lists the campaigns; "
            "nothing was recorded."
        ) from None


def attempt_named(ledger: Ledger, word: str) -> tuple[str, str | None]:
    """Trial id, and the attempt's key where the word is the key of a work order (``heat-0007-2``)."""
    owner, _, digits = word.rpartition("-")
    try:
        ledger.trial(word)
    except UnknownTrial:
        if digits.isdecimal() and owner:
            with suppress(UnknownTrial):
                return ledger.trial(owner).id, word
    return word, None


def check(site: Site, reading: Reading) -> Finding:
    """What a new reading says, found to make sense; writes nothing.

    Raises:
        InputError: the trial is unknown or was never sent, or a value, a unit, a name or a file is wrong.
        NotYet: the trial is only being sent; record it once a pass has said so.
    """
    trial, where = known_trial(site.ledger, reading.trial), _where(reading)
    if trial.campaign != site.name:
        raise InputError(
            f"{where}{trial.id} is a trial of {trial.campaign!r}, not of {site.name!r}. Nothing was recorded."
        )
    finding = _sound(site, trial, reading, _attempt(trial, reading, where))
    if not finding.values:
        raise InputError(f"{where}{trial.id}: no value was given. Known outputs: {_known(site.campaign)}.")
    return finding


def check_correction(site: Site, reading: Reading) -> Finding:
    """What a correction says, found to make sense; writes nothing.

    Raises:
        InputError: nothing is corrected, the trial is unknown, or a value, a name or a file is wrong.
    """
    finding = _sound(site, known_trial(site.ledger, reading.trial), reading, 0)
    if not (finding.values or reading.ran):
        raise InputError(f"{reading.trial}: nothing to correct. Give --value, --ran or --field.")
    return finding


def _where(reading: Reading) -> str:
    return f"{reading.place}: " if reading.place else ""


def _sound(site: Site, trial: Trial, reading: Reading, attempt: int) -> Finding:
    where = _where(reading)
    remark(reading.note, "note")
    ran, warnings = _ran(site.campaign, trial, reading, where)
    dataset = None if reading.field is None else read_field(reading.field)
    values = _values(site.campaign, reading.values, f"{where}{trial.id}", "value")
    _values(site.campaign, reading.sd, f"{where}{trial.id}", "standard deviation")
    amounts = {"cost": reading.cost, "seconds": reading.seconds}
    amounts |= {f"the standard deviation of {name}": sd for name, sd in reading.sd.items()}
    for name, amount in amounts.items():
        if amount is not None and not 0 <= amount < math.inf:
            raise InputError(f"{where}{trial.id}: {name} is {amount}. Give a finite number that is not negative.")
    if dataset is not None and not values:
        values = _evaluated(site.campaign, trial, ran, dataset, where)
    return Finding(reading, attempt, values, ran, dataset, warnings)


def _attempt(trial: Trial, reading: Reading, where: str) -> int:
    """The attempt a reading belongs to."""
    if trial.attempt == 0:
        if trial.state is TrialState.COMPLETED:
            remedy = "'fieldcraft correct' changes an imported measurement."
        else:
            remedy = f"It is {trial.state}: approve it and let a pass send it, or import the measurement."
        raise InputError(f"{where}{trial.id} was never sent, so it can have no result. {remedy}")
    attempt = trial.attempt
    if reading.key is not None:
        owner, _, digits = reading.key.rpartition("-")
        if owner != trial.id or not digits.isdecimal() or not 1 <= int(digits) <= trial.attempt:
            raise InputError(
                f"{where}{reading.key!r} is no order of {trial.id} (the last is {attempt_key(trial)}). Take the key "
                "from the work order, or leave it out."
            )
        attempt = int(digits)
    if trial.state is TrialState.STAGED and attempt == trial.attempt:
        raise NotYet(
            f"{where}{trial.id} is STAGED: a pass has still to say whether it was sent. Make a pass ('fieldcraft "
            f"iterate {trial.campaign}'), then record it."
        )
    return attempt


def _values(campaign: Campaign, given: Mapping[str, float], where: str, what: str) -> dict[str, float]:
    known = [output.name for output in campaign.problem.outputs]
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{where}: {what} of {name!r}, which is no output.{suggestion(name, known)} Known: {_known(campaign)}."
            )
        if not math.isfinite(value):
            raise InputError(f"{where}: {what} of {name} is {value}. Give a finite number, or leave it out.")
    return {name: float(value) for name, value in given.items()}


def _known(campaign: Campaign) -> str:
    return ", ".join(f"{output.name} [{output.unit or '-'}]" for output in campaign.problem.outputs)


def _ran(
    campaign: Campaign, trial: Trial, reading: Reading, where: str
) -> tuple[dict[str, float | int | str] | None, tuple[str, ...]]:
    """The design that was really run where it differed, and a warning where it lies outside the space."""
    variables = {variable.name: variable for variable in campaign.problem.space.variables}
    for name in reading.ran:
        if name not in variables:
            raise InputError(
                f"{where}{trial.id}: {name!r} is no variable.{suggestion(name, variables)} Known: "
                f"{', '.join(variables)}."
            )
    changed = {n: v for n, v in reading.ran.items() if differs(variables[n], trial.design[n], v)}
    if not changed:
        return None, ()
    ran = {**trial.design, **changed}
    try:
        campaign.space.encode([ran])
    except SpaceError as error:
        raise InputError(f"{where}{trial.id}: {error}") from None
    try:
        campaign.space.check(ran)
    except SpaceError as error:
        return ran, (f"{trial.id}: what was run lies outside the campaign's space and is kept as it is: {error}",)
    return ran, ()


def _evaluated(
    campaign: Campaign, trial: Trial, ran: Design | None, dataset: "xr.Dataset", where: str
) -> dict[str, float]:
    try:
        found = campaign.problem.evaluate(trial.design if ran is None else ran, dataset)
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        raise InputError(
            f"{where}{trial.id}: problem {campaign.spec.problem.kind!r} cannot read its outputs from the field: "
            f"{type(error).__name__}: {error}. Give the values as well."
        ) from error
    return _values(campaign, {name: float(value) for name, value in found.items()}, f"{where}{trial.id}", "value")


def record(site: Site, finding: Finding, by: str, source: str) -> Recorded:
    """Store a reading: completed where it is whole, kept as a part where outputs are missing, judged by the ledger.

    Args:
        site: The campaign.
        finding: What ``check`` made of the reading.
        by: Who records.
        source: Where it came from.
    """
    stored = None if finding.dataset is None else site.fields.write(finding.reading.trial, finding.dataset)
    return persistently(lambda: _record(site, finding, stored, by, source))


def persistently(write: Callable[[], T]) -> T:
    """What ``write`` returns, done again from its first look where somebody moved the trial in between."""
    for _ in range(_TRIES - 1):
        try:
            return write()
        except StaleTrial:
            continue
    return write()


def _record(site: Site, finding: Finding, stored: FieldRef | None, by: str, source: str) -> Recorded:
    trial, reading = site.ledger.trial(finding.reading.trial), finding.reading
    parts = [
        result
        for result in site.ledger.results(trial.id)
        if result.verdict == "partial" and result.attempt == finding.attempt
    ]
    whole = trial.state is TrialState.COMPLETED
    known = trial.outputs or {} if whole else {name: v for part in parts for name, v in part.outputs.items()}
    field = trial.field if whole else _last(parts, lambda part: part.field)
    ran = trial.ran if whole else _last(parts, lambda part: part.ran)
    missing = [o.name for o in site.campaign.problem.outputs if o.name not in {**known, **finding.values}]
    news = stored not in (None, field) or finding.ran not in (None, ran) or finding.values.items() - known.items()
    if not news and (missing or len(finding.values) < len(known)):
        return _said(site, trial, "duplicate", None, tuple(missing), finding.warnings)
    outputs = {**({} if whole else known), **finding.values}
    done, result = site.ledger.record(
        trial.id,
        trial.expect,
        outputs,
        stored or _last(parts, lambda part: part.field),
        by,
        source,
        _details(reading, parts),
        finding.attempt,
        finding.ran or _last(parts, lambda part: part.ran),
        _last(parts, lambda part: part.details.get("cost"), reading.cost),
        _last(parts, lambda part: part.details.get("seconds"), reading.seconds),
        bool(missing),
    )
    return _said(site, done, result.verdict, result.id, tuple(missing), finding.warnings)


def _last(parts: Sequence[Result], what: Callable[[Result], Any], given: Any = None) -> Any:
    """What was given, else what the last of the parts says that says it."""
    said = [value for part in parts if (value := what(part)) is not None]
    return given if given is not None else next(reversed(said), None)


def _details(reading: Reading, parts: Sequence[Result]) -> dict[str, Any]:
    """What is kept beside the values: uncertainties of all parts together, remarks, and the numbers of the parts."""
    sd = {name: value for part in parts for name, value in part.details.get("sd", {}).items()} | dict(reading.sd)
    kept = {
        "sd": sd,
        "note": reading.note,
        "cost": reading.cost,
        "seconds": reading.seconds,
        "place": reading.place,
        "columns": dict(reading.more),
        "parts": [part.id for part in parts],
    }
    return {name: value for name, value in kept.items() if value not in (None, "", {}, [])}


def _said(
    site: Site, trial: Trial, verdict: str, result: int | None, missing: tuple[str, ...], warnings: tuple[str, ...]
) -> Recorded:
    counts = outputs_text(site.campaign, trial.outputs or {})
    match verdict:
        case "accepted":
            text = f"{trial.id}: recorded, {counts}; it is {trial.state}."
        case "partial":
            text = f"{trial.id}: kept as a part; still missing: {', '.join(missing)}."
        case "duplicate" if missing:
            text = f"{trial.id}: nothing new; still missing: {', '.join(missing)}."
        case "duplicate":
            text = f"{trial.id}: a duplicate; it is {trial.state} with these values already, nothing was changed."
        case _:
            remedy = "; 'fieldcraft correct' changes that" if trial.state is TrialState.COMPLETED else ""
            text = f"{trial.id}: kept as superseded; it is {trial.state} ({counts or 'no value'} counts{remedy})."
    return Recorded(trial.id, trial.state, verdict, result, missing, text, warnings)


def outputs_text(campaign: Campaign, outputs: Mapping[str, float]) -> str:
    """``value 3.2 K, g1 -0.1``: outputs in the problem's order, with units."""
    known = [output for output in campaign.problem.outputs if output.name in outputs]
    return ", ".join(f"{o.name} {outputs[o.name]:.6g}{' ' * bool(o.unit)}{o.unit}" for o in known)
