"""A campaign whose ledger is on a server: killed, its server killed, and resumed by the command itself."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import warm_start
from postgres_server import server, url_of

from fieldcraft.flows.cli import main
from fieldcraft.storage.open_ledger import open_ledger

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FILE = HERE / "saddle.yaml"
PLUGINS = {"FIELDCRAFT_PLUGINS": str(HERE / "plugins"), "FIELDCRAFT_MLFLOW": "off"}


def settings(folder: Path) -> dict[str, str]:
    return {**PLUGINS, "FIELDCRAFT_HOME": str(folder / "home"), "SIMULATED": str(folder / "simulated")}


def python(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return warm_start.run(list(words), {**os.environ, "PYTHONPATH": str(ROOT), **environment}, 180)


def driven(environment: dict[str, str]) -> int:
    """Make passes to the end in an environment, without Prefect; the exit status."""
    return python("-m", "scenarios.driver", str(FILE), EXPORT_LATER="1", **environment).returncode


def test_a_campaign_killed_with_its_server_is_the_one_that_was_never_killed(prefect_api, tmp_path, monkeypatch, capsys):
    here, there = tmp_path / "sqlite", tmp_path / "postgresql"
    for folder in (here, there):
        folder.mkdir()
    url = url_of(there)
    settled = settings(there) | {"FIELDCRAFT_LEDGER": url.replace("postgres@", "postgres:hush@")}
    killed = settled | {"FIELDCRAFT_DIE_AT": "ledger.record.after#1"}
    assert (driven(settings(here)), driven(killed)) == (0, -signal.SIGKILL)

    for name, value in settled.items():
        monkeypatch.setenv(name, value)
    server().crash()
    try:
        assert main(["status"]) == 2
    finally:
        server().start()
    away = capsys.readouterr().err
    assert "does not answer" in away

    ran = python("-m", "fieldcraft.flows.cli", "run", str(FILE), **settled, **prefect_api)
    assert ran.returncode == 0, ran.stderr
    assert "ledger    postgresql:///postgres" in ran.stdout
    for words in (["status", "saddle"], ["doctor"], ["trace", "saddle-0003"]):
        assert main(words) == 0
    told = [away, ran.stdout, ran.stderr, capsys.readouterr().out]
    written = [file for file in there.rglob("*") if file.is_file() and b"hush" in file.read_bytes()]
    assert (written, ["hush" in text for text in told]) == ([], [False] * 4)

    ledgers = (open_ledger(here / "home" / "ledger.sqlite"), open_ledger(url))
    alone, resumed = ([(t.design, t.outputs, t.state) for t in ledger.trials("saddle")] for ledger in ledgers)
    assert resumed == alone
    runs = Counter(tuple(json.loads(line)) for line in (there / "simulated").read_text().splitlines())
    assert sorted(runs.values()) == [1, 1, 1]
    assert not (there / "home" / "ledger.sqlite").exists()
