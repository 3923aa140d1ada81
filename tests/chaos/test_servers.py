"""Servers of MLflow and Prefect killed in mid-campaign, and Prefect's database deleted: the designs are the same.

Part of the long form only: each server takes half a minute to start.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from killing import KINDS, Home, look
from prefect_site import until
from test_command_line import PLATE, command, designs, finish

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.export import tracker
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.trackers.campaigns import TrackingError

INLINE = next(kind for kind in KINDS if kind.name == "inline")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def server(port: int, folder: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen]:
    """A server in a process group of its own, which answers; killed in the end, if it was not before."""
    with (folder / "server.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        until(lambda: answers(port), f"{words[0]} to start")
        yield process
    finally:
        killed(process)


def answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5), urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except OSError as error:
        return getattr(error, "code", None) in (401, 404)  # it answers, though not this


def killed(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_an_mlflow_server_killed_in_mid_campaign_shows_everything_once_it_is_back(ram, count):
    undisturbed = Home(ram / "undisturbed", INLINE).begin()
    assert undisturbed.finish() == 0, undisturbed.log
    home, port = Home(ram / "shown", INLINE).begin(), free_port()
    url, folder = f"http://127.0.0.1:{port}", ram / "mlflow"
    folder.mkdir()
    store = f"sqlite:///{folder / 'mlflow.db'}"
    words = ("mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--backend-store-uri", store)
    words += ("--artifacts-destination", str(folder / "artifacts"))
    settings = settings_from({**home.settings, "FIELDCRAFT_MLFLOW": url}, home.home)
    with server(port, folder, *words, MLFLOW_DISABLE_TELEMETRY="true") as process:
        assert home.run(FIELDCRAFT_DIE_AT="ledger.note.train.after#1") == -signal.SIGKILL
        ledger = open_ledger(settings.ledger)
        before = tracker(settings).export(ledger)
        assert before > 0
        killed(process)
        assert home.finish() == 0, home.log
        with pytest.raises(TrackingError, match=r"127\.0\.0\.1"):
            tracker(settings).export(ledger)
        left = len(ledger.pending())
        assert left > 0
    with server(port, folder, *words, MLFLOW_DISABLE_TELEMETRY="true"):
        assert tracker(settings).export(ledger) == left
        assert tracker(settings).export(ledger) == 0
        from mlflow.tracking import MlflowClient

        client = MlflowClient(url)
        shown = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    keys = Counter(run.data.tags["fieldcraft.key"] for run in shown)
    assert set(keys.values()) == {1}
    assert {f"trial:{trial.id}" for trial in ledger.trials("saddle")} <= set(keys)
    assert look(home.home, FIELDCRAFT_MLFLOW=url) == look(undisturbed.home)
    count(Counter({"faults injected": 2, "server killed": 1, "resumed campaigns identical": 1}))


def test_a_home_that_was_copied_shows_its_artifacts_by_the_command_that_serves_them(ram):
    from mlflow.tracking import MlflowClient

    first, copied, port = ram / "first", ram / "copied", free_port()
    code, _, err = finish(command(first, "run", str(PLATE)))
    assert code == 0, err
    shutil.copytree(first, copied)
    shutil.rmtree(first)
    words = ("fieldcraft.flows.cli", "mlflow", "--home", str(copied), "--port", str(port))
    with server(port, ram, *words, FIELDCRAFT_MLFLOW="", MLFLOW_DISABLE_TELEMETRY="true"):
        client = MlflowClient(f"http://127.0.0.1:{port}")
        (found,) = client.search_experiments(filter_string="name != 'Default'")
        runs = client.search_runs([found.experiment_id], "tags.`fieldcraft.kind` = 'surrogate'")
        for run in runs:
            assert Path(client.download_artifacts(run.info.run_id, "checkpoint.npz", str(ram))).stat().st_size > 0
    assert runs


def test_a_prefect_server_killed_and_its_database_deleted_in_mid_campaign_change_no_design(ram, count):
    code, _, err = finish(command(ram / "alone", "run", str(PLATE), FIELDCRAFT_MLFLOW="off"))
    assert code == 0, err
    home, port, folder = ram / "disturbed", free_port(), ram / "prefect"
    folder.mkdir()
    words = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
    environment = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    there = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "FIELDCRAFT_MLFLOW": "off"}
    there["PREFECT_CLIENT_MAX_RETRIES"] = "1"  # five, Prefect's own patience, are two minutes
    with server(port, folder, *words, **environment) as process:
        halted = command(ram / "halted", "run", str(PLATE), FIELDCRAFT_DIE_AT="ledger.note.train.after#1", **there)
        assert finish(halted)[0] == -signal.SIGKILL
        run = command(home, "run", str(PLATE), **there)
        assert "reading" in run.stdout.readline() and "acquire" in run.stdout.readline()
        killed(process)
        out, err = run.communicate(timeout=300)
    assert (run.returncode, err) == (0, ""), "the campaign ends without Prefect"
    assert out.count("Prefect was not told how these passes ended: ") == 1
    assert designs(home) == designs(ram / "alone")
    for file in folder.glob("prefect.db*"):
        file.unlink()
    shutil.rmtree(folder / "storage", ignore_errors=True)
    with server(port, folder, *words, **environment):
        code, _, err = finish(command(ram / "halted", "run", str(PLATE), **there))
    assert code == 0, err
    assert designs(ram / "halted") == designs(ram / "alone")
    count(Counter({"faults injected": 3, "server killed": 1, "resumed campaigns identical": 2}))
