"""A small campaign over each dispatcher, in forked children that are killed at a commit point and started again."""

import csv
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch
from driver import drive

from fieldcraft.flows.identity import Person
from fieldcraft.flows.jobs.job_folder import read_json
from fieldcraft.flows.people import interventions
from fieldcraft.flows.recovery.doctor import examine
from fieldcraft.flows.rules.trial_labels import label
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.registry import available
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import LedgerError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import TrialState

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
ROOT = SCENARIOS.parent.parent
NAME, TRIALS = "saddle", 3
WAITS = 3  # the driver's exit status where a laboratory has to answer
LATER = {"FIELDCRAFT_MLFLOW": "off", "EXPORT_LATER": "1"}  # the export is killed in tests/scenarios


@dataclass(frozen=True)
class Kind:
    """A dispatcher, and how the campaign ``saddle`` runs on it.

    Args:
        name: The dispatcher's.
        words: What the campaign file says of it.
        parts: Further changes of the campaign file.
        settings: Further environment.
    """

    name: str
    words: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def file(self, folder: Path) -> Path:
        """The campaign's file."""
        text = (SCENARIOS / "saddle.yaml").read_text()
        limit = "wall_time_s: 60"
        said = {limit: f"kind: {self.name}{self.words}", **self.parts}
        for old, new in said.items():
            assert old in text, old
            text = text.replace(old, new)
        (folder / "saddle.yaml").write_text(text)
        return folder / "saddle.yaml"


ANSWERS = {"simulator: {kind: counted}\n": ""}  # for a dispatcher that needs no simulator
PROGRAM = Path(__file__).with_name("height.py")
CALLED = f', program: "{PROGRAM}", arguments: ["{{input}}", "{{output}}"], idempotent: true'
KINDS = [  # a dispatcher more is a line more; those of them that there are
    kind
    for kind in (
        Kind("local", ", wall_time_s: 60"),
        Kind("inline"),
        Kind("lab", parts=ANSWERS),
        Kind("command", CALLED, ANSWERS, {"FIELDCRAFT_PROGRAMS": str(PROGRAM)}),
        Kind("dask", ", wall_time_s: 60"),
    )
    if kind.name in available("dispatchers")
]
PROCESSES = {"local", "command", "dask"}  # whose jobs cost a process each


@dataclass(frozen=True)
class Seen:
    """What a home holds in the end: all that a kill must not change."""

    designs: list
    outputs: list
    origins: list
    results: dict
    findings: list


def look(home: Path, **environment: str) -> Seen:
    """What a home holds, every field of it verified."""
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(SCENARIOS / "plugins"), **environment}, home)
    ledger, store = open_ledger(settings.ledger), fields_at(settings.fields)
    trials = ledger.trials(NAME)
    for trial in trials:
        if trial.field is not None:
            store.verify(trial.field)
    return Seen(
        designs=[trial.design for trial in trials],
        outputs=[trial.outputs for trial in trials],
        origins=[trial.origin.model_dump(exclude={"model", "environment"}) for trial in trials],
        results={trial.id: [result.outputs for result in ledger.results(trial.id)] for trial in trials},
        findings=examine(settings),
    )


def committed(home: Path) -> dict[str, tuple]:
    """Design and outputs of the trials whose result the ledger holds, by trial."""
    with suppress(LedgerError):  # killed before there was one
        ledger = open_ledger(home / "ledger.sqlite")
        return {t.id: (t.design, t.outputs) for t in ledger.trials(NAME, states={TrialState.COMPLETED})}
    return {}


@dataclass(frozen=True)
class Home:
    """A home with its campaign, driven by forked children of this process."""

    folder: Path
    kind: Kind

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def begin(self) -> "Home":
        self.folder.mkdir(parents=True)
        self.kind.file(self.folder)
        return self

    @property
    def log(self) -> str:
        """The last of what its processes complained of."""
        return (self.folder / "log").read_text()[-3000:]

    def run(self, then: Callable[[], object] = lambda: None, **environment: str) -> int:
        """Drive the campaign until it ends, waits for a laboratory or is killed; the exit status."""
        file, log = self.folder / "saddle.yaml", self.folder / "log"
        return forked(lambda: (drive(file), then()), {**self.settings, **environment}, log)

    def process(self) -> "subprocess.Popen[bytes]":
        """Drive it in a process of its own, which knows nothing yet."""
        words = [sys.executable, "-P", str(SCENARIOS / "driver.py"), str(self.folder / "saddle.yaml")]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(words, env={**os.environ, **self.settings}, stderr=log)

    @property
    def settings(self) -> dict[str, str]:
        """The environment of its processes."""
        return {
            "FIELDCRAFT_HOME": str(self.home),
            "FIELDCRAFT_PLUGINS": str(SCENARIOS / "plugins"),
            "SIMULATED": str(self.folder / "simulated"),
            "PYTHONPATH": str(ROOT),
            **LATER,
            **self.kind.settings,
        }

    def finish(self, **environment: str) -> int:
        """Drive it to its end, with a laboratory that answers whenever it is waited for; the last exit status."""
        status = WAITS
        for _ in range(4 * TRIALS):
            if (status := self.run(**environment)) != WAITS:
                break
            self.answer()
        return status

    def answer(self) -> None:
        """Do all experiments that are ordered, and hand their results in as a table."""
        lab = self.home / "lab" / NAME
        for order in sorted(lab.glob("batch-*.csv")):
            rows = list(csv.reader(order.read_text().splitlines()))
            header, *lines = rows
            for line in lines:
                x, y = (float(line[header.index(name)]) for name in ("x [m]", "y [m]"))
                line[header.index("height [m]")] = repr(x**2 - y**2 + 3 * x * y + x)
            results = lab / "results" / order.name
            with results.open("w", newline="") as file:
                csv.writer(file).writerows([header, *lines])
            os.utime(results, (1.0e9, 1.0e9))  # at rest for long enough to be taken

    def close(self) -> None:
        """End Dask's processes, which outlive a campaign on purpose."""
        for process in read_json(self.home / "work" / ".dask" / "cluster.json").values():
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                os.killpg(process["pid"], signal.SIGTERM)
                psutil.Process(process["pid"]).wait(60)

    def ask_again(self) -> None:
        """Ask for what failed at every attempt once more, as a person may."""
        ledger = open_ledger(self.home / "ledger.sqlite")
        for trial in ledger.trials(NAME, states={TrialState.FAILED}):
            interventions.retry(
                ledger, settings_from(self.settings, self.home), Person("ana", "operator"), label(trial)
            )

    def simulated(self) -> Counter:
        """How often each design was simulated."""
        file = self.folder / "simulated"
        lines = file.read_text().splitlines() if file.exists() else ()
        return Counter(tuple(json.loads(line)) for line in lines)


def warm(folder: Path) -> None:
    """Import all that a campaign imports on its way, which a forked child finds out by running one."""
    torch.set_num_threads(1)
    home, names = Home(folder, Kind("inline")).begin(), folder / "names"
    assert home.run(then=lambda: names.write_text(" ".join(sys.modules))) == 0, home.log
    for name in names.read_text().split():
        if not name.startswith("_fieldcraft_plugin"):
            with suppress(ImportError):
                importlib.import_module(name)


def forked(act: Callable[[], object], environment: Mapping[str, str], log: Path) -> int:
    """Do something in a forked child with this environment; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with log.open("a") as file:
                os.dup2(file.fileno(), 2)
            for name in [name for name in os.environ if name.startswith(("FIELDCRAFT_", "PREFECT_"))]:
                del os.environ[name]
            os.environ.update(environment)
            act()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def copied(home: Home, folder: Path) -> Home:
    """A copy of a home, with the count of its simulations."""
    shutil.copytree(home.folder, folder)
    return Home(folder, home.kind)


@dataclass(frozen=True)
class Reference:
    """A campaign that nobody killed, and the commit points that it passes, in any process."""

    home: Home
    seen: Seen
    points: list[str]


def judge(killed: Home, before: dict, counted: Counter, reference: Reference) -> Counter:
    """What a kill has done to a campaign that went on to its end, held against one that was not killed.

    Args:
        killed: The campaign.
        before: What its ledger held when it was killed (``committed``).
        counted: How often each design had been simulated by then.
        reference: The other.
    """
    seen, after = look(killed.home), killed.simulated()
    places = {(design["x"], design["y"]) for design, _ in before.values()}
    same = seen == reference.seen and all(len(results) == 1 for results in seen.results.values())
    return Counter(
        {
            "faults injected": 1,
            "kill -9": 1,
            "results lost": sum(outputs not in seen.results[trial] for trial, (_, outputs) in before.items()),
            "experiments repeated": sum(after[place] - counted[place] for place in places),
            "resumed campaigns identical" if same else "resumed campaigns that differ": 1,
        }
    )
