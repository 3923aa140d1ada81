"""Steps from each schema of the ledger to the next; whoever raises ``SCHEMA_VERSION`` adds one.

A step is written once and then left alone: it describes the tables as they were between its two schemas and uses
nothing of today's tables, so that later schemas do not change what it does.
"""

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from fieldcraft.storage.ledgers.upgrades import schema_2

STEPS: Mapping[int, Callable[[Connection], None]] = {1: schema_2.upgrade}  # by the schema that a step begins from
