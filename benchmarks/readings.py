"""Error of predictions where a laboratory reads the field at a few places, with wrong coefficients stated.

    python benchmarks/readings.py [--seeds 5] [--json FILE]

Chips on 96 x 64 cells, and the emulator's equation on 24 x 16 with the exchange h 30% low, the conductivity k 20% low,
or both. Each of n random designs has its output, and readings at 8 random places with noise of 0.3 K. emulated_gp
learns from the outputs alone, or calibrates h and k by the readings before. The error is that of 300 designs that were
not run, and ``held`` the share within two standard deviations.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from emulated import Case, OtherChips, Run, foreseen

from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.readings import Predicted
from fieldcraft.models.observations import Array, Observations, SparseFields
from fieldcraft.models.snapshots import Calibration
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.physics.parametric.transfer import at_places
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff

PLACES, NOISE = 8, 0.3


class Laboratory(Case):
    """A case whose fields are read at a few places, which calibrate coefficients unless ``calibrated`` is false."""

    def data(self, X: Array, runs: Sequence[Run]) -> Observations:
        """Results of runs, and the readings of their fields."""
        alone = replace(super().data(X, runs), snapshots=None)
        stated, space = self.emulated.parametric, self.truth.space
        if stated is None or not self.calibrated:
            return alone
        rng = np.random.default_rng([5, len(runs)])
        places = tuple(rng.uniform(0, 1, (PLACES, 2)) for _ in runs)
        both = zip(runs, places, strict=True)
        fields = [at_places(run.fields["temperature"][None], at, stated.repeats) for run, at in both]
        values = np.stack(fields) + NOISE * rng.standard_normal((len(runs), 1, PLACES))
        solve = Predicted(self.emulated, stated, space, places).of
        known = Calibration(stated.coefficients, values, solve, solve, noise=np.full_like(values, NOISE))
        told = SparseFields(X, known, lambda found: emulators_of(self.emulated, space, tuple(found)), ("00",) * len(X))
        return replace(alone, readings=told)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    wrong = {"right": OtherChips(), "h 30% low": OtherChips(h=0.7), "k 20% low": OtherChips(k=0.8)}
    for name, problem in {**wrong, "both low": OtherChips(h=0.7, k=0.8)}.items():
        for n in (6, 12):
            row: dict[str, object] = {"case": name, "results": n}
            for what, calibrated in (("outputs alone", False), ("readings", True)):
                case = Laboratory(name, problem, Chips(), HeatedPlateFindiff(96), 0.0, calibrated=calibrated)
                learner = {what: EmulatedGP()}
                pairs = [foreseen(case, learner, n, seed)[what] for seed in range(options.seeds)]
                row[what] = {"error": [error for error, _ in pairs], "held": [held for _, held in pairs]}
                error, held = np.median(pairs, axis=0)
                print(f"{name:10} {n:2} results, {what:14} error {error:.3g} K, held {held:.2f}", flush=True)
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "rows": rows}))


if __name__ == "__main__":
    main()
