"""What the papers print and what does not hold, number by number; ``studies/claims/papers.yaml`` names each test."""

import numpy as np
import pytest

from fieldcraft.physics.problems.beam import Beam
from fieldcraft.physics.problems.cosine_mixture import CosineMixture
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.problems.michalewicz import Michalewicz
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.speed_reducer import SpeedReducer

STEP = 1e-6


def slopes(problem, X):
    """Gradients (n, d) by central differences."""
    each = [problem.exact(X + STEP * e) - problem.exact(X - STEP * e) for e in np.eye(X.shape[1])]
    return np.stack(each, axis=1) / (2 * STEP)


def test_rastrigins_equation_holds_with_half_the_derivative_and_not_as_printed():
    problem = Rastrigin(dimension=3)
    X = np.random.default_rng(0).uniform(-5, 5, (50, 3))
    right = 10 * (np.cos(2 * np.pi * X) + np.pi * X * np.sin(2 * np.pi * X) - 1).sum(axis=1)
    along, f = (X * slopes(problem, X)).sum(axis=1), problem.exact(X)
    np.testing.assert_allclose(along / 2 - f, right, atol=1e-5)
    assert np.median(np.abs(along - f - right)) > 10


def test_michalewicz_equation_has_another_factor_than_the_printed_one():
    problem, m, i = Michalewicz(dimension=3), 10, np.arange(1, 4)
    X = np.random.default_rng(0).uniform(0.5, 2.5, (200, 3))
    gradient, f, inner = slopes(problem, X), problem.exact(X), i * X**2 / np.pi

    def residual(factor):
        h = 1 / (1 / np.tan(X) + factor / np.tan(inner))
        return np.abs((h * gradient).sum(axis=1) - f)

    assert np.median(residual(4 * m * i * X / np.pi)) < 1e-9
    assert np.median(residual(2 * X * (2 * m - 1))) > 1e-4


def test_the_cosine_mixtures_equation_states_every_derivative():
    problem = CosineMixture(dimension=4)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    np.testing.assert_allclose(slopes(problem, X), 2 * X - 0.5 * np.pi * np.sin(5 * np.pi * X), atol=1e-7)


def test_the_printed_fourth_edge_of_set_1_is_no_real_number_on_a_third_of_it():
    y = np.linspace(0, 2 * np.pi, 10_001)
    inside = np.exp(y * np.exp(-y)) * np.sin(y) + np.cos(3 * y) ** 2
    assert 0.3 < (inside < 0).mean() < 0.4
    ours = 3 * np.sqrt(np.exp(y * np.exp(-y))) * np.sin(y) + np.cos(3 * y) ** 2
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(Heat(boundary=1).edges["y+"](y), ours, atol=1e-12)


def test_the_printed_labels_of_set_1_are_those_of_the_other_axis():
    edges, at = Heat(boundary=1).edges, np.linspace(0.1, 6.0, 20)
    np.testing.assert_allclose(edges["x-"](at), 5 * np.sin(at) + np.sqrt(1 + at))  # printed as T(x, 0)
    np.testing.assert_allclose(edges["y-"](at), 10 * np.cos(at) + at * np.exp(np.sqrt(at**2 + np.sin(at))))  # T(0, y)


@pytest.mark.parametrize("boundary", [1, 2, 3])
def test_the_hottest_place_is_not_within_the_plate(boundary):
    problem = Heat(boundary=boundary)
    grid = np.linspace(0.1, 2 * np.pi - 0.1, 60)
    T = problem.exact(np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)).reshape(60, 60)
    rim = np.concatenate([T[0], T[-1], T[:, 0], T[:, -1]])
    assert T[1:-1, 1:-1].max() < rim.max() and T[1:-1, 1:-1].min() > rim.min()


def test_the_printed_stiffness_of_the_beam_has_poles():
    x = np.linspace(0.001, 0.999, 20_001)
    a, b = 4 * np.pi * np.exp(2 * x), 20 * x
    rho = (
        2.4 * x - 64 * np.pi**2 * np.exp(4 * x) * np.sin(a) - 396 * np.exp(2 * x) * np.sin(b)
        + 80 * np.exp(2 * x) * np.cos(b) + 16 * np.pi * np.exp(2 * x) * np.cos(a) + 0.4
    )  # fmt: skip
    assert int((np.diff(np.sign(rho)) != 0).sum()) == 26
    w = Beam().exact
    curved = (w(x[:, None] + 1e-4) - 2 * w(x[:, None]) + w(x[:, None] - 1e-4)) / 1e-8
    np.testing.assert_allclose(curved, rho, atol=2e-3 * np.abs(rho).max())


def test_the_ninth_constraint_of_the_speed_reducer_is_never_active_in_its_box():
    space = SpeedReducer().space
    designs = [list(design.values()) for design in space.decode(space.sample(500, np.random.default_rng(0)))]
    ratio = np.array([float(x1) / float(x2) for x1, x2, *_ in designs])
    assert (ratio - 12 < 0).all() and ratio.max() < 5.2


def test_the_printed_ackley_is_not_zero_where_the_published_optimum_is():
    def printed(x1, x2):
        return (
            -20 * np.exp(-0.2 * np.sqrt(0.5 * (x1**2 + x2**2)))
            - np.exp(0.5 * np.cos(2 * np.pi * x1) + np.cos(2 * np.pi * x2)) + 20 + np.e
        )  # fmt: skip

    assert printed(0.0, 0.0) == pytest.approx(np.e - np.exp(1.5))
