"""Linear equalities of a space: the uniform law on their planes, who keeps them, and what leaves nothing to choose."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Image,
    Integer,
    LinearConstraint,
    LinearEquality,
    QuadraticConstraint,
    SearchSpace,
    SpaceError,
)


def unit(*names):
    return tuple(Continuous(name, 0.0, 1.0) for name in names)


def total(names, value=1.0):
    return LinearEquality(dict.fromkeys(names, 1.0), value)


def values(space, X):
    return np.array([[design[v.name] for v in space.variables] for design in space.decode(X)], dtype=float)


def sampled(space, n, seed=0):
    return values(space, space.sample(n, np.random.default_rng(seed)))


def same_law(found, reference):
    """Whether two samples (n, d) may be of one law, by each coordinate, their largest and a sum of all."""
    mixed = np.random.default_rng(5).normal(size=found.shape[1])
    columns = [(found[:, j], reference[:, j]) for j in range(found.shape[1])]
    columns += [(found.max(axis=1), reference.max(axis=1)), (found @ mixed, reference @ mixed)]
    return min(stats.ks_2samp(*pair).pvalue for pair in columns) > 1e-3 / len(columns)


@pytest.mark.parametrize("d", [3, 6, 12])
def test_a_mixture_is_sampled_as_by_dirichlets_law(d):
    names = [f"x{i}" for i in range(d)]
    X = sampled(SearchSpace(unit(*names), (total(names),)), 20_000)
    np.testing.assert_allclose(X.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    # Dirichlet(1, ..., 1): means 1/d, variances (d - 1) / (d^2 (d + 1)), marginals Beta(1, d - 1).
    variance = (d - 1) / (d**2 * (d + 1))
    assert np.abs(X.mean(axis=0) - 1 / d).max() < 4 * math.sqrt(variance / len(X))
    spread = np.std((X - 1 / d) ** 2) / math.sqrt(len(X))
    assert np.abs(X.var(axis=0) - variance).max() < 4 * spread
    for column in X.T:
        assert stats.kstest(column, stats.beta(1, d - 1).cdf).pvalue > 1e-3


def test_a_total_written_as_two_opposite_inequalities_is_the_equality_that_it_is():
    names = "abcdef"
    cuts = (LinearConstraint(dict.fromkeys(names, 1.0), 1.0), LinearConstraint(dict.fromkeys(names, -2.0), -2.0))
    space = SearchSpace(unit(*names), cuts)
    E, e = space.equalities
    assert len(E) == 1 and len(space.linear[0]) == 0 and len(e) == 1
    X = sampled(space, 20_000)
    assert np.abs(X.mean(axis=0) - 1 / 6).max() < 4 * 0.1409 / math.sqrt(len(X))
    np.testing.assert_array_equal(X, sampled(SearchSpace(unit(*names), (total(names),)), 20_000))


def test_a_slice_of_a_box_in_physical_units_is_sampled_as_rejection_does():
    space = SearchSpace(
        (Continuous("a", 0.0, 2.0, "g"), Continuous("b", -1.0, 1.0, "g"), Continuous("c", 0.0, 3.0, "g")),
        (LinearEquality({"a": 1.0, "b": 2.0, "c": -1.0}, 0.7),),
    )
    rng = np.random.default_rng(1)
    a, c = rng.uniform(0, 2, 100_000), rng.uniform(0, 3, 100_000)
    b = (0.7 - a + c) / 2
    assert same_law(sampled(space, 10_000), np.stack([a, b, c], axis=1)[np.abs(b) <= 1])


@pytest.mark.parametrize(("high", "count"), [(0.15, 10), (0.4, 5), (1.0, 4)])
def test_upper_bounds_of_the_shares_cut_the_simplex_as_rejection_does(high, count):
    names = [f"x{i}" for i in range(count)]
    space = SearchSpace(tuple(Continuous(name, 0.0, high) for name in names), (total(names),))
    first = np.random.default_rng(2).uniform(0, high, (400_000, count - 1))
    last = 1 - first.sum(axis=1)
    assert same_law(sampled(space, 5_000), np.column_stack([first, last])[(last >= 0) & (last <= high)])


@pytest.mark.parametrize(("high", "total_", "least"), [(1.0, 1.0, 1.0), (0.15, 1.0, 0.5), (0.2, 1.0, 0.3)])
def test_few_points_of_the_cube_lead_to_a_blend_out_of_bounds(high, total_, least):
    names = [f"x{i}" for i in range(10)]
    (mixture,) = SearchSpace(tuple(Continuous(name, 0.0, high) for name in names), (total(names, total_),)).mixtures
    X = mixture.from_cube(np.random.default_rng(0).random((4_000, mixture.dimension)))
    kept = np.all(np.abs(X) <= 1 + 1e-12, axis=1)
    # Of the box of nine of them 1 in 9!, 1 in 100 and 4 in 10 would be left.
    assert mixture.dimension == 9 and kept.mean() >= least


def test_an_inequality_beside_a_mixture_is_kept_and_the_rest_stays_uniform():
    space = SearchSpace(unit(*"abcd"), (total("abcd"), LinearConstraint({"a": 1.0, "b": -1.0}, -0.2)))
    blends = np.random.default_rng(3).dirichlet(np.ones(4), 100_000)
    assert same_law(sampled(space, 10_000), blends[blends[:, 0] - blends[:, 1] <= -0.2])


def test_a_part_of_a_mixture_too_small_for_rejection_is_sampled_by_the_walk_on_its_plane():
    names = [f"x{i}" for i in range(10)]
    space = SearchSpace(unit(*names), (total(names), LinearConstraint({"x0": -1.0}, -0.6)))
    X = sampled(space, 2_000)
    np.testing.assert_allclose(X.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    # Above 0.6, x0 is distributed as 0.6 + 0.4 Beta(1, 9), and the others are 0.4 times a smaller mixture.
    assert stats.kstest((X[:, 0] - 0.6) / 0.4, stats.beta(1, 9).cdf).pvalue > 1e-3
    assert stats.kstest(X[:, 5] / 0.4, stats.beta(1, 9).cdf).pvalue > 1e-3


def test_several_equalities_that_share_variables_are_sampled_as_rejection_does():
    space = SearchSpace(unit(*"abcde"), (total("abc"), LinearEquality({"c": 1.0, "d": 2.0, "e": 1.0}, 1.5)))
    a, c, d = np.random.default_rng(4).uniform(size=(3, 200_000))
    b, e = 1 - a - c, 1.5 - c - 2 * d
    kept = (b >= 0) & (b <= 1) & (e >= 0) & (e <= 1)
    assert same_law(sampled(space, 5_000), np.stack([a, b, c, d, e], axis=1)[kept])


def test_a_curved_constraint_on_a_mixture_is_kept_and_the_rest_stays_uniform():
    squares = {(name, name): 1.0 for name in "abc"}
    ring = (
        QuadraticConstraint(squares, {}, 0.4),
        QuadraticConstraint({pair: -q for pair, q in squares.items()}, {}, -0.36),
    )
    space = SearchSpace(unit(*"abc"), (total("abc"), *ring))
    blends = np.random.default_rng(6).dirichlet(np.ones(3), 100_000)
    kept = (np.square(blends).sum(axis=1) <= 0.4) & (np.square(blends).sum(axis=1) >= 0.36)
    assert same_law(sampled(space, 4_000), blends[kept])
    region = space._region
    walked = region.walk(space._entered(1_000, np.random.default_rng(7)), ~space.discrete, np.random.default_rng(8))
    assert region.contains(walked).all()
    assert same_law(values(space, walked), blends[kept])
    raw = np.random.default_rng(9).uniform(-1, 1, (20, 3))
    for x, near in zip(raw, space.repair(raw), strict=True):
        space.check(space.decode(near[None])[0])
        grid = 2 * blends[kept] - 1
        assert np.linalg.norm(near - x) <= np.linalg.norm(grid - x, axis=1).min() + 1e-6


def test_whole_numbers_in_a_mixture_come_as_often_as_what_they_leave_is_large():
    space = SearchSpace(
        (Integer("n", 0, 4), Continuous("x", 0.0, 3.0), Continuous("y", 0.0, 2.5), Categorical("z", ("u", "v"))),
        (total("nxy", 5.0),),
    )
    designs = space.decode(space.sample(12_000, np.random.default_rng(10)))
    # Lengths of the lines x + y = 5 - n within the box, in x.
    lengths = np.array([min(3.0, 5.0 - n) - max(0.0, 2.5 - n) for n in range(5)])
    counts = np.bincount([design["n"] for design in designs], minlength=5)
    assert stats.chisquare(counts, lengths / lengths.sum() * len(designs)).pvalue > 1e-3
    x = [design["x"] for design in designs if design["n"] == 1]
    assert stats.kstest(x, stats.uniform(1.5, 1.5).cdf).pvalue > 1e-3
    assert stats.binomtest(sum(design["z"] == "u" for design in designs), len(designs)).pvalue > 1e-3
    for design in designs[:100]:
        space.check(design)


def test_whole_numbers_beside_three_shares_come_by_the_area_of_the_triangle_that_they_leave():
    space = SearchSpace((Integer("n", 0, 4), *(Continuous(x, 0.0, 5.0) for x in "xyz")), (total("nxyz", 5.0),))
    designs = space.decode(space.sample(12_000, np.random.default_rng(10)))
    areas = np.square(5.0 - np.arange(5))
    counts = np.bincount([design["n"] for design in designs], minlength=5)
    assert stats.chisquare(counts, areas / areas.sum() * len(designs)).pvalue > 1e-3
    assert stats.kstest([d["x"] / 4 for d in designs if d["n"] == 1], stats.beta(1, 2).cdf).pvalue > 1e-3


def test_whole_numbers_that_make_up_a_total_are_uniform_over_all_that_do():
    space = SearchSpace(tuple(Integer(name, 0, 10) for name in "abc"), (total("abc", 10),))
    X = sampled(space, 6_600)
    found, counts = np.unique(X, axis=0, return_counts=True)
    assert len(found) == math.comb(12, 2) and (X.sum(axis=1) == 10).all()
    (near,) = values(space, space.repair(space.encode([{"a": 5, "b": 4, "c": 4}])))
    assert near.sum() == 10 and np.abs(near - [5, 4, 4]).sum() == 3
    assert stats.chisquare(counts).pvalue > 1e-3


def test_totals_that_hardly_any_whole_numbers_make_up_are_still_uniform():
    names = [f"n{i}" for i in range(6)]
    X = sampled(SearchSpace(tuple(Integer(name, 0, 20) for name in names), (total(names, 20),)), 8_000)
    assert (X.sum(axis=1) == 20).all()
    share = np.array([math.comb(24 - k, 4) for k in range(21)]) / math.comb(25, 5)
    counts = np.bincount(X[:, 0].astype(int), minlength=21)
    expected = share * len(X)
    assert stats.chisquare([*counts[:12], counts[12:].sum()], [*expected[:12], expected[12:].sum()]).pvalue > 1e-3


def test_whole_numbers_in_two_totals_are_those_that_enumeration_finds():
    space = SearchSpace(
        tuple(Integer(name, 0, 6) for name in "abcd"), (total("abc", 7), LinearEquality({"c": 2.0, "d": -1.0}, 3.0))
    )
    grid = np.stack(np.meshgrid(*[np.arange(7)] * 4), axis=-1).reshape(-1, 4)
    every = grid[(grid[:, :3].sum(axis=1) == 7) & (2 * grid[:, 2] - grid[:, 3] == 3)]
    found, counts = np.unique(sampled(space, 100 * len(every)), axis=0, return_counts=True)
    np.testing.assert_array_equal(found, np.unique(every, axis=0))
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("half", [1e-2, 1e-5])
def test_a_thin_slab_is_sampled_all_over(half):
    names = "abcdef"
    cuts = (
        LinearConstraint(dict.fromkeys(names, 1.0), 1.0 + half),
        LinearConstraint(dict.fromkeys(names, -1.0), half - 1.0),
    )
    X = sampled(SearchSpace(unit(*names), cuts), 2_000)
    assert np.abs(X.mean(axis=0) - 1 / 6).max() < 5 * 0.1409 / math.sqrt(len(X)) + half
    assert stats.kstest(X.sum(axis=1), stats.uniform(1 - half, 2 * half).cdf).pvalue > 1e-3
    assert stats.kstest(X[:, 2] / X.sum(axis=1), stats.beta(1, 5).cdf).pvalue > 1e-3


@st.composite
def mixtures(draw):
    """A space of three to five variables with an equality, sometimes a second one or an inequality, and raw points."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(3, 5))
    whole = draw(st.integers(0, 2))
    names = [f"v{i}" for i in range(count)]
    lows = rng.integers(-5, 5, count)
    variables = tuple(
        Integer(name, int(low), int(low) + 6)
        if i < whole
        else Continuous(name, float(low), round(low + float(rng.uniform(0.5, 9)), 3))
        for i, (name, low) in enumerate(zip(names, lows, strict=True))
    )
    inside = {v.name: v.low + 2 if isinstance(v, Integer) else (v.low + v.high) / 2 for v in variables}
    constraints = []
    for k in range(draw(st.integers(1, 2))):
        a = dict(zip(names[k:], rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0], count - k).tolist(), strict=True))
        constraints.append(LinearEquality(a, sum(a[name] * inside[name] for name in a)))
    if draw(st.booleans()):
        a = dict(zip(names, rng.normal(size=count).tolist(), strict=True))
        constraints.append(LinearConstraint(a, sum(a[name] * inside[name] for name in a) + 0.3))
    space = SearchSpace((*variables, Categorical("c", ("p", "q"))), tuple(constraints))
    return space, rng.uniform(-2, 2, (4, space.dimension))


@settings(max_examples=40, deadline=None)
@given(mixtures())
def test_repaired_and_sampled_points_lie_on_the_planes_to_rounding_and_survive_text(case):
    space, raw = case
    E, e = space.equalities
    X = np.vstack([space.repair(raw), space.sample(4, np.random.default_rng(0))])
    assert np.abs(X @ E.T - e).max() <= 1e-12
    np.testing.assert_array_equal(space.repair(X[:4]), X[:4])
    for design in space.decode(X):
        space.check(design)
        read = {name: type(value)(repr(value)) if value != str(value) else value for name, value in design.items()}
        assert read == design
        # Spreadsheets keep 15 digits.
        space.check({name: float(f"{v:.15g}") if isinstance(v, float) else v for name, v in design.items()})
    assert np.abs(space.encode(space.decode(X)) - X).max() < 1e-11


def test_a_mixture_with_a_rounded_number_is_made_up_by_the_others():
    space = SearchSpace((Integer("n", 0, 4), Continuous("x", 0.0, 3.0), Continuous("y", 0.0, 3.0)), (total("nxy", 5),))
    (found,) = space.decode(space.repair(space.encode([{"n": 2.2, "x": 2.0, "y": 2.0}])))
    assert found == {"n": 2, "x": pytest.approx(1.5), "y": pytest.approx(1.5)}
    # In a smaller box the others cannot make up for n = 0.
    tight = SearchSpace((Integer("n", 0, 4), Continuous("x", 0.0, 2.0), Continuous("y", 0.0, 2.0)), (total("nxy", 5),))
    (moved,) = tight.decode(tight.repair(tight.encode([{"n": 0, "x": 2.0, "y": 2.0}])))
    assert moved == {"n": 1, "x": 2.0, "y": 2.0}


def test_what_rounding_keeps_from_a_bound_is_at_it():
    space = SearchSpace(unit(*"abc"), (total("abc"),))
    for small in (5e-17, 7e-13):
        (found,) = space.decode(space.repair(space.encode([{"a": 0.4, "b": small, "c": 0.6 - small}])))
        assert found["b"] == 0.0 and found["a"] + found["c"] == pytest.approx(1.0, abs=1e-15)


def test_a_design_off_the_plane_is_refused_with_what_would_bring_it_back():
    space = SearchSpace(
        (Continuous("a", 0.0, 50.0, "g"), Continuous("b", 10.0, 80.0, "g"), Continuous("c", 5.0, 60.0, "g")),
        (total("abc", 100.0),),
    )
    good = {"a": 33.3, "b": 33.3, "c": 33.4}
    space.check(good)
    space.check(good | {"c": 33.4 + 1e-8})  # within 1e-9 of what the terms may be
    message = r"violates a \+ b \+ c = 100, for its sum is 99.9: change it; with c = 33.4, for one, it would be"
    with pytest.raises(SpaceError, match=message):
        space.check(good | {"c": 33.3})
    with pytest.raises(SpaceError, match=r"sum is 100.000001: .*with c = 33.4,"):
        space.check(good | {"c": 33.400001})
    with pytest.raises(SpaceError, match=r"sum is 98.3: .*with b = 31.7,"):
        space.check({"a": 8.3, "b": 30.0, "c": 60.0})
    counts = SearchSpace((Integer("n", 0, 9), Integer("m", 0, 9)), (total("nm", 9),))
    with pytest.raises(SpaceError, match=r"sum is 8: change it\.$"):
        counts.check({"n": 4, "m": 4})


def test_narrower_bounds_keep_the_equality_or_are_refused():
    space = SearchSpace(unit(*"abc"), (total("abc"),))
    X = sampled(space.narrowed({"a": (0.2, 0.3)}), 500)
    assert X[:, 0].min() >= 0.2 and X[:, 0].max() <= 0.3
    np.testing.assert_allclose(X.sum(axis=1), 1.0, atol=1e-14)
    with pytest.raises(SpaceError, match=r"No design satisfies a \+ b \+ c = 1 within the bounds"):
        space.narrowed({"a": (0.0, 0.3), "b": (0.0, 0.3), "c": (0.0, 0.3)})


def test_a_space_of_whole_numbers_alone_may_still_leave_several():
    three = SearchSpace((Integer("n", 0, 5), Integer("m", 0, 5)), (total("nm", 8),))
    assert {tuple(row) for row in sampled(three, 100)} == {(3, 5), (4, 4), (5, 3)}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LinearEquality({"a": math.nan}, 1.0), "The coefficient of a in a linear equality is nan: give a"),
        (lambda: LinearEquality({"a": 1.0}, math.inf), "The total of a linear equality is inf: give a finite"),
        (
            lambda: LinearEquality({"a": 0.0}, 1.0),
            r"A linear equality has the coefficients \{'a': 0.0\}: name at least",
        ),
        (lambda: SearchSpace(unit("a"), (total("az"),)), "No variable is named 'z'"),
        (
            lambda: SearchSpace((*unit("a"), Categorical("q", ("u", "v"))), (total("aq"),)),
            "A constraint holds q, a categorical: only numbers can be summed; leave it out",
        ),
        (
            lambda: SearchSpace((*unit("a"), Image("p", (2, 2), 0.0, 1.0)), (total("ap"),)),
            "A constraint holds p, an image: only numbers can be summed",
        ),
        (
            lambda: SearchSpace(unit(*"ab"), (total("ab", 2.5),)),
            r"^No design satisfies a \+ b = 2.5 within the bounds: relax one of them\.$",
        ),
        (
            lambda: SearchSpace((Integer("n", 0, 5), Integer("m", 0, 5)), (LinearEquality({"n": 2.0, "m": 2.0}, 5),)),
            r"^No design satisfies 2 n \+ 2 m = 5 within the bounds: relax one of them\.$",
        ),
        (
            lambda: SearchSpace(unit(*"abc"), (total("abc"), LinearEquality(dict.fromkeys("abc", 2.0), 2.2))),
            r"^No design satisfies both 2 a \+ 2 b \+ 2 c = 2.2 and a \+ b \+ c = 1: correct one of them\.$",
        ),
        (
            lambda: SearchSpace(unit(*"abc"), (total("abc"), LinearEquality(dict.fromkeys("abc", 2.0), 2.0))),
            r"^2 a \+ 2 b \+ 2 c = 2 follows from a \+ b \+ c = 1: leave it out\.$",
        ),
        (
            lambda: SearchSpace(unit(*"abcd"), (total("ab"), total("cd", 0.5), total("abcd", 1.5))),
            r"^a \+ b \+ c \+ d = 1.5 follows from a \+ b = 1; c \+ d = 0.5: leave it out\.$",
        ),
        (
            lambda: SearchSpace(unit(*"ab"), (total("ab", 2.0),)),
            r"^The only design that satisfies a \+ b = 2 within the bounds is \{'a': 1.0, 'b': 1.0\}: relax",
        ),
        (
            lambda: SearchSpace(unit(*"abc"), (total("ab"), total("ac"), total("bc"))),
            r"^The only design that satisfies .* is \{'a': 0.5, 'b': 0.5, 'c': 0.5\}: relax a constraint\.$",
        ),
        (
            lambda: SearchSpace((Integer("n", 0, 5), Integer("m", 0, 5)), (total("nm", 10),)),
            r"^The only design that satisfies n \+ m = 10 within the bounds is \{'n': 5, 'm': 5\}: relax",
        ),
        (
            lambda: SearchSpace(unit(*"xy"), (LinearConstraint({"x": 1.0, "y": 1.0}, 0.0),)),
            r"^The only design that satisfies x \+ y <= 0 within the bounds is \{'x': 0.0, 'y': 0.0\}: relax",
        ),
        (
            lambda: SearchSpace(unit(*"xyz"), (LinearConstraint({"x": 1.0, "y": 1.0}, 0.0),)),
            "has x = 0, y = 0, to a millionth of its bounds: take what is constant out of the space, or relax",
        ),
        (
            lambda: SearchSpace(unit(*"abc"), (total("abc"), LinearConstraint({"a": 1.0}, 0.0))),
            "has a = 0, to a millionth of its bounds: take what is constant out of the space",
        ),
        (
            lambda: SearchSpace(
                unit(*"xyz"),
                tuple(LinearConstraint({one: 1.0, other: -1.0}, 0.0) for one, other in ("xy", "yz", "zx")),
            ),
            r"keeps x - y <= 0; y - z <= 0 as an equality: state them so \(LinearEquality\), or relax",
        ),
        (
            lambda: SearchSpace(
                unit(*"xy"),
                (LinearConstraint({"x": 1.0, "y": 1.0}, 1.0), LinearConstraint({"x": -1.0, "y": -1.0}, 1e-7 - 1.0)),
            ),
            r"keeps x \+ y <= 1 as an equality: state it so \(LinearEquality\), or relax",
        ),
        (
            lambda: SearchSpace(
                (Integer("n", 0, 1), Continuous("x", 0.0, 1.0)),
                (LinearConstraint({"x": 1.0, "n": -1.0}, 0.0), LinearConstraint({"x": 1.0, "n": 1.0}, 1.0)),
            ),
            "has x = 0, to a millionth of its bounds",
        ),
        (
            lambda: SearchSpace(
                (Integer("n", 0, 1), Continuous("x", 0.0, 1.0)),
                (LinearConstraint({"x": 1.0, "n": -1e3}, 0.0), LinearConstraint({"x": 1.0, "n": 1e3}, 1e3)),
            ),
            "has x = 0, to a millionth of its bounds",
        ),
        (
            lambda: SearchSpace(
                unit(*"xy"),
                tuple(QuadraticConstraint({("x", "x"): s, ("y", "y"): s}, {}, s * 0.5) for s in (1.0, -1.0)),
            ),
            r"x\^2 \+ y\^2 <= 0.5 and -x\^2 - y\^2 <= -0.5 are an equality together, and only linear ones",
        ),
        (
            lambda: SearchSpace(tuple(Integer(name, 0, 10**6) for name in "abc"), (total("abc", 10**6),)),
            "The whole numbers in .* have more partial sums than are counted: make one of them Continuous, or narrow",
        ),
    ],
)
def test_what_leaves_no_choice_is_refused_with_its_own_reason(build, message):
    with pytest.raises(SpaceError, match=message):
        build()
