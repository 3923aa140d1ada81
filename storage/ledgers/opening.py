"""Opening of a ledger, the same for all back ends: tables are made, found, upgraded or refused."""

import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, insert, inspect, select, update

from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.ledger.errors import NewerSchema, NoLedger, NotALedger, OldSchema
from fieldcraft.storage.ledgers.operations.leases import is_work, lives
from fieldcraft.storage.ledgers.statements import making
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.upgrades import STEPS
from fieldcraft.storage.records import Lease


def settle_schema(
    engine: Engine, place: str, *, make: Callable[[Engine], None] | None, may_upgrade: bool, writable: bool
) -> None:
    """Bring the database to the tables of this schema, or refuse it and change nothing.

    Args:
        engine: The database; a connection with the option ``write`` has all other writers wait.
        place: Its name in an error.
        make: Makes the tables of a database that has none, as ``make_tables`` does; None to refuse it.
        may_upgrade: True if an older ledger may be upgraded; otherwise it is refused.
        writable: True if this process may write the database.

    Raises:
        NoLedger: There are no tables, and ``make`` is None.
        NotALedger: The tables belong to another program.
        NewerSchema: It was written by a newer schema.
        OldSchema: It was written by an older one and cannot or may not be upgraded.
    """
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        found = connection.execute(select(schema.store)).mappings().first() if "store" in tables else None
    if found is None:
        if tables:
            raise NotALedger(f"{place} has tables, but is not a ledger of fieldcraft. Name another file or database.")
        if make is None:
            raise NoLedger(f"{place} is empty, so there is no ledger. Start a campaign with `fieldcraft run`.")
        make(engine)
    elif found["format"] not in (schema.FORMAT, schema.SEALED):
        raise NotALedger(f"{place} is a store of {found['format']!r}, not a ledger of fieldcraft. Name another one.")
    elif found["schema_version"] > schema.SCHEMA_VERSION:
        raise NewerSchema(
            f"The ledger {place} has schema version {found['schema_version']}; this fieldcraft knows versions up to "
            f"{schema.SCHEMA_VERSION}. Nothing was changed. Use the fieldcraft that wrote it, or a newer one."
        )
    elif found["schema_version"] < min(STEPS):
        raise NotALedger(
            f"The ledger {place} says that its schema version is {found['schema_version']}, which there never was: it "
            "is damaged. Nothing was changed. Restore it from a backup."
        )
    elif found["schema_version"] < schema.SCHEMA_VERSION:
        _upgrade(engine, place, found["schema_version"], may_upgrade=may_upgrade, writable=writable)


def make_tables(engine: Engine) -> None:
    """Make the tables of an empty database, all or none; if several processes try at once, one of them makes them."""
    with engine.connect().execution_options(write=True) as connection:
        if inspect(connection).get_table_names():
            return  # another process was faster
        for statement in making(connection.dialect):
            connection.exec_driver_sql(statement)
        values = {"format": schema.FORMAT, "schema_version": schema.SCHEMA_VERSION, "created": time.time()}
        connection.execute(insert(schema.store).values(values))
        commit_point("ledger.schema.before")
        connection.commit()
        commit_point("ledger.schema.after")


def _upgrade(engine: Engine, place: str, version: int, *, may_upgrade: bool, writable: bool) -> None:
    if not may_upgrade:
        raise OldSchema(
            f"The ledger {place} has schema version {version} and this fieldcraft reads {schema.SCHEMA_VERSION}. Any "
            "other command, such as `fieldcraft status`, upgrades it; back it up first. Nothing was changed."
        )
    if not writable:
        raise OldSchema(
            f"The ledger {place} has schema {version} and must be upgraded before it is read, but you may not write it."
            " Ask its owner to run `fieldcraft status` on it, or copy the folder and work on the copy."
        )
    with engine.connect().execution_options(write=True) as connection:
        version = connection.execute(select(schema.store.c.schema_version)).scalar_one()
        if version >= schema.SCHEMA_VERSION:
            return  # another process was faster
        _require_nobody_at_work(connection, place, version)
        for step in range(version, schema.SCHEMA_VERSION):
            STEPS[step](connection)
        connection.execute(update(schema.store).values(schema_version=schema.SCHEMA_VERSION))
        commit_point("ledger.upgrade.before")
        connection.commit()
        commit_point("ledger.upgrade.after")


def _require_nobody_at_work(connection: Connection, place: str, version: int) -> None:
    """Refuse an upgrade while a live process holds a lease, since it may run code of the older schema."""
    rows = connection.execute(select(schema.leases).where(schema.leases.c.host.is_not(None))).mappings().all()
    for lease in (Lease(**row) for row in rows):
        if is_work(lease.campaign) and lives(lease):
            raise OldSchema(
                f"The ledger {place} has schema {version} and must be upgraded, but pid {lease.pid} on host "
                f"{lease.host} is at work on {lease.campaign!r}, perhaps with an older fieldcraft. Wait for it to end, "
                "and repeat; if that machine is gone for good, break its lease with the fieldcraft that took it "
                "(--break-lease)."
            )
