"""From schema 1 to schema 2, in place and in one transaction.

Schema 2 added budgets in cost and time, priorities, revisions by a person, expiry of approvals, corrections, signs of
life and notices. What schema 1 did not write down is worked out from what it did: an attempt that has ended cost what
was expected of it, and its wall time is what its result says (none, where it had no result).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, bindparam, select, text, update

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.ledger.errors import OldSchema
from fieldcraft.storage.ledgers.operations.leases import lives
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event
from fieldcraft.storage.records import OUT, Lease, Limits

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
_OUT = frozenset(state.value for state in OUT)


def upgrade(connection: Connection, place: str) -> None:
    """Bring a ledger of schema 1 to schema 2 in an open write transaction, and commit it; one that is there is left.

    Raises:
        OldSchema: A live process holds a lease, so code of schema 1 may be at work.
    """
    if connection.execute(select(schema.store.c.schema_version)).scalar_one() != 1:
        return  # another process was faster
    _nobody_at_work(connection, place)
    for column in _COLUMNS:
        connection.execute(text(f"ALTER TABLE {column}"))
    schema.notices.create(connection)
    names = connection.execute(select(schema.campaigns.c.name).order_by(schema.campaigns.c.name)).scalars().all()
    for name in names:
        _campaign(connection, name)
    connection.execute(update(schema.store).values(schema_version=2))
    commit_point("ledger.upgrade.before")
    connection.commit()
    commit_point("ledger.upgrade.after")


def _nobody_at_work(connection: Connection, place: str) -> None:
    rows = connection.execute(select(schema.leases).where(schema.leases.c.host.is_not(None))).mappings().all()
    for lease in (Lease(**row) for row in rows):
        if lives(lease):
            raise OldSchema(
                f"The ledger {place} has schema 1 and must be upgraded, but pid {lease.pid} on host {lease.host} is at "
                f"work on {lease.campaign!r}, perhaps with an older fieldcraft. Wait for it to end, and repeat; if "
                "that machine is gone for good, break its lease with the fieldcraft that took it (--break-lease)."
            )


def _campaign(connection: Connection, name: str) -> None:
    """Give one campaign, its trials and what it has in the outbox the values of schema 2."""
    campaigns, trials, outbox = schema.campaigns, schema.trials, schema.outbox
    spec = connection.execute(select(campaigns.c.spec).where(campaigns.c.name == name)).scalar_one()
    limits = _limits(spec)
    connection.execute(update(campaigns).where(campaigns.c.name == name).values(limits=limits))
    seconds = _seconds(connection, name)
    columns = (trials.c.id, trials.c.state, trials.c.attempt, trials.c.cost)
    rows = connection.execute(select(*columns).where(trials.c.campaign == name)).mappings().all()
    spent = {row["id"]: [_spent(row), seconds.get(row["id"], 0.0)] for row in rows}
    _set(connection, trials, [{"key": key, "spent": each[0], "seconds": each[1]} for key, each in spent.items()])
    items = connection.execute(select(outbox.c.id, outbox.c.kind, outbox.c.payload).where(outbox.c.campaign == name))
    payloads = [{"key": row.id, "payload": dict(_payload(row.kind, row.payload, limits, seconds))} for row in items]
    _set(connection, outbox, payloads)
    told = {"from": 1, "to": 2, "spent": {key: each for key, each in spent.items() if any(each)}}
    add_event(connection, name, "upgrade", "fieldcraft", "the ledger was upgraded from schema 1 to 2", details=told)


def _set(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Update rows by their id: ``key`` names the row, the rest are columns."""
    if rows:
        columns = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in rows[0] if name != "key"}
        values = [{"key": row["key"]} | {f"new_{name}": row[name] for name in columns} for row in rows]
        connection.execute(update(table).where(table.c.id == bindparam("key")).values(columns), values)


def _limits(spec: Mapping[str, Any]) -> dict[str, Any]:
    budget = spec.get("budget")
    trials = budget.get("trials") if isinstance(budget, Mapping) else None
    return Limits(trials=trials).model_dump()


def _spent(trial: RowMapping | Mapping[str, Any]) -> float:
    return float(trial["cost"] * (trial["attempt"] - (trial["state"] in _OUT)))


def _seconds(connection: Connection, campaign: str) -> dict[str, float]:
    """Wall time of each trial, as its results tell it: the last one of each attempt that has any."""
    results, trials = schema.results, schema.trials
    query = select(results.c.trial, results.c.attempt, results.c.details).join(trials, trials.c.id == results.c.trial)
    rows = connection.execute(query.where(trials.c.campaign == campaign).order_by(results.c.id)).all()
    attempts = {(row.trial, row.attempt): float(row.details.get("seconds", 0.0)) for row in rows}
    totals: dict[str, float] = {}
    for (trial, _), seconds in attempts.items():
        totals[trial] = totals.get(trial, 0.0) + seconds
    return totals


def _payload(
    kind: str, payload: Mapping[str, Any], limits: Mapping[str, Any], seconds: Mapping[str, float]
) -> Iterator[tuple[str, Any]]:
    """The items of an outbox payload as schema 2 writes it; what was spent is that of the state it tells."""
    yield from payload.items()
    if kind in ("campaign", "finish"):
        yield "limits", dict(limits)
    if kind == "trial":
        yield from {"priority": 0, "ran": None, "heard": None, "spent": _spent(payload)}.items()
        yield "seconds", seconds.get(payload["id"], 0.0)
