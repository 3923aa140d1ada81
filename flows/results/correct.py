"""Corrections and retractions: a new result that names the old one, and the models trained on the old value.

A correction may also say what the attempt really cost and how long it took; the ledger charges the difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fieldcraft.flows.analysis.incomplete import known_outputs
from fieldcraft.flows.analysis.learnt import learnt_by, standing
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import Measurement
from fieldcraft.flows.products import Trained
from fieldcraft.flows.results.as_run import design_sent, run_design
from fieldcraft.flows.results.parts import completes
from fieldcraft.flows.results.record import CheckedMeasurement, kept, persistently
from fieldcraft.flows.text import FIGURES, level_text, one_line, remark
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.fit.derived import completed
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledger.standing import known_sds, standing_parts
from fieldcraft.storage.records import Level, Product, Result, Trial, TrialState


@dataclass(frozen=True)
class Corrected:
    """A correction or retraction, and what depended on the old value.

    Args:
        trial: Trial id.
        result: Number of the new result.
        replaces: Number of the old one.
        outputs: Outputs that count now; None after a retraction.
        models: Digest of each model that was trained on the old value, by its iteration.
        proposals: Trials that such a model had proposed.
        amounts: What the attempt came to where that was corrected: ``cost`` in budget units, ``seconds`` of wall time.
        same: True if that alone was corrected, so that no model learns anything else.
        ended: Reason why the campaign has ended; None while it goes on.
        ran: Variables of which another value was run than was known before.
    """

    trial: str
    result: int
    replaces: int
    outputs: Mapping[str, float] | None
    models: Mapping[int, str] = field(default_factory=dict)
    proposals: tuple[str, ...] = ()
    amounts: Mapping[str, float] = field(default_factory=dict)
    same: bool = False
    ended: str | None = None
    ran: Mapping[str, Level] = field(default_factory=dict)


def correct(site: Site, checked: CheckedMeasurement, by: str, reason: str, seen: int | None = None) -> Corrected:
    """Replace the result of a completed trial, or the parts of one; values that the measurement does not give stay.

    Args:
        site: The campaign.
        checked: The checked measurement, from ``flows.results.record.check_correction``.
        by: Person who corrects.
        reason: Reason of the correction.
        seen: Number of the trial's last result when the person looked; None for whatever there is.

    Raises:
        InputError: the trial has no result yet or another one than was seen, outputs would be missing, an output of
            parts is not known yet, or the reason cannot be kept.
        storage.ledger.ForbiddenMove: nothing would change.
    """
    remark(reason, "reason")
    ready = kept(site, checked)
    measurement = ready.measurement

    def write() -> Corrected:
        trial = site.ledger.trial(measurement.trial)
        results = site.ledger.results(trial.id)  # after the trial, whose version a part changes
        _require_seen(trial, results, seen)
        if parts := _parts(trial, results):
            return _part(site, ready, trial, parts, by, reason)
        old = _counting(trial, results)
        outputs = {**(trial.outputs or {}), **ready.values}
        missing = [output.name for output in site.campaign.problem.measured if output.name not in outputs]
        if missing:
            raise InputError(f"{trial.id} was retracted: give all its outputs again; missing: {', '.join(missing)}.")
        sent = design_sent(site.ledger, trial, old.attempt)
        ran = run_design(site.campaign, trial, sent, results, old.attempt, ready.said)
        outputs = completed(site.campaign, outputs, ran or sent, trial.id)
        sd = {**known_sds(results, old.attempt), **measurement.sd}
        said = {name: value for name, value in {"sd": sd, "note": measurement.note}.items() if value}
        done, new = site.ledger.correct(
            trial.id,
            trial.expect,
            old.id,
            outputs,
            ready.field or trial.field,
            by,
            reason,
            said | _amounts(measurement),
            ran,
            measurement.cost,
            measurement.seconds,
        )
        return _told(site.ledger, done, old, new)

    return persistently(write)


def _parts(trial: Trial, results: Sequence[Result]) -> Sequence[Result]:
    """The parts of a result that is still to be completed, oldest first."""
    return standing_parts(results, trial.attempt) if completes(trial, trial.attempt) else ()


def _part(
    site: Site, ready: CheckedMeasurement, trial: Trial, parts: Sequence[Result], by: str, reason: str
) -> Corrected:
    """Append a part with other values of outputs that are known."""
    measurement, last = ready.measurement, parts[-1]
    known = known_outputs(parts, trial.attempt)
    if new := [name for name in {**ready.values, **measurement.sd} if name not in known]:
        raise InputError(
            f"{trial.id}: {', '.join(new)} is not known yet, so there is nothing to correct: record it. Known are "
            f"{', '.join(known)}. Nothing was changed."
        )
    outputs = {name: output.value for name, output in known.items()} | dict(ready.values)
    field = ready.field or next((part.field for part in reversed(parts) if part.field), None)
    sent = design_sent(site.ledger, trial, trial.attempt)
    ran = run_design(site.campaign, trial, sent, parts, trial.attempt, ready.said)
    sd = {name: output.sd for name, output in known.items() if output.sd is not None} | dict(measurement.sd)
    amounts = _amounts(measurement)
    known_amounts = {name: part.details[name] for part in parts for name in amounts if name in part.details}
    said_before = (dict(last.outputs), last.field, last.ran, dict(last.sd), known_amounts)
    if (outputs, field, ran, sd, amounts) == said_before:
        raise InputError(f"{trial.id}: its parts say this already, so there is nothing to correct.")
    said = {"sd": sd, "note": measurement.note, "reason": reason, "parts": [part.id for part in parts]}
    done, new_part = site.ledger.record(
        trial.id,
        trial.expect,
        outputs,
        field,
        by,
        f"correction: {reason}",
        {name: value for name, value in said.items() if value} | amounts,
        trial.attempt,
        ran,
        partial=True,
    )
    return _told(site.ledger, done, last, new_part)


def _amounts(measurement: Measurement) -> dict[str, float]:
    """Cost and wall time of the attempt, as far as a measurement gives them."""
    given = {"cost": measurement.cost, "seconds": measurement.seconds}
    return {name: amount for name, amount in given.items() if amount is not None}


def retract(site: Site, trial_id: str, by: str, reason: str, seen: int | None = None) -> Corrected:
    """Retract a trial's result, or the parts of one: the trial keeps its state, and later models do not learn from it.

    Parts are withdrawn all together: their outputs are asked for again.

    Args:
        site: The campaign.
        trial_id: Id of the trial.
        by: Person who retracts.
        reason: Reason of the retraction.
        seen: Number of the trial's last result when the person looked; None for whatever there is.

    Raises:
        InputError: the trial has no result, or another one than was seen, or the reason cannot be kept.
        storage.ledger.ForbiddenMove: it was retracted before.
    """
    remark(reason, "reason")

    def write() -> Corrected:
        trial = site.ledger.trial(trial_id)
        results = site.ledger.results(trial_id)
        _require_seen(trial, results, seen)
        if parts := _parts(trial, results):
            said = {"reason": reason, "parts": [part.id for part in parts]}
            done, new = site.ledger.record(
                trial.id, trial.expect, {}, None, by, f"retraction: {reason}", said, trial.attempt, partial=True
            )
            return _told(site.ledger, done, parts[-1], new)
        old = _counting(trial, results)
        done, new = site.ledger.correct(trial.id, trial.expect, old.id, None, None, by, reason, {})
        return _told(site.ledger, done, old, new)

    return persistently(write)


def _require_seen(trial: Trial, results: Sequence[Result], seen: int | None) -> None:
    """Accept a change by a person who saw this result last, or who did not say."""
    if seen is not None and results and (last := results[-1]).id != seen:
        raise InputError(f"{trial.id} has result {last.id} by {one_line(last.by)} since you looked. Look again.")


def _counting(trial: Trial, results: Sequence[Result]) -> Result:
    """The result of a completed trial that counts."""
    if trial.state is not TrialState.COMPLETED:
        remedy = (
            "Record one first." if trial.attempt else "It was never sent, so there is nothing to correct or take back."
        )
        raise InputError(f"{trial.id} is {trial.state}: it has no result that counts. {remedy}")
    return standing(results)[trial.id]


def _told(ledger: Ledger, trial: Trial, old: Result, new: Result) -> Corrected:
    results = ledger.results(trial.id)
    amounts = {name: new.details[name] for name in ("cost", "seconds") if name in new.details}
    same = bool(amounts) and (new.digest, new.sd) == (old.digest, old.sd)
    models = {
        product.iteration: product.digest
        for product in ledger.products(trial.campaign)
        if not same
        and product.step == "train"
        and (_saw(product, old, results) or _saw_in_part(product, old, new, results))
    }
    proposals = [
        other.id
        for other in ledger.trials(trial.campaign)
        if other.origin.model is not None and other.origin.model.iteration in models
    ]
    outputs = None if new.verdict == "retraction" or new.withdraws else new.outputs
    ended = ledger.campaign(trial.campaign).finished
    before = old.ran or trial.design
    ran = {name: value for name, value in (new.ran or trial.design).items() if value != before.get(name)}
    return Corrected(trial.id, new.id, old.id, outputs, models, tuple(proposals), amounts, same, ended, ran)


def _saw(product: Product, old: Result, results: Sequence[Result]) -> bool:
    """True if a model was trained on the values of a result. In versions without corrections a trial had one."""
    model = Trained.of(product)
    if model.seen is None and model.results is None:
        return old.trial in model.trials
    learnt = learnt_by(model, results).get(old.trial)
    return learnt is not None and (learnt.digest, learnt.sd) == (old.digest, old.sd)


def _saw_in_part(product: Product, old: Result, new: Result, results: Sequence[Result]) -> bool:
    """True if a model was trained on a part of a trial's result with a value of the old one that holds no more."""
    number = Trained.of(product).partial.get(old.trial, {}).get("result")
    part = next((result.outputs for result in results if result.id == number), {})
    changed = old.outputs if new.ran != old.ran else dict(old.outputs.items() - new.outputs.items())
    return bool(part.items() & changed.items())


def _level(value: Level) -> str:
    return f"{value:.{FIGURES}g}" if isinstance(value, float) else level_text(str(value))


def corrected_text(done: Corrected, outputs: str) -> str:
    """The correction, and what depended on the old value, in a few lines."""
    now = f"corrected to {outputs}" if done.outputs is not None else "retracted; no model learns from it any more"
    amounts = ", ".join(f"{name} {amount:g}" for name, amount in done.amounts.items())
    if done.same:
        return (
            f"{done.trial}: corrected to {amounts}; its outputs stay (result {done.result} replaces {done.replaces})."
        )
    now += f", {amounts}" if amounts else ""
    if done.outputs is not None and done.ran:
        now += "; run at " + ", ".join(f"{name} {_level(value)}" for name, value in done.ran.items())
    lines = [f"{done.trial}: {now} (result {done.result} replaces {done.replaces})."]
    if not done.models:
        lines[0] += " No model had seen the old value."
    lines += [
        f"  the model of iteration {n} had seen the old value ({digest[:12]})" for n, digest in done.models.items()
    ]
    lines += [f"  {trial} was proposed by such a model" for trial in done.proposals]
    if done.ended is not None:
        name = done.trial.rpartition("-")[0]
        lines.append(
            f"The campaign has ended ({done.ended}), so that no later model learns from what counts now. Another can "
            f"begin with its results: 'fieldcraft export {name} --csv FILE', then 'fieldcraft import OTHER.yaml FILE'."
        )
    elif done.models:
        lines.append("Nothing of that is undone: the next model learns from what counts now.")
    return "\n".join(lines)
