"""One byte altered in a cell of a finished campaign's ledger: each command that reads ends in one line, or in what it
found; and what cannot be read any more is never passed over by the doctor.

The long form alters a thousand.
"""

import contextlib
import io
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from killing import KINDS, SCENARIOS, Home
from length import LONG

from fieldcraft.flows.cli import main
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.ledgers.tables import schema

ALTERED = 1000 if LONG else 10
READS = (
    ("status",),
    ("show", "saddle-0002"),
    ("trace", "saddle-0003"),
    ("export", "saddle", "--csv", "{home}.csv"),
    *((("queue",), ("notices",), ("repair",), ("report", "saddle", "--html", "{home}.html")) if LONG else ()),
)
Cells = dict[tuple[str, int, str], object]


@pytest.fixture
def home(ram, monkeypatch) -> Home:
    """A campaign that has ended, its ledger at rest."""
    home = Home(ram / "altered", next(kind for kind in KINDS if kind.name == "inline")).begin()
    assert home.finish() == 0, home.log
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(SCENARIOS / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    return home


def cells(ledger: Path) -> Cells:
    """What the file holds, as bytes where it is text; less what SQLite itself cannot read."""
    found: Cells = {}
    with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = bytes
        for table in schema.metadata.sorted_tables:
            names = table.columns.keys()
            with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                rows = connection.execute(f"SELECT rowid, {', '.join(map(repr, names))} FROM {table}".replace("'", '"'))
                for number, *values in rows:
                    found |= {(table.name, number, name): value for name, value in zip(names, values, strict=True)}
    return found


def unreadable(table: str, column: str, value: object) -> bool:
    """Whether a text is none, or JSON that is none."""
    try:
        text = value.decode() if isinstance(value, bytes) else value
        if str(schema.metadata.tables[table].c[column].type) == "JSON" and text is not None:
            json.loads(text)
    except (ValueError, TypeError):
        return True
    return False


def altered(whole: bytes, before: Cells, ledger: Path) -> Iterator[tuple[str, list[tuple[str, str, object]]]]:
    """Put ledgers with one other byte into the place, one after the other, each with the cells that it changes."""
    draw, made = Random(29), 0
    used = [place for place, byte in enumerate(whole) if byte]  # most of the file is empty room
    while made < ALTERED:
        content, place, turn = bytearray(whole), draw.choice(used), draw.randrange(1, 256)
        content[place] ^= turn
        close_idle()
        draft = ledger.with_name("draft")  # another file, so that nothing which is known of the last holds of it
        draft.write_bytes(content)
        os.replace(draft, ledger)
        after = cells(ledger)
        changed = [(*key[::2], value) for key, value in after.items() if before.get(key, value) != value]
        if changed:
            made += 1
            yield f"byte {place} ^ {turn}: {changed}"[:500], changed


def run(words: tuple[str, ...], home: Path) -> tuple[int, str]:
    """Exit status of a command and all that it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*(word.format(home=home) for word in words), "--home", str(home)])
    if status == 2:
        assert (out.getvalue(), err.getvalue().count("\n")) == ("", 1), err.getvalue()
    return status, out.getvalue() + err.getvalue()


def test_a_byte_altered_in_a_cell_is_an_error_or_a_finding_and_never_a_traceback_or_passed_over(home, count):
    ledger, seen = home.home / "ledger.sqlite", Counter()
    close_idle()
    whole, before = ledger.read_bytes(), cells(ledger)
    assert run(("doctor",), home.home) == (0, "All is well.\n")
    for what, changed in altered(whole, before, ledger):
        broken = [table for table, column, value in changed if unreadable(table, column, value)]
        status, said = run(("doctor",), home.home)
        assert status in ((1, 2) if broken else (0, 1, 2)), what
        assert status == 2 or all(f" of {table}" in said for table in broken), (what, said)
        seen["damage found" if status else "damage that no digest covers"] += 1
        for words in READS:
            assert run(words, home.home)[0] in (0, 1, 2), (words, what)
    close_idle()
    count(Counter({"faults injected": ALTERED}) + seen)
