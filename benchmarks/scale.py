"""What a campaign of 10,000 completed trials costs: each step of a pass, and each command that reads.

    python benchmarks/scale.py [--trials N] [--json FILE] [--keep FOLDER] [--profile STEP]

The ledger is written by its own methods, one transaction a write as in a real campaign (proposed, approved, staged,
running, recorded; a model noted for every iteration), on a memory disk, and then copied to the disk by SQLite's own
backup. Passes are measured on that copy, with fsync. The surrogate knows nothing and costs nothing, so that what is
left of training and acquisition is what grows with the ledger. Wall and CPU seconds are told apart: other work on the
machine lengthens the first only.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAME, OTHER, BATCH, WITH_FIELD = "scale", "other", 50, 200
COMMANDS = (
    *("status", "queue", "show scale-0050", "trace scale-0050", "report scale --html scale.html"),
    *("compare-runs scale other", "export scale --csv scale.csv"),
)
CAMPAIGN = """\
name: {name}
seed: 1
sense: minimize
problem: {{kind: branin}}
simulator: {{kind: function}}
noise: {{sd: 0.1}}
algorithm:
  start: {{n: 50, proposer: {{kind: random}}}}
  surrogate: {{kind: ignorant}}
  acquisition: {{kind: ucb}}
  maximizer: {{kind: multistart}}
dispatcher: {{kind: inline}}
stop: {{target: -1000.0, no_improvement: 1000000, failure_rate: {{above: 0.5, over: 20}}}}
batch: 4
budget: {{trials: {budget}}}
"""
SURROGATE = '''\
"""Believes the same of every design, at no cost."""
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch


@dataclass(frozen=True, eq=False)
class _Same:
    """Mean 0 and variance 1 everywhere."""

    scaling: Any
    metrics: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    def mean_var(self, X):
        return 0.0 * X.sum(1), 1.0 + 0.0 * X.sum(1)

    def draw(self, q, rng):
        return [lambda X: 0.0 * X.sum(1)] * q

    def fantasize(self, X):
        return self

    def state(self):
        return {"nothing": torch.zeros(1)}


@dataclass(frozen=True)
class Ignorant:
    """See the module."""

    uses_physics: ClassVar[bool] = False

    def fit(self, data, rng, start, report):
        return _Same(data.scaling)

    def restore(self, data, state):
        return _Same(data.scaling)
'''


@dataclass(frozen=True)
class Cost:
    """What one thing took: seconds of wall time and of this process's CPU (a command's own, for a command)."""

    wall: float
    cpu: float


def settings_in(folder: Path) -> Any:
    """The settings of a home under ``folder``, with the surrogate among its kinds."""
    from fieldcraft.flows.settings import settings_from

    kinds = folder / "plugins" / "surrogates"
    kinds.mkdir(parents=True, exist_ok=True)
    (kinds / "ignorant.py").write_text(SURROGATE)
    environment = {"FIELDCRAFT_PLUGINS": str(folder / "plugins"), "FIELDCRAFT_MLFLOW": "off"}
    os.environ.update(environment)
    return settings_from(environment, folder / "home")


def fill(folder: Path, trials: int) -> None:
    """Write a campaign of so many completed trials, every one through the ledger's own door, and a short one."""
    from fieldcraft.storage.open_ledger import open_ledger

    settings = settings_in(folder)
    ledger = open_ledger(settings.ledger, create=True)
    for name, count in ((NAME, trials), (OTHER, min(trials, 2 * BATCH))):
        _fill(ledger, settings, folder / f"{name}.yaml", name, count)


def _fill(ledger: Any, settings: Any, file: Path, name: str, trials: int) -> None:
    import numpy as np
    import torch

    from fieldcraft.flows.spec.campaign_file import read_campaign
    from fieldcraft.flows.wiring.build import wire
    from fieldcraft.flows.wiring.create import created
    from fieldcraft.flows.wiring.tensors import as_dataset
    from fieldcraft.storage.fields import fields_at

    file.write_text(CAMPAIGN.format(name=name, budget=trials + 1000))
    campaign = wire(read_campaign(file), settings)
    created(ledger, campaign, file)
    rng, fields = np.random.default_rng(0), fields_at(settings.fields)
    model = fields.write("model", as_dataset({"nothing": torch.zeros(1)}))
    lease = ledger.acquire(name)
    fenced = ledger.fenced(lease)
    for iteration in range(-(-trials // BATCH)):
        _iterate(fenced, fields, campaign, iteration, min(BATCH, trials - iteration * BATCH), rng, model)
    ledger.release(lease, done=False)


def _iterate(ledger: Any, fields: Any, campaign: Any, iteration: int, q: int, rng: Any, model: Any) -> None:
    from fieldcraft.flows.products import Trained
    from fieldcraft.storage.records import Grant, Origin, Proposal, TrialState

    origin, product = {"kind": "initial", "algorithm": "random"}, None
    if iteration:
        product = _model(ledger, campaign.spec.name, iteration, model)
        about = {"model": product.ref, "data_digest": Trained.of(product).data_digest, "mean": 0.0, "sd": 1.0}
        origin = {"kind": "model", "algorithm": campaign.spec.algorithm.in_words, **about}
    designs = campaign.space.decode(campaign.space.sample(q, rng))
    made = [Origin(iteration=iteration, slot=slot, seed=1, **origin) for slot in range(q)]
    proposals = [Proposal(design=d, origin=o) for d, o in zip(designs, made, strict=True)]
    proposed = ledger.propose(campaign.spec.name, iteration, proposals, "pass")
    grants = [Grant(trial=t.id, expect=t.expect, digest=t.digest) for t in proposed]
    for trial in ledger.approve_all(grants, "policy auto", "", "auto", 2):
        _run(ledger, fields, campaign, trial, TrialState)


def _model(ledger: Any, name: str, iteration: int, reference: Any) -> Any:
    from fieldcraft.flows.products import Recommendation, Seen, Trained
    from fieldcraft.storage.records import digest_of

    trials = iteration * BATCH
    made = Trained(
        surrogate={"kind": "ignorant"},
        data_digest=digest_of(iteration),
        seen=Seen.of(range(1, trials + 1), trials),
        failed={},
        metrics={},
        curve=[{"step": n, "loss": 1.0 / (1 + n)} for n in range(100)],
        environment={"commit": "none"},
        recommended=Recommendation(f"{name}-0001", 1.0, 0.1),
        seconds=1.0,
    )
    return ledger.note(name, iteration, "train", made.payload(), reference)


def _run(ledger: Any, fields: Any, campaign: Any, trial: Any, states: Any) -> None:
    import numpy as np
    import xarray as xr

    staged = ledger.move(trial.id, states.STAGED, trial.expect, "pass", "claimed for dispatch")
    handle = {"key": f"{trial.id}-1", "request": {}}
    running = ledger.move(trial.id, states.RUNNING, staged.expect, "pass", "submitted", handle=handle)
    (y,) = campaign.problem.function(trial.design).values()
    field = None
    if trial.campaign == NAME and trial.number <= WITH_FIELD:
        field = fields.write(trial.id, xr.Dataset({"u": (("x", "y"), np.full((16, 16), y))}))
    ledger.record(
        trial.id,
        running.expect,
        {campaign.objective.output: y},
        field,
        "pass",
        "inline",
        {"seconds": 0.01, "noise_sd": 0.1},
        attempt=1,
        seconds=0.01,
    )


def copied(source: Path, target: Path) -> None:
    """A home's stores, the ledger through SQLite's own backup."""
    (target / "home").mkdir(parents=True)
    shutil.copytree(source / "home" / "fields", target / "home" / "fields")
    shutil.copytree(source / "plugins", target / "plugins")
    one, two = sqlite3.connect(source / "home/ledger.sqlite"), sqlite3.connect(target / "home/ledger.sqlite")
    with one, two:
        one.backup(two)
    two.execute("PRAGMA journal_mode=WAL")
    one.close()
    two.close()


class Clock:
    """Collects what steps took; ``profile`` names one whose calls are printed, by their own time."""

    def __init__(self, profile: str | None) -> None:
        self.costs: dict[str, Cost] = {}
        self.profile = profile

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure the block; a name that comes twice adds up."""
        watch = cProfile.Profile() if name == self.profile else None
        wall, cpu = time.perf_counter(), time.process_time()
        if watch:
            watch.enable()
        yield
        if watch:
            watch.disable()
            pstats.Stats(watch).sort_stats("cumulative").print_stats(45)
        before = self.costs.get(name, Cost(0.0, 0.0))
        self.costs[name] = Cost(before.wall + time.perf_counter() - wall, before.cpu + time.process_time() - cpu)


def measure_pass(folder: Path, clock: Clock, passes: int = 3) -> dict[str, Any]:
    """Passes step by step; the first one imports, too."""
    from fieldcraft.flows.machinery.collecting import as_usual
    from fieldcraft.flows.steps.one_pass import Ref, make_pass
    from fieldcraft.storage.open_ledger import open_ledger

    settings = settings_in(folder)
    ledger = open_ledger(settings.ledger)
    lease = ledger.acquire(NAME)
    tasks: list[int] = []

    def call(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        tasks[-1] += 1
        with clock.timed(f"pass {len(tasks)}: {step.__name__.removesuffix('_step')}"):
            return step(*args, **kwargs)

    for n in range(passes):
        tasks.append(0)
        with clock.timed(f"pass {n + 1}"):
            make_pass(Ref(str(settings.home), NAME, lease.model_dump()), call)
        as_usual()  # as a run after its imports
    ledger.release(lease)
    return {"tasks": tasks, "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure_command(folder: Path, clock: Clock, *words: str) -> None:
    """A whole command, in a process of its own."""
    name = " ".join(words)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "fieldcraft.flows.cli", *words, "--home", str(folder / "home")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=True,
        cwd=folder,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    clock.costs[f"fieldcraft {name}"] = Cost(time.perf_counter() - began, cpu)


def measure(trials: int, keep: Path | None, profile: str | None) -> dict[str, Any]:
    """Make a ledger of so many trials and measure on a copy of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Path(folder)
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
            if keep is None or not (keep / "home").is_dir():
                began = time.process_time()
                fill(Path(made), trials)
                print(f"written in {time.process_time() - began:.0f} s of CPU", file=sys.stderr)
                copied(Path(made), keep or run)
        if keep is not None:
            copied(keep, run)
        clock = Clock(profile)
        found = measure_pass(run, clock)
        for words in COMMANDS:
            measure_command(run, clock, *words.split())
        found["ledger_mib"] = (run / "home" / "ledger.sqlite").stat().st_size / 2**20
        return {"trials": trials, **found, "seconds": {name: asdict(cost) for name, cost in clock.costs.items()}}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--keep", type=Path, help="keep the ledger that is made in this folder, or take the one there")
    parser.add_argument("--profile", metavar="STEP", help="print where the time of one goes, such as 'pass 3: decide'")
    options = parser.parse_args()
    found = measure(options.trials, options.keep, options.profile)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, cost in found["seconds"].items():
        print(f"{name:32} {cost['wall']:7.2f} s wall {cost['cpu']:7.2f} s CPU")
    print(f"tasks of the passes: {found['tasks']}")
    print(f"memory: {found['rss_mib']:.0f} MiB at most; the ledger's file: {found['ledger_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
