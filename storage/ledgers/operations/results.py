"""Results of trials: appended, judged, corrected, never overwritten. In an open write transaction."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from fieldcraft.storage.ledger.errors import ForbiddenMove, InvalidRecord
from fieldcraft.storage.ledger.standing import known_sds, standing_parts
from fieldcraft.storage.ledgers.operations import budget
from fieldcraft.storage.ledgers.operations.compare_and_swap import expected, swap
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, add_outbox, checked, get_trial, many
from fieldcraft.storage.records import (
    COUNTING,
    SETTLED,
    TRANSITIONS,
    Expect,
    FieldRef,
    Level,
    Result,
    Trial,
    TrialState,
    Verdict,
    result_digest,
)

# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_NEW = insert(schema.results).returning(schema.results.c.id)
_OF_TRIAL = select(schema.results).where(schema.results.c.trial == bindparam("trial")).order_by(schema.results.c.id)


@dataclass(frozen=True)
class GivenResult:
    """A result as given to ``Ledger.record`` or ``Ledger.correct``; one without outputs is a retraction."""

    outputs: Mapping[str, float] | None
    field: FieldRef | None
    ran: Mapping[str, Level] | None
    source: str
    details: Mapping[str, Any]


def record(
    connection: Connection,
    trial_id: str,
    expect: Expect,
    given: GivenResult,
    by: str,
    attempt: int | None,
    cost: float | None,
    seconds: float | None,
    *,
    partial: bool,
) -> tuple[Trial, Result]:
    """Append a result, judge it, and complete the trial if it is accepted; see ``Ledger.record``."""
    before = expected(get_trial(connection, trial_id), expect)
    attempt = _known_attempt(before, before.attempt if attempt is None else attempt)
    result = new_result(before, attempt, given, by, withdraws=partial)
    stored = stored_results(connection, trial_id)
    verdict, repeated = _judge(before, result, stored, partial=partial)
    if not result.outputs and (verdict != "partial" or not standing_parts(stored, attempt)):
        raise _says_nothing(trial_id)
    if repeated is not None:
        return before, repeated.model_copy(update={"verdict": verdict})
    result = append(connection, result.model_copy(update={"verdict": verdict}))
    after, ended = before, None
    if verdict == "accepted":
        ended = budget.settlement(connection, before, TrialState.COMPLETED, cost, seconds)
        ended = ended or budget.supplement(connection, before, cost, seconds)
        after = swap(connection, before, TrialState.COMPLETED, **_counted(result), **budget.added(before, ended))
    elif verdict == "partial":  # a new version: of two who record parts at once, the later has to see the earlier part
        after = swap(connection, before, before.state, updated=before.updated)
    if after.version != before.version and after.state in SETTLED:
        add_outbox(connection, after.campaign, "trial", after)
    told = {"result": result.id, "attempt": result.attempt, "verdict": verdict, "digest": result.digest}
    told |= budget.details(ended) | ({"withdraws": True} if result.withdraws else {})
    add_event(connection, after.campaign, "record", by, given.source, trial=after, before=before.expect, details=told)
    return after, result


def correct(
    connection: Connection,
    trial_id: str,
    expect: Expect,
    replaces: int,
    given: GivenResult,
    by: str,
    reason: str,
    cost: float | None,
    seconds: float | None,
) -> tuple[Trial, Result]:
    """Append a result in place of the one that counts; see ``Ledger.correct``."""
    before = expected(get_trial(connection, trial_id), expect)
    stored = stored_results(connection, trial_id)
    counting = _counting(before, stored, replaces)
    result = new_result(before, counting.attempt, given, by)
    verdict: Verdict = "retraction" if given.outputs is None else "accepted"
    known = known_sds(stored, counting.attempt)
    stated = known | given.details.get("sd", {})
    amended = budget.amendment(connection, before, cost, seconds)
    if amended is None and (result.digest, verdict, stated) == (counting.digest, counting.verdict, known):
        raise ForbiddenMove(f"Result {replaces} of {trial_id} says this already, so there is nothing to correct.")
    result = append(connection, result.model_copy(update={"verdict": verdict, "replaces": replaces}))
    after = swap(connection, before, TrialState.COMPLETED, **_counted(result), **budget.added(before, amended))
    add_outbox(connection, after.campaign, "trial", after)
    told = {"result": result.id, "replaces": replaces, "verdict": verdict, "digest": result.digest}
    told |= budget.details(amended)
    add_event(connection, after.campaign, "correct", by, reason, trial=after, before=before.expect, details=told)
    return after, result


def new_result(trial: Trial, attempt: int, given: GivenResult, by: str, *, withdraws: bool = False) -> Result:
    """A result with its digest, not judged and not stored yet; without outputs only where it may withdraw parts.

    Raises:
        InvalidRecord: No outputs, NaN or infinity, or a design that was run with other variables than the trial's.
    """
    retracted = given.outputs is None
    if not retracted and not given.outputs and not withdraws:
        raise _says_nothing(trial.id)
    if not given.outputs and (given.field is not None or given.ran is not None):
        raise InvalidRecord(f"A retraction of {trial.id} with a field or a design says two things: give neither.")
    result = checked(
        Result,
        f"Result of {trial.id}",
        id=0,
        trial=trial.id,
        attempt=attempt,
        outputs=given.outputs or {},
        field=given.field,
        ran=_differing(trial, given.ran),
        digest="0" * 64,
        verdict="superseded",
        replaces=None,
        by=by,
        source=given.source,
        details=given.details,
        created=time.time(),
    )
    return result.model_copy(update={"digest": result_digest(result.outputs, result.field, result.ran)})


def _says_nothing(trial_id: str) -> InvalidRecord:
    return InvalidRecord(f"A result of {trial_id} without outputs says nothing: give at least the objective.")


def _differing(trial: Trial, ran: Mapping[str, Level] | None) -> Mapping[str, Level] | None:
    if ran is None:
        return None
    if set(ran) != set(trial.design):
        raise InvalidRecord(
            f"The design of {trial.id} has the variables {', '.join(trial.design)}, and what was run is said to have "
            f"{', '.join(ran) or 'none'}. Give each of them, and no other."
        )
    return None if dict(ran) == dict(trial.design) else {name: ran[name] for name in trial.design}


def append(connection: Connection, result: Result) -> Result:
    """Store a result with its verdict; returns it with its id."""
    values = result.model_dump(mode="json", exclude={"id"})
    number = connection.execute(_NEW, values).scalar_one()
    return result.model_copy(update={"id": number})


def stored_results(connection: Connection, trial_id: str) -> tuple[Result, ...]:
    """All results of a trial, oldest first."""
    return many(connection, Result, _OF_TRIAL, trial=trial_id)


def _counted(result: Result) -> dict[str, Any]:
    """Columns of a trial that follow from the result that counts."""
    return {
        "outputs": None if result.verdict == "retraction" else dict(result.outputs),
        "field": result.field and result.field.model_dump(),
        "ran": result.ran and dict(result.ran),
    }


def _known_attempt(trial: Trial, attempt: int) -> int:
    """The attempt that a result belongs to; an imported trial was never sent, and has the attempt 0."""
    first = 0 if trial.origin.kind == "imported" else 1
    if not first <= attempt <= trial.attempt:
        raise ForbiddenMove(
            f"A result of attempt {attempt} of {trial.id} cannot be recorded: it has been sent {trial.attempt} times."
        )
    return attempt


def _judge(trial: Trial, result: Result, stored: tuple[Result, ...], *, partial: bool) -> tuple[Verdict, Result | None]:
    """Verdict on a result, and the stored row that it repeats, if any."""
    present = result.attempt == trial.attempt
    if present and trial.state is TrialState.STAGED:
        raise ForbiddenMove(f"{trial.id} is only STAGED: move it to RUNNING with its handle, then record its result.")
    counts = present and TrialState.COMPLETED in TRANSITIONS[trial.state]
    if counts and not partial:
        return "accepted", None
    if counts:
        stored = standing_parts(stored, trial.attempt)  # what was withdrawn may be given again
    same = [other for other in stored if other.digest == result.digest]
    twins = [o for o in same if o.attempt == result.attempt and o.details == result.details]
    repeated = next((other for other in twins if (other.verdict == "partial") == counts), None)
    if counts:
        return "partial", repeated
    counting = next((other for other in reversed(stored) if other.verdict in COUNTING), None)
    return "duplicate" if counting in same else "superseded", repeated


def _counting(trial: Trial, stored: tuple[Result, ...], replaces: int) -> Result:
    """The result that a correction replaces, after a check that it is the one that counts."""
    if trial.state is not TrialState.COMPLETED:
        raise ForbiddenMove(f"{trial.id} is {trial.state}: only a COMPLETED trial has a result to correct. Record one.")
    counting = next(other for other in reversed(stored) if other.verdict in COUNTING)
    if counting.id != replaces:
        raise ForbiddenMove(
            f"Result {replaces} of {trial.id} cannot be corrected: result {counting.id} is the one that counts. "
            "Look at it again and correct that one."
        )
    return counting
