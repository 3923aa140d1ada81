"""A whole campaign with its fields in an object store, killed while it commits one, and gone on with."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import warm_start
from shelves import SECRET, bucket, s3_server

from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def shelf():
    with s3_server() as client:
        yield bucket(client, "campaigns")


def started(shelf, home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIELDCRAFT_", "PREFECT_"))}
    ours = {"FIELDCRAFT_FIELDS": shelf.root, "FIELDCRAFT_HOME": str(home), "FIELDCRAFT_MLFLOW": "off"}
    return warm_start.run(
        list(words), {**kept, **ours, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}, 180
    )


def test_a_campaign_with_fields_on_s3_is_killed_and_gone_on_with_and_keeps_only_whole_fields(
    shelf, prefect_api, tmp_path
):
    home, file = tmp_path / "home", str(HERE / "plate.yaml")
    killed = started(shelf, home, "-m", "scenarios.driver", file, FIELDCRAFT_DIE_AT="objects.commit.before#2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert any(name.startswith(".staging/") for name in shelf.everything())
    done = started(shelf, home, "-m", "fieldcraft.flows.cli", "run", file, **prefect_api)
    assert done.returncode == 0, done.stderr
    assert f"fields    {shelf.root}" in done.stdout and SECRET not in done.stdout + done.stderr
    trials = open_ledger(home / "ledger.sqlite").trials("plate")
    assert [trial.state for trial in trials] == [TrialState.COMPLETED] * 4
    for trial in trials:
        fields_at(shelf.root).verify(trial.field)
    assert not (home / "fields").exists()
    said = started(shelf, home, "-m", "fieldcraft.flows.cli", "doctor", "--json")
    assert (said.returncode, json.loads(said.stdout)) == (0, [])
    out = started(shelf, home, "-m", "fieldcraft.flows.cli", "export", "plate", "--fields", str(tmp_path / "all.zarr"))
    assert out.returncode == 0 and (tmp_path / "all.zarr" / "zarr.json").exists(), out.stderr
