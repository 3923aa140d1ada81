"""Leases of the ledger: one process at a time, a dead one replaced, a late one fenced off. On every back end."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from ledgers import BACKENDS, S, approve, begin, edit, everything, grant, in_child, proposal, trial_in

from fieldcraft.storage.ledger import LeaseHeld, LeaseLost, Ledger, PassServed, UnknownCampaign
from fieldcraft.storage.records import Known


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    ledger = BACKENDS[request.param](tmp_path)
    begin(ledger)
    return ledger


def takeovers(ledger: Ledger) -> list[str]:
    return [event.reason for event in ledger.history("heat") if event.action == "lease"]


def test_a_lease_that_was_given_back_is_free_and_its_token_grows(ledger):
    first = ledger.acquire("heat")
    ledger.release(first)
    second = ledger.acquire("heat")
    assert second.token > first.token
    assert takeovers(ledger) == []


def test_a_lease_is_broken_only_while_it_is_the_one_that_was_seen(ledger):
    seen = ledger.acquire("heat")
    ours = ledger.acquire("heat", break_lease=True, held=seen)
    before = everything(ledger)
    with pytest.raises(LeaseLost, match=rf"\(token {seen.token}\) is none any more: it is held by .*{ours.token}\)"):
        ledger.acquire("heat", break_lease=True, held=seen)
    assert everything(ledger) == before
    ledger.release(ours)
    with pytest.raises(LeaseLost, match="it is free"):
        ledger.acquire("heat", break_lease=True, held=ours)
    assert ledger.holder("heat") is None


def test_what_was_due_before_a_pass_that_is_over_began_is_served_and_nothing_is_written(ledger):
    lease = ledger.acquire("heat", due=time.time())
    ledger.release(lease)
    before = everything(ledger)
    with pytest.raises(PassServed, match=r"'heat' that began 5.0 s after this one was due has served it"):
        ledger.acquire("heat", due=lease.acquired - 5.0)
    assert everything(ledger) == before
    assert ledger.acquire("heat", due=lease.acquired).token == 2


def test_what_was_due_before_a_pass_that_ended_in_an_error_began_is_not_served(ledger):
    ledger.release(ledger.acquire("heat"))
    failed = ledger.acquire("heat")
    ledger.release(failed, done=False)
    again = ledger.acquire("heat", due=failed.acquired - 5.0)
    assert again.token == failed.token + 1
    ledger.release(failed, done=False)  # late: it is another's by now
    assert ledger.holder("heat") == again
    ledger.release(again)
    with pytest.raises(PassServed, match="'heat' that began"):
        ledger.acquire("heat", due=failed.acquired)


def test_what_was_due_before_a_pass_that_was_killed_began_is_not_served(ledger):
    due = time.time() - 5.0
    assert in_child(lambda: ledger.acquire("heat", due=due)) == 0  # ends without giving it back
    assert ledger.acquire("heat", due=due).token == 2


def test_a_pass_made_under_a_clock_that_has_been_set_back_since_served_nothing(ledger, monkeypatch):
    now = time.time()
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now + 1e6)
        ledger.release(ledger.acquire("heat"))
    assert ledger.acquire("heat", due=now).token == 2


def test_a_live_holder_is_named_and_keeps_the_lease(ledger):
    lease = ledger.acquire("heat")
    with pytest.raises(LeaseHeld, match=rf"'heat' .* pid {os.getpid()} on host .*--break-lease") as caught:
        ledger.acquire("heat")
    assert caught.value.holder == lease

    def ask() -> None:
        with pytest.raises(LeaseHeld, match="'heat'"):
            ledger.acquire("heat")

    assert in_child(ask) == 0
    ledger.fenced(lease).finish("heat", "done", "test")


def test_a_campaign_that_is_not_there_has_no_lease(ledger):
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.acquire("heet")


def test_a_dead_holder_is_replaced_at_once_and_the_history_says_so(ledger):
    assert in_child(lambda: (ledger.acquire("heat"), os.kill(os.getpid(), signal.SIGKILL))) == -signal.SIGKILL
    lease = ledger.acquire("heat")
    assert lease.token == 2
    assert takeovers(ledger) == ["its holder no longer lives"]


def test_a_holder_that_is_a_zombie_is_dead(ledger):
    pid = os.fork()
    if pid == 0:
        ledger.acquire("heat")
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, but its pid is still taken
    try:
        assert ledger.acquire("heat").token == 2
    finally:
        os.waitpid(pid, 0)


def test_a_pid_that_belongs_to_another_process_now_holds_nothing(ledger, monkeypatch):
    started = psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: started - 100.0)  # an earlier process of our pid
    ledger.acquire("heat")
    monkeypatch.undo()
    assert ledger.acquire("heat").token == 2


def test_a_holder_on_another_host_is_believed_until_its_lease_is_broken(ledger, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "far-away")
    theirs = ledger.acquire("heat")
    monkeypatch.undo()
    with pytest.raises(LeaseHeld, match="on host far-away"):
        ledger.acquire("heat")
    ours = ledger.acquire("heat", break_lease=True)
    assert ours.token == theirs.token + 1
    assert takeovers(ledger) == ["the lease was broken"]
    details = next(event.details for event in ledger.history("heat") if event.action == "lease")
    assert json.loads(json.dumps(details))["from"]["host"] == "far-away"


def test_every_write_of_a_holder_that_was_replaced_is_refused_and_changes_nothing(ledger):
    trial = trial_in(ledger, S.PROPOSED)
    lost = ledger.acquire("heat")
    fenced = ledger.fenced(lost)
    kept = ledger.acquire("heat", break_lease=True)
    before = everything(ledger)
    for write in (
        lambda: fenced.create_campaign(
            "heat", {}, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", {}, ""
        ),
        lambda: fenced.propose("heat", 5, [proposal()], "test"),
        lambda: approve(fenced, trial),
        lambda: fenced.move(trial.id, S.REJECTED, trial.expect, "test", ""),
        lambda: fenced.record(trial.id, trial.expect, {"y": 1.0}, None, "test", "local", {}),
        lambda: fenced.adopt("heat", [Known(design={"x": 0.5}, outputs={"y": 1.0})], "ab" * 32, "import", "test"),
        lambda: fenced.reject_all([grant(trial)], "test", ""),
        lambda: edit(fenced, trial),
        lambda: fenced.prioritise(trial.id, 1, "test", ""),
        lambda: fenced.hear(trial.id, 1),
        lambda: fenced.correct(trial.id, trial.expect, 1, {"y": 1.0}, None, "test", "", {}),
        lambda: fenced.notify("heat", "approval waiting", "waits", {}),
        lambda: fenced.told(1, success=True),
        lambda: fenced.note("heat", 0, "train", {}, None),
        lambda: fenced.finish("heat", "", "test"),
        lambda: fenced.exported(1, None),
        lambda: fenced.acquire("heat", break_lease=True),
    ):
        with pytest.raises(LeaseLost, match="no longer holds the lease on 'heat'"):
            write()
    assert everything(ledger) == before
    fenced.release(lost)
    ledger.fenced(kept).finish("heat", "done", "test")


def test_a_released_lease_fences_its_own_holder_too(ledger):
    lease = ledger.acquire("heat")
    ledger.release(lease)
    with pytest.raises(LeaseLost, match="it is free"):
        ledger.fenced(lease).finish("heat", "", "test")


def test_one_process_exports_and_campaigns_go_on_beside_it(ledger):
    exporter = ledger.acquire_exporter()
    with pytest.raises(LeaseHeld, match="The export to tracking is being worked on"):
        ledger.acquire_exporter()
    ledger.release(ledger.acquire("heat"))
    ledger.release(exporter)
    assert ledger.acquire_exporter().token == exporter.token + 1


def test_a_model_is_trained_under_a_lease_beside_that_of_the_passes_and_of_other_campaigns(ledger):
    begin(ledger, "cold" * 25)
    trainer, lease = ledger.acquire_trainer("heat"), ledger.acquire("heat")
    assert ledger.trainer("heat") == trainer
    assert ledger.trainer("cold" * 25) is None
    with pytest.raises(LeaseHeld, match=rf"The model of 'heat' .* pid {os.getpid()} on host .* in Prefect"):
        ledger.acquire_trainer("heat")
    ledger.release(ledger.acquire_trainer("cold" * 25))
    ledger.release(lease)
    assert ledger.fenced(trainer).note("heat", 1, "train", {"by": "away"}, None).payload == {"by": "away"}
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.acquire_trainer("heet")
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.trainer("heet")


def test_a_trainer_whose_lease_was_broken_writes_nothing_and_a_dead_one_is_replaced(ledger):
    late, lease = ledger.acquire_trainer("heat"), ledger.acquire("heat")
    now = ledger.fenced(lease).acquire_trainer("heat", break_lease=True)
    with pytest.raises(LeaseLost, match=f"token {late.token}"):
        ledger.fenced(late).note("heat", 1, "train", {"by": "late"}, None)
    ledger.fenced(lease).note("heat", 1, "train", {"by": "pass"}, None)
    ledger.release(now)
    assert ledger.product("heat", 1, "train").payload == {"by": "pass"}
    assert in_child(lambda: ledger.acquire_trainer("heat")) == 0  # ends without giving it back
    assert ledger.trainer("heat") is None
    assert ledger.acquire_trainer("heat").token == now.token + 2
    assert takeovers(ledger) == []


def test_the_holder_is_told_while_it_lives_and_asking_changes_nothing(ledger):
    assert ledger.holder("heat") is None
    lease = ledger.acquire("heat")
    before = everything(ledger)
    assert ledger.holder("heat") == lease
    ledger.release(lease)
    assert ledger.holder("heat") is None
    assert in_child(lambda: ledger.acquire("heat")) == 0  # ends without giving it back
    assert ledger.holder("heat") is None
    assert everything(ledger) == before
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.holder("heet")


@contextmanager
def given_elsewhere(ledger: Ledger, campaign: str, *trials: str) -> Iterator[None]:
    """Trials are given to a process that lives to the end of the block."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ledger.give(campaign, trials, trials)
            os.write(told, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"x", "it ended"
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)


def test_trials_that_a_process_was_given_are_its_own_while_it_lives(ledger):
    begin(ledger, "heat-2")
    ours, theirs = ["heat-0001", "heat-0002"], ["heat-0003"]
    ledger.give("heat", ours, ours)
    before = everything(ledger)
    with given_elsewhere(ledger, "heat-2", "heat-2-0001"), given_elsewhere(ledger, "heat", *theirs, *ours):
        assert ledger.given("heat") == {*ours, *theirs}  # the last to be given one has it
        assert ledger.given("heat-2") == {"heat-2-0001"}
        ledger.give("heat", ours, [*ours, *theirs])
        assert ledger.given("heat") == {*theirs}
        ledger.give("heat", [], ours)
        assert ledger.given("heat") == frozenset()  # it is out no more
        assert ledger.given("heat-2") == {"heat-2-0001"}
        ledger.give("heat", theirs, [*ours, *theirs])
    assert in_child(lambda: os._exit(ledger.given("heat") != {*ours, *theirs})) == 0
    assert ledger.given("heat") == ledger.given("heat-2") == frozenset()
    assert everything(ledger) == before
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.given("heet")


def test_trials_given_on_another_host_are_left_to_it_and_only_the_holder_of_the_passes_gives_any(ledger, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "far-away")
    ledger.give("heat", ["heat-0001"], ["heat-0001"])
    monkeypatch.undo()
    assert ledger.given("heat") == {"heat-0001"}
    late, lease = ledger.acquire("heat"), ledger.acquire("heat", break_lease=True)
    with pytest.raises(LeaseLost):
        ledger.fenced(late).give("heat", ["heat-0001"], [])
    assert ledger.given("heat") == {"heat-0001"}
    ledger.fenced(lease).give("heat", ["heat-0001"], ["heat-0001"])
    assert ledger.given("heat") == frozenset()
