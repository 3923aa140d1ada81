"""Beginning a campaign, going on with one of an earlier version, and what is said where a campaign waits for people."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rig import Rig, rig
from small import SMALL, command

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.prefect_server import Server
from fieldcraft.flows.run import awaited
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

ASSETS = Path(__file__).resolve().parents[1] / "storage" / "assets"
HOLD = """
import sys, time
from fieldcraft.storage.open_ledger import open_ledger
open_ledger(sys.argv[1]).acquire("b")
print("held", flush=True)
time.sleep(600)
"""
EVENTS = """
import sys
from pathlib import Path
from fieldcraft.flows.machinery.prefect_server import Server
server = Server(Path(sys.argv[1]))
server.begin()
server.ready()
from prefect.events import emit_event
for number in range(200):
    emit_event(f"test.{number}", {"prefect.resource.id": "test"})
server.close()
"""


@pytest.fixture(autouse=True)
def _plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    (tmp_path / "plugins").mkdir()


def small(folder: Path, text: str) -> str | None:
    """Create ``small`` from a text beside the ledger of schema 1; why it has ended."""
    (folder / "small.yaml").write_text(text)
    campaign = wire(read_campaign(folder / "small.yaml"), settings_from({}, folder / "home"))
    return created(open_ledger(campaign.settings.ledger), campaign, folder / "small.yaml")


def test_a_campaign_stored_by_an_earlier_version_goes_on_if_its_file_says_the_same(tmp_path):
    (tmp_path / "home").mkdir()
    shutil.copy(ASSETS / "ledger-v1.sqlite", tmp_path / "home" / "ledger.sqlite")
    assert small(tmp_path, SMALL) == "budget: 3 of 3 trials"
    before = open_ledger(tmp_path / "home" / "ledger.sqlite").campaign("small").spec
    assert before["approval"] == "auto" and "wall_time_h" not in before["budget"], "it stays as it was stored"
    with pytest.raises(InputError, match=r"another specification \(noise.sd: 0.5 -> 0.25\)\. Restore these keys"):
        small(tmp_path, SMALL.replace("sd: 0.5", "sd: 0.25"))
    with pytest.raises(InputError, match=r"\(approval.policy: auto -> human\)"):
        small(tmp_path, SMALL + "approval: human\n")


def test_create_writes_a_campaign_down_and_makes_no_pass(tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(SMALL)
    assert main(["create", str(tmp_path / "small.yaml")]) == 0
    assert capsys.readouterr().out == "small: ready for its passes\n"
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    assert ledger.trials("small") == ()
    assert ledger.campaign("small").limits.trials == 3
    assert main(["create", str(tmp_path / "small.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is None
    assert len(ledger.history("small")) == 1


@pytest.mark.parametrize("words", [["create", "b.yaml"], ["run", "b.yaml"], ["iterate", "b"]])
def test_who_is_no_operator_makes_no_campaign_and_no_pass(tmp_path, capsys, monkeypatch, words):
    at = rig(tmp_path)
    (tmp_path / "people.yaml").write_text("users: {}\n")
    (tmp_path / "people.yaml").chmod(0o600)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(tmp_path / "people.yaml"))
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "is a viewer and may not operate: ask an operator" in capsys.readouterr().err
    assert at.ledger.trials("b") == ()


def test_what_is_awaited_names_each_thing_and_the_command_that_settles_it(tmp_path):
    at = rig(tmp_path, human=True, algorithm={"start": {"n": 2}})
    at.step()
    assert str(awaited(at.campaign, at.ledger)) == (
        "Campaign 'b' waits. 2 proposals to decide on: 'fieldcraft queue b' shows what waits. "
        "The same command then goes on; nothing is lost."
    )
    hold(at.ledger, at)
    assert (
        "b-0001 is held (the power went): 'fieldcraft record', 'retry' or 'abandon' b-0001 says what became of it"
        in str(awaited(at.campaign, at.ledger))
    )


def hold(ledger: Ledger, at: Rig) -> None:
    first = at.trial()
    approved = ledger.approve(first.id, first.expect, first.digest, "ana", "", "manual", 1)
    staged = ledger.move(first.id, TrialState.STAGED, approved.expect, "ana", "")
    ledger.move(first.id, TrialState.HELD, staged.expect, "ana", "the power went")


def test_work_orders_that_are_out_are_said_to_be_with_the_laboratory(tmp_path):
    at = rig(tmp_path, simulator=None, dispatcher={"kind": "lab"})
    at.steps(lambda decision: decision.wait == "laboratory")
    (waits,) = awaited(at.campaign, at.ledger).waits
    assert f"1 work order with the laboratory: {tmp_path / 'home' / 'lab' / 'b'}" in waits


def test_events_that_prefect_still_holds_are_sent_before_its_server_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", EVENTS, str(tmp_path / "prefect")], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_run_ends_with_3_where_a_person_has_to_decide_and_goes_on_after_that(tmp_path):
    at = rig(tmp_path, human=True, budget={"trials": 1})
    at.tell("answer 2")
    began = time.monotonic()
    waits = command("run", tmp_path / "b.yaml")
    assert waits.returncode == 3
    assert waits.stderr == "", "to wait is no error"
    assert time.monotonic() - began < 60.0, "for so long Prefect looks for a server that has ended"
    assert "1 proposal to decide on: 'fieldcraft queue b' shows what waits\nThe same command then" in waits.stdout
    assert at.ledger.holder("b") is None
    assert main(["approve", "b-0001"]) == 0
    ended = command("run", tmp_path / "b.yaml", "--json", "--profile")
    assert ended.returncode == 0, ended.stderr
    *_, summary, profile = map(json.loads, ended.stdout.splitlines())
    assert (summary["event"], summary["reason"]) == ("summary", "budget: 1 of 1 trials")
    assert (profile["event"], profile["trials"]) == ("profile", 1)
    assert sum(part["seconds"] for part in profile["parts"].values()) == pytest.approx(profile["seconds"], rel=1e-9)


def test_iterate_is_refused_while_another_process_makes_passes_unless_told_that_it_is_gone(tmp_path):
    at = rig(tmp_path)
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(at.settings.ledger)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        refused = command("iterate", "b")
        assert refused.returncode == 2
        assert f"pid {other.pid}" in refused.stderr
        assert at.ledger.trials("b") == ()
        broken = command("iterate", "b", "--break-lease")
        assert broken.returncode == 0, broken.stderr
        assert len(at.ledger.trials("b")) == 1
        assert at.ledger.holder("b") is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()


def test_a_server_that_has_ended_leaves_the_environment_as_it_was(tmp_path):
    names = ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
    before = {name: os.environ.get(name) for name in names}
    server = Server(tmp_path)
    assert os.environ["PREFECT_HOME"] == str(tmp_path / "server")
    server.close()
    assert {name: os.environ.get(name) for name in names} == before
