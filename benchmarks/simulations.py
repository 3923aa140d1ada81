"""What a simulation on this machine costs beside its solve: ``python benchmarks/simulations.py``.

One design is simulated by turns in three ways, and the CPU seconds are those of the whole process of a job:

    forked        by the server of simulations, as a campaign has it
    interpreter   by an interpreter of its own, which imports all it needs; used where the server does not answer
    solve         the simulator's call alone, in this process, which has imported it

A figure is the median over the repeats. ``--json FILE`` keeps them.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil

from fieldcraft.flows.dispatchers.local import Local
from fieldcraft.flows.jobs import forks
from fieldcraft.flows.jobs.dispatcher import Finished, Job, Place
from fieldcraft.flows.jobs.simulation import simulate

SIMULATED: Mapping[str, Mapping[str, Any]] = {
    "heat": {
        "problem": {"kind": "heat", "boundary": 2},
        "simulator": {"kind": "heat", "cells": 64},
        "design": {"x": 2.0, "y": 3.0},
    },
    "chips": {
        "problem": {"kind": "chips"},
        "simulator": {"kind": "chips", "cells": 96},
        "design": {"x1": 20.0, "y1": 20.0, "x2": 70.0, "y2": 40.0},
    },
}
ADDRESS = {"seed": 0, "iteration": 0, "slot": 0}
_numbers = count(1)


@contextmanager
def no_server() -> Iterator[None]:
    """Have the server of simulations refuse within the block."""

    def refused(*_: object) -> dict[str, Any]:
        raise forks.NoFork("it is not to be used now")

    forked, forks.forked = forks.forked, refused
    try:
        yield
    finally:
        forks.forked = forked


def as_job(local: Local, request: Mapping[str, Any]) -> float:
    """CPU seconds of a job's process; those of a server that forked it count, but for its start."""
    before = spent()
    key = f"t-1-{next(_numbers)}"
    handle = local.submit(Job("t-1", key, {**request, **ADDRESS}))
    local.wait([handle], 120.0)
    outcome = local.poll(handle)
    if not isinstance(outcome, Finished):
        raise SystemExit(f"the simulation did not end well: {outcome}")
    psutil.wait_procs(simulating())  # what it took counts with its parent from then on
    with no_server():
        local.forget(key)
    return spent() - before


def simulating() -> list[psutil.Process]:
    """The processes of jobs, forked or begun."""
    servers = [psutil.Process(server.child.pid) for server in forks._servers]
    begun = [child for child in psutil.Process().children() if child not in servers]
    return [*begun, *(child for server in servers for child in server.children())]


def spent() -> float:
    """CPU seconds of the jobs that have ended, and of the server that forked some of them."""
    mine = psutil.Process().cpu_times()
    servers = [psutil.Process(server.child.pid).cpu_times() for server in forks._servers]
    return sum(
        (each.user + each.system for each in servers),
        sum(each.children_user + each.children_system for each in (mine, *servers)),
    )


def solved(request: Mapping[str, Any]) -> float:
    """CPU seconds of a simulation in this process."""
    began = time.process_time()
    simulate({**request, **ADDRESS}, ())
    return time.process_time() - began


def measure(repeats: int, folder: Path) -> dict[str, dict[str, float]]:
    """Median CPU seconds by problem and way."""
    local = Local(Place("t", folder / "work", 120.0, "", folder / "lab"))
    (folder / "work").mkdir()

    def interpreter(request: Mapping[str, Any]) -> float:
        with no_server():
            return as_job(local, request)

    def forked(request: Mapping[str, Any]) -> float:
        return as_job(local, request)

    ways: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "forked": forked,
        "interpreter": interpreter,
        "solve": solved,
    }
    found = {}
    for name, request in SIMULATED.items():
        for way in (solved, forked):  # each imports what the problem needs
            way(request)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(repeats):
            for way, call in ways.items():
                times[way].append(call(request))
            print(f"{number + 1}/{repeats}  {name}: " + ", ".join(f"{w} {t[-1]:.2f} s" for w, t in times.items()))
        found[name] = {way: statistics.median(values) for way, values in times.items()}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.repeats, Path(folder))
    print("CPU seconds a simulation")
    for name, times in found.items():
        beside = {way: times[way] - times["solve"] for way in ("forked", "interpreter")}
        print(
            f"{name:8s} solve {times['solve']:.2f}, beside it forked {beside['forked']:.2f} and in an interpreter "
            f"{beside['interpreter']:.2f}: {beside['interpreter'] / max(beside['forked'], 0.01):.0f} times"
        )
    if options.json:
        options.json.write_text(json.dumps({"repeats": options.repeats, "cpu_seconds": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
