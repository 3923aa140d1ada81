"""A run killed in the middle of a training goes on from the checkpoint and ends with the same model, bit for bit."""

import os
import time
from pathlib import Path

import pytest
import warm_start

from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.open_ledger import open_ledger

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# 800 Adam steps on a small network: some seconds, a checkpoint each 100 steps, or where that is longer each 0.2 s.
SPEC = (
    (HERE / "saddle.yaml")
    .read_text()
    .replace("engine: basis, degree: 4", "engine: trained, width: 24, depth: 3, steps: 800, refinements: 2")
    .replace("kind: log_ei", "kind: thompson")
)


def start(file: Path, home: Path, **more: str) -> warm_start.Warm:
    """Begin to run the campaign; the names of its events go to a file beside its home."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FIELDCRAFT_HOME": str(home),
        "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
        "FIELDCRAFT_MLFLOW": f"sqlite:///{home / 'mlflow.db'}",
        "SIMULATED": str(home.parent / f"{home.name}.simulated"),
        "SAVE_EVERY_S": "0.2",
        **more,
    }
    with home.with_suffix(".events").open("w") as events:
        files = [0, events.fileno(), 2]
        return warm_start.Warm(["-m", "scenarios.driver", str(file)], files, environment, str(home.parent))


def wait_for_checkpoint(process: warm_start.Warm, home: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if list((home / "work" / "saddle" / "train-0001").glob("[0-9]*")):
            return
        time.sleep(0.01)
    pytest.fail("the training ended, or never wrote a checkpoint")


def test_a_killed_training_goes_on_and_ends_with_the_same_model_and_design(tmp_path):
    file = tmp_path / "saddle.yaml"
    file.write_text(SPEC)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(file, whole, EXPORT_LATER="1").wait(timeout=240) == 0
    process = start(file, broken)
    wait_for_checkpoint(process, broken)
    process.kill()
    process.wait()
    assert start(file, broken).wait(timeout=240) == 0
    told = [home.with_suffix(".events").read_text().splitlines() for home in (whole, broken)]
    assert ["training resumed" in events for events in told] == [False, True]
    ledgers = [open_ledger(home / "ledger.sqlite") for home in (whole, broken)]
    models = [ledger.product("saddle", 1, "train") for ledger in ledgers]
    assert models[0].reference == models[1].reference
    assert [t.design for t in ledgers[0].trials("saddle")] == [t.design for t in ledgers[1].trials("saddle")]
    curves = [model.payload["curve"] for model in models]
    assert curves[0] == curves[1]
    shown = {"FIELDCRAFT_MLFLOW": f"sqlite:///{broken / 'mlflow.db'}"}
    assert examine(settings_from({"FIELDCRAFT_PLUGINS": str(HERE / "plugins"), **shown}, broken)) == []
