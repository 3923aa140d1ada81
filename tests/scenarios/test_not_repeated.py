"""An experiment that is not idempotent is never sent twice by a resume; what nobody can tell waits for a person."""

import json
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from driving import Driver

from fieldcraft.flows.identity import Person
from fieldcraft.flows.people.interventions import retry
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

HERE = Path(__file__).resolve().parent
UNLUCKY = ("storage", "models", "types_", "physics", "psutil")


@dataclass(frozen=True)
class Drive:
    """Runs the campaign in ``folder``, a working directory full of a user's unlucky file names, as the driver's is."""

    driver: Driver
    folder: Path

    def __call__(self, **environment: str) -> int:
        settings = {
            "FIELDCRAFT_HOME": str(self.folder / "home"),
            "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
            "FIELDCRAFT_MLFLOW": "off",
            "SIMULATED": str(self.folder / "simulated"),
            "EXPORT_LATER": "1",
        }
        return self.driver.run(self.folder / "saddle.yaml", {**settings, **environment}, self.folder)


def unlucky(folder: Path) -> Path:
    for name in UNLUCKY:
        (folder / f"{name}.py").write_text("raise SystemExit('a user\\'s file was imported')")
    return folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    made = Driver(tmp_path_factory.mktemp("log") / "log", unlucky(tmp_path_factory.mktemp("cwd")))
    yield made
    made.close()


@pytest.fixture
def drive(driver, tmp_path):
    text = (HERE / "saddle.yaml").read_text().replace("kind: counted", "kind: delicate")
    (unlucky(tmp_path) / "saddle.yaml").write_text(text)
    return Drive(driver, tmp_path)


def states(folder: Path) -> list[str]:
    return [str(trial.state) for trial in open_ledger(folder / "home" / "ledger.sqlite").trials("saddle")]


def runs(folder: Path) -> Counter:
    return Counter(tuple(json.loads(line)) for line in (folder / "simulated").read_text().splitlines())


@pytest.mark.parametrize("point", ["ledger.move.STAGED.after#1", "ledger.move.RUNNING.before#2"])
def test_a_pass_killed_around_the_submission_sends_no_experiment_twice(drive, tmp_path, point):
    assert drive(FIELDCRAFT_DIE_AT=point) == -signal.SIGKILL
    assert drive() == 0, drive.driver.said()
    assert states(tmp_path) == ["COMPLETED"] * 3
    assert sorted(runs(tmp_path).values()) == [1, 1, 1]


def test_an_experiment_that_was_killed_itself_is_held_and_not_repeated(drive, tmp_path):
    assert drive(FIELDCRAFT_DIE_AT="result.rename.before#1") == 3, drive.driver.said()
    assert states(tmp_path) == ["HELD", "HELD"]
    assert drive() == 3
    assert sorted(runs(tmp_path).values()) == [1, 1]


def test_a_held_experiment_runs_again_only_when_a_person_approves_it_afresh(drive, tmp_path):
    assert drive(FIELDCRAFT_DIE_AT="result.rename.before#1") == 3
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    held, other = ledger.trials("saddle")
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(HERE / "plugins")}, tmp_path / "home")
    retry(ledger, settings, Person("ana", "operator"), held.id, "nothing was spent")
    assert drive() == 3
    assert states(tmp_path) == ["COMPLETED", "HELD"]
    ledger.move(other.id, TrialState.ABANDONED, other.expect, "ana", "the sample broke")
    assert drive() == 0, drive.driver.said()
    assert states(tmp_path) == ["COMPLETED", "ABANDONED", "COMPLETED"]
    assert sorted(runs(tmp_path).values()) == [1, 1, 2]


def test_a_problem_whose_evaluate_fails_keeps_the_finished_result_for_when_it_is_mended(drive, tmp_path):
    plugins = tmp_path / "mine"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "simulators").mkdir()
    (plugins / "simulators" / "delicate.py").write_text((HERE / "plugins/simulators/delicate.py").read_text())
    sound = (HERE / "plugins/problems/saddle.py").read_text()
    broken = sound + '\n    def evaluate(self, design, fields):\n        return {"hieght": 1.0}\n'
    (plugins / "problems" / "saddle.py").write_text(broken)
    assert drive(FIELDCRAFT_PLUGINS=str(plugins)) == 1
    assert "evaluate of problem 'saddle' failed: ValueError: it gave no 'height'" in drive.driver.said()
    assert set(states(tmp_path)) == {"RUNNING"}
    (plugins / "problems" / "saddle.py").write_text(sound)
    assert drive(FIELDCRAFT_PLUGINS=str(plugins)) == 0, drive.driver.said()
    assert sorted(runs(tmp_path).values()) == [1, 1, 1]
