"""CPU seconds of a study's cell, by what it spends them on: ``python benchmarks/cells.py --json FILE``.

A cell is a whole campaign as ``fieldcraft compare`` runs it: ledger, fields, models and their records included. Five
are timed: ``gp_ei`` on Hartmann-6 with 50 trials, ``auto`` on the heated plate with 16 (Laplace's equation is known),
``cei`` and ``neural_cbo`` on the constrained Branin function with 40, and ``neural_cbo`` on the speed reducer, 11
constraints, with 45. Each begins in a process of its own, on one thread. ``start`` is what that process takes to import
before its first cell, and a study's worker pays it once; ``train`` and ``acquire`` are those steps, ``rest`` all else,
with what is imported on the way. Prefect's own time is not in it. The last numbers are the final regret by seed, as a
study has it (nan where no trial is feasible). ``--beside FOLDER`` times another version of the package, seed by seed in
the same run; ``--cells gp_ei cei`` times some, ``--seeds 1 2 3`` others.
"""

import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["FIELDCRAFT_MLFLOW"] = "off"

CONSTRAINED = {"sense": "minimize", "noise": {"of_sd": 0.05}}
CELLS: dict[str, dict[str, Any]] = {
    "gp_ei": {
        "problem": {"kind": "hartmann"},
        "sense": "minimize",
        "noise": {"of_sd": 0.01},
        "algorithm": {"kind": "gp_ei", "start": {"n": 10}},
        "budget": {"trials": 50},
    },
    "auto": {
        "problem": {"kind": "heat", "boundary": 2, "margin": 0.1},
        "simulator": {"kind": "exact"},
        "sense": "maximize",
        "noise": {"of_sd": 0.01},
        "algorithm": {"kind": "auto", "start": {"n": 6}},
        "budget": {"trials": 16},
    },
    "cei": {
        "problem": {"kind": "constrained_branin"},
        **CONSTRAINED,
        "algorithm": {"kind": "cei", "start": {"n": 5}},
        "budget": {"trials": 40},
    },
    "neural_cbo_branin": {
        "problem": {"kind": "constrained_branin"},
        **CONSTRAINED,
        "algorithm": {"kind": "neural_cbo", "start": {"n": 5}},
        "budget": {"trials": 40},
    },
    "neural_cbo": {
        "problem": {"kind": "speed_reducer", "box": "authors"},
        **CONSTRAINED,
        "algorithm": {"kind": "neural_cbo", "start": {"n": 3}},
        "budget": {"trials": 45},
    },
}
"""Parts of a campaign file, by algorithm; ``neural_cbo`` has two cells."""


def campaign(name: str, seed: int, trials: int | None) -> dict[str, Any]:
    """A cell's campaign file as data, with fewer trials if asked."""
    own = {"simulator": {"kind": "function"}, **CELLS[name], "dispatcher": {"kind": "inline"}}
    return {"name": "cell", "seed": seed, **own, **({"budget": {"trials": trials}} if trials else {})}


def spent(name: str, seed: int, trials: int | None, home: Path) -> dict[str, float]:
    """CPU seconds of a cell in this process, by part, and its final ``regret``."""
    import torch

    from fieldcraft.flows.studies import worker

    torch.set_num_threads(1)
    steps: defaultdict[str, float] = defaultdict(float)

    class Kept(worker.Meter):
        def line(self, passed: worker.Passed | None) -> dict[str, float]:
            for step, seconds in self.steps.items():
                steps[step] += seconds
            return super().line(passed)

    start = time.process_time()
    order = worker.Order("cell", campaign(name, seed, trials), str(home))
    worker.run_cell(order, Kept(), lambda message: None)
    cell = time.process_time() - start
    train, acquire = steps["train_step"], steps["acquire_step"]
    parts = {"start": start, "train": train, "acquire": acquire, "rest": cell - train - acquire, "all": start + cell}

    from fieldcraft.flows.studies.scoring.results import with_regrets

    found = json.loads((home / "result.json").read_text())
    regret = with_regrets(found, found["optimum"])["final_regret"]
    return {**parts, "regret": math.nan if regret is None else regret}


def apart(name: str, seed: int, trials: int | None, tree: Path) -> dict[str, float]:
    """``spent`` in a process of its own, by the code of a tree."""
    told = [name, str(seed), str(trials or 0)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-P", __file__, "--one", *told], env=environment, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Time the cells, each beside that of another tree if one is given, and print them as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--trials", type=int, help="instead of a cell's own number")
    parser.add_argument("--beside", type=Path, help="a folder with another version of this package")
    parser.add_argument("--json", type=Path, help="file of the figures")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, seed, trials = options.one
        with tempfile.TemporaryDirectory(prefix="cells-") as home:
            print(json.dumps(spent(name, int(seed), int(trials) or None, Path(home))))
        return
    trees = {"this": Path(__file__).parents[1], **({"other": options.beside} if options.beside else {})}
    rows = []
    for name in options.cells:
        each = [
            {tree: apart(name, seed, options.trials, path) for tree, path in trees.items()} for seed in options.seeds
        ]
        for tree in trees:
            regrets = [one[tree].pop("regret") for one in each]
            means = {part: round(statistics.mean(one[tree][part] for one in each), 3) for part in each[0][tree]}
            known = [None if math.isnan(regret) else regret for regret in regrets]
            rows.append({"cell": name, "tree": tree, "seeds": options.seeds, **means, "regrets": known})
            parts = "  ".join(f"{part} {took:6.2f}" for part, took in means.items())
            print(f"{name:17} {tree:6}", parts, " regrets", *(f"{regret:.4g}" for regret in regrets), flush=True)
    if options.json:
        told = {"what": "CPU seconds of a cell, means over seeds", "date": datetime.date.today().isoformat()}
        options.json.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
