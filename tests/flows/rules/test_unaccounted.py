"""A ledger that has lost what was last written into it: found by the jobs and orders that it does not know."""

import shutil
import signal
from pathlib import Path

import pytest
from bench import OVEN_CAMPAIGN, bench
from rig import Rig, eventually, rig

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.people.interventions import retry
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.records import TrialState


@pytest.fixture(autouse=True)
def _kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))


def sent_and_killed(made: Rig, number: int) -> None:
    """Let a process send the trial of that number and be killed as soon as it has written that down."""
    dies = {"FIELDCRAFT_DIE_AT": "ledger.move.RUNNING.after#1"}
    assert made.step_in_child(**dies) == -signal.SIGKILL
    assert made.trial(number).state is TrialState.RUNNING and made.ledger.approvals(made.trial(number).id)
    eventually(lambda: made.answered(made.trial(number)))


def cut(home: Path, kept: bytes) -> None:
    """What is left where a log is lost: the file as it was when the ledger was last at rest."""
    close_idle()
    (home / "ledger.sqlite").write_bytes(kept)


def test_a_job_of_a_trial_that_a_cut_log_has_lost_is_found_and_no_pass_goes_on_over_it(tmp_path, capsys):
    made = rig(tmp_path)
    home = made.settings.home
    close_idle()
    kept = (home / "ledger.sqlite").read_bytes()
    sent_and_killed(made, 1)
    assert [finding.kind for finding in examine(made.settings)] == ["trial"], "healthy: its result waits"
    cut(home, kept)
    job = home / "work" / "b" / "b-0001-1"
    assert made.ledger.check() == [], "of itself it is sound"
    (finding,) = examine(made.settings)
    assert finding.kind == "ledger"
    assert finding.text.startswith(f"{job}: b-0001 was sent, and the ledger holds no such trial. What was written")
    assert main(["repair", "--yes", "--reason", "x", "--home", str(home)]) == 1 and job.exists()
    capsys.readouterr()
    with pytest.raises(
        FieldcraftError, match=r"b-0001-1: b-0001 was sent.*move what lies there away.*No pass was made"
    ):
        made.step()
    assert made.ledger.trials("b") == ()
    shutil.move(job, tmp_path / "aside")
    made.finish()
    assert examine(made.settings) == [] and len(made.started()) == 3


def test_an_attempt_whose_approval_a_cut_log_has_lost_is_found_and_the_one_before_it_is_not(tmp_path):
    made = rig(tmp_path, human=True, dispatcher={"attempts": 1})
    made.tell("transient")
    made.step()
    trial = made.trial()
    made.ledger.approve(trial.id, trial.expect, trial.digest, "ana", "", "manual", 1, code=made.code)
    made.steps(lambda _: made.trial().state is TrialState.FAILED)
    assert (made.settings.work / "b" / "b-0001-1").is_dir() and examine(made.settings) == []
    close_idle()
    kept = (made.settings.home / "ledger.sqlite").read_bytes()
    retry(made.ledger, made.settings, Person("ana", "operator"), "b-0001")
    sent_and_killed(made, 1)
    cut(made.settings.home, kept)
    texts = [finding.text for finding in examine(made.settings)]
    assert [text.partition(". What")[0] for text in texts] == [
        f"{made.settings.work / 'b' / 'b-0001-2'}: attempt 2 was sent, and the ledger has made 1"
    ]


def test_a_work_order_that_a_cut_log_has_lost_is_found_and_those_of_others_are_left_alone(tmp_path, monkeypatch):
    laboratory = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    laboratory.make_pass()
    close_idle()
    kept = (laboratory.settings.home / "ledger.sqlite").read_bytes()
    laboratory.order()
    assert examine(laboratory.settings) == []
    cut(laboratory.settings.home, kept)
    texts = [finding.text for finding in examine(laboratory.settings) if finding.kind == "ledger"]
    orders = sorted((laboratory.orders / "open").iterdir())
    assert [text.partition(":")[0] for text in texts] == [str(order) for order in orders] != []
    assert "attempt 1 was sent, and the ledger has made 0" in texts[0]
    (laboratory.orders / "campaign.json").write_text('{"campaign": "oven", "identity": "another store"}')
    assert [finding for finding in examine(laboratory.settings) if finding.kind == "ledger"] == []
