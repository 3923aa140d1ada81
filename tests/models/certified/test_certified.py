"""The certified maximizer: bounds that nothing exceeds, optima that nothing beats, limits, and what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.pi import PI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.certified.box_region import Region
from fieldcraft.models.certified.posterior_bounds import Process, ScoreBounds
from fieldcraft.models.gaussian.draws import pathwise
from fieldcraft.models.gaussian.kernel_bounds import Planes, Quadratics, Radial
from fieldcraft.models.gaussian.process import Fit, build, posterior
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Categorical, Continuous, Image, Integer, LinearConstraint, SearchSpace

KERNELS = ("matern12", "matern32", "matern52", "rbf")
ACQUISITIONS = {"ucb": UCB(), "log_ei": LogEI(), "pi": PI(margin=0.1)}
# Coordinates, trials, length scale in the unit cube, trials close to one another, boxes.
DATA = (
    (1, 20, 0.03, 0, 600),
    (2, 40, 0.3, 15, 700),
    (3, 60, 1.0, 0, 600),
    (2, 30, 5.0, 0, 500),
    (3, 300, 0.3, 60, 100),
)


def box(dimension):
    return SearchSpace(tuple(Continuous(f"x{i}", 0.0, 1.0) for i in range(dimension)))


def process(dimension, n, scale, kernel="matern32", close=0, seed=0, X=None):
    """An exact process with given length scale on a draw from itself at random points, the last ``close`` together."""
    rng = np.random.default_rng([seed, dimension, n])
    X = rng.uniform(-1, 1, (n, dimension)) if X is None else X
    X[n - close :] = np.clip(X[0] + 0.02 * rng.standard_normal((close, dimension)), -1, 1)
    return given(X, lambda K: torch.linalg.cholesky(K) @ torch.from_numpy(rng.standard_normal(n)), scale, kernel)


def given(X, targets, scale, kernel="matern32", noise=1e-6):
    """The process with this length scale and targets, which may be a function of the covariance of results."""
    X, known = torch.tensor(X), torch.tensor(noise, dtype=torch.float64)
    model = build(kernel, X, torch.zeros(len(X), dtype=torch.float64), known)
    parameters = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    parameters["covar_module.raw_lengthscale"] += scale
    flat = Fit(kernel, X, torch.zeros(len(X), dtype=torch.float64), known, parameters, {})
    made = posterior(flat, Scaling(0.0, 1.0, 1.0), pathwise, {})
    if callable(targets):
        lower = made.factor.lower
        targets = targets(lower @ lower.mT)
        targets = (targets - targets.mean()) / targets.std()
    return posterior(Fit(kernel, X, targets, known, parameters, {}), made.scaling, pathwise, {})


def score_of(made, acquisition, pending=None):
    X = made.fit.X
    data = Observations(X.numpy(), made.fit.targets.numpy(), maximize=False)
    waiting = torch.empty(0, X.shape[1], dtype=torch.float64) if pending is None else torch.tensor(pending)
    return acquisition.score(made, data, waiting, 1, np.random.default_rng(0))


def values(score, X, slot=0, chosen=None):
    chosen = np.empty((0, X.shape[1])) if chosen is None else chosen
    with torch.no_grad():
        return score.value(torch.tensor(X), slot, torch.tensor(chosen)).numpy()


def certified(score, space, q=1, taken=None, **options):
    return Certified(**options).maximize(score, space, q, np.random.default_rng(0), taken)


def some_boxes(X, n, rng):
    """Corners of random boxes of all sizes, half of them about points of X (m, d)."""
    width = 10 ** rng.uniform(-4, 0.3, (n, 1)) * rng.uniform(0.2, 1, (n, X.shape[1]))
    middle = rng.uniform(-1, 1, (n, X.shape[1]))
    middle[::2] = X[rng.integers(len(X), size=len(middle[::2]))]
    middle[::4] += rng.uniform(-0.7, 0.7, (len(middle[::4]), X.shape[1])) * width[::4]
    corners = np.clip(middle - width / 2, -1, 1), np.clip(middle + width / 2, -1, 1)
    return torch.tensor(corners[0]), torch.tensor(corners[1])


def within(lower, upper, n, rng):
    """n points of each box, shape (B, n, d): a quarter of them corners."""
    share = rng.random((len(lower), n, lower.shape[1]))
    share[:, : n // 4] = share[:, : n // 4].round()
    return lower[:, None] + torch.tensor(share) * (upper - lower)[:, None]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("data", DATA, ids=str)
def test_none_of_400_samples_exceeds_the_ceiling_of_its_box(kernel, data):
    dimension, n, scale, close, boxes = data
    rng = np.random.default_rng(3)
    made = process(dimension, n, scale, kernel, close)
    core = Process.of(made, "cpu")
    lower, upper = some_boxes(made.fit.X.numpy(), boxes, rng)
    X = within(lower, upper, 400, rng)
    # A plane through each region: some boxes lie on one side, some are cut.
    normal = torch.tensor(rng.standard_normal((1, dimension)))
    offset = torch.tensor(rng.uniform(-0.3, 0.3, 1))
    allowed = (X @ normal.mT <= offset).squeeze(-1)
    with torch.no_grad():
        moments = [torch.cat(m) for m in zip(*map(core.moments, X.reshape(-1, dimension).split(4096)), strict=True)]
    for acquisition in ACQUISITIONS.values():
        score = score_of(made, acquisition)
        bounds = ScoreBounds(core, score)
        found = score.worth(*moments).reshape(boxes, 400)
        free = bounds.bounds(lower, upper, normal[:0], offset[:0]).ceiling
        assert (found.amax(1) <= free).all()
        cut = bounds.bounds(lower, upper, normal, offset).ceiling
        assert (torch.where(allowed, found, -torch.inf).amax(1) <= cut).all()
        assert (cut <= free + 1e-9 * (1 + free.abs())).all()


def test_the_least_value_of_a_quadratic_is_that_of_a_grid_and_with_planes_not_above_it():
    rng = np.random.default_rng(4)
    base, linear, square = (torch.tensor(rng.standard_normal(shape)) for shape in (200, (200, 2), (200, 2)))
    linear[:50, 0], square[50:80, 1] = 0.0, 0.0
    half = torch.tensor(rng.uniform(0, 1, (200, 2)))
    share = torch.tensor(list(itertools.product(np.linspace(-1, 1, 81), repeat=2)))
    at = share * half[:, None]
    found = base[:, None] + (linear[:, None] * at + square[:, None] * at.square()).sum(-1)
    quadratics = Quadratics(base, linear, square)
    free = quadratics.least(half, Planes(linear[:0], base[:, None][:, :0]))
    torch.testing.assert_close(free, found.amin(1), atol=1e-3, rtol=0)
    assert (free <= found.amin(1) + 1e-12).all()
    normals, slack = torch.tensor([[1.0, 0.5], [-0.3, 1.0]]), torch.tensor(rng.uniform(-0.2, 0.2, (200, 2)))
    allowed = (at @ normals.to(at).mT <= slack[:, None]).all(-1)
    cut = quadratics.least(half, Planes(normals.to(at), slack))
    assert (cut <= torch.where(allowed, found, torch.inf).amin(1) + 1e-12).all()
    assert (cut >= free - 1e-12).all()
    convex = (square > 0.2).all(1) & allowed.any(1)
    loss = torch.where(allowed, found, torch.inf).amin(1) - cut
    assert convex.sum() > 20 and loss[convex].median() < 0.02 < (cut - free)[convex].max()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_third_derivative_is_bounded_in_every_direction_and_attained(kernel):
    radial = Radial(kernel)
    r, cosine = torch.meshgrid(
        torch.linspace(0.02, 6, 300, dtype=torch.float64), torch.linspace(0, 1, 101, dtype=torch.float64), indexing="ij"
    )
    t = torch.zeros_like(r, requires_grad=True)
    value = radial.value(r.square() + 2 * t * r * cosine + t.square())
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), t, create_graph=True)
    largest = value.detach().abs().amax(1)
    from_here_on = largest.flip(0).cummax(0).values.flip(0)
    bound = radial.third(r[:, 0].square())
    assert (bound >= from_here_on * (1 - 1e-12)).all()
    assert (bound <= 1.01 * from_here_on).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_slopes_are_derivatives_and_the_kernel_is_that_of_the_process(kernel):
    radial, made = Radial(kernel), process(2, 8, 0.4, kernel)
    q = torch.linspace(0.01, 9, 50, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(radial.value(q).sum(), q, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), q)
    torch.testing.assert_close(radial.slope(q), slope)
    torch.testing.assert_close(radial.bend(q), bend)
    with torch.no_grad():
        squares = ((made.fit.X[:, None] - made.fit.X) / made.length_scales).square().sum(-1)
        torch.testing.assert_close(radial.value(squares), made.kernel(made.fit.X, made.fit.X), atol=1e-7, rtol=0)


def solved(matrix, right):
    """matrix^-1 right in exact arithmetic, for numbers that are floats."""
    rows = [[*map(Fraction, row), Fraction(b)] for row, b in zip(matrix.tolist(), right.tolist(), strict=True)]
    for i, row in enumerate(rows):
        rows[i] = row = [value / row[i] for value in row]
        rows[i + 1 :] = [[a - r[i] * b for a, b in zip(r, row, strict=True)] for r in rows[i + 1 :]]
    found = []
    for i in reversed(range(len(rows))):
        found.insert(0, rows[i][-1] - sum(a * b for a, b in zip(rows[i][i + 1 : -1], found, strict=True)))
    return found


def test_the_rounding_of_a_variance_is_within_what_is_allowed_for():
    made = process(2, 14, 5.0, "rbf")
    core, noise = Process.of(made, "cpu"), torch.eye(14) * made.noise_variance
    X = torch.tensor(np.random.default_rng(1).uniform(-1, 1, (5, 2)))

    def radial(A, B):
        return core.radial.value(((A[:, None] - B) / made.length_scales).square().sum(-1))

    matrix, cross = radial(made.fit.X, made.fit.X) + noise, radial(X, made.fit.X)
    errors = []
    for k, sd in zip(cross, core.moments(X)[1], strict=True):
        exact = 1 - sum(Fraction(a) * b for a, b in zip(k.tolist(), solved(matrix, k), strict=True))
        errors.append(abs(float(exact) - float(sd) ** 2))
    assert 1e-16 < max(errors) <= core.error < 1e-9


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_a_score_of_moments_is_what_the_bounds_take_it_for(acquisition):
    made = process(2, 20, 0.3)
    score, rng = score_of(made, acquisition), np.random.default_rng(5)
    X = torch.tensor(rng.uniform(-1, 1, (200, 2)))
    bounds = ScoreBounds(Process.of(made, "cpu"), score)
    np.testing.assert_allclose(bounds.value(X), values(score, X.numpy()), rtol=1e-6, atol=1e-6)
    one, other = (torch.tensor([2.0, 1.0]) * torch.tensor(rng.uniform(0.01, 1, (500, 2))) for _ in range(2))
    between = score.worth(*((one + other) / 2).mT)
    assert (between <= torch.maximum(score.worth(*one.mT), score.worth(*other.mT)) + 1e-9).all()
    assert (score.worth(one[:, 0] + 0.1, one[:, 1]) <= score.worth(*one.mT)).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_the_gradient_of_a_score_is_the_automatic_one(kernel, acquisition):
    made = process(3, 20, 0.3, kernel)
    bounds = ScoreBounds(Process.of(made, "cpu"), score_of(made, acquisition))
    X = torch.tensor(np.random.default_rng(5).uniform(-1, 1, (50, 3)), requires_grad=True)
    expected = bounds.value(X)
    value, gradient = bounds.value_and_grad(X.detach())
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), X)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
@pytest.mark.parametrize("dimension", [1, 2])
def test_a_dense_grid_lies_below_the_bound_and_within_the_gap_of_the_value(kernel, acquisition, dimension):
    score = score_of(process(dimension, 12 * dimension, 0.15, kernel), acquisition)
    axes = [np.linspace(-1, 1, 2001 if dimension == 1 else 101)] * dimension
    best = values(score, np.array(list(itertools.product(*axes)))).max()
    found = certified(score, box(dimension), gap=0.02)
    (proof,) = found.certificates
    assert (proof.status, proof.bound_of) == ("optimal", "exact")
    assert proof.bound >= best and found.value[0] >= best - 0.02 and proof.gap <= 0.02
    assert found.value[0] == pytest.approx(values(score, found.X)[0], abs=1e-10)


def rival(score, dimension, rng):
    """The best value of 10,000 samples and of L-BFGS-B from the best 20 of them."""
    X = rng.uniform(-1, 1, (10_000, dimension))
    found = np.concatenate([values(score, x) for x in np.split(X, 10)])
    nothing = torch.empty(0, dimension, dtype=torch.float64)

    def loss(flat):
        X = torch.tensor(flat.reshape(20, dimension), requires_grad=True)
        total = -score.value(X, 0, nothing).sum()
        return total.item(), torch.autograd.grad(total, X)[0].numpy().ravel()

    starts = X[np.argsort(-found)[:20]].ravel()
    ends = minimize(loss, starts, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * len(starts)).x
    return max(found.max(), values(score, ends.reshape(20, dimension)).max())


@pytest.mark.parametrize(("dimension", "n", "close"), [(1, 20, 0), (2, 40, 15), (3, 60, 0)])
def test_the_bound_is_never_below_the_best_of_samples_and_gradients_and_the_value_not_either(dimension, n, close):
    score = score_of(process(dimension, n, 0.2 * math.sqrt(dimension), close=close), UCB())
    best = rival(score, dimension, np.random.default_rng(7))
    (proof,) = certified(score, box(dimension)).certificates
    assert proof.bound >= best
    assert proof.value >= best - 1e-6


def test_more_nodes_never_raise_the_bound_nor_lower_the_value_and_every_limit_gives_a_bound_that_holds():
    score = score_of(process(3, 40, 0.35), UCB())
    samples = values(score, np.random.default_rng(1).uniform(-1, 1, (5000, 3))).max()
    proofs = [certified(score, box(3), nodes=n).certificates[0] for n in (1, 64, 128, 256, 512, 1024, 10**6)]
    assert [proof.status for proof in proofs] == ["node_limit"] * 6 + ["optimal"]
    assert all(proof.bound >= max(proof.value, samples) for proof in proofs)
    assert proofs[0].gap > 1.0 > 0.01 >= proofs[-1].gap
    for before, after in itertools.pairwise(proofs):
        assert after.bound <= before.bound and after.value >= before.value and after.nodes > before.nodes


def test_a_time_limit_ends_it_with_a_bound_that_holds():
    score = score_of(process(3, 40, 0.35), UCB())
    (proof,) = certified(score, box(3), time_s=1e-9).certificates
    assert (proof.status, proof.nodes) == ("time_limit", 64)
    assert proof.bound >= values(score, np.random.default_rng(1).uniform(-1, 1, (5000, 3))).max()


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_the_order_of_the_data_changes_nothing(acquisition):
    made = process(2, 25, 0.3)
    order = np.random.default_rng(3).permutation(25)
    shuffled = given(made.fit.X.numpy()[order], made.fit.targets[order], 0.3)
    one, other = (certified(score_of(each, acquisition), box(2)) for each in (made, shuffled))
    np.testing.assert_allclose(one.X, other.X, atol=1e-5)
    np.testing.assert_allclose(one.value, other.value, atol=1e-8)
    assert one.certificates[0].bound == pytest.approx(other.certificates[0].bound, abs=0.01)


def test_the_unit_of_the_readings_changes_nothing():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (15, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    found = []
    for readings in (y, 2000 * y - 37):
        data = Observations(X, readings, maximize=False)
        made = ExactGP(restarts=0).fit(data, np.random.default_rng(2), None, no_report)
        score = UCB().score(made, data, torch.empty(0, 2, dtype=torch.float64), 1, np.random.default_rng(0))
        found.append(certified(score, box(2)))
    np.testing.assert_allclose(found[0].X, found[1].X, atol=1e-3)
    assert found[0].value[0] == pytest.approx(found[1].value[0], abs=1e-4)


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_linear_constraints_hold_and_nothing_feasible_is_better(acquisition):
    constraints = (LinearConstraint({"x0": 1.0, "x1": 1.0}, 0.8), LinearConstraint({"x0": -2.0, "x1": 1.0}, 0.1))
    space = SearchSpace(box(2).variables, constraints)
    binding = 0
    for seed in range(3):
        score = score_of(process(2, 20, 0.3, seed=seed), acquisition)
        found = certified(score, space)
        space.check(space.decode(found.X)[0])
        grid = np.array(list(itertools.product(np.linspace(-1, 1, 121), repeat=2)))
        A, b = space.linear
        best = values(score, grid[(grid @ A.T <= b).all(axis=1)]).max()
        (proof,) = found.certificates
        assert proof.status == "optimal" and proof.bound >= best and proof.value >= best - 0.01
        binding += bool(np.min(b - A @ found.X[0]) < 1e-6)
    assert binding  # else nothing was tried


MIXED = SearchSpace(
    (Continuous("x", 0.0, 1.0), Integer("n", 1, 6), Categorical("gas", ("N2", "Ar", "He"))),
    (LinearConstraint({"x": 5.0, "n": 1.0}, 7.0),),
)


def test_halving_loses_no_feasible_point_and_no_integer_is_in_two_boxes():
    region = Region.of(MIXED, torch.tensor([1.0, 0.2, 1.0, 1.0, 1.0], dtype=torch.float64), np.empty((0, 5)))
    X = torch.tensor(MIXED.sample(2000, np.random.default_rng(0)))
    lower, upper = region.roots
    for _ in range(8):
        held = ((X[:, None] >= lower - 1e-9) & (X[:, None] <= upper + 1e-9)).all(-1)
        assert held.any(1).all()
        (lower, upper), parents = region.halves(lower, upper)
        assert len(parents) == len(lower) and (lower <= upper).all()
    assert set((upper - lower)[:, 1].tolist()) == {0.0}
    # Integers 1 to 6 and three levels; where n is 6, x <= 0.2, which is 0.4 of the encoded width 2.
    widths = {round(float(n), 9): float((upper - lower)[lower[:, 1] == n, 0].sum()) for n in lower[:, 1].unique()}
    assert list(widths.values()) == pytest.approx([6.0, 6.0, 4.8, 3.6, 2.4, 1.2][: len(widths)], abs=1e-5)
    assert len(widths) == 6


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_integers_and_categories_agree_with_enumeration(acquisition):
    rng = np.random.default_rng(8)
    score = score_of(process(5, 15, 0.6, X=MIXED.sample(15, rng)), acquisition)
    designs = [
        {"x": x, "n": n, "gas": gas}
        for n, gas in itertools.product(range(1, 7), ("N2", "Ar", "He"))
        for x in np.linspace(0, min(1.0, (7 - n) / 5), 300)
    ]
    best = values(score, MIXED.encode(designs)).max()
    found = certified(score, MIXED)
    (proof,) = found.certificates
    MIXED.check(MIXED.decode(found.X)[0])
    assert proof.status == "optimal" and proof.bound >= best and proof.value >= best - 0.01


def test_a_discrete_space_is_solved_exactly_and_what_is_taken_is_neither_chosen_nor_bounded():
    space = SearchSpace((Integer("n", 0, 9), Integer("m", -3, 40), Categorical("gas", ("N2", "Ar"))))
    score = score_of(process(4, 12, 0.5, X=space.sample(12, np.random.default_rng(8))), UCB())
    designs = [{"n": n, "m": m, "gas": gas} for n in range(10) for m in range(-3, 41) for gas in ("N2", "Ar")]
    X = space.encode(designs)
    X = X[np.argsort(-values(score, X), kind="stable")]
    for k in (0, 1, 30):
        found = certified(score, space, taken=X[:k], gap=1e-6, n_samples=8)
        (proof,) = found.certificates
        assert np.array_equal(found.X[0], X[k])
        assert proof.status == "optimal" and proof.bound == pytest.approx(values(score, X[[k]])[0], abs=2e-6)


def test_a_single_design_is_not_halved_where_rounding_keeps_its_bound_too_high():
    space = SearchSpace((Integer("n", 0, 4),))
    X = space.encode([{"n": n} for n in range(5)])
    made = given(np.vstack([X, X]), torch.tensor([0.3, -1.0, 0.2, 1.1, -0.6] * 2, dtype=torch.float64), 0.1, "rbf")
    score = score_of(made, ACQUISITIONS["pi"])
    (proof,) = certified(score, space).certificates
    assert (proof.status, proof.nodes < 20) == ("numerical", True)
    assert proof.bound - 0.01 > proof.value == pytest.approx(values(score, X).max(), rel=1e-8)


def test_integers_that_lie_closer_than_designs_can_be_told_apart_are_halved_as_numbers_are():
    space = SearchSpace((Continuous("x", 0.0, 1.0), Integer("n", 0, 10**10)))
    score = score_of(process(2, 12, 0.3, X=space.sample(12, np.random.default_rng(3))), UCB())
    found = certified(score, space, nodes=5000)
    (proof,) = found.certificates
    best = values(score, np.array(list(itertools.product(np.linspace(-1, 1, 81), repeat=2)))).max()
    np.testing.assert_array_equal(found.X, space.repair(found.X))
    assert proof.status == "optimal" and proof.bound >= best and proof.value >= best - 0.01


def test_each_place_of_a_batch_is_certified_given_those_before_and_what_is_pending():
    pending = np.array([[0.3, -0.2], [0.9, 0.9]])
    score = score_of(process(2, 20, 0.3), UCB(), pending)
    found = certified(score, box(2), q=3, taken=pending)
    samples = np.random.default_rng(2).uniform(-1, 1, (5000, 2))
    for slot, proof in enumerate(found.certificates):
        best = values(score, samples, slot, found.X[:slot]).max()
        assert proof.status == "optimal" and proof.bound >= best and proof.value >= best - 0.01
        assert proof.value == values(score, found.X[[slot]], slot, found.X[:slot])[0]
    alone = certified(score_of(process(2, 20, 0.3), UCB()), box(2))
    apart = [np.linalg.norm(found.X[i] - found.X[j]) for i, j in itertools.combinations(range(3), 2)]
    assert min(apart) > 0.01 and np.linalg.norm(pending - alone.X, axis=1).min() > 0.01


def test_the_best_point_of_a_continuous_space_that_is_taken_gives_way_to_another():
    score = score_of(process(1, 6, 0.3), UCB())
    first = certified(score, box(1))
    second = certified(score, box(1), taken=first.X)
    assert np.abs(second.X - first.X).max() >= 1e-9
    assert second.value[0] >= first.value[0] - 0.05 and second.certificates[0].bound >= first.value[0]


def test_a_centre_that_is_taken_infeasible_or_between_integers_is_not_a_candidate():
    space = SearchSpace((Continuous("x", 0.0, 1.0), Integer("n", 0, 4)), (LinearConstraint({"x": 1.0}, 0.9),))
    region = Region.of(space, torch.ones(2, dtype=torch.float64), np.array([[0.25, 0.5]]))
    centres = torch.tensor([[0.25, 0.5], [0.85, 0.5], [0.25, 0.25], [0.3, 0.5], [0.1, 0.5]], dtype=torch.float64)
    half, scores = torch.tensor([0.05, 0.0], dtype=torch.float64), torch.arange(5.0, 0.0, -1.0)
    assert region.best_centre(centres - half, centres + half, scores, 0.0).tolist() == [0.3, 0.5]
    assert region.best_centre(centres - half, centres + half, scores, 2.0) is None


def test_a_score_that_is_not_its_own_function_of_the_moments_is_called_numerical():
    class Shifted:
        optimism = 2.0

        def __init__(self, score):
            self.score = score
            self.fantasized, self.worth = score.fantasized, score.worth

        def after(self, chosen):
            return self

        def value(self, X, slot, chosen):
            return self.score.value(X, slot, chosen) + 0.3

    (proof,) = certified(Shifted(score_of(process(1, 8, 0.3), UCB())), box(1)).certificates
    assert proof.status == "numerical"


def test_scores_posteriors_and_spaces_that_cannot_be_bounded_are_refused():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8, 2))
    data = Observations(X, X.sum(axis=1), maximize=False)
    nothing = torch.empty(0, 2, dtype=torch.float64)
    exact = process(2, 8, 0.3)
    drawn = Thompson().score(exact, data, nothing, 1, rng)
    with pytest.raises(ValueError, match=r"functions of mean and standard deviation, .*log_ei or pi, or `maxim"):
        certified(drawn, box(2))
    others = (AdditiveGP(restarts=0), "_AdditivePosterior"), (ExactGP(n_exact=7, restarts=0), "Induced")
    for surrogate, name in others:
        made = surrogate.fit(data, rng, None, no_report)
        with pytest.raises(ValueError, match=f"posterior is a {name}.*exact_gp with at most n_exact trials, or `maxim"):
            certified(UCB().score(made, data, nothing, 1, rng), box(2))
    with pytest.raises(ValueError, match="space with images: use `maximizer: multistart`"):
        certified(drawn, SearchSpace((Image("face", (2, 2), 0.0, 1.0),)))
    many = SearchSpace(tuple(Categorical(f"c{i}", ("a", "b", "c")) for i in range(8)))
    with pytest.raises(ValueError, match="6561 combinations, and the maximizer certified takes at most 4096"):
        certified(drawn, many)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": 0.0}, "gap is 0.0"),
        ({"nodes": 0}, "nodes is 0"),
        ({"time_s": -1.0}, "time_s is -1.0"),
        ({"n_starts": 0}, "n_starts is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Certified(**options)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="device is 'cuda' and torch finds none: use 'cpu'"):
        Certified(device="cuda")
