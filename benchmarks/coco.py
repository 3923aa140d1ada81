"""Targets reached on COCO's 24 noiseless functions (bbob, instance 1) within 10 d evaluations.

    OMP_NUM_THREADS=1 python benchmarks/coco.py [--algorithms auto ...] [--dimensions 2 3 5 10] [--seeds 5]
        [--json FILE] [--data FOLDER]

Needs the extra ``coco``: ``pip install -c constraints.txt -e '.[coco]'``. A campaign has 10 d trials, begins as one
whose file states no ``start``, and has no noise. A target is f_opt + 10^k, k = 2, 1.8, ..., -8: 51 of them for each
function. The table has, for each group of functions, the share of targets that the best of the trials
so far has reached, mean over seeds. ``--data`` writes COCO's own files there, a folder for each algorithm and seed, for
its post-processing (cocopp). Cells that FILE holds are not run again, and write no data.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cocoex
import numpy as np
import torch

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.studies.page.targets import EACH, GROUPS, shares
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.models.observations import Array, Observations

TARGETS = 10.0 ** np.arange(2.0, -8.1, -0.2)
ALGORITHMS = ("auto", "gp_ei", "botorch_log_ei", "optuna_gp", "optuna_tpe", "cma_es", "sobol", "random")


def campaign_of(algorithm: str, dimension: int) -> Campaign:
    """The campaign of an algorithm's kind over [-5, 5]^dimension."""
    variables = [{"name": f"x{i}", "low": -5.0, "high": 5.0} for i in range(dimension)]
    spec = {
        "name": "bbob",
        "seed": 0,
        "sense": "minimize",
        "problem": {"kind": "declared", "variables": variables, "results": [{"name": "f"}]},
        "algorithm": {"kind": algorithm},
        "dispatcher": {"kind": "lab"},
        "budget": {"trials": EACH * dimension},
    }
    return wire(parse(spec, "bbob"), settings_from({}, home=Path(tempfile.gettempdir())))


def least_of(problem: Any) -> float:
    """The least value of a function, at the optimum that COCO tells in a file of the working directory."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        problem._best_parameter("print")
        return float(problem(np.loadtxt("._bbob_problem_best_parameter.txt")))


def results(problem: Any, algorithm: str, seed: int) -> list[float]:
    """The results of one campaign, in their order."""
    campaign = campaign_of(algorithm, problem.dimension)
    words, space, trials = campaign.algorithm, campaign.space, EACH * problem.dimension
    start = campaign.spec.algorithm.start.n

    def read(X: Array) -> list[float]:
        return [float(problem(list(design.values()))) for design in space.decode(X)]

    X = words.initial.propose(space, 0, start, np.random.default_rng(seed))
    y, none = read(X), np.empty((0, space.dimension))
    while len(y) < trials:
        data = Observations(X, np.array(y), maximize=False)
        streams = [np.random.default_rng([seed, len(y), use]) for use in (1, 2)]
        if words.peer is not None:
            found = words.suggest(data, none, space, 1, streams[1])
        elif words.surrogate is None:
            found = words.initial.propose(space, len(y), 1, np.random.default_rng(seed))
        else:
            found = words.propose(words.fit(data, streams[0]), data, none, space, 1, streams[1]).X
        X, y = np.vstack([X, found]), y + read(found)
    return y


def reached(values: Sequence[float], least: float) -> int:
    """Number of targets that the best of the results has reached."""
    return int(np.sum(min(values) - least <= TARGETS))


def table(cells: dict[str, int], algorithms: Sequence[str], dimensions: Sequence[int]) -> str:
    """The shares of targets by dimension and group, a row for each algorithm; the number of campaigns beside."""
    lines = []
    for d in dimensions:
        head = "".join(f"{group:>16}" for group in (*GROUPS, "all"))
        lines.append(f"\n{d} variables, {EACH * d} evaluations:\n{'':16}{head}")
        for algorithm in algorithms:
            found, total = shares(cells, algorithm, d)
            if total:
                told = "".join(f"{np.nan if share is None else share:16.3f}" for share in found)
                lines.append(f"{algorithm:16}{told}   {total} campaigns")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 3, 5, 10])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cells: dict[str, int] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    for seed in range(options.seeds):
        for algorithm in options.algorithms:
            began, done = time.process_time(), 0
            suite = cocoex.Suite("bbob", "instances:1", f"dimensions:{','.join(map(str, options.dimensions))}")
            plain = cocoex.Suite("bbob", "instances:1", f"dimensions:{','.join(map(str, options.dimensions))}")
            observer = None
            if options.data:
                options.data.mkdir(parents=True, exist_ok=True)
                with chdir(options.data):
                    observer = cocoex.Observer("bbob", f"result_folder: {algorithm}-{seed} algorithm_name: {algorithm}")
            for problem, unseen in zip(suite, plain, strict=True):
                key = f"{algorithm} {problem.dimension} {problem.id_function} {seed}"
                if key in cells:
                    continue
                least = least_of(unseen)
                with chdir(options.data or "."):
                    if observer is not None:
                        problem.observe_with(observer)
                    cells[key] = reached(results(problem, algorithm, seed), least)
                    problem.free()
                done += 1
                if options.json:
                    options.json.write_text(json.dumps(cells, indent=1) + "\n")
            if done:
                print(
                    f"{algorithm}, seed {seed}: {done} campaigns, {time.process_time() - began:.0f} CPU s", flush=True
                )
    print(table(cells, options.algorithms, options.dimensions))


if __name__ == "__main__":
    main()
