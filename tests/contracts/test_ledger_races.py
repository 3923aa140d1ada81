"""Several processes at one ledger, let go at the same instant. On every back end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ledgers import BACKENDS, S, approve, begin, proposal, step, trial_in

from storage.ledger import LeaseHeld, Ledger, StaleTrial

RACERS = 8


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Callable[[Path], Ledger]:
    return BACKENDS[request.param]


def race(action: Callable[[int], bool], racers: int = RACERS) -> int:
    """Run ``action(racer)`` in forked processes started by one signal; return how many of them returned True."""
    ready, go = os.pipe(), os.pipe()
    children = []
    for racer in range(racers):
        if (pid := os.fork()) == 0:
            code = 2
            try:
                os.close(go[1])
                os.write(ready[1], b".")
                os.read(go[0], 1)  # returns when the parent closes its end: the start for all
                code = 0 if action(racer) else 1
            finally:
                os._exit(code)
        children.append(pid)
    for _ in children:
        os.read(ready[0], 1)
    os.close(go[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    for descriptor in (*ready, go[0]):
        os.close(descriptor)
    assert set(codes) <= {0, 1}, f"a racer raised: {codes}"
    return codes.count(0)


def wins(action: Callable[[], object], loses: type[Exception]) -> bool:
    try:
        action()
    except loses:
        return False
    return True


def test_of_eight_that_approve_one_trial_one_does(backend, tmp_path):
    ledger = backend(tmp_path)
    trial = trial_in(ledger, S.PROPOSED)
    assert race(lambda _: wins(lambda: approve(ledger, trial), StaleTrial)) == 1
    assert len(ledger.approvals(trial.id)) == 1
    assert ledger.check() == []


def test_of_eight_that_claim_each_of_ten_trials_one_does(backend, tmp_path):
    ledger = backend(tmp_path)
    trials = [trial_in(ledger, S.APPROVED, iteration=iteration) for iteration in range(10)]

    def claim(_: int) -> bool:
        for trial in trials:
            if wins(lambda trial=trial: step(ledger, trial, S.STAGED), StaleTrial):
                (tmp_path / f"{trial.id}.{os.getpid()}").touch()
        return True

    assert race(claim) == RACERS
    assert sorted(path.stem for path in tmp_path.glob("heat-*")) == [trial.id for trial in trials]
    assert {trial.attempt for trial in ledger.trials("heat")} == {1}
    assert ledger.check() == []


def test_of_eight_that_propose_one_iteration_all_get_the_same_trials(backend, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)

    def propose(racer: int) -> bool:
        trials = ledger.propose("heat", 0, [proposal(x=float(racer)), proposal(1, x=-float(racer))], "test")
        return ledger.trials("heat") == trials

    assert race(propose) == RACERS
    assert [trial.id for trial in ledger.trials("heat")] == ["heat-0001", "heat-0002"]
    first, second = ledger.trials("heat")
    assert first.design["x"] == -second.design["x"]
    assert len([event for event in ledger.history("heat") if event.action == "propose"]) == 2


def test_of_eight_that_make_one_ledger_and_campaign_all_get_the_same(backend, tmp_path):
    assert race(lambda _: begin(backend(tmp_path)) is None) == RACERS
    ledger = backend(tmp_path)
    assert [event.action for event in ledger.history("heat")] == ["create"]
    assert ledger.check() == []


def test_of_eight_that_want_the_lease_one_gets_it(backend, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)

    def hold(_: int) -> bool:
        try:
            won = wins(lambda: ledger.acquire("heat"), LeaseHeld)
        finally:
            (tmp_path / f"asked.{os.getpid()}").touch()
        while won and len(list(tmp_path.glob("asked.*"))) < RACERS:  # hold it until all the others have asked
            os.sched_yield()
        return won

    assert race(hold) == 1
