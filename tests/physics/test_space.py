"""Search spaces: the way across and back, repair, sampling, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from fieldcraft.physics.images import Image
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace, SpaceError

MIXED = SearchSpace(
    (
        Continuous("length", 0.5, 3.0, "m"),
        Categorical("metal", ("iron", "tin", "zinc")),
        Integer("count", 2, 7),
        Continuous("heat", -40.0, 120.0, "K"),
    ),
    (LinearConstraint({"length": 2.0, "count": 1.0}, 8.0), LinearConstraint({"heat": -1.0, "length": 10.0}, 30.0)),
)
TRIANGLE = SearchSpace(
    (Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)), (LinearConstraint({"x": 1, "y": 1}, 1.0),)
)
GOOD = {"length": 1.0, "metal": "tin", "count": 3, "heat": 20.0}


def bounded(limit):
    return st.floats(-limit, limit, allow_nan=False, allow_subnormal=False)


@st.composite
def variables(draw, name):
    kind = draw(st.sampled_from(("continuous", "integer", "categorical")))
    if kind == "categorical":
        return Categorical(name, tuple(f"level {i}" for i in range(draw(st.integers(1, 4)))))
    if kind == "integer":
        low = draw(st.integers(-50, 50))
        return Integer(name, low, low + draw(st.integers(0, 20)))
    low = draw(bounded(1e3))
    return Continuous(name, low, low + draw(st.floats(1e-3, 1e4)))


def allowed(variables, constraints):
    """A space; what leaves nothing to choose is no case."""
    try:
        return SearchSpace(variables, constraints)
    except SpaceError as error:
        assert str(error).startswith(("The only design", "Every design"))
        reject()


@st.composite
def spaces(draw):
    """Spaces of up to four variables and two constraints, each of which some design satisfies with a little room."""
    chosen = tuple(draw(variables(f"v{i}")) for i in range(draw(st.integers(1, 4))))
    numeric = [v for v in chosen if not isinstance(v, Categorical)]
    inside = {v.name: draw(st.sampled_from((v.low, v.high))) for v in numeric}
    constraints = []
    for _ in range(draw(st.integers(0, 2)) if numeric else 0):
        a = {v.name: draw(st.sampled_from((-2.0, -1.0, 0.5, 3.0))) for v in numeric}
        room = draw(st.floats(0.0, 10.0))
        constraints.append(LinearConstraint(a, sum(a[n] * inside[n] for n in a) + room))
    return allowed(chosen, tuple(constraints))


@st.composite
def spaces_and_points(draw):
    space = draw(spaces())
    X = np.array([[draw(bounded(3.0)) for _ in range(space.dimension)] for _ in range(3)])
    return space, X


@settings(max_examples=60, deadline=None)
@given(spaces_and_points())
def test_repaired_points_are_designs_of_the_space_and_repair_leaves_them_alone(case):
    space, X = case
    repaired = space.repair(X)
    for design in space.decode(repaired):
        space.check(design)
    assert np.array_equal(space.repair(repaired), repaired)


@pytest.mark.parametrize("room", [0.0, 1e-15, 7e-11])
def test_whole_numbers_between_two_limits_that_hardly_differ_are_designs(room):
    n = Integer("n", 0, 4), Integer("m", 0, 4)
    narrow = LinearConstraint({"n": 1.0, "m": 1.0}, 4.0 + room), LinearConstraint({"n": -1.0, "m": -1.0}, -4.0)
    space = SearchSpace(n, narrow)
    found = {(design["n"], design["m"]) for design in space.decode(space.sample(200, np.random.default_rng(0)))}
    assert found == {(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)}


@settings(max_examples=60, deadline=None)
@given(spaces_and_points())
def test_designs_survive_the_way_across_and_back(case):
    space, X = case
    designs = space.decode(space.repair(X))
    for design, again in zip(designs, space.decode(space.encode(designs)), strict=True):
        for variable in space.variables:
            value = design[variable.name]
            if isinstance(variable, Continuous):
                assert again[variable.name] == pytest.approx(
                    value, rel=1e-12, abs=1e-12 * (variable.high - variable.low)
                )
            else:
                assert again[variable.name] == value and type(again[variable.name]) is type(value)


def test_samples_of_a_variable_that_two_limits_pin_to_its_bound_lie_on_the_bound():
    pinned = LinearConstraint({"x": -2.0}, -84.0), LinearConstraint({"x": 3.0}, 126.0)
    space = SearchSpace((Categorical("c", ("a", "b")), Continuous("x", 42.0, 43.747936396498034)), pinned)
    X = space.sample(5, np.random.default_rng(0))
    assert set(X[:, 2]) == {-1.0} and np.array_equal(space.repair(X), X)


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**32))
def test_samples_are_feasible_and_come_again_from_the_same_seed(space, seed):
    X = space.sample(5, np.random.default_rng(seed))
    assert X.shape == (5, space.dimension)
    for design in space.decode(X):
        space.check(design)
    assert np.array_equal(space.repair(X), X)
    assert np.array_equal(X, space.sample(5, np.random.default_rng(seed)))


@settings(max_examples=60, deadline=None)
@given(bounded(1e6), st.floats(1e-6, 1e6))
def test_the_ends_of_the_encoded_interval_are_the_bounds_themselves(low, length):
    variable = Continuous("x", low, low + length)
    space = SearchSpace((variable,))
    ends = [design["x"] for design in space.decode([[-1.0], [1.0], [-7.0], [7.0]])]
    assert ends == [variable.low, variable.high, variable.low, variable.high]


def test_rounding_never_carries_a_value_over_its_bound():
    low, high = -8.65359608013137, -7.810047306537388
    # The middle and half of this interval add up to more than its upper bound just below the coordinate 1.
    assert (low / 2 + high / 2) + (high / 2 - low / 2) * np.nextafter(1, 0) > high
    space = SearchSpace((Continuous("x", low, high),))
    assert space.decode([[np.nextafter(1, 0)]]) == [{"x": high}]


def test_the_encoding_is_minus_one_to_one_for_numbers_and_one_hot_for_levels():
    X = MIXED.encode([{"length": 0.5, "metal": "zinc", "count": 7, "heat": 40.0}])
    np.testing.assert_allclose(X, [[-1, 0, 0, 1, 1, 0]], atol=1e-15)
    assert MIXED.dimension == 6
    assert MIXED.names == ("length", "metal", "count", "heat")
    np.testing.assert_array_equal(MIXED.bounds, [[-1, 0, 0, 0, -1, -1], [1, 1, 1, 1, 1, 1]])
    assert MIXED.discrete.tolist() == [False, True, True, True, True, False]
    assert MIXED.groups == (slice(1, 4),)


def test_decoded_integers_are_int_and_levels_are_text():
    (design,) = MIXED.decode([[0.1, 0.2, 0.7, 0.1, 0.31, 0.0]])
    assert design == {"length": pytest.approx(1.875), "metal": "tin", "count": 5, "heat": 40.0}
    assert type(design["count"]) is int and type(design["metal"]) is str and type(design["heat"]) is float


def test_an_integer_of_one_value_keeps_it():
    space = SearchSpace((Integer("n", 4, 4), Continuous("x", 0, 1)))
    assert space.decode(space.repair([[0.9, 0.0]])) == [{"n": 4, "x": 0.5}]
    assert space.encode([{"n": 4, "x": 0.5}]).tolist() == [[0.0, 0.0]]


def test_encoded_constraints_say_the_same_as_the_physical_ones():
    A, b = MIXED.linear
    np.testing.assert_allclose(np.linalg.norm(A, axis=1), 1.0, rtol=1e-14)
    rng = np.random.default_rng(0)
    for _ in range(50):
        design = {
            "length": rng.uniform(0.5, 3),
            "metal": "tin",
            "count": int(rng.integers(2, 8)),
            "heat": rng.uniform(-40, 120),
        }
        slack = b - A @ MIXED.encode([design])[0]
        physical = [8 - 2 * design["length"] - design["count"], 30 + design["heat"] - 10 * design["length"]]
        scale = [math.hypot(2 * 1.25, 2.5), math.hypot(80, 12.5)]
        np.testing.assert_allclose(slack, np.array(physical) / scale, atol=1e-13)


def test_repair_projects_onto_the_constraint():
    space = SearchSpace((Continuous("x", -1, 1), Continuous("y", -1, 1)), (LinearConstraint({"x": 1, "y": 1}, 0.5),))
    np.testing.assert_allclose(
        space.repair([[1, 1], [1, 0.25], [0.2, 0.2]]), [[0.25, 0.25], [0.625, -0.125], [0.2, 0.2]]
    )


def test_repair_projects_onto_the_corner_of_a_constraint_and_a_bound():
    space = SearchSpace((Continuous("x", -1, 1), Continuous("y", -1, 1)), (LinearConstraint({"x": -1, "y": -3}, -3.5),))
    np.testing.assert_allclose(space.repair([[0.9, -1.0]]), [[1.0, 2.5 / 3]])


def test_repair_of_continuous_points_is_the_nearest_point_of_the_polytope():
    rng = np.random.default_rng(5)
    names = "abcd"
    for _ in range(10):
        rows = rng.normal(size=(3, 4))
        cuts = tuple(LinearConstraint(dict(zip(names, row, strict=True)), 0.3) for row in rows)
        space = SearchSpace(tuple(Continuous(n, -1, 1) for n in names), cuts)
        (x,) = rng.uniform(-1, 1, (1, 4))
        (found,) = space.repair(x[None])
        reference = minimize(
            lambda z, x=x: np.sum((z - x) ** 2),
            np.zeros(4),
            jac=lambda z, x=x: 2 * (z - x),
            bounds=[(-1, 1)] * 4,
            constraints={"type": "ineq", "fun": lambda z, rows=rows: 0.3 - rows @ z, "jac": lambda z, rows=rows: -rows},
            method="SLSQP",
            options={"ftol": 1e-14},
        ).x
        np.testing.assert_allclose(found, reference, atol=1e-6)


def test_repair_takes_the_nearest_feasible_integers_where_no_continuous_move_suffices():
    space = SearchSpace(
        (Integer("n", 0, 10), Integer("m", 0, 10), Continuous("x", 0, 1)),
        (LinearConstraint({"n": 3, "m": 1, "x": 1}, 9.5),),
    )
    start = {"n": 4, "m": 5, "x": 0.5}
    (design,) = space.decode(space.repair(space.encode([start])))
    cost = lambda n, m: abs(n - 4) + abs(m - 5)  # noqa: E731
    least = min(cost(n, m) for n, m in itertools.product(range(11), repeat=2) if 3 * n + m <= 9.5)
    assert cost(design["n"], design["m"]) == least == 3
    space.check(design)


def test_repair_leaves_levels_and_free_integers_alone_when_it_moves_a_point():
    (design,) = MIXED.decode(
        MIXED.repair(MIXED.encode([GOOD | {"length": 2.9, "metal": "zinc", "count": 3, "heat": -5.0}]))
    )
    assert design["metal"] == "zinc" and design["count"] == 3
    assert 10 * design["length"] - design["heat"] == pytest.approx(30.0)


def test_samples_of_a_box_are_uniform():
    space = SearchSpace((Continuous("x", 3, 5), Integer("n", 1, 4), Categorical("c", ("a", "b", "d"))))
    designs = space.decode(space.sample(6000, np.random.default_rng(2)))
    assert stats.kstest([d["x"] for d in designs], stats.uniform(3, 2).cdf).pvalue > 1e-3
    for name, levels in (("n", (1, 2, 3, 4)), ("c", ("a", "b", "d"))):
        assert stats.chisquare([sum(d[name] == level for d in designs) for level in levels]).pvalue > 1e-3


def test_samples_under_a_constraint_are_uniform():
    X = (TRIANGLE.sample(6000, np.random.default_rng(3)) + 1) / 2
    quarters = [(X[:, 0] > 0.5).sum(), (X[:, 1] > 0.5).sum(), ((X < 0.5).all(axis=1) & (X.sum(axis=1) < 0.5)).sum()]
    rest = 6000 - sum(quarters)
    assert stats.chisquare([*quarters, rest]).pvalue > 1e-3


def test_a_space_too_thin_for_rejection_is_still_sampled_all_over():
    names = [f"x{i}" for i in range(12)]
    space = SearchSpace(tuple(Continuous(n, 0, 1) for n in names), (LinearConstraint(dict.fromkeys(names, 1.0), 0.5),))
    X = (space.sample(800, np.random.default_rng(4)) + 1) / 2
    assert X.sum(axis=1).max() <= 0.5 + 1e-8
    # Uniform on the simplex of side 0.5 in 12 dimensions: coordinates have the mean 0.5 / 13, their sum 0.5 * 12 / 13.
    np.testing.assert_allclose(X.mean(axis=0), 0.5 / 13, atol=0.01)
    assert X.sum(axis=1).mean() == pytest.approx(0.5 * 12 / 13, abs=0.005)
    assert stats.kstest(X[:, 0] / 0.5, stats.beta(1, 12).cdf).pvalue > 1e-3


def test_narrowing_keeps_names_units_and_constraints():
    space = MIXED.narrowed({"length": (1.0, 2.0), "count": (3, 5)})
    assert space.names == MIXED.names
    assert space.variables[0] == Continuous("length", 1.0, 2.0, "m")
    assert space.variables[2] == Integer("count", 3, 5)
    assert space.constraints == MIXED.constraints
    with pytest.raises(SpaceError, match=r"length is 0.7, outside \[1.0, 2.0\] m"):
        space.check(GOOD | {"length": 0.7})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": math.nan}, "length is nan: give a finite number"),
        ({"length": math.inf}, "length is inf: give a finite number"),
        ({"length": "long"}, "length is 'long', not a number"),
        ({"length": True}, "length is True, not a number"),
        ({"length": 3.0000001}, r"length is 3.0000001, outside \[0.5, 3.0\] m: give a value within"),
        ({"count": 3.5}, "count is 3.5: give a whole number"),
        ({"count": 8}, r"count is 8.0, outside \[2, 7\]"),
        ({"metal": "tim"}, "metal has no level 'tim'. Did you mean 'tin'"),
        ({"metal": 1}, "metal has no level 1. Known: iron, tin, zinc"),
        ({"lenght": 1.0}, "No variable is named 'lenght'. Did you mean 'length'"),
        ({"length": 2.5, "count": 4}, r"violates 2 length \+ count <= 8, for its sum is 9: change it"),
    ],
)
def test_a_design_that_is_not_one_is_refused(change, message):
    MIXED.check(GOOD)
    with pytest.raises(SpaceError, match=message):
        MIXED.check(GOOD | change)


def test_a_design_without_a_variable_is_refused():
    with pytest.raises(SpaceError, match="no value for metal, heat: give one"):
        MIXED.encode([{"length": 1.0, "count": 3}])


def test_whole_floats_and_numpy_numbers_are_good_values():
    MIXED.check(GOOD | {"count": 3.0, "length": np.float64(1.0)})
    MIXED.check(GOOD | {"count": np.int64(3), "length": np.float32(1.0)})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Continuous("x", 2, 1), r"x has the bounds \[2, 1\]: the lower must be below"),
        (lambda: Continuous("x", 1, 1), "the lower must be below"),
        (
            lambda: Continuous("x", 1.0, math.nextafter(1.0, 2.0)),
            r"\[1.0, 1.0000000000000002\], so close together that",
        ),
        (lambda: Continuous("x", 1e9, 1e9 + 1e-4), "designs between them cannot be told apart: widen them"),
        (lambda: Continuous("x", 0.0, 5e-324), "so close together"),
        (lambda: MIXED.narrowed({"length": (2.0, math.nextafter(2.0, 3.0))}), "so close together"),
        (lambda: Continuous("x", math.nan, 1), "A bound of x is nan"),
        (lambda: Continuous("x", 0, math.inf), "A bound of x is inf"),
        (lambda: Continuous(" ", 0, 1), "named ' ': give every variable a name"),
        (lambda: Integer("n", 5, 2), r"n has the bounds \[5, 2\], the lower above the upper: swap"),
        (lambda: Integer("n", 0.5, 2), "A bound of n is 0.5: give a whole number"),
        (lambda: Integer("n", 0, 2**60), "beyond 2\\^53"),
        (lambda: Categorical("c", ()), r"levels of c are \(\): name at least one"),
        (lambda: Categorical("c", ("a", "a")), "name at least one, and each once"),
        (lambda: Categorical("c", "ab"), "give a tuple of texts"),
        (lambda: SearchSpace(()), "has no variables: give at least one"),
        (lambda: SearchSpace((Integer("n", 0, 1), Continuous("n", 0, 1))), "Two variables are named 'n'"),
        (lambda: LinearConstraint({"x": math.nan}, 1), "coefficient of x in a linear constraint is nan"),
        (lambda: LinearConstraint({"x": 1}, math.inf), "upper bound of a linear constraint is inf"),
        (lambda: LinearConstraint({}, 1), "name at least one variable"),
        (
            lambda: SearchSpace(MIXED.variables, (LinearConstraint({"metal": 1}, 1),)),
            "holds metal, a categorical: only numbers can be summed",
        ),
        (
            lambda: SearchSpace(MIXED.variables, (LinearConstraint({"hat": 1}, 1),)),
            "No variable is named 'hat'. Did you mean 'heat'",
        ),
        (
            lambda: SearchSpace((Continuous("x", 0, 1),), (LinearConstraint({"x": 1}, -0.5),)),
            "No design satisfies x <= -0.5 within the bounds: relax",
        ),
        (
            lambda: SearchSpace(
                (Integer("n", 0, 3),), (LinearConstraint({"n": 2}, 1.5), LinearConstraint({"n": -2}, -0.5))
            ),
            "No design satisfies 2 n <= 1.5; -2 n <= -0.5 within the bounds",
        ),
        (lambda: MIXED.narrowed({"length": (2.0, 1.0)}), "the lower must be below"),
        (lambda: MIXED.narrowed({"length": (0.1, 1.0)}), r"leave the problem's own \[0.5, 3.0\]"),
        (lambda: MIXED.narrowed({"length": (1.0, math.nan)}), "A bound of length is nan"),
        (lambda: MIXED.narrowed({"count": (2.5, 4)}), "are not whole numbers"),
        (lambda: MIXED.narrowed({"metal": (0, 1)}), "metal is categorical"),
        (lambda: MIXED.narrowed({"lenth": (1.0, 2.0)}), "Did you mean 'length'"),
        (lambda: MIXED.narrowed({"count": (7, 7), "length": (1.0, 3.0)}), "No design satisfies"),
        (lambda: MIXED.repair([[0.0, 1.0]]), r"shape \(1, 2\): give \(n, 6\)"),
        (lambda: MIXED.decode([[0, 0, 1, 0, math.nan, 0]]), "every coordinate must be finite"),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(SpaceError, match=message):
        build()


def test_values_of_points_are_those_of_the_nearest_designs():
    space = SearchSpace(
        (
            Continuous("x", -2.0, 3.0),
            Integer("n", 1, 1000, log=True),
            Categorical("glue", ("A", "B", "C")),
            Categorical("grit", ("fine", "coarse"), ordered=True),
        )
    )
    X = space.sample(40, np.random.default_rng(6))
    values, designs = space.values(X), space.decode(X)
    assert list(values) == list(space.names) and all(value.shape == (40, 1) for value in values.values())
    for name in ("n", "glue", "grit"):
        assert values[name][:, 0].tolist() == [design[name] for design in designs]
    np.testing.assert_allclose(values["x"][:, 0], [design["x"] for design in designs], rtol=1e-15)
    outside = space.values(np.array([[1.5, 2.0, 0.2, 0.9, 0.1, -3.0]]))
    assert {name: value.item() for name, value in outside.items()} == {
        "x": 4.25,
        "n": 1000,
        "glue": "B",
        "grit": "fine",
    }


def test_images_have_no_single_value():
    space = SearchSpace((Continuous("x", 0.0, 1.0), Image("picture", (2, 2), 0.0, 1.0)))
    with pytest.raises(SpaceError, match="picture is an image: leave it out"):
        space.values(np.zeros((1, 5)))
