"""Sums of functions of one variable that solve an equation, and processes that are the difference to them."""

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.equations.functionals import Functionals
from fieldcraft.models.equations.residuals import linear_rows
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.scoring.incumbent import likely_best
from fieldcraft.models.solutions.separable import lowest, separable_sum
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, poisson
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang
from fieldcraft.physics.space import Continuous, SearchSpace

D = 5
KERNEL = PhysicsInformed("kernel")
CENTER, HALF = np.linspace(-2.0, 3.0, D), np.linspace(0.5, 2.0, D)
NOTHING = ((0.0,) * D,) * D
BOWED = tuple(tuple(float(i == j) * (1 + i) + 0.3 * (abs(i - j) == 1) for j in range(D)) for i in range(D))
EVEN = tuple(tuple(float(i == j) for j in range(D)) for i in range(D))
SLOPES = (1.0, -2.0, 0.5, 3.0, 1.5)
# Zeroth, first and second coefficients: transport, growth, diffusion, drift with diffusion, waves, screening, of some
# variables alone, and of no derivative.
OPERATORS = [
    (0.0, SLOPES, NOTHING),
    (2.0, SLOPES, NOTHING),
    (0.0, (0.0,) * D, BOWED),
    (0.0, SLOPES, BOWED),
    (30.0, (0.0,) * D, EVEN),
    (-9.0, SLOPES, EVEN),
    (0.0, (1.0, 0.0, 2.0, 0.0, 1.0), NOTHING),
    (-3.0, (1.0, 0.0, 2.0, 0.0, 1.0), NOTHING),
]


def source(points):
    """A sum over the first, third and fifth variable."""
    x, _, z, _, u = points.T
    return np.sin(2 * x) + np.exp(-((z - 0.5) ** 2)) + u**3 + 0.7


def observed(equation, function, n=12, places=40, seed=0, **given):
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (places, D))
    physics = Physics(equation, CENTER + HALF * Z, CENTER, HALF)
    return Observations(X, function(CENTER + HALF * X), **{"maximize": False, "physics": physics, **given})


def found(data):
    return separable_sum(data.physics, data.scaling, linear_rows(data.physics, data.scaling, data.physics.points))


def anything(points):
    return np.cos(points.sum(axis=1)) + points[:, 0] + 3.0


def fitted(surrogate, data):
    return surrogate.fit(data, np.random.default_rng(0), None, no_report)


def read(problem, X):
    return problem.exact(np.array([list(design.values()) for design in problem.space.decode(X)]))


def told(problem, X, y, places=64, **given):
    """Observations of a problem at encoded X (n, d), with its equation at random places."""
    low, high = np.array(problem.interval).reshape(2, 1) * np.ones(X.shape[1])
    Z = np.random.default_rng(5).uniform(-1, 1, (places, X.shape[1]))
    center, half = (low + high) / 2, (high - low) / 2
    return Observations(
        X, y, maximize=False, physics=Physics(problem.equation, center + half * Z, center, half), **given
    )


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("operator", OPERATORS, ids=range(len(OPERATORS)))
def test_the_sum_solves_the_equation_everywhere(operator, maximize):
    """By automatic differentiation of its series, and of the function itself, at other places than the equation's."""
    data = observed(LinearEquation(*operator, right=source), anything, maximize=maximize)
    solution, other = found(data), np.random.default_rng(8).uniform(-1, 1, (30, D))
    (row,) = linear_rows(data.physics, data.scaling, CENTER + HALF * other)
    at = Functionals(*(torch.from_numpy(np.array(each)) for each in (other, *(vars(row.blocks[0]).values()))))
    size = np.abs(row.source).max()
    assert np.abs(solution.image(at).numpy() - row.source).max() <= 1e-6 * size
    x = torch.from_numpy(other)
    slopes = torch.func.vmap(torch.func.grad(lambda z: solution(z[None])[0]))(x)
    first = torch.zeros(len(x)).double()
    summed = solution.image(Functionals(x, first, torch.ones_like(x)))
    # The function's cubics have the slopes of its series to 1e-4.
    assert (summed - slopes.sum(1)).abs().max() <= 1e-4 * slopes.abs().max()


def test_the_sum_is_the_least_of_all():
    """f = sum_i f_i of a transport: what differs is a slope on which the equation says nothing, and f's mean."""
    b = np.array(SLOPES)

    def truth(p):
        return np.sin(2 * p).sum(axis=1) + p @ np.array([1.0, 0.5, 0.0, 0.0, 0.0])

    equation = LinearEquation(
        0.0, SLOPES, NOTHING, right=lambda p: (2 * np.cos(2 * p)) @ b + b @ [1.0, 0.5, 0.0, 0.0, 0.0]
    )
    data = observed(equation, truth)
    X = np.random.default_rng(1).uniform(-1, 1, (200_000, D))
    p = data.scaling.sd * found(data)(torch.from_numpy(X)).numpy()
    assert abs(p.mean()) < 0.01
    left = truth(CENTER + HALF * X) - p
    (*slope, _), residuals, *_ = np.linalg.lstsq(np.column_stack([HALF * X, np.ones(len(X))]), left)
    assert residuals[0] < 1e-10 * len(X) and abs(slope @ b) < 1e-6
    # No such slope makes it smaller.
    for trial in np.eye(D) - np.outer(b, b) / (b @ b):
        assert abs(np.cov(p, HALF * X @ trial)[0, 1]) < 0.02 * p.std() * (HALF * X @ trial).std()
        for step in (-0.05, 0.05):
            assert (p + step * (HALF * X @ trial)).var() > p.var() - 0.01 * p.var()


@pytest.mark.parametrize(
    "equation",
    [
        LinearEquation(0.0, SLOPES, NOTHING),
        LinearEquation(2.0, SLOPES, NOTHING),
        LinearEquation(2.0, SLOPES, NOTHING, right=6.0),
        LinearEquation(0.0, SLOPES, NOTHING, right=lambda p: p[:, 0] * p[:, 1]),
        LinearEquation(0.0, (lambda p: p[:, 1], *SLOPES[1:]), NOTHING, right=source),
        LinearEquation(0.0, (1.0, 0.0, 2.0, 0.0, 0.0), NOTHING, right=source),
        LinearEquation(0.0, SLOPES, NOTHING, right=lambda p: 1 / np.abs(p - CENTER).sum(axis=1)),
        LinearEquation(
            0.0, (0.0,) * D, tuple(tuple(float(i + j == 1) for j in range(D)) for i in range(D)), right=source
        ),
    ],
    ids=[
        "zero",
        "zero with growth",
        "a constant with growth",
        "a product",
        "coefficients that vary",
        "a variable of no derivative",
        "a pole",
        "mixed derivatives",
    ],
)
def test_no_sum_is_found_where_none_or_a_constant_solves_the_equation(equation):
    assert found(observed(equation, anything)) is None


def test_a_rough_source_is_followed():
    """Waves of 300 rad over the half width, whose slopes a cubic between nodes has, too."""
    data = observed(
        LinearEquation(0.0, SLOPES, NOTHING, right=lambda p: np.cos(300 * (p[:, 0] - CENTER[0]) / HALF[0])), anything
    )
    X = np.random.default_rng(1).uniform(-1, 1, (500, D))
    expected = np.sin(300 * X[:, 0]) / 300 * HALF[0] / data.scaling.sd
    p = found(data)(torch.from_numpy(X)).numpy()
    slope = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), p - expected)[0]
    assert np.abs(p - expected - np.column_stack([X, np.ones(len(X))]) @ slope).max() < 1e-3 * np.abs(expected).max()


def test_the_lowest_combination_of_valleys_is_that_of_all_combinations():
    problem = StyblinskiTang(dimension=4, oracle=True)
    X = problem.space.sample(20, np.random.default_rng(0))
    data = told(problem, X, read(problem, X))
    solution = found(data)
    assert [len(each) for each in solution.valleys] == [4, 4, 4, 4]  # two minima, and the ends
    places = torch.cartesian_prod(*solution.valleys)
    best = places[solution(places).argmin()]
    for start in (torch.ones(4).double(), torch.tensor([0.3, -0.2, 0.9, 0.0]).double()):
        assert torch.equal(lowest(solution, start, solution.valleys), best)
    # To half the distance of two nodes.
    assert np.abs(problem.space.decode(best.numpy()[None])[0]["x1"] + 2.9035) < 0.06


def test_no_move_of_one_variable_lowers_what_is_no_sum():
    valleys = [torch.tensor([-1.0, 1.0]).double()] * 3

    def function(X):
        return (X.sum(1) - 0.9).abs() + 0.1 * X[:, 2]

    end = lowest(function, torch.tensor([-1.0, -1.0, -1.0]).double(), valleys)
    around = end.repeat(3, 1) - 2 * torch.diag(end)
    assert function(end[None]) == pytest.approx(0.0) and torch.all(function(around) > function(end[None]))


def test_results_and_equation_together_are_the_process_of_the_difference():
    """Mean, draws, fantasies and predictions of single results, against a plain process of shifted results."""
    problem = StyblinskiTang(dimension=4, oracle=True)
    X = problem.space.sample(15, np.random.default_rng(0))
    data = told(problem, X, read(problem, X) + 5 * np.sin(3 * X.sum(axis=1)))
    posterior, solution = fitted(KERNEL, data), found(data)
    assert "solution" in posterior.remarks
    Z = torch.from_numpy(problem.space.sample(50, np.random.default_rng(1)))
    mean, variance = posterior.mean_var(Z)
    cross = posterior.process.values(Z, posterior.rows)
    targets = torch.cat([torch.zeros(64).double(), torch.from_numpy(data.targets) - solution(torch.from_numpy(X))])
    assert torch.allclose(mean, solution(Z) + cross.mT @ posterior.factor.solve(targets), atol=1e-8)
    more = posterior.fantasize(Z[:3])
    assert torch.allclose(more.mean_var(Z)[0], mean, atol=1e-8) and torch.all(more.mean_var(Z)[1] <= variance + 1e-10)
    for beliefs in (posterior, more):
        draws = torch.stack([each(Z) for each in beliefs.draw(400, np.random.default_rng(2))])
        assert torch.all((draws.mean(0) - mean).abs() < 5 * (beliefs.mean_var(Z)[1] / 400).sqrt() + 1e-3)
    inner = problem.space.sample(1, np.random.default_rng(3))
    z = torch.tensor(inner, requires_grad=True)
    (slope,) = torch.autograd.grad(posterior.mean_var(z)[0].sum(), z)
    step = 1e-6 * np.eye(4)
    ends = [posterior.mean_var(torch.tensor(inner + side * step))[0] for side in (1, -1)]
    assert torch.allclose((ends[0] - ends[1]) / 2e-6, slope[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "surrogate", [KERNEL, Auto(candidates=("physics_informed/kernel", "exact_gp"))], ids=["kernel", "auto"]
)
def test_it_is_restored_bit_for_bit(surrogate):
    problem = Rastrigin(dimension=4, oracle=True)
    X = problem.space.sample(12, np.random.default_rng(0))
    data = told(problem, X, read(problem, X), space=problem.space)
    posterior = fitted(surrogate, data)
    again = surrogate.restore(data, posterior.state())
    Z = torch.from_numpy(problem.space.sample(20, np.random.default_rng(1)))
    assert "solution" in posterior.remarks and again.remarks == posterior.remarks
    assert all(torch.equal(one, other) for one, other in zip(again.mean_var(Z), posterior.mean_var(Z), strict=True))
    assert torch.equal(likely_best(again), likely_best(posterior))


def test_a_state_from_before_there_were_such_sums_is_restored_without_one():
    problem = Rastrigin(dimension=4, oracle=True)
    X = problem.space.sample(12, np.random.default_rng(0))
    data = told(problem, X, read(problem, X))
    model, _ = KERNEL._engine().models(data, data.physics)
    plain = model.fitted(None)
    again = KERNEL.restore(data, plain.state())
    Z = torch.from_numpy(problem.space.sample(20, np.random.default_rng(1)))
    assert again.remarks == plain.remarks and likely_best(again) is None
    assert torch.equal(again.mean_var(Z)[0], plain.mean_var(Z)[0])


def test_a_solution_that_is_far_from_every_sum_is_learnt_without_one():
    """f = (sum x)^2 / 2 solves sum_i f_i = d sum x, and so does the sum of d x_i^2 / 2, which is far larger."""
    d = 10
    rng = np.random.default_rng(0)
    X, places = (rng.uniform(-1, 1, (n, d)) for n in (40, 128))
    equation = LinearEquation(0.0, (1.0,) * d, ((0.0,) * d,) * d, right=lambda p: d * p.sum(axis=1))
    data = Observations(
        X, X.sum(axis=1) ** 2 / 2, maximize=False, physics=Physics(equation, places, np.zeros(d), np.ones(d))
    )
    assert KERNEL._engine().models(data, data.physics)[1] is not None
    assert "solution" not in fitted(KERNEL, data).remarks


@pytest.mark.parametrize("seed", range(3))
def test_a_drift_with_waves_across_it_is_foretold_far_better(seed):
    d = 10
    rng = np.random.default_rng(seed)
    b, middle, w = rng.normal(size=d), rng.uniform(-0.5, 0.5, d), rng.normal(size=d)
    across = w - b * (b @ w) / (b @ b)
    X, Z, places = (rng.uniform(-1, 1, (n, d)) for n in (40, 300, 128))

    def function(p):
        return np.sin(3 * (p - middle)).sum(axis=1) + 2 * np.cos(2 * p @ across / np.linalg.norm(across))

    equation = LinearEquation(0.0, tuple(b), ((0.0,) * d,) * d, right=lambda p: (3 * np.cos(3 * (p - middle))) @ b)
    truth = function(Z)
    y = function(X) + 0.05 * truth.std() * rng.normal(size=len(X))
    data = Observations(X, y, maximize=False, physics=Physics(equation, places, np.zeros(d), np.ones(d)))
    posterior, plain = fitted(KERNEL, data), KERNEL._engine().models(data, data.physics)[0].fitted(None)
    errors = []
    for each in (posterior, plain):
        with torch.no_grad():
            mean = data.scaling.to_physical(each.mean_var(torch.from_numpy(Z))[0].numpy())
        errors.append(np.sqrt(np.mean((mean - truth) ** 2)) / truth.std())
    assert "solution" in posterior.remarks and errors[0] < 0.6 * errors[1]


def test_in_few_variables_and_with_a_mask_no_sum_is_sought():
    """The places of an equation lie close there."""
    rng = np.random.default_rng(0)
    for d, masked in ((3, False), (4, True)):
        X, places = rng.uniform(-1, 1, (8, d)), rng.uniform(-1, 1, (20, d))
        physics = Physics(poisson(d, lambda p: np.sin(p).sum(axis=1)), places, np.zeros(d), np.ones(d), masked=masked)
        data = Observations(X, X.sum(axis=1), maximize=False, physics=physics)
        assert KERNEL._engine().models(data, physics)[1] is None


def test_results_without_noise_are_met():
    problem = StyblinskiTang(dimension=4, oracle=True)
    X = problem.space.sample(10, np.random.default_rng(0))
    data = told(problem, X, read(problem, X), noise_sd=0.0)
    posterior = fitted(KERNEL, data)
    with torch.no_grad():
        mean = data.scaling.to_physical(posterior.mean_var(torch.from_numpy(X))[0].numpy())
    assert np.abs(mean - data.y).max() < 1e-2 * data.y.std()


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_of_many_valleys_is_proposed_at_once(seed):
    """Rastrigin's function of ten variables has 11^10 minima."""
    problem = Rastrigin(dimension=10, oracle=True)
    X = problem.space.sample(24, np.random.default_rng(seed))
    y = read(problem, X)
    y = y + 0.05 * y.std() * np.random.default_rng(50 + seed).normal(size=len(y))
    data = told(problem, X, y, space=problem.space)
    rng = np.random.default_rng(seed)
    for surrogate in (KERNEL, Auto(candidates=("physics_informed/kernel", "exact_gp"))):
        posterior = fitted(surrogate, data)
        score = LogEI().score(posterior, data, torch.empty(0, 10), 1, rng)
        x = Multistart().maximize(score, problem.space, 1, rng).X
        assert read(problem, x)[0] < 0.5


def test_suggested_points_count_among_the_samples():
    class Needle:
        """Zero but within 1e-4 of a point that it suggests."""

        suggested = torch.tensor([[0.123, -0.456]]).double()

        def value(self, X, slot, chosen):
            return (1 - (X - self.suggested).norm(dim=1) / 1e-4).clamp_min(0.0)

    space = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
    best = Multistart(n_samples=64, n_starts=4).maximize(Needle(), space, 1, np.random.default_rng(0))
    assert best.value[0] > 0.999
