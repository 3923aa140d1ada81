"""Multistart against dense grids and against optima that can be written down."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.point_sets import is_feasible, sobol_points, take
from fieldcraft.models.observations import Observations
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace

LINE = SearchSpace((Continuous("x", -1.0, 1.0),))
SQUARE = SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0)))


class Formula:
    """A score given by a formula of X (n, d)."""

    def __init__(self, formula):
        self.formula = formula

    def value(self, X, slot, chosen):
        return self.formula(X)


def wavy(X):
    return (torch.sin(13 * X) * torch.cos(5 * X + 0.3)).sum(dim=1) - 0.4 * X.square().sum(dim=1)


def maximize(formula, space, q=1, seed=0, **settings):
    return Multistart(**settings).maximize(Formula(formula), space, q, np.random.default_rng(seed))


def test_maximum_on_a_line_is_that_of_a_dense_grid():
    grid = torch.linspace(-1, 1, 200_001, dtype=torch.float64).unsqueeze(-1)
    found = maximize(wavy, LINE, n_samples=64, n_starts=8)
    assert found.value[0] >= wavy(grid).max()
    assert found.X[0, 0] == pytest.approx(float(grid[wavy(grid).argmax(), 0]), abs=2e-5)


def test_maximum_on_a_square_is_that_of_a_dense_grid():
    axis = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    values = wavy(axis.unsqueeze(-1))
    best = axis[values.argmax()]  # the formula is a sum over coordinates
    found = maximize(wavy, SQUARE)
    assert found.value[0] >= 2 * values.max()
    np.testing.assert_allclose(found.X[0], [best, best], atol=2e-3)


class Anchored(Formula):
    """A score that tells of points near which it may be largest."""

    anchors = torch.full((1, 8), 0.31, dtype=torch.float64)


def test_a_narrow_peak_near_an_anchor_is_found_where_samples_of_the_space_miss_it():
    cube = SearchSpace(tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(8)))

    def peaked(X):
        return torch.exp(-(X - 0.3).square().sum(dim=1) / (2 * 0.05**2)) - 0.01 * X[:, 0]

    for score, found in ((Formula(peaked), False), (Anchored(peaked), True)):
        best = Multistart().maximize(score, cube, 1, np.random.default_rng(0))
        assert (best.value[0] > 0.99) == found


class Bounded(Anchored):
    """The same under bounds, at or near which its anchors are."""

    def excess(self, X, slot, chosen):
        return 0 * X[:, :1] - 1


@pytest.mark.parametrize("corner", [(1, -1, -1, 1), (-1, -1, -1, -1)])
def test_a_narrow_peak_at_a_corner_is_found_where_a_score_has_anchors(corner):
    cube, at = SearchSpace(tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(4))), torch.tensor(corner)

    def peaked(X):
        return (1 - 50 * (X - at).abs().amax(dim=1)).clamp_min(0) - 0.01 * X[:, 0]

    for score, found in ((Formula(peaked), False), (Anchored(peaked), True), (Bounded(peaked), False)):
        score.anchors = Anchored.anchors[:, :4] if score.__class__ is not Formula else None
        best = Multistart().maximize(score, cube, 1, np.random.default_rng(0))
        assert (best.value[0] > 0.9) == found


def test_maximum_at_a_corner_is_reached_exactly():
    found = maximize(lambda X: X[:, 0] - 2 * X[:, 1], SQUARE)
    np.testing.assert_array_equal(found.X, [[1.0, -1.0]])


def test_a_smooth_maximum_is_found_to_rounding():
    centre = torch.tensor([0.123456789, -0.3], dtype=torch.float64)
    found = maximize(lambda X: -((X - centre) ** 2).sum(dim=1), SQUARE, n_samples=16, n_starts=4)
    np.testing.assert_allclose(found.X[0], centre, atol=1e-8)


def test_a_maximum_along_a_bent_ridge_is_reached_by_the_leaders():
    def ridge(X):
        return -(30 * (X[:, 1] - X[:, 0] ** 2).square() + 0.1 * (X[:, 0] - 0.6).square())

    found = maximize(ridge, SQUARE, n_samples=32, n_starts=4)
    np.testing.assert_allclose(found.X[0], [0.6, 0.36], atol=1e-3)


def test_linear_constraints_that_are_active_at_the_optimum_are_respected():
    # KS224 (Hock and Schittkowski, 1981; PK-MIQP): the least value on [0, 6]^2 is -304, at (4, 4).
    space = SearchSpace(
        (Continuous("x", 0.0, 6.0), Continuous("y", 0.0, 6.0)),
        (
            LinearConstraint({"x": 1.0, "y": 1.0}, 8.0),
            LinearConstraint({"x": -1.0, "y": -3.0}, 0.0),
            LinearConstraint({"x": 1.0, "y": 3.0}, 18.0),
            LinearConstraint({"x": -1.0, "y": -1.0}, 0.0),
        ),
    )

    def minus_ks224(X):
        x, y = 3 * X[:, 0] + 3, 3 * X[:, 1] + 3
        return -(2 * x**2 + y**2 - 48 * x - 40 * y)

    found = maximize(minus_ks224, space, n_samples=128, n_starts=4)
    design = space.decode(found.X)[0]
    space.check(design)
    assert (design["x"], design["y"]) == pytest.approx((4.0, 4.0), abs=1e-5)
    assert found.value[0] == pytest.approx(304.0, abs=1e-6)


def test_the_search_goes_along_a_constraint_and_does_not_stop_where_it_meets_it():
    space = SearchSpace(SQUARE.variables, (LinearConstraint({"x": 1.0, "y": 1.0}, 0.8),))
    # With a = x - 0.9 and b = y - 0.9: the least 10 a^2 + b^2 on a + b = -1 is 10/11, at a = -1/11.
    found = maximize(lambda X: -10 * (X[:, 0] - 0.9) ** 2 - (X[:, 1] - 0.9) ** 2, space, n_samples=64, n_starts=4)
    np.testing.assert_allclose(found.X[0], [0.9 - 1 / 11, 0.9 - 10 / 11], atol=1e-6)
    assert found.value[0] == pytest.approx(-10 / 11, abs=1e-7)


def test_a_steep_and_rough_score_leads_to_no_infeasible_point():
    # Slopes differ by e^20 and more over the box: SLSQP then leaves the constraints by as much as 1.
    variables = tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(3))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        constraints = [
            LinearConstraint(dict(zip(("x0", "x1", "x2"), rng.normal(size=3).tolist(), strict=True)), upper)
            for upper in rng.uniform(0, 0.5, size=4).tolist()
        ]
        space = SearchSpace(variables, tuple(constraints))
        W = torch.tensor(30 * rng.normal(size=(3, 5)))

        def rough(X, W=W):
            return torch.exp(10 * X.sum(dim=1)) * (2 + torch.sin(X @ W).mean(dim=1) - 0.01 * (X @ W).abs().mean(dim=1))

        found = maximize(rough, space, n_samples=32, n_starts=4, max_iterations=30)
        assert is_feasible(space, found.X).all()
        np.testing.assert_array_equal(space.repair(found.X), found.X)


def test_a_constraint_of_mixed_variables_is_respected():
    space = SearchSpace(
        (Continuous("t", 0.0, 10.0), Integer("n", 0, 4)), (LinearConstraint({"t": 1.0, "n": 2.0}, 11.0),)
    )
    # In physical units t + 3 n: the most is 15, at n = 4 and t = 3.
    found = maximize(lambda X: 5 * (X[:, 0] + 1) + 3 * 2 * (X[:, 1] + 1), space, n_samples=256)
    design = space.decode(found.X)[0]
    assert design["n"] == 4
    assert design["t"] == pytest.approx(3.0, abs=1e-7)
    assert is_feasible(space, found.X).all()


def test_the_value_is_that_of_the_rounded_point():
    space = SearchSpace((Integer("n", 0, 10), Continuous("t", 0.0, 1.0)))
    # Highest between 6 and 7; of the whole numbers 7 is the better one.
    formula = lambda X: -((5 * X[:, 0] + 5 - 6.6) ** 2) - (X[:, 1] - 0.2) ** 2  # noqa: E731
    found = maximize(formula, space)
    assert space.decode(found.X)[0]["n"] == 7
    assert found.value[0] == pytest.approx(-0.16, abs=1e-12)
    assert found.X[0, 1] == pytest.approx(0.2, abs=1e-7)


def test_the_best_category_is_found_together_with_its_own_optimum():
    space = SearchSpace((Categorical("metal", ("iron", "copper", "tin")), Continuous("x", -1.0, 1.0)))
    optimum = torch.tensor([-0.5, 0.1, 0.7], dtype=torch.float64)
    height = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    formula = lambda X: X[:, :3] @ height - (X[:, 3] - X[:, :3] @ optimum) ** 2  # noqa: E731
    found = maximize(formula, space, n_samples=64)
    assert space.decode(found.X) == [{"metal": "tin", "x": pytest.approx(0.7, abs=1e-7)}]


def test_a_small_discrete_space_is_searched_in_full():
    space = SearchSpace((Integer("a", 0, 30), Integer("b", 0, 30)))
    for design in space.decode(space.sample(12, np.random.default_rng(5))):
        needle = torch.tensor(space.encode([design])[0])
        found = maximize(lambda X, needle=needle: torch.all(needle == X, dim=1).double(), space, n_samples=31 * 31)
        assert space.decode(found.X) == [design]


@pytest.mark.parametrize("n_samples", [12, 4])  # the whole space at once, and less than it
def test_a_batch_from_a_discrete_space_has_no_point_twice(n_samples):
    space = SearchSpace((Integer("n", 1, 4), Categorical("side", ("left", "middle", "right"))))
    found = maximize(lambda X: X[:, 0], space, q=6, n_samples=n_samples, n_starts=2)
    assert len({tuple(design.items()) for design in space.decode(found.X)}) == 6


@pytest.mark.parametrize("n_samples", [20, 4])  # the whole space at once, and less than it
def test_the_last_free_point_of_a_discrete_space_is_found(n_samples):
    space = SearchSpace((Integer("n", 1, 20),))
    taken = space.encode([{"n": n} for n in range(1, 21) if n != 13])
    found = Multistart(n_samples=n_samples, n_starts=2).maximize(
        Formula(lambda X: -X[:, 0]), space, 1, np.random.default_rng(0), taken
    )
    assert space.decode(found.X) == [{"n": 13}]


def test_the_peak_that_is_taken_gives_way_to_a_point_beside_it():
    formula, taken = (lambda X: X.sum(dim=1)), np.array([[1.0, 1.0]])
    found = Multistart().maximize(Formula(formula), SQUARE, 2, np.random.default_rng(0), taken)
    assert np.abs(found.X - 1).max(axis=1).min() > 1e-9
    assert found.value.min() > 1.9


def test_a_better_combination_of_discrete_values_is_reached_from_the_best_of_few_samples():
    space = SearchSpace((Continuous("t", -1.0, 1.0), Integer("n", 0, 400), Categorical("c", ("a", "b", "c"))))

    def formula(X):
        n, c = 200 * (X[:, 1] + 1), X[:, 2:] @ torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
        return -((n - 37).abs() / 10) - (X[:, 0] - 0.1 * c) ** 2 + c

    found = maximize(formula, space, n_samples=8, n_starts=2)
    assert space.decode(found.X) == [{"t": pytest.approx(0.2, abs=1e-6), "n": 37, "c": "c"}]


def test_a_batch_larger_than_a_discrete_space_is_refused():
    space = SearchSpace((Integer("n", 1, 3),))
    with pytest.raises(ValueError, match="No point is left for place 4 of the batch: the space is discrete"):
        maximize(lambda X: X[:, 0], space, q=4)


def test_later_places_see_the_points_chosen_before_them():
    class Repelled:
        def value(self, X, slot, chosen):
            assert slot == len(chosen)
            near = torch.exp(-((X[:, None] - chosen[None]) ** 2).sum(dim=-1) / 0.01).sum(dim=1)
            return -X.square().sum(dim=1) - 5 * near

    found = Multistart(n_samples=256).maximize(Repelled(), SQUARE, 4, np.random.default_rng(0))
    distances = np.linalg.norm(found.X[:, None] - found.X[None], axis=-1)[np.triu_indices(4, 1)]
    assert distances.min() > 0.1
    assert np.linalg.norm(found.X[0]) < 1e-7


def test_the_result_is_never_worse_than_the_best_sample():
    # One sample sits on a step that its gradient does not see, and the search leaves it for the sake of the others.
    samples = take(sobol_points(LINE, np.random.default_rng(0)), 32)
    lucky = float(samples[np.argsort(samples[:, 0])[10], 0])

    def formula(X):
        return ((X[:, 0] - lucky).abs() < 1e-3).double() + 0.3 * torch.sin(12 * X[:, 0])

    found = maximize(formula, LINE, n_samples=32, n_starts=16)
    assert found.value[0] >= formula(torch.tensor(samples)).max()


def test_one_start_on_each_hill_is_improved():
    # A broad hill on which the best samples lie, and a narrow one that is higher.
    def formula(X):
        x = X[:, 0]
        return torch.exp(-((x + 0.5) ** 2) / 0.1) + 1.5 * torch.exp(-((x - 0.7137) ** 2) / 2e-5)

    found = maximize(formula, LINE, n_samples=128, n_starts=4)
    assert found.X[0, 0] == pytest.approx(0.7137, abs=1e-4)


def test_a_start_on_a_hill_below_all_of_the_best_samples_is_improved():
    # Dozens of samples on the broad hill are better than any on the narrow one, whose top is higher.
    def formula(X):
        x = X[:, 0]
        return torch.maximum(-((x + 0.5) ** 2), 1.0 - 0.3 * torch.log1p(((x - 0.7137) / 1e-4) ** 2))

    found = maximize(formula, LINE, n_samples=512, n_starts=2)
    assert found.X[0, 0] == pytest.approx(0.7137, abs=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_an_error_and_no_choice(bad):
    formula = lambda X: torch.where(X[:, 0] > 0.9, bad, X[:, 0])  # noqa: E731
    with pytest.raises(ValueError, match=rf"The score or its gradient is {bad} at the encoded point \[0.9"):
        maximize(formula, SQUARE)


def test_a_gradient_that_is_not_finite_is_an_error():
    formula = lambda X: torch.sqrt(torch.relu(X[:, 0] + 2) * 0) + X[:, 0]  # noqa: E731
    with pytest.raises(ValueError, match="The score or its gradient is nan"):
        maximize(formula, SQUARE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 0}, "n_samples is 0: it must be at least 1"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"n_samples": 4, "n_starts": 8}, "n_starts is 8 and n_samples 4.*lower n_starts"),
    ],
)
def test_settings_that_make_no_search_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Multistart(**settings)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="q is 0: a batch has at least one place"):
        maximize(wavy, LINE, q=0)


@pytest.mark.parametrize(("slope", "reached"), [(1e-3, True), (1e-8, False)])
def test_a_hop_from_one_whole_number_to_the_next_must_gain_more_than_rounding(slope, reached):
    space = SearchSpace((Integer("n", 0, 40), Continuous("t", -1.0, 1.0)))
    found = maximize(lambda X: slope * X[:, 0] - X[:, 1].square(), space, n_samples=4, n_starts=1, seed=3)
    assert (found.X[0, 0] == 1.0) == reached


def test_the_starts_of_an_ascent_are_evaluated_with_gradients_once():
    space, asked = SQUARE, []

    class Sloped(Formula):
        def value_and_grad(self, X, slot, chosen):
            asked.append(X.numpy().tobytes())
            return -X.square().sum(dim=1), -2 * X

    Multistart(n_samples=16, n_starts=4).maximize(
        Sloped(lambda X: -X.square().sum(dim=1)), space, 1, np.random.default_rng(0)
    )
    assert len(set(asked)) == len(asked) > 1


class Peaked(Formula):
    """A broad hill of height ``low``, and at the place (0.31, -0.47) a peak of height 0 and width 1e-3."""

    peak = torch.tensor([0.31, -0.47], dtype=torch.float64)

    def __init__(self, low, faint):
        self.low, self.faint = low, faint

    def value(self, X, slot, chosen):
        hill = self.low - (X - torch.tensor([-0.5, 0.5])).square().sum(dim=1)
        return torch.maximum(hill, -((X - self.peak) / 1e-3).square().sum(dim=1))


@pytest.mark.parametrize(("faint", "found"), [(-6.9, True), (-8.1, False)])
def test_a_narrow_peak_is_looked_for_where_the_whole_space_promises_little(faint, found):
    best = Multistart(n_samples=256, n_starts=8).maximize(Peaked(-8.0, faint), SQUARE, 1, np.random.default_rng(0))
    there = Peaked.peak.numpy() if found else [-0.5, 0.5]
    np.testing.assert_allclose(best.X[0], there, atol=1e-5)
    assert best.value[0] == pytest.approx(0.0 if found else -8.0, abs=1e-6)


def test_a_peak_that_is_lower_than_what_was_found_is_left():
    class Low(Formula):
        peak, faint = Peaked.peak, np.inf

    def away(X):
        return -(X - torch.tensor([-0.9, 0.9])).square().sum(dim=1)

    found, alone = (
        Multistart(n_samples=16, n_starts=0).maximize(each, SQUARE, 1, np.random.default_rng(0))
        for each in (Low(away), Formula(away))
    )
    np.testing.assert_array_equal(found.X, alone.X)
    assert found.value == alone.value


def test_where_nothing_is_left_beside_a_peak_what_was_found_stays():
    class Low(Formula):
        peak, faint = torch.tensor([-1.0, -1.0], dtype=torch.float64), np.inf

    equal = tuple(LinearConstraint({"a": sign, "b": -sign}, 0.5) for sign in (1.0, -1.0))
    space = SearchSpace((Integer("a", 0, 99), Integer("b", 0, 99)), equal)
    taken = space.encode([{"a": n, "b": n} for n in range(90)])
    search = Multistart(n_samples=16, n_starts=2)
    found = search.maximize(Low(lambda X: X.sum(dim=1)), space, 1, np.random.default_rng(0), taken)
    assert space.decode(found.X)[0]["a"] >= 90


class Well:
    """Beliefs in a narrow well about a known place, and in a doubtful plain that is worse by far elsewhere."""

    place = torch.tensor([0.2, -0.3, 0.1, 0.4, -0.6, 0.0], dtype=torch.float64)

    def mean_var(self, X):
        near = torch.exp(-(X - self.place).square().sum(dim=1) / (2 * 0.1**2))
        return 2 * (1 - near) - 0.001 * torch.sin(3 * X.sum(dim=1)), (1e-3 + 0.5 * (1 - near)) ** 2


def test_an_improvement_too_small_for_the_samples_of_the_space_is_found_beside_the_best_design():
    space = SearchSpace(tuple(Continuous(f"x{k}", -1.0, 1.0) for k in range(6)))
    rows = np.vstack([np.random.default_rng(3).uniform(-1, 1, (20, 6)), Well.place + 1e-3])
    data = Observations(rows, Well().mean_var(torch.tensor(rows))[0].numpy(), maximize=False, noise_sd=1e-3)
    score = LogEI().score(Well(), data, torch.empty((0, 6), dtype=torch.float64), 1, np.random.default_rng(0))
    found, without = (
        Multistart().maximize(each, space, 1, np.random.default_rng(0))
        for each in (score, replace(score, faint=-np.inf))
    )
    at_best = float(score.value(score.peak[None], 0, torch.empty((0, 6), dtype=torch.float64))[0])
    assert without.value[0] < at_best <= found.value[0]
    assert np.abs(found.X[0] - Well.place.numpy()).max() < 0.05 < np.abs(without.X[0] - Well.place.numpy()).max()
