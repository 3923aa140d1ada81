"""``check`` tries a design of a formula, and a campaign without a single result does not end as a success."""

import json
from pathlib import Path

import pytest
from small import command, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.views.all_failed import fruitless
from fieldcraft.flows.wiring import trial_designs
from fieldcraft.flows.wiring.campaign_file import read
from fieldcraft.storage.open_ledger import open_ledger

PROBLEM = """\
import os
import threading
from dataclasses import dataclass

import numpy as np

from fieldcraft.physics.problem import Infeasible, Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Rod(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"),))

    @property
    def outputs(self):
        return (Output("y", "K"),)

    def function(self, design):
        {body}
"""
CAMPAIGN = """\
name: rod
seed: 3
sense: minimize
problem: {kind: rod}
simulator: {kind: function}
algorithm:
  start: {n: 2}
dispatcher: {kind: inline}
budget: {trials: 2}
"""
LINE = len(PROBLEM.splitlines())


def rod(folder: Path, body: str, campaign: str = CAMPAIGN) -> Path:
    """A campaign file of a formula."""
    (folder / "mine" / "problems").mkdir(parents=True)
    (folder / "mine" / "problems" / "rod.py").write_text(PROBLEM.format(body=body))
    (folder / "rod.yaml").write_text(campaign)
    return folder / "rod.yaml"


def checked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: str
) -> tuple[int, str, str]:
    """Exit status, last line and errors of ``check`` on a formula."""
    file = rod(folder, body)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder / "mine"))
    status = main(["check", str(file), "--home", str(folder / "home")])
    out, err = capsys.readouterr()
    assert not (folder / "home").exists()
    return status, out, err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return {'y': design['z']}", f"KeyError: 'z' ({{file}}, line {LINE})"),
        ("return {'z': design['x']}", "ValueError: The problem's function gave 'z' without a unit"),
        ("return design['x']", "return numbers by name, or an xarray.Dataset."),
        ("return {'y': [design['x']]}", "return a number, or an xarray.Dataset."),
        ("return {'y': float('nan')}", "the output 'y' is nan"),
        ("return {'y': np.float64(1.0) / 0}", "the output 'y' is inf"),
        ("raise SystemExit(3)", f"SystemExit: 3 ({{file}}, line {LINE})"),
        ("raise ValueError('a' * 5000)", "ValueError: aaa"),
    ],
)
def test_what_would_fail_every_trial_is_told_and_the_check_fails(tmp_path, capsys, monkeypatch, body, said):
    status, out, err = checked(tmp_path, capsys, monkeypatch, body)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "rod.yaml: line 4: problem: 3 designs were tried, and every trial would fail: " in err
    assert said.replace("{file}", str(tmp_path / "mine" / "problems" / "rod.py")) in err
    assert len(err) < 3000 and not err.rstrip().endswith("..")


@pytest.mark.parametrize(
    "body",
    [
        "return {'y': np.array(design['x'])}",
        "return {'y': np.array(3)}",
        "return {'y': np.float32(design['x'])}",
        "raise Infeasible('too hot')",
        "print('a word'); return {'y': 1.0}",
    ],
)
def test_a_formula_with_results_or_a_reason_of_its_own_passes(tmp_path, capsys, monkeypatch, body):
    status, out, err = checked(tmp_path, capsys, monkeypatch, body)
    assert (status, err) == (0, "")
    assert "a word" not in out and "warning" not in out


def test_a_formula_that_sees_no_secret_of_the_operators(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_WEBHOOK_TOKEN", "hush")
    body = "return {'y': 1.0 if 'FIELDCRAFT_WEBHOOK_TOKEN' not in os.environ else None}"
    assert checked(tmp_path, capsys, monkeypatch, body)[0] == 0


def test_a_formula_that_fails_here_and_there_is_a_warning(tmp_path, capsys, monkeypatch):
    body = "import itertools; global N; N = globals().get('N', -1) + 1; return {'y': [None, 1.0][min(N, 1)]}"
    status, out, err = checked(tmp_path, capsys, monkeypatch, body)
    assert (status, err) == (0, "")
    assert "rod.yaml: warning: a design that was tried fails: ValueError: The problem's function gave y = None" in out


def test_a_formula_that_takes_long_is_left_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trial_designs, "_PATIENCE_S", 0.1)
    status, out, _ = checked(tmp_path, capsys, monkeypatch, "threading.Event().wait()")
    assert status == 0
    assert "warning: a design took over 0.1 s to try; nothing is known of its result." in out


def test_a_simulation_that_may_cost_something_is_not_tried(tmp_path, capsys, monkeypatch):
    file = rod(
        tmp_path,
        "return {'y': 1.0}",
        CAMPAIGN.replace("{kind: function}", "{kind: furnace}").replace("inline", "local"),
    )
    (tmp_path / "mine" / "simulators").mkdir()
    (tmp_path / "mine" / "simulators" / "furnace.py").write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\n"
        "from fieldcraft.physics.problem import Simulator\n\n\n"
        "@dataclass(frozen=True)\nclass Furnace(Simulator):\n    def run(self, problem, design, rng):\n"
        f"        Path({str(tmp_path / 'lit')!r}).touch()\n"
    )
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "mine"))
    assert main(["check", str(file)]) == 0
    assert not (tmp_path / "lit").exists()


def failed(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str = "return {'y': design['z']}") -> Path:
    """A campaign of two trials that has ended with this formula."""
    file = rod(folder, body)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder / "mine"))
    finish(file, folder / "home", folder / "mine")
    return file


def test_a_campaign_whose_trials_all_failed_says_why_and_does_not_exit_0(tmp_path, monkeypatch, capsys):
    file = failed(tmp_path, monkeypatch)
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    assert fruitless(ledger, "rod", ledger.summaries("rod")) == "all 2 trials failed: KeyError: 'z'"
    done = command("run", file, "--home", tmp_path / "home")
    assert (done.returncode, done.stderr) == (1, "")
    assert "  no result all 2 trials failed: KeyError: 'z'\n" in done.stdout
    assert main(["run", str(file), "--home", str(tmp_path / "home"), "--json"]) == 1
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["fruitless"] == "all 2 trials failed: KeyError: 'z'"


def test_a_study_repeats_why_all_trials_of_a_campaign_failed(tmp_path, monkeypatch):
    campaign = read(failed(tmp_path, monkeypatch), settings_from(home=tmp_path / "home"))
    found = measured(campaign, open_ledger(tmp_path / "home" / "ledger.sqlite"))
    assert found["fruitless"] == "all 2 trials failed: KeyError: 'z'"


def test_a_campaign_with_one_result_or_none_tried_is_not_fruitless(tmp_path, monkeypatch):
    body = "global N; N = globals().get('N', -1) + 1; return {'y': [None, 1.0][min(N, 1)]}"
    failed(tmp_path, monkeypatch, body)
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    trials = ledger.summaries("rod")
    assert {trial.state for trial in trials} == {"FAILED", "COMPLETED"}
    assert fruitless(ledger, "rod", trials) is None
    assert fruitless(ledger, "rod", ()) is None
    assert fruitless(ledger, "rod", [t for t in trials if t.state == "FAILED"]).startswith(
        "the only trial failed: Value"
    )
