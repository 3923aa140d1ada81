"""A campaign killed with SIGKILL at every commit point in turn, and resumed, is the campaign that was never killed."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

from flows.doctor import examine
from flows.settings import settings_from
from storage import fields, ledger, tracking
from storage.fields import FieldStore
from storage.ledger import open_ledger
from storage.records import SETTLED, TrialState

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# All there are, but for what takes a person, a failure, a laboratory, a listener, or an older ledger:
# tests/contracts/test_ledger_crashes.py kills that.
UNUSUAL = {f"move.{state}" for state in (TrialState.PROPOSED, TrialState.APPROVED, *SETTLED, TrialState.HELD)} | {
    *("upgrade", "adopt", "reject", "edit", "prioritise", "hear", "correct", "notice.told"),
    *("copy", "seal", "unseal", "take_over", "mend", "outbox.forgotten"),
}
POINTS = {*ledger.COMMIT_POINTS, *fields.COMMIT_POINTS, *tracking.COMMIT_POINTS} - {
    f"ledger.{name}.{when}" for name in UNUSUAL for when in ("before", "after")
}


class Driver:
    """A ``driver.py`` process."""

    def __init__(self, log: Path) -> None:
        self.log = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def drive(self, home: Path, **environment: str) -> int:
        """Run the campaign to its end in ``home``; the exit status, negative for a signal."""
        settings = {
            "FIELDCRAFT_HOME": str(home),
            "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
            "SIMULATED": str(_counter(home)),
            **environment,
        }
        request = {"file": str(HERE / "saddle.yaml"), "environment": settings}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["status"]

    def close(self) -> None:
        self.process.communicate()
        self.log.close()


@dataclass(frozen=True)
class Seen:
    """What a home holds."""

    designs: list
    outputs: list
    origins: list
    results: dict
    unexported: int
    runs: Counter
    metrics: Counter
    findings: list


def look(home: Path) -> Seen:
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(HERE / "plugins")}, home)
    opened = open_ledger(settings.ledger)
    trials = opened.trials("saddle")
    store = FieldStore(settings.fields)
    for trial in trials:
        assert trial.field is not None, opened.history("saddle", trial.id)
        store.verify(trial.field)
    runs, metrics = _tracked(home)
    return Seen(
        designs=[trial.design for trial in trials],
        outputs=[trial.outputs for trial in trials],
        origins=[trial.origin.model_dump(exclude={"model", "environment"}) for trial in trials],
        results={trial.id: [result.outputs for result in opened.results(trial.id)] for trial in trials},
        unexported=len(opened.pending()),
        runs=runs,
        metrics=metrics,
        findings=examine(settings),
    )


def _tracked(home: Path) -> tuple[Counter, Counter]:
    """How often MLflow shows each thing, and how many points each metric has."""
    with sqlite3.connect(home / "mlflow" / "mlflow.db") as connection:
        runs = connection.execute("SELECT value FROM tags WHERE key = 'fieldcraft.key'").fetchall()
        points = connection.execute(
            "SELECT tags.value, metrics.key FROM metrics JOIN tags USING (run_uuid) WHERE tags.key = 'fieldcraft.key'"
        ).fetchall()
    return Counter(key for (key,) in runs), Counter(points)


def _committed(home: Path) -> dict[str, dict]:
    """Designs of the trials whose result the ledger holds, by trial."""
    if not (home / "ledger.sqlite").exists():
        return {}
    with sqlite3.connect(home / "ledger.sqlite") as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchone():
            return {}
    opened = open_ledger(home / "ledger.sqlite")
    if not opened.campaigns():
        return {}
    return {t.id: (t.design, t.outputs) for t in opened.trials("saddle", states={TrialState.COMPLETED})}


def _counter(home: Path) -> Path:
    return home.parent / f"{home.name}.simulated"


def _simulated(home: Path) -> Counter:
    file = _counter(home)
    return Counter(tuple(json.loads(line)) for line in file.read_text().splitlines()) if file.exists() else Counter()


@dataclass(frozen=True)
class Killed:
    """One kill and what came after."""

    status: int
    committed: dict
    simulated: Counter
    resumed: int
    simulated_after: Counter
    seen: Seen


@dataclass(frozen=True)
class Reference:
    """A campaign that nobody killed, in two halves, and the commit points that each half passes."""

    folder: Path
    points: dict[str, list[str]]
    seen: Seen


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recovery")
    (folder / "new").mkdir()
    driver, points, log = Driver(folder / "driver.log"), {}, folder / "points"
    try:
        shutil.copytree(folder / "new", folder / "ended")
        assert driver.drive(folder / "ended", FIELDCRAFT_POINTS_LOG=str(log), EXPORT_LATER="1") == 0
        points["new"] = sorted(set(log.read_text().split()))
        log.unlink()
        # MLflow's first migration takes seconds: every export begins with a migrated, empty store.
        for home in (folder / "new", folder / "ended"):
            (home / "mlflow").mkdir()
        store = folder / "new" / "mlflow" / "mlflow.db"
        migrate = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{store}"]
        subprocess.run(migrate, check=True, capture_output=True)
        shutil.copy(store, folder / "ended" / "mlflow")
        copied(folder, "ended", "reference")
        assert driver.drive(folder / "reference", FIELDCRAFT_POINTS_LOG=str(log)) == 0
        points["ended"] = sorted(set(log.read_text().split()))
    finally:
        driver.close()
    return Reference(folder, points, look(folder / "reference"))


def copied(folder: Path, home: str, name: str) -> Path:
    """A copy of a home, with the count of its simulations, under another name."""
    shutil.copytree(folder / home, folder / name)
    if (counter := _counter(folder / home)).exists():
        shutil.copy(counter, _counter(folder / name))
    return folder / name


@pytest.fixture(scope="module")
def killed(uninterrupted):
    """Every commit point -> what a kill there and the campaign resumed after it left behind.

    Points of the campaign itself are killed from an empty home, those of the export from a campaign that has ended.
    """
    drivers, folder = SimpleQueue(), uninterrupted.folder
    for number in range(2):
        drivers.put(Driver(folder / f"driver-{number}.log"))

    def kill(place):
        home, point = place
        driver, name = drivers.get(), f"{home}: {point}"
        try:
            at = copied(folder, home, name.replace(": ", "-").replace("#", "-"))
            later = {"EXPORT_LATER": "1"} if home == "new" else {}
            status = driver.drive(at, FIELDCRAFT_DIE_AT=point, **later)
            committed, simulated = _committed(at), _simulated(at)
            resumed = driver.drive(at)
            return name, Killed(status, committed, simulated, resumed, _simulated(at), look(at))
        finally:
            drivers.put(driver)

    with ThreadPoolExecutor(2) as pool:
        places = [(home, point) for home, points in uninterrupted.points.items() for point in points]
        outcome = dict(pool.map(kill, places))
    for _ in range(2):
        drivers.get().close()
    return outcome


def test_the_campaign_passes_every_commit_point_named(uninterrupted):
    passed = {point.partition("#")[0] for points in uninterrupted.points.values() for point in points}
    assert passed == POINTS


def test_the_child_is_killed_at_each_point_and_resumes_to_the_end(killed):
    inside_simulation = {point for point in killed if "result." in point}
    assert {p for p, k in killed.items() if k.status != -signal.SIGKILL} == inside_simulation
    assert {p: k.resumed for p, k in killed.items() if k.resumed != 0} == {}


def test_no_accepted_result_is_lost(killed):
    for point, outcome in killed.items():
        for trial, (_, outputs) in outcome.committed.items():
            assert outputs in outcome.seen.results[trial], point
        assert all(len(results) == 1 for results in outcome.seen.results.values()), point


def test_no_design_is_simulated_again_once_its_result_was_committed(killed):
    for point, outcome in killed.items():
        for design, _ in outcome.committed.values():
            place = (design["x"], design["y"])
            assert outcome.simulated_after[place] == outcome.simulated[place] > 0, point


def test_only_a_simulation_that_was_itself_killed_runs_twice(killed):
    for point, outcome in killed.items():
        extra = sum(outcome.simulated_after.values()) - 3
        assert extra == (2 if point == "new: result.rename.before#1" else 0), point


def test_resumed_designs_and_readings_equal_the_uninterrupted_ones_bit_for_bit(killed, uninterrupted):
    reference = uninterrupted.seen
    assert len(reference.designs) == 3
    for point, outcome in killed.items():
        assert outcome.seen.designs == reference.designs, point
        assert outcome.seen.outputs == reference.outputs, point
        assert outcome.seen.origins == reference.origins, point


def test_the_doctor_finds_nothing_after_any_kill(killed):
    assert {point: outcome.seen.findings for point, outcome in killed.items() if outcome.seen.findings} == {}


def test_mlflow_shows_everything_exactly_once_after_any_kill(killed, uninterrupted):
    reference = uninterrupted.seen
    assert sorted(reference.runs) == [
        "campaign:saddle",
        "surrogate:saddle-0001",
        "surrogate:saddle-0002",  # of all readings, for which is best
        "trial:saddle-0001",
        "trial:saddle-0002",
        "trial:saddle-0003",
    ]
    for point, outcome in killed.items():
        assert outcome.seen.unexported == 0, point
        assert set(outcome.seen.runs.values()) == {1}, point
        assert (outcome.seen.runs, outcome.seen.metrics) == (reference.runs, reference.metrics), point
