"""A small campaign, made by calling the pass as the plain function it is; and commands run as a user runs them."""

import hashlib
import os
import sqlite3
import subprocess
from pathlib import Path

import warm_start

from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.open_ledger import open_ledger

SMALL = """\
name: small
seed: 3
sense: minimize
problem: {kind: branin}
simulator: {kind: function}
noise: {sd: 0.5}
algorithm:
  start: {n: 2}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
budget: {trials: 3}
"""

# A maximizer that a test can afford where it is not about how well is searched.
SEARCH = {"kind": "multistart", "n_samples": 64, "n_starts": 2}


def finish(file: Path, home: Path, plugins: Path | None = None) -> None:
    """Run the campaign of a file to its end; plug-ins must be in FIELDCRAFT_PLUGINS, too."""
    settings = settings_from({} if plugins is None else {"FIELDCRAFT_PLUGINS": str(plugins)}, home=home)
    campaign = wire(read_campaign(file), settings)
    ledger = open_ledger(settings.ledger, create=True)
    assert created(ledger, campaign, file) is None
    lease = ledger.acquire(campaign.name)
    ref = Ref(str(home), campaign.name, lease.model_dump())
    while not (passed := make_pass(ref)).decision.finished:
        assert passed.approved or passed.decision.wait not in ("person", "laboratory"), "nobody would come"
        if passed.decision.wait and not passed.approved:
            pause(campaign, ledger, passed)
    ledger.release(lease)
    close_idle()  # folds SQLite's log into the file, so that a copy of the folder is whole


def command(*words: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """``fieldcraft WORDS`` in a process of its own."""
    return warm_start.run(["-m", "fieldcraft.flows.cli", *map(str, words)], {**os.environ, **environment}, 120)


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file under a folder by its path, and the folders; SQLite's transient companions left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(("-wal", "-shm"))
    }


def alter(home: Path, sql: str) -> None:
    """Change the ledger behind its back."""
    connection = sqlite3.connect(home / "ledger.sqlite")
    connection.execute(sql)
    connection.commit()
    connection.close()
