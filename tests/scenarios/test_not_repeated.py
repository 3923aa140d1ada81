"""An experiment that is not idempotent is never sent twice by a resume; what nobody can tell waits for a person."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from storage.ledger import open_ledger
from storage.records import TrialState

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def drive(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run the campaign in a process of its own, from a working directory full of a user's unlucky file names."""
    (folder / "saddle.yaml").write_text((HERE / "saddle.yaml").read_text().replace("kind: counted", "kind: delicate"))
    for name in ("storage", "models", "types_", "physics", "psutil"):
        (folder / f"{name}.py").write_text("raise SystemExit('a user\\'s file was imported')")
    settings = {
        "PYTHONPATH": str(ROOT),
        "FIELDCRAFT_HOME": str(folder / "home"),
        "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
        "FIELDCRAFT_MLFLOW": "off",
        "SIMULATED": str(folder / "simulated"),
        "EXPORT_LATER": "1",
    }
    return subprocess.run(
        [sys.executable, "-P", str(HERE / "driver.py"), "saddle.yaml"],
        env={**os.environ, **settings, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def states(folder: Path) -> list[str]:
    return [str(trial.state) for trial in open_ledger(folder / "home" / "ledger.sqlite").trials("saddle")]


def runs(folder: Path) -> Counter:
    return Counter(tuple(json.loads(line)) for line in (folder / "simulated").read_text().splitlines())


@pytest.mark.parametrize("point", ["ledger.move.STAGED.after#1", "ledger.move.RUNNING.before#2"])
def test_a_pass_killed_around_the_submission_sends_no_experiment_twice(tmp_path, point):
    assert drive(tmp_path, FIELDCRAFT_DIE_AT=point).returncode == -signal.SIGKILL
    done = drive(tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(tmp_path) == ["COMPLETED"] * 3
    assert sorted(runs(tmp_path).values()) == [1, 1, 1]


def test_an_experiment_that_was_killed_itself_is_held_and_not_repeated(tmp_path):
    done = drive(tmp_path, FIELDCRAFT_DIE_AT="result.rename.before#1")
    assert done.returncode == 3, done.stderr
    assert states(tmp_path) == ["HELD", "HELD"]
    assert drive(tmp_path).returncode == 3
    assert sorted(runs(tmp_path).values()) == [1, 1]


def test_a_held_experiment_runs_again_only_when_a_person_approves_it_afresh(tmp_path):
    assert drive(tmp_path, FIELDCRAFT_DIE_AT="result.rename.before#1").returncode == 3
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    held, other = ledger.trials("saddle")
    ledger.approve(held.id, held.expect, held.digest, "ana", "nothing was spent", "manual", 1)
    assert drive(tmp_path).returncode == 3
    assert states(tmp_path) == ["COMPLETED", "HELD"]
    ledger.move(other.id, TrialState.ABANDONED, other.expect, "ana", "the sample broke")
    done = drive(tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(tmp_path) == ["COMPLETED", "ABANDONED", "COMPLETED"]
    assert sorted(runs(tmp_path).values()) == [1, 1, 2]


def test_a_problem_whose_evaluate_fails_keeps_the_finished_result_for_when_it_is_mended(tmp_path):
    plugins = tmp_path / "mine"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "simulators").mkdir()
    (plugins / "simulators" / "delicate.py").write_text((HERE / "plugins/simulators/delicate.py").read_text())
    sound = (HERE / "plugins/problems/saddle.py").read_text()
    broken = sound + '\n    def evaluate(self, design, fields):\n        return {"hieght": 1.0}\n'
    (plugins / "problems" / "saddle.py").write_text(broken)
    done = drive(tmp_path, FIELDCRAFT_PLUGINS=str(plugins))
    assert done.returncode == 1
    assert "evaluate of problem 'saddle' failed: KeyError: 'height'" in done.stderr
    assert set(states(tmp_path)) == {"RUNNING"}
    (plugins / "problems" / "saddle.py").write_text(sound)
    done = drive(tmp_path, FIELDCRAFT_PLUGINS=str(plugins))
    assert done.returncode == 0, done.stderr
    assert sorted(runs(tmp_path).values()) == [1, 1, 1]
