"""Searches on the planes of equalities: sequences, maximizers, proofs, neighbours, and scores that look at a space."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_certified import process, score_of, values

from fieldcraft.models.acquisitions.jes import JES
from fieldcraft.models.acquisitions.knowledge_gradient import KnowledgeGradient
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.mes import MES
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.certified.box_region import Region
from fieldcraft.models.certified.branch_and_bound import _Front, _State
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, is_feasible, sobol_points, take, uniform_points
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Integer,
    LinearConstraint,
    LinearEquality,
    QuadraticConstraint,
    SearchSpace,
)

NAMES = ("x0", "x1", "x2")
SHARES = tuple(Continuous(name, 0.0, 1.0) for name in NAMES)
WHOLE = LinearEquality(dict.fromkeys(NAMES, 1.0), 1.0)
BLEND = SearchSpace(SHARES, (WHOLE,))
COUNTS = SearchSpace(
    (Integer("n", 0, 6), Integer("m", 0, 5), Integer("k", 0, 8), Categorical("gas", ("N2", "Ar"))),
    (LinearEquality({"n": 2.0, "m": 1.0, "k": 1.0}, 9.0),),
)
NONE = np.empty((0, 3))


def triangle(n):
    """All blends of three shares in steps of 1/n, encoded."""
    shares = [(i, j, n - i - j) for i, j in itertools.product(range(n + 1), repeat=2) if i + j <= n]
    return 2 * np.array(shares) / n - 1


def on_plane(space, X):
    E, e = space.equalities
    return np.abs(X @ E.T - e).max()


def test_sobol_points_of_a_mixture_integrate_as_dirichlets_law_far_closer_than_random_ones():
    errors = [
        [
            np.mean(np.prod((take(points(BLEND, np.random.default_rng(seed)), 256)[:, :2] + 1) / 2, axis=1)) - 1 / 12
            for seed in range(10)
        ]
        for points in (sobol_points, uniform_points)
    ]
    sobol, random = (math.sqrt(np.mean(np.square(error))) for error in errors)
    assert sobol < random / 10
    # E[x0 x1] = 1/12, and the variance of x0 x1 is 4/360 - 1/144.
    assert random == pytest.approx(math.sqrt((4 / 360 - 1 / 144) / 256), rel=0.6)


def test_every_point_of_a_discrete_space_is_one_that_makes_up_the_total():
    X = every_point(COUNTS, 1000)
    designs = COUNTS.decode(X)
    expected = {
        (n, m, 9 - 2 * n - m, gas)
        for n in range(7)
        for m in range(6)
        for gas in ("N2", "Ar")
        if 0 <= 9 - 2 * n - m <= 8
    }
    assert {tuple(design.values()) for design in designs} == expected and len(designs) == len(expected)
    assert is_feasible(COUNTS, X).all() and not is_feasible(COUNTS, X + np.eye(5)[0] / 3).any()


def test_whole_numbers_of_a_total_are_exchanged_in_the_ratio_of_their_coefficients():
    (x,) = COUNTS.encode([{"n": 2, "m": 2, "k": 3, "gas": "N2"}])
    found = {tuple(design.values()) for design in COUNTS.decode(neighbours(COUNTS, x))}
    assert found == {
        (2, 2, 3, "Ar"),
        (3, 0, 3, "N2"), (1, 4, 3, "N2"),
        (3, 2, 1, "N2"), (1, 2, 5, "N2"), (0, 2, 7, "N2"),
        (2, 3, 2, "N2"), (2, 4, 1, "N2"), (2, 1, 4, "N2"), (2, 0, 5, "N2"),
    }  # fmt: skip


class Peak:
    """Minus the squared distance to a point."""

    def __init__(self, *centre):
        self.centre = torch.tensor(centre, dtype=torch.float64)

    def value(self, X, slot, chosen):
        return -(X - self.centre).square().sum(dim=1)


@pytest.mark.parametrize(
    ("constraints", "best"),
    [
        ((), (0.65, 0.35, 0.0)),
        ((LinearConstraint({"x0": 1.0}, 0.5),), (0.5, 0.5, 0.0)),
        ((LinearConstraint({"x2": -1.0}, -0.3),), (0.5, 0.2, 0.3)),
        ((QuadraticConstraint({("x0", "x0"): 1.0}, {}, 0.36),), (0.6, 0.4, 0.0)),
    ],
    ids=["alone", "above", "below", "curved"],
)
def test_gradients_move_in_the_plane_to_the_nearest_point_of_what_is_left(constraints, best):
    space, peak = SearchSpace(SHARES, (WHOLE, *constraints)), Peak(*(2 * np.array([0.9, 0.6, 0.1]) - 1))
    found = Multistart(n_samples=32, n_starts=4).maximize(peak, space, 1, np.random.default_rng(0))
    grid = triangle(300)
    assert found.value[0] >= values(peak, grid[is_feasible(space, grid)]).max() - 1e-9
    np.testing.assert_allclose((found.X[0] + 1) / 2, best, atol=1e-6)
    assert on_plane(space, found.X) <= 1e-12


def test_a_search_over_whole_numbers_that_make_up_a_total_finds_the_best_of_all():
    space = SearchSpace(
        tuple(Integer(name, 0, 60) for name in "abc"), (LinearEquality(dict.fromkeys("abc", 1.0), 60.0),)
    )
    target = space.encode([{"a": 31, "b": 17, "c": 12}])[0]
    found = Multistart(n_samples=16, n_starts=2).maximize(Peak(*target), space, 3, np.random.default_rng(1))
    assert space.decode(found.X)[0] == {"a": 31, "b": 17, "c": 12}
    assert len(np.unique(found.X, axis=0)) == 3 and on_plane(space, found.X) <= 1e-12


@pytest.mark.parametrize("acquisition", [UCB(), LogEI()], ids=["ucb", "log_ei"])
@pytest.mark.parametrize(
    "constraints",
    [
        (),
        (LinearConstraint({"x0": 1.0, "x1": -1.0}, -0.2),),
        (QuadraticConstraint({("x0", "x0"): -1.0, ("x1", "x1"): -1.0}, {"x0": 0.8, "x1": 0.8}, 0.24),),
    ],
    ids=["alone", "inequality", "hole"],
)
def test_a_certificate_of_a_mixture_closes_on_the_optimum_of_a_dense_grid(constraints, acquisition):
    space = SearchSpace(SHARES, (WHOLE, *constraints))
    made = process(3, 20, 0.4, X=BLEND.sample(20, np.random.default_rng(3)), seed=1)
    score, grid = score_of(made, acquisition), triangle(300)
    worth = values(score, grid[is_feasible(space, grid)])
    found = Certified().maximize(score, space, 1, np.random.default_rng(0))
    (proof,) = found.certificates
    assert proof.status == "optimal" and proof.nodes < 2_000 and proof.gap <= 0.01
    assert worth.max() <= proof.bound and proof.value >= worth.max() - 0.01
    assert on_plane(space, found.X) <= 1e-12
    space.check(space.decode(found.X)[0])


def test_a_proof_does_not_need_a_good_start_for_points_of_boxes_are_moved_onto_the_planes():
    made = process(3, 20, 0.4, X=BLEND.sample(20, np.random.default_rng(3)), seed=1)
    score = score_of(made, UCB())
    poor = Certified(n_samples=1, n_starts=1).maximize(score, BLEND, 1, np.random.default_rng(0))
    assert poor.certificates[0].status == "optimal"
    assert poor.value[0] >= values(score, triangle(300)).max() - 0.01


def test_halving_loses_no_point_of_a_plane_and_leaves_little_else():
    region = Region.of(BLEND, torch.ones(3, dtype=torch.float64), NONE)
    X = torch.tensor(BLEND.sample(1000, np.random.default_rng(0)))
    lower, upper = region.roots
    for _ in range(10):
        (lower, upper), _ = region.halves(lower, upper)
    assert ((X[:, None] >= lower - 1e-12) & (X[:, None] <= upper + 1e-12)).all(-1).any(1).all()
    # Boxes of side s that meet a plane of area A number about A / s^2.
    side = float((upper - lower).amax(1).median())
    assert len(lower) < 8 * 2 * math.sqrt(3) / side**2
    centres = region.centres(lower, upper)
    assert on_plane(BLEND, centres.numpy()) <= 1e-12


def test_a_design_that_whole_numbers_determine_is_one_box_and_not_halved_for_ever():
    # Where m = 5, x and y are 0: a single design, at which the score is best.
    space = SearchSpace(
        (Integer("m", 0, 5), Continuous("x", 0.0, 2.0), Continuous("y", 0.0, 2.0)),
        (LinearEquality({"m": 1.0, "x": 2.0, "y": 1.0}, 5.0),),
    )
    made = process(3, 12, 0.5, X=space.sample(12, np.random.default_rng(2)), seed=3)
    found = Certified(n_samples=1, n_starts=1).maximize(score_of(made, UCB()), space, 3, np.random.default_rng(0))
    samples = values(score_of(made, UCB()), space.sample(2000, np.random.default_rng(1)))
    assert all(proof.status == "optimal" and proof.nodes < 2_000 for proof in found.certificates)
    assert found.value[0] >= samples.max() - 0.01


def test_what_rounding_leaves_of_a_design_is_neither_passed_over_nor_halved():
    space = SearchSpace(
        (Integer("m", 0, 5), Continuous("x", 0.0, 2.0), Continuous("y", 0.0, 2.0)),
        (LinearEquality({"m": 1.0, "x": 2.0, "y": 1.0}, 5.0),),
    )
    lower = torch.tensor([[1.0, -1.0, -1.0]], dtype=torch.float64)
    upper, score = lower + torch.tensor([[0.0, 4e-12, 8e-12]]), torch.ones(1, dtype=torch.float64)
    scales = torch.ones(3, dtype=torch.float64)
    region = Region.of(space, scales, NONE)
    # The middle of the box is brought onto the plane just beyond a bound.
    assert float((region.centres(lower, upper) + 1).min()) < 0
    found = region.best_centre(lower, upper, score, 0.0)
    assert torch.allclose(found, lower[0], atol=1e-10)
    state, left = _State(lower[0], 0.0, -math.inf, 1).without_points(_Front(lower, upper, score))
    assert len(left.ceiling) == 0 and state.dropped == 1.0
    taken = Region.of(space, scales, lower.numpy())
    assert region._cut(lower, upper)[2].tolist() == [True] and taken._cut(lower, upper)[2].tolist() == [False]


@pytest.mark.parametrize("space", [BLEND, COUNTS], ids=["shares", "counts"])
def test_the_program_has_the_equality_as_a_row_and_its_bound_is_that_of_enumeration(space):
    X = triangle(120) if space is BLEND else every_point(space, 1000)
    made = process(space.dimension, 5, 0.7, X=space.sample(5, np.random.default_rng(4)), seed=2)
    score = score_of(made, UCB(beta="growing"))
    found = PKMIQP(time_s=None, form="q", tolerance=None).maximize(score, space, 1, np.random.default_rng(0))
    (proof,) = found.certificates
    p = PiecewiseProcess.of(made, score.optimism, space.bounds, form="q", tolerance=None)
    best = p.value(X).max()
    around = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    if space is BLEND:
        assert p.value(around).max() > best + 0.05  # else the plane was nothing to keep to
    assert proof.status == "optimal" and best - 1e-4 <= proof.bound <= max(best + 0.03, proof.value)
    assert proof.value >= values(score, X).max() - 1e-3
    space.check(space.decode(found.X)[0])


@pytest.fixture(scope="module")
def learnt():
    X = BLEND.sample(8, np.random.default_rng(4))
    y = ((X - (2 * np.array([0.5, 0.3, 0.2]) - 1)) ** 2).sum(axis=1)
    data = Observations(X, y, maximize=False, noise_sd=0.05, columns=BLEND.columns, space=BLEND)
    return data, ExactGP(noise="known", restarts=0).fit(data, np.random.default_rng(5), None, no_report)


def at(score, X):
    with torch.no_grad():
        return score.value(torch.as_tensor(X), 0, torch.empty(0, 3, dtype=torch.float64)).numpy()


def test_the_knowledge_gradient_is_the_expected_fall_of_the_least_mean_on_the_plane(learnt):
    data, posterior = learnt
    nothing = torch.empty(0, 3, dtype=torch.float64)
    x, grid = torch.tensor([[0.1, -0.5, -0.6]], dtype=torch.float64), torch.tensor(triangle(120))
    with torch.no_grad():
        mean, _ = posterior.mean_var(grid)
        here, explained = (posterior.factor.half_solve(posterior.kernel(posterior.fit.X, at)) for at in (x, grid))
        shift = (posterior.kernel(x, grid) - here.mT @ explained)[0]
        sd = float((posterior.mean_var(x)[1] + posterior.noise_variance).sqrt())
        z = torch.special.ndtri((torch.arange(400, dtype=torch.float64) + 0.5) / 400)
        expected = float(mean.min() - (mean[:, None] + shift[:, None] / sd * z).amin(0).mean())
    wide = KnowledgeGradient(n_points=2048, n_readings=400)
    found = at(wide.score(posterior, data, nothing, 1, np.random.default_rng(0)), x)[0]
    assert expected > 1e-4 and found == pytest.approx(expected, rel=0.05)
    boxed = at(wide.score(posterior, replace(data, space=None), nothing, 1, np.random.default_rng(0)), x)[0]
    assert abs(boxed / expected - 1) > 0.1  # decisions off the plane promise what no design can keep


@pytest.mark.parametrize("acquisition", [MES(), JES(n_samples=4)], ids=["mes", "jes"])
def test_entropy_searches_ask_of_the_plane_alone(acquisition, learnt):
    data, posterior = learnt
    nothing = torch.empty(0, 3, dtype=torch.float64)
    here, everywhere = (
        acquisition.score(posterior, each, nothing, 1, np.random.default_rng(0))
        for each in (data, replace(data, space=None))
    )
    X = BLEND.sample(50, np.random.default_rng(7))
    assert np.isfinite(at(here, X)).all() and not np.allclose(at(here, X), at(everywhere, X), rtol=0.02)


def test_a_joint_draw_on_a_plane_has_the_posteriors_variance_there(learnt):
    data, _ = learnt
    drawn = ExactGP(noise="known", restarts=0, draw="joint", n_skeleton=64)
    posterior = drawn.fit(data, np.random.default_rng(5), None, no_report)
    X = torch.tensor(BLEND.sample(40, np.random.default_rng(8)))
    with torch.no_grad():
        draws = torch.stack([draw(X) for draw in posterior.draw(1000, np.random.default_rng(9))])
        _, variance = posterior.mean_var(X)
    # A sample variance of 1000 has a relative standard error of sqrt(2 / 999); off the plane, 64 points explain 0.8.
    ratio = float(draws.var(0).sum() / variance.sum())
    assert ratio == pytest.approx(1.0, abs=3 * math.sqrt(2 / 999))
