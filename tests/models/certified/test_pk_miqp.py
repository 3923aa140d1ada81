"""PK-MIQP: pieces and their error, programs against grids of what they approximate, limits, and what is refused."""

import itertools
import math
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import warm_start
from test_certified import MIXED, box, process, score_of, values

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.certified.piecewise_kernel import PiecewiseKernel, bends
from fieldcraft.models.certified.piecewise_process import PiecewiseProcess
from fieldcraft.models.certified.scip_program import Effort, Program
from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.maximizers.pk_miqp import PKMIQP
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Categorical, Image, Integer, LinearConstraint, SearchSpace

ROOT = Path(__file__).resolve().parents[3]
GROWING = UCB(beta="growing")
FORMS, GRAMS = ("r", "q"), ("exact", "interpolated")


def grid(dimension, n):
    return np.array(list(itertools.product(np.linspace(-1, 1, n), repeat=dimension)))


def approximated(made, score, space, form="r", gram="exact", tolerance=0.025):
    return PiecewiseProcess.of(made, score.optimism, space.bounds, form=form, gram=gram, tolerance=tolerance)


def maximized(score, space, q=1, taken=None, **options):
    return PKMIQP(**{"time_s": None, **options}).maximize(score, space, q, np.random.default_rng(0), taken)


@pytest.mark.parametrize("kind", ["matern32", "matern52", "rbf"])
def test_a_kernel_is_cut_where_its_curvature_is_half_of_the_largest(kind):
    r = torch.linspace(1e-6, 10, 100_001, dtype=torch.float64, requires_grad=True)
    value = Radial(kind).value(r.square())
    for _ in range(2):
        (value,) = torch.autograd.grad(value.sum(), r, create_graph=True)
    curvature, half = value.detach().numpy(), float(value.max()) / 2
    cuts = np.array(bends(Radial(kind)))
    found = np.interp(cuts, r.detach().numpy(), curvature)
    np.testing.assert_allclose(found, [-half, half, half], rtol=1e-4)
    if kind == "matern32":
        np.testing.assert_allclose(cuts, [0.486599, 0.711273, 2.12369], atol=1e-5)


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize(("reach", "pieces"), [(9.0, 7), (2.0, 5), (0.6, 3), (0.2, 2)])
def test_intervals_have_the_papers_pieces_and_those_out_of_reach_none(dimension, reach, pieces):
    kernel = PiecewiseKernel.of(Radial("matern32"), "r", dimension, reach)
    R = kernel.distances
    assert len(R) == pieces * dimension + 1 and (R[0], R[-1]) == (0.0, reach)
    lengths = [part.round(12) for part in np.split(np.diff(R), np.cumsum([2 * dimension, dimension, 2 * dimension]))]
    assert all(len(set(part)) <= 1 for part in lengths) and (np.diff(R) > 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["matern32", "matern52", "rbf"])
@pytest.mark.parametrize("reach", [0.3, 2.0, 7.0, 200.0])
def test_the_error_is_the_largest_on_a_dense_grid_and_halving_keeps_it_within_the_tolerance(form, kind, reach):
    r = np.concatenate([np.linspace(0, min(reach, 9.0), 200_001), np.linspace(0, reach, 200_001)])
    exact = Radial(kind).value(torch.tensor(r).square()).numpy()
    for tolerance in (None, 0.025, 0.003):
        kernel = PiecewiseKernel.of(Radial(kind), form, 1, reach, tolerance)
        assert kernel.error == pytest.approx(np.abs(kernel.value(r) - exact).max(), rel=1e-3, abs=1e-7)
        assert tolerance is None or kernel.error <= tolerance
        np.testing.assert_allclose(kernel.value(kernel.distances), kernel.heights, atol=1e-14)


def test_the_papers_pieces_are_off_by_more_than_it_claims_where_length_scales_are_short():
    ordinary, short = (PiecewiseKernel.of(Radial("matern32"), "r", 1, reach) for reach in (5.0, 1 / 0.005))
    assert ordinary.error < 0.025 < 0.1 < short.error < 0.12
    refined = PiecewiseKernel.of(Radial("matern32"), "r", 1, 1 / 0.005, 0.025)
    assert refined.error <= 0.025 and len(refined.distances) < 2 * len(short.distances)
    assert set(short.distances) <= set(refined.distances)


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("form", FORMS)
def test_the_approximation_is_the_gaussian_process_of_its_kernel(form, gram):
    made = process(2, 9, 0.3)
    p = approximated(made, score_of(made, GROWING), box(2), form, gram)
    X = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    k = p.kernel.value(np.linalg.norm((X[:, None] - made.fit.X.numpy()) / made.length_scales.numpy(), axis=-1))
    centres = made.fit.X.numpy() / made.length_scales.numpy()
    r = np.linalg.norm(centres[:, None] - centres, axis=-1)
    K = p.kernel.value(r) if gram == "interpolated" else made.kernel(made.fit.X, made.fit.X).detach().numpy()
    A = np.linalg.inv(K + (made.noise_variance + p.shift) * np.eye(9))
    variance = 1 - np.einsum("ij,jk,ik->i", k, A, k)
    expected = (
        p.optimism * np.sqrt(variance.clip(0)) - made.constant - k @ A @ (made.fit.targets.numpy() - made.constant)
    )
    if gram == "interpolated":
        expected[variance < 0] = -np.inf
    np.testing.assert_allclose(p.value(X), expected, atol=1e-8)
    np.testing.assert_allclose(made.constant + k @ p.weights, p.constant + p.whitened(X) @ p.coefficients, atol=1e-8)


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dimension", "n"), [(1, 6), (2, 5)])
def test_the_programs_optimum_is_that_of_a_dense_grid_and_the_design_is_truly_the_best(dimension, n, form, gram):
    made, space = process(dimension, n, 0.2 * math.sqrt(dimension)), box(dimension)
    score = score_of(made, GROWING)
    X = grid(dimension, 8001 if dimension == 1 else 161)
    found = maximized(score, space, form=form, exact_gram=gram == "exact")
    (proof,) = found.certificates
    assert (proof.status, proof.bound_of) == ("optimal", "approximate") and proof.nodes > 1
    best = approximated(made, score, space, form, gram).value(X).max()
    # The grid's own loss is largest where noise is optimised.
    assert best - 1e-4 <= proof.bound <= best + 0.01 * (1 + abs(best))
    assert found.value[0] >= values(score, X).max() - 1e-6
    assert proof.value == found.value[0] == pytest.approx(values(score, found.X)[0], abs=1e-10)
    error = approximated(made, score, space, form, gram).kernel.error
    assert f"in {form}, off by up to {error:.3g} prior variances" in found.remarks["piecewise_kernel"]
    assert ("gram_matrix" in found.remarks) is (gram == "interpolated")


def test_a_smooth_kernel_is_cut_and_solved_likewise():
    made = process(1, 5, 0.3, "matern52")
    score = score_of(made, GROWING)
    (proof,) = maximized(score, box(1), form="q").certificates
    best = approximated(made, score, box(1), "q").value(grid(1, 8001)).max()
    assert proof.status == "optimal" and best - 1e-4 <= proof.bound <= best + 0.02


def test_the_published_form_optimises_noise_and_the_exact_covariance_does_not():
    made, X = process(1, 20, 0.3), grid(1, 20_001)
    score = score_of(made, GROWING)
    true = values(score, X[::10]).max()
    found = maximized(score, box(1), exact_gram=False, tolerance=None, nodes=20)
    published = approximated(made, score, box(1), gram="interpolated", tolerance=None)
    assert 1.4 < true < 1.6 and found.certificates[0].bound > 20 + true
    assert published.shift > 1e-3
    assert f"{published.shift:.3g} was added to its diagonal, so that the program may" in found.remarks["gram_matrix"]
    starts = X[np.argsort(-published.value(X))[:1]]
    best = Program(published, box(1)).solved(starts, Effort(0.01, 20, None))
    assert published.value(best.X[:1])[0] > 20 + true
    assert approximated(made, score, box(1), tolerance=None).value(X).max() < 2 + true
    assert found.value[0] >= true - 1e-4  # the true score chooses in the end


@pytest.mark.parametrize("form", FORMS)
def test_starts_are_solutions_from_the_beginning_and_none_is_infeasible(form):
    rng = np.random.default_rng(8)
    made = process(5, 6, 0.6, X=MIXED.sample(6, rng))
    p = approximated(made, score_of(made, GROWING), MIXED, form)
    starts = MIXED.sample(6, rng)
    starts = starts[(np.square(p.whitened(starts)).sum(axis=1) <= 1)]
    for mean_only in (False, True):
        found = Program(p, MIXED, mean_only=mean_only).solved(starts, Effort(0.01, 1, None))
        assert len(starts) > 3 and len(found.X) >= len(starts)
        assert all(np.abs(found.X - x).max(axis=1).min() < 1e-6 for x in starts)
        for design in MIXED.decode(MIXED.repair(found.X)):
            MIXED.check(design)


@pytest.mark.parametrize("mean_only", [False, True])
def test_no_point_exceeds_the_ceiling_that_holds_before_any_search(mean_only):
    made = process(2, 8, 0.3)
    p = approximated(made, score_of(made, GROWING), box(2), gram="interpolated")
    X = grid(2, 101)
    reached = -p.constant - p.whitened(X) @ p.coefficients if mean_only else p.value(X)
    assert reached.max() <= Program(p, box(2), mean_only=mean_only).ceiling < math.inf


@pytest.mark.parametrize("form", FORMS)
def test_linear_constraints_hold_and_bound_the_program(form):
    constraints = (LinearConstraint({"x0": 1.0, "x1": 1.0}, 0.8), LinearConstraint({"x0": -2.0, "x1": 1.0}, 0.1))
    space, binding = SearchSpace(box(2).variables, constraints), 0
    everywhere = grid(2, 161)
    A, b = space.linear
    X = everywhere[(b >= everywhere @ A.T).all(axis=1)]
    for seed in (3, 4):
        made = process(2, 5, 0.3, seed=seed)
        score = score_of(made, GROWING)
        found = maximized(score, space, form=form)
        space.check(space.decode(found.X)[0])
        (proof,) = found.certificates
        p = approximated(made, score, space, form)
        best = p.value(X).max()
        assert p.value(everywhere).max() > best + 0.2
        assert proof.status == "optimal" and best - 1e-4 <= proof.bound <= best + 0.03
        assert proof.value >= values(score, X).max() - 1e-6
        binding += bool(np.min(b - A @ found.X[0]) < 1e-6)
    assert binding  # else nothing was tried


@pytest.mark.parametrize("form", FORMS)
def test_integers_and_categories_agree_with_enumeration(form):
    made = process(5, 6, 0.6, X=MIXED.sample(6, np.random.default_rng(8)), seed=1)
    score = score_of(made, GROWING)
    designs = [
        {"x": x, "n": n, "gas": gas}
        for n, gas in itertools.product(range(1, 7), ("N2", "Ar", "He"))
        for x in np.linspace(0, min(1.0, (7 - n) / 5), 400)
    ]
    X = MIXED.encode(designs)
    found = maximized(score, MIXED, form=form, tolerance=None)
    (proof,) = found.certificates
    MIXED.check(MIXED.decode(found.X)[0])
    best = approximated(made, score, MIXED, form, tolerance=None).value(X).max()
    assert proof.status == "optimal" and best - 1e-4 <= proof.bound <= best + 0.011
    assert proof.value >= values(score, X).max() - 1e-6


@pytest.mark.parametrize("form", FORMS)
def test_a_wholly_discrete_program_has_the_best_of_its_points_for_optimum(form):
    space = SearchSpace((Integer("n", 0, 2), Integer("m", -1, 1), Categorical("gas", ("N2", "Ar"))))
    made = process(4, 8, 0.25, X=np.unique(space.sample(30, np.random.default_rng(3)), axis=0)[:8], seed=2)
    p = approximated(made, score_of(made, GROWING), space, form)
    X = space.encode([{"n": n, "m": m, "gas": gas} for n in range(3) for m in (-1, 0, 1) for gas in ("N2", "Ar")])
    belongs = np.square(p.whitened(X)).sum(axis=1) <= 1
    found = Program(p, space).solved(X[:1], Effort(1e-4, 10_000, None))
    assert found.status == "optimal" and found.bound == pytest.approx(p.value(X[belongs]).max(), abs=2e-4)
    between = np.vstack([np.hstack([grid(2, 21), np.tile(level, (441, 1))]) for level in np.eye(2)])
    assert p.value(between).max() > found.bound + 0.1  # else integers were nothing to keep to
    np.testing.assert_allclose(found.X[0], X[belongs][p.value(X[belongs]).argmax()], atol=1e-6)


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("form", FORMS)
def test_a_programs_own_solution_has_the_value_that_it_claims(form, gram):
    made = process(2, 5, 0.3)
    p = approximated(made, score_of(made, GROWING), box(2), form, gram)
    found = Program(p, box(2)).solved(np.array([[0.9, -0.9]]), Effort(0.005, 10_000, None))
    assert found.status == "optimal" and len(found.X) > 1
    assert found.bound - 0.006 <= p.value(found.X[:1])[0] <= found.bound + 1e-4


@pytest.mark.parametrize(("limit", "status"), [({"time_s": 1e-3}, "time_limit"), ({"nodes": 1}, "node_limit")])
@pytest.mark.parametrize("exact_gram", [True, False])
def test_a_limit_ends_it_with_a_design_and_a_bound_that_holds(limit, status, exact_gram):
    made = process(2, 20, 0.3)
    score = score_of(made, GROWING)
    found = maximized(score, box(2), exact_gram=exact_gram, **limit)
    (proof,) = found.certificates
    box(2).check(box(2).decode(found.X)[0])
    best = approximated(made, score, box(2), gram=GRAMS[not exact_gram]).value(grid(2, 81)).max()
    assert proof.status == status and max(best, proof.value) <= proof.bound < 100 and proof.gap > 0.01
    assert proof.value >= values(score, np.random.default_rng(1).uniform(-1, 1, (2000, 2))).max()


def test_each_place_believes_those_before_and_what_is_pending_and_none_is_taken():
    pending = np.array([[0.3, -0.2]])
    score = score_of(process(2, 5, 0.4), GROWING, pending)
    found = maximized(score, box(2), q=2, taken=pending, form="q", gap=0.05)
    for slot, proof in enumerate(found.certificates):
        assert proof.status == "optimal"
        assert proof.value == pytest.approx(values(score, found.X[[slot]], slot, found.X[:slot])[0], abs=1e-10)
    alone = maximized(score_of(process(2, 5, 0.4), GROWING), box(2), nodes=1)
    again = maximized(score_of(process(2, 5, 0.4), GROWING), box(2), nodes=1, taken=alone.X)
    assert np.abs(found.X[0] - found.X[1]).max() > 0.01 and np.abs(again.X - alone.X).max() >= 1e-9


def test_scores_posteriors_kernels_and_spaces_that_cannot_be_stated_are_refused():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8, 2))
    data = Observations(X, X.sum(axis=1), maximize=False)
    nothing = torch.empty(0, 2, dtype=torch.float64)
    exact = process(2, 8, 0.3)
    for acquisition in (LogEI(), Thompson()):
        with pytest.raises(ValueError, match="is another: use the acquisition ucb, or `maximizer: certified`"):
            maximized(acquisition.score(exact, data, nothing, 1, rng), box(2))
    others = (AdditiveGP(restarts=0), "_AdditivePosterior"), (ExactGP(n_exact=7, restarts=0), "Induced")
    for surrogate, name in others:
        made = surrogate.fit(data, rng, None, no_report)
        with pytest.raises(ValueError, match=f"posterior is a {name}.*exact_gp with at most n_exact trials, or `maxim"):
            maximized(UCB().score(made, data, nothing, 1, rng), box(2))
    with pytest.raises(ValueError, match=r"matern12 has a kink .* use matern32, matern52 or rbf, or `maximizer: cert"):
        maximized(score_of(process(2, 8, 0.3, "matern12"), UCB()), box(2))
    with pytest.raises(ValueError, match="space with images: use `maximizer: multistart`"):
        maximized(score_of(exact, UCB()), SearchSpace((Image("face", (2, 2), 0.0, 1.0),)))


def test_a_missing_solver_is_refused_with_the_command_that_installs_it(tmp_path):
    for entry in Path(find_spec("pyscipopt").origin).parents[1].iterdir():
        if not entry.name.lower().startswith("pyscipopt"):
            (tmp_path / entry.name).symlink_to(entry)
    there = [ROOT, *(path for path in sys.path if "site-packages" not in path), tmp_path]
    program = (
        "import sys; sys.path[:] = sys.argv[1:]; from fieldcraft.models.maximizers.pk_miqp import PKMIQP; PKMIQP()"
    )
    made = warm_start.run(["-c", program, *map(str, there)], os.environ, 120)
    assert made.returncode == 1
    assert re.search(r"SCIP.* is not installed: .*\.venv/bin/pip install -c .*-e '\.\[scip\]'", made.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": 0.0}, "gap is 0.0"),
        ({"nodes": 0}, "nodes is 0"),
        ({"time_s": -1.0}, "time_s is -1.0"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"n_starts": 0}, "n_starts is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PKMIQP(**options)
