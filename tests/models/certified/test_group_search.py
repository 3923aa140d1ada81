"""Sums maximised group by group: proofs against grids and enumeration, what is taken, limits, and what is refused."""

import itertools
import math

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.add_ucb import AddUCB
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess, interpolated
from fieldcraft.models.gaussian.grouped_kernel import GroupedKernel, constant
from fieldcraft.models.gaussian.grouped_process import GroupedPosterior
from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.maximizers._groups import group_spaces
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.grouped_gp import GroupedGP
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace

AXIS = np.linspace(-1, 1, 41)
TERMS = AddUCB()
DISCRETE = SearchSpace((Integer("n", 0, 4), Integer("m", -1, 1), Categorical("gas", ("N2", "Ar", "He"))))


def box(dimension, constraints=()):
    return SearchSpace(tuple(Continuous(f"x{i}", 0.0, 1.0) for i in range(dimension)), constraints)


def drawn(groups, n=12, kind="matern32", scale=0.5, seed=0, X=None, noise=1e-4):
    """A sum over groups of given size and scale, on a draw from itself."""
    d = sum(map(len, groups))
    rng = np.random.default_rng([seed, n, d])
    X = torch.tensor(rng.uniform(-1, 1, (n, d)) if X is None else X)
    sizes = [math.log((g + 1) / 3) for g in range(len(groups))]
    kernel = GroupedKernel.of(kind, groups, np.array([*sizes, *[math.log(scale)] * d, math.log(noise)]))
    factor = Factor.of(kernel(X, X), kernel.noise)
    targets = factor.lower @ torch.from_numpy(rng.standard_normal(len(X)))
    return GroupedPosterior(kernel, X, targets, factor, 0.0, Scaling(0.0, 1.0, 1.0), constant(factor, targets))


def score_of(made, acquisition=TERMS, pending=None):
    data = Observations(made.X.numpy(), made.targets.numpy(), maximize=False)
    waiting = torch.empty(0, made.X.shape[1], dtype=torch.float64) if pending is None else torch.tensor(pending)
    return acquisition.score(made, data, waiting, 1, np.random.default_rng(0))


def values(score, X, slot=0, chosen=None):
    chosen = np.empty((0, X.shape[1])) if chosen is None else chosen
    with torch.no_grad():
        return score.value(torch.tensor(X), slot, torch.tensor(chosen)).numpy()


def grid(dimension, axis=AXIS):
    return np.array(list(itertools.product(axis, repeat=dimension)))


def certified(score, space, q=1, taken=None, **options):
    return Certified(**options).maximize(score, space, q, np.random.default_rng(0), taken)


def programmed(score, space, q=1, taken=None, **options):
    options = {"time_s": None, "form": "q", "n_samples": 64, "n_starts": 2, **options}
    return PKMIQP(**options).maximize(score, space, q, np.random.default_rng(0), taken)


@pytest.mark.parametrize("kind", ["matern12", "matern32", "matern52", "rbf"])
@pytest.mark.parametrize("groups", [((0,), (1,)), ((1,), (2, 0)), ((0,), (1,), (2,))])
def test_the_bound_is_above_joint_and_separate_grids_and_the_value_within_the_gap(kind, groups):
    made = drawn(groups, kind=kind)
    score, d = score_of(made), sum(map(len, groups))
    found = certified(score, box(d))
    (proof,) = found.certificates
    joint = values(score, grid(d)).max()
    means, variances = (m.detach().numpy() for m in made.parts(torch.tensor(grid(d))))
    apart = (2 * np.sqrt(variances) - means).max(axis=1).sum()
    assert apart == pytest.approx(joint, abs=1e-10)
    assert (proof.status, proof.bound_of) == ("optimal", "exact")
    assert proof.bound >= joint and proof.value >= joint - 1e-6 and proof.gap <= 0.01
    assert proof.value == pytest.approx(values(score, found.X)[0], abs=1e-12)


def test_the_programs_bound_the_sum_of_the_approximations():
    made = drawn(((0,), (1,)), n=6)
    score, gap = score_of(made), 0.03
    found = programmed(score, box(2), gap=gap)
    (proof,) = found.certificates
    nothing, axis = torch.empty(0, 2, dtype=torch.float64), np.linspace(-1, 1, 2001)[:, None]
    best = sum(
        PiecewiseProcess.of(term.part, term.optimism, box(1).bounds, form="q", tolerance=0.025).value(axis).max()
        for term in score.terms(nothing)
    )
    assert (proof.status, proof.bound_of) == ("optimal", "approximate")
    assert best - 1e-4 <= proof.bound <= best + gap + 0.01
    assert proof.value >= values(score, grid(2)).max() - 1e-6
    assert "pieces in q" in found.remarks["piecewise_kernel"]


def test_the_published_form_has_one_interpolated_covariance_of_all_groups():
    made = drawn(((0,), (2, 1)), n=8, noise=1e-3)
    terms = score_of(made).terms(torch.empty(0, 3, dtype=torch.float64))
    bounds = (box(1).bounds, box(2).bounds)
    exact = [PiecewiseProcess.of(t.part, t.optimism, b) for t, b in zip(terms, bounds, strict=True)]
    y = (made.targets - made.constant).numpy()
    found = interpolated(exact, [1 / 3, 2 / 3], y, 1e-3)
    X = made.X.numpy() / 0.5
    parts = [
        size * p.kernel.value(np.linalg.norm(X[:, None, g] - X[None, :, g], axis=-1))
        for size, p, g in zip((1 / 3, 2 / 3), exact, ([0], [2, 1]), strict=True)
    ]
    A = np.linalg.inv(sum(parts) + (1e-3 + found[0].shift) * np.eye(8))
    at = np.random.default_rng(1).uniform(-1, 1, (20, 2))
    k = found[1].kernel.value(found[1].distances(at)) * 2 / 3
    variance = 2 / 3 - np.einsum("ij,jk,ik->i", k, A, k)
    expected = np.where(variance < 0, -np.inf, 2 * np.sqrt(variance.clip(0)) - k @ A @ y)
    np.testing.assert_allclose(found[1].value(at), expected, atol=1e-8)
    said = programmed(score_of(made), box(3), exact_gram=False, nodes=1).remarks["gram_matrix"]
    assert said.startswith("interpolated; ")


def test_an_exact_process_is_a_sum_of_one_group_to_the_programs():
    made = drawn(((0, 1),), n=6)
    (term,) = score_of(made).terms(torch.empty(0, 2, dtype=torch.float64))
    X = np.random.default_rng(1).uniform(-1, 1, (9, 2))
    mean, variance = (m.numpy() for m in made.mean_var(torch.tensor(X)))
    exact = PiecewiseProcess.of(term.part, term.optimism, box(2).bounds, tolerance=1e-5)
    np.testing.assert_allclose(exact.value(X), 2 * np.sqrt(variance) - mean + made.constant, atol=2e-3)


def test_what_is_taken_gives_way_to_the_next_best_of_a_discrete_space_in_order():
    made = drawn(((0,), (2, 3, 4), (1,)), X=DISCRETE.sample(10, np.random.default_rng(2)), noise=0.05)
    score = score_of(made)
    X = DISCRETE.encode(
        [{"n": n, "m": m, "gas": gas} for n in range(5) for m in (-1, 0, 1) for gas in ("N2", "Ar", "He")]
    )
    X = X[np.argsort(-values(score, X), kind="stable")]
    for k in (0, 1, 2, 7, 30, 44):
        found = certified(score, DISCRETE, taken=X[:k], gap=1e-6)
        (proof,) = found.certificates
        np.testing.assert_array_equal(found.X[0], X[k])
        assert proof.status == "optimal" and values(score, X[[k]])[0] <= proof.bound <= proof.value + 1e-6
    with pytest.raises(ValueError, match=r"No point is left for place 1 of the batch: .* 45 of its points are taken"):
        certified(score, DISCRETE, taken=X)


def test_a_best_point_that_is_taken_in_a_box_gives_way_and_counts_in_the_bound():
    score = score_of(drawn(((0,), (1,))))
    for maximized in (certified, programmed):
        first = maximized(score, box(2), nodes=20)
        second = maximized(score, box(2), nodes=20, taken=first.X)
        assert np.abs(second.X - first.X).max() >= 1e-9
        assert first.value[0] - 0.05 <= second.value[0] <= first.value[0] <= second.certificates[0].bound


def test_each_place_believes_those_before_and_what_is_pending():
    pending = np.array([[0.3, -0.2], [0.9, 0.9]])
    score = score_of(drawn(((0,), (1,))), pending=pending)
    found = certified(score, box(2), q=3, taken=pending)
    for slot, proof in enumerate(found.certificates):
        now = values(score, grid(2), slot, found.X[:slot]).max()
        assert proof.status == "optimal" and proof.bound >= now and proof.value >= now - 0.01
        assert proof.value == pytest.approx(values(score, found.X[[slot]], slot, found.X[:slot])[0], abs=1e-12)
    assert (values(score, grid(2)) != values(score_of(drawn(((0,), (1,)))), grid(2))).any()


def test_constraints_within_a_group_hold_and_one_that_couples_groups_is_refused():
    cut = LinearConstraint({"x0": 1.0, "x2": 1.0}, 0.6)
    space, score = box(3, (cut,)), score_of(drawn(((1,), (2, 0))))
    A, b = space.linear
    X = grid(3)
    best = values(score, X[(b >= X @ A.T).all(axis=1)]).max()
    assert values(score, X).max() > best + 0.05
    found = certified(score, space)
    (proof,) = found.certificates
    space.check(space.decode(found.X)[0])
    assert proof.status == "optimal" and proof.bound >= best and proof.value >= best - 0.01
    apart = score_of(drawn(((0,), (1,), (2,))))
    for maximized in (certified, programmed):
        with pytest.raises(ValueError, match=r"x0 \+ x2 <= 0.6 couples groups .* put x0, x2 into one .*`maximizer: m"):
            maximized(apart, space)
    joint = Multistart(n_samples=256, n_starts=4).maximize(apart, space, 1, np.random.default_rng(0))
    space.check(space.decode(joint.X)[0])


@pytest.mark.parametrize("groups", [((1, 0), (2, 3, 4)), ((2, 3, 4, 1), (0,))])
def test_a_group_may_order_its_variables_in_another_way_than_the_space(groups):
    variables = Continuous("x", 0.0, 1.0), Integer("n", 0, 3), Categorical("gas", ("N2", "Ar", "He"))
    space = SearchSpace(variables, (LinearConstraint({"n": 1.0}, 2.5),))
    score = score_of(drawn(groups, X=space.sample(10, np.random.default_rng(4))))
    designs = [
        {"x": x, "n": n, "gas": gas}
        for x, n, gas in itertools.product(np.linspace(0, 1, 301), range(3), ("N2", "Ar", "He"))
    ]
    best = values(score, space.encode(designs)).max()
    for maximized, slack in ((certified, 0.0), (programmed, 0.5)):
        found = maximized(score, space)
        (proof,) = found.certificates
        space.check(space.decode(found.X)[0])
        np.testing.assert_array_equal(found.X, space.repair(found.X))
        assert proof.bound >= best - slack and proof.value >= best - 0.02


def test_a_group_of_one_single_value_has_nothing_to_search():
    space = SearchSpace((Continuous("x0", 0.0, 1.0), Integer("n", 3, 3)))
    score = score_of(drawn(((0,), (1,)), n=6, X=space.sample(6, np.random.default_rng(3))))
    line = np.stack([AXIS, 0 * AXIS], axis=1)
    for maximized in (certified, programmed):
        found = maximized(score, space)
        assert found.X[0, 1] == 0.0 and found.certificates[0].status == "optimal"
        assert found.value[0] >= values(score, line).max() - 0.02


def test_a_variable_in_two_groups_is_refused():
    with pytest.raises(
        ValueError, match="The variable 'gas' has coordinates in two groups: fit the surrogate to obser"
    ):
        group_spaces(DISCRETE, ((0,), (1,), (2, 3), (4,)))


@pytest.mark.parametrize(("limit", "status"), [({"nodes": 4}, "node_limit"), ({"time_s": 1e-9}, "time_limit")])
def test_a_limit_is_shared_and_ends_it_with_a_bound_that_holds(limit, status):
    score = score_of(drawn(((0,), (1, 2)), scale=0.3, n=20))
    found = certified(score, box(3), gap=1e-4, **limit)
    (proof,) = found.certificates
    assert proof.status == status and proof.gap > 1e-4
    assert proof.bound >= values(score, grid(3)).max()
    assert "nodes" not in limit or proof.nodes <= 4


def test_ucb_of_the_whole_is_refused_for_it_is_no_sum():
    made = drawn(((0,), (1,)))
    for maximized in (certified, programmed):
        with pytest.raises(ValueError, match="posterior is a GroupedPosterior: use the surrogate exact_gp"):
            maximized(score_of(made, UCB()), box(2))


def test_michalewicz_in_five_dimensions_is_certified_to_a_hundredth_of_a_standard_deviation():
    def f(X):
        x, i = (X + 1) * np.pi / 2, np.arange(1, 6)
        return -(np.sin(x) * np.sin(i * x**2 / np.pi) ** 20).sum(axis=1)

    rng = np.random.default_rng(0)
    X, space = rng.uniform(-1, 1, (25, 5)), box(5)
    for _ in range(3):
        data = Observations(X, f(X), maximize=False, columns=space.columns)
        made = GroupedGP(kernel="matern32", restarts=0).fit(data, rng, None, no_report)
        score = score_of(made, AddUCB("growing"))
        found = certified(score, space, taken=X)
        (proof,) = found.certificates
        assert proof.status == "optimal" and proof.gap <= 0.01 and proof.nodes < 2000
        assert proof.bound >= values(score, rng.uniform(-1, 1, (2000, 5))).max()
        X = np.vstack([X, found.X])


def test_a_term_has_the_kernel_of_variance_one():
    made = drawn(((0,), (1, 2)), kind="matern52")
    part = made.terms[1]
    apart = (made.X[:, None, 1:] - made.X[:, 1:]) / part.length_scales
    K = Radial("matern52").value(apart.square().sum(-1))
    torch.testing.assert_close(part.size**2 * K, made.kernel.part(1, made.X, made.X), atol=1e-12, rtol=0)
