"""Compare-and-swap for every change of a trial, and the checks before a change."""

import time

from sqlalchemy import Connection, bindparam, select, update

from fieldcraft.storage.ledger.errors import ForbiddenMove, StaleTrial
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import get_trial, record_of
from fieldcraft.storage.records import TRANSITIONS, Expect, Trial, TrialState, digest_of, trial_digest

_SPEC = select(schema.campaigns.c.spec).where(schema.campaigns.c.name == bindparam("campaign"))
_VOID = update(schema.approvals).where(
    schema.approvals.c.trial == bindparam("voided_trial"), schema.approvals.c.voided.is_(None)
)
# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_SWAP = (
    update(schema.trials)
    .where(
        schema.trials.c.id == bindparam("swapped"),
        schema.trials.c.state == bindparam("from_state"),
        schema.trials.c.version == bindparam("from_version"),
    )
    .returning(*schema.trials.c)
)
_CLEARS_FAILURE = frozenset({TrialState.APPROVED, TrialState.COMPLETED})


def expected(trial: Trial, expect: Expect) -> Trial:
    """The trial, if it has the state and version expected; otherwise raises ``StaleTrial`` with those it has."""
    state, version = expect
    if trial.expect != (state, version):
        raise StaleTrial(
            f"{trial.id} is no longer {state} at version {version}: it is {trial.state} at version {trial.version}. "
            "Nothing was changed; read it again and decide again.",
            now=trial.expect,
        )
    return trial


def permitted(trial: Trial, to: TrialState) -> None:
    """Raise ``ForbiddenMove`` unless ``TRANSITIONS`` has the move."""
    if to not in TRANSITIONS[trial.state]:
        ways = ", ".join(sorted(TRANSITIONS[trial.state])) or "nowhere: it is final"
        raise ForbiddenMove(
            f"{trial.id} cannot go from {trial.state} to {to}. From {trial.state} it may go to: {ways}."
        )


def what_runs(connection: Connection, trial: Trial) -> str:
    """Digest of what would run, computed afresh, so that a change made outside the ledger is noticed."""
    spec = connection.execute(_SPEC, {"campaign": trial.campaign}).scalar_one()
    return trial_digest(trial.design, digest_of(spec), trial.level)


def swap(connection: Connection, before: Trial, to: TrialState, **changes: object) -> Trial:
    """Change a trial's version in one statement that takes effect only on the row that was read."""
    if to in _CLEARS_FAILURE:
        changes["failure"] = None
    changes = {"updated": time.time(), **changes, "state": to.value, "version": before.version + 1}
    of = {"swapped": before.id, "from_state": before.state.value, "from_version": before.version}
    row = connection.execute(_SWAP, changes | of).mappings().first()
    if row is None:
        now = get_trial(connection, before.id)
        return expected(now, before.expect)
    return record_of(Trial, row)


def void(connection: Connection, trial_id: str, reason: str) -> None:
    """Void all approvals of the trial."""
    connection.execute(_VOID, {"voided_trial": trial_id, "voided": reason})
