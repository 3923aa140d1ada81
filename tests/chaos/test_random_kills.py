"""A campaign killed with SIGKILL at 50 random moments, in a process of its own; part of the long form only."""

import subprocess
from collections import Counter
from contextlib import suppress
from random import Random
from time import monotonic

import pytest
from killing import KINDS, Home, Reference, committed, judge, look
from length import LOSSES

MOMENTS = 50


@pytest.fixture(scope="module")
def on_its_own(ram):
    """How the campaign on the dispatcher ``local`` ends in a process of its own, and how long that takes."""
    home = Home(ram / "reference", KINDS[0]).begin()
    began = monotonic()
    assert home.process().wait(timeout=120) == 0, home.log
    return Reference(home, look(home.home), []), monotonic() - began


def test_killed_at_random_moments_it_loses_nothing_repeats_nothing_and_ends_the_same(on_its_own, ram, count):
    (reference, lasts), draw, done = on_its_own, Random(11), Counter()
    for number in range(MOMENTS):
        home = Home(ram / str(number), KINDS[0]).begin()
        process = home.process()
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.3, 1.0) * lasts)
        process.kill()
        process.wait()
        before, counted = committed(home.home), home.simulated()
        assert home.process().wait(timeout=120) == 0, home.log
        done += judge(home, before, counted, reference)
    count(done)
    assert [done[name] for name in LOSSES] == [0] * len(LOSSES), done
