"""Known quadratic constraints of a search space: what is feasible, repair, samples, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fieldcraft.physics.constraints import QuadraticConstraint
from fieldcraft.physics.geometry.quadrics import Quadrics
from fieldcraft.physics.space import Categorical, Continuous, Image, Integer, LinearConstraint, SearchSpace, SpaceError

SQUARE = (Continuous("x", 0.0, 4.0, "m"), Continuous("y", -1.0, 1.0, "m"))


def ball(names, radius, inside=True):
    """x1^2 + ... <= radius^2, or its outside."""
    sign = 1.0 if inside else -1.0
    return QuadraticConstraint({(name, name): sign for name in names}, {}, sign * radius**2)


# (x - 2)^2 / 4 + y^2 <= 0.36 is, encoded, a disc of radius 0.6; its outside; x y >= 1; a ring between radii.
DISC = QuadraticConstraint({("x", "x"): 0.25, ("y", "y"): 1.0}, {"x": -1.0}, 0.36 - 1.0)
HOLE = QuadraticConstraint({("x", "x"): -0.25, ("y", "y"): -1.0}, {"x": 1.0}, 1.0 - 0.36)
RING = QuadraticConstraint({("x", "x"): 0.25, ("y", "y"): 1.0}, {"x": -1.0}, 0.362 - 1.0)
SPACES = {
    "disc": SearchSpace(SQUARE, (DISC,)),
    "hole": SearchSpace(SQUARE, (HOLE,)),
    "hyperbola": SearchSpace(SQUARE, (QuadraticConstraint({("x", "y"): -1.0}, {}, -1.0),)),
    "half ring": SearchSpace(SQUARE, (RING, HOLE, LinearConstraint({"x": 0.5, "y": 1.0}, 1.0))),
}
MIXED = SearchSpace(
    (Continuous("x", 0.0, 10.0), Integer("n", 0, 10), Integer("m", -3, 40), Categorical("gas", ("N2", "Ar"))),
    (
        QuadraticConstraint({("x", "x"): 1.0, ("n", "n"): 1.0}, {"m": 0.1}, 20.0),
        QuadraticConstraint({("x", "n"): -1.0}, {}, -4.0),
    ),
)


def check_all(space, X):
    for design in space.decode(X):
        space.check(design)


def test_encoded_constraints_say_the_same_as_the_physical_ones():
    rng = np.random.default_rng(0)
    names = ("x", "n", "m")
    pairs = {pair: float(rng.normal()) for pair in itertools.combinations_with_replacement(names, 2)}
    constraint = QuadraticConstraint(pairs, {"x": 3.0, "m": -2.0}, 500.0)
    space = SearchSpace(MIXED.variables, (constraint,))
    designs = [{"x": rng.uniform(0, 10), "n": int(n), "m": int(n) + 20, "gas": "Ar"} for n in rng.integers(0, 11, 40)]
    X = space.encode(designs)
    physical = [
        sum(q * design[a] * design[b] for (a, b), q in pairs.items()) + 3 * design["x"] - 2 * design["m"] - 500
        for design in designs
    ]
    excess = space.quadratic.excess(X)[:, 0]
    np.testing.assert_allclose(excess * physical[0] / excess[0], physical, rtol=1e-9)
    assert np.sign(excess[0]) == np.sign(physical[0])
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=5)))
    assert 0.3 < np.linalg.norm(space.quadratic.slopes(corners), axis=2).max() <= 1
    for design, value in zip(designs, physical, strict=True):
        if value <= 0:
            space.check(design)
        else:
            with pytest.raises(SpaceError, match="violates"):
                space.check(design)


def test_slopes_are_those_of_the_excess():
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(2, 3, 3))
    quadrics = Quadrics.scaled(Q + Q.swapaxes(1, 2), rng.normal(size=(2, 3)), rng.normal(size=2))
    X, step = rng.uniform(-1, 1, (4, 3)), 1e-6
    for j, e in enumerate(step * np.eye(3)):
        numeric = (quadrics.excess(X + e) - quadrics.excess(X - e)) / (2 * step)
        np.testing.assert_allclose(quadrics.slopes(X)[:, :, j], numeric, atol=1e-9)


def test_the_bound_over_a_box_is_below_every_point_and_exact_without_mixed_products():
    rng = np.random.default_rng(2)
    Q = rng.normal(size=(3, 2, 2))
    Q[0] *= np.eye(2)
    quadrics = Quadrics.scaled(Q + Q.swapaxes(1, 2), rng.normal(size=(3, 2)), rng.normal(size=3))
    middle, half = rng.uniform(-1, 1, (50, 2)), rng.uniform(0, 1, (50, 2))
    share = np.array(list(itertools.product(np.linspace(-1, 1, 81), repeat=2)))
    found = np.array([quadrics.excess(m + share * h).min(axis=0) for m, h in zip(middle, half, strict=True)])
    least = quadrics.least(middle - half, middle + half)
    assert (least <= found + 1e-12).all()
    np.testing.assert_allclose(least[:, 0], found[:, 0], atol=1e-3)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_repair_of_two_coordinates_is_the_nearest_point_of_a_dense_grid(space):
    rng = np.random.default_rng(3)
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 401), repeat=2)))
    feasible = grid[np.all(space.quadratic.excess(grid) <= 0, axis=1)]
    feasible = feasible[np.all(feasible @ space.linear[0].T <= space.linear[1], axis=1)]
    X = np.vstack([np.zeros((1, 2)), rng.uniform(-1, 1, (24, 2))])
    repaired = space.repair(X)
    check_all(space, repaired)
    np.testing.assert_array_equal(space.repair(repaired), repaired)
    best = np.array([np.linalg.norm(feasible - x, axis=1).min() for x in X])
    moved = np.linalg.norm(repaired - X, axis=1)
    assert (moved <= best + 1e-9).all() and (moved > 0).sum() > 5


def test_a_point_outside_a_disc_goes_straight_to_its_edge_and_one_in_a_hole_likewise():
    X = np.array([[1.0, 1.0], [-0.9, 0.0], [0.3, 0.4], [0.1, 0.0]])
    disc, hole = SPACES["disc"].repair(X), SPACES["hole"].repair(X)
    edge = 0.6 * X / np.linalg.norm(X, axis=1)[:, None]
    np.testing.assert_allclose(disc, [edge[0], edge[1], X[2], X[3]], atol=1e-7)
    np.testing.assert_allclose(hole, [X[0], X[1], edge[2], edge[3]], atol=1e-7)


def test_repair_takes_the_nearest_feasible_integers_where_no_continuous_move_suffices():
    starts = [{"x": 9.0, "n": n, "m": m, "gas": "Ar"} for n, m in ((0, 0), (10, 5), (7, 40), (2, 20))]
    for start, found in zip(starts, MIXED.decode(MIXED.repair(MIXED.encode(starts))), strict=True):
        MIXED.check(found)
        cost = [
            abs(n - start["n"]) + abs(m - start["m"])
            for n, m in itertools.product(range(1, 11), range(-3, 41))
            if (4 / n) ** 2 + n**2 + 0.1 * m <= 20
        ]
        assert abs(found["n"] - start["n"]) + abs(found["m"] - start["m"]) == min(cost)
        assert found["gas"] == "Ar"


def test_repair_of_many_integers_ends_feasible_and_is_idempotent():
    names = [f"n{i}" for i in range(6)]
    space = SearchSpace(tuple(Integer(n, 0, 9) for n in names), (ball(names, 6.0), ball(names, 4.5, inside=False)))
    X = space.repair(np.random.default_rng(4).uniform(-1, 1, (8, 6)))
    check_all(space, X)
    np.testing.assert_array_equal(space.repair(X), X)


@st.composite
def cases(draw):
    """Spaces of two continuous and one whole variable under constraints that a drawn design meets, and some points."""
    number = st.floats(-2.0, 2.0).map(lambda value: round(value, 3))
    variables = (Continuous("x", -3.0, 5.0), Integer("n", -2, 4), Continuous("y", 0.0, 2.0))
    inside = {"x": draw(st.floats(-3, 5)), "n": draw(st.integers(-2, 4)), "y": draw(st.floats(0, 2))}
    constraints = []
    for _ in range(draw(st.integers(1, 2))):
        products = {pair: draw(number) for pair in itertools.combinations_with_replacement("xny", 2)}
        products["x", "x"] = products["x", "x"] or 1.0
        made = QuadraticConstraint(products, {"x": draw(number), "n": draw(number)}, 0.0)
        upper = math.fsum(made.terms(inside)) + draw(st.floats(0.05, 3.0))
        constraints.append(QuadraticConstraint(products, made.coefficients, upper))
    return SearchSpace(variables, tuple(constraints)), np.array([[draw(number) for _ in range(3)] for _ in range(3)])


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_samples_and_repaired_points_of_any_such_space_are_designs_of_it(case, seed):
    space, X = case
    repaired, sampled = space.repair(X), space.sample(4, np.random.default_rng(seed))
    check_all(space, np.vstack([repaired, sampled]))
    np.testing.assert_array_equal(space.repair(repaired), repaired)
    np.testing.assert_array_equal(space.repair(sampled), sampled)
    np.testing.assert_array_equal(sampled, space.sample(4, np.random.default_rng(seed)))


def test_samples_of_a_disc_are_uniform():
    X = SPACES["disc"].sample(4000, np.random.default_rng(5))
    r, angle = np.linalg.norm(X, axis=1) / 0.6, np.arctan2(X[:, 1], X[:, 0])
    assert stats.kstest(r**2, stats.uniform.cdf).pvalue > 1e-3
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_a_thin_ring_is_sampled_all_around():
    edge = QuadraticConstraint(RING.products, RING.coefficients, 0.3602 - 1.0)
    X = SearchSpace(SQUARE, (edge, HOLE)).sample(2000, np.random.default_rng(6))
    r, angle = np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])
    assert (np.abs(r**2 - 0.3601) <= 0.0001 + 1e-8).all()
    assert stats.kstest((r**2 - 0.36) / 0.0002, stats.uniform.cdf).pvalue > 1e-3
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_a_small_ball_in_ten_coordinates_is_sampled_all_over():
    names = [f"x{i}" for i in range(10)]
    # The part of a ball in a corner of the box: rejection would need some 10^10 points for one.
    space = SearchSpace(tuple(Continuous(name, 0.0, 1.0) for name in names), (ball(names, 0.2),))
    X = (space.sample(1000, np.random.default_rng(7)) + 1) / 2
    assert stats.kstest((np.linalg.norm(X, axis=1) / 0.2) ** 10, stats.uniform.cdf).pvalue > 1e-3
    assert stats.kstest((X[:, 3] / 0.2) ** 2, stats.beta(0.5, 5.5).cdf).pvalue > 1e-3


def test_both_parts_of_a_region_are_sampled_alike_even_where_they_are_thin():
    slivers = QuadraticConstraint({("x", "x"): -0.25, ("y", "y"): 1.0}, {"x": 1.0}, 0.0002)
    X = SearchSpace(SQUARE, (slivers,)).sample(3000, np.random.default_rng(8))
    assert 0.4 < (X[:, 0] > 0).mean() < 0.6


def test_a_narrowed_space_keeps_its_constraints_and_is_refused_where_nothing_is_left():
    space = SPACES["hole"].narrowed({"x": (0.0, 2.0)})
    assert space.constraints == (HOLE,)
    assert space.quadratic.excess(space.encode([{"x": 0.8, "y": 0.0}]))[0, 0] == pytest.approx(0.0, abs=1e-12)
    check_all(space, space.sample(100, np.random.default_rng(9)))
    with pytest.raises(SpaceError, match=r"No design was found that satisfies -0.25 x\^2 - y\^2 \+ x <= 0.64"):
        SPACES["hole"].narrowed({"x": (1.5, 2.5), "y": (-0.3, 0.3)})


def test_a_design_that_violates_one_is_refused_with_the_sum():
    SPACES["disc"].check({"x": 3.2, "y": 0.0})
    with pytest.raises(SpaceError, match=r"violates 0.25 x\^2 \+ y\^2 - x <= -0.64, for its sum is -0.4375: ch"):
        SPACES["disc"].check({"x": 3.5, "y": 0.0})
    with pytest.raises(SpaceError, match=r"violates -x\*n <= -4, for its sum is -3: change it"):
        MIXED.check({"x": 3.0, "n": 1, "m": 0, "gas": "Ar"})


def test_an_image_beside_a_constraint_stays_as_it_is():
    space = SearchSpace((Image("face", (4, 4), 0.0, 1.0), *SQUARE), (DISC,))
    X = np.random.default_rng(10).uniform(-1, 1, (2, 18))
    X[:, 16:] = 0.9
    found = space.repair(X)
    np.testing.assert_array_equal(found[:, :16], X[:, :16])
    check_all(space, found)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: QuadraticConstraint({("x", "x"): math.nan}, {}, 1.0), r"coefficient of x\*x in a quadratic .* is nan"),
        (lambda: QuadraticConstraint({("x", "x"): 1.0}, {"y": math.inf}, 1.0), "coefficient of y in a quad.* is inf"),
        (lambda: QuadraticConstraint({("x", "x"): 1.0}, {}, math.nan), "upper bound of a quadratic constraint is nan"),
        (lambda: QuadraticConstraint({}, {"x": 1.0}, 1.0), r"has the products \{\}: give at least one, or make it lin"),
        (lambda: QuadraticConstraint({"x": 1.0}, {}, 1.0), "product of 'x': give a tuple of two names"),
        (
            lambda: QuadraticConstraint({("x", "y"): 1.0, ("y", "x"): 2.0}, {}, 1.0),
            r"has the product y\*x twice: add them up",
        ),
        (
            lambda: SearchSpace(MIXED.variables, (ball(("x", "gas"), 1.0),)),
            "holds gas, a categorical: only numbers can be summed",
        ),
        (lambda: SearchSpace(SQUARE, (ball(("x", "z"), 1.0),)), "No variable is named 'z'"),
        (
            lambda: SearchSpace(SQUARE, (ball(("x", "y"), 5.0, inside=False),)),
            r"No design was found that satisfies -x\^2 - y\^2 <= -25 within the bounds: relax",
        ),
        (
            lambda: SearchSpace(SQUARE, (DISC, LinearConstraint({"x": 1.0}, 0.5))),
            r"No design was found that satisfies 0.25 x\^2 .*; x <= 0.5 within the bounds",
        ),
        (
            lambda: SearchSpace((Integer("n", 0, 9),), (QuadraticConstraint({("n", "n"): 1.0}, {"n": -5.0}, -6.2),)),
            r"No design was found that satisfies n\^2 - 5 n <= -6.2",
        ),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(SpaceError, match=message):
        build()
