"""Upgrade from schema 1 to schema 2.

Schema 2 added budgets in cost and time, priorities, revisions by a person, expiry of approvals, corrections, heartbeats
and notices. Values that schema 1 did not record are derived from those it did. An ended attempt cost what was expected
of it. Its wall time is taken from its result (none if it had no result).
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    TableClause,
    Text,
    UniqueConstraint,
    bindparam,
    column,
    func,
    insert,
    select,
    table,
    text,
    update,
)

# A column that must have a value needs one to begin with; the true values follow in the same transaction.
_COLUMNS = (
    "campaigns ADD COLUMN limits JSON NOT NULL DEFAULT '{}'",
    "trials ADD COLUMN priority INTEGER NOT NULL DEFAULT 0",
    "trials ADD COLUMN ran JSON",
    "trials ADD COLUMN spent FLOAT NOT NULL DEFAULT 0",
    "trials ADD COLUMN seconds FLOAT NOT NULL DEFAULT 0",
    "trials ADD COLUMN heard FLOAT",
    "results ADD COLUMN ran JSON",
    "results ADD COLUMN replaces INTEGER REFERENCES results (id)",
    "approvals ADD COLUMN expires FLOAT",
)
_OUT = ("STAGED", "RUNNING", "HELD")  # an attempt is out

_metadata = MetaData()
_json = JSON(none_as_null=True)
_double = Float(53)
_whole = Integer().with_variant(BigInteger(), "postgresql")
_campaigns = Table(
    "campaigns",
    _metadata,
    Column("name", String(100), primary_key=True),
    Column("spec", _json),
    Column("limits", _json),
)
_notices = Table(
    "notices",
    _metadata,
    Column("id", _whole, primary_key=True, autoincrement=True, default=0),  # no sequence: who adds a row numbers it
    Column("campaign", ForeignKey("campaigns.name"), nullable=False),
    Column("event", String(40), nullable=False),
    Column("key", String(200), nullable=False),
    Column("payload", _json, nullable=False),
    Column("created", _double, nullable=False),
    Column("told", _double),
    Column("tries", _whole, nullable=False),
    UniqueConstraint("campaign", "key"),
    sqlite_autoincrement=True,
)
_trials = table(
    "trials",
    column("id", String),
    column("campaign", String),
    column("state", String),
    column("attempt", Integer),
    column("cost", Float),
    column("spent", Float),
    column("seconds", Float),
)
_results = table(
    "results", column("id", Integer), column("trial", String), column("attempt", Integer), column("details", _json)
)
_outbox = table(
    "outbox", column("id", Integer), column("campaign", String), column("kind", String), column("payload", _json)
)
_events = table(
    "events",
    column("id", Integer),
    column("campaign", String),
    column("action", String),
    column("by", Text),
    column("reason", Text),
    column("details", _json),
    column("created", Float),
)


def upgrade(connection: Connection) -> None:
    """Bring a ledger of schema 1 to schema 2 in an open write transaction."""
    for each in _COLUMNS:
        connection.execute(text(f"ALTER TABLE {each}"))
    _notices.create(connection)
    for name in connection.execute(select(_campaigns.c.name).order_by(_campaigns.c.name)).scalars().all():
        _campaign(connection, name)


def _campaign(connection: Connection, name: str) -> None:
    """Give one campaign, its trials and its outbox items the values of schema 2."""
    spec = connection.execute(select(_campaigns.c.spec).where(_campaigns.c.name == name)).scalar_one()
    limits = _limits(spec)
    connection.execute(update(_campaigns).where(_campaigns.c.name == name).values(limits=limits))
    seconds = _seconds(connection, name)
    columns = (_trials.c.id, _trials.c.state, _trials.c.attempt, _trials.c.cost)
    rows = connection.execute(select(*columns).where(_trials.c.campaign == name)).mappings().all()
    spent = {row["id"]: [_spent(row), seconds.get(row["id"], 0.0)] for row in rows}
    _set(connection, _trials, [{"key": key, "spent": each[0], "seconds": each[1]} for key, each in spent.items()])
    items = connection.execute(select(_outbox).where(_outbox.c.campaign == name))
    payloads = [{"key": row.id, "payload": dict(_payload(row.kind, row.payload, limits, seconds))} for row in items]
    _set(connection, _outbox, payloads)
    told = {"from": 1, "to": 2, "spent": {key: each for key, each in spent.items() if any(each)}}
    highest = select(func.coalesce(func.max(_events.c.id), 0)).scalar_subquery()
    said = {"action": "upgrade", "by": "fieldcraft", "reason": "the ledger was upgraded from schema 1 to 2"}
    event = {"id": highest + 1, "campaign": name, **said, "details": told, "created": time.time()}
    connection.execute(insert(_events).values(event))


def _set(connection: Connection, rows_of: TableClause, rows: list[dict[str, Any]]) -> None:
    """Update rows by their id: ``key`` names the row, the rest are columns."""
    if rows:
        columns = {name: bindparam(f"new_{name}", type_=rows_of.c[name].type) for name in rows[0] if name != "key"}
        values = [{"key": row["key"]} | {f"new_{name}": row[name] for name in columns} for row in rows]
        connection.execute(update(rows_of).where(rows_of.c.id == bindparam("key")).values(columns), values)


def _limits(spec: Mapping[str, Any]) -> dict[str, Any]:
    budget = spec.get("budget")
    trials = budget.get("trials") if isinstance(budget, Mapping) else None
    return {"trials": None if trials is None else int(trials), "cost": None, "seconds": None, "attempt_seconds": 0.0}


def _spent(trial: RowMapping | Mapping[str, Any]) -> float:
    return float(trial["cost"] * (trial["attempt"] - (trial["state"] in _OUT)))


def _seconds(connection: Connection, campaign: str) -> dict[str, float]:
    """Wall time of each trial in seconds, from its results: the last one of each attempt that has any."""
    query = select(_results).join(_trials, _trials.c.id == _results.c.trial)
    rows = connection.execute(query.where(_trials.c.campaign == campaign).order_by(_results.c.id)).all()
    attempts = {(row.trial, row.attempt): float(row.details.get("seconds", 0.0)) for row in rows}
    totals: dict[str, float] = {}
    for (trial, _), seconds in attempts.items():
        totals[trial] = totals.get(trial, 0.0) + seconds
    return totals


def _payload(
    kind: str, payload: Mapping[str, Any], limits: Mapping[str, Any], seconds: Mapping[str, float]
) -> Iterator[tuple[str, Any]]:
    """Items of an outbox payload as schema 2 writes it; the amount spent is that of the state in the payload."""
    yield from payload.items()
    if kind in ("campaign", "finish"):
        yield "limits", dict(limits)
    if kind == "trial":
        yield from {"priority": 0, "ran": None, "heard": None, "spent": _spent(payload)}.items()
        yield "seconds", seconds.get(payload["id"], 0.0)
