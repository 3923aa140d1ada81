"""Angles, exchangeable blocks, conditional variables and vectors: one design for all points that stand for it."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.numerics.point_sets import every_point, sobol_points, take
from fieldcraft.physics.counting import canonical_designs, designs_of
from fieldcraft.physics.domain import Axis, Domain, same_axes
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Exchangeable,
    Image,
    Integer,
    LinearConstraint,
    LinearEquality,
    OnlyIf,
    QuadraticConstraint,
    SearchSpace,
    SpaceError,
)
from fieldcraft.physics.structure.vectors import vector

PHI = Continuous("phi", 0.0, 360.0, "deg", periodic=True)
CHIPS = tuple(Continuous(name, 0.0, 10.0, "mm") for name in ("x1", "y1", "x2", "y2"))
SWAP = Exchangeable((("x1", "y1"), ("x2", "y2")))
GLUE, HEAT, COATS = Categorical("glue", ("A", "B", "C")), Continuous("heat", 20.0, 90.0), Integer("coats", 1, 4)
ONLY = (OnlyIf("heat", "glue", ("B",)), OnlyIf("coats", "glue", ("A", "B")))
GLUED = SearchSpace((GLUE, HEAT, COATS), only_if=ONLY)
ALL = SearchSpace((PHI, *CHIPS, GLUE, HEAT, COATS), exchangeable=(SWAP,), only_if=ONLY)


@pytest.mark.parametrize(("phi", "u"), [(0.0, -1.0), (90.0, -0.5), (180.0, 0.0), (360.0, -1.0), (450.0, -0.5)])
def test_both_ends_of_a_period_have_one_coordinate(phi, u):
    assert SearchSpace((PHI,)).encode([{"phi": phi}])[0] == pytest.approx([u], abs=1e-14)


def test_searches_beyond_an_end_come_back_at_the_other():
    space = SearchSpace((PHI, HEAT))
    X = space.repair([[1.25, 1.25], [-1.5, 0.0], [1.0, -3.0], [-1 - 1e-17, 0], [5.0, 0.0]])
    assert X[:, 0] == pytest.approx([-0.75, 0.5, -1.0, -1.0, -1.0], abs=1e-14)
    assert X[:, 1].tolist() == [1.0, 0.0, -1.0, 0.0, 0.0]
    assert [design["phi"] for design in space.decode([[1.25, 0.0], [1.0, 0.0]])] == [pytest.approx(45.0), 0.0]
    assert space.reach.tolist() == [[-np.inf, -1.0], [np.inf, 1.0]]


def test_bounds_hold_for_what_exists():
    narrow = GLUED.narrowed({"heat": (20, 40)})
    narrow.check({"glue": "A", "heat": 55.0, "coats": 3})
    with pytest.raises(SpaceError, match=r"heat"):
        narrow.check({"glue": "B", "heat": 55.0, "coats": 3})
    with pytest.raises(SpaceError, match=r"heat"):
        narrow.check({"glue": "A", "heat": math.nan, "coats": 3})


@pytest.mark.parametrize("draw", [SearchSpace.sample, lambda space, n, rng: take(sobol_points(space, rng), n)])
def test_draws_of_an_angle_are_uniform(draw):
    phi = [
        design["phi"]
        for design in SearchSpace((PHI,)).decode(draw(SearchSpace((PHI,)), 1000, np.random.default_rng(1)))
    ]
    assert kstest(phi, "uniform", (0, 360)).pvalue > 0.01


def test_an_angle_whose_bounds_are_narrowed_is_no_longer_periodic():
    assert SearchSpace((PHI,)).narrowed({"phi": (0, 90)}).plain
    assert not SearchSpace((PHI,)).narrowed({"phi": (0, 360)}).plain


def test_exchanged_blocks_are_one_design():
    space = SearchSpace(CHIPS, exchangeable=(SWAP,))
    here, there = {"x1": 7, "y1": 1, "x2": 2, "y2": 9}, {"x1": 2, "y1": 9, "x2": 7, "y2": 1}
    assert canonical_designs(space, [here]) == canonical_designs(space, [there])
    assert canonical_designs(space, [here]) == [{name: pytest.approx(value) for name, value in there.items()}]
    # Ties of the first coordinate are broken by the second.
    tied = {"x1": 2, "y1": 9, "x2": 2, "y2": 1}
    assert canonical_designs(space, [tied])[0] == {"x1": 2, "y1": pytest.approx(1), "x2": 2, "y2": pytest.approx(9)}


def test_all_orders_of_three_blocks_are_one_design():
    space = SearchSpace(
        vector(Continuous("w", 0, 1), 3), exchangeable=(Exchangeable((("w[0]",), ("w[1]",), ("w[2]",))),)
    )
    X = np.array([[0.5, -0.2, 0.1], [0.1, 0.5, -0.2], [-0.2, 0.1, 0.5]])
    assert space.folds.canonical(X).tolist() == [[-0.2, 0.1, 0.5]] * 3


def test_a_variable_that_does_not_exist_rests_in_the_middle():
    X = GLUED.encode([{"glue": "A", "heat": 70, "coats": 3}, {"glue": "C", "heat": 20, "coats": 1}])
    (first, second) = GLUED.decode(X)
    assert first == {"glue": "A", "heat": 55.0, "coats": 3}
    assert second == {"glue": "C", "heat": 55.0, "coats": 2}
    assert GLUED.folds.existing(first) == {"glue": "A", "coats": 3}
    assert GLUED.folds.existing({"glue": "B", "heat": 70, "coats": 3}) == {"glue": "B", "heat": 70, "coats": 3}
    assert GLUED.folds.resting() == {"heat": 55.0, "coats": 2}


@pytest.mark.parametrize("draw", [SearchSpace.sample, lambda space, n, rng: take(sobol_points(space, rng), n)])
def test_draws_have_what_exists_and_rest_elsewhere(draw):
    designs = GLUED.decode(draw(GLUED, 600, np.random.default_rng(5)))
    assert {design["heat"] for design in designs if design["glue"] != "B"} == {55.0}
    assert kstest([design["heat"] for design in designs if design["glue"] == "B"], "uniform", (20, 70)).pvalue > 0.01
    assert {design["coats"] for design in designs if design["glue"] == "C"} == {2}
    assert {design["coats"] for design in designs if design["glue"] == "A"} == {1, 2, 3, 4}


def test_a_canonical_point_stays_and_belongs_to_the_same_design():
    rng = np.random.default_rng(2)
    X = ALL.sample(50, rng)
    once = ALL.folds.canonical(X)
    assert np.array_equal(ALL.folds.canonical(once), once)
    swapped = X[:, [0, 3, 4, 1, 2, *range(5, ALL.dimension)]]
    assert np.array_equal(ALL.folds.canonical(swapped), once)
    for design in ALL.decode(X):
        ALL.check(design)


def test_designs_that_are_one_are_counted_once():
    space = SearchSpace((Integer("a", 1, 4), Integer("b", 1, 4)), exchangeable=(Exchangeable((("a",), ("b",))),))
    assert len(designs_of(space)) == len(every_point(space, 100)) == 10  # 4 * 5 / 2
    chosen = SearchSpace((GLUE, COATS), only_if=(OnlyIf("coats", "glue", ("B",)),))
    assert len(designs_of(chosen)) == len(every_point(chosen, 100)) == 6  # A, C and four of B
    assert len(designs_of(SearchSpace((GLUE, COATS)))) == 12


def test_a_vector_is_so_many_variables_of_one_kind():
    w = vector(Continuous("w", 0.0, 2.0, "mm"), 3)
    assert [(each.name, each.low, each.high, each.unit) for each in w] == [
        (f"w[{k}]", 0.0, 2.0, "mm") for k in range(3)
    ]
    space = SearchSpace((*w, HEAT)).narrowed({"w": (0.5, 1.0), "heat": (30, 40)})
    assert [(each.low, each.high) for each in space.variables] == [(0.5, 1.0)] * 3 + [(30, 40)]
    for size in (0, 1001, 2.0, True):
        with pytest.raises(SpaceError, match="The size of the vector w is"):
            vector(Continuous("w", 0, 1), size)


def test_constraints_that_treat_blocks_alike_are_accepted_in_any_order_of_their_terms():
    apart = QuadraticConstraint(
        {("x1", "x1"): -1, ("x1", "x2"): 2, ("x2", "x2"): -1, ("y1", "y1"): -1, ("y2", "y1"): 2, ("y2", "y2"): -1},
        {},
        -1,
    )
    each = (LinearConstraint({"x1": 1, "y1": 1}, 12), LinearConstraint({"y2": 1, "x2": 1}, 12))
    space = SearchSpace(CHIPS, (apart, *each), (SWAP,))
    for design in canonical_designs(space, space.decode(space.sample(20, np.random.default_rng(0)))):
        space.check(design)
    with pytest.raises(SpaceError, match=r"x1 \+ y1 <= 12 does not hold for the blocks \(x1, y1\) and \(x2, y2\)"):
        SearchSpace(CHIPS, each[:1], (SWAP,))


@pytest.mark.parametrize("maximizer", [Certified(), PKMIQP()])
@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (SearchSpace((PHI, HEAT)), "phi is periodic"),
        (SearchSpace(CHIPS, exchangeable=(SWAP,)), r"\(x1, y1\) and \(x2, y2\) are exchangeable"),
        (GLUED, "heat exists in some designs alone"),
    ],
)
def test_searches_with_a_proof_refuse_what_they_cannot_bound(maximizer, space, reason):
    with pytest.raises(ValueError, match=f"{reason}.*maximizer: multistart"):
        maximizer.refuse_space(space)


def test_no_equation_is_over_an_angle_or_exchangeable_variables():
    axes = Domain((Axis("x1", 0, 10), Axis("x2", 0, 10)))
    xs = (CHIPS[0], CHIPS[2])
    assert same_axes(axes, SearchSpace(xs))
    assert not same_axes(axes, SearchSpace(xs, exchangeable=(Exchangeable((("x1",), ("x2",))),)))
    assert not same_axes(Domain((Axis("phi", 0, 360),)), SearchSpace((PHI,)))


def _space(*variables, **more):
    return lambda: SearchSpace(variables, **more)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Continuous("x", 1, 2, log=True, periodic=True),
            "x is periodic and has a logarithmic scale: leave out",
        ),
        (_space(PHI, HEAT, constraints=(LinearEquality({"phi": 1, "heat": 1}, 90),)), "phi, which is periodic: a sum"),
        (
            _space(GLUE, HEAT, PHI, constraints=(LinearConstraint({"heat": 1}, 80),), only_if=ONLY[:1]),
            "does not exist in",
        ),
        (lambda: Exchangeable((("a", "b"),)), "give at least two tuples of names, of the same length"),
        (lambda: Exchangeable((("a", "b"), ("c",))), "of the same length"),
        (lambda: Exchangeable(("ab", "cd")), "give at least two tuples"),
        (lambda: Exchangeable((("a",), ("a",))), "name a variable twice"),
        (_space(*CHIPS, exchangeable=(Exchangeable((("x1",), ("x3",))),)), "No variable is named 'x3'. Known: x1"),
        (_space(*CHIPS, exchangeable=(SWAP, SWAP)), "x1 is in two groups"),
        (_space(CHIPS[0], HEAT, exchangeable=(Exchangeable((("x1",), ("heat",))),)), "x1 and heat .* are not alike"),
        (lambda: SearchSpace(CHIPS, exchangeable=(SWAP,)).narrowed({"x1": (0, 5)}), "x1 and x2 .* the same bounds"),
        (lambda: OnlyIf("heat", "glue", ()), "give a tuple of at least one, each once"),
        (lambda: OnlyIf("heat", "glue", "B"), "give a tuple of at least one"),
        (lambda: OnlyIf("glue", "glue", ("A",)), "levels of itself"),
        (
            _space(GLUE, HEAT, only_if=(OnlyIf("heat", "gleu", ("B",)),)),
            "No variable is named 'gleu'. Did you mean 'glue'",
        ),
        (_space(GLUE, HEAT, only_if=(OnlyIf("heat", "glue", ("D",)),)), "glue has no level 'D'"),
        (_space(GLUE, HEAT, only_if=(OnlyIf("heat", "glue", ("A", "B", "C")),)), "exists for all levels of glue"),
        (
            _space(GLUE, HEAT, COATS, only_if=(OnlyIf("heat", "coats", ("1",)),)),
            "coats, which is no categorical variable",
        ),
        (_space(GLUE, HEAT, only_if=(ONLY[0], ONLY[0])), "heat has two conditions"),
        (
            _space(
                GLUE,
                Categorical("b", ("x", "y")),
                HEAT,
                only_if=(OnlyIf("b", "glue", ("A",)), OnlyIf("heat", "b", ("x",))),
            ),
            "b, which is conditional itself",
        ),
        (_space(GLUE, Image("i", (2, 2), 0, 1), only_if=(OnlyIf("i", "glue", ("A",)),)), "i is an image"),
        (
            _space(
                GLUE,
                *CHIPS,
                exchangeable=(Exchangeable((("x1",), ("x2",))),),
                only_if=(OnlyIf("x1", "glue", ("A",)),),
            ),
            "x1 is in an exchangeable block and in a condition",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(build, message):
    with pytest.raises(SpaceError, match=message):
        build()


def test_a_plain_space_says_so():
    assert SearchSpace((HEAT, GLUE)).plain
    assert [space.plain for space in (ALL, GLUED, SearchSpace((PHI,)))] == [False] * 3
    assert math.isclose(len(ALL.folds.reasons), 4)
