"""Variables with a logarithmic scale: closed forms of their coordinates, and what a sum or an equation refuses."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from fieldcraft.physics.domain import Axis, Domain, same_axes
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    LinearConstraint,
    LinearEquality,
    QuadraticConstraint,
    SearchSpace,
    SpaceError,
)

RATE = Continuous("rate", 1e-7, 1.0, "1/s", log=True)
DEPTH = Continuous("depth", 2.0, 6.0)
SPACE = SearchSpace((RATE, DEPTH, Categorical("kind", ("a", "b"))))
REAL = SearchSpace((RATE, DEPTH))


@pytest.mark.parametrize(("rate", "u"), [(1e-7, -1.0), (10**-5.25, -0.5), (10**-3.5, 0.0), (0.1, 5 / 7), (1.0, 1.0)])
def test_the_coordinate_is_linear_in_the_logarithm(rate, u):
    assert SPACE.encode([{"rate": rate, "depth": 3.0, "kind": "b"}])[0] == pytest.approx([u, -0.5, 0, 1], abs=1e-14)
    (design,) = SPACE.decode([[u, -0.5, 0, 1]])
    assert [design["rate"], design["depth"]] == pytest.approx([rate, 3.0], rel=1e-13)


def test_the_ends_are_the_bounds_themselves_and_nothing_leaves_them():
    odd = SearchSpace((Continuous("x", 3.3e-9, 7.7e5, log=True),))
    u = np.concatenate([[-1.0, -np.nextafter(1, 0), 1.0, np.nextafter(1, 0)], np.linspace(-1, 1, 1001)])
    values = [design["x"] for design in odd.decode(u[:, None])]
    assert values[0] == 3.3e-9
    assert values[2] == 7.7e5
    for value in values:
        odd.check({"x": value})


def test_draws_are_uniform_in_the_logarithm():
    X = SPACE.sample(2000, np.random.default_rng(4))
    decades = [math.log10(design["rate"]) for design in SPACE.decode(X)]
    assert kstest(decades, "uniform", (-7, 7)).pvalue > 0.01


def test_values_and_coordinates_of_columns_are_those_of_single_designs():
    X = REAL.sample(20, np.random.default_rng(1))
    values, designs = REAL.values(X), REAL.decode(X)
    for name in REAL.names:
        assert values[name].shape == (20, 1)
        assert values[name][:, 0] == pytest.approx([design[name] for design in designs], rel=1e-14)
    assert REAL.coordinates(values) == pytest.approx(X, abs=1e-14)
    assert REAL.encode(designs) == pytest.approx(X, abs=1e-14)
    with pytest.raises(SpaceError, match="kind is no continuous variable"):
        SPACE.values(np.zeros((1, 4)))


@pytest.mark.parametrize("variable", [RATE, DEPTH])
@pytest.mark.parametrize("u", [-0.9, 0.0, 0.7])
def test_the_slope_is_the_derivative_of_the_value_by_its_coordinate(variable, u):
    behind, here, ahead = variable.values(np.array([u - 1e-6, u, u + 1e-6]))
    assert variable.slope(float(here)) == pytest.approx((ahead - behind) / 2e-6, rel=1e-8)


def test_narrowing_keeps_the_scale():
    space = SPACE.narrowed({"rate": (1e-4, 1e-2)})
    assert space.encode([{"rate": 1e-3, "depth": 4.0, "kind": "a"}])[0, 0] == pytest.approx(0.0, abs=1e-14)
    assert (space.logarithmic, SearchSpace((DEPTH,)).logarithmic) == (("rate",), ())


def test_an_equation_over_designs_asks_for_linear_scales():
    domain = Domain((Axis("rate", 1e-7, 1.0), Axis("depth", 2.0, 6.0)))
    assert same_axes(domain, SearchSpace((Continuous("rate", 1e-7, 1.0), DEPTH)))
    assert not same_axes(domain, REAL)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Continuous("x", 0, 1, log=True),
            "x has the lower bound 0 and a logarithmic scale: give a bound above 0",
        ),
        (lambda: Continuous("x", -1, 1, log=True), "give a bound above 0, or leave log out"),
        (lambda: SPACE.encode([{"rate": 0.0, "depth": 3.0, "kind": "a"}]), "rate is 0.0, and has a logarithmic scale"),
        (lambda: SPACE.check({"rate": 2.0, "depth": 3.0, "kind": "a"}), r"outside \[1e-07, 1.0\] 1/s"),
        (
            lambda: SearchSpace((RATE, DEPTH), (LinearConstraint({"rate": 1, "depth": 1}, 5),)),
            "A constraint holds rate, which has a logarithmic scale: sums are kept on linear scales only",
        ),
        (lambda: SearchSpace((RATE, DEPTH), (LinearEquality({"rate": 1, "depth": 1}, 5),)), "linear scales only"),
        (
            lambda: SearchSpace((RATE, DEPTH), (QuadraticConstraint({("rate", "rate"): 1.0}, {}, 0.5),)),
            "linear scales only",
        ),
    ],
)
def test_what_has_no_logarithm_is_refused_with_the_remedy(build, message):
    with pytest.raises(SpaceError, match=message):
        build()
