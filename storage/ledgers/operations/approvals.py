"""Approvals: granted for exactly what will run, checked whenever a trial is sent. In an open write transaction."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, insert, select

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger.errors import ForbiddenMove, InvalidRecord
from fieldcraft.storage.ledgers.operations import budget, codes
from fieldcraft.storage.ledgers.operations.compare_and_swap import expected, permitted, swap, void, what_runs
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, checked, get_trial, record_of
from fieldcraft.storage.records import Approval, Grant, Trial, TrialState

_NEW = insert(schema.approvals).inline()
_LIVE = (
    codes.GRANTED.where(schema.approvals.c.trial == bindparam("trial"), schema.approvals.c.voided.is_(None))
).order_by(schema.approvals.c.id.desc())
_STAGED = select(func.count()).where(
    schema.events.c.trial == bindparam("trial"),
    schema.events.c.after == TrialState.STAGED.value,
    schema.events.c.version > bindparam("approved"),
    schema.events.c.action == "move",
)


@dataclass(frozen=True)
class Leave:
    """Terms of an approval that are the same for all its trials; the fields are those of ``Ledger.approve``."""

    by: str
    comment: str
    policy: str
    attempts: int
    expires: float | None
    code: Code | None


def approve(connection: Connection, grant: Grant, leave: Leave) -> Trial:
    """Write an approval and move the trial to APPROVED; see ``Ledger.approve``."""
    if leave.attempts < 1:
        raise InvalidRecord(
            f"An approval of {grant.trial} for {leave.attempts} attempts would approve nothing: give at least 1."
        )
    before = seen(connection, grant, TrialState.APPROVED)
    void(connection, grant.trial, "replaced by a later approval")
    ended = budget.settlement(connection, before, TrialState.APPROVED, None, None)
    after = swap(connection, before, TrialState.APPROVED, **budget.added(before, ended))
    terms = {"digest": grant.digest, "policy": leave.policy, "attempts": leave.attempts, "expires": leave.expires}
    code = {} if leave.code is None else {"code": codes.kept(connection, after.campaign, leave.code, leave.by)}
    approval = checked(
        Approval,
        f"Approval of {grant.trial}",
        id=0,
        trial=grant.trial,
        revision=before.revision,
        by=leave.by,
        comment=leave.comment,
        version=after.version,
        created=after.updated,
        voided=None,
        **terms,
    )
    connection.execute(_NEW, approval.model_dump(mode="json", exclude={"id", "code"}))
    details = terms | code | budget.details(ended)
    by, comment, campaign = leave.by, leave.comment, after.campaign
    add_event(connection, campaign, "approve", by, comment, trial=after, before=before.expect, details=details)
    return after


def approve_all(connection: Connection, grants: Sequence[Grant], leave: Leave) -> tuple[Trial, ...]:
    """Approve several trials, all or none; see ``Ledger.approve_all``."""
    return tuple(approve(connection, grant, leave) for grant in distinct(grants))


def distinct(grants: Sequence[Grant]) -> Sequence[Grant]:
    """The grants, after a check that there is at least one and that no trial is named twice."""
    names = [grant.trial for grant in grants]
    if not names:
        raise InvalidRecord("The decision names no trial, so nothing was decided: name at least one.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRecord(f"The decision names {', '.join(twice)} more than once: name each trial once.")
    return grants


def seen(connection: Connection, grant: Grant, to: TrialState) -> Trial:
    """The trial of a decision, after a check that it is as the person saw it and may make the move they want."""
    trial = expected(get_trial(connection, grant.trial), grant.expect)
    permitted(trial, to)
    if grant.digest != (runs := what_runs(connection, trial)):
        raise ForbiddenMove(
            f"The decision on {trial.id} names the digest {grant.digest}, but what would run has the digest {runs}. "
            "Look at the trial again and decide on what it is now."
        )
    return trial


def under_approval(connection: Connection, trial: Trial, to: TrialState, code: Code | None) -> None:
    """Refuse unless a live approval covers exactly what would run, has not expired and has an attempt left.

    Args:
        connection: The open transaction.
        trial: The trial.
        to: Its next state; the code is checked only for STAGED.
        code: Code that would run it.
    """
    row = connection.execute(_LIVE, {"trial": trial.id}).mappings().first()
    if row is None:
        raise ForbiddenMove(f"{trial.id} cannot be moved to {to}: it has no live approval. Approve it first.")
    approval = record_of(Approval, row)
    if approval.digest != (runs := what_runs(connection, trial)) or approval.revision != trial.revision:
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: its approval names the digest {approval.digest} (revision "
            f"{approval.revision}), but {runs} (revision {trial.revision}) would run. Approve what it is now."
        )
    if to is TrialState.STAGED and approval.code != (code and code.digest):
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: its approval by {approval.by} does not cover the code that would run "
            f"({codes.difference(connection, trial.campaign, approval.code, code)}). Approve it again."
        )
    if approval.expires is not None and approval.expires <= (now := time.time()):
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: its approval by {approval.by} expired "
            f"{(now - approval.expires) / 3600:.1f} h ago. Approve it again."
        )
    if (used := _used(connection, approval)) >= approval.attempts:
        raise ForbiddenMove(
            f"{trial.id} cannot be moved to {to}: {used} of the {approval.attempts} attempts approved are used up. "
            "Approve it again for more."
        )


def _used(connection: Connection, approval: Approval) -> int:
    """Number of times the trial was staged under an approval."""
    return connection.execute(_STAGED, {"trial": approval.trial, "approved": approval.version}).scalar_one()
