"""Interventions of people in trials that failed, are held, or should stop: retry, abandon, cancel, rule out.

The trial's state is changed first and its job stopped after. A crash in between leaves a job that no trial waits for,
which the next pass stops (``flows.steps.cleanup``).
"""

import time

from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.jobs.dispatcher import CannotTell, Handle
from fieldcraft.flows.people.decisions import one_winner, overtaken, require_seen
from fieldcraft.flows.rules.approval_policy import expiry
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, stored
from fieldcraft.flows.text import remark
from fieldcraft.flows.wiring.campaign import dispatcher_of
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import FailureKind, Trial, TrialState

_RETRIED = frozenset({TrialState.FAILED, TrialState.HELD})
_CANCELLED = frozenset({TrialState.STAGED, TrialState.RUNNING})
_REMEDIES = {
    TrialState.PROPOSED: "'fieldcraft reject' takes it back",
    TrialState.APPROVED: "'fieldcraft reject' takes it back",
    TrialState.STAGED: "'fieldcraft cancel' stops it",
    TrialState.RUNNING: "'fieldcraft cancel' stops it",
    TrialState.HELD: "'fieldcraft retry', 'abandon' or 'record' settles it",
    TrialState.FAILED: "'fieldcraft retry' sends it again, 'fieldcraft abandon' gives it up",
}


class NotStopped(FieldcraftError):
    """The trial's state was changed, but its dispatcher could not be told to stop the job; the next pass retries."""


def retry(
    ledger: Ledger, settings: Settings, person: Person, named: str, comment: str = "", version: int | None = None
) -> Trial:
    """Approve a failed or held trial again, for as many attempts as the campaign file says.

    Args:
        ledger: Ledger of the trial.
        settings: Settings by which the code that would run is found.
        person: The approver.
        named: Id, or label, which binds the approval to the revision that was seen.
        comment: Comment of the approver.
        version: Version of the trial that was seen; None for the present one.

    Raises:
        identity.Refused: it costs more than the person may approve.
        InputError: it neither failed nor is held, its campaign has ended, or the code that would run is not here.
        decisions.Overtaken: somebody changed it first, or it has changed since it was seen.
    """
    comment, trial = remark(comment, "comment"), _in(ledger, named, _RETRIED, "sent again", version)
    spec = _specification(ledger, trial)
    if (ended := ledger.campaign(spec.name).finished) is not None:
        raise InputError(f"Campaign {spec.name!r} has ended ({ended}) and sends nothing more. Nothing was changed.")
    person.require_cost({trial.id: trial.cost})
    with one_winner(ledger, [trial]):
        return ledger.approve(
            trial.id,
            trial.expect,
            trial.digest,
            person.name,
            comment,
            "manual",
            spec.dispatcher.attempts,
            expiry(spec, time.time()),
            covered(spec, settings).code,
        )


def abandon(
    ledger: Ledger, settings: Settings, person: Person, named: str, reason: str, version: int | None = None
) -> Trial:
    """Give a trial up for good and stop its job; a result that still arrives is kept and changes nothing.

    Raises:
        InputError: it was not sent, has a result or was given up, or there is no reason.
        decisions.Overtaken: somebody changed it first, or it has changed since it was seen.
        NotStopped: its state was changed, but its job could not be stopped.
    """
    reason = _reason(reason)
    trial = _in(ledger, named, _RETRIED | _CANCELLED, "abandoned", version)
    seconds = _elapsed(ledger, trial)
    with one_winner(ledger, [trial]):
        done = ledger.move(trial.id, TrialState.ABANDONED, trial.expect, person.name, reason, seconds=seconds)
    if trial.state in _CANCELLED:
        _stop(ledger, settings, trial, done)
    return done


def cancel(
    ledger: Ledger, settings: Settings, person: Person, named: str, reason: str, version: int | None = None
) -> Trial:
    """Stop a running trial; it fails as cancelled, and is repeated only if a person decides so.

    Raises:
        InputError: it does not run, or there is no reason.
        decisions.Overtaken: somebody changed it first, or it has changed since it was seen.
        NotStopped: its state was changed, but its job could not be stopped.
    """
    return _ended(ledger, settings, person, _in(ledger, named, _CANCELLED, "cancelled", version), reason, "cancelled")


def rule_out(ledger: Ledger, settings: Settings, person: Person, named: str, reason: str) -> Trial:
    """Record that a sent trial gives no result because its design is infeasible, which surrogates learn.

    Raises:
        InputError: it is not out, or there is no reason.
        decisions.Overtaken: somebody changed it first.
        NotStopped: its state was changed, but its job could not be stopped.
    """
    return _ended(ledger, settings, person, _in(ledger, named, _CANCELLED, "ruled out"), reason, "infeasible")


def _ended(
    ledger: Ledger, settings: Settings, person: Person, trial: Trial, reason: str, failure: FailureKind
) -> Trial:
    reason = _reason(reason)
    with one_winner(ledger, [trial]):
        done = ledger.move(
            trial.id,
            TrialState.FAILED,
            trial.expect,
            person.name,
            reason,
            failure=failure,
            seconds=_elapsed(ledger, trial),
        )
    _stop(ledger, settings, trial, done)
    return done


def _elapsed(ledger: Ledger, trial: Trial) -> float | None:
    """Wall time of a running attempt in seconds, up to its limit; None if it does not run, or people work on it."""
    if trial.state is not TrialState.RUNNING or by_people(ledger.campaign(trial.campaign)):
        return None
    history = ledger.history(trial.campaign, trial.id)
    claimed = max(event.id for event in history if event.after is TrialState.STAGED)
    sent = next(e.created for e in history if e.id > claimed and e.after is TrialState.RUNNING)
    limit = _specification(ledger, trial).dispatcher.wall_time_s
    return min(max(0.0, time.time() - sent), limit)


def _stop(ledger: Ledger, settings: Settings, trial: Trial, done: Trial) -> None:
    """Stop the job of a trial whose state was changed from ``trial`` to ``done``.

    Raises:
        NotStopped: the dispatcher could not be told.
    """
    try:
        dispatcher = dispatcher_of(trial.campaign, _specification(ledger, trial).dispatcher, settings)
        handle: Handle | None = trial.handle or dispatcher.find(f"{trial.id}-{trial.attempt}")
        if handle is not None:
            dispatcher.cancel(handle)
    except (CannotTell, FieldcraftError, OSError) as error:  # OSError: a folder of orders that takes nothing
        raise NotStopped(
            f"{trial.id} is {done.state} now, but whoever does it could not be told ({str(error).rstrip('.')}): the "
            "next pass tries again."
        ) from None


def _specification(ledger: Ledger, trial: Trial) -> CampaignSpec:
    return stored(ledger.campaign(trial.campaign).spec, f"campaign {trial.campaign}")


def _reason(text: str) -> str:
    if not remark(text, "reason").strip():
        raise InputError("A trial given up without a reason teaches nobody: give one. Nothing was changed.")
    return text


def _in(ledger: Ledger, named: str, states: frozenset[TrialState], what: str, version: int | None = None) -> Trial:
    """The trial of an id or label, if it is in one of these states, and as it was seen."""
    choice = Choice.of(named)
    trial = ledger.trial(choice.trial)
    if version is not None and version != trial.version:
        raise overtaken(ledger, trial)
    if trial.state not in states:
        remedy = _REMEDIES.get(trial.state, "it is settled")
        raise InputError(f"{trial.id} is {trial.state} and cannot be {what}: {remedy}. Nothing was changed.")
    require_seen(ledger, choice, trial)
    return trial
