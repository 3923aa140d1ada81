"""CPU seconds and memory of one proposal, by the number of results.

    python benchmarks/growth.py --json FILE [--methods NAME ...] [--trials 50 100 200 500 1000] [--repeats 3]

Neural-BO and GP-UCB have Ackley's function of ten variables, Neural-CBO, UCB-C and ADMMBO the constrained Hartmann
function of six, as named algorithms with their defaults, or with the preset `paper`. Each proposal is a fit from
nothing to Sobol designs and the search for the next design, in a process of its own on one thread. Its memory is the
most that the process held beyond what a proposal after 20 results had needed, so that the libraries do not count. Both
are medians of some repeats. What is in FILE is not run again.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol

METHODS = {
    **{name: ("ackley", name, "default") for name in ("neural_bo", "gp_ucb")},
    "neural_bo_paper": ("ackley", "neural_bo", "paper"),
    **{name: ("constrained_hartmann", name, "default") for name in ("neural_cbo", "ucb_c", "admmbo")},
    "neural_cbo_paper": ("constrained_hartmann", "neural_cbo", "paper"),
}


FIRST = 20
"""Results of a proposal that is made before, so that what it loads does not count."""


def proposals(method: str, n: int) -> dict[str, float]:
    """CPU seconds and memory, MB, of one proposal after n results, in this process."""
    problem, kind, preset = METHODS[method]
    spec = {
        "name": "growth",
        "seed": 0,
        "sense": "minimize",
        "problem": {"kind": problem},
        "simulator": {"kind": "function"},
        "algorithm": {"kind": kind, "start": {"n": FIRST}} | ({} if preset == "default" else {"preset": preset}),
        "budget": {"trials": 2 * n},
    }
    campaign = wire(parse(spec, "growth"), settings_from({}, home=Path(tempfile.gettempdir())))
    propose(campaign, FIRST)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    propose(campaign, n)
    taken = time.process_time() - began
    return {"seconds": taken, "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def propose(campaign: Campaign, n: int) -> None:
    """Fit n Sobol designs' results, and search for the next design."""
    space, function = campaign.space, campaign.problem
    X = Sobol().propose(space, 0, n, np.random.default_rng(1))
    points = np.array([list(design.values()) for design in space.decode(X)])
    values, bounds = function.exact(points), function.exact_constraints(points)
    data = Observations(
        X, values, maximize=False, exact=True, space=space, constraints=() if bounds is None else bounds
    )
    posterior = campaign.algorithm.fit(data, np.random.default_rng(2))
    campaign.algorithm.propose(posterior, data, X[:0], space, 1, np.random.default_rng(3), proposed=n)


def apart(method: str, n: int) -> dict[str, float]:
    """The same in a process of its own."""
    read, write = os.pipe()
    if not (child := os.fork()):
        torch.set_num_threads(1)
        os.write(write, json.dumps(proposals(method, n)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        found: dict[str, float] = json.loads(said.read())
    os.waitpid(child, 0)
    return found


def main() -> None:
    """Measure what the file lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--trials", nargs="+", type=int, default=[50, 100, 200, 500, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    known = json.loads(options.json.read_text()) if options.json.exists() else {"rows": []}
    done = {(row["method"], row["trials"]) for row in known["rows"]}
    for n in options.trials:
        for method in options.methods:
            if (method, n) not in done:
                each = [apart(method, n) for _ in range(options.repeats)]
                row = {"method": method, "trials": n, **{name: median(one[name] for one in each) for name in each[0]}}
                known["rows"].append(row)
                print(f"{method:18} {n:5} results: {row['seconds']:7.2f} s, {row['megabytes']:6.0f} MB", flush=True)
                options.json.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
