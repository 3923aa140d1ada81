"""Custody of a ledger: copies of one instant, the seal of a ledger that was moved, and repairs by people.

A sealed ledger is marked in its format, in the one row that every write reads before it begins. A program that is too
old to know seals refuses that format too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, null, select, update

from fieldcraft.storage.ledger.errors import InvalidRecord, LedgerError, Sealed
from fieldcraft.storage.ledgers.operations.leases import hold
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, get_campaign
from fieldcraft.storage.records import Lease

_ROWS_AT_ONCE = 500


Rows = list[dict[str, Any]]


def read_rows(connection: Connection) -> Iterator[tuple[Table, Rows]]:
    """All rows of all tables, in portions, in the order in which they may refer to each other.

    Raises:
        LedgerError: A row cannot be read.
    """
    for table in schema.metadata.sorted_tables:
        query = select(table).order_by(*table.primary_key.columns)
        try:
            with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as found:
                for part in found.mappings().partitions():
                    yield table, [dict(row) for row in part]
        except ValueError as error:  # a column that is no JSON
            raise LedgerError(
                f"A row of {table.name} cannot be read ({error}), so no copy was made. `fieldcraft doctor` names it."
            ) from error


def write_rows(connection: Connection, parts: Iterable[tuple[Table, Rows]]) -> None:
    """Write the rows of ``read_rows`` into tables that are empty except for the row with their format."""
    connection.execute(delete(schema.store))
    for table, rows in parts:
        connection.execute(insert(table), rows)


def require_unsealed(connection: Connection) -> None:
    """Allow a write to begin; writers take turns, so the ledger cannot be sealed before the write has ended.

    Raises:
        Sealed: The campaigns were moved.
    """
    said = connection.execute(select(schema.store.c.format)).scalar_one()
    if said == schema.SEALED:
        raise Sealed(_sealed(connection))


def sealed_to(connection: Connection) -> str | None:
    """Place that the campaigns were moved to; None if they are here."""
    if connection.execute(select(schema.store.c.format)).scalar_one() != schema.SEALED:
        return None
    return str(_last_seal(connection)["to"])


def seal(connection: Connection, to: str, leases: Sequence[Lease], by: str, reason: str) -> None:
    """Seal the ledger, under the leases of all its campaigns; see ``Ledger.seal``."""
    for lease in leases:
        hold(connection, lease)
    names = _names(connection)
    if missing := sorted(set(names) - {lease.campaign for lease in leases}):
        raise InvalidRecord(f"The ledger cannot be sealed: {missing[0]} was created meanwhile. Repeat it.")
    if not names:
        raise InvalidRecord("The ledger holds no campaign, so there is nothing to move. Start anew elsewhere.")
    connection.execute(update(schema.store).values(format=schema.SEALED))
    for name in names:
        add_event(connection, name, "seal", by, reason, details={"to": to})


def unseal(connection: Connection, by: str, reason: str) -> None:
    """Open a sealed ledger again; an open one is left as it is."""
    if sealed_to(connection) is None:
        return
    details = {"to": sealed_to(connection)}
    connection.execute(update(schema.store).values(format=schema.FORMAT))
    for name in _names(connection):
        add_event(connection, name, "unseal", by, reason, details=details)


def take_over(connection: Connection, by: str, reason: str, details: Mapping[str, Any]) -> None:
    """Make a copy the ledger of its own place; see ``Ledger.take_over``."""
    names = _names(connection)
    if all(_took_over(connection, name, details) for name in names):
        return
    connection.execute(update(schema.store).values(format=schema.FORMAT))
    free = {name: null() for name in ("host", "pid", "started", "acquired")}
    connection.execute(update(schema.leases).values(token=schema.leases.c.token + 1, **free))
    for name in names:
        forget_exports(connection, name)
        add_event(connection, name, "restore", by, reason, details=details)


def _took_over(connection: Connection, campaign: str, details: Mapping[str, Any]) -> bool:
    """True if the campaign's last event is a takeover with these details."""
    table = schema.events
    last = select(table).where(table.c.campaign == campaign).order_by(table.c.id.desc()).limit(1)
    row = connection.execute(last).mappings().first()
    return row is not None and row["action"] == "restore" and dict(row["details"]) == dict(details)


def forget_exports(connection: Connection, campaign: str) -> None:
    """Clear the export marks of a campaign."""
    table = schema.outbox
    connection.execute(update(table).where(table.c.campaign == campaign).values(exported=null(), run_id=null()))


def mend(connection: Connection, campaign: str, by: str, reason: str, details: Mapping[str, Any]) -> None:
    """Record a repair that a person has made or is about to make; see ``Ledger.mend``."""
    get_campaign(connection, campaign)
    add_event(connection, campaign, "repair", by, reason, details=details)


def _names(connection: Connection) -> list[str]:
    return [str(name) for name in connection.execute(select(schema.campaigns.c.name)).scalars()]


def _last_seal(connection: Connection) -> Mapping[str, Any]:
    table = schema.events
    last = select(table).where(table.c.action == "seal").order_by(table.c.id.desc()).limit(1)
    row = connection.execute(last).mappings().one()
    return {"to": row["details"]["to"], "by": row["by"], "created": row["created"]}


def _sealed(connection: Connection) -> str:
    last = _last_seal(connection)
    return (
        f"The campaigns of this ledger were moved to {last['to']} by {last['by']}: nothing is run or changed here any "
        "more. Go on there; if that copy is lost for good, `fieldcraft move --undo --reason WHY` goes on here."
    )
