"""The benchmark of what a trial costs beside its simulation: ours and a rival, each measured and set side by side."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_the_steps_of_a_trial_are_all_that_it_costs_and_a_rival_stands_beside_it(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    overhead = importlib.import_module("overhead")
    names = ("fieldcraft, passes, inline", "Optuna, RDB storage")
    figures = overhead.measured(2, 1, {name: overhead.WAYS[name] for name in names})
    ours, rival = (figures["ways"][name] for name in names)
    assert {"harvest", "dispatch", "decide", "acquire", "approve", "notices"} <= set(ours["parts"])
    assert sum(ours["parts"].values()) == pytest.approx(ours["wall"], rel=1e-6)
    assert 0 < ours["cpu"] <= ours["wall"] and 0 < rival["cpu"] <= rival["wall"] and figures["flush"] > 0
    shown = overhead.table(figures).splitlines()
    assert shown[1].endswith("1.00x            1.00x")
    assert float(shown[2].split()[-1].rstrip("x")) == pytest.approx(rival["cpu"] / ours["cpu"], abs=0.01)
