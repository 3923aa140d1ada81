"""Evidence for a stated equation in fields that another program simulated, and in fields that can be written down."""

import numpy as np
import pytest

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.evidence import imbalance
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff

DECAY = ParametricEquation(
    domain=Domain((Axis("x", 0.0, 2 * np.pi), Axis("t", 0.0, 1.0))),
    fields=(Field("u"),),
    equation=lambda design: LinearEquation(design["loss"], (0.0, 1.0), ((-1.0, 0.0), (0.0, 0.0))),
    conditions=(Condition("u", "t", "low", lambda points: np.sin(points[:, 0])),),
    cells=(16, 8),
    periodic=("x",),
    time="t",
)


def of_sine(cells, loss):
    """What exp(-3 t) sin x leaves of u_t + loss u = u_xx, which it solves for a loss of 2."""
    points = Grid(DECAY.domain, cells).points
    u = np.exp(-3 * points[:, 1]) * np.sin(points[:, 0])
    return imbalance(DECAY, {"loss": loss}, {"u": u.reshape(cells)})[0]


def test_a_solution_in_time_leaves_the_truncation_error_and_a_wrong_coefficient_its_share():
    coarse, fine = of_sine((16, 8), 2.0), of_sine((32, 16), 2.0)
    assert coarse / fine == pytest.approx(4, rel=0.1) and fine < 0.01
    assert of_sine((128, 64), 2.6) == pytest.approx(0.2, rel=0.02)  # 0.6 u of the largest term, 3 u


@pytest.mark.parametrize(("exchange", "conductance", "left"), [(1, 1, 0.0), (1, 0.8, 0.18), (0.7, 1, 0.09)])
def test_the_plate_of_another_program_speaks_for_its_own_coefficients(exchange, conductance, left):
    chips = Chips()
    design = {"x1": 35.0, "y1": 30.0, "x2": 90.0, "y2": 50.0}
    simulated = HeatedPlateFindiff(cells=96).run(chips, design, np.random.default_rng(0))["temperature"].values
    stated = chips.parametric.calibrated((exchange * chips.exchange, conductance * chips.conductance))
    assert imbalance(stated, design, {"temperature": simulated})[0] == pytest.approx(left, abs=0.01)


def test_fields_of_two_cells_along_an_axis_are_refused():
    with pytest.raises(ValueError, match="16 x 2 cells, too few along t"):
        of_sine((16, 2), 2.0)
