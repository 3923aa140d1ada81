"""Statements that are compiled once, for every ledger that a process opens."""

from pathlib import Path
from typing import Any

import pytest
from ledgers import BACKENDS, approve, begin, everything, trial_in
from sqlalchemy import event
from sqlalchemy.engine.interfaces import CacheStats

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledgers.sqlite import SqliteDialect
from fieldcraft.storage.records import TrialState


def used(ledger: Ledger) -> dict[str, Any]:
    """What a ledger tells that was worked with."""
    begin(ledger)
    approve(ledger, trial_in(ledger, TrialState.PROPOSED))
    assert ledger.check() == []
    return everything(ledger)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_compiled_for_one_ledger_serves_the_next(backend, tmp_path: Path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (BACKENDS[backend](folder) for folder in folders)
    assert first._engine is not second._engine
    told, seen = used(first), list[tuple[CacheStats, str]]()

    @event.listens_for(second._engine, "before_cursor_execute")
    def look(connection, cursor, statement, parameters, context, many):
        if context.compiled is not None:
            seen.append((context.cache_hit, statement))

    again = used(second)
    assert len(seen) > 30 and [text for hit, text in seen if hit is not CacheStats.CACHE_HIT] == []
    assert again.keys() == told.keys() and [t.design for t in second.trials("heat")] == [
        t.design for t in first.trials("heat")
    ]


def test_a_server_of_another_version_has_statements_of_its_own():
    one, same, other = SqliteDialect(), SqliteDialect(), SqliteDialect()
    one.server_version_info = same.server_version_info = (3, 40)
    other.server_version_info = (3, 50)
    assert {one: "kept"}[same] == "kept"
    assert other not in {one: "kept"} and one != "sqlite"
