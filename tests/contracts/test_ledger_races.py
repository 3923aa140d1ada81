"""Several processes at one ledger, let go at the same instant. On every back end."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from ledgers import BACKENDS, S, approve, begin, edit, grant, proposal, step, trial_in

from fieldcraft.storage.ledger import BudgetSpent, LeaseHeld, Ledger, StaleTrial
from fieldcraft.storage.records import Known

RACERS = 8


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Callable[[Path], Ledger]:
    return BACKENDS[request.param]


DECISIONS = (approve, lambda ledger, trial: ledger.reject_all([grant(trial)], "test", "no"))


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
            except BaseException:
                traceback.print_exc()
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


def test_of_people_who_approve_and_reject_one_trial_at_once_one_wins_and_the_others_are_told(backend, tmp_path):
    ledger = backend(tmp_path)
    trials = [trial_in(ledger, S.PROPOSED, iteration=iteration) for iteration in range(10)]

    def decide(racer: int) -> bool:
        for trial in trials:
            if wins(lambda trial=trial: DECISIONS[racer % 2](ledger, trial), StaleTrial):
                (tmp_path / f"{trial.id}.{racer}").touch()
        return True

    assert race(decide) == RACERS
    winners = {path.stem: int(path.suffix[1:]) for path in tmp_path.glob("heat-*")}
    assert len(list(tmp_path.glob("heat-*"))) == len(winners) == len(trials)
    for trial in ledger.trials("heat"):
        assert trial.expect == ((S.APPROVED, S.REJECTED)[winners[trial.id] % 2], 2)
    assert ledger.check() == []


def test_an_edit_and_an_approval_at_once_never_let_the_old_design_run(backend, tmp_path):
    ledger = backend(tmp_path)
    trials = [trial_in(ledger, S.PROPOSED, iteration=iteration) for iteration in range(10)]

    def act(racer: int) -> bool:
        for trial in trials:
            wins(lambda trial=trial: (approve, edit)[racer % 2](ledger, trial), StaleTrial)
        return True

    assert race(act) == RACERS
    for trial in ledger.trials("heat"):
        approved = any(approval.live for approval in ledger.approvals(trial.id))
        assert (trial.revision, approved, trial.version) in ((1, True, 2), (2, False, 2))
    assert ledger.check() == []


@pytest.mark.parametrize("limit", [{"trials": 5}, {"cost": 5.5}, {"seconds": 55.0, "attempt_seconds": 10.0}])
def test_eight_that_stage_at_once_never_exceed_a_limit(backend, limit, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger, **limit)
    trials = [trial_in(ledger, S.APPROVED, iteration=iteration) for iteration in range(RACERS)]

    def stage(racer: int) -> bool:
        return wins(lambda: step(ledger, trials[racer], S.STAGED), BudgetSpent)

    assert race(stage) == 5
    assert [trial.state for trial in ledger.trials("heat")].count(S.STAGED) == ledger.spending("heat").trials == 5
    assert ledger.check() == []


def test_of_eight_that_import_one_source_all_get_the_same_trials(backend, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)
    known = [Known(design={"x": x}, outputs={"y": x}) for x in (0.25, 0.5)]

    def adopt(_: int) -> bool:
        adopted = ledger.adopt("heat", known, "ab" * 32, "import", "test")
        return ledger.trials("heat") == adopted

    assert race(adopt) == RACERS
    assert len(ledger.campaign_results("heat")) == 2


def test_of_eight_that_correct_one_result_one_does(backend, tmp_path):
    ledger = backend(tmp_path)
    trial = trial_in(ledger, S.COMPLETED)

    def fix(racer: int) -> bool:
        outputs = {"y": 2.0 + racer}
        write = (trial.id, trial.expect, 1, outputs, None, "test", "the gauge", {})
        return wins(lambda: ledger.correct(*write), StaleTrial)

    assert race(fix) == 1
    assert len(ledger.results(trial.id)) == 2
    assert ledger.check() == []


def test_parts_that_eight_record_at_once_add_up(backend, tmp_path):
    ledger = backend(tmp_path)
    trials = [trial_in(ledger, S.RUNNING, iteration=iteration) for iteration in range(3)]

    def add(racer: int, trial: str) -> bool:
        now = ledger.trial(trial)
        known = {name: value for part in ledger.results(trial) for name, value in part.outputs.items()}
        outputs = {**known, f"y{racer}": float(racer)}
        write = (trial, now.expect, outputs, None, f"person {racer}", "person", {})
        return wins(lambda: ledger.record(*write, partial=True), StaleTrial)

    def record(racer: int) -> bool:
        for trial in trials:
            while not add(racer, trial.id):
                continue
        return True

    assert race(record) == RACERS
    for trial in trials:
        *_, last = ledger.results(trial.id)
        assert last.outputs == {f"y{racer}": float(racer) for racer in range(RACERS)}
        assert ledger.trial(trial.id).version == trial.version + RACERS
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
