"""Failures by kind, what people do about them, trials nobody can tell of, and results that come late."""

import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from clock import Clock
from rig import Rig, eventually, rig
from small import alter, command

from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.rules.retries import LONGEST_S, backoff
from fieldcraft.flows.rules.trial_labels import label
from fieldcraft.flows.spec.campaign_file import Dispatch
from fieldcraft.flows.steps.decide import Decision
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.processes import is_alive, start_time
from fieldcraft.storage.records import Event, TrialState


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def moves(at: Rig, number: int = 1) -> list[Event]:
    return [event for event in at.ledger.history("b", at.trial(number).id) if event.before is not event.after]


def alive(at: Rig) -> list[tuple[int, float]]:
    """The simulations so far that still run."""
    found = []
    for pid in at.started():
        with suppress(psutil.NoSuchProcess):
            if is_alive(pid, started := start_time(pid)):
                found.append((pid, started))
    return found


def test_a_retry_is_made_and_a_notice_told_though_the_clock_was_set_back_by_an_hour(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"backoff_s": 600.0})
    at.tell("transient")
    at.steps(lambda decision: decision.wait == "retry")
    at.ledger.notify("b", "budget nearly spent", "k", {})
    clock, told = Clock(tmp_path / "clock").set("-1h"), tmp_path / "told"
    assert at.step_in_child(**clock.environment, FIELDCRAFT_NOTIFY_COMMAND=f"tee {told}") == 0
    assert (at.trial().state, at.trial().attempt) == (TrialState.RUNNING, 2), "it waited for no hour more"
    assert "budget nearly spent" in told.read_text() and at.ledger.notices("b") == ()
    assert at.finish() == "budget: 1 of 1 trials"


def test_an_infeasible_design_is_a_fact_and_the_campaign_goes_on(tmp_path):
    at = rig(tmp_path)
    at.tell("infeasible", "answer 2")
    assert at.finish() == "budget: 2 of 2 trials"
    assert at.trials() == [("FAILED", "infeasible"), ("COMPLETED", None)]
    assert moves(at)[-1].reason == "the mesh does not close"
    assert len(at.started()) == 2


def test_a_failure_of_which_nothing_is_known_is_recorded_and_a_person_can_have_it_repeated(tmp_path, capsys):
    at = rig(tmp_path, budget={"trials": 3})
    at.tell("raise", "nan", "wait", "answer 4")
    at.send(3)
    assert at.trials()[:2] == [("FAILED", "unknown")] * 2
    assert moves(at, 1)[-1].reason == "RuntimeError: who knows"
    assert moves(at, 2)[-1].reason == "evaluate: output 'value' is nan"
    log = at.settings.work / "b" / "b-0001-1" / "log.txt"
    assert main(["show", "b-0001"]) == 0
    assert f"\n  log      {log}\n" in capsys.readouterr().out
    assert "RuntimeError: who knows" in log.read_text()
    assert main(["retry", "b-0001", "b-0003", "--comment", "the cable was loose"]) == 2  # the third runs
    said = capsys.readouterr()
    assert said.out == "b-0001: sent again by the next pass\n"
    assert said.err.startswith("fieldcraft: b-0003 ")
    first, fresh = at.ledger.approvals("b-0001")
    assert (first.voided, fresh.comment, fresh.policy) == (
        "replaced by a later approval",
        "the cable was loose",
        "manual",
    )
    at.let_go()
    assert at.finish() == "budget: 3 of 3 trials"
    assert at.trials() == [("COMPLETED", None), ("FAILED", "unknown"), ("COMPLETED", None)]
    assert (at.trial().attempt, at.trial().outputs) == (2, {"value": 4.0, "excess": -1.0})
    assert main(["retry", "b-0002"]) == 2
    assert "has ended (budget: 3 of 3 trials) and sends nothing more" in capsys.readouterr().err


def test_a_failure_whose_words_no_ledger_takes_is_recorded_and_holds_up_nothing(tmp_path):
    at = rig(tmp_path)
    at.tell(r"raise no file \udcff\x00" + "x" * 5000, "answer 2")
    assert at.finish() == "budget: 2 of 2 trials"
    assert at.trials() == [("FAILED", "unknown"), ("COMPLETED", None)]
    reason = moves(at, 1)[-1].reason
    assert reason.startswith(r"RuntimeError: no file \udcff\x00xxx") and len(reason) < 2100


def test_a_failure_in_passing_is_repeated_after_a_doubled_pause_and_the_campaign_waits_for_it(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"backoff_s": 0.2})
    at.tell("transient", "transient", "answer 5")
    waits = at.steps(lambda decision: decision.wait == "retry")
    assert waits.due is not None
    assert at.ledger.campaign("b").finished is None
    assert at.finish() == "budget: 1 of 1 trials"
    failed = [event.created for event in moves(at) if event.after is TrialState.FAILED]
    again = [event.created for event in moves(at) if event.before is TrialState.FAILED]
    pauses = [after - before for before, after in zip(failed, again, strict=True)]
    assert pauses[0] >= 0.2 and pauses[1] >= 0.4, pauses
    assert waits.due in [pytest.approx(failed[0] + 0.2), pytest.approx(failed[1] + 0.4)]
    assert at.trial().outputs == {"value": 5.0, "excess": -1.0}
    assert at.trial().spent == 3.0


def test_the_pause_doubles_with_each_failure_up_to_an_hour():
    assert [backoff(Dispatch(backoff_s=5.0), failures) for failures in (1, 2, 3)] == [5.0, 10.0, 20.0]
    assert backoff(Dispatch(backoff_s=5.0), 11) == LONGEST_S == backoff(Dispatch(backoff_s=5.0), 10**6)


def test_attempts_are_counted_from_the_fresh_approval_on(tmp_path):
    at = rig(tmp_path, dispatcher={"attempts": 2})
    at.tell("transient", "transient", "wait", "transient", "answer 6")
    at.send(2)  # the second trial; the first has used its attempts up and is not waited for
    assert at.trials() == [("FAILED", "transient"), ("RUNNING", None)]
    assert at.trial().attempt == 2
    assert main(["retry", "b-0001"]) == 0
    at.let_go()
    assert at.finish() == "budget: 2 of 2 trials"
    assert at.trials() == [("COMPLETED", None)] * 2
    assert at.trial().attempt == 4
    assert [event.reason for event in moves(at) if event.before is TrialState.FAILED] == [
        "retry 1 of 1 under the same approval",
        "",
        "retry 1 of 1 under the same approval",
    ]


def test_a_design_that_the_gate_refuses_is_charged_the_gate_alone(tmp_path):
    at = rig(tmp_path, problem={"kind": "rig", "each": 10.0}, budget={"trials": 2, "cost": 15.0})
    at.tell("refuse", "answer 2")
    assert at.finish() == "budget: 2 of 2 trials"
    assert at.trials() == [("FAILED", "infeasible"), ("COMPLETED", None)]
    assert moves(at)[-1].reason == "refused by the gate: it is too hot"
    assert [trial.spent for trial in at.ledger.trials("b")] == [0.25, 10.0]
    assert 0.0 < at.trial().seconds < 60.0


def test_a_cancelled_trial_has_its_processes_killed_and_is_not_repeated_but_on_a_persons_word(tmp_path, capsys):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait", "answer 3")
    at.send()
    (process,) = alive(at)
    assert main(["cancel", "b-0001", "--reason", "the wrong mesh"]) == 0
    assert "b-0001: cancelled" in capsys.readouterr().out
    eventually(lambda: not is_alive(*process))
    assert at.trials() == [("FAILED", "cancelled")]
    assert 0.0 < at.trial().seconds < 60.0
    assert at.trial().spent == 1.0
    assert main(["cancel", "b-0001", "--reason", "again"]) == 2
    assert "b-0001 is FAILED and cannot be cancelled: 'fieldcraft retry' sends it again" in capsys.readouterr().err
    assert main(["retry", "b-0001"]) == 0
    assert at.finish() == "budget: 1 of 1 trials"
    assert (at.trial().attempt, at.trials()) == (2, [("COMPLETED", None)])


def unsent(at: Rig) -> tuple[int, list[tuple[str, str]]]:
    """How many trials a pass sends and which it does not, once the first was changed behind the ledger's back."""
    close_idle()
    alter(at.settings.home, "UPDATE trials SET design = '{\"x\": 0.5}' WHERE number = 1")
    told: list[tuple[str, str]] = []

    def listen(event: str, about: dict[str, Any]) -> None:
        if event == "unsent":
            told.append((about["trial"].id, about["reason"]))

    with listening(listen):
        return at.step().sent, told


def test_a_trial_that_is_not_what_was_approved_holds_up_neither_the_pass_nor_other_trials(tmp_path):
    at = rig(tmp_path, human=True, algorithm={"start": {"n": 2}})
    at.step()
    assert main(["approve", "b-0001", "b-0002"]) == 0
    sent, ((trial, reason),) = unsent(at)
    assert (sent, trial, at.trials()) == (1, "b-0001", [("APPROVED", None), ("RUNNING", None)])
    assert "b-0001 cannot be moved to STAGED: its approval names the digest" in reason


def test_a_failed_trial_that_is_not_what_was_approved_is_not_sent_again_and_holds_up_nothing(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait")
    sent = at.send()
    at.ledger.move(sent.id, TrialState.FAILED, sent.expect, "ana", "the line broke", failure="transient")
    again, ((trial, reason),) = unsent(at)
    at.let_go()
    assert (again, trial, at.trials()) == (0, "b-0001", [("FAILED", "transient")])
    assert "b-0001 cannot be moved to APPROVED: its approval names the digest" in reason


def test_an_approval_given_afresh_is_bound_to_what_a_label_says_was_seen(tmp_path, capsys):
    at = rig(tmp_path, budget={"trials": 3})
    at.tell("raise", "answer 2")
    at.steps(lambda decision: at.trial().state is TrialState.FAILED)
    wrong = f"b-0001@1-{'0' * 16}"
    assert main(["retry", wrong]) == 2
    assert f"b-0001 is not what you saw: it is {label(at.trial())} now, not {wrong}" in capsys.readouterr().err
    assert at.trials()[0] == ("FAILED", "unknown")
    assert main(["retry", label(at.trial())]) == 0


def test_a_cancelled_trial_is_charged_from_its_first_start_on_though_it_was_held_meanwhile(tmp_path):
    at = rig(tmp_path, budget={"trials": 2})
    at.tell("transient", "wait")
    at.steps(lambda _: at.present(1) and (at.trial().attempt, at.trial().state) == (2, TrialState.RUNNING))
    eventually(lambda: len(at.started()) == 2)
    held = at.ledger.move("b-0001", TrialState.HELD, at.trial().expect, "ana", "looks dead")
    again = at.ledger.move("b-0001", TrialState.RUNNING, held.expect, "ana", "lives", handle=held.handle)
    assert main(["cancel", "b-0001", "--reason", "too slow"]) == 0
    first, resumed = [event for event in moves(at) if event.after is TrialState.RUNNING][-2:]
    charged = moves(at)[-1].details["seconds"]
    assert charged > resumed.created - first.created
    assert charged <= at.trial().updated - first.created
    assert again.attempt == 2


def test_a_claimed_trial_whose_approval_has_run_out_is_not_sent(tmp_path):
    at = rig(tmp_path, simulator=None, dispatcher={"kind": "lab"}, approval="human")
    at.step()
    first, expires = at.trial(), time.time() + 1.0
    approved = at.ledger.approve(first.id, first.expect, first.digest, "ana", "", "manual", 3, expires, at.code)
    at.ledger.move(first.id, TrialState.STAGED, approved.expect, "a killed pass", "", code=at.code)
    eventually(lambda: time.time() > expires)
    assert at.step().sent == 0
    assert at.trials()[0] == ("FAILED", "transient")
    assert (at.trial().spent, at.trial().seconds) == (0.0, 0.0)
    assert moves(at)[-1].reason == "approval expired before it was sent"
    assert main(["retry", "b-0001"]) == 0
    assert at.step().sent == 1


def test_what_does_not_run_yet_is_rejected_and_not_cancelled(tmp_path, capsys):
    at = rig(tmp_path, human=True)
    at.step()
    assert main(["cancel", "b-0001", "--reason", "no"]) == 2
    assert "b-0001 is PROPOSED and cannot be cancelled: 'fieldcraft reject' takes it back" in capsys.readouterr().err
    assert main(["abandon", "b-0001", "--reason", "no"]) == 2
    assert "b-0001 is PROPOSED and cannot be abandoned" in capsys.readouterr().err
    assert main(["retry", "b-0001"]) == 2
    assert "b-0001 is PROPOSED and cannot be sent again" in capsys.readouterr().err
    assert at.trials() == [("PROPOSED", None)]


def test_a_job_left_running_by_a_crash_between_a_cancelling_and_its_kill_is_killed_by_the_next_pass(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"wall_time_s": 600.0})
    at.tell("wait")
    at.send()
    (process,) = alive(at)
    died = command("cancel", "b-0001", "--reason", "stop", FIELDCRAFT_DIE_AT="ledger.move.FAILED.after#1")
    assert died.returncode == -signal.SIGKILL
    assert at.trials() == [("FAILED", "cancelled")]
    assert is_alive(*process)
    at.step()
    eventually(lambda: not is_alive(*process))
    assert at.finish() == "budget: 1 of 1 trials"
    assert at.ledger.results("b-0001") == ()


def test_an_abandoned_trial_is_stopped_and_a_result_that_comes_late_is_kept_and_changes_nothing(tmp_path):
    at = rig(tmp_path)
    at.tell("wait", "answer 2")
    sent = at.send()
    at.ledger.move(sent.id, TrialState.ABANDONED, sent.expect, "ana", "a crash came before its processes were killed")
    at.let_go()
    eventually(lambda: at.answered(sent))
    at.step()
    (late,) = at.ledger.results("b-0001")
    assert (late.verdict, late.attempt, late.outputs) == ("superseded", 1, {"value": 1.0, "excess": -1.0})
    assert at.trials()[0] == ("ABANDONED", None)
    assert not at.answered(sent), "its files are not needed any more"
    assert at.finish() == "budget: 2 of 2 trials"
    assert len(at.ledger.results("b-0001")) == 1


def test_to_abandon_a_running_trial_kills_it_and_a_failed_one_is_given_up_for_good(tmp_path, capsys):
    at = rig(tmp_path)
    at.tell("raise", "wait")
    at.send(2)
    process = alive(at)[-1]
    assert main(["abandon", "b-0001", "--reason", "not worth it"]) == 0
    assert main(["abandon", "b-0002", "--reason", "too slow"]) == 0
    eventually(lambda: not is_alive(*process))
    assert at.trials() == [("ABANDONED", "unknown"), ("ABANDONED", None)]
    assert main(["retry", "b-0001"]) == 2
    assert "b-0001 is ABANDONED and cannot be sent again: it is settled" in capsys.readouterr().err
    assert main(["abandon", "b-0001", "--reason", " "]) == 2
    assert "without a reason" in capsys.readouterr().err
    assert at.finish() == "budget: 2 of 2 trials"


def test_a_late_result_of_a_cancelled_trial_is_accepted(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait")
    sent = at.send()
    at.let_go()
    eventually(lambda: at.answered(sent))  # the person cancels what has just ended
    assert main(["cancel", "b-0001", "--reason", "too slow"]) == 0
    assert at.finish() == "budget: 1 of 1 trials"
    assert at.trials() == [("COMPLETED", None)]
    (late,) = at.ledger.results("b-0001")
    assert (late.verdict, late.attempt) == ("accepted", 1)
    assert at.trial().spent == 1.0, "the attempt was settled when it was cancelled"


def test_a_late_result_of_an_earlier_attempt_is_kept_and_the_present_one_counts(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait", "answer 9")
    sent = at.send()
    at.ledger.move(sent.id, TrialState.HELD, sent.expect, "ana", "the power went")
    assert main(["retry", "b-0001"]) == 0
    at.let_go()
    eventually(lambda: at.answered(sent))
    assert at.finish() == "budget: 1 of 1 trials"
    assert [(result.attempt, result.verdict, result.outputs["value"]) for result in at.ledger.results("b-0001")] == [
        (1, "superseded", 1.0),
        (2, "accepted", 9.0),
    ]
    assert (at.trial().outputs or {})["value"] == 9.0
    assert list((at.settings.work / "b").iterdir()) == []


def test_a_late_result_is_recorded_with_its_own_attempt_while_a_later_one_runs(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("answer 5", "wait")
    sent = at.send()
    eventually(lambda: at.answered(sent))
    at.ledger.move(sent.id, TrialState.HELD, sent.expect, "ana", "the disk is not mounted")
    folder = at.settings.work / "b" / "b-0001-1"
    folder.rename(tmp_path / "unmounted")
    assert main(["retry", "b-0001"]) == 0
    at.steps(lambda _: at.trial().attempt == 2 and at.trial().state is TrialState.RUNNING)
    (tmp_path / "unmounted").rename(folder)
    at.step()
    (late,) = at.ledger.results("b-0001")
    assert (late.attempt, late.verdict, late.outputs["value"]) == (1, "superseded", 5.0)
    assert at.trials() == [("RUNNING", None)]
    at.let_go()
    assert at.finish() == "budget: 1 of 1 trials"
    assert at.trial().outputs == {"value": 1.0, "excess": -1.0}


def test_a_killed_simulation_that_may_not_be_repeated_is_held_until_a_person_retries_it(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("die", "answer 2")
    assert at.steps(lambda decision: decision.wait == "person" or decision.finished) == Decision(wait="person")
    history = len(at.ledger.history("b"))
    assert at.step().decision == Decision(wait="person")
    assert len(at.ledger.history("b")) == history, "to ask again writes nothing"
    assert at.trials() == [("HELD", None)]
    assert main(["retry", "b-0001"]) == 0
    assert at.finish() == "budget: 1 of 1 trials"
    assert at.trial().spent == 2.0


def test_a_held_trial_goes_on_once_its_dispatcher_can_tell(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait")
    sent = at.send()
    at.ledger.move(sent.id, TrialState.HELD, sent.expect, "ana", "looks dead")
    assert at.step().decision.wait == "simulations"
    assert at.trial().state is TrialState.RUNNING
    again = at.ledger.move(sent.id, TrialState.HELD, at.trial().expect, "ana", "looks dead")
    at.let_go()
    eventually(lambda: at.answered(again))
    assert at.step().harvested == 1
    assert at.trials() == [("COMPLETED", None)]
    assert len(at.started()) == 1


def test_a_held_trial_whose_files_are_damaged_stays_held_and_adds_nothing_to_the_history(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait")
    sent = at.send()
    at.let_go()
    eventually(lambda: at.answered(sent))
    manifest = at.settings.work / "b" / "b-0001-1" / "result" / "manifest.json"
    manifest.write_text(manifest.read_text() + "x")
    assert at.step().decision.wait == "person"
    assert at.trials() == [("HELD", None)]
    history = len(at.ledger.history("b"))
    assert at.step().decision.wait == "person"
    assert len(at.ledger.history("b")) == history


def test_a_trial_the_dispatcher_cannot_tell_of_is_held_after_its_lease_and_goes_on_when_it_can(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"kind": "remote", "lease_s": 0.6})
    at.tell("wait")
    sent = at.send()
    eventually(lambda: at.step() and at.trial().heard)  # the lease is renewed while the dispatcher tells
    heard = at.trial().heard
    assert heard is not None and heard > sent.updated
    assert at.trial().version == sent.version
    (at.settings.work / "cut").touch()
    assert at.step().decision.wait == "simulations"
    eventually(lambda: at.step() and at.trial().state is TrialState.HELD)
    held = moves(at)[-1]
    assert held.reason.startswith("the line is cut; nothing was heard of it for ")
    assert held.created - heard > 0.6
    (at.settings.work / "cut").unlink()
    assert at.step().decision.wait == "simulations"
    at.let_go()
    assert at.finish() == "budget: 1 of 1 trials"
    assert len(at.started()) == 1


def test_a_trial_heard_of_before_the_clock_was_set_back_by_a_day_is_held_after_its_lease_all_the_same(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"kind": "remote", "lease_s": 0.6})
    at.tell("wait")
    at.send()
    assert at.step_in_child(**Clock(tmp_path / "clock").set("+1d").environment) == 0
    assert at.trial().heard > time.time() + 80000.0
    (at.settings.work / "cut").touch()
    assert at.step().decision.wait == "simulations", "nobody knows yet for how long nothing was heard"
    assert at.trial().heard <= time.time()
    eventually(lambda: at.step() and at.trial().state is TrialState.HELD, 30.0)
    assert re.match("the line is cut; nothing was heard of it for [1-9] s", moves(at)[-1].reason)
    (at.settings.work / "cut").unlink()
    at.let_go()
    assert at.finish() == "budget: 1 of 1 trials"
    assert len(at.started()) == 1


def test_a_staged_trial_of_which_nobody_can_tell_whether_it_was_sent_is_held_and_sent_once_it_was_not(tmp_path):
    at = rig(tmp_path, budget={"trials": 1}, dispatcher={"kind": "remote"})
    at.tell("answer 2")
    (at.settings.work).mkdir(exist_ok=True)
    (at.settings.work / "cut").touch()
    at.step()
    assert at.step().decision.wait == "person"
    assert (at.trials(), moves(at)[-1].reason) == ([("HELD", None)], "the line is cut; a person must say")
    (at.settings.work / "cut").unlink()
    assert at.finish() == "budget: 1 of 1 trials"
    assert (at.trial().attempt, at.trial().spent, len(at.started())) == (2, 1.0, 1)


def test_a_pass_leaves_a_trial_that_a_person_moved_meanwhile_to_the_next(tmp_path):
    at = rig(tmp_path, dispatcher={"kind": "remote"})
    at.tell("wait", "answer 2")
    sent = at.send()
    at.let_go()
    eventually(lambda: at.answered(sent))
    (at.settings.work / "meanwhile").touch()
    passed = at.step()  # the dispatcher says "finished" and a person cancels before that is written down
    assert (passed.harvested, passed.proposed) == (0, 1)
    (late,) = at.ledger.results("b-0001")
    assert late.verdict == "accepted", "found again at the end of the same harvest, as any late result"
    assert at.finish() == "budget: 2 of 2 trials"


def test_a_claim_that_a_person_gave_up_while_it_was_submitted_is_stopped(tmp_path):
    at = rig(tmp_path, budget={"trials": 1})
    at.tell("wait")
    assert at.step_in_child(FIELDCRAFT_DIE_AT="ledger.move.RUNNING.before#1") == -signal.SIGKILL
    assert at.trials() == [("STAGED", None)]
    eventually(lambda: at.started())
    (process,) = alive(at)
    assert main(["abandon", "b-0001", "--reason", "the wrong mesh"]) == 0
    eventually(lambda: not is_alive(*process))
    assert at.finish() == "budget: 1 of 1 trials"
