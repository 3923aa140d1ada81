"""Measurements by people, checked and stored: recorded in parts or whole, corrected, retracted; nothing is dropped."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.errors import FieldcraftError, InputError, at
from fieldcraft.flows.files.field_files import read_field
from fieldcraft.flows.files.field_outputs import require_readings, require_units
from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.jobs.keys import attempt_keys
from fieldcraft.flows.results.as_run import design_sent, field_labels, run_design, said_to_be_run
from fieldcraft.flows.results.parts import completes, known_text, outputs_text, require_agreement, withdrawn
from fieldcraft.flows.results.superseded import superseded_text
from fieldcraft.flows.results.unusual import unusual
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.flows.text import quoted, remark
from fieldcraft.flows.wiring.build import recorded
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.fit.derived import completed, require_measured
from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.space import Design
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger, StaleTrial, UnknownTrial
from fieldcraft.storage.ledger.standing import standing_parts
from fieldcraft.storage.limits import LARGEST
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import FieldRef, Result, Trial, TrialState, canonical

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")
_TRIES = 50  # a pass may move the trial between a look and the write, and each person record a part


class NotYet(FieldcraftError):
    """The trial is claimed and not yet known to be sent; only a pass can tell."""


@dataclass(frozen=True)
class CheckedMeasurement:
    """A submitted measurement that passed the checks.

    Args:
        measurement: The measurement as submitted.
        attempt: Number of the attempt it belongs to.
        values: Outputs in their units; from the field where no values were given.
        said: Variables of the design as run that it gives.
        dataset: The field, while it is not stored.
        warnings: Unusual values that are kept all the same.
        field: The stored field.
    """

    measurement: Measurement
    attempt: int
    values: Mapping[str, float]
    said: Design
    dataset: "xr.Dataset | None"
    warnings: tuple[str, ...]
    field: FieldRef | None = None


@dataclass(frozen=True)
class Recorded:
    """Outcome of recording a measurement.

    Args:
        trial: Trial id.
        state: The trial's state now.
        verdict: The ledger's verdict.
        result: Number of the stored result; None when nothing new was stored.
        missing: Outputs that are still needed.
        text: The outcome in one line.
        warnings: Unusual values that were kept all the same.
    """

    trial: str
    state: TrialState
    verdict: str
    result: int | None
    missing: tuple[str, ...]
    text: str
    warnings: tuple[str, ...] = ()


def site_for(settings: Settings, name: str) -> Site:
    """A campaign with its stores, for recording by a person; its algorithm is not built."""
    ledger = open_ledger(settings.ledger)
    campaign = recorded(ledger.campaign(name), settings, algorithm=False)
    return Site(campaign, ledger, fields_at(settings.fields))


def known_trial(ledger: Ledger, trial_id: str) -> Trial:
    """The trial of that id.

    Raises:
        InputError: there is none; names the nearest.
    """
    try:
        return _trial(ledger, trial_id)
    except UnknownTrial:
        known = [trial.id for campaign in ledger.campaigns() for trial in ledger.trials(campaign.name)]
        raise InputError(
            f"No trial {quoted(trial_id)} here.{suggestion(trial_id, known)} 'fieldcraft status' lists the campaigns; "
            "nothing was recorded."
        ) from None


def attempt_named(ledger: Ledger, word: str) -> tuple[str, str | None]:
    """Trial id, and the attempt's key if the word is the key of a work order (``heat-0007-2``)."""
    owner, _, digits = word.rpartition("-")
    try:
        _trial(ledger, word)
    except UnknownTrial:
        if digits.isdecimal() and owner:
            with suppress(UnknownTrial):
                return _trial(ledger, owner).id, word
    return word, None


def _trial(ledger: Ledger, trial_id: str) -> Trial:
    if not trial_id.isprintable():  # a ledger cannot even be asked for some of these
        raise UnknownTrial(f"No trial has the id {quoted(trial_id)}.")
    return ledger.trial(trial_id)


def check(site: Site, measurement: Measurement) -> CheckedMeasurement:
    """Check a submitted measurement; writes nothing.

    Raises:
        InputError: the trial is unknown or was never sent, or a value, a unit, a name or a file is wrong.
        NotYet: the trial is still being sent; record it once a pass has confirmed that.
    """
    trial, where = known_trial(site.ledger, measurement.trial), _where(measurement)
    if trial.campaign != site.name:
        raise InputError(
            f"{where}{trial.id} is a trial of {trial.campaign!r}, not of {site.name!r}. Nothing was recorded."
        )
    checked = _sound(site, trial, measurement, _attempt(trial, measurement, where))
    results = site.ledger.results(trial.id)
    if not checked.values:
        raise InputError(
            f"{where}{trial.id}: no value was given. Known outputs: {_known(site.campaign)}."
            f"{known_text(site.campaign, trial, checked.attempt, results)}"
        )
    require_agreement(site.campaign, trial, checked.attempt, results, checked.values, where)
    return checked


def check_correction(site: Site, measurement: Measurement) -> CheckedMeasurement:
    """Check a submitted correction; writes nothing.

    Raises:
        InputError: nothing is corrected, the trial is unknown, or a value, a name or a file is wrong.
    """
    trial = known_trial(site.ledger, measurement.trial)
    counting = standing(site.ledger.results(trial.id)).get(trial.id)
    checked = _sound(site, trial, measurement, counting.attempt if counting else trial.attempt)
    amounts = (measurement.cost, measurement.seconds)
    if not (checked.values or measurement.sd or measurement.ran) and amounts == (None, None):
        raise InputError(
            f"{measurement.trial}: nothing to correct. Give another value, standard deviation, variable as run, field, "
            "cost or wall time (--value, --sd, --ran, --field, --cost, --seconds)."
        )
    return checked


def _where(measurement: Measurement) -> str:
    return f"{measurement.place}: " if measurement.place else ""


def _sound(site: Site, trial: Trial, measurement: Measurement, attempt: int) -> CheckedMeasurement:
    where = _where(measurement)
    remark(measurement.note, "note")
    sent = design_sent(site.ledger, trial, attempt)
    said = said_to_be_run(site.campaign, trial, sent, measurement, where)
    ran = run_design(site.campaign, trial, sent, site.ledger.results(trial.id), attempt, said)
    dataset = None if measurement.field is None else read_field(measurement.field)
    if dataset is not None:
        with at(f"{where}{trial.id}"):
            require_units(site.campaign.problem, dataset)
            require_readings(site.campaign.problem, dataset)
    values = _values(site.campaign, measurement.values, f"{where}{trial.id}", "value")
    _values(site.campaign, measurement.sd, f"{where}{trial.id}", "standard deviation")
    amounts = {"cost": measurement.cost, "seconds": measurement.seconds}
    amounts |= {f"the standard deviation of {name}": sd for name, sd in measurement.sd.items()}
    for name, amount in amounts.items():
        if amount is not None and not 0 <= amount <= LARGEST:
            raise InputError(f"{where}{trial.id}: {name} is {amount}. Give a number from 0 to {LARGEST:g}.")
    if dataset is not None and not values:
        values = _evaluated(site.campaign, trial, ran, dataset, where)
    completed(site.campaign, values, ran or sent, f"{where}{trial.id}")  # refuses one that has no number
    warnings = unusual(site, trial, ran if said else None, values, where)
    return CheckedMeasurement(measurement, attempt, values, said, dataset, warnings)


def _attempt(trial: Trial, measurement: Measurement, where: str) -> int:
    """Number of the attempt that a measurement belongs to."""
    if trial.attempt == 0:
        if trial.state is TrialState.COMPLETED:
            remedy = "'fieldcraft correct' changes an imported measurement."
        elif trial.state is TrialState.APPROVED:
            remedy = "The next pass sends it: 'fieldcraft iterate' makes one, as does ask in Python."
        else:
            way = ", which is final:" if trial.state is TrialState.REJECTED else ": approve it, let a pass send it, or"
            remedy = f"It is {trial.state}{way} import the measurement."
        raise InputError(f"{where}{trial.id} was never sent, so it can have no result. {remedy}")
    attempt = trial.attempt
    if measurement.key is not None:
        keys = attempt_keys(trial)
        if measurement.key not in keys:
            raise InputError(
                f"{where}{quoted(measurement.key)} is no order of {trial.id} (the last is {keys[-1]}). Take the key "
                "from the work order, or leave it out."
            )
        attempt = 1 + keys.index(measurement.key)
    if trial.state is TrialState.STAGED and attempt == trial.attempt:
        raise NotYet(
            f"{where}{trial.id} is STAGED: a pass has still to say whether it was sent. Make a pass ('fieldcraft "
            f"iterate {trial.campaign}'), then record it."
        )
    return attempt


def _values(campaign: Campaign, given: Mapping[str, float], where: str, what: str) -> dict[str, float]:
    known = [output.name for output in campaign.problem.measured]
    for name, value in given.items():
        require_measured(campaign, name, f"{where}: ")
        if name not in known:
            raise InputError(
                f"{where}: {what} of {quoted(name)}, which is no output.{suggestion(name, known)} Known: "
                f"{_known(campaign)}."
            )
        if not math.isfinite(value):
            raise InputError(f"{where}: {what} of {name} is {value}. Give a finite number, or leave it out.")
    return {name: float(value) for name, value in given.items()}


def _known(campaign: Campaign) -> str:
    return ", ".join(f"{output.name} [{output.unit or '-'}]" for output in campaign.problem.measured)


def _evaluated(
    campaign: Campaign, trial: Trial, ran: Design | None, dataset: "xr.Dataset", where: str
) -> dict[str, float]:
    try:
        found = numbers_given(campaign.problem.evaluate(ran or trial.design, dataset), campaign.problem.measured)
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        raise InputError(
            f"{where}{trial.id}: problem {campaign.spec.problem.kind!r} cannot read its outputs from the field: "
            f"{type(error).__name__}: {str(error).removesuffix('.')}. Give the values as well."
        ) from error
    return _values(campaign, found, f"{where}{trial.id}", "value")


def record(site: Site, checked: CheckedMeasurement, by: str, source: str) -> Recorded:
    """Store a measurement: it completes the trial, or is kept as a part while outputs are missing; the ledger decides.

    Args:
        site: The campaign.
        checked: The checked measurement, from ``check``.
        by: Person who records.
        source: Source of the measurement.
    """
    ready = kept(site, checked)
    return persistently(lambda: _record(site, ready, by, source))


def kept(site: Site, checked: CheckedMeasurement) -> CheckedMeasurement:
    """The measurement with its field written to the field store; no result refers to that field yet."""
    if checked.dataset is None:
        return checked
    trial = site.ledger.trial(checked.measurement.trial)
    told = {name: str(value) for name, value in checked.measurement.ran.items()}
    labels = field_labels(trial.design, site.name, trial.id) | ({"ran": canonical(told)} if told else {})
    stored = site.fields.write(trial.id, checked.dataset, labels)
    return dataclasses.replace(checked, dataset=None, field=stored)


def persistently(write: Callable[[], T]) -> T:
    """Call ``write`` and return its value; retry on ``StaleTrial``, at most 50 calls in all."""
    for _ in range(_TRIES - 1):
        try:
            return write()
        except StaleTrial:
            continue
    return write()


def _record(site: Site, checked: CheckedMeasurement, by: str, source: str) -> Recorded:
    trial, measurement = site.ledger.trial(checked.measurement.trial), checked.measurement
    results = [result for result in site.ledger.results(trial.id) if result.attempt == checked.attempt]
    require_agreement(site.campaign, trial, checked.attempt, results, checked.values, _where(measurement))
    if gone := withdrawn(trial, checked.attempt, results, checked.values, measurement.place):
        return _rest(site, checked, gone, by, source)
    parts = standing_parts(results, checked.attempt)
    whole = trial.state is TrialState.COMPLETED
    known = (trial.outputs if whole else parts[-1].outputs if parts else None) or {}
    missing = tuple(o.name for o in site.campaign.problem.measured if o.name not in {**known, **checked.values})
    agrees = checked.values.items() <= known.items()
    outputs = {**known, **checked.values} if agrees or not whole else checked.values
    field = checked.field or (trial.field if whole and agrees else _last(parts, lambda part: part.field))
    sent = design_sent(site.ledger, trial, checked.attempt)
    ran = run_design(site.campaign, trial, sent, results, checked.attempt, checked.said)
    if not missing:
        outputs = completed(site.campaign, outputs, ran or sent, trial.id)
    completing = completes(trial, checked.attempt)
    alike = parts[-1:] if completing else [r for r in results if r.verdict != "retraction"]
    same = [r for r in alike if (r.outputs, r.field, r.ran or sent) == (outputs, field, ran or trial.design)]
    if same and not _adds(measurement, parts if completing else same if whole else results):
        repeats = trial.outputs == outputs or (missing and not whole)
        return _said(site, trial, "duplicate" if repeats else "superseded", None, missing, checked.warnings)
    done, result = site.ledger.record(
        trial.id,
        trial.expect,
        outputs,
        field,
        by,
        source,
        _details(measurement, parts),
        checked.attempt,
        ran,
        _last(parts, lambda part: part.details.get("cost"), measurement.cost),
        _last(parts, lambda part: part.details.get("seconds"), measurement.seconds),
        bool(missing),
    )
    return _said(site, done, result.verdict, result.id, missing, checked.warnings)


def _rest(site: Site, checked: CheckedMeasurement, gone: set[str], by: str, source: str) -> Recorded:
    """Record what a line gives beside outputs that it gave before and that were withdrawn."""
    values, sd = ({n: v for n, v in of.items() if n not in gone} for of in (checked.values, checked.measurement.sd))
    trial = site.ledger.trial(checked.measurement.trial)
    told = (
        f"{trial.id}: {', '.join(sorted(gone))} of this line was withdrawn; give it by 'fieldcraft record' or the desk."
    )
    if not values:
        return Recorded(trial.id, trial.state, "duplicate", None, (), told, checked.warnings)
    rest = dataclasses.replace(checked.measurement, values=values, sd=sd)
    left = dataclasses.replace(checked, measurement=rest, values=values, warnings=(*checked.warnings, told))
    return _record(site, left, by, source)


def _adds(measurement: Measurement, same: Sequence[Result]) -> bool:
    """True if a measurement has anything beside its values that none of these results has."""
    given = {name: getattr(measurement, name) for name in ("note", "cost", "seconds")}
    given |= {"columns": dict(measurement.more)}
    sd = {name: value for result in same for name, value in result.details.get("sd", {}).items()}
    return any(sd.get(name) != value for name, value in measurement.sd.items()) or any(
        value not in (None, "", {}) and all(result.details.get(name) != value for result in same)
        for name, value in given.items()
    )


def _last(parts: Sequence[Result], what: Callable[[Result], Any], given: Any = None) -> Any:
    """The given value, else that of the last part that has one."""
    said = [value for part in parts if (value := what(part)) is not None]
    return given if given is not None else next(reversed(said), None)


def _details(measurement: Measurement, parts: Sequence[Result]) -> dict[str, Any]:
    """Details kept beside the values: uncertainties of all parts together, remarks, and the numbers of the parts."""
    sd = {name: value for part in parts for name, value in part.details.get("sd", {}).items()} | dict(measurement.sd)
    kept = {
        "sd": sd,
        "note": measurement.note,
        "cost": measurement.cost,
        "seconds": measurement.seconds,
        "place": measurement.place,
        "columns": dict(measurement.more),
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
        case "duplicate" if result is not None:
            text = f"{trial.id}: the values of before; it is {trial.state}, and what is new beside them is kept."
        case "duplicate":
            text = f"{trial.id}: a duplicate; it is {trial.state} with these values already, nothing was changed."
        case _:
            text = superseded_text(trial, counts)
    return Recorded(trial.id, trial.state, verdict, result, missing, text, warnings)
