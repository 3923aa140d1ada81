"""The engine under thousands of drawn schedules of faults does nothing that the reference model forbids."""

import os
from collections import Counter

import pytest
from cluster import CLUSTERS, WALL_TIME_S, level
from engine import Schedule, simulate, world
from length import LONG

from fieldcraft.flows.jobs.dispatcher import Failed
from fieldcraft.flows.steps import dispatch, harvest
from fieldcraft.storage.ledgers.operations import approvals, budget, designs, leases, moves, results
from fieldcraft.storage.open_ledger import open_ledger

SCHEDULES, AT_A_TIME = 10_000 if LONG else 32, 250
ONE = os.environ.get("FIELDCRAFT_CHAOS_SEED")
SEEDS = range(SCHEDULES) if ONE is None else [int(ONE)]
BATCHES = [SEEDS[start : start + AT_A_TIME] for start in range(0, len(SEEDS), AT_A_TIME)]


@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_schedule_of_faults_makes_the_engine_do_what_the_model_forbids(seeds, ram, count):
    home = ram / f"from-{seeds[0]}"
    done = sum((simulate(seed, home) for seed in seeds), Counter())
    assert open_ledger(home / "ledger.sqlite").check() == []
    count(Counter({"schedules": len(seeds), "faults injected": sum(done.values())}) + done)


def test_a_late_result_is_one_of_the_design_that_its_attempt_was_sent_with(ram):
    """Found by the simulation: it was evaluated, and kept, as one of a design that the trial got later."""
    with world() as (clock, processes, points):
        drawn = (Schedule(seed, ram / "late", clock, processes, points) for seed in range(100))
        one = next(s for s in drawn if s.campaign.spec.approval.policy == "auto" and not s.cluster.forgetful)
        CLUSTERS[one.name], one.calm, one.cluster.fault = one.cluster, True, 0.0
        one._pass()
        trial = one.ledger.trials(one.name)[0]
        clock.now += 2 * WALL_TIME_S
        one._cancel(trial)  # too late: it has ended
        one._retry(one.ledger.trial(trial.id))
        one._edit(one.ledger.trial(trial.id))
        one._pass()
        late = one.ledger.results(trial.id)[0]
    assert one.ledger.trial(trial.id).design != trial.design
    assert (late.attempt, late.verdict, late.ran) == (1, "superseded", trial.design)
    assert late.outputs == {"height": level(f"{trial.id}-1") + trial.design["x"]}


def everything_counts(trial, result, stored, *, partial):
    return "accepted", None


def without_finding(site, dispatcher, trial, send=dispatch._send):
    class Forgetting:
        def __getattr__(self, name):
            return getattr(dispatcher, name)

        def find(self, key):
            return None

    return send(site, Forgetting(), trial)


def lost_is_failed(site, trial, reason):
    harvest._fail(site, trial, Failed("transient", reason))


BROKEN = {
    "approval, its digest, expiry and attempts": [(moves, "under_approval", lambda *_: None)],
    "budget's reserve": [(budget, "reserve", lambda *_: None)],
    "compare-and-swap": [(where, "expected", lambda trial, _: trial) for where in (moves, designs, approvals, results)],
    "fence": [(leases, "hold", lambda *_: None)],
    "late results judged": [(results, "_judge", everything_counts)],
    "find before submit": [(dispatch, "_send", without_finding)],
    "lost means held": [(harvest, "_lose", lost_is_failed)],
    "late results collected": [(harvest, "tidy", lambda *_: None)],
}
FOUND_WITHIN = 60
SLOW = ["budget's reserve", "fence", "lost means held"]  # found by the 10th to 25th schedule; the others within 6
SOON = [guard for guard in BROKEN if guard not in SLOW]


@pytest.mark.parametrize("guard", BROKEN if LONG else SOON)
def test_the_simulation_finds_a_guard_that_is_taken_out(guard, ram, monkeypatch, count):
    for where, name, instead in BROKEN[guard]:
        monkeypatch.setattr(where, name, instead)
    home = ram / guard.replace(" ", "-")
    for seed in range(FOUND_WITHIN):
        try:
            simulate(seed, home)
        except AssertionError:
            count(Counter({f"schedules until found: {guard}": seed + 1}))
            return
    pytest.fail(f"{FOUND_WITHIN} schedules without {guard}, and nothing was found")
