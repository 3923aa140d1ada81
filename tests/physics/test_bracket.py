"""The L-shaped bracket against a balance of heat of its own, cell by cell."""

import numpy as np
import pytest
from scipy.sparse import lil_matrix
from scipy.sparse.linalg import spsolve

from fieldcraft.physics.parametric.evidence import imbalance
from fieldcraft.physics.problems.bracket import Bracket
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.physics.tangents import gradient

PROBLEM = Bracket()
DESIGN = {"x1": 56.31, "y1": 33.68, "x2": 34.3, "y2": 101.69}
ASIDE = {"x1": 30.0, "y1": 20.0, "x2": 20.0, "y2": 80.0}


def simulated(design, cells):
    return StatedEquation(cells).run(PROBLEM, design, np.random.default_rng(0))


def balanced(design, n):
    """Temperatures (n, n) for which the heat of every cell is balanced, each pair of cells and the frame in turn."""
    h = 120.0 / n
    centres = h * (np.arange(n) + 0.5)
    numbers = np.full((n, n), -1)
    inside = (centres[:, None] < 60) | (centres[None] < 60)
    numbers[inside] = np.arange(inside.sum())
    matrix, heat = lil_matrix((inside.sum(), inside.sum())), np.zeros(inside.sum())
    gauss = h / (2 * np.sqrt(3))
    for (i, j), k in np.ndenumerate(numbers):
        if k < 0:
            continue
        matrix[k, k] += 50.0 * h**2 * 1e-6
        heat[k] += 50.0 * 25.0 * h**2 * 1e-6
        for power, x, y in ((20.0, design["x1"], design["y1"]), (12.0, design["x2"], design["y2"])):
            for dx in (-gauss, gauss):
                for dy in (-gauss, gauss):
                    squares = (centres[i] + dx - x) ** 2 + (centres[j] + dy - y) ** 2
                    heat[k] += power / (2 * np.pi * 36.0) * np.exp(-squares / 72.0) * h**2 / 4
        for a, b in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            if 0 <= a < n and 0 <= b < n and numbers[a, b] >= 0:
                matrix[k, k] += 0.4
                matrix[k, numbers[a, b]] -= 0.4
            elif (a, b) == (i + 1, j) and a < n:  # half a cell in series with the contact to the frame, per mm of it
                passes = 1e-3 * h / (1e-3 * (h / 2) / 0.4 + 1 / 1.0)
                matrix[k, k] += passes
                heat[k] += passes * 80.0
    found = np.full((n, n), np.nan)
    found[inside] = spsolve(matrix.tocsr(), heat)
    return found


def test_the_bracket_keeps_the_balance_of_heat_of_every_cell():
    np.testing.assert_allclose(simulated(ASIDE, 24)["temperature"].values, balanced(ASIDE, 24), rtol=1e-9)


def test_the_listed_design_reads_the_listed_temperature_and_its_neighbours_more():
    best = PROBLEM.optimum("minimize")
    assert PROBLEM.evaluate(DESIGN, simulated(DESIGN, 120))["max_temperature"] == pytest.approx(best.value, abs=1e-4)
    assert best.design == DESIGN and PROBLEM.optimum("maximize") is None
    rng = np.random.default_rng(0)
    around = {name: value + rng.uniform(-8, 3, (40, 1)) for name, value in DESIGN.items()}
    assert PROBLEM.on_grid(around, (60, 60)).min() > best.value - 0.02


def test_the_coarse_grid_tells_good_designs_from_bad_ones():
    (_, *rows) = PROBLEM.space.sample(21, np.random.default_rng(1))
    designs = {name: np.array([[float(d[name])] for d in PROBLEM.space.decode(np.array(rows))]) for name in DESIGN}
    coarse, fine = PROBLEM.emulate(designs)[:, 0], PROBLEM.on_grid(designs, (96, 96))[:, 0]
    assert np.abs(coarse - fine).max() < 0.5 < fine.std() / 4


def test_what_a_simulated_field_leaves_of_the_equation_falls_with_the_mesh():
    left = []
    for cells in (40, 80):
        fine = simulated(ASIDE, 4 * cells)["temperature"].values
        means = fine.reshape(cells, 4, cells, 4).mean(axis=(1, 3))
        left.append(imbalance(PROBLEM.parametric, ASIDE, {"temperature": means})[0])
    assert left[0] / left[1] > 2 and left[1] < 0.02
    wrong = PROBLEM.parametric.calibrated([80.0])
    assert imbalance(wrong, ASIDE, {"temperature": means})[0] > 5 * left[1]


def test_the_gradient_is_that_of_differences():
    cells, step = (24, 24), 1e-3
    found = gradient(PROBLEM, PROBLEM.parametric, ASIDE, cells)
    for name, value in ASIDE.items():
        moved = {**{k: np.full((2, 1), v) for k, v in ASIDE.items()}, name: np.array([[value + step], [value - step]])}
        fields = PROBLEM.functional(_fields(moved, cells), {}, moved)[:, 0]
        assert found[name] == pytest.approx((fields[0] - fields[1]) / (2 * step), rel=1e-4, abs=1e-6)


def _fields(designs, cells):
    from fieldcraft.physics.parametric.finite_differences import solved

    return solved(PROBLEM.parametric, designs, cells)
