"""Variables with a logarithmic scale: closed forms of their coordinates, and what a sum or an equation refuses."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.models.rivals._coordinates import coordinates, encoded, told
from fieldcraft.physics.domain import Axis, Domain, same_axes
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Integer,
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
        SPACE.coordinates(SPACE.values(np.zeros((1, 4))))


@pytest.mark.parametrize("variable", [RATE, DEPTH])
@pytest.mark.parametrize("u", [-0.9, 0.0, 0.7])
def test_the_slope_is_the_derivative_of_the_value_by_its_coordinate(variable, u):
    behind, here, ahead = variable.values(np.array([u - 1e-6, u, u + 1e-6]))
    assert variable.slope(float(here)) == pytest.approx((ahead - behind) / 2e-6, rel=1e-8)


WIDTH = Integer("width", 8, 4096, log=True)
WHOLE = SearchSpace((WIDTH, DEPTH))


def test_whole_numbers_are_rounded_in_their_own_unit():
    X = WHOLE.repair([[-1.0, 0], [-0.97, 0], [-0.99, 0], [1 / 3, 0], [0.9999, 0], [2.0, 0]])
    assert [design["width"] for design in WHOLE.decode(X)] == [8, 9, 8, 512, 4095, 4096]
    assert X[3, 0] == pytest.approx(1 / 3, abs=1e-14)  # 8, 64, 512, 4096: thirds of the interval
    assert WHOLE.repair(X) == pytest.approx(X, abs=1e-14)
    assert WHOLE.encode(WHOLE.decode(X)) == pytest.approx(X, abs=1e-14)


@pytest.mark.parametrize("draw", [SearchSpace.sample, lambda space, n, rng: take(sobol_points(space, rng), n)])
def test_whole_numbers_are_drawn_uniformly_in_the_logarithm(draw):
    widths = np.array([design["width"] for design in WHOLE.decode(draw(WHOLE, 3000, np.random.default_rng(2)))])
    shares = [np.mean((widths >= 8**k) & (widths < 8 ** (k + 1))) for k in (1, 2, 3)]
    assert shares == pytest.approx([1 / 3] * 3, abs=4 * (2 / 9 / 3000) ** 0.5)


def test_neighbours_are_whole_numbers_one_two_and_four_away():
    (x,) = WHOLE.encode([{"width": 11, "depth": 3.0}])
    found = sorted(design["width"] for design in WHOLE.decode(neighbours(WHOLE, x)))
    assert found == [9, 10, 12, 13, 15, 19, 27, 43, 75, 139, 267, 523, 1035, 2059]


@pytest.mark.parametrize("low", [1, 8])
def test_every_whole_number_is_counted_once(low):
    space = SearchSpace((Integer("width", low, 19, log=True), Categorical("kind", ("a", "b"))))
    found = space.decode(every_point(space, 2 * (20 - low)))
    expected = [{"width": width, "kind": kind} for width in range(low, 20) for kind in ("a", "b")]
    assert found == expected


def test_rivals_are_told_the_whole_number_and_its_scale():
    X = WHOLE.sample(20, np.random.default_rng(1))
    points = told(WHOLE, X)
    assert [point["x0"] for point in points] == [design["width"] for design in WHOLE.decode(X)]
    assert encoded(WHOLE, points) == pytest.approx(X, abs=1e-14)
    assert [(one.kind, one.log) for one in coordinates(WHOLE)] == [("whole", True), ("real", False)]


@pytest.mark.parametrize("maximizer", [Certified(), PKMIQP()])
def test_programs_that_count_whole_numbers_refuse_uneven_ones(maximizer):
    with pytest.raises(ValueError, match="width is a whole number with a logarithmic scale"):
        maximizer.refuse_space(WHOLE)
    maximizer.refuse_space(REAL)


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
        (lambda: Integer("n", 0, 8, log=True), "n has the lower bound 0 and a logarithmic scale"),
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
