"""Tests of the problem and of its simulator, against what can be written down: ``pytest test_rod.py``."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "mine"))
from problems.rod import Rod
from simulators.rod import RodSolver


def test_without_heating_the_temperature_is_linear():
    field = RodSolver(cells=50).run(Rod(), {"place": 0.5, "power": 0.0}, np.random.default_rng(0))
    assert field["temperature"].values == pytest.approx(20.0 + 40.0 * field["x"].values, abs=1e-9)


def test_without_heating_the_inner_rod_has_three_fifths_of_the_walls_difference():
    design = {"place": 0.5, "power": 0.0}
    field = RodSolver(cells=50).run(Rod(), design, np.random.default_rng(0))
    assert Rod().evaluate(design, field)["unevenness"] == pytest.approx(24.0, abs=1e-9)
