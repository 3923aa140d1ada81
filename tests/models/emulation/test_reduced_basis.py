"""Reduced bases on a chain of springs, whose compliance is a sum that can be written down."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, diags

from fieldcraft.models.certified.regret import Refuted, corners, regret_bound, unbounded
from fieldcraft.models.emulation.galerkin import Projection
from fieldcraft.models.emulation.lower_bounds import LowerBounds
from fieldcraft.models.observations import Emulator, Observations
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import BoundedBelow, no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.reduced_basis import ReducedBasis
from fieldcraft.physics.parametric.discrete import DiscreteSystem, Majorant
from fieldcraft.physics.space import Continuous, Integer, LinearEquality, SearchSpace

# A chain of springs from a wall, each node pulled by 1; the spring p carries the loads of all nodes beyond it.
N = 12
B = (diags([np.ones(N), -np.ones(N - 1)], [0, -1])).tocsr()
FORCES = np.arange(N, 0, -1.0)
PLACE = (np.arange(N) + 0.5) / N
SPACE = SearchSpace(
    (Continuous("a", 0.5, 2.0), Continuous("b", 0.5, 2.0)), (LinearEquality({"a": 1.0, "b": 1.0}, 2.5),)
)
SHAPES = np.array([many * (1 - PLACE) ** (3 - k) * PLACE**k for k, many in enumerate((1, 3, 3, 1))])
RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (5, 2))
Z = RNG.uniform(-1, 1, (200, 2))


def physical(X):
    return 1.25 + 0.75 * X


def terms(X):
    a, b = physical(X).T
    return np.stack([a ** (3 - k) * b**k for k in range(4)], axis=1)


def stiffness(X):
    """The cube of a thickness that is linear along the chain."""
    return terms(X) @ SHAPES


def system(X, share=1.0):
    """The equations, with a share of the true stiffness."""
    above = Majorant(share * SHAPES, lambda designs: np.empty((0, 4)))
    return DiscreteSystem(B, share * stiffness(X), np.ones((1, N)), "u", np.arange(N), True, above)


def displacements(X):
    return np.cumsum(FORCES / stiffness(X), axis=1)


def compliance(X):
    """The work of the loads: the sum of each spring's force squared over its stiffness."""
    return (FORCES**2 / stiffness(X)).sum(axis=1)


def data(X=X, share=1.0, **changes):
    digests = tuple(f"{i:064x}" for i in range(len(X)))
    told = Snapshots(
        displacements(X)[:, None],
        digests,
        lambda X: displacements(X)[:, None],
        lambda fields, X: fields.sum(axis=(1, 2))[:, None],
        names=("u",),
        discrete=lambda X: system(X, share),
        terms=lambda X: share * terms(X),
    )
    known = {"maximize": False, "exact": True, "snapshots": told, "emulators": (Emulator(compliance),)}
    return Observations(X, compliance(X), **(known | changes))


def fit(data, surrogate=None):
    return (surrogate or ReducedBasis()).fit(data, np.random.default_rng(0), None, no_report)


def predicted(posterior, Z=Z):
    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.tensor(Z))
    return posterior.scaling.to_physical(mean.numpy()), posterior.scaling.sd * np.sqrt(variance.numpy())


def test_the_chain_solves_its_equations():
    for i, u in enumerate(displacements(X)):
        np.testing.assert_allclose(system(X).matrix(i) @ u, np.ones(N), rtol=1e-12)
    np.testing.assert_allclose(displacements(X).sum(axis=1), compliance(X))


def test_a_design_whose_field_is_in_the_span_is_predicted_to_rounding_and_without_residual():
    projection = Projection.of(displacements(X), system(X))
    found = projection.solve(system(X))
    np.testing.assert_allclose(found.works, compliance(X), rtol=1e-12)
    np.testing.assert_allclose(found.residuals, 0, atol=1e-12)
    np.testing.assert_allclose(found.coefficients @ projection.basis.T, displacements(X), rtol=1e-10)
    np.testing.assert_allclose(projection.residuals_of(system(X), displacements(X)), 0, atol=1e-12)
    mean, sd = predicted(fit(data()), X)
    np.testing.assert_allclose(mean, compliance(X), rtol=1e-9)
    assert np.all(sd < 1e-5 * compliance(X).std())


def test_of_every_design_the_solution_is_a_lower_bound_and_its_error_the_energy_of_the_fields_error():
    projection = Projection.of(displacements(X[:2]), system(X[:2]))
    found = projection.solve(system(Z))
    gap = compliance(Z) - found.works
    strains = B @ (displacements(Z) - found.coefficients @ projection.basis.T).T
    np.testing.assert_allclose(gap, (stiffness(Z).T * strains**2).sum(axis=0), rtol=1e-6, atol=1e-9)
    assert gap.min() >= -1e-9 and np.median(gap) > 1e-3


def test_the_residual_is_that_of_the_equations_in_the_norm_of_the_mean_stiffness():
    projection, at = Projection.of(displacements(X[:2]), system(X[:2])), Z[:3]
    found = projection.solve(system(at))
    reference = (B.T @ diags(np.sqrt(stiffness(X[:2]).prod(axis=0))) @ B).toarray()
    for i in range(3):
        left = system(at).matrix(i) @ projection.basis @ found.coefficients[i] - 1
        square = left @ np.linalg.solve(reference, left) / (np.ones(N) @ np.linalg.solve(reference, np.ones(N)))
        assert found.residuals[i] == pytest.approx(np.sqrt(square), rel=1e-9)


def test_without_a_field_the_basis_is_that_of_the_others():
    one = Projection.of(displacements(X), system(X)).without(1).solve(system(Z))
    others = np.delete(X, 1, axis=0)
    other = Projection.of(displacements(others), system(X)).solve(system(Z))
    np.testing.assert_allclose(one.works, other.works, rtol=1e-9)
    np.testing.assert_allclose(one.residuals, other.residuals, rtol=1e-5, atol=1e-10)


def test_designs_that_were_run_again_and_again_span_what_they_span_once():
    often = X[[0, 0, 1, 0, 2, 1, *range(len(X)), 4, 3]]  # each more than once
    projection = Projection.of(displacements(often), system(X))
    assert projection.basis.shape[1] == Projection.of(displacements(X), system(X)).basis.shape[1]
    whole = Projection.of(displacements(X), system(X)).solve(system(Z)).works
    for number in range(len(often)):  # more fields are left than the basis has columns, and they span it all
        np.testing.assert_allclose(projection.without(number).solve(system(Z)).works, whole, rtol=1e-8)


def left_out(X=X):
    """Errors and residuals of each result by the fields of the others, from their definition."""
    rows = []
    for i in range(len(X)):
        others = Projection.of(np.delete(displacements(X), i, axis=0), system(X))
        found = others.solve(system(X[i : i + 1]))
        rows.append((compliance(X)[i] - found.works[0], found.residuals[0]))
    return np.array(rows).T


def test_the_error_of_a_compliance_is_a_multiple_of_the_squared_residual_by_the_results_left_out():
    posterior = fit(data())
    errors, residuals = left_out()
    bias = np.mean(errors / residuals**2)
    assert posterior.bias == pytest.approx(bias, rel=1e-4) and posterior.kappa == pytest.approx(bias / 2, rel=1e-4)
    found = posterior.projection.solve(system(Z))
    mean, sd = predicted(posterior)
    np.testing.assert_allclose(mean - 2 * sd, found.works, atol=1e-5 * compliance(X).std())


def test_designs_in_the_span_of_the_others_do_not_tell_how_large_errors_are():
    near = np.vstack([X, X[:3] + 1e-6, X[:3] - 1e-6])
    posterior = fit(data(near))
    errors, residuals = left_out(near)
    assert np.abs(errors[[0, 1, 2, *range(5, 11)]]).max() < 1e-9 * compliance(X).min()
    assert posterior.bias == pytest.approx(np.mean(errors[3:5] / residuals[3:5] ** 2), rel=1e-6)
    mean, variance = posterior.mean_var(torch.tensor(Z))
    error = compliance(Z) - posterior.scaling.to_physical(mean.numpy())
    assert np.mean(np.abs(error) < 2 * posterior.scaling.sd * np.sqrt(variance.numpy())) > 0.7


def test_where_no_result_left_out_tells_an_error_is_that_of_the_mean_stiffness():
    posterior = fit(data(np.vstack([X, X])))
    assert posterior.bias == 2 * posterior.kappa == pytest.approx(compliance(X).mean())


def test_the_error_of_another_output_is_kappa_times_the_residual():
    def other(X):
        return replace(system(X), compliance=False, above=None)

    told = data()
    posterior = fit(replace(told, snapshots=replace(told.snapshots, discrete=other)))
    errors, residuals = left_out()
    # The work of the loads is read from the projected field, whose error has the same work.
    assert posterior.kappa == pytest.approx(np.sqrt(np.mean((errors / residuals) ** 2)), rel=1e-4)
    assert posterior.bias == 0 and posterior.minorants is None
    assert posterior.remarks["certificate"] == "none: the output is not the work of the loads"


def test_the_bound_over_a_polytope_is_below_every_design_of_it():
    projection = Projection.of(displacements(X), system(X))
    bounds = LowerBounds.of(projection, system(X[:1]))
    lower = RNG.uniform(-1, 0.5, (30, 2))
    upper = lower + RNG.uniform(0.05, 0.5, (30, 2))
    points, kept = corners(lower, upper, None)
    least = bounds.over(terms((lower + upper) / 2), terms(points.reshape(-1, 2)).reshape(30, 4, 4), kept)
    inside = lower[:, None] + RNG.uniform(0, 1, (30, 400, 2)) * (upper - lower)[:, None]
    values = compliance(inside.reshape(-1, 2)).reshape(30, 400)
    assert np.all(least <= values.min(axis=1)) and np.median(values.min(axis=1) - least) < 0.2 * np.median(values)
    np.testing.assert_allclose(bounds.values(terms(X)), compliance(X), rtol=1e-9)


def test_a_point_that_is_no_corner_counts_for_nothing():
    bounds = LowerBounds.of(Projection.of(displacements(X), system(X)), system(X[:1]))
    points = np.array([[[-0.5, 0.5], [0.5, -0.5], [-1.0, -1.0], [1.0, 1.0]]])
    at, kept = terms(points[0])[None], np.array([[True, True, False, False]])
    middle = terms(np.zeros((1, 2)))
    assert bounds.over(middle, at, kept) == bounds.over(middle, at[:, :2], kept[:, :2])
    assert bounds.over(middle, at, kept) > bounds.over(middle, at, np.ones_like(kept)) + 0.1
    assert bounds.over(middle, at, np.zeros_like(kept)) == np.inf


def test_corners_on_a_plane_are_where_it_crosses_the_edges():
    points, kept = corners(np.zeros((1, 3)), np.ones((1, 3)), (np.ones(3), 1.5))
    found = {tuple(point) for point in points[kept]}
    assert found == {tuple(np.roll([0.0, 0.5, 1.0], k)) for k in range(3)} | {
        tuple(np.roll([1.0, 0.5, 0.0], k)) for k in range(3)
    }


@pytest.mark.parametrize("n", [2, 4])
def test_the_certificate_bounds_the_true_regret_which_a_dense_grid_tells(n):
    a = np.linspace(0.5, 2.0, 20_001)
    dense = compliance((np.column_stack([a, 2.5 - a]) - 1.25) / 0.75).min()
    seen = np.array([[-0.9, 0.9], [0.8, -0.8], [-0.3, 0.3], [0.5, -0.5]])[:n]
    projection = Projection.of(displacements(seen), system(seen))
    bounds = LowerBounds.of(projection, system(seen))
    posterior = replace(fit(data(X=np.vstack([seen, X]))), projection=projection, best=compliance(seen).min())
    found = regret_bound(posterior.minorants, SPACE)
    least = bounds.values(terms((np.column_stack([a, 2.5 - a]) - 1.25) / 0.75)).min()
    assert found.status == "optimal" and found.lower <= least <= dense
    assert found.regret >= compliance(seen).min() - dense
    assert least - found.lower < 5e-4 * posterior.best + 0.06 * (posterior.best - least)


def test_a_structure_stated_too_soft_is_refuted_and_nothing_is_proven():
    found = fit(data(share=0.9))
    said = found.remarks["reduced_basis"]
    assert said.startswith("not used: the stated equations are refuted: the result ") and "softer" in said
    assert any(f"{y:.6g} is below {y / 0.9:.6g}, the lower" in said for y in compliance(X))
    assert not isinstance(found, BoundedBelow)


def test_a_structure_stated_too_stiff_is_not_that_of_the_simulator_and_nothing_is_proven():
    found = fit(data(share=1.1))
    assert "not those of the simulator: its fields leave 0.1 of them" in found.remarks["reduced_basis"]
    assert not isinstance(found, BoundedBelow)


def test_functions_that_are_not_above_the_stiffness_prove_nothing_and_the_basis_is_used():
    told = data()
    snapshots = told.snapshots
    half = replace(snapshots, terms=lambda X: 0.5 * terms(X))
    found = fit(replace(told, snapshots=half))
    assert found.minorants is None
    assert found.remarks["certificate"].startswith("none: the functions that are stated above the stiffness (`above`)")
    assert "by 0.5 of it" in found.remarks["certificate"]
    np.testing.assert_array_equal(predicted(found)[0], predicted(fit(told))[0])


def test_a_bound_above_the_best_result_is_refused():
    wrong = replace(fit(data()).minorants, best=0.5 * compliance(Z).min())
    with pytest.raises(Refuted, match=r"by it no design has less than .*, and the best result is"):
        regret_bound(wrong, SPACE)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ((Continuous("a", 0.5, 2.0), Continuous("b", 0.5, 2.0, log=True)), "b has a logarithmic scale"),
        ((Continuous("a", 0.5, 2.0), Integer("b", 1, 2)), "b is no real number"),
        (tuple(Continuous(f"x{i}", 0.5, 2.0) for i in range(9)), "the space has 9 coordinates"),
    ],
)
def test_spaces_over_which_nothing_is_proven_are_named(variables, reason):
    space = SearchSpace(variables)
    assert unbounded(space).startswith(reason) and not unbounded(SPACE)
    assert regret_bound(fit(data()).minorants, space) is None
    found = fit(data(space=space)) if len(variables) == 2 else None
    assert found is None or found.remarks["certificate"] == f"none: {reason}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"snapshots": None}, "not every trial left a field"),
        ({"X": X[:3]}, "there are 3 trials, and 4 teach"),
    ],
)
def test_without_enough_fields_the_outputs_alone_teach_and_the_reason_is_said(changes, reason):
    told = data(**changes)
    found = fit(told)
    assert found.remarks["reduced_basis"].startswith(f"not used: {reason}")
    mean, _ = predicted(ReducedBasis().restore(told, found.state()))
    np.testing.assert_array_equal(mean, predicted(found)[0])


def test_a_restored_posterior_is_the_fitted_one_and_another_state_is_refused():
    told = data()
    found = fit(told)
    again = ReducedBasis().restore(told, found.state())
    for one, other in zip(predicted(found), predicted(again), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="not of a reduced basis on the fields"):
        ReducedBasis().restore(told, found.state() | {"kappa": torch.tensor(1.0, dtype=torch.float64)})


def test_gradients_draws_and_believed_readings_agree_with_the_moments():
    two = Projection.of(displacements(X[:2]), system(X[:2]))
    posterior, at = replace(fit(data()), projection=two), torch.tensor(Z[:4])
    at.requires_grad_()
    slopes = posterior.moment_slopes(at)
    mean, variance = posterior.mean_var(at)
    for value, slope in ((mean, slopes.by_mean), (variance, slopes.by_variance)):
        (found,) = torch.autograd.grad(value.sum(), at, retain_graph=True)
        np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        paths = np.array([path(at).numpy() for path in posterior.draw(600, np.random.default_rng(1))])
        np.testing.assert_allclose(paths.std(axis=0), variance.sqrt().numpy(), rtol=0.15)
        np.testing.assert_allclose((paths.mean(axis=0) - mean.numpy()) / variance.sqrt().numpy(), 0, atol=0.15)
        believed = posterior.fantasize(at[:2])
        same, less = believed.mean_var(at)
        path = believed.draw(1, np.random.default_rng(1))[0](at[:2]).numpy()
    np.testing.assert_array_equal(same, mean.detach())
    assert torch.all(less[:2] < 1e-6 * variance[:2] + 1e-11) and torch.all(less <= variance)
    np.testing.assert_allclose(path, mean.detach()[:2], atol=1e-3)


def test_auto_takes_a_reduced_basis_with_its_bounds():
    told = data(X=RNG.uniform(-1, 1, (6, 2)), emulators=(Emulator(lambda X: X[:, 0]),))
    found = fit(told, Auto())
    assert found.remarks["chosen"] == "reduced_basis" and found.minorants is not None
    without = replace(told, snapshots=replace(told.snapshots, discrete=None))
    assert "score.reduced_basis" not in fit(without, Auto()).metrics


def test_a_system_whose_parts_do_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"strains \(12, 12\), stiffness \(1, 11\)"):
        DiscreteSystem(B, np.ones((1, 11)), np.ones((1, N)), "u", np.arange(N))
    with pytest.raises(ValueError, match=r"A stiffness is 0\.0"):
        DiscreteSystem(csr_matrix(B), np.zeros((1, N)), np.ones((1, N)), "u", np.arange(N))
    with pytest.raises(ValueError, match="do not fit an `above`"):
        replace(system(X), loads=np.ones((5, N)))
    with pytest.raises(ValueError, match="strains is a ndarray: give a sparse matrix"):
        replace(system(X), strains=B.toarray())
    for changes in (
        {"strains": B * np.nan},
        {"loads": np.full((1, N), np.inf)},
        {"above": Majorant(np.full((4, N), np.nan), terms)},
    ):
        with pytest.raises(ValueError, match="has a number that is not finite"):
            replace(system(X), **changes)
    for free in (np.arange(N) - 1, np.arange(N) + 0.0):
        with pytest.raises(ValueError, match=r"free has the type .*: give cells from 0"):
            replace(system(X), free=free)


def test_equations_without_a_single_solution_teach_nothing_and_the_reason_is_said():
    loose = (B.T @ B).tolil()
    loose[:, 0] = 0.0
    told = data()
    singular = replace(told.snapshots, discrete=lambda X: replace(system(X), strains=csr_matrix(loose)))
    found = fit(replace(told, snapshots=singular))
    assert "not used: the stated discrete equations have no single solution" in found.remarks["reduced_basis"]


def test_many_strains_are_projected_without_an_array_of_all_pairs_of_fields(monkeypatch):
    many = 20_000
    strains = diags([np.ones(many), -np.ones(many - 1)], [0, -1]).tocsr()
    rng = np.random.default_rng(3)
    own = DiscreteSystem(strains, rng.uniform(1, 2, (3, many)), np.ones((1, many)), "u", np.arange(many), True)
    projection = Projection.of(np.cumsum(rng.standard_normal((40, many)), axis=1), own)
    tracemalloc.start()
    found = projection.solve(own)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * projection.strained.nbytes
    monkeypatch.setattr("fieldcraft.models.emulation.galerkin._PAIRS", 40**2 * many)
    np.testing.assert_allclose(found.works, projection.solve(own).works, rtol=1e-10)
