"""Consistency of the rows of one trial: history, revisions, approvals, spending, results, copy for tracking."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

from fieldcraft.storage.records import (
    COUNTING,
    SETTLED,
    Approval,
    CampaignRecord,
    Event,
    Result,
    Trial,
    TrialState,
    result_digest,
    trial_digest,
)

_S = TrialState
_ALWAYS_BUMPS = frozenset({"edit", "correct"})  # a new version even where the state stays
_RECORDS = frozenset({"record", "correct", "import"})  # actions that append a result
_COVERED = frozenset({_S.APPROVED, _S.STAGED, _S.RUNNING, _S.HELD, _S.FAILED, _S.COMPLETED})  # by a live approval
Spent = tuple[float, float]  # budget units and seconds of wall time


@dataclass(frozen=True)
class Rows:
    """All rows of the ledger on one trial.

    Args:
        trial: The trial.
        history: Its events, oldest first.
        results: Its results, oldest first.
        approvals: Its approvals, oldest first.
        shown: The trial as last written to the outbox for tracking; None if it never was.
        settled: What it had spent before the upgrade from schema 1, whose events do not record it.
    """

    trial: Trial
    history: tuple[Event, ...]
    results: tuple[Result, ...]
    approvals: tuple[Approval, ...]
    shown: Mapping[str, Any] | None
    settled: Spent


def disagreements(rows: Rows, campaign: CampaignRecord) -> Iterator[str]:
    """Contradictions between the rows of a trial, one sentence each."""
    trial = rows.trial
    if trial.digest != trial_digest(trial.design, campaign.digest, trial.level):
        yield f"The design of trial {trial.id} does not have the digest {trial.digest} stored with it."
    checks = (_history, _carried, _revisions, _approvals, _spending, _results, _copy)
    for check in checks:
        try:
            yield from check(rows)
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # JSON of another form
            yield f"The records of trial {trial.id} do not hold what they should ({error!r})."


def _history(rows: Rows) -> Iterator[str]:
    trial, history = rows.trial, rows.history
    if not history or history[0].before is not None or history[0].version != 1:
        yield f"The history of trial {trial.id} does not begin with its proposal."
        return
    for earlier, later in pairwise(history):
        if later.before != earlier.after:
            yield f"Event {later.id} of trial {trial.id} starts from {later.before}, but it was {earlier.after} then."
        if (later.version or 0) - (earlier.version or 0) not in _steps(later):
            yield f"Event {later.id} of trial {trial.id} jumps from version {earlier.version} to {later.version}."
    if (last := (history[-1].after, history[-1].version)) != trial.expect:
        yield f"Trial {trial.id} is {trial.state} at version {trial.version}, but its last event left it {last}."
    staged = sum(_stages(event) for event in history)
    if staged != trial.attempt:
        yield f"Trial {trial.id} counts {trial.attempt} attempts, but was staged {staged} times."


def _steps(event: Event) -> tuple[int, ...]:
    """Numbers by which an event may raise the version."""
    if event.after != event.before or event.action in _ALWAYS_BUMPS:
        return (1,)
    return (0, 1) if event.details.get("verdict") == "partial" else (0,)  # it did not in earlier versions


def _stages(event: Event) -> bool:
    return event.action == "move" and event.after is _S.STAGED


def _carried(rows: Rows) -> Iterator[str]:
    """Contradictions in the handle and the kind of failure, which moves set and clear."""
    handle = failure = None
    for event in rows.history:
        handle = event.details.get("handle", None if _stages(event) else handle)
        failure = None if event.after in (_S.APPROVED, _S.COMPLETED) else event.details.get("failure", failure)
    trial = rows.trial
    if (handle, failure) != (trial.handle, trial.failure):
        yield (
            f"Trial {trial.id} has the handle {trial.handle} and the failure {trial.failure}, but its history has "
            f"{handle} and {failure}."
        )


def _revisions(rows: Rows) -> Iterator[str]:
    trial = rows.trial
    edits = [event for event in rows.history if event.action == "edit"]
    if [event.details.get("revision") for event in edits] != list(range(2, trial.revision + 1)):
        yield f"Trial {trial.id} is at revision {trial.revision}, but was edited {len(edits)} times."
    designs = [event.details.get("design") for event in edits]
    was = [event.details.get("was") for event in edits]
    if edits and designs != [*was[1:], trial.design]:
        yield f"The edits of trial {trial.id} do not lead from one design to the next, up to {dict(trial.design)}."


def _approvals(rows: Rows) -> Iterator[str]:
    """Contradictions between approvals and history, and missing approvals of exactly what would run."""
    trial, left = rows.trial, 0
    given = [event for event in rows.history if event.action == "approve"]
    for event, approval in zip_longest(given, rows.approvals):
        if event is None:
            yield f"Approval {approval.id} of trial {trial.id} is not in its history."
        elif approval is None:
            yield f"Event {event.id} approves trial {trial.id}, but that approval is gone."
        elif _terms(event) != _granted(approval):
            yield f"Approval {approval.id} of trial {trial.id} is not what event {event.id} says of it."
    for approval in (found := [approval for approval in rows.approvals if approval.live]):
        if (approval.digest, approval.revision) != (trial.digest, trial.revision):
            yield (
                f"Approval {approval.id} of trial {trial.id} is for the digest {approval.digest} (revision "
                f"{approval.revision}), but {trial.digest} (revision {trial.revision}) would run."
            )
    if len(found) != int(trial.state in _COVERED and not trial.imported):
        yield f"Trial {trial.id} is {trial.state}, and {len(found)} approvals of it hold."
    for event in rows.history:
        left = event.details["attempts"] if event.action == "approve" else left - _stages(event)
        if left < 0:
            yield f"Event {event.id} sends trial {trial.id}, but no approval covers that."


def _terms(event: Event) -> tuple[object, ...]:
    told = event.details
    return (
        event.version,
        event.by,
        event.reason,
        *(told.get(name) for name in ("digest", "policy", "attempts", "expires")),
    )


def _granted(approval: Approval) -> tuple[object, ...]:
    terms = (approval.digest, approval.policy, approval.attempts, approval.expires)
    return approval.version, approval.by, approval.comment, *terms


def _spending(rows: Rows) -> Iterator[str]:
    trial, (spent, seconds) = rows.trial, rows.settled
    for event in rows.history:
        spent += event.details.get("spent", 0.0)
        seconds += event.details.get("seconds", 0.0)
    if (spent, seconds) != (trial.spent, trial.seconds):
        yield (
            f"Trial {trial.id} has spent {trial.spent} in {trial.seconds} s, but its attempts came to {spent} in "
            f"{seconds} s."
        )


def _results(rows: Rows) -> Iterator[str]:
    trial, results = rows.trial, rows.results
    for result in results:
        if result.digest != result_digest(result.outputs, result.field, result.ran):
            yield f"Result {result.id} of trial {trial.id} does not have the digest {result.digest} stored with it."
    told = [event.details for event in rows.history if event.action in _RECORDS]
    kept = [(result.id, result.verdict, result.digest) for result in results]
    if [(each["result"], each["verdict"], each["digest"]) for each in told] != kept:
        yield f"The results of trial {trial.id} are {kept}, but its history tells of others."
    counting = [result for result in results if result.verdict in COUNTING]
    if [result.replaces for result in counting] != [None, *(result.id for result in counting)][: len(counting)]:
        yield f"The corrections of trial {trial.id} do not each replace the one before."
    said = [(None if r.verdict == "retraction" else r.outputs, r.field, r.ran) for r in counting[-1:]]
    expected = [(trial.outputs, trial.field, trial.ran)] if trial.state is _S.COMPLETED else []
    if said != expected:
        yield f"Trial {trial.id} is {trial.state} with outputs {trial.outputs}, but its accepted results: {said}."


def _copy(rows: Rows) -> Iterator[str]:
    """Difference between a settled trial and its copy for tracking; no digest covers all its columns."""
    trial = rows.trial
    if trial.state in SETTLED and (rows.shown is None or Trial.model_validate(rows.shown) != trial):
        yield f"Trial {trial.id} is not what was put down for tracking when it came to be {trial.state}."
