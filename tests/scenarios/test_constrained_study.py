"""A study of a problem with constraints, by the command: what it says is what the formula says of the designs tried."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm_start

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.physics.problems.simionescu import Simionescu
from fieldcraft.storage.open_ledger import open_ledger

ROOT = Path(__file__).resolve().parents[2]
STUDY = """\
name: flower
seeds: 1
problems:
  - {problem: {kind: simionescu}, sense: minimize, noise: {of_sd: 0.5}, start: {n: 3}, budget: {trials: 5}}
algorithms: [{kind: random}, {kind: sobol}]
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, prefect_api: dict[str, str]) -> Path:
    """Folder of the study, which the command has run."""
    place = tmp_path_factory.mktemp("constrained")
    (place / "flower.yaml").write_text(STUDY)
    words = ["compare", str(place / "flower.yaml"), "--out", str(place / "out"), "--parallel", "1", "--json"]
    ours = {**os.environ, "PYTHONPATH": str(ROOT), "FIELDCRAFT_MLFLOW": "off", **prefect_api}
    done = warm_start.run(["-m", "fieldcraft.flows.cli", *words, "--home", str(place / "home")], ours, 180)
    assert done.returncode == 0, done.stderr
    return place / "out"


def test_the_metrics_are_those_of_the_formula_without_noise_at_the_designs_tried(out):
    problem = json.loads((out / "study.json").read_text())["problems"][0]
    violation_spread = problem["spreads"][1]
    assert (problem["constraints"], problem["spreads"][0], problem["optimum"]) == (["c1"], 0.0521, -0.072)
    for row in problem["rows"]:
        points = np.array([list(trial["design"].values()) for trial in result(out, row["algorithm"])["trials"]])
        regret = np.maximum(0.1 * points[:, 0] * points[:, 1] + 0.072, 0)
        edge = 1 + 0.2 * np.cos(8 * np.arctan2(points[:, 1], points[:, 0]))
        excess = np.maximum((points**2).sum(axis=1) - edge**2, 0)
        least = np.minimum.accumulate(regret / 0.0521 + excess / violation_spread)
        assert row["curve"]["mean"] == pytest.approx(np.log10(least))
        metrics = row["constrained"]["metrics"]
        assert metrics["cumulative_regret"]["mean"] == pytest.approx(regret.sum())
        assert metrics["cumulative_violation"]["curve"]["mean"] == pytest.approx(np.cumsum(excess) / violation_spread)
        assert row["constrained"]["feasible_trials"] == (excess == 0).sum() > 0
        assert metrics["feasible_regret"]["mean"] == pytest.approx(regret[excess == 0].min())
    assert "Log10 regret + violation by trials on simionescu" in (out / "study.html").read_text()


def test_where_only_simulations_know_the_outputs_the_stored_ones_stand_for_the_formula(out):
    known = result(out, "random")
    settings = settings_from({}, out / "cells" / known["cell"])
    ledger = open_ledger(settings.ledger)
    campaign = rewire(ledger.campaign(known["cell"]).spec, settings)
    of = measured(replace(campaign, problem=_Unknown()), ledger)
    assert of["spreads"] is None and known["spreads"] is not None
    for told, before in zip(of["trials"], known["trials"], strict=True):
        assert told["outputs"] == pytest.approx(before["outputs"], rel=1e-12)
        assert told["reading"] == before["reading"] != before["outputs"][0], "a result is noisy, and of feasible ones"


def result(out: Path, algorithm: str) -> dict[str, Any]:
    """What the campaign of an algorithm found."""
    return json.loads((out / "cells" / f"simionescu-{algorithm}-1" / "result.json").read_text())


class _Unknown(Simionescu):
    """Simionescu's function, of which nothing is known but what simulations say."""

    def exact(self, points):
        return None

    def optimum(self, sense):
        return None

    def function(self, design):
        return Simionescu().function(design)
