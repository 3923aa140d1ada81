"""Queries of a whole campaign that read only the columns they need, so that thousands of trials cost little."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
)

from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import record_of
from fieldcraft.storage.limits import LARGEST
from fieldcraft.storage.records import (
    OUT,
    SETTLED,
    ResultSummary,
    Retriable,
    Step,
    Trial,
    TrialState,
    TrialSummary,
)

_LEVEL = schema.trials.c.origin["level"].as_integer()  # of the simulator; NULL for the target
_BLOCK = 1000  # trials, by number, whose amounts are summed up together


class Amounts(NamedTuple):
    """Sums over trials: number of the target's that were sent, budget units spent and reserved, wall time."""

    sent: int
    spent: float
    reserved: float
    seconds: float  # of attempts that have ended
    out: int  # trials with an attempt that is out


def _as_text(column: Column[Any]) -> ColumnElement[Any]:
    """A column of JSON as its text, which ``_parsed`` reads, a field's as its digest; any other column as it is."""
    if column.name == "field":
        digest: ColumnElement[Any] = column["digest"].as_string()
        return digest.label(column.name)
    return cast(column, Text).label(column.name) if isinstance(column.type, JSON) else column


def _trials() -> Select[Any]:
    table = schema.trials
    of_origin = {"imported": table.c.origin["kind"].as_string() == "imported", "level": _LEVEL}
    columns = [
        of_origin[name].label(name) if name in of_origin else _as_text(table.c[name]) for name in TrialSummary._fields
    ]
    return select(*columns).where(table.c.campaign == bindparam("campaign")).order_by(table.c.number)


def _results() -> Select[Any]:
    table, trials = schema.results, schema.trials
    sd = table.c.details["sd"].as_string().label("sd")
    query = select(*(sd if name == "sd" else _as_text(table.c[name]) for name in ResultSummary._fields))
    query = query.join(trials, trials.c.id == table.c.trial).where(table.c.id > bindparam("after"))
    return query.where(trials.c.campaign == bindparam("campaign")).order_by(table.c.id)


def _settled() -> Select[Any]:
    table = schema.events
    moved = or_(table.c.before.is_(None), table.c.before != table.c.after)
    came = (table.c.campaign == bindparam("campaign"), table.c.after.in_([state.value for state in SETTLED]), moved)
    query = select(table.c.trial, func.max(table.c.id)).where(*came, table.c.id > bindparam("after"))
    return query.group_by(table.c.trial)


def _retriable() -> Select[Any]:
    trials, approvals, events = schema.trials, schema.approvals, schema.events
    of_trial = events.c.trial == trials.c.id
    staged = (events.c.action == "move", events.c.after == TrialState.STAGED.value)
    used = select(func.count()).where(of_trial, *staged, events.c.version > approvals.c.version).scalar_subquery()
    fell = (events.c.after == TrialState.FAILED.value, events.c.before != events.c.after)
    failed = select(func.max(events.c.created)).where(of_trial, *fell)
    attempts = approvals.c.attempts.label("attempts_approved")
    more = (used.label("used"), attempts, approvals.c.expires, failed.scalar_subquery().label("failed"))
    query = select(trials, *more).join(approvals, approvals.c.trial == trials.c.id)
    transient = (trials.c.state == TrialState.FAILED.value, trials.c.failure == "transient")
    query = query.where(trials.c.campaign == bindparam("campaign"), *transient, approvals.c.voided.is_(None))
    # By an expression: SQLite else takes the index that is in this order, and reads all trials for those that failed.
    return query.where(used < approvals.c.attempts).order_by(trials.c.number + 0)


def _counted(column: ColumnElement[float]) -> ColumnElement[float]:
    """An amount for summation, capped at ``LARGEST``; a simulation may report a greater one."""
    return case((column > LARGEST, LARGEST), else_=column)


def _amounts() -> Select[Any]:
    table = schema.trials
    out = table.c.state.in_([state.value for state in OUT])
    sums = (
        func.sum(case((and_(table.c.attempt > 0, _LEVEL.is_(None)), 1), else_=0), type_=Integer),
        func.sum(_counted(table.c.spent)),
        func.sum(case((out, _counted(table.c.cost)), else_=0.0)),
        func.sum(_counted(table.c.seconds)),
        func.sum(case((out, 1), else_=0), type_=Integer),
    )
    query = select((table.c.number // _BLOCK).label("block"), *sums).where(table.c.campaign == bindparam("campaign"))
    return query.group_by("block")


# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_AMOUNTS = _amounts()
_AMOUNTS_IN = _AMOUNTS.where(schema.trials.c.number.between(bindparam("first"), bindparam("last")))
_BLOCKS = select(schema.trials.c.number // _BLOCK).where(schema.trials.c.id.in_(bindparam("among", expanding=True)))
_TRIALS, _RESULTS, _SETTLED, _RETRIABLE = _trials(), _results(), _settled(), _retriable()
_AMONG = _TRIALS.where(schema.trials.c.id.in_(bindparam("among", expanding=True)))
_STATES = {state.value: state for state in TrialState}
_decode = json.JSONDecoder().raw_decode  # ``json.loads`` takes three times as long, most of it for blanks around


def _parsed(text: str) -> Any:
    value, end = _decode(text)
    if end != len(text):
        raise ValueError(f"{text[end:]!r:.120} stands after the end of a value")
    return value


def trials(connection: Connection, campaign: str, among: Collection[str] | None = None) -> tuple[TrialSummary, ...]:
    """Trials in brief, by number, all or those of these ids; see ``Ledger.summaries``."""
    query, named = (_TRIALS, {}) if among is None else (_AMONG, {"among": sorted(among)})
    rows = connection.execute(query, {"campaign": campaign, **named}).all()
    return tuple(
        TrialSummary(
            trial,
            number,
            iteration,
            _STATES[state],
            _parsed(design),
            None if ran is None else _parsed(ran),
            None if outputs is None else _parsed(outputs),
            *others,
        )
        for trial, number, iteration, state, design, ran, outputs, *others in rows
    )


def results(connection: Connection, campaign: str, after: int = 0) -> tuple[ResultSummary, ...]:
    """Results in brief with an id above ``after``, oldest first; see ``Ledger.result_summaries``."""
    rows = connection.execute(_RESULTS, {"campaign": campaign, "after": after}).all()
    return tuple(
        ResultSummary(
            number,
            trial,
            _parsed(outputs),
            None if ran is None else _parsed(ran),
            verdict,
            field,
            {} if sd is None else _parsed(sd),
        )
        for number, trial, outputs, ran, verdict, field, sd in rows
    )


def amounts(connection: Connection, campaign: str, among: Collection[str] | None = None) -> Mapping[int, Amounts]:
    """Sums over each block of trials, by its number: of all blocks, or of those with trials of these ids."""
    if among is None:
        rows = connection.execute(_AMOUNTS, {"campaign": campaign}).all()
        return {block: Amounts(*sums) for block, *sums in rows}
    found = dict[int, Amounts]()
    for block in set(connection.execute(_BLOCKS, {"among": sorted(among)}).scalars()):
        within = {"first": block * _BLOCK, "last": block * _BLOCK + _BLOCK - 1}
        _, *sums = connection.execute(_AMOUNTS_IN, {"campaign": campaign, **within}).one()
        found[block] = Amounts(*sums)
    return found


def extracts(connection: Connection, campaign: str, step: Step, keys: Sequence[str]) -> Mapping[int, Mapping[str, Any]]:
    """Entries of the payloads of a step's products, by iteration; see ``Ledger.extracts``."""
    table = schema.products
    columns = [table.c.payload[key].label(key) for key in keys]
    query = select(table.c.iteration, *columns).where(table.c.campaign == campaign, table.c.step == step)
    rows = connection.execute(query.order_by(table.c.iteration))
    return {iteration: dict(zip(keys, values, strict=True)) for iteration, *values in rows}


def settled(connection: Connection, campaign: str, after: int = 0) -> Mapping[str, int]:
    """Ids of the events above ``after`` that settled the trials; see ``Ledger.settled``."""
    rows = connection.execute(_SETTLED, {"campaign": campaign, "after": after})
    return {trial: event for trial, event in rows}


def corrected(connection: Connection, campaign: str) -> frozenset[str]:
    """Trials with a result that replaces another; see ``Ledger.corrected``."""
    table, trials = schema.results, schema.trials
    query = select(table.c.trial).join(trials, trials.c.id == table.c.trial)
    query = query.where(trials.c.campaign == campaign, table.c.replaces.is_not(None))
    return frozenset(connection.execute(query).scalars())


def retriable(connection: Connection, campaign: str) -> tuple[Retriable, ...]:
    """Trials that failed temporarily and may be sent again; see ``Ledger.retriable``."""
    rows = connection.execute(_RETRIABLE, {"campaign": campaign}).mappings()
    return tuple(
        Retriable(record_of(Trial, row), row["used"], row["attempts_approved"], row["expires"], row["failed"])
        for row in rows
    )


def tracked(connection: Connection, campaign: str) -> Mapping[str, str]:
    """Tracking runs by key; the campaign's own run also shows its end. See ``Ledger.tracked``."""
    table = schema.outbox
    payload = (table.c.payload["id"].as_string(), table.c.payload["iteration"].as_string())
    query = select(table.c.kind, *payload, table.c.run_id).order_by(table.c.id)
    rows = connection.execute(query.where(table.c.campaign == campaign, table.c.run_id.is_not(None)))
    keys = {"trial": "trial:{0}", "surrogate": "surrogate:{1}"}
    return {keys.get(kind, "campaign").format(trial, iteration): run for kind, trial, iteration, run in rows}
