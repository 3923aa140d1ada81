"""Known quadratic constraints on the way from samples to certified optima, against grids and closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
from test_certified import ACQUISITIONS, box, certified, process, score_of, some_boxes, values, within

from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.certified.box_region import Region
from fieldcraft.models.certified.curved_cuts import CurvedCuts
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess
from fieldcraft.models.certified.posterior_bounds import Process, ScoreBounds
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, is_feasible, sobol_points, take
from fieldcraft.models.proposers.random import Random
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.proposers.uncertainty import Uncertainty
from fieldcraft.physics.geometry.quadrics import Quadrics
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Integer,
    LinearConstraint,
    QuadraticConstraint,
    SearchSpace,
)

INSIDE, OUTSIDE = 1.0, -1.0
GROWING = UCB(beta="growing")


def disc(centre, radius, side):
    """The disc about an encoded centre, or what lies outside of it, in the unit box of as many coordinates."""
    middle = [(c + 1) / 2 for c in centre]
    names = [f"x{i}" for i in range(len(centre))]
    squares = {(name, name): side for name in names}
    linear = {name: -2 * side * m for name, m in zip(names, middle, strict=True)}
    return QuadraticConstraint(squares, linear, side * ((radius / 2) ** 2 - sum(m * m for m in middle)))


def grid(dimension, n):
    return np.array(list(itertools.product(np.linspace(-1, 1, n), repeat=dimension)))


def some_quadrics(rng, dimension):
    """One without products of two coordinates, one with them and one that is convex."""
    Q = rng.normal(size=(3, dimension, dimension))
    Q += Q.swapaxes(1, 2)
    Q[0] *= np.eye(dimension)
    Q[2] = Q[2] @ Q[2]
    return Quadrics.scaled(Q, rng.normal(size=(3, dimension)), 0.3 * rng.normal(size=3))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_no_point_of_a_box_is_below_its_bound_or_outside_its_half_spaces(dimension):
    rng = np.random.default_rng(dimension)
    quadrics = some_quadrics(rng, dimension)
    cuts = CurvedCuts.of(quadrics, torch.device("cpu"))
    lower, upper = some_boxes(rng.uniform(-1, 1, (50, dimension)), 1000, rng)
    X = within(lower, upper, 64, rng)
    excess = cuts.excess(X.reshape(-1, dimension)).reshape(1000, 64, 3)
    allowance = quadrics.excess(X[0].numpy()) - excess[0].numpy()
    assert (allowance > 0).all() and (allowance < 1e-7).all()
    least = cuts.least(lower, upper)
    assert (least.unsqueeze(1) <= excess + 1e-12).all()
    normals, offsets = cuts.half_spaces(lower, upper)
    beyond = torch.einsum("bcd,bnd->bnc", normals, X) - offsets.unsqueeze(1)
    assert (beyond[excess <= 0] <= 1e-12).all()
    # Neither is for nothing: of boxes without a feasible sample most are excluded, and what is cut is cut closely.
    empty = (excess > 0.01).all(1)
    assert (least > 0)[empty].double().mean() > 0.9
    small = ((upper - lower).amax(1) < 0.05).reshape(-1, 1, 1).expand_as(excess)
    torch.testing.assert_close(beyond[small], excess[small], atol=2e-3 * dimension, rtol=0)


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_half_spaces_of_their_own_lower_the_ceilings_of_boxes_and_no_allowed_sample_is_above(acquisition):
    rng, made = np.random.default_rng(3), process(2, 30, 0.3)
    core, score = Process.of(made, "cpu"), score_of(made, acquisition)
    cuts = CurvedCuts.of(some_quadrics(rng, 2), torch.device("cpu"))
    lower, upper = some_boxes(made.fit.X.numpy(), 400, rng)
    X = within(lower, upper, 200, rng)
    allowed = (cuts.excess(X.reshape(-1, 2)) <= 0).all(1).reshape(400, 200)
    with torch.no_grad():
        found = score.worth(*core.moments(X.reshape(-1, 2))).reshape(400, 200)
    bounds, half_spaces = ScoreBounds(core, score), cuts.half_spaces(lower, upper)
    free = bounds.bounds(lower, upper, half_spaces[0][0, :0], half_spaces[1][0, :0]).ceiling
    cut = bounds.bounds(lower, upper, *half_spaces).ceiling
    assert (torch.where(allowed, found, -torch.inf).amax(1) <= cut).all()
    assert (cut <= free + 1e-9 * (1 + free.abs())).all() and (cut < free - 0.01).sum() > 20


CASES = {
    "disc": lambda best: (disc((0.1, -0.2), 0.5, INSIDE),),
    "hole": lambda best: (disc(best, 0.5, OUTSIDE),),
    "ellipse": lambda best: (
        QuadraticConstraint(
            {("x0", "x0"): 1.0, ("x0", "x1"): 1.5, ("x1", "x1"): 1.0}, {"x0": -1.75, "x1": -1.75}, -0.8
        ),
    ),
    "cut disc": lambda best: (disc((0.1, -0.2), 0.5, INSIDE), LinearConstraint({"x0": 1.0, "x1": 1.0}, 0.9)),
}


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_certified_optimum_is_feasible_and_that_of_a_dense_grid(case, acquisition):
    score, everywhere = score_of(process(2, 20, 0.3, seed=1), acquisition), grid(2, 201)
    worth = values(score, everywhere)
    space = SearchSpace(box(2).variables, case(everywhere[worth.argmax()]))
    inside = is_feasible(space, everywhere)
    found = certified(score, space)
    space.check(space.decode(found.X)[0])
    (proof,) = found.certificates
    assert proof.status == "optimal" and proof.nodes < 1000
    assert proof.bound >= worth[inside].max() and proof.value >= worth[inside].max() - 0.01
    assert proof.bound < worth.max() - 0.05  # else nothing was kept to


def test_halving_loses_no_point_of_a_region_with_holes_and_integers_and_leaves_little_else():
    space = SearchSpace(
        (Continuous("x0", 0.0, 1.0), Continuous("x1", 0.0, 1.0), Integer("n", 1, 6), Categorical("gas", ("N2", "Ar"))),
        (disc((0.0, 0.3), 0.5, OUTSIDE), QuadraticConstraint({("x0", "n"): 1.0, ("x1", "x1"): 2.0}, {}, 2.5)),
    )
    region = Region.of(space, torch.ones(5, dtype=torch.float64), np.empty((0, 5)))
    X = torch.tensor(space.sample(1000, np.random.default_rng(0)))
    lower, upper = region.roots
    for _ in range(13):
        (lower, upper), _ = region.halves(lower, upper)
    held = ((X[:, None] >= lower - 1e-9) & (X[:, None] <= upper + 1e-9)).all(-1)
    assert held.any(1).all()
    # The allowed share of the plane, summed over six integers and two levels, against the area of the boxes.
    share = is_feasible(space, space._snapped(space._uniform(20_000, np.random.default_rng(1)))).mean()
    area = float((upper - lower)[:, :2].prod(1).sum())
    assert share <= area / 4 / 12 <= 1.15 * share


def test_a_centre_in_a_hole_is_not_a_candidate():
    space = SearchSpace(box(2).variables, (disc((0.5, 0.5), 0.2, OUTSIDE),))
    region = Region.of(space, torch.ones(2, dtype=torch.float64), np.empty((0, 2)))
    centres = torch.tensor([[0.5, 0.5], [0.5, 0.31], [0.5, 0.29]], dtype=torch.float64)
    found = region.best_centre(centres - 0.01, centres + 0.01, torch.tensor([3.0, 2.0, 1.0]), 0.0)
    assert found.tolist() == pytest.approx([0.5, 0.29])


@pytest.mark.parametrize("side", [INSIDE, OUTSIDE])
@pytest.mark.parametrize(("dimension", "form"), [(1, "r"), (2, "q")])
def test_the_program_keeps_the_constraint_and_its_bound_is_that_of_a_dense_grid(dimension, form, side):
    made, everywhere = process(dimension, 5, 0.3, seed=3), grid(dimension, 4001 if dimension == 1 else 201)
    score = score_of(made, GROWING)
    p = PiecewiseProcess.of(made, score.optimism, box(dimension).bounds, form=form, tolerance=0.025)
    approximate = p.value(everywhere)
    best = everywhere[approximate.argmax()]
    centre = best if side == OUTSIDE else np.where(best > 0, best - 0.6, best + 0.6)
    space = SearchSpace(box(dimension).variables, (disc(centre, 0.3, side),))
    inside = is_feasible(space, everywhere)
    found = PKMIQP(time_s=None, form=form).maximize(score, space, 1, np.random.default_rng(0))
    (proof,) = found.certificates
    space.check(space.decode(found.X)[0])
    best = approximate[inside].max()
    assert proof.status == "optimal" and best + 0.05 < approximate.max()
    assert best - 1e-4 <= proof.bound <= max(best + 0.03, proof.value)
    assert proof.value >= values(score, everywhere[inside]).max() - 1e-6


class Paraboloid:
    """Minus the squared distance to a point, in which the second coordinate counts four times."""

    def __init__(self, *centre):
        self.centre = torch.tensor(centre, dtype=torch.float64)

    def value(self, X, slot, chosen):
        return -((X - self.centre).square() * torch.tensor([1.0, 4.0])).sum(dim=1)


ANGLE, ALONG = np.linspace(-math.pi, math.pi, 1_000_001), np.linspace(0.5, 2.0, 1_000_001)
CIRCLE = 0.5 * np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=1)
# Encoded (u + 1)(v + 1) = 1.
HYPERBOLA = np.stack([ALONG - 1, 1 / ALONG - 1], axis=1)


@pytest.mark.parametrize(
    ("constraint", "boundary", "target"),
    [
        (disc((0.0, 0.0), 0.5, INSIDE), CIRCLE, (0.9, 1.2)),
        (disc((0.0, 0.0), 0.5, OUTSIDE), CIRCLE, (0.15, -0.2)),
        (QuadraticConstraint({("x0", "x1"): 1.0}, {}, 0.25), HYPERBOLA, (0.2, 1.0)),
    ],
    ids=["disc", "hole", "hyperbola"],
)
def test_the_search_by_gradients_ends_on_the_boundary_where_the_optimum_is(constraint, boundary, target):
    space, score = SearchSpace(box(2).variables, (constraint,)), Paraboloid(*target)
    found = Multistart(n_samples=64, n_starts=6).maximize(score, space, 1, np.random.default_rng(0))
    best = boundary[values(score, boundary).argmax()]
    np.testing.assert_allclose(found.X[0], best, atol=2e-5)
    assert found.value[0] >= values(score, boundary).max() - 1e-9
    assert abs(space.quadratic.excess(found.X)[0, 0]) < 1e-9
    space.check(space.decode(found.X)[0])


def test_a_batch_of_three_under_a_constraint_of_mixed_variables_is_feasible_and_different():
    space = SearchSpace(
        (Continuous("t", 0.0, 10.0), Integer("n", 0, 4)), (QuadraticConstraint({("t", "n"): 1.0}, {}, 12.0),)
    )

    class Product:
        def value(self, X, slot, chosen):
            return 5 * (X[:, 0] + 1) + 6 * (X[:, 1] + 1)  # t + 3 n

    found = Multistart(n_samples=256).maximize(Product(), space, 3, np.random.default_rng(0))
    best, *others = space.decode(found.X)
    # t + 3 n where t n <= 12: 15 at (3, 4), 13 at (10, 1) and (4, 3).
    assert best["n"] == 4 and best["t"] == pytest.approx(3.0, abs=1e-7)
    for design in (best, *others):
        space.check(design)
    assert len(np.unique(found.X, axis=0)) == 3


RING = SearchSpace(
    (*box(2).variables, Integer("n", 1, 3)), (disc((0.0, 0.0), 0.55, OUTSIDE), disc((0.0, 0.0), 0.95, INSIDE))
)


@pytest.mark.parametrize(
    "proposer", [Sobol(), Random(), Uncertainty(candidates=64)], ids=["sobol", "random", "uncert."]
)
def test_proposers_leave_out_what_violates_a_constraint(proposer):
    X = proposer.propose(RING, 0, 128, np.random.default_rng(1))
    for design in RING.decode(X):
        RING.check(design)
    assert (RING.quadratic.excess(X) < -1e-6).all()  # left out, and not pushed onto the boundary
    angles = np.histogram(np.arctan2(X[:, 1], X[:, 0]), bins=4, range=(-math.pi, math.pi))[0]
    assert angles.min() > 15 and set(X[:, 2]) == {-1.0, 0.0, 1.0}
    assert np.linalg.norm(X[:, :2], axis=1).mean() == pytest.approx(0.77, abs=0.1)


def test_a_space_too_thin_for_a_sequence_still_gives_points_of_it():
    thin = SearchSpace(box(2).variables, (disc((0.0, 0.0), 0.5, OUTSIDE), disc((0.0, 0.0), 0.5001, INSIDE)))
    X = take(sobol_points(thin, np.random.default_rng(2)), 300)
    assert is_feasible(thin, X).all() and len(np.unique(X, axis=0)) == 300
    for design in thin.decode(X):
        thin.check(design)


def test_every_point_of_a_small_discrete_space_is_one_that_meets_the_constraint():
    space = SearchSpace((Integer("n", -3, 3), Integer("m", -3, 3)), (QuadraticConstraint({("n", "m"): 1.0}, {}, -2.0),))
    found = sorted((design["n"], design["m"]) for design in space.decode(every_point(space, 49)))
    assert found == [(n, m) for n in range(-3, 4) for m in range(-3, 4) if n * m <= -2]


def test_a_neighbour_that_violates_a_constraint_comes_back_into_the_space():
    space = SearchSpace(
        (Continuous("t", 0.0, 10.0), Integer("n", 0, 4)), (QuadraticConstraint({("t", "n"): 1.0}, {}, 12.0),)
    )
    found = space.decode(neighbours(space, space.encode([{"t": 4.0, "n": 3}])[0]))
    for design in found:
        space.check(design)
    (up,) = [design for design in found if design["n"] == 4]
    assert up["t"] == pytest.approx(3.0, abs=1e-7)
