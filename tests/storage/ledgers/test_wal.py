"""SQLite's log: what a damaged one hides is found before SQLite drops it, and one that a crash left raises no alarm."""

import os
import shutil
import signal
from pathlib import Path
from random import Random

import pytest

from fieldcraft.storage.ledger import Ledger, NotALedger
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.ledgers.wal import Break, hidden
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import digest_of

FRAME = 24 + 4096  # bytes, after a header of 32
COMMITS = 6


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A ledger whose process was killed: one commit is in the file, the others are in the log."""
    path = tmp_path / "ledger.sqlite"
    create(open_ledger(path, create=True), 0)
    close_idle()
    child = os.fork()
    if child == 0:
        ledger = open_ledger(path)
        for number in range(1, COMMITS + 1):
            create(ledger, number)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert log_of(path).stat().st_size > 2 * COMMITS * FRAME
    return path


def create(ledger: Ledger, number: int) -> None:
    ledger.create_campaign(f"c{number}", {"seed": number}, digest_of({"seed": number}), {}, "test")


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def copied(path: Path, log: bytes, name: str) -> Path:
    """The ledger with another log, in a folder of its own."""
    folder = path.parent / name
    folder.mkdir()
    shutil.copy(path, folder / path.name)
    log_of(folder / path.name).write_bytes(log)
    return folder / path.name


def last_commits(log: bytes) -> list[int]:
    """Number of the last frame of each commit, by the size that the frame's head then states."""
    heads = [log[32 + place * FRAME :][:8] for place in range((len(log) - 32) // FRAME)]
    return [place for place, head in enumerate(heads) if head[4:] != bytes(4)]


def test_a_byte_altered_anywhere_before_the_last_two_commits_is_found_and_nothing_is_dropped(torn):
    log = log_of(torn).read_bytes()
    ends, draw = last_commits(log), Random(5)
    assert len(ends) == COMMITS
    for number, place in enumerate([*range(32), *draw.choices(range(32, 32 + FRAME * (ends[-3] + 1)), k=60)]):
        altered = bytearray(log)
        altered[place] ^= draw.randrange(1, 256)
        path = copied(torn, altered, f"altered-{number}")
        with pytest.raises(NotALedger, match=r"-wal is damaged at byte \d+: at least \d commits? after that cannot be"):
            open_ledger(path)
        assert log_of(path).read_bytes() == altered, "what can still be saved from it is there"


def test_what_the_error_says_lets_the_ledger_go_on_with_what_is_left(torn):
    log, ends = log_of(torn).read_bytes(), last_commits(log_of(torn).read_bytes())
    altered = bytearray(log)
    altered[32 + FRAME * ends[1] + 500] ^= 1
    path = copied(torn, altered, "altered")
    assert hidden(log_of(path)) == Break(32 + FRAME * ends[1], COMMITS - 2)
    os.truncate(log_of(path), 32 + FRAME * ends[1])
    ledger = open_ledger(path)
    assert [campaign.name for campaign in ledger.campaigns()] == ["c0", "c1"]
    assert ledger.check() == []


def test_no_log_that_a_crash_can_leave_raises_an_alarm(torn):
    log = log_of(torn).read_bytes()
    ends, draw = last_commits(log), Random(6)
    for length in [0, 31, 32, *draw.choices(range(len(log)), k=40)]:
        assert hidden(copied(torn, log[:length], f"cut-{length}-{draw.random()}")) is None
    for number in range(20):  # pages of the commit that was being flushed when the power failed
        left = bytearray(log)
        place = 32 + FRAME * draw.randrange(ends[-2] + 1, ends[-1] + 1)
        left[place : place + FRAME] = bytes(FRAME)
        path = copied(torn, left, f"torn-{number}")
        assert [c.name for c in open_ledger(path).campaigns()] == [f"c{number}" for number in range(COMMITS)]


def test_frames_of_an_earlier_round_of_the_log_raise_no_alarm(torn):
    with (ledger := open_ledger(torn))._engine.connect().execution_options(outside=True) as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(RESTART)")
    size = log_of(torn).stat().st_size
    create(ledger, COMMITS + 1)
    assert log_of(torn).stat().st_size == size, "the log is written over from its beginning"
    assert hidden(log_of(torn)) is None


def test_a_log_that_is_being_written_raises_no_alarm(torn):
    child = os.fork()
    if child == 0:
        ledger, number = open_ledger(torn), COMMITS
        while True:
            number += 1
            create(ledger, number)
    try:
        for _ in range(200):
            assert hidden(log_of(torn)) is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
