"""Rows that cannot be read: they are found, named and skipped, so that the others are still read."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Column, Connection, Select, Table, func, select
from sqlalchemy.exc import DBAPIError

from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import many
from fieldcraft.storage.records import (
    Approval,
    CampaignRecord,
    Event,
    Lease,
    Notice,
    OutboxItem,
    Product,
    Record,
    Result,
    Trial,
)

R = TypeVar("R", bound=Record)

FAULTS = (DBAPIError, ValueError, TypeError, KeyError)
"""What a row that was altered behind the ledger's back raises when it is read."""
_AT_ONCE = 500  # rows in memory together
_NAMED = 10  # rows of a table that are named one by one
_QUOTED = 120  # characters of what is wrong
_KINDS: Sequence[tuple[Table, type[Record]]] = (
    (schema.campaigns, CampaignRecord),
    (schema.trials, Trial),
    (schema.events, Event),
    (schema.results, Result),
    (schema.approvals, Approval),
    (schema.products, Product),
    (schema.leases, Lease),
    (schema.outbox, OutboxItem),
    (schema.notices, Notice),
)


@dataclass(frozen=True)
class Unreadable:
    """A row that cannot be read.

    Args:
        table: Its table.
        key: Its key, as far as that can be read.
        trial: Id of its trial, where it is a trial or of one and that can be read.
        why: Problem of the row.
    """

    table: str
    key: str
    trial: str | None
    why: str

    def __str__(self) -> str:
        owner = f" ({self.trial})" if self.trial not in (None, self.key) else ""
        return f"Row {self.key} of {self.table}{owner} cannot be read: {self.why}."


def find(connection: Connection) -> Iterator[Unreadable]:
    """All rows of the ledger that cannot be read, table by table."""
    for table, kind in _KINDS:
        query = select(table).order_by(*table.primary_key.columns)
        if kind is Lease:  # one that was given back keeps its row, and names no holder
            query = query.where(table.c.host.is_not(None))
        for place, error in _faults(connection, kind, query):
            yield _described(connection, table, query, place, error)


def said(rows: Sequence[Unreadable]) -> list[str]:
    """One sentence for each row, up to a number of rows of each table, and one for those beyond it."""
    told = []
    for table in dict.fromkeys(row.table for row in rows):
        found = [row for row in rows if row.table == table]
        told += [str(row) for row in found[:_NAMED]]
        if len(found) > _NAMED:
            told.append(f"{len(found) - _NAMED} more rows of {table} cannot be read.")
    return told


def readable(connection: Connection, kind: type[R], query: Select[Any]) -> tuple[R, ...]:
    """Rows of an ordered query as records, without those that cannot be read."""
    try:
        return many(connection, kind, query)
    except FAULTS:
        parts = _part(connection, kind, query, 0, _count(connection, query))
        return tuple(record for _, record in parts if isinstance(record, kind))


def _count(connection: Connection, query: Select[Any]) -> int:
    bare = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    return int(connection.execute(bare).scalar_one())


def _faults(connection: Connection, kind: type[R], query: Select[Any]) -> Iterator[tuple[int, Exception]]:
    """Positions of the rows that cannot be read, with the error of each; the others are read as a stream."""
    start, count = 0, _count(connection, query)
    while start < count:
        try:
            with connection.execute(query.offset(start), execution_options={"yield_per": _AT_ONCE}) as found:
                for part in found.mappings().partitions():
                    for row in part:
                        kind.model_validate({name: row[name] for name in kind.model_fields})
                    start += len(part)
            return
        except FAULTS:
            each = _part(connection, kind, query, start, min(_AT_ONCE, count - start))
            yield from ((place, found) for place, found in each if isinstance(found, Exception))
            start += _AT_ONCE


def _part(
    connection: Connection, kind: type[R], query: Select[Any], start: int, count: int
) -> Iterator[tuple[int, R | Exception]]:
    """Rows of a query by position; a range that cannot be read at once is halved down to a single row."""
    try:
        found = many(connection, kind, query.offset(start).limit(count))
    except FAULTS as error:
        if count > 1:
            yield from _part(connection, kind, query, start, count // 2)
            yield from _part(connection, kind, query, start + count // 2, count - count // 2)
        else:
            yield start, error
        return
    yield from enumerate(found, start)


def _described(connection: Connection, table: Table, query: Select[Any], place: int, error: Exception) -> Unreadable:
    """Description of a row from those of its columns that can be read."""

    def cell(column: Column[Any]) -> Any:
        return connection.execute(query.with_only_columns(column).offset(place).limit(1)).scalar_one()

    why = _why(error)
    for column in table.columns:
        try:
            cell(column)
        except FAULTS as fault:
            why = f"{column.name}: {_why(fault)}"
            break
    known = dict[str, Any]()
    keys = [column.name for column in table.primary_key.columns]
    for name in {*keys, "trial"} & set(table.c.keys()):
        with suppress(*FAULTS):
            known[name] = cell(table.c[name])
    trial = known.get("id" if table is schema.trials else "trial")
    return Unreadable(table.name, ", ".join(str(known.get(name, "?")) for name in keys), trial, why)


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        return f"{place} = {problem['input']!r:.{_QUOTED}} ({problem['msg']})"
    return f"{error.orig if isinstance(error, DBAPIError) else error!s:.{_QUOTED}}"
