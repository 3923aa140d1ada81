"""A campaign killed with SIGKILL at a commit point, on every dispatcher, goes on to what it would have been.

The long form kills at every point of every dispatcher, the short form at some points of those without processes.
``tests/scenarios/test_recovery.py`` has every point of one dispatcher, and those of the export to tracking.
"""

import signal
from collections import Counter
from random import Random

import pytest
from killing import KINDS, PROCESSES, WAITS, Home, Kind, Reference, committed, judge, look, warm
from length import LONG, LOSSES

SOME = 3  # points of each
CHOSEN = [kind for kind in KINDS if LONG or kind.name not in PROCESSES]


@pytest.fixture(scope="module")
def warmed(ram):
    warm(ram / "warm")


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda kind: kind.name)
def uninterrupted(request, ram, warmed):
    kind: Kind = request.param
    home, log = Home(ram / kind.name / "reference", kind).begin(), ram / kind.name / "points"
    status = home.finish(FIELDCRAFT_POINTS_LOG=str(log))
    assert status == 0, home.log
    home.close()
    return Reference(home, look(home.home), sorted(set(log.read_text().split())))


def test_killed_at_commit_points_it_loses_nothing_repeats_nothing_and_ends_the_same(uninterrupted, ram, count):
    kind, points, done = uninterrupted.home.kind, uninterrupted.points, Counter()
    for number, point in enumerate(points if LONG else Random(kind.name).sample(points, SOME)):
        home = Home(ram / kind.name / f"point-{number}", kind).begin()
        status = home.finish(FIELDCRAFT_DIE_AT=point)
        before, counted = committed(home.home), home.simulated()
        assert (status == -signal.SIGKILL) != point.startswith("result."), (point, status, home.log)
        if status == WAITS:  # Dask's worker has the point from its first process, and every attempt died there
            home.close()
            home.ask_again()
        assert home.finish() == 0, (point, home.log)
        home.close()
        done += judge(home, before, counted, uninterrupted)
    count(done)
    assert [done[name] for name in LOSSES] == [0] * len(LOSSES), done
