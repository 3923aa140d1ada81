"""Designs that are chosen: proposed, adopted, edited, prioritised, picked. In an open write transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, func, select, update

from fieldcraft.storage.ledger.errors import ForbiddenMove, InvalidRecord, StaleTrial
from fieldcraft.storage.ledgers.operations.compare_and_swap import expected, swap, void
from fieldcraft.storage.ledgers.operations.results import GivenResult, append, new_result
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import (
    add_event,
    add_outbox,
    checked,
    get_campaign,
    get_trial,
    insert_trial,
    many,
    record_of,
)
from fieldcraft.storage.records import (
    SETTLED,
    CampaignRecord,
    Event,
    Expect,
    Known,
    Level,
    Origin,
    Proposal,
    Trial,
    TrialState,
    trial_digest,
)

# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_OF: BindParameter[str] = bindparam("campaign")
_OF_ITERATION = (
    select(schema.trials)
    .where(schema.trials.c.campaign == _OF, schema.trials.c.iteration == bindparam("iteration"))
    .order_by(schema.trials.c.slot)
)
_LAST = select(
    func.coalesce(func.max(schema.trials.c.number), 0), func.coalesce(func.max(schema.trials.c.iteration), -1)
).where(schema.trials.c.campaign == _OF)
_EDITABLE = frozenset({TrialState.PROPOSED, TrialState.APPROVED})


def propose(
    connection: Connection, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str
) -> tuple[Trial, ...]:
    """Record the trials of an iteration, unless it has some; see ``Ledger.propose``."""
    owner = get_campaign(connection, campaign)
    if existing := many(connection, Trial, _OF_ITERATION, campaign=campaign, iteration=iteration):
        return existing
    if not proposals:
        raise InvalidRecord(f"Iteration {iteration} of {campaign!r} has no proposals: propose at least one design.")
    last, _ = _last(connection, campaign)
    made = list[Trial]()
    for slot, proposal in enumerate(proposals):
        values = {"design": proposal.design, "origin": proposal.origin, "cost": proposal.cost}
        trial = insert_trial(connection, owner, last + 1 + slot, iteration, slot, state=TrialState.PROPOSED, **values)
        add_event(connection, campaign, "propose", by, proposal.origin.algorithm, trial=trial)
        made.append(trial)
    return tuple(made)


def adopt(
    connection: Connection, campaign: str, known: Sequence[Known], digest: str, algorithm: str, by: str
) -> tuple[Trial, ...]:
    """Record measurements from before the campaign, unless it has them; see ``Ledger.adopt``."""
    trials = schema.trials
    owner = get_campaign(connection, campaign)
    imported = trials.c.origin["kind"].as_string() == "imported"
    same = trials.c.origin["data_digest"].as_string() == digest
    there = select(trials).where(trials.c.campaign == campaign, imported, same).order_by(trials.c.number)
    if existing := many(connection, Trial, there):
        return existing
    if not known:
        raise InvalidRecord(f"Nothing was given to import into {campaign!r}: give at least one measurement.")
    last, iteration = _last(connection, campaign)
    for slot, one in enumerate(known):
        values = {"algorithm": algorithm, "iteration": iteration + 1, "slot": slot, "data_digest": digest}
        origin = checked(Origin, f"Source of measurement {slot}", kind="imported", **values)
        _adopt_one(connection, owner, last + 1 + slot, one, origin, by)
    return many(connection, Trial, there)


def _adopt_one(
    connection: Connection, owner: CampaignRecord, number: int, known: Known, origin: Origin, by: str
) -> None:
    values = {"design": known.design, "origin": origin, "outputs": known.outputs, "field": known.field, "cost": 0.0}
    state = TrialState.COMPLETED
    trial = insert_trial(connection, owner, number, origin.iteration, origin.slot, state=state, **values)
    given = GivenResult(known.outputs, known.field, None, "import", known.details)
    result = new_result(trial, trial.attempt, given, by)
    result = append(connection, result.model_copy(update={"verdict": "accepted"}))
    details = {"result": result.id, "verdict": result.verdict, "digest": result.digest}
    add_event(connection, owner.name, "import", by, origin.algorithm, trial=trial, details=details)
    add_outbox(connection, owner.name, "trial", trial)


def _last(connection: Connection, campaign: str) -> tuple[int, int]:
    """The greatest number and the greatest iteration that the campaign has given out: 0 and -1 where it has none."""
    last, latest = connection.execute(_LAST, {"campaign": campaign}).one()
    return last, latest


def edit(
    connection: Connection,
    trial_id: str,
    expect: Expect,
    design: Mapping[str, Level],
    cost: float,
    by: str,
    reason: str,
) -> Trial:
    """Give a trial another design, without an approval; see ``Ledger.edit``."""
    before = expected(get_trial(connection, trial_id), expect)
    if before.state not in _EDITABLE:
        raise ForbiddenMove(
            f"{trial_id} is {before.state} and cannot be edited: only what is PROPOSED or APPROVED can. "
            "Approve it afresh first, or let another trial be proposed."
        )
    if set(design) != set(before.design):
        raise InvalidRecord(
            f"The design of {trial_id} has the variables {', '.join(before.design)}, and the edited one has "
            f"{', '.join(design) or 'none'}. Give each of them, and no other."
        )
    proposal = checked(Proposal, f"Edited design of {trial_id}", design=design, cost=cost, origin=before.origin)
    edited = {name: proposal.design[name] for name in before.design}
    digest = trial_digest(edited, get_campaign(connection, before.campaign).digest, before.level)
    if digest == before.digest:
        raise ForbiddenMove(f"The design of {trial_id} is this one already, so there is nothing to edit.")
    revision = before.revision + 1
    changes = {"design": edited, "digest": digest, "revision": revision, "cost": proposal.cost}
    after = swap(connection, before, TrialState.PROPOSED, **changes)
    void(connection, trial_id, f"edited: {reason}")
    details = {**changes, "was": dict(before.design)}
    add_event(connection, after.campaign, "edit", by, reason, trial=after, before=before.expect, details=details)
    return after


def prioritise(
    connection: Connection, trial_id: str, priority: int, by: str, reason: str, revision: int | None
) -> Trial:
    """Set a trial's place in the order of sending; see ``Ledger.prioritise``."""
    table = schema.trials
    before = get_trial(connection, trial_id)
    if revision not in (None, before.revision):
        raise StaleTrial(
            f"{trial_id} was edited: it has revision {before.revision}, and {revision} was seen. Nothing was changed; "
            "read it again and decide again.",
            now=before.expect,
        )
    if before.state in SETTLED:
        raise ForbiddenMove(f"{trial_id} is {before.state}: it is sent no more, so its priority says nothing.")
    after = checked(Trial, trial_id, **(before.model_dump() | {"priority": priority}))
    if after.priority != before.priority:
        connection.execute(update(table).where(table.c.id == trial_id).values(priority=after.priority))
        details = {"priority": after.priority, "was": before.priority}
        add_event(
            connection, after.campaign, "prioritise", by, reason, trial=after, before=before.expect, details=details
        )
    return after


_LATEST_PICK = (
    select(schema.events)
    .where(schema.events.c.campaign == _OF, schema.events.c.action == "pick")
    .order_by(schema.events.c.id.desc())
    .limit(1)
)


def latest_pick(connection: Connection, campaign: str) -> Event | None:
    """The latest pick of a campaign."""
    row = connection.execute(_LATEST_PICK, {"campaign": campaign}).mappings().first()
    return None if row is None else record_of(Event, row)


def pick(connection: Connection, trial_id: str, expect: Expect, by: str, reason: str, how: Mapping[str, Any]) -> None:
    """Record a pick, unless the latest one is the same; see ``Ledger.pick``."""
    trial = expected(get_trial(connection, trial_id), expect)
    if not trial.counts or trial.outputs is None:
        raise ForbiddenMove(f"{trial_id} is {trial.state} and has no result: only a result can be picked.")
    details = {"how": dict(how), "outputs": dict(trial.outputs)}
    before = latest_pick(connection, trial.campaign)
    same = (trial.id, trial.version, by, reason, details)
    if before is not None and (before.trial, before.version, before.by, before.reason, dict(before.details)) == same:
        return
    add_event(connection, trial.campaign, "pick", by, reason, trial=trial, before=trial.expect, details=details)
    event = latest_pick(connection, trial.campaign)
    assert event is not None  # just added
    add_outbox(connection, trial.campaign, "pick", event)
