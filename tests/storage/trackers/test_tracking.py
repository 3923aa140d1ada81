import http.server
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mlflow.entities
import mlflow.tracking
import numpy as np
import pytest
import xarray as xr

from fieldcraft.storage.fields import FieldStore, fields_at
from fieldcraft.storage.ledger import LeaseHeld, Ledger
from fieldcraft.storage.ledgers.operations.leases import EXPORTER
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import (
    CertificateRecord,
    FieldRef,
    Known,
    Origin,
    Proposal,
    Trial,
    TrialState,
    digest_of,
)
from fieldcraft.storage.trackers.campaigns import COMMIT_POINTS, Objective, Tracker, TrackingError
from fieldcraft.storage.trackers.locations import displaced, relocate, require_store
from fieldcraft.storage.trackers.runs import NESTED, PARENT, CampaignRuns
from fieldcraft.storage.trackers.studies import CellRun, show_cell

SPEC = {"problem": {"kind": "heat", "boundary": 2}, "seed": 7, "noise": {"of_sd": 0.02}, "variables": ["x", "y"]}
ENVIRONMENT = {"commit": "0123abc", "threads": 2, "versions": {"numpy": "2.4"}}
OBJECTIVE = Objective("temperature", maximize=True)


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initialised store to copy, because MLflow takes seconds to make its tables."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    mlflow.tracking.MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path / "ledger.db", create=True)


@pytest.fixture
def fields(tmp_path: Path) -> FieldStore:
    return fields_at(tmp_path / "fields")


@pytest.fixture
def uri(tmp_path: Path, empty_mlflow: Path) -> str:
    shutil.copy(empty_mlflow, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def tracker(uri: str, fields: FieldStore) -> Tracker:
    return Tracker(uri, fields, lambda campaign: OBJECTIVE)


def create(ledger: Ledger, name: str = "heat", spec: dict[str, Any] = SPEC) -> None:
    ledger.create_campaign(name, spec, digest_of(spec), ENVIRONMENT, "test")


def propose(ledger: Ledger, iteration: int, *xs: float, campaign: str = "heat", **origin: Any) -> tuple[Trial, ...]:
    kind = "model" if "model" in origin else "initial"
    return ledger.propose(
        campaign,
        iteration,
        [
            Proposal(
                design={"x": x, "level": "low"},
                origin=Origin(kind=kind, algorithm="sobol", iteration=iteration, slot=slot, **origin),
            )
            for slot, x in enumerate(xs)
        ],
        "test",
    )


def start(ledger: Ledger, trial: Trial) -> Trial:
    if trial.state is TrialState.PROPOSED:
        trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "automatic", 3)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "claim")
    return ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "sent", handle={"pid": 1})


def complete(ledger: Ledger, trial: Trial, ran: dict[str, Any] | None = None, **outputs: float) -> Trial:
    return ledger.record(trial.id, trial.expect, outputs, None, "test", "local", {}, ran=ran)[0]


def fail(ledger: Ledger, trial: Trial) -> Trial:
    return ledger.move(trial.id, TrialState.FAILED, trial.expect, "test", "exit 1", failure="transient")


def checkpoint() -> xr.Dataset:
    return xr.Dataset({"weights.0": (("i", "j"), np.arange(6.0).reshape(2, 3)), "step": ((), np.int64(5))})


def build(ledger: Ledger, fields: FieldStore) -> None:
    """A small campaign with everything that can be shown: 3 trials (one fails and is retried), a model, an end."""
    create(ledger)
    first, second = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0))
    complete(ledger, first, temperature=10.0)
    again = fail(ledger, second)
    again = ledger.move(again.id, TrialState.APPROVED, again.expect, "test", "retry")
    complete(ledger, start(ledger, again), temperature=5.0)
    points = fields.write("collocation", xr.Dataset({"points": (("n", "axis"), np.ones((4, 2)))}))
    ledger.note("heat", 1, "collocate", {"scheme": "sobol"}, points)
    curve = [{"step": 0, "loss": 3.0, "residual": 1.0}, {"step": 100, "loss": 2.0, "residual": 0.5}]
    payload = {"surrogate": {"kind": "physics_informed"}, "metrics": {"loss": 1.5}, "curve": curve, "data_digest": "d"}
    model = ledger.note("heat", 1, "train", payload, fields.write("checkpoint", checkpoint())).ref
    (third,) = propose(ledger, 1, 3.0, model=model, mean=11.5, sd=0.25)
    complete(ledger, start(ledger, third), temperature=12.0)
    ledger.finish("heat", "budget", "test")


def shown(uri: str, experiment: str = "heat") -> dict[str, dict[str, Any]]:
    """All of an experiment by fieldcraft.key, without what MLflow makes up; two runs of one key are an error."""
    client = mlflow.tracking.MlflowClient(uri)
    found: dict[str, dict[str, Any]] = {}
    number = client.get_experiment_by_name(experiment).experiment_id
    runs = client.search_runs([number])
    keys = {run.info.run_id: run.data.tags["fieldcraft.key"] for run in runs}
    models = client.search_logged_models([number])
    for run in runs:
        key = keys[run.info.run_id]
        assert key not in found, f"two runs show {key}"
        points = {
            name: [(p.step, p.value, p.timestamp) for p in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        }
        found[key] = {
            "params": run.data.params,
            "tags": {name: keys.get(value, value) for name, value in run.data.tags.items()},
            "inputs": [
                (each.dataset.name, each.dataset.digest, each.tags[0].value) for each in run.inputs.dataset_inputs
            ],
            "models": [
                (each.name, each.model_type, each.params, each.tags, each.status.value, artifacts_of(each))
                for each in models
                if each.source_run_id == run.info.run_id
                and each.model_id in [output.model_id for output in run.outputs.model_outputs]
            ],
            "metrics": {name: sorted(values) for name, values in points.items()},
            "status": run.info.status,
            "times": (run.info.start_time, run.info.end_time),
            "artifacts": sorted(artifact.path for artifact in client.list_artifacts(run.info.run_id)),
            "name": run.info.run_name,
            "id": run.info.run_id,
        }
    return found


def artifacts_of(model: mlflow.entities.LoggedModel) -> list[str]:
    return sorted(file.name for file in Path(model.artifact_location.removeprefix("file://")).iterdir())


def values(run: dict[str, Any], metric: str) -> list[tuple[int, float]]:
    return [(step, value) for step, value, _ in run["metrics"][metric]]


def test_a_campaign_is_shown_as_the_parent_of_its_runs_with_its_specification(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str
) -> None:
    build(ledger, fields)
    assert tracker.export(ledger) == 7
    assert tracker.export(ledger) == 0 and ledger.pending() == ()
    runs = shown(uri)
    assert set(runs) == {"campaign:heat", "surrogate:heat-0001", *(f"trial:heat-000{n}" for n in (1, 2, 3))}
    parents = {key: run["tags"].get("mlflow.parentRunId") for key, run in runs.items()}
    assert parents == {key: None if key == "campaign:heat" else "campaign:heat" for key in runs}
    assert {run["tags"]["fieldcraft.kind"] for run in runs.values()} == {"campaign", "trial", "surrogate"}
    campaign = runs["campaign:heat"]
    assert campaign["params"] == {
        "problem.kind": "heat",
        "problem.boundary": "2",
        "seed": "7",
        "noise.of_sd": "0.02",
        "variables": '["x","y"]',
    }
    assert campaign["tags"]["fieldcraft.digest"] == digest_of(SPEC)
    assert campaign["tags"]["mlflow.source.git.commit"] == "0123abc"
    assert campaign["tags"]["fieldcraft.environment.versions.numpy"] == "2.4"
    assert campaign["tags"]["fieldcraft.finished"] == "budget"
    assert campaign["status"] == "FINISHED" and campaign["name"] == "heat"
    assert values(campaign, "best_so_far") == [(1, 10.0), (2, 10.0), (3, 12.0)]
    assert values(campaign, "temperature") == [(1, 10.0), (2, 5.0), (3, 12.0)]


def test_a_trial_is_shown_with_design_outputs_and_origin(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str
) -> None:
    build(ledger, fields)
    tracker.export(ledger)
    runs, trial = shown(uri), ledger.trial("heat-0003")
    run = runs["trial:heat-0003"]
    assert run["params"] == {"x": "3.0", "level": "low"}
    assert values(run, "temperature") == [(3, 12.0)] and values(run, "origin.mean") == [(3, 11.5)]
    assert run["times"] == (round(trial.created * 1000), round(trial.updated * 1000))
    assert run["tags"]["fieldcraft.state"] == "COMPLETED" and run["tags"]["fieldcraft.origin"] == "model"
    assert run["tags"]["fieldcraft.model"] == runs["surrogate:heat-0001"]["tags"]["fieldcraft.model"]
    retried = runs["trial:heat-0002"]
    assert retried["status"] == "FINISHED" and retried["tags"]["fieldcraft.state"] == "COMPLETED"
    assert retried["tags"]["fieldcraft.attempt"] == "2" and values(retried, "temperature") == [(2, 5.0)]


def test_a_surrogate_is_shown_with_curve_artifacts_and_held_out_error(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str, tmp_path: Path
) -> None:
    build(ledger, fields)
    tracker.export(ledger)
    run = shown(uri)["surrogate:heat-0001"]
    assert values(run, "loss") == [(0, 3.0), (100, 2.0), (101, 1.5)]
    assert values(run, "residual") == [(0, 1.0), (100, 0.5)]
    assert values(run, "held_out_error") == [(3, 0.5)]
    assert run["params"] == {"surrogate.kind": "physics_informed", "data_digest": "d", "iteration": "1"}
    assert run["artifacts"] == ["checkpoint.npz", "collocation.npz"]
    client = mlflow.tracking.MlflowClient(uri)
    with np.load(client.download_artifacts(run["id"], "checkpoint.npz", str(tmp_path))) as stored:
        np.testing.assert_array_equal(stored["weights.0"], checkpoint()["weights.0"])
        assert stored["step"].shape == () and stored["step"] == 5
    assert (tmp_path / "artifacts" / "heat").is_dir()
    points = ledger.product("heat", 1, "collocate")
    assert points is not None and points.reference is not None
    assert run["inputs"] == [
        ("results of heat", "d", "training"),
        ("collocation points of heat", points.reference.digest[:36], "collocation"),
    ]
    ((name, family, options, tags, status, files),) = run["models"]
    assert (name, family, options, status) == ("heat-0001", "physics_informed", {"kind": "physics_informed"}, "READY")
    assert tags["fieldcraft.model"] == run["tags"]["fieldcraft.model"] and tags["fieldcraft.campaign"] == "heat"
    assert files == ["MLmodel", "checkpoint.npz"]


def test_the_latest_pick_is_told_by_tags_of_the_campaign_s_run(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    done = [complete(ledger, start(ledger, trial), temperature=5.0) for trial in propose(ledger, 0, 1.0, 2.0)]
    for trial, why in zip(done, ("cheap", "stiff"), strict=True):
        ledger.pick(trial.id, trial.expect, "ana", why, {"rule": "by name"})
    tracker.export(ledger)
    tags = shown(uri)["campaign:heat"]["tags"]
    assert {name: tags[f"fieldcraft.{name}"] for name in ("pick", "pick.by", "pick.reason")} == {
        "pick": "heat-0002",
        "pick.by": "ana",
        "pick.reason": "stiff",
    }


def test_failed_rejected_and_abandoned_trials_are_closed_as_such(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    failed, rejected, abandoned = propose(ledger, 0, 1.0, 2.0, 3.0)
    fail(ledger, start(ledger, failed))
    ledger.move(rejected.id, TrialState.REJECTED, rejected.expect, "test", "no")
    abandoned = start(ledger, abandoned)
    ledger.move(abandoned.id, TrialState.ABANDONED, abandoned.expect, "test", "lost")
    tracker.export(ledger)
    runs = shown(uri)
    assert [runs[f"trial:heat-000{n}"]["status"] for n in (1, 2, 3)] == ["FAILED", "KILLED", "KILLED"]
    assert runs["trial:heat-0001"]["tags"]["fieldcraft.failure"] == "transient"
    assert runs["trial:heat-0001"]["metrics"] == {}
    assert runs["campaign:heat"]["status"] == "RUNNING" and runs["campaign:heat"]["metrics"] == {}


def test_the_best_so_far_follows_sense_constraints_and_order_of_results(
    ledger: Ledger, uri: str, fields: FieldStore
) -> None:
    create(ledger)
    late, early, infeasible = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0, 3.0))
    complete(ledger, early, cost=4.0, g=-1.0)
    complete(ledger, infeasible, cost=1.0, g=0.5)
    complete(ledger, late, cost=3.0, g=0.0)
    objective = Objective("cost", maximize=False, constraints=("g",))
    Tracker(uri, fields, lambda campaign: objective).export(ledger)
    assert values(shown(uri)["campaign:heat"], "best_so_far") == [(1, 4.0), (2, 4.0), (3, 3.0)]


def test_a_run_of_a_coarser_level_says_which_and_is_no_result_of_the_campaign(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger, spec={**SPEC, "levels": [{"cells": 24, "cost": 0.1}]})
    (coarse,), (fine,) = propose(ledger, 0, 1.0, level=0), propose(ledger, 1, 1.0)
    complete(ledger, start(ledger, coarse), temperature=9.0)
    complete(ledger, start(ledger, fine), temperature=3.0)
    tracker.export(ledger)
    runs = shown(uri)
    assert values(runs["campaign:heat"], "best_so_far") == values(runs["campaign:heat"], "temperature") == [(1, 3.0)]
    assert values(runs["trial:heat-0001"], "temperature") == [(1, 9.0)]
    told = [runs[f"trial:heat-000{number}"]["tags"].get("fieldcraft.level") for number in (1, 2)]
    assert told == ['{"cells":24,"cost":0.1}', None]


def test_no_feasible_result_shows_no_best(ledger: Ledger, uri: str, fields: FieldStore) -> None:
    create(ledger)
    (only,) = propose(ledger, 0, 1.0)
    complete(ledger, start(ledger, only), cost=1.0, g=0.5)
    Tracker(uri, fields, lambda campaign: Objective("cost", maximize=False, constraints=("g",))).export(ledger)
    metrics = set(shown(uri)["campaign:heat"]["metrics"])
    assert "best_so_far" not in metrics and {"cost", "least_violation"} < metrics


def test_objective_constraints_violation_and_feasibility_are_shown_apart(
    ledger: Ledger, uri: str, fields: FieldStore
) -> None:
    create(ledger)
    first, second, gone, third = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0, 3.0, 4.0))
    complete(ledger, first, cost=1.0, g=0.5, h=2.0)
    complete(ledger, second, cost=2.0, g=-1.0, h=0.25)
    ledger.move(gone.id, TrialState.FAILED, gone.expect, "test", "does not close", failure="infeasible")
    complete(ledger, third, cost=3.0, g=-1.0, h=0.0)
    objective = Objective("cost", maximize=False, constraints=("g", "h"))
    Tracker(uri, fields, lambda campaign: objective).export(ledger)
    runs = shown(uri)
    trials = [
        {name: points[-1][1] for name, points in runs[f"trial:{t.id}"]["metrics"].items()} for t in (first, third)
    ]
    assert (
        trials[0].items()
        >= {"cost": 1.0, "constraint.g": 0.5, "constraint.h": 2.0, "violation": 2.5, "feasible": 0.0}.items()
    )
    assert trials[1].items() >= {"constraint.h": 0.0, "violation": 0.0, "feasible": 1.0}.items()
    assert values(runs[f"trial:{gone.id}"], "feasible") == [(3, 0.0)]
    assert set(runs[f"trial:{gone.id}"]["metrics"]) == {"feasible"} and "g" not in trials[0]
    campaign = runs["campaign:heat"]
    assert values(campaign, "best_so_far") == [(3, 3.0)]
    assert values(campaign, "least_violation") == [(1, 2.5), (2, 0.25), (3, 0.0)]
    assert values(campaign, "total.feasible") == [(1, 0.0), (2, 0.0), (3, 1.0)]
    assert values(campaign, "total.infeasible") == [(1, 1.0), (2, 2.0), (3, 2.0)]
    assert values(campaign, "total.failed_infeasible") == [(2, 1.0), (3, 1.0)]


def test_a_part_of_a_failed_trials_result_leaves_the_time_of_its_failure(
    ledger: Ledger, uri: str, fields: FieldStore
) -> None:
    create(ledger)
    gone, after = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0))
    failed = ledger.move(gone.id, TrialState.FAILED, gone.expect, "test", "does not close", failure="infeasible")
    complete(ledger, after, cost=2.0, g=-1.0)
    ledger.record(gone.id, failed.expect, {"g": 0.5}, None, "ana", "person", {}, partial=True)
    Tracker(uri, fields, lambda campaign: Objective("cost", maximize=False, constraints=("g",))).export(ledger)
    runs = shown(uri)
    assert values(runs["campaign:heat"], "total.failed_infeasible") == [(0, 1.0), (1, 1.0)]
    assert runs[f"trial:{gone.id}"]["times"][1] == round(failed.updated * 1000)


def export_in_child(tmp_path: Path, uri: str, die_at: str) -> int:
    """Export in a forked process that kills itself at ``die_at``; its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.environ["FIELDCRAFT_DIE_AT"] = die_at
            tracker = Tracker(uri, fields_at(tmp_path / "fields"), lambda campaign: OBJECTIVE)
            tracker.export(open_ledger(tmp_path / "ledger.db"))
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_an_exporter_killed_at_every_point_of_every_item_shows_everything_once(
    ledger: Ledger, fields: FieldStore, tmp_path: Path, empty_mlflow: Path
) -> None:
    build(ledger, fields)
    items = len(ledger.pending())

    def copied(name: str) -> tuple[Path, str]:
        place = tmp_path / name
        place.mkdir()
        for file in [*tmp_path.glob("ledger.db*"), empty_mlflow]:
            shutil.copy(file, place)
        shutil.copytree(tmp_path / "fields", place / "fields")
        return place, f"sqlite:///{place / 'mlflow.db'}"

    def comparable(uri: str) -> dict[str, dict[str, Any]]:
        return {key: {name: value for name, value in run.items() if name != "id"} for key, run in shown(uri).items()}

    whole, uri = copied("whole")
    assert export_in_child(whole, uri, "") == 0
    expected = comparable(uri)
    assert len(expected) == 5
    kills: dict[str, int] = dict.fromkeys(COMMIT_POINTS, 0)
    for point in COMMIT_POINTS:  # each process shows what the one before it left, and is killed at the next such point
        place, uri = copied(point)
        further = 2 if point.endswith(".before") else 1  # the item before which the last one was killed comes first
        while status := export_in_child(place, uri, f"{point}#{further if kills[point] else 1}"):
            kills[point] += 1
            assert status == -signal.SIGKILL and kills[point] <= items, f"{point}, process {kills[point]}"
        assert comparable(uri) == expected, point
    assert kills == {
        "tracking.run.after": 5,
        "tracking.model.after": 1,
        "tracking.export.before": items,
        "tracking.export.after": items,
    }


def test_what_was_proven_of_a_design_is_shown(ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str) -> None:
    create(ledger)
    proven = CertificateRecord(bound=2.25, gap=0.25, status="node_limit", bound_of="exact", nodes=640)
    (trial,) = propose(ledger, 0, 1.0, acquisition=2.0, certificate=proven)
    complete(ledger, start(ledger, trial), temperature=9.0)
    tracker.export(ledger)
    run = shown(uri)["trial:heat-0001"]
    foreseen = {name: values(run, f"origin.{name}") for name in ("acquisition", "bound", "gap", "nodes")}
    assert foreseen == {"acquisition": [(1, 2.0)], "bound": [(1, 2.25)], "gap": [(1, 0.25)], "nodes": [(1, 640.0)]}
    assert run["tags"]["fieldcraft.certificate"] == "node_limit" and run["tags"]["fieldcraft.bound_of"] == "exact"


def test_what_comes_later_is_added_to_the_same_runs(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    model = ledger.note("heat", 0, "train", {"metrics": {"loss": 1.0}}, None).ref
    first, second = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0, model=model, mean=7.5))
    failed = fail(ledger, first)
    assert tracker.export(ledger) == 3
    complete(ledger, failed, temperature=8.0)  # a late result, accepted
    complete(ledger, second, temperature=9.0)
    assert tracker.export(ledger) == 2
    runs = shown(uri)
    assert runs["trial:heat-0001"]["status"] == "FINISHED"
    assert values(runs["trial:heat-0001"], "origin.mean") == [(1, 7.5)]
    assert "origin.gap" not in runs["trial:heat-0001"]["metrics"]
    assert values(runs["surrogate:heat-0000"], "held_out_error") == [(1, 0.5), (2, 1.5)]
    assert values(runs["campaign:heat"], "best_so_far") == [(1, 8.0), (2, 9.0)]


def test_a_store_that_was_emptied_is_shown_all_of_a_campaign_again(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    first, second = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0))
    complete(ledger, first, temperature=8.0)
    assert tracker.export(ledger) == 2
    before = shown(uri)
    database = Path(uri.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("latest_metrics", "metrics", "params", "tags", "runs", "experiments"):
            connection.execute(f"DELETE FROM {table}")
    complete(ledger, second, temperature=9.0)
    assert tracker.export(ledger) == 3
    after = shown(uri)
    assert after.keys() == {"campaign:heat", "trial:heat-0001", "trial:heat-0002"}
    assert after["campaign:heat"]["params"] == before["campaign:heat"]["params"] != {}
    assert values(after["campaign:heat"], "best_so_far") == [(1, 8.0), (2, 9.0)]
    assert (tracker.export(ledger), ledger.pending()) == (0, ())


def correct(ledger: Ledger, trial: Trial, **outputs: float) -> Trial:
    """Correct the result that counts; no outputs retract it."""
    last = ledger.results(trial.id)[-1].id
    return ledger.correct(trial.id, trial.expect, last, outputs or None, None, "ann", "the gauge", {})[0]


def latest(uri: str, key: str, metric: str) -> float:
    """What MLflow shows as a run's value of a metric."""
    client = mlflow.tracking.MlflowClient(uri)
    return client.get_run(shown(uri)[key]["id"]).data.metrics[metric]


@pytest.mark.parametrize("between", [True, False], ids=["exported before too", "exported at once"])
def test_a_corrected_trial_shows_its_new_values_on_the_same_run(
    ledger: Ledger, tracker: Tracker, uri: str, between: bool
) -> None:
    create(ledger)
    model = ledger.note("heat", 0, "train", {"metrics": {"loss": 1.0}}, None).ref
    first, second = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0, model=model, mean=7.5))
    first = complete(ledger, first, temperature=12.0)
    complete(ledger, second, temperature=9.0)
    if between:
        assert tracker.export(ledger) == 4
    correct(ledger, first, temperature=8.0)
    assert tracker.export(ledger) == (1 if between else 5)
    run = shown(uri)["trial:heat-0001"]
    told = [run["tags"][f"fieldcraft.{name}"] for name in ("state", "corrected", "retracted")]
    assert (run["status"], told) == ("FINISHED", ["COMPLETED", "1", "false"])
    assert values(run, "temperature") == [(1, 8.0), (1, 12.0)] and latest(uri, "trial:heat-0001", "temperature") == 8.0
    assert values(shown(uri)["surrogate:heat-0000"], "held_out_error") == [(1, 0.5), (1, 4.5), (2, 1.5)]
    assert values(shown(uri)["campaign:heat"], "temperature") == [(1, 12.0), (2, 9.0), (3, 8.0)]
    assert values(shown(uri)["campaign:heat"], "best_so_far") == [(1, 12.0), (2, 12.0), (3, 9.0)]
    assert "fieldcraft.corrected" not in shown(uri)["trial:heat-0002"]["tags"]


def test_a_retracted_trial_says_so_and_no_longer_counts_as_best_until_it_is_back(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    first, second = (start(ledger, trial) for trial in propose(ledger, 0, 1.0, 2.0))
    complete(ledger, first, temperature=9.0)
    gone = correct(ledger, complete(ledger, second, temperature=12.0))
    tracker.export(ledger)
    assert shown(uri)["trial:heat-0002"]["tags"]["fieldcraft.retracted"] == "true"
    assert values(shown(uri)["campaign:heat"], "best_so_far") == [(1, 9.0), (2, 12.0), (3, 9.0)]
    correct(ledger, gone, temperature=11.0)
    tracker.export(ledger)
    tags = shown(uri)["trial:heat-0002"]["tags"]
    assert (tags["fieldcraft.retracted"], tags["fieldcraft.corrected"]) == ("false", "2")
    assert values(shown(uri)["campaign:heat"], "best_so_far")[-1] == (4, 11.0)


def test_imported_measurements_are_shown_as_trials(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    known = [Known(design={"x": x, "level": "low"}, outputs={"temperature": 10 * x}) for x in (1.0, 2.0)]
    ledger.adopt("heat", known, "ab" * 32, "import of data.csv", "ann")
    assert tracker.export(ledger) == 3
    run = shown(uri)["trial:heat-0002"]
    assert (run["status"], run["params"]["x"], run["tags"]["fieldcraft.origin"]) == ("FINISHED", "2.0", "imported")
    assert values(shown(uri)["campaign:heat"], "best_so_far") == [(1, 10.0), (2, 20.0)]


def test_a_trial_that_was_shown_and_edited_since_keeps_its_parameters_and_names_the_new_design(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    model = ledger.note("heat", 0, "train", {"metrics": {"loss": 1.0}}, None).ref
    (trial,) = propose(ledger, 0, 1.0, model=model, mean=7.5)
    failed = fail(ledger, start(ledger, trial))
    tracker.export(ledger)
    again = ledger.approve(failed.id, failed.expect, failed.digest, "ann", "", "manual", 1)
    edited = ledger.edit(again.id, again.expect, {"x": 3.0, "level": "low"}, 1.0, "ann", "further out")
    complete(ledger, start(ledger, edited), temperature=8.0)
    assert tracker.export(ledger) == 1
    run = shown(uri)["trial:heat-0001"]
    assert (run["status"], run["params"]["x"]) == ("FINISHED", "1.0")  # MLflow lets no parameter be changed
    assert run["tags"]["fieldcraft.design"] == '{"level":"low","x":3.0}' and run["tags"]["fieldcraft.revision"] == "2"
    assert "held_out_error" not in shown(uri)["surrogate:heat-0000"]["metrics"]  # the prediction was for x = 1


def test_the_design_that_was_really_run_is_named(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    (trial,) = propose(ledger, 0, 1.0)
    complete(ledger, start(ledger, trial), temperature=8.0, ran={"x": 1.25, "level": "low"})
    tracker.export(ledger)
    assert shown(uri)["trial:heat-0001"]["tags"]["fieldcraft.ran"] == '{"level":"low","x":1.25}'


def test_only_the_campaign_asked_for_is_exported(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger, "one")
    create(ledger, "two")
    assert tracker.export(ledger, "two") == 1
    assert [item.campaign for item in ledger.pending()] == ["one"]
    client = mlflow.tracking.MlflowClient(uri)
    assert {experiment.name for experiment in client.search_experiments()} == {"Default", "two"}


def test_campaigns_of_one_name_in_two_ledgers_do_not_mix_on_a_shared_store(
    ledger: Ledger, tracker: Tracker, uri: str, tmp_path: Path
) -> None:
    other = open_ledger(tmp_path / "other.db", create=True)
    for one in (ledger, other):
        create(one)
        tracker.export(one)
    client = mlflow.tracking.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("heat").experiment_id])
    assert len({run.data.tags["fieldcraft.identity"] for run in runs}) == len(runs) == 2


def test_the_choice_of_a_surrogate_is_shown_with_its_run_and_with_the_trials_it_proposed(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    said = {"chosen": "physics_informed/basis", "out.a/b": "too few trials"}
    metrics = {"score.physics_informed/basis": -1.5, "score.exact_gp": -4.0}
    curve = [{"step": 1, "physics_informed/basis.log_evidence": 2.0}]
    model = ledger.note("heat", 1, "train", {"metrics": metrics, "curve": curve, "remarks": said}, None).ref
    scores = {name.removeprefix("score."): value for name, value in metrics.items()}
    propose(ledger, 1, 3.0, model=model, remarks=said, scores=scores)
    (trial,) = ledger.trials("heat")
    complete(ledger, start(ledger, trial), temperature=12.0)
    tracker.export(ledger)
    runs = shown(uri)
    for run, prefix in ((runs["surrogate:heat-0001"], "score"), (runs["trial:heat-0001"], "origin.score")):
        assert run["tags"]["fieldcraft.remark.chosen"] == "physics_informed/basis"
        assert run["tags"]["fieldcraft.remark.out.a.b"] == "too few trials"
        assert [value for _, value in values(run, f"{prefix}.physics_informed.basis")] == [-1.5]
        assert [value for _, value in values(run, f"{prefix}.exact_gp")] == [-4.0]
    assert values(runs["surrogate:heat-0001"], "physics_informed.basis.log_evidence") == [(1, 2.0)]


def test_names_and_values_that_mlflow_refuses_are_fitted_and_stay_distinct(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    spec = {
        "text": "x" * 7000,
        "a/b": 1,
        "a?b": 2,
        "k" * 300: 3,
        "empty": {},
        "none": None,
        "on": True,
        "..": 1,
        "": 2,
        ".": 3,
    }
    create(ledger, spec=spec)
    (trial,) = propose(ledger, 0, 1.0)
    complete(ledger, start(ledger, trial), **{"temperature": 1.0, "loss (%)": 2.0, "loss [%]": 3.0})
    assert tracker.export(ledger) == 2
    runs = shown(uri)
    params = runs["campaign:heat"]["params"]
    assert len(params) == len(spec) - 1 and max(map(len, params.values())) == 6000 and max(map(len, params)) == 250
    assert (params["empty"], params["on"]) == ("{}", "true") and "none" not in params
    assert sorted(value for name, value in params.items() if name.startswith("a_b-")) == ["1", "2"]
    assert len(set(runs["trial:heat-0001"]["metrics"]) - {"trial.seconds", "trial.spent"}) == 3


def test_a_curve_and_a_specification_longer_than_a_request_are_shown_whole(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger, spec={f"key{n}": n for n in range(250)})
    curve = [{"step": n, "loss": 1.0 / (n + 1), "residual": 1.0} for n in range(1200)]
    ledger.note("heat", 0, "train", {"curve": curve, "metrics": {}}, None)
    tracker.export(ledger)
    runs = shown(uri)
    assert len(runs["campaign:heat"]["params"]) == 250
    assert len(runs["surrogate:heat-0000"]["metrics"]["loss"]) == 1200


def test_a_lost_checkpoint_is_named_and_does_not_block_what_follows(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    ledger.note("heat", 0, "train", {"metrics": {"loss": 1.0}}, FieldRef(digest="0" * 64, size=8))
    ledger.finish("heat", "budget", "test")
    assert tracker.export(ledger) == 3
    run = shown(uri)["surrogate:heat-0000"]
    assert "manifest.json is missing" in run["tags"]["fieldcraft.checkpoint"] and run["artifacts"] == []


def test_a_run_that_a_person_deleted_stays_deleted(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    tracker.export(ledger)
    mlflow.tracking.MlflowClient(uri).delete_run(shown(uri)["campaign:heat"]["id"])
    (trial,) = propose(ledger, 0, 1.0)
    complete(ledger, start(ledger, trial), temperature=1.0)
    ledger.finish("heat", "budget", "test")
    assert tracker.export(ledger) == 2
    assert set(shown(uri)) == {"trial:heat-0001"}


def test_an_item_that_mlflow_refuses_keeps_none_before_it_from_being_shown(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    create(ledger)
    complete(ledger, start(ledger, propose(ledger, 0, 1.0)[0]), temperature=9.0)
    create(ledger, "other")
    client = mlflow.tracking.MlflowClient(uri)
    client.delete_experiment(client.create_experiment("other"))
    for _ in range(2):
        with pytest.raises(TrackingError, match=r"'other' .* was deleted"):
            tracker.export(ledger)
        assert [item.campaign for item in ledger.pending()] == ["other"]
        assert values(shown(uri)["campaign:heat"], "best_so_far") == [(1, 9.0)]


def test_a_deleted_experiment_is_an_error_that_says_how_to_restore_it(
    ledger: Ledger, tracker: Tracker, uri: str
) -> None:
    client = mlflow.tracking.MlflowClient(uri)
    number = client.create_experiment("heat")
    client.delete_experiment(number)
    create(ledger)
    with pytest.raises(TrackingError, match=f"'heat' .* was deleted.*restore --experiment-id {number}"):
        tracker.export(ledger)
    with pytest.raises(TrackingError, match=r"'heat' \(http://mlflow\.example\) was deleted"):
        _ = CampaignRuns(client, ledger.campaign("heat"), "http://ana:secret@mlflow.example").experiment
    client.restore_experiment(number)
    assert tracker.export(ledger) == 1


def test_a_second_exporter_is_refused_while_the_first_one_works(ledger: Ledger, tracker: Tracker, uri: str) -> None:
    create(ledger)
    lease = ledger.acquire_exporter()
    with pytest.raises(LeaseHeld, match=str(os.getpid())):
        tracker.export(ledger)
    assert len(ledger.pending()) == 1
    ledger.release(lease)
    assert tracker.export(ledger) == 1
    assert lease.campaign == EXPORTER


def assert_refused(tracker: Tracker, ledger: Ledger, message: str) -> None:
    before = ledger.pending()
    began = time.monotonic()
    with pytest.raises(TrackingError, match=message):
        tracker.export(ledger)
    assert time.monotonic() - began < 30
    assert ledger.pending() == before != ()
    ledger.release(ledger.acquire_exporter())  # the failed export has given its lease back


def test_a_broken_store_and_a_relative_one_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    create(ledger)
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database, and it is long enough to be read as one" * 50)
    assert_refused(
        Tracker(f"sqlite:///{broken}", None, lambda campaign: OBJECTIVE),
        ledger,
        r"MLflow at sqlite:////.*broken.db failed: .*not a database.*fieldcraft export mlflow",
    )
    assert_refused(Tracker("sqlite:///mlflow.db", None, lambda campaign: OBJECTIVE), ledger, "working directory")
    (tmp_path / "file").write_text("")
    assert_refused(
        Tracker(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}", None, lambda campaign: OBJECTIVE), ledger, "failed: "
    )


def test_a_dead_server_is_given_up_soon_and_its_password_is_not_repeated(ledger: Ledger, uri: str) -> None:
    create(ledger)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    dead = Tracker(f"http://ann:se@cret@127.0.0.1:{port}", None, lambda campaign: OBJECTIVE)
    assert_refused(dead, ledger, rf"MLflow at http://127.0.0.1:{port} failed: (?!.*cret).*fieldcraft export mlflow")
    assert Tracker(uri, None, lambda campaign: OBJECTIVE).export(ledger) == 1


@pytest.fixture
def other_server() -> Iterator[int]:
    """A web server that is not MLflow: it answers every request with a page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>Welcome</html>")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_server_that_is_not_mlflow_is_refused(ledger: Ledger, other_server: int) -> None:
    create(ledger)
    tracker = Tracker(f"http://127.0.0.1:{other_server}", None, lambda campaign: OBJECTIVE)
    assert_refused(tracker, ledger, "failed: .*fieldcraft export mlflow")


def test_without_mlflow_the_outbox_waits(ledger: Ledger, tmp_path: Path) -> None:
    create(ledger)
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "__init__.py").write_text("raise ImportError('No module named mlflow')")
    code = (
        "import sys; from fieldcraft.storage.open_ledger import open_ledger\n"
        "from fieldcraft.storage.trackers.campaigns import Tracker, TrackingError\n"
        "print('mlflow' in sys.modules)\n"
        f"try: Tracker('sqlite:////nowhere.db', None, None).export(open_ledger({str(tmp_path / 'ledger.db')!r}))\n"
        "except TrackingError as error: print(error)"
    )
    path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert run.stdout.splitlines()[0] == "False"
    assert "MLflow cannot be imported (No module named mlflow)" in run.stdout
    assert "`fieldcraft export mlflow`" in run.stdout
    assert len(ledger.pending()) == 1


def test_a_cell_of_a_study_is_one_run_with_its_curves_among_the_other_cells(ledger, uri):
    about = {"study": "s", "problem": "heat", "seed": "1"}
    for name in ("heat-a-1", "heat-b-1"):
        create(ledger, name)
        curves = {"regret": [None, 4.0, 2.0]}
        cell = CellRun("s", ledger.campaign(name), curves, {"cpu_seconds": 1.5}, {**about, "algorithm": name}, 2e9)
        assert show_cell(uri, cell) == show_cell(uri, cell) is not None, "a cell that is shown again has no second run"
    client = mlflow.tracking.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("s").experiment_id], "tags.study = 's'")
    assert sorted(run.info.run_name for run in runs) == ["heat-a-1", "heat-b-1"]
    assert {run.data.tags["algorithm"] for run in runs} == {"heat-a-1", "heat-b-1"}
    for run in runs:
        assert (run.info.status, run.info.end_time) == ("FINISHED", 2_000_000_000_000)
        assert run.data.params["problem.boundary"] == "2"
        assert run.data.metrics == {"regret": 2.0, "cpu_seconds": 1.5}
        history = client.get_metric_history(run.info.run_id, "regret")
        assert [(point.step, point.value) for point in history] == [(2, 4.0), (3, 2.0)]


def move(home: Path, to: Path) -> Path:
    """A copy of a home; the home itself is gone."""
    shutil.copytree(home, to)
    shutil.rmtree(home)
    return to


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one" * 20, b""])
def test_what_is_no_store_of_mlflow_is_one_line_with_the_way_on(tmp_path, content):
    (tmp_path / "mlflow.db").write_bytes(content)
    with pytest.raises(TrackingError, match=r"mlflow\.db is no MLflow store that can be read .*Move it away"):
        require_store(f"sqlite:///{tmp_path}/mlflow.db")


def test_a_home_that_was_copied_elsewhere_finds_its_artifacts_there(tmp_path: Path, empty_mlflow: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    shutil.copy(empty_mlflow, home / "mlflow.db")
    ledger, fields = open_ledger(home / "ledger.db", create=True), fields_at(home / "fields")
    build(ledger, fields)
    create(ledger, "heat-gp")  # whose place begins alike
    Tracker(f"sqlite:///{home / 'mlflow.db'}", fields, lambda campaign: OBJECTIVE).export(ledger)
    close_idle()
    new = move(home, tmp_path / "elsewhere")
    uri = f"sqlite:///{new / 'mlflow.db'}"
    require_store(uri)
    assert len(displaced(uri)) == 2
    tracker = Tracker(uri, fields_at(new / "fields"), lambda campaign: OBJECTIVE)
    assert tracker.export(open_ledger(new / "ledger.db")) == 0 and not displaced(uri)
    client = mlflow.tracking.MlflowClient(uri)
    run, other = shown(uri)["surrogate:heat-0001"], shown(uri, "heat-gp")["campaign:heat-gp"]
    uris = {each["id"]: client.get_run(each["id"]).info.artifact_uri for each in (run, other)}
    assert uris[run["id"]] == (new / "artifacts" / "heat" / run["id"] / "artifacts").as_uri()
    assert uris[other["id"]] == (new / "artifacts" / "heat-gp" / other["id"] / "artifacts").as_uri()
    assert Path(client.download_artifacts(run["id"], "checkpoint.npz", str(tmp_path))).exists()
    assert run["models"][0][-1] == ["MLmodel", "checkpoint.npz"]  # read in the model's own place


def test_artifacts_that_a_person_keeps_elsewhere_are_left_there(tmp_path: Path, empty_mlflow: Path) -> None:
    store, kept = tmp_path / "mlflow.db", tmp_path / "kept" / "artifacts" / "heat"
    shutil.copy(empty_mlflow, store)
    kept.mkdir(parents=True)
    client = mlflow.tracking.MlflowClient(f"sqlite:///{store}")
    numbers = [
        client.create_experiment("heat", artifact_location=kept.as_uri()),
        client.create_experiment("own", artifact_location=(tmp_path / "own").as_uri()),
    ]
    before = [client.get_experiment(number).artifact_location for number in numbers]
    assert relocate(f"sqlite:///{store}") == 0
    assert [client.get_experiment(number).artifact_location for number in numbers] == before


def test_runs_that_an_earlier_version_left_beside_their_campaign_become_its_children(
    ledger: Ledger, fields: FieldStore, tracker: Tracker, uri: str
) -> None:
    build(ledger, fields)
    tracker.export(ledger)
    client = mlflow.tracking.MlflowClient(uri)
    for key, run in shown(uri).items():  # as they were before
        client.delete_tag(run["id"], NESTED if key == "campaign:heat" else PARENT)
    client.delete_run(shown(uri)["trial:heat-0001"]["id"])
    trial = ledger.trial("heat-0002")
    correct(ledger, trial, temperature=6.0)
    assert tracker.export(ledger) == 1
    runs = shown(uri)
    assert {key: run["tags"].get(PARENT) for key, run in runs.items() if key != "campaign:heat"} == dict.fromkeys(
        ("surrogate:heat-0001", "trial:heat-0002", "trial:heat-0003"), "campaign:heat"
    )
    assert runs["campaign:heat"]["tags"][NESTED] == "true"


def test_a_campaign_that_has_ended_shows_the_figures_of_its_end(ledger: Ledger, fields: FieldStore, uri: str) -> None:
    build(ledger, fields)
    Tracker(uri, fields, lambda campaign: OBJECTIVE, lambda ledger, campaign: {"regret": 0.5}).export(ledger)
    assert values(shown(uri)["campaign:heat"], "regret") == [(3, 0.5)]
