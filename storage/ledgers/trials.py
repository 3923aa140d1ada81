"""What happens to trials: functions that work inside one open write transaction, on any SQL back end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from storage.ledger import ForbiddenMove, InvalidRecord, StaleTrial
from storage.ledgers import schema
from storage.ledgers.rows import add_event, add_outbox, checked, get_campaign, get_trial, many, one, record_of
from storage.records import (
    SETTLED,
    TRANSITIONS,
    Approval,
    Expect,
    FailureKind,
    FieldRef,
    Proposal,
    Result,
    Trial,
    TrialState,
    Verdict,
    digest_of,
    trial_digest,
)

_VOIDING = frozenset({TrialState.PROPOSED, TrialState.REJECTED, TrialState.ABANDONED})
_CLEARS_FAILURE = frozenset({TrialState.APPROVED, TrialState.COMPLETED})


def propose(
    connection: Connection, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str
) -> tuple[Trial, ...]:
    """Write the trials of an iteration down, unless it has some; see ``Ledger.propose``."""
    trials = schema.trials
    owner = get_campaign(connection, campaign)
    there = select(trials).where(trials.c.campaign == campaign, trials.c.iteration == iteration).order_by(trials.c.slot)
    if existing := many(connection, Trial, there):
        return existing
    if not proposals:
        raise InvalidRecord(f"Iteration {iteration} of {campaign!r} has no proposals: propose at least one design.")
    last = connection.execute(select(func.max(trials.c.number)).where(trials.c.campaign == campaign)).scalar() or 0
    for slot, proposal in enumerate(proposals):
        number = last + 1 + slot
        _write_proposal(connection, owner.digest, campaign, iteration, slot, number, proposal, by)
    return many(connection, Trial, there)


def _write_proposal(
    connection: Connection,
    spec_digest: str,
    campaign: str,
    iteration: int,
    slot: int,
    number: int,
    proposal: Proposal,
    by: str,
) -> None:
    now = time.time()
    trial = checked(
        Trial,
        f"Proposal {slot} of iteration {iteration} of {campaign!r}",
        id=f"{campaign}-{number:04d}",
        campaign=campaign,
        number=number,
        iteration=iteration,
        slot=slot,
        revision=1,
        design=proposal.design,
        digest=trial_digest(proposal.design, spec_digest),
        state=TrialState.PROPOSED,
        version=1,
        attempt=0,
        origin=proposal.origin,
        handle=None,
        outputs=None,
        field=None,
        failure=None,
        cost=proposal.cost,
        created=now,
        updated=now,
    )
    connection.execute(insert(schema.trials).values(**trial.model_dump(mode="json")))
    add_event(connection, campaign, "propose", by, proposal.origin.algorithm, trial=trial)


def approve(
    connection: Connection,
    trial_id: str,
    expect: Expect,
    digest: str,
    by: str,
    comment: str,
    policy: str,
    attempts: int,
) -> Trial:
    """Write an approval and move the trial to APPROVED; see ``Ledger.approve``."""
    before = _expected(get_trial(connection, trial_id), expect)
    _permitted(before, TrialState.APPROVED)
    if attempts < 1:
        raise InvalidRecord(
            f"An approval of {trial_id} for {attempts} attempts would approve nothing: give at least 1."
        )
    if digest != (runs := _what_runs(connection, before)):
        raise ForbiddenMove(
            f"The approval of {trial_id} names the digest {digest}, but what would run has the digest {runs}. "
            "Look at the trial again and approve what it is now."
        )
    _void(connection, trial_id, "replaced by a later approval")
    after = _swap(connection, before, TrialState.APPROVED)
    values = {
        "trial": trial_id,
        "revision": before.revision,
        "digest": digest,
        "by": by,
        "comment": comment,
        "policy": policy,
        "attempts": attempts,
        "version": after.version,
        "created": after.updated,
    }
    connection.execute(insert(schema.approvals).values(values))
    details = {"digest": digest, "policy": policy, "attempts": attempts}
    add_event(connection, after.campaign, "approve", by, comment, trial=after, before=before.expect, details=details)
    return after


def move(
    connection: Connection,
    trial_id: str,
    to: TrialState,
    expect: Expect,
    by: str,
    reason: str,
    handle: Mapping[str, Any] | None,
    failure: FailureKind | None,
) -> Trial:
    """Move a trial by compare-and-swap; see ``Ledger.move``."""
    before = _expected(get_trial(connection, trial_id), expect)
    _permitted(before, to)
    _has_what_it_needs(connection, before, to, failure)
    changes: dict[str, Any] = {}
    if handle is not None or to is TrialState.STAGED:  # the handle of the last attempt would find the wrong job
        changes["handle"] = None if handle is None else dict(handle)
    if to is TrialState.STAGED:
        changes["attempt"] = before.attempt + 1
    if to is TrialState.FAILED:
        changes["failure"] = failure
    after = _swap(connection, before, to, **changes)
    if to in _VOIDING:
        _void(connection, trial_id, f"moved to {to}: {reason}")
    details = {name: value for name, value in (("handle", handle), ("failure", failure)) if value is not None}
    add_event(connection, after.campaign, "move", by, reason, trial=after, before=before.expect, details=details)
    if to in SETTLED:
        add_outbox(connection, after.campaign, "trial", after)
    return after


def _has_what_it_needs(connection: Connection, before: Trial, to: TrialState, failure: FailureKind | None) -> None:
    if to is TrialState.COMPLETED:
        raise ForbiddenMove(f"{before.id} cannot be moved to COMPLETED without a result: record its outputs.")
    if (to is TrialState.FAILED) != (failure is not None):
        raise ForbiddenMove(
            f"Moving {before.id} to {to} with failure {failure!r}: give the kind of failure (transient, infeasible, "
            "cancelled or unknown) exactly when moving to FAILED."
        )
    if to is TrialState.APPROVED and before.state is TrialState.PROPOSED:
        raise ForbiddenMove(f"{before.id} cannot be moved to APPROVED without an approval: approve it.")
    if to in (TrialState.STAGED, TrialState.APPROVED):
        _under_approval(connection, before, to)


def _under_approval(connection: Connection, trial: Trial, to: TrialState) -> None:
    """Refuse unless a live approval covers exactly what would run and has an attempt left."""
    approvals, events = schema.approvals, schema.events
    query = select(approvals).where(approvals.c.trial == trial.id, approvals.c.voided.is_(None))
    row = one(connection, query.order_by(approvals.c.id.desc()))
    if row is None:
        raise ForbiddenMove(f"{trial.id} cannot be moved to {to}: it has no live approval. Approve it first.")
    approval = record_of(Approval, row)
    if approval.digest != (runs := _what_runs(connection, trial)) or approval.revision != trial.revision:
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: its approval names the digest {approval.digest} (revision "
            f"{approval.revision}), but {runs} (revision {trial.revision}) would run. Approve what it is now."
        )
    staged = select(func.count()).where(
        events.c.trial == trial.id, events.c.after == TrialState.STAGED.value, events.c.version > approval.version
    )
    if (used := connection.execute(staged.where(events.c.action == "move")).scalar_one()) >= approval.attempts:
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: {used} of the {approval.attempts} attempts approved are used up. "
            "Approve it again for more."
        )


def _what_runs(connection: Connection, trial: Trial) -> str:
    """Digest of what would run, computed afresh, so that a design changed behind the ledger's back never runs."""
    return trial_digest(trial.design, get_campaign(connection, trial.campaign).digest)


def record(
    connection: Connection,
    trial_id: str,
    expect: Expect,
    outputs: Mapping[str, float],
    field: FieldRef | None,
    by: str,
    source: str,
    details: Mapping[str, Any],
    attempt: int | None,
) -> tuple[Trial, Result]:
    """Append a result, judge it, and complete the trial if it is accepted; see ``Ledger.record``."""
    before = _expected(get_trial(connection, trial_id), expect)
    result = _new_result(before, outputs, field, by, source, details, before.attempt if attempt is None else attempt)
    verdict, repeated = _judge(connection, before, result)
    result = result.model_copy(update={"verdict": verdict})
    if repeated is not None:
        return before, repeated.model_copy(update={"verdict": verdict})
    values = result.model_dump(mode="json", exclude={"id"})
    number = connection.execute(insert(schema.results).values(values).returning(schema.results.c.id)).scalar_one()
    result = result.model_copy(update={"id": number})
    after = before
    if verdict == "accepted":
        changes = {"outputs": dict(result.outputs), "field": field and field.model_dump()}
        after = _swap(connection, before, TrialState.COMPLETED, **changes)
        add_outbox(connection, after.campaign, "trial", after)
    told = {"result": result.id, "attempt": result.attempt, "verdict": verdict, "digest": result.digest}
    add_event(connection, after.campaign, "record", by, source, trial=after, before=before.expect, details=told)
    return after, result


def _new_result(
    trial: Trial,
    outputs: Mapping[str, float],
    field: FieldRef | None,
    by: str,
    source: str,
    details: Mapping[str, Any],
    attempt: int,
) -> Result:
    if not outputs:
        raise InvalidRecord(f"A result of {trial.id} without outputs says nothing: give at least the objective.")
    if not 1 <= attempt <= trial.attempt:
        raise ForbiddenMove(
            f"A result of attempt {attempt} of {trial.id} cannot be recorded: it has been sent {trial.attempt} times."
        )
    result = checked(
        Result,
        f"Result of {trial.id}",
        id=0,
        trial=trial.id,
        attempt=attempt,
        outputs=outputs,
        field=field,
        digest="0" * 64,
        verdict="superseded",
        by=by,
        source=source,
        details=details,
        created=time.time(),
    )
    digest = digest_of({"outputs": dict(result.outputs), "field": field and field.model_dump()})
    return result.model_copy(update={"digest": digest})


def _judge(connection: Connection, trial: Trial, result: Result) -> tuple[Verdict, Result | None]:
    """Verdict on a result, and the stored row that it repeats, if any."""
    present = result.attempt == trial.attempt
    if present and TrialState.COMPLETED in TRANSITIONS[trial.state]:
        return "accepted", None
    if present and trial.state is TrialState.STAGED:
        raise ForbiddenMove(f"{trial.id} is only STAGED: move it to RUNNING with its handle, then record its result.")
    table = schema.results
    stored = many(connection, Result, select(table).where(table.c.trial == trial.id).order_by(table.c.id))
    same = [other for other in stored if other.digest == result.digest]
    verdict: Verdict = "duplicate" if any(other.verdict == "accepted" for other in same) else "superseded"
    return verdict, next((other for other in same if other.attempt == result.attempt), None)


def _expected(trial: Trial, expect: Expect) -> Trial:
    state, version = expect
    if trial.expect != (state, version):
        raise StaleTrial(
            f"{trial.id} is no longer {state} at version {version}: it is {trial.state} at version {trial.version}. "
            "Nothing was changed; read it again and decide again.",
            now=trial.expect,
        )
    return trial


def _permitted(trial: Trial, to: TrialState) -> None:
    if to not in TRANSITIONS[trial.state]:
        ways = ", ".join(sorted(TRANSITIONS[trial.state])) or "nowhere: it is final"
        raise ForbiddenMove(
            f"{trial.id} cannot go from {trial.state} to {to}. From {trial.state} it may go to: {ways}."
        )


def _swap(connection: Connection, before: Trial, to: TrialState, **changes: object) -> Trial:
    """The one statement that changes a trial: it takes effect only on the row that was read."""
    table = schema.trials
    if to in _CLEARS_FAILURE:
        changes["failure"] = None
    query = (
        update(table)
        .where(table.c.id == before.id, table.c.state == before.state.value, table.c.version == before.version)
        .values(state=to.value, version=before.version + 1, updated=time.time(), **changes)
        .returning(*table.c)
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        now = get_trial(connection, before.id)
        return _expected(now, before.expect)
    return record_of(Trial, row)


def _void(connection: Connection, trial_id: str, reason: str) -> None:
    table = schema.approvals
    connection.execute(update(table).where(table.c.trial == trial_id, table.c.voided.is_(None)).values(voided=reason))
