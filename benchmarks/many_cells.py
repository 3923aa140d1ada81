"""What a pass costs over stored fields of very many cells, in a process that has read none of them.

    python benchmarks/many_cells.py [--trials 60] [--cells 1224] [--json FILE]

The fields of chips in closed form, on 1,224 x 816 cells by default (10^6), are stored by a campaign's own passes, in a
temporary folder (8 MB a field). Then another process makes the pass that learns from all of them and proposes, once by
``emulated_field`` and once by ``field_pod``, and a third makes it again over the store as the second left it, and the
pass after that too, as a run does, which has imported all that it needs. CPU time is that of reading the fields
(``fields``), of the rest of the steps, and of the whole pass; ``before`` is what the process took before it, with a
look for garbage among them, which a run has long behind it. Memory is the process's largest.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
SURROGATES = ("emulated_field", "field_pod")
CAMPAIGN = """\
name: {name}
seed: 1
sense: minimize
problem: {{kind: chips}}
simulator: {{kind: closed_form, cells: {cells}}}
algorithm:
  start: {{n: {trials}}}
  surrogate: {{kind: {surrogate}}}
  acquisition: {{kind: log_ei}}
  maximizer: {{kind: multistart}}
dispatcher: {{kind: inline}}
budget: {{trials: {budget}}}
"""
SIMULATOR = '''\
"""The temperature of chips in closed form, on any grid."""
from dataclasses import dataclass

import numpy as np
import xarray as xr

from fieldcraft import Simulator


@dataclass(frozen=True)
class ClosedForm(Simulator):
    """See the module."""

    cells: int = 96
    idempotent = True

    def run(self, problem, design, rng):
        shape = self.cells, round(self.cells * problem.sides[1] / problem.sides[0])
        x, y = (side * (np.arange(n) + 0.5) / n for side, n in zip(problem.sides, shape, strict=True))
        return xr.Dataset(
            {"temperature": (("x", "y"), problem.temperature(design).on(x, y), {"units": "degC"})},
            coords={"x": ("x", x, {"units": "mm"}), "y": ("y", y, {"units": "mm"})},
        )
'''


def settings_in(folder: Path) -> Any:
    """The settings of a home under ``folder``, with the simulator among its kinds."""
    from fieldcraft.flows.settings import settings_from

    environment = {"FIELDCRAFT_PLUGINS": str(folder / "plugins"), "FIELDCRAFT_MLFLOW": "off"}
    os.environ.update(environment)
    return settings_from(environment, folder / "home")


def stored(folder: Path, surrogate: str, trials: int, cells: int) -> None:
    """Run the first designs of a campaign in a new home, and record their results."""
    from fieldcraft.flows.spec.campaign_file import read_campaign
    from fieldcraft.flows.steps.one_pass import Ref, harvest_step, make_pass
    from fieldcraft.flows.wiring.build import wire
    from fieldcraft.flows.wiring.create import created
    from fieldcraft.storage.open_ledger import open_ledger

    kinds = folder / "plugins" / "simulators"
    kinds.mkdir(parents=True, exist_ok=True)
    (kinds / "closed_form.py").write_text(SIMULATOR)
    settings, file = settings_in(folder), folder / f"{surrogate}.yaml"
    options = {"surrogate": surrogate, "cells": cells, "trials": trials, "budget": trials + 10}
    file.write_text(CAMPAIGN.format(name=surrogate, **options))
    ledger = open_ledger(settings.ledger, create=True)
    created(ledger, wire(read_campaign(file), settings), file)
    lease = ledger.acquire(surrogate)
    ref = Ref(str(settings.home), surrogate, lease.model_dump())
    while len([each for each in ledger.trials(surrogate) if each.outputs is not None]) < trials:
        make_pass(ref)
        harvest_step(asdict(ref))
    ledger.release(lease, done=False)


def measured(folder: Path, surrogate: str) -> dict[str, float]:
    """CPU seconds of one pass by part, and the process's largest memory in MiB."""
    import torch

    from fieldcraft.flows.steps.one_pass import Ref, make_pass
    from fieldcraft.flows.wiring import observations
    from fieldcraft.physics.parametric import finite_differences
    from fieldcraft.storage.open_ledger import open_ledger

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    settings, spent = settings_in(folder), {"before": time.process_time()}
    read, solve, steps = observations.snapshots_of, finite_differences.solved, ["pass"]

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        spent[name] = spent.get(name, 0.0) + time.process_time() - began

    def fields(*given: Any) -> Any:
        with timed("fields"):
            return read(*given)

    def solved(*given: Any) -> Any:
        with timed(f"{steps[-1]}_solving"):
            return solve(*given)

    def call(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        steps.append(step.__name__.removesuffix("_step"))
        with timed(steps[-1]):
            return step(*args, **kwargs)

    ledger = open_ledger(settings.ledger)
    lease = ledger.acquire(surrogate)
    at_fields, at_solve = (
        patch.object(observations, "snapshots_of", fields),
        patch.object(finite_differences, "solved", solved),
    )
    with at_fields, at_solve, timed("pass"):
        passed = make_pass(Ref(str(settings.home), surrogate, lease.model_dump()), call)
    ledger.release(lease, done=False)
    assert passed.proposed, passed
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {name: round(each, 3) for name, each in spent.items()} | {"mib": round(memory)}


def process(*words: str) -> list[dict[str, float]]:
    """What this program prints in a process of its own, on one thread: a line for each pass."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, *words],
        env={**os.environ, **threads, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--cells", type=int, default=1224, help="cells along the first axis; two thirds of it along y")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", choices=("store", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--surrogate", help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "store":
        return stored(options.folder, options.surrogate, options.trials, options.cells)
    if options.step == "measure":
        for _ in range(options.passes):
            print(json.dumps(measured(options.folder, options.surrogate)))
        return
    rows = []
    sizes = ("--trials", str(options.trials), "--cells", str(options.cells))
    for surrogate in SURROGATES:
        with tempfile.TemporaryDirectory() as folder:
            at = ("--folder", folder, "--surrogate", surrogate)
            process("--step", "store", *at, *sizes)
            for passes, told in ((1, ("never read",)), (2, ("one more field", "the next pass"))):
                for seen, found in zip(told, process("--step", "measure", "--passes", str(passes), *at), strict=True):
                    rows.append({"surrogate": surrogate, "fields_seen": seen, **found})
                    print(json.dumps(rows[-1]), flush=True)
    if options.json:
        cells = options.cells * round(options.cells * 2 / 3)
        options.json.write_text(json.dumps({"trials": options.trials, "cells": cells, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
