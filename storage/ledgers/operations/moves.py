"""Moves of trials, all through one function, and the heartbeat of a running one. In an open write transaction."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, update

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger.errors import ForbiddenMove, StaleTrial
from fieldcraft.storage.ledgers.operations import budget
from fieldcraft.storage.ledgers.operations.approvals import distinct, seen, under_approval
from fieldcraft.storage.ledgers.operations.compare_and_swap import expected, permitted, swap, void
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, add_notice, add_outbox, get_trial, record_of
from fieldcraft.storage.records import SETTLED, Expect, FailureKind, Grant, Trial, TrialState

_VOIDING = frozenset({TrialState.PROPOSED, TrialState.REJECTED, TrialState.ABANDONED})


def move(
    connection: Connection,
    trial_id: str,
    to: TrialState,
    expect: Expect,
    by: str,
    reason: str,
    handle: Mapping[str, Any] | None,
    failure: FailureKind | None,
    cost: float | None,
    seconds: float | None,
    code: Code | None,
) -> Trial:
    """Move a trial by compare-and-swap; see ``Ledger.move``."""
    before = expected(get_trial(connection, trial_id), expect)
    permitted(before, to)
    _has_what_it_needs(connection, before, to, failure, code)
    if to is TrialState.STAGED:
        budget.reserve(connection, before)
    ended = budget.settlement(connection, before, to, cost, seconds)
    return moved(connection, before, to, by, reason, handle, failure, ended)


def reject_all(connection: Connection, grants: Sequence[Grant], by: str, reason: str) -> tuple[Trial, ...]:
    """Reject several trials, all or none; see ``Ledger.reject_all``."""
    to = TrialState.REJECTED
    return tuple(moved(connection, seen(connection, grant, to), to, by, reason) for grant in distinct(grants))


def moved(
    connection: Connection,
    before: Trial,
    to: TrialState,
    by: str,
    reason: str,
    handle: Mapping[str, Any] | None = None,
    failure: FailureKind | None = None,
    ended: budget.Settlement | None = None,
) -> Trial:
    """Make a move that is known to be permitted, with the event and all other rows that belong to it."""
    after = swap(connection, before, to, **_changes(before, to, handle, failure), **budget.added(before, ended))
    if to in _VOIDING:
        void(connection, before.id, f"moved to {to}: {reason}")
    details = {name: value for name, value in (("handle", handle), ("failure", failure)) if value is not None}
    details |= budget.details(ended)
    add_event(connection, after.campaign, "move", by, reason, trial=after, before=before.expect, details=details)
    if to is TrialState.HELD:
        payload = {"trial": after.id, "attempt": after.attempt, "was": before.state.value, "reason": reason}
        add_notice(connection, after.campaign, "submission unknown", f"held:{after.id}:{after.version}", payload)
    if to in SETTLED:
        add_outbox(connection, after.campaign, "trial", after)
    return after


def _changes(
    before: Trial, to: TrialState, handle: Mapping[str, Any] | None, failure: FailureKind | None
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if to is TrialState.STAGED:  # the handle of the last attempt would find the wrong job
        changes |= {"attempt": before.attempt + 1, "handle": None, "heard": None}
    if handle is not None:
        changes["handle"] = dict(handle)
    if to is TrialState.FAILED:
        changes["failure"] = failure
    return changes


def _has_what_it_needs(
    connection: Connection, before: Trial, to: TrialState, failure: FailureKind | None, code: Code | None
) -> None:
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
        under_approval(connection, before, to, code)


def hear(connection: Connection, trial_id: str, attempt: int) -> Trial:
    """Note that an attempt is running now, if it still is the present one; see ``Ledger.hear``."""
    table = schema.trials
    query = (
        update(table)
        .where(table.c.id == trial_id, table.c.state == TrialState.RUNNING.value, table.c.attempt == attempt)
        .values(heard=time.time())
        .returning(*table.c)
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        now = get_trial(connection, trial_id)
        raise StaleTrial(
            f"{trial_id} no longer runs in attempt {attempt}: it is {now.state} in attempt {now.attempt}. "
            "Nothing was changed; read it again.",
            now=now.expect,
        )
    return record_of(Trial, row)
