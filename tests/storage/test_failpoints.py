"""Commit points: nothing without their variables, and death at exactly the passage named with them."""

import os
import signal
from pathlib import Path

import pytest

from fieldcraft.storage.failpoints import commit_point


def child(passages: list[str], **environment: str) -> int:
    """How a forked child ends that passes the points named."""
    pid = os.fork()
    if pid == 0:
        os.environ.update(environment)
        for name in passages:
            commit_point(name)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_point_does_nothing_when_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert child(["a.before", "a.after"]) == 0
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("die_at", "log"),
    [
        ("a#1", ["a#1"]),
        ("a#2", ["a#1", "b#1", "a#2"]),
        ("b#1", ["a#1", "b#1"]),
        ("a#3", ["a#1", "b#1", "a#2", "b#2"]),
        ("aa#1", ["a#1", "b#1", "a#2", "b#2"]),
    ],
)
def test_a_process_dies_at_the_passage_named_and_the_log_has_all_until_then(tmp_path, die_at, log):
    path = tmp_path / "points.log"
    code = child(["a", "b", "a", "b"], FIELDCRAFT_DIE_AT=die_at, FIELDCRAFT_POINTS_LOG=str(path))
    assert code == (-signal.SIGKILL if log[-1] == die_at else 0)
    assert path.read_text().splitlines() == log


def test_a_forked_child_counts_from_one(tmp_path):
    commit_point("counted")
    commit_point("counted")
    assert child(["counted"], FIELDCRAFT_DIE_AT="counted#1") == -signal.SIGKILL
