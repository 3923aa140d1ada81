"""emulated_gp on gradients: against the joint Gaussian of values and derivatives, written out by hand."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.gradients.fit import MOST_ROWS, JointQuestion, told
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Emulator, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP, _differences, _slopes

RNG = np.random.default_rng(7)
X = RNG.uniform(-0.9, 0.9, (7, 2))
Z = RNG.uniform(-1, 1, (5, 2))


def value(X):
    return 3 * np.sin(2 * X[:, 0]) + X[:, 0] * X[:, 1] + 20


def gradient(X):
    return np.column_stack([6 * np.cos(2 * X[:, 0]) + X[:, 1], X[:, 0]])


def cheap(X):
    return 0.8 * value(X) + 0.3 * np.cos(3 * X[:, 1])


def cheap_gradient(X):
    return 0.8 * gradient(X) - np.column_stack([0 * X[:, 1], 0.9 * np.sin(3 * X[:, 1])])


def data(**changes):
    known = gradient(X)
    known[2] = np.nan  # recorded by hand
    known[4, 1] = np.nan
    emulators = (Emulator(cheap, lambda: 0.02),)
    given = {"X": X, "y": value(X), "maximize": True, "gradients": known, "emulators": emulators}
    return Observations(**(given | changes))


def fitted(**changes):
    return EmulatedGP(kernel="rbf", restarts=0).fit(data(**changes), np.random.default_rng(0), None, no_report)


def prior(multiple, A, B):
    """Covariance (2, 3, 3) parts of value and derivatives by the encoded coordinates at A (a, 2) and B (b, 2)."""
    scales, found = multiple.rows.scales.numpy(), np.empty((len(A), 3, len(B), 3))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            u = (a - b) / scales
            k, first = np.exp(-0.5 * u @ u), u / scales
            bent = np.diag(1 / scales**2) - np.outer(first, first)
            found[i, :, j] = k * np.block([[np.ones((1, 1)), first[None]], [-first[:, None], bent]])
    return found.reshape(3 * len(A), 3 * len(B))


def rows(scaling, values, slopes):
    """Value and derivatives of each design in targets, shape (3 n,)."""
    factor = scaling.sign / scaling.sd
    return np.column_stack([scaling.to_target(values), factor * slopes]).ravel()


def by_hand(posterior, multiple):
    """Mean and variance at Z, in targets, and the log density of each target given the other trials."""
    d = data()
    y, c = rows(d.scaling, d.y, d.gradients), rows(d.scaling, cheap(X), cheap_gradient(X))
    known = np.flatnonzero(~np.isnan(y))
    v, w, b, lengths = multiple.noise, multiple.rows.noise, multiple.rows.blur, multiple.rows.scales.numpy()
    # derivatives by encoded coordinates, of which an interval has two
    noise = np.tile([v, *(w * (1 / lengths**2 + 1 / 4) + b / 4)], len(X))[known]
    size, spread, rho = multiple.unit, multiple.spread, multiple.rho
    own = size**2 * (prior(multiple, X, X)[np.ix_(known, known)] + np.diag(noise))
    S = own + spread**2 * np.outer(c[known], c[known])
    h, r = (known % 3 == 0).astype(float), y[known] - rho * c[known]
    at = d.scaling.to_target(cheap(Z))
    k = size**2 * prior(multiple, X, Z)[known][:, ::3] + spread**2 * np.outer(c[known], at)
    constant = h @ np.linalg.solve(S, r) / (h @ np.linalg.solve(S, h))
    mean = rho * at + constant + k.T @ np.linalg.solve(S, r - constant * h)
    variance = size**2 + spread**2 * at**2 - np.einsum("ij,ij->j", k, np.linalg.solve(S, k)) + multiple.jitter**2
    densities = []
    for trial in range(len(X)):
        rest, (one,) = known // 3 != trial, np.flatnonzero(known == 3 * trial)
        solved = np.linalg.solve(S[np.ix_(rest, rest)], S[rest, one])
        gap = (r - constant * h)[one] - solved @ (r - constant * h)[rest]
        left = S[one, one] - solved @ S[rest, one]
        densities.append(-0.5 * (gap**2 / left + math.log(2 * math.pi * left)))
    return mean, variance, np.array(densities)


def test_each_factor_is_the_joint_gaussian_of_values_and_derivatives():
    posterior = fitted()
    predictions = torch.tensor(posterior.scaling.to_target(cheap(Z)))
    assert [each.spread for each in posterior.multiples] == [0.0, 0.0, 1.0]
    for each, density in zip(posterior.multiples, posterior.densities, strict=True):
        mean, variance, left_out = by_hand(posterior, each)
        found = each.mean_var(torch.tensor(Z), predictions)
        np.testing.assert_allclose(found[0], mean, atol=1e-6)
        np.testing.assert_allclose(found[1], variance, atol=1e-6)
        np.testing.assert_allclose(density, left_out, rtol=1e-4, atol=1e-4)


def test_slopes_of_the_moments_are_their_differences():
    posterior = fitted().fantasize(torch.tensor(Z[3:]))
    points = Z[:3] * 0.9
    at, move = posterior.moment_slopes(torch.tensor(points)), 1e-3
    for i, step in enumerate(move * np.eye(2)):
        ahead, behind = (posterior.mean_var(torch.tensor(points + way * step)) for way in (1, -1))
        for slopes, one, other in zip((at.by_mean, at.by_variance), ahead, behind, strict=True):
            np.testing.assert_allclose(slopes[:, i], (one - other) / (2 * move), rtol=1e-3, atol=1e-4)


def test_draws_have_the_moments_of_the_posterior_and_so_has_a_believed_result():
    posterior = fitted()
    points = torch.tensor(Z)
    with torch.no_grad():
        drawn = torch.stack([f(points) for f in posterior.draw(600, np.random.default_rng(1))])
    mean, variance = posterior.mean_var(points)
    assert ((drawn.mean(0) - mean).abs() < 5 * (variance / 600).sqrt() + 2e-3).all()
    torch.testing.assert_close(drawn.var(0), variance, rtol=0.3, atol=1e-4)
    later = posterior.fantasize(points[:2]).mean_var(points)
    torch.testing.assert_close(later[0], mean, rtol=0, atol=1e-6)
    assert (later[1] <= variance + 1e-9).all() and later[1][0] < variance[0]


def test_the_density_of_the_hyper_parameters_has_its_gradient():
    density = JointQuestion("rbf", False, 1, ByDigest.of(data()), blurred=True).density()
    theta = np.array([-0.3, 0.4, -3.0, -2.0])
    assert len(density.starts(2)[1]) == 4
    _, slope = density(theta)
    for i, move in enumerate(1e-5 * np.eye(4)):
        assert slope[i] == pytest.approx((density(theta + move)[0] - density(theta - move)[0]) / 2e-5, rel=1e-6)


def test_gradients_teach_the_difference():
    places = np.random.default_rng(3).uniform(-0.9, 0.9, (200, 2))

    def error(posterior):
        mean = posterior.mean_var(torch.tensor(places))[0].numpy()
        return np.sqrt(np.mean((posterior.scaling.to_physical(mean) - value(places)) ** 2))

    with_them, without = fitted(), fitted(gradients=None)
    assert error(with_them) < 0.5 * error(without)
    assert with_them.remarks["gradients"] == "of 6 of 7 trials" and "gradients" not in without.remarks


def test_a_mesh_that_moves_the_slopes_leaves_the_values_their_weight():
    def jagged(X):
        return cheap(X) + 0.002 * np.sin(2000 * X @ [1.0, 2.0])

    moved, smooth = fitted(emulators=(Emulator(jagged),)).multiples[1], fitted().multiples[1]
    assert moved.rows.blur > 1000 * smooth.rows.blur
    assert moved.noise < 0.01 and moved.rows.scales.min() > 0.5


def test_the_state_restores_the_posterior_to_the_bit():
    posterior = fitted()
    again = EmulatedGP(kernel="rbf", restarts=0).restore(data(), posterior.state())
    for one, other in zip(posterior.mean_var(torch.tensor(Z)), again.mean_var(torch.tensor(Z)), strict=True):
        assert torch.equal(one, other)
    assert (again.metrics, again.remarks) == (posterior.metrics, posterior.remarks)


def test_of_very_many_derivatives_those_of_the_best_results_count_for_every_factor():
    n, d = 240, 5
    points = np.random.default_rng(2).uniform(-1, 1, (n, d))
    many = Observations(
        points, points[:, 0], False, gradients=np.ones((n, d)), emulators=(Emulator(lambda X: -X[:, 0]),)
    )
    assert n + d * np.isfinite(told(many)[:, 0]).sum() == MOST_ROWS
    slopes = _slopes(many, many.emulators[0])
    told_of = [told(each) for each in _differences(many, -points[:, 0], slopes)]
    for found in told_of:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(told(many)))


def test_a_kernel_without_gradients_learns_from_the_values():
    surrogate = EmulatedGP(kernel="matern12", restarts=0)
    one, other = (
        surrogate.fit(data(**changes), np.random.default_rng(0), None, no_report).mean_var(torch.tensor(Z))
        for changes in ({}, {"gradients": None})
    )
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
