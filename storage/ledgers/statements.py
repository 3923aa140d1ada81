"""Statements compiled once a process, for all its ledgers: to compile one takes longer than to run it.

SQLAlchemy keeps what it has compiled by engine, and every ledger has its own. A process that opens many (a study, the
desk, the tests) would compile everything again for each.
"""

from functools import cache
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.util import LRUCache

from fieldcraft.storage.ledgers.tables import schema

KEPT = 1000  # statements; a campaign's run has some 150
OPTIONS: dict[str, Any] = {"compiled_cache": LRUCache(KEPT)}  # of every engine


class Alike(Dialect):
    """A dialect that compiles a statement as any other of its class for a server of the same version does."""

    def __eq__(self, other: object) -> bool:
        """True if what the one has compiled serves the other."""
        return isinstance(other, type(self)) and other.server_version_info == self.server_version_info

    def __hash__(self) -> int:
        return hash(type(self))


@cache
def making(dialect: Dialect) -> tuple[str, ...]:
    """The statements that make all tables and their indices, in order."""
    made: list[CreateTable | CreateIndex] = []
    for table in schema.metadata.sorted_tables:
        made.append(CreateTable(table))
        made.extend(CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name)))
    return tuple(str(statement.compile(dialect=dialect)) for statement in made)
