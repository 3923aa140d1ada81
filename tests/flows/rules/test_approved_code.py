"""What is approved is what runs: source files that change after an approval, before and after a trial is sent."""

import os
import re
import signal
from pathlib import Path

import pytest
from rig import SIMULATOR, Rig, eventually, rig
from small import alter

from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.rules.approved_code import listed
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.records import Event, TrialState

OLD, NEW = "float(value or 1.0)", "float(value or 7.0)"


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def edit(at: Rig, name: str = "simulators/rig.py", old: str = OLD, new: str = NEW) -> None:
    """Change a plug-in; by default what the simulator answers."""
    file = at.folder / "plugins" / name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def moved(at: Rig, to: TrialState, number: int = 1) -> list[Event]:
    events = at.ledger.history("b", at.trial(number).id)
    return [event for event in events if event.after is to and event.before is not to]


def approved(at: Rig) -> None:
    """Have the first trial proposed and approved by a person."""
    at.step()
    assert main(["approve", "b-0001", "--comment", "go"]) == 0


def test_a_simulator_that_changed_after_a_persons_approval_does_not_run_under_it(tmp_path, capsys):
    at = rig(tmp_path, human=True, budget={"trials": 1})
    approved(at)
    edit(at)
    told = []
    with listening(lambda event, details: told.append((event, details))):
        passed = at.step()
    assert (passed.sent, passed.decision.wait, at.trials()) == (0, "person", [("PROPOSED", None)])
    (given,) = at.ledger.approvals("b-0001")
    why = rf"simulators/rig\.py changed since {given.by} approved it on \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    (event, details), *_ = told
    assert event == "approval void"
    for command in ("queue", "show", "trace", "notices"):
        capsys.readouterr()
        assert main([command, *(["b-0001"] if command in ("show", "trace") else ["b"])]) == 0
        (line, *_) = [line for line in capsys.readouterr().out.splitlines() if "simulators/rig.py changed" in line]
        assert details["reason"] in line
    assert details["reason"] == moved(at, TrialState.PROPOSED)[-1].reason
    assert re.fullmatch(why, details["reason"])
    assert at.started() == []
    assert main(["approve", "b-0001"]) == 0
    at.finish()
    assert at.trial().outputs == {"value": 7.0, "excess": -1.0}
    assert len(at.started()) == 1
    old, new = at.ledger.approvals("b-0001")
    assert (old.live, new.live) == (False, True)
    assert old.code != new.code
    codes = at.ledger.codes("b")
    assert codes[old.code].differing(codes[new.code]) == ("simulators/rig.py",)


@pytest.mark.parametrize("name", ["problems/rig.py", "dispatchers/remote.py"])
def test_the_problem_and_the_dispatcher_are_part_of_what_is_approved(tmp_path, name):
    at = rig(tmp_path, human=True, dispatcher={"kind": "remote"})
    approved(at)
    edit(at, name, "See the test.", "See this test.")
    assert at.step().sent == 0
    assert moved(at, TrialState.PROPOSED)[-1].reason.startswith(f"{name} changed since ")


def test_a_helper_is_part_of_what_is_approved(tmp_path, monkeypatch):
    beside = tmp_path / "plugins" / "simulators"
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:{Path(__file__).parents[3]}:{beside}")
    monkeypatch.syspath_prepend(beside)
    at = rig(tmp_path, human=True, budget={"trials": 1})
    (beside / "answers_of_the_rig.py").write_text("USUAL = 1.0\n")
    edit(at, new="float(value or answers_of_the_rig.USUAL)")
    edit(at, old="import os\n", new="import os\nimport answers_of_the_rig\n")
    approved(at)
    (beside / "answers_of_the_rig.py").write_text("USUAL = 5.0\n")
    assert at.step().sent == 0
    assert moved(at, TrialState.PROPOSED)[-1].reason.startswith("simulators/answers_of_the_rig.py changed since ")
    assert main(["approve", "b-0001"]) == 0
    at.finish()
    assert at.trial().outputs == {"value": 5.0, "excess": -1.0}


def test_a_file_that_nothing_imports_voids_nothing(tmp_path):
    at = rig(tmp_path, human=True)
    approved(at)
    (at.folder / "plugins" / "simulators" / "other.py").write_text("")
    assert at.step().sent == 1


def test_under_auto_a_change_is_noted_on_the_trials_and_holds_nothing_up(tmp_path):
    at = rig(tmp_path, budget={"trials": 3}, algorithm={"start": {"n": 2}})
    at.tell("wait")
    at.send(1)
    edit(at)
    at.let_go()
    at.finish()
    assert [trial.outputs["value"] for trial in at.ledger.trials("b")] == [1.0, 7.0, 7.0]
    (first,), (old, new), (last,) = (at.ledger.approvals(trial.id) for trial in at.ledger.trials("b"))
    assert first.live
    assert first.comment == last.comment == ""
    assert not old.live
    assert new.comment.startswith("simulators/rig.py changed since policy:auto approved it on ")


def test_under_auto_the_first_trial_after_a_change_says_what_changed_since_which(tmp_path):
    at = rig(tmp_path, budget={"trials": 2})
    at.send(1)
    eventually(lambda: at.answered(at.trial()))
    edit(at)
    at.finish()
    assert at.ledger.approvals("b-0002")[-1].comment == "simulators/rig.py changed since b-0001 was approved"


def test_a_trial_under_way_is_not_touched_and_what_evaluates_it_otherwise_is_noted(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 1})
    at.tell("wait")
    approved(at)
    at.send(1)
    edit(at)
    edit(at, "problems/rig.py", "See the test.", "See this test.")
    at.let_go()
    at.finish()
    assert at.trial().outputs == {"value": 1.0, "excess": -1.0}
    (result,) = at.ledger.results("b-0001")
    assert result.details["note"] == "evaluated after problems/rig.py changed"


def test_a_file_that_changes_between_the_dispatch_and_the_import_is_refused_where_it_would_run(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 1}, dispatcher={"kind": "remote"})
    approved(at)
    (at.settings.work / "edit").parent.mkdir(exist_ok=True)
    (at.settings.work / "edit").write_text(SIMULATOR.replace(OLD, NEW))
    at.steps(lambda decision: decision.wait == "person" or decision.finished)
    assert at.started() == []
    assert at.trials() == [("PROPOSED", None)]
    (failed,) = moved(at, TrialState.FAILED)
    assert failed.reason.startswith("simulators/rig.py is not what was approved")
    assert (at.trial().attempt, at.trial().spent) == (1, 0.0)
    assert main(["approve", "b-0001"]) == 0
    at.finish()
    assert at.trial().outputs == {"value": 7.0, "excess": -1.0}


def test_a_retry_of_a_trial_whose_code_has_changed_is_asked_about_again(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 1})
    at.tell("wait", "answer 3")
    approved(at)
    at.send(1)
    edit(at, old='if act == "transient"', new='if act == "wait"')  # of the file that runs already: no difference
    (at.folder / "acts").write_text("transient\nanswer 3")
    running = at.trial()
    at.ledger.move(running.id, TrialState.FAILED, running.expect, "ana", "no licence", failure="transient")
    os.killpg(running.handle["pid"], signal.SIGKILL)  # before it has a result, which would count
    assert at.steps(lambda decision: decision.wait == "person")
    assert at.trials() == [("PROPOSED", None)]
    assert len(at.started()) == 1
    assert main(["approve", "b-0001"]) == 0
    at.finish()
    assert at.trial().attempt == 2


def test_a_claimed_trial_whose_code_has_changed_before_it_was_sent_is_taken_back_and_asked_about_again(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 1})
    approved(at)
    first = at.trial()
    at.ledger.move(first.id, TrialState.STAGED, first.expect, "a pass that was killed", "", code=at.code)
    edit(at)
    assert at.steps(lambda decision: decision.wait == "person")
    assert at.started() == []
    (failed,) = moved(at, TrialState.FAILED)
    assert failed.reason.startswith("simulators/rig.py changed since ")
    assert failed.reason.endswith(" UTC before it was sent")
    assert at.trials() == [("PROPOSED", None)]
    assert at.ledger.check() == []


def test_of_a_batch_all_is_asked_about_again(tmp_path):
    at = rig(tmp_path, approval="batch", algorithm={"start": {"n": 3}}, budget={"trials": 3})
    at.step()
    assert main(["approve", "--batch", "b:0"]) == 0
    edit(at)
    assert at.step().sent == 0
    assert at.trials() == [("PROPOSED", None)] * 3


def test_an_approval_that_says_nothing_of_the_code_is_asked_for_once_more_and_a_policy_goes_on(tmp_path):
    at = rig(tmp_path, approval={"after_first": 1}, algorithm={"start": {"n": 2}}, dispatcher={"parallel": 2})
    at.tell("wait", "wait")
    at.step()
    assert main(["approve", "b-0001"]) == 0
    close_idle()
    alter(tmp_path / "home", "UPDATE events SET details = json_remove(details, '$.code') WHERE action = 'approve'")
    first, second = at.ledger.trials("b")
    assert (first.state, second.state) == (TrialState.APPROVED, TrialState.RUNNING), "what runs already is left alone"
    assert at.step().sent == 0
    assert "without saying which code was to run it" in moved(at, TrialState.PROPOSED)[-1].reason
    assert main(["approve", "b-0001"]) == 0
    assert at.step().sent == 1
    at.let_go()
    at.finish()


def test_where_the_code_is_not_to_be_seen_nothing_can_be_approved(tmp_path, monkeypatch, capsys):
    at = rig(tmp_path, human=True)
    at.step()
    monkeypatch.delenv("FIELDCRAFT_PLUGINS")
    assert main(["approve", "b-0001"]) == 2
    said = capsys.readouterr().err
    assert "No kind 'rig' in problems here: set FIELDCRAFT_PLUGINS to the directory that has problems/rig.py" in said
    assert at.trials()[0] == ("PROPOSED", None)


def test_many_files_are_named_in_part():
    assert listed(["a.py"]) == "a.py"
    assert listed(["a.py", "b.py", "c.py", "d.py", "e.py"]) == "a.py, b.py, c.py and 2 more"


def test_what_waits_for_its_turn_is_asked_about_at_once(tmp_path):
    at = rig(tmp_path, human=True, algorithm={"start": {"n": 3}}, budget={"trials": 3})
    at.tell("wait")
    at.step()
    assert main(["approve", "b-0001", "b-0002", "b-0003"]) == 0
    at.send(1)
    edit(at)
    at.step()
    assert [state for state, _ in at.trials()] == ["RUNNING", "PROPOSED", "PROPOSED"]
    at.let_go()
    eventually(lambda: at.answered(at.trial()))
