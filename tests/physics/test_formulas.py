"""The formula problems against their truth: optima to the printed digits, equations, and spreads by Monte Carlo."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.physics.operators import Jet, residual
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.bumpy import Bumpy
from fieldcraft.physics.problems.cosine_mixture import CosineMixture
from fieldcraft.physics.problems.dropwave import DropWave
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.ks224 import KS224
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.michalewicz import Michalewicz
from fieldcraft.physics.problems.multimodal import Multimodal
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.rosenbrock import Rosenbrock
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang
from fieldcraft.physics.problems.yarn import Yarn

PROBLEMS = [
    Ackley(),
    Ackley(dimension=2, low=-32.0, high=16.0),
    Bumpy(),
    CosineMixture(),
    DropWave(),
    Hartmann(),
    Hartmann(dimension=3),
    Levy(),
    Levy(dimension=1),
    Michalewicz(),
    Michalewicz(dimension=30),
    Multimodal(),
    Rastrigin(),
    StyblinskiTang(),
]
SUMS = [StyblinskiTang, Rastrigin, Michalewicz, CosineMixture]


def uniform(problem, n, seed=0):
    return np.random.default_rng(seed).uniform(*problem.interval, (n, problem.dimension))


@pytest.mark.parametrize(
    ("problem", "value", "digits"),
    [
        (Ackley(), 0.0, 12),
        (DropWave(), -1.0, 12),
        (Levy(), 0.0, 12),
        (Hartmann(), -3.322368011, 9),
        (Hartmann(dimension=3), -3.862779787, 9),
        (StyblinskiTang(), -391.661657, 6),
        (Rastrigin(), 0.0, 12),
        (Michalewicz(dimension=2), -1.801303410, 9),
        (Michalewicz(dimension=5), -4.687658179, 9),
        (Michalewicz(), -9.660151716, 9),
        (Michalewicz(dimension=30), -29.630883850, 9),
        (CosineMixture(), -3.150610109, 9),
        (Bumpy(), -16.5321947211, 10),
        (Multimodal(), -1.899599349, 9),
        (Rosenbrock(), 0.0, 12),
        (KS224(), -304.0, 12),
    ],
)
def test_the_minimum_is_the_published_one(problem, value, digits):
    best = problem.optimum("minimize")
    assert best.value == pytest.approx(value, abs=0.51 * 10.0**-digits)
    assert problem.function(best.design)["value"] == pytest.approx(best.value, abs=1e-12)


@pytest.mark.parametrize(
    ("problem", "place", "tolerance"),
    [
        (StyblinskiTang(), -2.90353402777, 1e-11),
        (Rastrigin(), 0.0, 1e-12),
        (CosineMixture(), 0.184872823183, 1e-12),
        (Levy(), 1.0, 1e-12),
        (Ackley(), 0.0, 1e-12),
        (Multimodal(), 5.1457352902, 1e-10),
        (KS224(), 4.0, 1e-12),
    ],
)
def test_the_minimum_lies_where_it_is_published_to_lie(problem, place, tolerance):
    found = np.array(list(problem.optimum("minimize").design.values()))
    assert len(found) == problem.dimension
    np.testing.assert_allclose(np.abs(found), abs(place), rtol=0, atol=tolerance)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize(("sense", "sign"), [("minimize", 1.0), ("maximize", -1.0)])
def test_nothing_near_a_known_optimum_is_better(problem, sense, sign):
    best = problem.optimum(sense)
    if best is None:
        assert sense == "maximize"
        return
    place = np.array(list(best.design.values()))
    reach = 10.0 ** np.random.default_rng(0).uniform(-6, -1, (2000, 1))
    around = place + reach * (uniform(problem, 2000) - uniform(problem, 2000, seed=1))
    inside = np.clip(around, *problem.interval)
    assert np.min(sign * problem.exact(inside)) >= sign * best.value - 1e-12


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_the_stated_spread_is_that_of_uniform_points(problem):
    values = problem.exact(uniform(problem, 100_000, seed=3))
    assert problem.sd == pytest.approx(values.std(), rel=0.012)


@pytest.mark.parametrize(("problem", "floor"), [(Bumpy(), -16.5321947211), (Multimodal(), -1.8995993491)])
def test_a_fine_grid_of_one_variable_goes_no_deeper_than_the_minimum(problem, floor):
    grid = problem.exact(np.linspace(*problem.interval, 400_001)[:, None])
    assert floor - 1e-10 <= grid.min() < floor + 1e-6


@pytest.mark.parametrize("problem", [Rosenbrock(), KS224()], ids=repr)
def test_a_cut_or_oblong_space_holds_nothing_better_and_has_the_stated_spread(problem):
    designs = problem.space.decode(problem.space.sample(40_000, np.random.default_rng(5)))
    values = problem.exact(np.array([list(design.values()) for design in designs]))
    assert values.min() >= problem.optimum("minimize").value
    assert problem.sd == pytest.approx(values.std(), rel=0.02)


def test_no_blend_of_a_fine_grid_beats_the_best_yarn_or_falls_below_the_worst():
    problem, n = Yarn(), 456  # steps of 1/456 hold both optima's shares but one
    first, second = np.divmod(np.arange((n + 1) ** 2), n + 1)
    kept = first + second <= n
    shares = np.stack([first, second, n - first - second], axis=1)[kept] / n
    values = problem.exact(shares)
    best, worst = problem.optimum("maximize"), problem.optimum("minimize")
    assert best.value - 1e-12 <= values.max() <= best.value + 1e-12
    assert worst.value - 1e-12 <= values.min() <= worst.value + 1e-4
    assert problem.sd == pytest.approx(values.std(), rel=0.01)
    for known in (best, worst):
        assert problem.function(known.design)["elongation"] == pytest.approx(known.value, abs=1e-12)
        assert sum(known.design.values()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("problem", "sd"),
    [
        (DropWave(), 0.1503),
        (StyblinskiTang(), 101.2),
        (Rastrigin(), 44.86),
        (Michalewicz(dimension=30), 1.2358),
        (CosineMixture(), 2.117),
    ],
)
def test_the_stated_spread_is_near_the_published_estimate(problem, sd):
    assert problem.sd == pytest.approx(sd, rel=0.02)


def exact_jet(problem, points):
    """Value and gradient by automatic differentiation of the terms, with a Hessian that must not be read."""
    x = torch.tensor(points, requires_grad=True)
    value = sum(problem.term(i, x[:, i - 1]) for i in range(1, problem.dimension + 1))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    hessian = torch.full((*x.shape, x.shape[1]), torch.nan, dtype=x.dtype)
    return Jet(value.detach(), gradient, hessian)


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("dimension", [1, 4, 30])
def test_an_oracles_equation_holds_exactly_and_is_marked(kind, dimension):
    problem = kind(oracle=True, dimension=dimension)
    points = uniform(problem, 200, seed=1)
    jet = exact_jet(problem, points)
    found = residual(problem.equation, torch.tensor(points), jet)
    size = 1 + jet.gradient.abs().sum(dim=1)
    assert torch.max(torch.abs(found) / size) < 1e-13
    assert problem.oracle and problem.domain.names == problem.space.names
    np.testing.assert_allclose(
        problem.equation.source(points), problem.equation.source(torch.tensor(points)).numpy(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("kind", SUMS)
def test_what_only_an_oracle_could_know_is_left_out_by_default(kind):
    assert not kind().oracle and kind().equation is None and kind().domain is None


def test_the_drop_wave_is_the_same_all_around_and_says_so_without_an_oracle():
    problem = DropWave()
    x = torch.tensor(uniform(problem, 200), requires_grad=True)
    r = x.square().sum(dim=1).sqrt()
    value = -(1 + torch.cos(12 * r)) / (r**2 / 2 + 2)
    np.testing.assert_allclose(problem.exact(x.detach().numpy()), value.detach().numpy(), rtol=1e-12)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    jet = Jet(value.detach(), gradient, torch.full((200, 2, 2), torch.nan))
    found = residual(problem.equation, x.detach(), jet)
    assert torch.max(torch.abs(found)) < 1e-12 < 1 < torch.max(torch.abs(gradient))
    assert not problem.oracle


def test_michalewicz_has_no_known_place_but_the_first_is_the_published_one():
    best = Michalewicz(dimension=2).optimum("minimize").design
    assert best == {"x1": pytest.approx(2.20290552, abs=1e-8), "x2": pytest.approx(math.pi / 2, abs=1e-12)}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Rastrigin(dimension=0), "The problem Rastrigin has the dimension 0: give at least 1 variable"),
        (
            lambda: Levy(dimension=1001),
            "has the dimension 1001: nothing is learnt in so many variables; give at most 1000",
        ),
        (lambda: Ackley(low=2.0, high=1.0), r"The problem Ackley has the bounds \[2.0, 1.0\]: give the lower first"),
        (lambda: Ackley(dimension=-1), "Ackley has the dimension -1"),
        (lambda: Hartmann(dimension=4), "Hartmann's function of 4 variables is not known: choose 3 or 6"),
    ],
)
def test_an_impossible_formula_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_box_without_the_hole_has_no_known_minimum():
    assert Ackley(low=1.0, high=3.0).optimum("minimize") is None
