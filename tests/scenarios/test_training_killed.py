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
# 2,000 Adam steps on a small network: some seconds, a checkpoint each second.
SPEC = (
    (HERE / "saddle.yaml")
    .read_text()
    .replace("engine: basis, degree: 4", "engine: trained, width: 24, depth: 3, steps: 2000, refinements: 2")
    .replace("kind: log_ei", "kind: thompson")
)


def start(file: Path, home: Path, **more: str) -> warm_start.Warm:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FIELDCRAFT_HOME": str(home),
        "FIELDCRAFT_PLUGINS": str(HERE / "plugins"),
        "FIELDCRAFT_MLFLOW": f"sqlite:///{home / 'mlflow.db'}",
        "SIMULATED": str(home.parent / f"{home.name}.simulated"),
        **more,
    }
    return warm_start.Warm(["-m", "scenarios.driver", str(file)], [0, 1, 2], environment, str(home.parent))


def checkpoints(home: Path) -> list[Path]:
    return sorted((home / "work" / "saddle" / "train-0001").glob("[0-9]*"))


def wait_for_checkpoint(process: warm_start.Warm, home: Path, after: str = "") -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if new := [path.name for path in checkpoints(home) if path.name != after]:
            return new[-1]
        time.sleep(0.01)
    pytest.fail("the training ended, or never wrote a checkpoint")


def test_a_killed_training_goes_on_and_ends_with_the_same_model_and_design(tmp_path):
    file = tmp_path / "saddle.yaml"
    file.write_text(SPEC)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(file, whole, EXPORT_LATER="1").wait(timeout=240) == 0
    process = start(file, broken)
    reached = wait_for_checkpoint(process, broken)
    process.kill()
    process.wait()
    assert 0 < int(reached) < 2000
    resumed = start(file, broken)
    # Had the training begun anew, its first checkpoint would be of an earlier step than the last before the kill.
    assert int(wait_for_checkpoint(resumed, broken, after=reached)) > int(reached)
    assert resumed.wait(timeout=240) == 0
    ledgers = [open_ledger(home / "ledger.sqlite") for home in (whole, broken)]
    models = [ledger.product("saddle", 1, "train") for ledger in ledgers]
    assert models[0].reference == models[1].reference
    assert [t.design for t in ledgers[0].trials("saddle")] == [t.design for t in ledgers[1].trials("saddle")]
    curves = [model.payload["curve"] for model in models]
    assert curves[0] == curves[1]
    shown = {"FIELDCRAFT_MLFLOW": f"sqlite:///{broken / 'mlflow.db'}"}
    assert examine(settings_from({"FIELDCRAFT_PLUGINS": str(HERE / "plugins"), **shown}, broken)) == []
