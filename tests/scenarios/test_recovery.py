"""A campaign killed with SIGKILL at every commit point, and resumed each time, is the campaign that was never killed.

Few campaigns take all kills: each is killed at every ``STRIDE``-th point, a process more for every kill, so that any
process but the last recovers from one kill, works on over the next points, and is killed itself. That each point alone
is followed by a whole run is what tests/chaos/test_kills.py shows in its long form.
"""

import json
import shutil
import signal
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from driving import Driver

from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage import fields, ledger
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import SETTLED, TrialState
from fieldcraft.storage.trackers import campaigns as tracking

HERE = Path(__file__).resolve().parent
# All there are, but for what takes a person, a notebook, a failure, a laboratory, a listener, or an older ledger:
# tests/contracts/test_ledger_crashes.py kills that.
UNUSUAL = {f"move.{state}" for state in (TrialState.PROPOSED, TrialState.APPROVED, *SETTLED, TrialState.HELD)} | {
    *("upgrade", "adopt", "reject", "edit", "prioritise", "pick", "hear", "correct", "notice.told", "lease.give"),
    *("copy", "seal", "unseal", "take_over", "mend", "outbox.forgotten", "note.warm_start"),
}
POINTS = {*ledger.COMMIT_POINTS, *fields.COMMIT_POINTS, *tracking.COMMIT_POINTS} - {
    f"ledger.{name}.{when}" for name in UNUSUAL for when in ("before", "after")
}
STRIDE = 6  # points between two kills of a campaign; at least as many as a process passes before its first work
AGAIN = {"tracking.export": "ledger.outbox.exported"}  # what is done again -> the effect after which it is not
OWN = {"lease.acquire", "lease.release", "create", "notify", "note.acquire"}  # what every process may write down anew


def drive(driver: Driver, home: Path, **environment: str) -> int:
    """Run the campaign to its end in ``home``; the exit status, negative for a signal."""
    settings = {
        "FIELDCRAFT_HOME": str(home),
        "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
        "SIMULATED": str(_counter(home)),
    }
    return driver.run(HERE / "saddle.yaml", {**settings, **environment})


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
    store = fields_at(settings.fields)
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
    """One kill, and what the campaign was in the end, after it and those that followed."""

    status: int
    committed: dict
    simulated: Counter
    resumed: int
    simulated_after: Counter
    effects: Counter
    seen: Seen


@dataclass(frozen=True)
class Reference:
    """A campaign that nobody killed, in two halves, and the commit points that each half passes, in their order."""

    folder: Path
    points: dict[str, list[str]]
    effects: dict[str, Counter]
    seen: Seen

    def chains(self) -> list[tuple[str, list[str]]]:
        """Homes to start from, each with the points at which one campaign is killed; jobs are killed in their own."""
        of_jobs = {home: [p for p in points if p.startswith("result.")] for home, points in self.points.items()}
        alone = [(home, [point]) for home, points in of_jobs.items() for point in points]
        rest = {home: [p for p in points if p not in of_jobs[home]] for home, points in self.points.items()}
        return alone + [(home, points[start::STRIDE]) for home, points in rest.items() for start in range(STRIDE)]


def effects(log: Path) -> Counter:
    """How often the processes that wrote a log of points have had each effect."""
    lines = log.read_text().split() if log.exists() else ()
    return Counter(line.partition(".after#")[0] for line in lines if ".after#" in line)


def passage(point: str, log: Path) -> str:
    """A point of the whole campaign as the next process passes it, which counts from one again."""
    name, _, number = point.partition("#")
    effect = name.rpartition(".")[0]
    return f"{name}#{int(number) - effects(log)[AGAIN.get(effect, effect)]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recovery")


@pytest.fixture(scope="module")
def driver(folder):
    made = Driver(folder / "driver.log")
    yield made
    made.close()


@pytest.fixture(scope="module")
def uninterrupted(folder, driver):
    (folder / "new").mkdir()
    points, made, log = {}, {}, folder / "points"
    shutil.copytree(folder / "new", folder / "ended")
    assert drive(driver, folder / "ended", FIELDCRAFT_POINTS_LOG=str(log), EXPORT_LATER="1") == 0
    points["new"], made["new"] = list(dict.fromkeys(log.read_text().split())), effects(log)
    log.unlink()
    copied(folder, "ended", "reference")
    assert drive(driver, folder / "reference", FIELDCRAFT_POINTS_LOG=str(log)) == 0
    points["ended"], made["ended"] = list(dict.fromkeys(log.read_text().split())), effects(log)
    return Reference(folder, points, made, look(folder / "reference"))


def copied(folder: Path, home: str, name: str) -> Path:
    """A copy of a home, with the count of its simulations, under another name."""
    shutil.copytree(folder / home, folder / name)
    if (counter := _counter(folder / home)).exists():
        shutil.copy(counter, _counter(folder / name))
    return folder / name


@pytest.fixture(scope="module")
def killed(uninterrupted, driver):
    """Every commit point -> what a kill there and the campaign resumed after it left behind.

    Points of the campaign itself are killed from an empty home, those of the export from a campaign that has ended.
    """
    chains = [killed_in_turn(driver, uninterrupted.folder, *chain) for chain in uninterrupted.chains()]
    return {point: kill for kills in chains for point, kill in kills.items()}


def killed_in_turn(driver: Driver, folder: Path, home: str, points: list[str]) -> dict[str, Killed]:
    """Kill one campaign at each of the points, and let it go on to its end after the last."""
    at = copied(folder, home, f"{home}-{points[0]}".replace("#", "-"))
    log, kills = at.with_name(f"{at.name}.log"), []
    later = {"EXPORT_LATER": "1"} if home == "new" else {}
    for point in points:
        dies = {"FIELDCRAFT_DIE_AT": passage(point, log), "FIELDCRAFT_POINTS_LOG": str(log)}
        kills.append((drive(driver, at, **dies, **later), _committed(at), _simulated(at)))
    resumed = drive(driver, at, FIELDCRAFT_POINTS_LOG=str(log), **later)
    made = effects(log)
    if later and resumed == 0:
        resumed = drive(driver, at)
    after = (resumed, _simulated(at), made, look(at))
    return {f"{home}: {point}": Killed(*kill, *after) for point, kill in zip(points, kills, strict=True)}


def test_the_campaign_passes_every_commit_point_named(uninterrupted):
    passed = {point.partition("#")[0] for points in uninterrupted.points.values() for point in points}
    assert passed == POINTS


def test_the_child_is_killed_at_each_point_and_resumes_to_the_end(killed):
    inside_simulation = {point for point in killed if "result." in point}
    assert {p for p, k in killed.items() if k.status != -signal.SIGKILL} == inside_simulation
    assert {p: k.resumed for p, k in killed.items() if k.resumed != 0} == {}


def test_every_point_is_killed_and_every_effect_made_once_over_all_processes_of_a_campaign(killed, uninterrupted):
    assert set(killed) == {f"{home}: {point}" for home, points in uninterrupted.points.items() for point in points}
    own = {*(f"ledger.{name}" for name in OWN), *AGAIN, "result.rename"}
    for point, outcome in killed.items():
        if "result." not in point:  # where a job was killed, its trial is sent once more
            reference = uninterrupted.effects[point.partition(":")[0]]
            assert {e: n for e, n in (outcome.effects - reference).items() if e not in own} == {}, point
            assert {e: n for e, n in (reference - outcome.effects).items() if e not in own} == {}, point


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
        "surrogate:saddle-0002",  # of all results, for which is best
        "trial:saddle-0001",
        "trial:saddle-0002",
        "trial:saddle-0003",
    ]
    for point, outcome in killed.items():
        assert outcome.seen.unexported == 0, point
        assert set(outcome.seen.runs.values()) == {1}, point
        assert (outcome.seen.runs, outcome.seen.metrics) == (reference.runs, reference.metrics), point
