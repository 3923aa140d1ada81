"""Runs to tolerance of objectives computed from outputs: learnt through these, and by the computed number.

    OMP_NUM_THREADS=1 python benchmarks/derived.py [--only reaction ageing] [--ways parts number own] [--seeds 5]

Each line is a problem and, for each way, the trials of each seed until a result is within the tolerance (none: not in
40), and the CPU seconds. All begin with the same 2 (d + 1) Sobol designs; exact_gp, log_ei, multistart. The way ``own``
learns parts by which a formula divides on their own scale, and not by their logarithm. ``--json FILE`` keeps the lines.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.data.composite import Composite
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.outputs.formula import Formula
from fieldcraft.physics.space import Continuous, SearchSpace

LIMIT = 40  # trials


@dataclass(frozen=True)
class Case:
    """An objective computed from outputs.

    Args:
        dimension: Number of variables, each from 0 to 1.
        outputs: Function from designs (n, d) to the outputs by name, each (n,).
        formula: Rule of the objective.
        reached: Value from which a result is within the tolerance.
        maximize: True if it is maximised.
    """

    dimension: int
    outputs: Callable[[Array], dict[str, Array]]
    formula: Formula | Distance
    reached: float
    maximize: bool = False


def reaction(x: Array) -> dict[str, Array]:
    """Yield and impurity of a first-order reaction A -> B -> C by temperature (300 to 360 K), time (h) and catalyst.

    What has not reacted counts as impurity in part, and so does what the vessel gives off with time.
    """
    kelvin, hours, catalyst = 300 + 60 * x[:, 0], 0.2 + 3.8 * x[:, 1], 0.5 + x[:, 2]
    first = 1.2 * catalyst * np.exp(4000 * (1 / 330 - 1 / kelvin))
    second = 0.25 * catalyst**1.7 * np.exp(8000 * (1 / 330 - 1 / kelvin))
    a = np.exp(-first * hours)
    b = first / (second - first) * (a - np.exp(-second * hours))
    return {"yield": b, "impurity": 0.02 + 0.3 * a + 1 - a - b + 0.02 * hours}


def exchanger(x: Array) -> dict[str, Array]:
    """Heat (kW) and power of pump and fan (W) of a heat exchanger by speed, diameter, pitch and the fan's speed."""
    speed, wide, pitch, fan = 0.2 + 3.8 * x[:, 0], 8 + 16 * x[:, 1], 1.2 + 1.8 * x[:, 2], 0.5 + 5.5 * x[:, 3]
    inside, outside = 1.1 * speed**0.8 * (wide / 12) ** 0.8, 0.4 * fan**0.6 * np.exp(-((pitch - 1.9) ** 2))
    return {
        "heat": 12 * inside * outside / (inside + outside),
        "power": 2 + 6 * speed**2.8 * (12 / wide) ** 1.2 + 0.15 * fan**3 / pitch,
    }


def ageing(x: Array) -> dict[str, Array]:
    """Hardness of an alloy (HRC) by temperature (420 to 520 K) and logarithm of the time of ageing: it has a peak."""
    kelvin, log_hours = 420 + 100 * x[:, 0], -1 + 4 * x[:, 1]
    aged = log_hours + 4300 * (1 / 470 - 1 / kelvin)
    return {"hardness": 18 + (34 - 0.08 * (kelvin - 420)) * np.exp(-((aged - 0.8) ** 2) / 1.1)}


def film(x: Array) -> dict[str, Array]:
    """Thickness (nm) and stress (MPa) of a deposited film by power, pressure, temperature and distance."""
    power, pressure, heat, apart = x.T
    thickness = 40 + 160 * power * (1 - 0.5 * apart) * np.exp(-((pressure - 0.4) ** 2) / 0.3)
    return {
        "thickness": thickness,
        "stress": -300 + 700 * heat * (1 - 0.4 * pressure) + 250 * np.sin(3 * power) * apart,
    }


def curve(x: Array) -> dict[str, Array]:
    """Response at four times of two decays by their rates, shares and a delay, to be matched to a measured one."""
    rate, slow, share, delay, offset = 0.5 + 3 * x[:, 0], 0.1 + 0.6 * x[:, 1], x[:, 2], 0.3 * x[:, 3], 0.4 * x[:, 4]
    times = (0.5, 1.0, 2.0, 4.0)
    return {
        f"r{j}": share * np.exp(-rate * (t - delay)) + (1 - share) * np.exp(-slow * (t - delay)) + offset
        for j, t in enumerate(times, 1)
    }


def balance(x: Array) -> dict[str, Array]:
    """Two flows that share a fluctuation, whose difference is smooth: parts are harder to learn than the number."""
    shared = np.sin(25 * x[:, 0]) * np.cos(22 * x[:, 1])
    return {"inflow": 3 * shared + x[:, 0], "outflow": 3 * shared - (x[:, 1] - 0.6) ** 2 + x[:, 0] ** 2}


_SOUGHT = curve(np.array([[0.35, 0.6, 0.45, 0.5, 0.3]]))
CASES = {
    "reaction": Case(3, reaction, Formula("yield / impurity"), 3.61, maximize=True),
    "exchanger": Case(4, exchanger, Formula("heat / power"), 1.6, maximize=True),
    "ageing": Case(2, ageing, Distance("hardness", 40.0, 40.0), 0.05),
    "film": Case(
        4, film, Formula("max(100 - thickness, thickness - 104, 0) / 4 + max(0 - stress, stress - 20, 0) / 20"), 0.0
    ),
    "curve": Case(5, curve, Formula(" + ".join(f"(r{j} - {_SOUGHT[f'r{j}'][0]:.9g})^2" for j in (1, 2, 3, 4))), 1e-4),
    "balance": Case(2, balance, Formula("inflow - outflow"), 0.605, maximize=True),
}


class OwnScale(Composite):
    """Parts of which none is learnt by its logarithm."""

    logarithmic = property(lambda self: (False,) * len(self.names))


def runs(case: Case, seed: int, way: str) -> int | None:
    """Trials until a result is within the tolerance; None if it is not in 40.

    Args:
        case: The objective.
        seed: Seed of all draws.
        way: ``parts`` to learn it through its outputs, ``own`` for these on their own scale, ``number`` for its number.
    """
    space = SearchSpace(tuple(Continuous(f"x{i}", 0.0, 1.0) for i in range(case.dimension)))
    start = 2 * (case.dimension + 1)
    algorithm = Algorithm(Sobol(), start, ExactGP(), LogEI(), Multistart())
    X = algorithm.begin(space, 0, start, np.random.default_rng([seed, 0]))
    while True:
        outputs = case.outputs((X + 1) / 2)
        y = np.asarray(case.formula(outputs))
        met = y >= case.reached if case.maximize else y <= case.reached
        if met.any():
            return int(met.argmax()) + 1
        if len(X) == LIMIT:
            return None
        names = case.formula.names
        band = (case.formula.low, case.formula.high) if isinstance(case.formula, Distance) else None
        kind = OwnScale if way == "own" else Composite
        composite = kind(names, np.stack([outputs[name] for name in names], axis=1), case.formula, band)
        data = Observations(X, y, maximize=case.maximize, exact=True, composite=None if way == "number" else composite)
        posterior = algorithm.fit(data, np.random.default_rng([seed, len(X), 1]))
        rng = np.random.default_rng([seed, len(X), 2])
        X = np.vstack([X, algorithm.propose(posterior, data, np.empty((0, case.dimension)), space, 1, rng).X])


def main() -> None:
    """Run what was asked for."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--ways", nargs="+", choices=("parts", "number", "own"), default=["parts", "number"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in asked.only:
        row: dict[str, Any] = {"problem": name, "dimension": CASES[name].dimension, "reached": CASES[name].reached}
        for word in asked.ways:
            began = time.process_time()
            row[word] = [runs(CASES[name], 1 + k, word) for k in range(asked.seeds)]
            row[f"seconds_{word}"] = round(time.process_time() - began, 1)
        rows.append(row)
        print(row, flush=True)
    if asked.json:
        found = {"date": datetime.now(UTC).date().isoformat(), "seeds": asked.seeds, "limit": LIMIT, "rows": rows}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
