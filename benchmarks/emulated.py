"""Runs until a design is good enough, with right, wrong and useless emulators.

    python benchmarks/emulated.py [--seeds 5] [--fits 20] [--limit 40] [--case NAME] [--json FILE]

Chips (docs/fields.md): within 0.1 K of the best known 100.772 degC on 96 x 64 cells; the emulator solves the plate's
equation on 24 x 16 cells, with the exchange h 30% low, the conductivity k 20% low, with both, on 12 x 8 cells, or is
an unrelated function. Cantilever: within 1% of the best compliance on 400 cells; the emulator has ten cells, or is an
unrelated function. Bracket: within 0.1 K of the best known design, on 60 x 60 cells; the emulator has 24 x 24, less a
quarter that a mask leaves out. Tidal channel: within 3% of the best load, by the closed form, since py-pde takes
seconds; the emulator has 24 x 6 cells and 96 steps of time. Beside the named algorithm ``emulated``: its surrogate
after five Sobol designs (``sobol start``); emulated_gp, which learns from the outputs and not from the fields, after
five Sobol designs (``outputs alone``); and exact_gp after five Sobol designs without the emulator (``gp_ei``). Where
the emulator is no equation, or the runs leave no field, ``emulated`` learns from the outputs too. Searches with an
unrelated function and those of ``gp_ei`` beside them have twice as many seeds, on the cantilever eight times. Then, for
300 designs that were not run, the error of the predictions from 6, 12 and 30 random results and the share of two-sigma
intervals that hold, over ``--fits`` seeds; of emulated_field on chips also with the exchange and the conductance as
they are stated, not calibrated. With ``--case``, once or more often, only those cases are measured, and take the place
of their rows in the file.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.snapshots import StatedFields
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.emulated import Emulated
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Surrogate, no_report
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation
from fieldcraft.physics.problem import Problem, Simulator, stated_fields
from fieldcraft.physics.problems.bracket import Bracket
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.simulators.exact import Exact
from fieldcraft.physics.simulators.stated_equation import StatedEquation

MORE = {"chips, useless": 2, "cantilever, useless": 8}
START, UNSEEN, STATED = 5, 300, ", stated values"
METHODS: Mapping[str, Algorithm] = {
    "emulated": Algorithm(Emulated(), START, EmulatedField(), LogEI(), Multistart()),
    "sobol start": Algorithm(Sobol(), START, EmulatedField(), LogEI(), Multistart()),
    "outputs alone": Algorithm(Sobol(), START, EmulatedGP(), LogEI(), Multistart()),
    "gp_ei": Algorithm(Sobol(), START, ExactGP(), LogEI(), Multistart()),
}


@dataclass(frozen=True)
class OtherChips(Chips):
    """Chips whose emulator has another equation or grid."""

    h: float = 1.0
    k: float = 1.0
    cells: tuple[int, int] = (24, 16)

    @property
    def exchange(self) -> float:
        """h, as a share of the true one, times that."""
        return self.h * super().exchange

    @property
    def conductance(self) -> float:
        """k t, as a share of the true one, times that."""
        return self.k * super().conductance

    @property
    def parametric(self) -> ParametricEquation:
        """The equation on the grid that was chosen."""
        return replace(super().parametric, cells=self.cells)


def unrelated(designs: Numbers) -> Array:
    """A function that knows nothing of the problem, shape (n, 1)."""
    return np.asarray(50 + sum(10 * np.sin(value / 5 + i) for i, value in enumerate(designs.values())))


@dataclass(frozen=True)
class UselessChips(Chips):
    """Chips with an unrelated emulator."""

    def emulate(self, designs: Numbers) -> Array:
        """See ``unrelated``."""
        return unrelated(designs)


@dataclass(frozen=True)
class UselessCantilever(CantileverProfile):
    """The cantilever with an unrelated emulator."""

    def emulate(self, designs: Numbers) -> Array:
        """See ``unrelated``."""
        return unrelated(designs)


@dataclass(frozen=True, eq=False)
class Run:
    """A simulation: the objective, and the stated fields by name, each on its cells; none if it left none."""

    objective: float
    fields: Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """A problem with an emulator, what is good enough, and whether fields calibrate the emulator's coefficients."""

    name: str
    emulated: Problem
    truth: Problem
    simulator: Simulator
    target: float
    maximize: bool = False
    calibrated: bool = True

    def run(self, design: Mapping[str, float]) -> "Run":
        """The objective of a run and its fields."""
        dataset = self.simulator.run(self.truth, design, np.random.default_rng(0))
        objective = self.truth.evaluate(design, dataset)[self.truth.outputs[0].name]
        stated = self.emulated.parametric
        if stated is None or self.emulated.emulator != "equation" or stated.fields[0].name not in dataset:
            return Run(objective, {})
        fields, _ = stated_fields(stated, dataset)
        return Run(objective, {name: values[0] for name, values in fields.items()})

    def data(self, X: Array, runs: Sequence["Run"]) -> Observations:
        """Results of runs without noise."""
        space = self.truth.space
        return Observations(
            X,
            [run.objective for run in runs],
            maximize=self.maximize,
            exact=True,
            columns=space.columns,
            space=space,
            emulators=emulators_of(self.emulated, space),
            snapshots=self.snapshots(runs),
        )

    def snapshots(self, runs: Sequence["Run"]) -> Snapshots | None:
        """Fields of runs without noise; None if they left none that teach."""
        first, stated = runs[0].fields, self.emulated.parametric
        if not first or stated is None:
            return None
        cells = next(iter(first.values())).shape
        grid = StatedFields(self.emulated, stated, self.truth.space, tuple(first), cells)
        inside = Grid(stated.domain, cells).picked
        values = np.stack([[inside(field) for field in run.fields.values()] for run in runs])
        digests = tuple(hashlib.sha256(each.tobytes()).hexdigest() for each in values)
        found = grid.snapshots(values, digests)
        return found if self.calibrated else replace(found, calibration=None)

    def best(self, y: Array) -> float:
        """The best of results (n,); infinitely bad if there is none."""
        return float(np.max(y, initial=-np.inf) if self.maximize else np.min(y, initial=np.inf))

    def good(self, y: Array) -> bool:
        """True if one of the results (n,) is good enough."""
        return self.best(y) >= self.target if self.maximize else self.best(y) <= self.target


def cases() -> Iterator[Case]:
    """Every case, with its target."""
    chips: dict[str, Problem] = {
        "chips": Chips(),
        "chips, h 30% low": OtherChips(h=0.7),
        "chips, k 20% low": OtherChips(k=0.8),
        "chips, both low": OtherChips(h=0.7, k=0.8),
        "chips, 12 x 8 cells": OtherChips(cells=(12, 8)),
        "chips, useless": UselessChips(),
    }
    for name, problem in chips.items():
        yield Case(name, problem, Chips(), HeatedPlateFindiff(96), 100.772 + 0.1)
    bar, simulator = CantileverProfile(), StatedEquation(400)
    best = bar.optimum("minimize")
    assert best is not None
    target = 1.01 * Case("", bar, bar, simulator, 0.0).run({k: float(v) for k, v in best.design.items()}).objective
    for name, problem in {"cantilever": bar, "cantilever, useless": UselessCantilever()}.items():
        yield Case(name, problem, bar, simulator, target)
    bracket, cells = Bracket(), StatedEquation(60)
    coolest = bracket.optimum("minimize")
    assert coolest is not None
    design = {name: float(value) for name, value in coolest.design.items()}
    yield Case("bracket", bracket, bracket, cells, Case("", bracket, bracket, cells, 0.0).run(design).objective + 0.1)
    channel = Tidal()
    most = channel.optimum("maximize")
    assert most is not None
    yield Case("tidal", channel, channel, Exact(), 0.97 * most.value, maximize=True)


def until_good(case: Case, algorithm: Algorithm, seed: int, limit: int) -> dict[str, object]:
    """Runs until the target is met (None beyond the limit), the best in the end and after each, seconds a proposal."""
    space, emulators = case.truth.space, emulators_of(case.emulated, case.truth.space)
    X, y, runs, seconds = np.empty((0, space.dimension)), np.empty(0), [], []
    while len(y) < limit and not case.good(y):
        rng = np.random.default_rng([seed, len(y)])
        if len(y) < START:
            start = np.random.default_rng([seed, 0])
            x = algorithm.begin(space, len(y), 1, start, X, emulators, maximize=case.maximize)
        else:
            began, data = time.perf_counter(), case.data(X, runs)
            posterior = algorithm.fit(data, rng)
            x = algorithm.propose(posterior, data, np.empty((0, space.dimension)), space, 1, rng).X
            seconds.append(time.perf_counter() - began)
        runs.append(case.run(space.decode(x)[0]))
        X, y = np.vstack([X, x]), np.append(y, runs[-1].objective)
    mean = float(np.mean(seconds)) if seconds else None
    course = [case.best(y[: n + 1]) for n in range(len(y))]
    return {"runs": len(y) if case.good(y) else None, "best": course[-1], "seconds": mean, "course": course}


def foreseen(case: Case, surrogates: Mapping[str, Surrogate], n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Root mean square error for designs that were not run, and the share within two standard deviations, by name."""
    rng, space, found = np.random.default_rng(seed), case.truth.space, {}
    X, Z = space.sample(n, rng), space.sample(UNSEEN, rng)
    runs, unseen = ([case.run(design) for design in space.decode(points)] for points in (X, Z))
    truth = np.array([run.objective for run in unseen])
    for name, surrogate in surrogates.items():
        data = replace(case, calibrated=case.calibrated and not name.endswith(STATED)).data(X, runs)
        posterior = surrogate.fit(data, np.random.default_rng([seed, n]), None, no_report)
        with torch.no_grad():
            mean, variance = posterior.mean_var(torch.tensor(Z))
        error = np.abs(posterior.scaling.to_physical(mean.numpy()) - truth)
        sd = posterior.scaling.sd * np.sqrt(variance.numpy())
        found[name] = float(np.sqrt(np.mean(error**2))), float(np.mean(error < 2 * sd))
    return found


def measured(case: Case, seeds: int, fits: int, limit: int, told: Callable[[str], None]) -> dict[str, object]:
    """All figures of one case."""
    useless, stated = "useless" in case.name, case.name in ("chips", "cantilever", "bracket", "tidal")
    methods = ["emulated"] if useless or case.name == "tidal" else ["emulated", "sobol start", "outputs alone"]
    methods += ["gp_ei"] if useless or stated else []
    found: dict[str, object] = {"case": case.name, "target": case.target}
    for method in methods:
        runs = [until_good(case, METHODS[method], seed, limit) for seed in range(MORE.get(case.name, 1) * seeds)]
        found[method] = runs if useless else [{key: run[key] for key in ("runs", "best", "seconds")} for run in runs]
        told(f"{case.name:22} {method:14} runs {', '.join(str(run['runs'] or '-') for run in runs)}")
    learners: dict[str, Surrogate] = {"emulated_field": EmulatedField(), "emulated_gp": EmulatedGP()}
    if useless or case.name == "tidal":
        del learners["emulated_field"]
    if isinstance(case.emulated, Chips) and not useless:
        learners["emulated_field" + STATED] = EmulatedField()
    if stated:
        learners["exact_gp"] = ExactGP()
    for n in (6, 12, 30):
        every = [foreseen(case, learners, n, seed) for seed in range(fits)]
        for name in learners:
            errors, held = (list(each) for each in zip(*(of[name] for of in every), strict=True))
            found[f"{name} of {n}"] = {"error": errors, "held": held}
            share, doubt = np.mean(held), np.std(held, ddof=1) / np.sqrt(fits)
            told(f"{case.name:22} {name:29} {n} results: error {np.median(errors):.3g}, held {share:.2f} ({doubt:.2f})")
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--case", action="append", help="measure this case alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    asked = [case for case in cases() if options.case is None or case.name in options.case]
    sizes = options.seeds, options.fits, options.limit
    found = [measured(case, *sizes, lambda text: print(text, flush=True)) for case in asked]
    if options.json:
        stored = json.loads(options.json.read_text())["cases"] if options.case and options.json.exists() else []
        new = {row["case"] for row in found}
        rows = [row for row in stored if row["case"] not in new] + found
        told = dict(zip(("seeds", "fits", "limit"), sizes, strict=True))
        options.json.write_text(json.dumps({**told, "cases": rows}))


if __name__ == "__main__":
    main()
