"""Accuracy of a network as an emulator, by CPU time of training, beside the coarse solution of the same equation.

    python benchmarks/pinn.py [--seconds 15 --seconds 30 --seconds 60] [--seeds 3] [--case chips] [--json FILE]

Each training has as many steps as fit into its seconds of CPU time of this process (of the clock on a GPU), by the time
that some steps take just before. The first output of 200 random designs is then compared with the truth: the solution
in closed form. ``coarse`` is the statement's own grid; the network is read on the same one, as in a campaign. The case
``chips without singular`` is chips without the part that the problem states analytically.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import EmulatorSpec, parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.networks import NetworkFields, network_of, pool_of
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import no_report

DESIGNS, PROBE = 200, 40
CASES = {"chips": "chips", "cantilever": "cantilever_profile", "chips without singular": "chips"}


def campaign_of(kind: str, seed: int) -> Campaign:
    """A campaign on a problem, with a network of the default options."""
    data = {
        "name": "pinn",
        "seed": seed,
        "sense": "minimize",
        "problem": {"kind": kind},
        "simulator": {"kind": "stated_equation", "cells": 20},
        "algorithm": {"kind": "emulated"},
        "emulator": {"kind": "pinn"},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 10},
    }
    return wire(parse(data), settings_from())


def compared(found: Array, truth: Array) -> dict[str, float]:
    """Correlation, mean and standard deviation of the error, and its median relative size."""
    error = found - truth
    return {
        "correlation": float(np.corrcoef(found, truth)[0, 1]),
        "mean": float(error.mean()),
        "sd": float(error.std()),
        "relative": float(np.median(np.abs(error / truth))),
    }


def measured(name: str, seconds: list[int], seed: int) -> dict[str, object]:
    """All figures of one case and seed."""
    campaign, device = campaign_of(CASES[name], seed), "cuda" if torch.cuda.is_available() else "cpu"
    clock = time.perf_counter if device == "cuda" else time.process_time
    problem, stated = campaign.problem, campaign.problem.parametric
    assert stated is not None
    rows = problem.space.decode(problem.space.sample(DESIGNS, np.random.default_rng(1)))
    designs = {key: np.array([[float(row[key])] for row in rows]) for key in problem.space.names}
    truth = problem.exact(np.hstack([designs[key] for key in problem.space.names]))
    began = time.process_time()
    coarse = problem.on_grid(designs, stated.cells)
    each = (time.process_time() - began) / DESIGNS
    assert coarse is not None and truth is not None
    found: dict[str, object] = {"case": name, "seed": seed, "device": device, "sd": float(truth.std())}
    found["coarse"] = {**compared(coarse[:, 0], truth), "seconds_a_design": each}
    pool, network = pool_of(campaign), network_of(campaign, device)
    if name.endswith("without singular"):
        network = replace(network, stated=replace(stated, singular=None))
    probe = replace(network, steps=PROBE)
    probe.train(probe.begin(), pool, no_report)
    began = clock()
    probe.train(probe.begin(), pool, no_report)
    each = (clock() - began) / PROBE
    for budget in seconds:
        trained = replace(network, steps=max(1, int(budget / each)))
        began = clock()
        state = trained.train(trained.begin(), pool, no_report)
        took = clock() - began
        fields = NetworkFields(replace(trained, device="cpu"), state, "")
        began = time.process_time()
        outputs = problem.on_grid(designs, stated.cells, fields)
        assert outputs is not None
        scored = {**compared(outputs[:, 0], truth), "seconds_a_design": (time.process_time() - began) / DESIGNS}
        found[f"{budget} s"] = {**scored, "steps": trained.steps, "seconds": took, "loss": float(state["loss"])}
        print(name, seed, budget, found[f"{budget} s"], flush=True)
    print(name, seed, "coarse", found["coarse"], "sd", found["sd"], flush=True)
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=tuple(CASES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    budgets = options.seconds or [15, 30, 60]
    cases = options.case or list(CASES)
    found = []
    for seed in range(options.seeds):
        for name in cases:
            found.append(measured(name, budgets, seed))
            if options.json:  # a run that is stopped leaves the cases that are whole
                told = {"options": EmulatorSpec(kind="pinn").model_dump(), "designs": DESIGNS, "cases": found}
                options.json.write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
