"""Step 1, harvest: poll running trials, fetch and evaluate finished ones, and record them, fields first."""

import math
import time
from typing import TYPE_CHECKING

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.files.field_outputs import require_units
from fieldcraft.flows.jobs.dispatcher import (
    CannotTell,
    Dispatcher,
    Failed,
    Finished,
    Handle,
    Lost,
    Ordering,
    Outcome,
    Running,
)
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.results.as_run import design_sent, field_labels
from fieldcraft.flows.results.inbox import collect
from fieldcraft.flows.rules.approved_code import listed
from fieldcraft.flows.rules.unaccounted import require_known
from fieldcraft.flows.spec.source_files import Sources
from fieldcraft.flows.steps.cleanup import tidy
from fieldcraft.flows.text import said
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.physics.gradients import gradient_of
from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.parametric.readings import readings_of
from fieldcraft.physics.space import Design
from fieldcraft.storage.fields import FieldDamaged
from fieldcraft.storage.ledger import ForbiddenMove, StaleTrial
from fieldcraft.storage.records import Trial, TrialState

if TYPE_CHECKING:
    import xarray as xr


def harvest(site: Site) -> int:
    """Settle every trial whose attempt has ended. Returns the number settled.

    A trial that a person changed meanwhile is left to the next pass.

    Raises:
        FieldcraftError: the ledger has lost its latest commits.
    """
    require_known(site)
    dispatcher = site.campaign.dispatcher
    settled = collect(site, dispatcher) if isinstance(dispatcher, Ordering) else 0
    for trial in site.ledger.trials(site.name, states={TrialState.RUNNING, TrialState.HELD}):
        try:
            settled += _settle(site, dispatcher, trial)
        except StaleTrial:
            continue
    tidy(site, dispatcher, take)
    return settled


def _settle(site: Site, dispatcher: Dispatcher, trial: Trial) -> bool:
    """Poll an attempt and record its outcome. True if it has ended."""
    running = _reconsidered(site, dispatcher, trial) if trial.state is TrialState.HELD else trial
    if running is None:
        return False
    handle = running.handle
    assert handle is not None  # RUNNING is entered with a handle
    try:
        outcome = dispatcher.poll(handle)
    except CannotTell as error:
        _miss(site, running, str(error))
        return False
    return _written(site, dispatcher, running, handle, outcome)


def _written(site: Site, dispatcher: Dispatcher, trial: Trial, handle: Handle, outcome: Outcome) -> bool:
    match outcome:
        case Running(waits):
            _hear(site, trial)
            if waits is not None:
                tell("waits", trial=trial, reason=waits)
            return False
        case Finished(seconds):
            _finish(site, dispatcher, trial, handle, seconds)
        case Failed():
            _fail(site, trial, outcome)
        case Lost(reason):
            _lose(site, trial, reason)
    return True


def _reconsidered(site: Site, dispatcher: Dispatcher, held: Trial) -> Trial | None:
    """A held trial as RUNNING again if its dispatcher can now report on it; else None."""
    try:
        handle = held.handle or dispatcher.find(attempt_key(held))
        if handle is None:
            if not dispatcher.by_people:  # people are asked twice on a person's word alone
                _send_anew(site, held)
            return None
        outcome = dispatcher.look(handle)
        if isinstance(outcome, Finished):
            dispatcher.fetch(handle)
    except (CannotTell, FieldDamaged):
        return None
    if isinstance(outcome, Lost):
        return None
    return site.ledger.move(
        held.id, TrialState.RUNNING, held.expect, ACTOR, "the dispatcher can tell again", handle=handle
    )


def _send_anew(site: Site, held: Trial) -> None:
    """Approve a held trial again, because its dispatcher now reports that it was never started."""
    reason = "the dispatcher says now that it was never begun"
    try:
        site.ledger.move(held.id, TrialState.APPROVED, held.expect, ACTOR, reason, cost=0.0, seconds=0.0)
    except ForbiddenMove:  # no attempt is left under its approval: a person must give another
        return


def _silence(trial: Trial) -> float:
    """Seconds since the last news of a trial; infinite if that is of a time to come: the clock was set back since."""
    now, last = time.time(), trial.updated if trial.heard is None else trial.heard
    if last > now:
        return math.inf
    return now - max(at for at in (last, trial.updated) if at <= now)


def _hear(site: Site, trial: Trial) -> None:
    if _silence(trial) > site.campaign.spec.dispatcher.lease_s / 3:
        site.ledger.hear(trial.id, trial.attempt)


def _miss(site: Site, trial: Trial, why: str) -> None:
    """Hold a running trial without a report from its dispatcher for longer than ``lease_s`` (heartbeat timeout).

    After the clock was set back nobody knows for how long there was none: that counts from now on.
    """
    silent, lease = _silence(trial), site.campaign.spec.dispatcher.lease_s
    if silent == math.inf:
        site.ledger.hear(trial.id, trial.attempt)
    elif silent > lease:
        _hold(site, trial, f"{why}; nothing was heard of it for {silent:.0f} s (dispatcher.lease_s is {lease:g})")


def _finish(site: Site, dispatcher: Dispatcher, trial: Trial, handle: Handle, seconds: float) -> None:
    try:
        done = take(site, dispatcher, trial, handle, trial.attempt, seconds)
    except FieldDamaged as error:
        _lose(site, trial, str(error))
        return
    if isinstance(done, str):
        _fail(site, trial, Failed("unknown", done, seconds=seconds))
        return
    tell("completed", trial=done, seconds=seconds)


def take(site: Site, dispatcher: Dispatcher, trial: Trial, handle: Handle, attempt: int, seconds: float) -> Trial | str:
    """Fetch, evaluate and record the result of an attempt, the present one or an earlier.

    Returns:
        The updated trial, or the reason why its outputs cannot be recorded.

    Raises:
        storage.fields.FieldDamaged: its fields are not those that the job wrote.
        storage.ledger.StaleTrial: a person changed the trial meanwhile.
        FieldcraftError: the problem's ``evaluate`` failed.
    """
    fields, design = dispatcher.fetch(handle), design_sent(site.ledger, trial, attempt)
    outputs = site.campaign.problem.completed(_evaluated(site, trial, design, fields), design)
    bad = [name for name, value in outputs.items() if not math.isfinite(value)]
    if bad:
        return f"evaluate: output {bad[0]!r} is {outputs[bad[0]]}"
    for name, noise in _noise(site, trial).items():
        outputs[name] += noise
    done, _ = site.ledger.record(
        trial.id,
        trial.expect,
        outputs,
        site.fields.write(trial.id, fields, field_labels(design, site.name, trial.id)),
        ACTOR,
        site.campaign.spec.dispatcher.kind,
        {"seconds": round(seconds, 3), "noise_sd": site.campaign.noise_sd, **_noted(site, trial, fields)},
        attempt=attempt,
        ran=design,
        seconds=_charged(site, seconds),
    )
    return done


def _charged(site: Site, seconds: float) -> float:
    """Wall time charged for an attempt: at most its limit, at which it is killed, so that no budget is exceeded."""
    return min(seconds, site.campaign.spec.dispatcher.wall_time_s)


def _evaluated(site: Site, trial: Trial, design: Design, fields: "xr.Dataset") -> dict[str, float]:
    """The measured outputs of a finished simulation; a dispatcher that answers designs itself may give them as scalars.

    Raises:
        FieldcraftError: the problem's ``evaluate`` failed, or the simulation is in other units than the problem's. The
            trial and its job's result stay as they are, so that nothing has to be simulated again once the problem is
            mended.
    """
    try:
        require_units(site.campaign.problem, fields)
    except InputError as error:
        raise FieldcraftError(f"{trial.id}: {str(error).removesuffix('.')}. {_kept(trial)}") from error
    try:
        problem, names = site.campaign.problem, [output.name for output in site.campaign.problem.measured]
        if site.campaign.answering is not None and all(name in fields and not fields[name].ndim for name in names):
            return {name: float(fields[name]) for name in names}
        return numbers_given(problem.evaluate(design, fields), problem.measured)
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        raise FieldcraftError(
            f"{trial.id}: evaluate of problem {site.campaign.spec.problem.kind!r} failed: {type(error).__name__}: "
            f"{str(error).removesuffix('.')}. {_kept(trial)}"
        ) from error


def _kept(trial: Trial) -> str:
    return (
        "Its simulation has finished and is kept. If the problem is wrong, mend it and run again; if the simulator is, "
        f"mend that and give the trial up: 'fieldcraft cancel {trial.id} --reason ...'."
    )


def _noted(site: Site, trial: Trial, fields: "xr.Dataset") -> dict[str, str]:
    """A note for a result whose problem has changed since its trial was approved, or whose gradient or readings are not
    as they must be, so that nothing learns from them; empty else."""
    notes = [_evaluated_by(site, trial)]
    problem = site.campaign.problem
    try:
        gradient_of(problem, fields)
    except ValueError as error:
        notes.append(f"gradient left out: {error}")
    try:
        if problem.parametric is not None:
            readings_of(problem.parametric, fields)
    except ValueError as error:
        notes.append(f"readings left out: {error}")
    said = "; ".join(filter(None, notes))
    return {"note": said} if said else {}


def _evaluated_by(site: Site, trial: Trial) -> str:
    """Words on what of a problem has changed since its trial was approved; empty where nothing has."""
    digests = [approval.code for approval in site.ledger.approvals(trial.id) if approval.code is not None]
    approved = site.ledger.codes(site.name).get(digests[-1]) if digests else None
    if approved is None:
        return ""
    problem = Sources(site.campaign.settings.plugins).of({"problems": site.campaign.spec.problem.kind}, {})
    changed = [name for name, digest in problem.files.items() if approved.files.get(name) != digest]
    return f"evaluated after {listed(changed)} changed" if changed else ""


def _noise(site: Site, trial: Trial) -> dict[str, float]:
    """Noise that is added to outputs: drawn in their order, the objective's first."""
    rng = stream(site.campaign.spec.seed, trial.iteration, Use.NOISE, trial.slot)
    return {name: float(rng.normal(0.0, sd)) for name, sd in site.campaign.added_sds.items()}


def _fail(site: Site, trial: Trial, outcome: Failed) -> None:
    reason = said(outcome.reason)
    site.ledger.move(
        trial.id,
        TrialState.FAILED,
        trial.expect,
        ACTOR,
        reason,
        failure=outcome.kind,
        cost=None if outcome.cost is None else min(outcome.cost, trial.cost),
        seconds=None if outcome.seconds is None else _charged(site, outcome.seconds),
    )
    tell("failed", trial=trial, reason=reason)


def _lose(site: Site, trial: Trial, reason: str) -> None:
    if site.campaign.idempotent:
        _fail(site, trial, Failed("transient", f"{reason}; the simulator is idempotent, so it may run again"))
        return
    _hold(site, trial, f"{reason}; whether the experiment was done, a person must say")


def _hold(site: Site, trial: Trial, why: str) -> None:
    reason = said(why)
    site.ledger.move(trial.id, TrialState.HELD, trial.expect, ACTOR, reason)
    tell("held", trial=trial, reason=reason)
