"""How a run ends: the best design, and its regret where the truth is known."""

from pathlib import Path

import numpy as np
import pytest
from bench import Bench, bench
from test_views import campaign, complete, propose, run

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.outcome import Ran
from fieldcraft.flows.views.summary import summary_data, summary_text

KILN = """\
from dataclasses import dataclass

from fieldcraft.physics.problem import Optimum, Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, SearchSpace


@dataclass(frozen=True)
class Kiln(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("T", 900.0, 1500.0, "K"), Categorical("gas", ("N2", "Ar"))))

    @property
    def outputs(self):
        return (Output("strength", "MPa"),)

    def optimum(self, sense):
        return Optimum({"T": 1200.0, "gas": "Ar"}, 60.0) if sense == "maximize" else None
"""
KILN_CAMPAIGN = """\
name: kiln
seed: 5
sense: maximize
problem: {kind: kiln}
algorithm:
  start: {n: 1}
dispatcher: {kind: lab}
budget: {trials: 1}
"""


def test_a_design_with_a_level_has_a_regret_by_its_reading_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    at = kiln(tmp_path, monkeypatch)
    assert at.make_pass().sent == 1
    assert at.run("record", "kiln-0001", "--value", "strength=51")[0] == 0
    summed = summary_data(Ran("kiln", "budget", True, 1.0), at.settings)
    assert summed["regret"] == {"value": 9.0, "true": 51.0, "optimum": 60.0, "noise_free": False}
    assert "regret    9 MPa: 51 MPa there, the true optimum is 60 MPa" in summary_text(summed, at.file)
    status, _, error = at.run("report", "kiln", "--html", tmp_path / "kiln.html")
    assert (status, error) == (0, "")


def kiln(folder: Path, patch: pytest.MonkeyPatch) -> Bench:
    made = bench(folder, KILN_CAMPAIGN, patch)
    (folder / "plugins" / "problems" / "kiln.py").write_text(KILN)
    return made


def test_the_regret_and_the_best_design_are_of_what_was_really_run(tmp_path: Path):
    ledger, _ = campaign(tmp_path)
    (trial,) = propose(ledger)
    place = {"x1": float(np.pi), "x2": 2.275}
    done = complete(ledger, run(ledger, trial), 5.0, ran=place)
    summed = summary_data(Ran("small", "budget", True, 1.0), settings_from({}, home=tmp_path))
    assert summed["best"]["design"] == place
    assert summed["best"]["at"] == "x1 3.14159 mm, x2 2.275"
    assert summed["regret"]["value"] == pytest.approx(0.0, abs=1e-6), "that place is an optimum of Branin"
    assert done.design != done.actual
