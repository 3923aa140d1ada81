"""What a trial costs beside its simulation and its model: ``python benchmarks/overhead.py``.

Random or quasi-random proposals and a formula of microseconds, one trial after the other: what is left is bookkeeping.
Beside ours run Ax with its SQL storage and Optuna with its RDB storage, on SQLite files in the same folder, in the same
process, in turn; a figure is the median over the repeats. Wall time counts waiting for the disk, which every durable
write does; what one such wait takes is measured too and gives the floor. CPU seconds are this process's and count other
work on the machine little: compare those. ``--json FILE`` keeps the figures, ``--quick`` takes a minute. Needs the
extra packages of the rivals.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import xarray as xr

from fieldcraft.flows.machinery.prefect_server import Server, one_client, without_heartbeats
from fieldcraft.flows.machinery.profiling import profiled, span
from fieldcraft.flows.run import pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.one_pass import Caller, Ref, directly, make_pass
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.space import Continuous
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

FLUSHED = "5 commits of the ledger and a field, whose files and folders are flushed one by one"
Way = Callable[[Path, int], "Cost"]


@dataclass(frozen=True)
class Cost:
    """What one way cost, per trial.

    Args:
        wall: Seconds of wall time, without waiting for simulations.
        cpu: Seconds of this process's CPU time, without waiting for simulations.
        parts: Seconds of wall time by step, of ours.
    """

    wall: float
    cpu: float
    parts: dict[str, float]


def ours(folder: Path, trials: int, dispatcher: str, *, prefect: bool) -> Cost:
    """A campaign of one trial a pass, from its second pass on."""
    data = {
        "name": "bench",
        "seed": 3,
        "sense": "minimize",
        "problem": {"kind": "branin"},
        "simulator": {"kind": "function"},
        "algorithm": {"start": {"n": 1, "proposer": {"kind": "sobol"}}},
        "budget": {"trials": trials + 1},
        "dispatcher": {"kind": dispatcher},
    }
    settings = settings_from(home=folder / "home")
    campaign = wire(parse(data, "overhead.py"), settings)
    ledger = open_ledger(settings.ledger, create=True)
    created(ledger, campaign, Path("overhead.py"))
    ref = Ref(str(settings.home), "bench", ledger.acquire("bench").model_dump())
    one_pass = partial(make_pass, ref, as_tasks() if prefect else directly)

    def passes(until: Callable[[Any], bool]) -> float:
        """Passes until one is looked for; CPU seconds of waiting for simulations."""
        waiting = 0.0
        while not until(passed := one_pass()):
            began = time.process_time()
            with span("waiting"):
                if passed.sent or (passed.decision.wait and not passed.approved):
                    pause(campaign, ledger, passed)
            waiting += time.process_time() - began
        return waiting

    within(prefect)(lambda: passes(lambda passed: passed.harvested > 0))
    with profiled() as profile:
        began = time.process_time()
        waiting = within(prefect)(lambda: passes(lambda passed: passed.decision.finished is not None))
        cpu, spent = time.process_time() - began - waiting, profile.data()
    waited = spent["parts"].pop("waiting", {"seconds": 0.0})["seconds"]
    parts = {name: part["seconds"] / trials for name, part in spent["parts"].items()}
    return Cost((spent["seconds"] - waited) / trials, cpu / trials, parts)


def as_tasks() -> Caller:
    """The caller that makes a task of Prefect's of each step, as ``fieldcraft run`` does."""
    from fieldcraft.flows.campaign import through_prefect

    return through_prefect


def within(prefect: bool) -> Callable[[Callable[[], float]], float]:
    """A call of a function in one flow of Prefect's, as ``fieldcraft run`` makes its passes, or a plain call."""
    if not prefect:
        return lambda function: function()
    from fieldcraft.flows.campaign import in_one_flow

    def call(function: Callable[[], float]) -> float:
        with span("prefect"):
            return in_one_flow("bench", function)

    return call


def rival(ask: Callable[[], tuple[Any, dict[str, float]]], tell: Callable[[Any, float], None], trials: int) -> Cost:
    """Ask and tell, from the second trial on."""

    def one() -> None:
        token, design = ask()
        tell(token, PROBLEM.function(design)["value"])

    one()
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(trials):
        one()
    return Cost((time.perf_counter() - began) / trials, (time.process_time() - cpu) / trials, {})


PROBLEM = Branin()
BOUNDS = {v.name: (v.low, v.high) for v in PROBLEM.space.variables if isinstance(v, Continuous)}


def ax_sql(folder: Path, trials: int) -> Cost:
    """Ax's client, random proposals, which saves each trial to its database when made and when completed."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig, StorageConfig
    from ax.storage.sqa_store import db

    url = f"sqlite:///{folder / 'ax.db'}"
    db.init_engine_and_session_factory(url=url, force_init=True)
    db.create_all_tables(db.get_engine())
    client = Client(storage_config=StorageConfig(url=url), random_seed=3)
    parameters = [RangeParameterConfig(name=name, parameter_type="float", bounds=b) for name, b in BOUNDS.items()]
    client.configure_experiment(parameters=parameters, name="bench")
    client.configure_optimization(objective="-y")
    client.configure_generation_strategy(method="random_search", initialize_with_center=False)
    return rival(partial(ax_ask, client), lambda index, value: client.complete_trial(index, {"y": value}), trials)


def ax_ask(client: Any) -> tuple[int, dict[str, float]]:
    """Number and design of Ax's next trial."""
    ((index, design),) = client.get_next_trials(1).items()
    return index, design


def optuna_rdb(folder: Path, trials: int) -> Cost:
    """Optuna's ask and tell with random proposals on its RDB storage."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=3)
    study = optuna.create_study(storage=f"sqlite:///{folder / 'optuna.db'}", sampler=sampler)

    def ask() -> tuple[Any, dict[str, float]]:
        trial = study.ask()
        return trial, {name: trial.suggest_float(name, *bounds) for name, bounds in BOUNDS.items()}

    return rival(ask, study.tell, trials)


WAYS: dict[str, Way] = {
    "fieldcraft, passes, inline": partial(ours, dispatcher="inline", prefect=False),
    "fieldcraft, passes in Prefect, inline": partial(ours, dispatcher="inline", prefect=True),
    "fieldcraft, passes, a process a trial": partial(ours, dispatcher="local", prefect=False),
    "Ax, SQL storage": ax_sql,
    "Optuna, RDB storage": optuna_rdb,
}


def flush_seconds(folder: Path, times: int = 50) -> float:
    """Median seconds of flushing a small file to the disk."""
    found = []
    for number in range(times):
        with (folder / f"flushed-{number}").open("wb") as file:
            file.write(b"x" * 1000)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            found.append(time.perf_counter() - began)
    return statistics.median(found)


def field_seconds(folder: Path, times: int = 400) -> float:
    """CPU seconds of storing a field that is one number, on this disk."""
    store = fields_at(folder / "fields")
    made = [xr.Dataset({"value": ((), float(number), {"units": "K"})}) for number in range(times + 50)]
    for dataset in made[:50]:
        store.write("bench", dataset)
    began = time.process_time()
    for dataset in made[50:]:
        store.write("bench", dataset)
    return (time.process_time() - began) / times


def measured(trials: int, repeats: int, ways: dict[str, Way]) -> dict[str, Any]:
    """Every way in turn, repeated; medians of seconds per trial, and what one flush takes."""
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    flushes, stored = [], []
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        for repeat in range(repeats):
            flushes.append(flush_seconds(Path(folder)))
            stored.append(field_seconds(Path(folder) / f"{repeat}"))
            for number, (name, way) in enumerate(ways.items()):
                place = Path(folder) / f"{repeat}-{number}"
                place.mkdir()
                found[name].append(way(place, trials))
                print(f"{repeat + 1}/{repeats}  {name}: {1000 * found[name][-1].cpu:.0f} ms of CPU a trial", flush=True)
    figures = {name: asdict(typical(costs)) for name, costs in found.items()}
    return {
        "trials": trials,
        "repeats": repeats,
        "flush": statistics.median(flushes),
        "field": statistics.median(stored),
        "ways": figures,
    }


def typical(costs: list[Cost]) -> Cost:
    """The medians."""
    parts = {name: statistics.median(cost.parts.get(name, 0.0) for cost in costs) for name in costs[0].parts}
    return Cost(statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs), parts)


def table(figures: dict[str, Any]) -> str:
    """The figures, each beside the first way."""
    first = next(iter(figures["ways"].values()))
    lines = [f"{'ms per trial':40}{'wall':>9}{'CPU':>9}{'wall, times ours':>18}{'CPU, times ours':>17}"]
    for name, cost in figures["ways"].items():
        ratios = f"{cost['wall'] / first['wall']:17.2f}x{cost['cpu'] / first['cpu']:16.2f}x"
        lines.append(f"{name:40}{1000 * cost['wall']:9.1f}{1000 * cost['cpu']:9.1f}{ratios}")
    flush = 1000 * figures["flush"]
    lines.append(f"one flush to this disk takes {flush:.2f} ms; ours waits for {FLUSHED}")
    lines.append(f"a field that is one number takes {1000 * figures['field']:.2f} ms of CPU to store")
    for name, cost in figures["ways"].items():
        if cost["parts"]:
            parts = ", ".join(f"{part} {1000 * each:.1f}" for part, each in cost["parts"].items())
            lines.append(f"{name}: {parts}")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50, help="of one way in one repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="5 trials, once, without Prefect and processes")
    parser.add_argument("--json", help="file to write the figures to")
    options = parser.parse_args()
    os.environ["FIELDCRAFT_MLFLOW"] = "off"  # the exporter is another process, which no pass waits for
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    ways = WAYS
    if options.quick:
        options.trials, options.repeats = 5, 1
        ways = {name: way for name, way in ways.items() if "Prefect" not in name and "process" not in name}
    with tempfile.TemporaryDirectory(prefix="overhead-") as home:
        server = nullcontext() if options.quick else closing(Server(Path(home)))
        with server as started, nullcontext() if started is None else without_heartbeats():
            if started is not None:
                started.begin()
                started.ready()
            with nullcontext() if started is None else one_client():
                figures = measured(options.trials, options.repeats, ways)
    print(table(figures))
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
