"""A simulation's field beside the emulator's, and the picture of both."""

import numpy as np
import pytest
import yaml
from matplotlib.image import imread
from small import finish

from fieldcraft.flows.analysis.emulated_fields import beside
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.plot import draw
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.open_ledger import open_ledger

PLATE = {"x1": 40.0, "y1": 30.0, "x2": 95.0, "y2": 60.0}


def test_a_simulation_is_compared_at_the_centres_of_the_coarse_cells():
    fields = HeatedPlateFindiff(96).run(Chips(), PLATE, np.random.default_rng(0))
    twice = beside(Chips(), PLATE, fields)
    assert twice.emulated.shape == twice.simulated.shape == (24, 16)
    assert (twice.name, twice.unit, twice.units) == ("temperature", "degC", {"x": "mm", "y": "mm"})
    x, y = twice.axes["x"], twice.axes["y"]
    exact = Chips().temperature(PLATE).on(x, y)
    np.testing.assert_allclose(twice.simulated, exact, atol=0.2)
    np.testing.assert_allclose(twice.emulated, exact, atol=0.6)
    turned = beside(Chips(), PLATE, fields.transpose("y", "x"))
    np.testing.assert_allclose(turned.simulated, twice.simulated, rtol=1e-12)


def test_the_first_stated_field_that_was_simulated_is_taken_and_there_may_be_none():
    bar = dict.fromkeys(CantileverProfile().space.names, 20.0)
    fields = StatedEquation(40).run(CantileverProfile(), bar, np.random.default_rng(0))
    assert beside(CantileverProfile(), bar, fields).name == "deflection"
    assert beside(CantileverProfile(), bar, fields.drop_vars("deflection")).name == "moment"
    assert beside(CantileverProfile(), bar, fields.mean("x")) is None
    assert beside(Branin(), {"x1": 0.0, "x2": 0.0}, fields) is None


@pytest.mark.parametrize(
    ("problem", "simulator", "wide", "high"),
    [
        ("chips", {"kind": "chips", "cells": 24}, 11.0, 8.8),
        ("cantilever_profile", {"kind": "stated_equation", "cells": 40}, 11.0, 4.4),
    ],
)
def test_the_picture_has_the_field_of_the_best_trial_twice(problem, simulator, wide, high, tmp_path):
    data = {
        "name": "small",
        "seed": 1,
        "sense": "minimize",
        "problem": {"kind": problem},
        "simulator": simulator,
        "algorithm": {"kind": "sobol"},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 2},
    }
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(data))
    finish(file, tmp_path / "home")
    settings = settings_from({}, tmp_path / "home")
    ledger = open_ledger(settings.ledger)
    draw(settings, ledger, ledger.campaign("small"), tmp_path / "small.png")
    height, width, _ = imread(tmp_path / "small.png").shape
    assert (width, height) == (round(130 * wide), round(130 * high))
