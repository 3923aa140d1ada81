"""What MLflow's own views ask for: campaigns side by side over their experiments, trials in parallel coordinates."""

import shutil
from pathlib import Path
from typing import Any

import mlflow.tracking
import pytest

from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState, digest_of
from fieldcraft.storage.trackers.campaigns import Objective, Tracker

CAMPAIGNS = {"heat": "trained", "heat-basis": "basis", "heat-gp": "exact_gp"}
READINGS = {"heat": (10.0, 40.0, 30.0), "heat-basis": (10.0, 50.0, 20.0), "heat-gp": (10.0, 15.0, 45.0)}
SECONDS = (2.0, 3.0, 4.0)


def run(ledger: Ledger, name: str, kind: str, readings: tuple[float, ...]) -> None:
    """A finished campaign over a plate, whose trial i reads ``readings[i]`` at (i, 2 i)."""
    spec = {"seed": 1, "sense": "maximize", "problem": {"kind": "heat"}, "algorithm": {"surrogate": {"kind": kind}}}
    ledger.create_campaign(name, spec, digest_of(spec), {"commit": "0123abc"}, "test")
    for number, reading in enumerate(readings):
        origin = Origin(kind="initial", algorithm="sobol", iteration=number, slot=0)
        design = {"x": float(number), "y": 2.0 * number}
        (trial,) = ledger.propose(name, number, [Proposal(design=design, origin=origin, cost=1.5)], "test")
        trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 1)
        trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claim")
        trial = ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "sent", handle={})
        outputs = {"temperature": reading}
        ledger.record(trial.id, trial.expect, outputs, None, "test", "local", {}, seconds=SECONDS[number])
    ledger.finish(name, "budget", "test")


def tracker_of(folder: Path) -> Tracker:
    objective = Objective("temperature", maximize=True)
    return Tracker(f"sqlite:///{folder / 'mlflow.db'}", fields_at(folder / "fields"), lambda campaign: objective)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger and the MLflow store that its three campaigns were exported to."""
    folder = tmp_path_factory.mktemp("exported")
    ledger = open_ledger(folder / "ledger.db", create=True)
    for name, kind in CAMPAIGNS.items():
        run(ledger, name, kind, READINGS[name])
    tracker_of(folder).export(ledger)
    close_idle()  # folds SQLite's log into the file, so that a copy is whole
    return folder


@pytest.fixture
def client(exported: Path, tmp_path: Path) -> mlflow.tracking.MlflowClient:
    """A client of a copy, in ``tmp_path``, of that store."""
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    return mlflow.tracking.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")


def experiments(client: mlflow.tracking.MlflowClient) -> list[str]:
    return [client.get_experiment_by_name(name).experiment_id for name in CAMPAIGNS]


def curve(client: mlflow.tracking.MlflowClient, run: Any, metric: str) -> list[tuple[int, float]]:
    return sorted((point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric))


def test_campaigns_are_found_over_experiments_with_the_metrics_and_parameters_they_are_compared_by(client):
    runs = client.search_runs(experiments(client), "tags.`fieldcraft.kind` = 'campaign'")
    assert {run.info.run_name for run in runs} == set(CAMPAIGNS)
    for found in runs:
        assert set(found.data.metrics) == {"temperature", "best_so_far", "total.seconds", "total.spent"}
        assert found.data.params["problem.kind"] == "heat"
    kinds = {run.info.run_name: run.data.params["algorithm.surrogate.kind"] for run in runs}
    assert kinds == CAMPAIGNS


def test_campaigns_are_ranked_by_their_final_best_and_drawn_by_number_of_results(client):
    order = ["metrics.best_so_far DESC"]
    runs = client.search_runs(experiments(client), "tags.`fieldcraft.kind` = 'campaign'", order_by=order)
    assert [run.info.run_name for run in runs] == ["heat-basis", "heat-gp", "heat"]
    assert curve(client, runs[0], "best_so_far") == [(1, 10.0), (2, 50.0), (3, 50.0)]
    assert curve(client, runs[0], "total.seconds") == [(1, 2.0), (2, 5.0), (3, 9.0)]
    assert curve(client, runs[0], "total.spent") == [(1, 1.5), (2, 3.0), (3, 4.5)]


def test_curves_of_campaigns_have_different_colours(client):
    runs = client.search_runs(experiments(client), "tags.`fieldcraft.kind` = 'campaign'")
    assert len({run.data.tags["mlflow.runColor"] for run in runs}) == 3


def test_the_trials_of_a_campaign_have_numbers_for_parallel_coordinates(client):
    (experiment, *_) = experiments(client)
    runs = client.search_runs([experiment], "tags.`fieldcraft.kind` = 'trial'", order_by=["metrics.temperature DESC"])
    assert [run.info.run_name for run in runs] == ["heat-0002", "heat-0003", "heat-0001"]
    assert [{name: float(text) for name, text in run.data.params.items()} for run in runs] == [
        {"x": 1.0, "y": 2.0},
        {"x": 2.0, "y": 4.0},
        {"x": 0.0, "y": 0.0},
    ]
    assert [run.data.metrics["temperature"] for run in runs] == [40.0, 30.0, 10.0]
    assert [run.data.metrics["trial.seconds"] for run in runs] == [3.0, 4.0, 2.0]


def test_a_file_attached_to_a_campaign_replaces_the_one_before(client, tmp_path):
    tracker, ledger, page = tracker_of(tmp_path), open_ledger(tmp_path / "ledger.db"), tmp_path / "any name.html"
    for text in ("first", "second"):
        page.write_text(text)
        run = tracker.attach(ledger, "heat-gp", page, "report.html")
    (found,) = client.search_runs([experiments(client)[2]], "tags.`fieldcraft.kind` = 'campaign'")
    assert run == found.info.run_id
    assert [artifact.path for artifact in client.list_artifacts(run)] == ["report.html"]
    assert Path(client.download_artifacts(run, "report.html", str(tmp_path))).read_text() == "second"


def test_nothing_is_attached_to_a_campaign_that_is_not_shown_or_whose_run_was_deleted(client, tmp_path):
    tracker, ledger, page = tracker_of(tmp_path), open_ledger(tmp_path / "ledger.db"), tmp_path / "page.html"
    page.write_text("text")
    run(ledger, "later", "exact_gp", (1.0,))
    assert tracker.attach(ledger, "later", page, "report.html") is None
    client.delete_run(str(tracker.attach(ledger, "heat", page, "report.html")))
    assert tracker.attach(ledger, "heat", page, "report.html") is None
