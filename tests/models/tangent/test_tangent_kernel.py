"""The tangent kernel and its process against explicit rows phi(x) of a small network, and its evidence."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from fieldcraft.models.linear.conditioning import leave_one_out
from fieldcraft.models.observations import ImageColumns, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent import evidence as tangent_evidence
from fieldcraft.models.tangent.evidence import Evidence, WideEvidence, columns, hyperparameters
from fieldcraft.models.tangent.features import Perceptron, gram
from fieldcraft.models.tangent.kernel import Hyperparameters, TangentKernel
from fieldcraft.models.tangent.process import TangentProcess, normals
from fieldcraft.models.tangent.weight_draws import Regression

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (9, 2))
Y = 7 * np.sin(2 * X[:, 0]) + X[:, 1] + 30
DATA = Observations(X, Y, maximize=False)
POINTS, TARGETS = torch.tensor(X), torch.tensor(DATA.targets)
Z = torch.tensor(RNG.uniform(-1, 1, (5, 2)))
NETWORK = Perceptron(2, 8, 2, "erf", 1.5, 0.3)
THETA = NETWORK.initial(torch.Generator().manual_seed(3))
FOUND = Hyperparameters(torch.tensor([0.7, 1.9], dtype=torch.float64), 1.7, 0.4, 0.05)


def kernel(*, normalised=True, theta=THETA):
    return TangentKernel(NETWORK, theta, FOUND.scales, FOUND.output, FOUND.constant, normalised)


def written(points, *, normalised=True):
    phi = NETWORK.features(THETA, points / FOUND.scales)
    phi = phi / phi.norm(dim=1, keepdim=True) if normalised else phi
    constant = torch.full((len(phi), 1), math.sqrt(FOUND.constant), dtype=torch.float64)
    return torch.cat([math.sqrt(FOUND.output) * phi, constant], dim=1)


PROCESS = TangentProcess.of(kernel(), FOUND, DATA)
ROWS, OTHERS = written(POINTS), written(Z)
COVARIANCE = ROWS @ ROWS.T + FOUND.noise * torch.eye(len(X), dtype=torch.float64)


@pytest.mark.parametrize("normalised", [True, False])
def test_mean_and_variance_are_those_of_the_written_out_rows(normalised):
    process = TangentProcess.of(kernel(normalised=normalised), FOUND, DATA)
    rows, others = written(POINTS, normalised=normalised), written(Z, normalised=normalised)
    solved = torch.linalg.solve(rows @ rows.T + FOUND.noise * torch.eye(len(X), dtype=torch.float64), rows @ others.T)
    mean, variance = process.mean_var(Z)
    torch.testing.assert_close(mean, solved.T @ TARGETS, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(variance, (others @ others.T - others @ rows.T @ solved).diagonal(), rtol=1e-8, atol=0)


@pytest.mark.parametrize("normalised", [True, False])
def test_a_function_along_a_direction_is_the_product_with_the_written_out_rows(normalised):
    direction = torch.linspace(-1, 1, ROWS.shape[1], dtype=torch.float64)
    along = kernel(normalised=normalised).along(Z, direction)
    torch.testing.assert_close(along, written(Z, normalised=normalised) @ direction, rtol=1e-10, atol=1e-12)


def test_more_trials_than_weights_are_conditioned_on_the_side_of_the_weights():
    narrow = Perceptron(2, 1, 1, "sine")
    small = TangentKernel(narrow, narrow.initial(torch.Generator().manual_seed(1)), FOUND.scales, 1.0, 0.4, True)
    process = TangentProcess.of(small, FOUND, DATA)
    phi = torch.cat([layer.rows() for layer in small.rows(POINTS).layers], dim=1)
    other = torch.cat([layer.rows() for layer in small.rows(Z).layers], dim=1)
    precision = torch.eye(5, dtype=torch.float64) + phi.T @ phi / FOUND.noise
    mean, variance = process.mean_var(Z)
    torch.testing.assert_close(mean, other @ torch.linalg.solve(precision, phi.T @ TARGETS / FOUND.noise))
    torch.testing.assert_close(variance, (other @ torch.linalg.solve(precision, other.T)).diagonal())


def test_the_diagonal_variance_is_that_of_the_diagonal_of_u():
    U = FOUND.noise + ROWS.square().sum(0)
    torch.testing.assert_close(PROCESS.diagonal_variance(Z), FOUND.noise * (OTHERS.square() / U).sum(1))


def test_believing_points_is_reading_their_mean():
    believed = PROCESS.fantasize(Z[:2])
    more = Observations(
        np.vstack([X, Z[:2].numpy()]),
        np.append(Y, DATA.scaling.to_physical(PROCESS.mean_var(Z[:2])[0])),
        maximize=False,
    )
    rows = written(torch.tensor(more.X))
    solved = torch.linalg.solve(
        rows @ rows.T + FOUND.noise * torch.eye(len(more), dtype=torch.float64), rows @ OTHERS.T
    )
    targets = torch.tensor(DATA.scaling.to_target(more.y))
    mean, variance = believed.mean_var(Z)
    torch.testing.assert_close(mean, solved.T @ targets, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(variance, (OTHERS @ OTHERS.T - OTHERS @ rows.T @ solved).diagonal(), rtol=1e-8, atol=0)


def test_the_predictive_density_of_each_reading_is_that_of_a_fit_without_it():
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        solved = torch.linalg.solve(COVARIANCE[others][:, others], COVARIANCE[others, i])
        mean, variance = float(solved @ TARGETS[others]), float(COVARIANCE[i, i] - solved @ COVARIANCE[others, i])
        expected = stats.norm(mean, math.sqrt(variance)).logpdf(float(TARGETS[i]))
        assert float(PROCESS.log_predictive()[i]) == pytest.approx(expected, abs=1e-9)


def test_a_normal_number_belongs_to_a_point_and_a_seed():
    points = RNG.uniform(-1, 1, (20_000, 3))
    values = normals(points, 5)
    np.testing.assert_array_equal(normals(points[100:200], 5), values[100:200])
    assert stats.kstest(values, "norm").pvalue > 0.01
    assert abs(np.corrcoef(values, normals(points, 6))[0, 1]) < 0.03
    assert abs(np.corrcoef(values, normals(points + 1e-9, 5))[0, 1]) < 0.03


def evidence(noise=None, **changes):
    known = {"groups": np.array([0, 1]), "centre": 0.6, "noise": noise, "normalised": True}
    return Evidence(NETWORK, THETA, POINTS, TARGETS, **(known | changes))


@pytest.mark.parametrize("noise", [None, 0.02])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(noise):
    asked = evidence(noise)
    v = asked.middle + np.linspace(-0.3, 0.4, len(asked.middle))
    for i, slope in enumerate(asked.at(v)[1]):
        step = 1e-5 * np.eye(len(v))[i]
        assert slope == pytest.approx((asked.at(v + step)[0] - asked.at(v - step)[0]) / 2e-5, rel=1e-6, abs=1e-8)


def test_the_evidence_is_the_log_density_of_the_readings_and_of_the_log_parameters():
    asked, v = evidence(), np.array([math.log(0.7), math.log(1.9), math.log(1.7), math.log(0.05)])
    constant_one = ROWS @ ROWS.T + 0.6 + FOUND.noise * torch.eye(len(X), dtype=torch.float64)
    prior = 0.5 * (((v[:2] - math.log(0.6)) / 0.5) ** 2).sum() + 0.5 * v[2] ** 2 + 0.5 * ((v[3] + 5) / 3) ** 2
    likelihood = stats.multivariate_normal(np.zeros(len(X)), constant_one).logpdf(DATA.targets)
    assert asked.at(v)[0] == pytest.approx(prior - likelihood, abs=1e-9)


def long_data(n, **changes):
    points = np.random.default_rng(9).uniform(-1, 1, (n, 2))
    known = {"y": np.cos(3 * points[:, 0]) + 0.1 * points[:, 1], "maximize": False}
    return Observations(X=points, **(known | changes))


def fitted(data):
    return hyperparameters(Perceptron(2, 12, 1, "sine", 1.7), data, (0.4,))[0]


def test_hyper_parameters_survive_as_tensors_bit_for_bit():
    again = Hyperparameters.of(FOUND.tensors())
    assert torch.equal(again.scales, FOUND.scales)
    assert (again.output, again.constant, again.noise) == (FOUND.output, FOUND.constant, FOUND.noise)


def test_hyper_parameters_are_fitted_anew_to_fifty_trials_and_then_at_growths_of_ten_per_cent():
    once, later, grown = long_data(50), long_data(54), long_data(55)
    assert torch.equal(fitted(once).scales, fitted(later).scales)
    assert not torch.equal(fitted(once).scales, fitted(grown).scales)
    for name in ("output", "noise"):
        sizes = [getattr(fitted(data), name) * data.scaling.sd**2 for data in (once, later)]
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_first_readings_that_are_constant_tell_no_scale_whatever_the_unit(unit):
    y = np.append(np.zeros(50), [1.0, 3.0])
    found, others = (fitted(long_data(52, y=y * factor)) for factor in (1.0, unit))
    for name in ("output", "noise"):
        assert getattr(found, name) == pytest.approx(getattr(others, name), rel=1e-9)
    assert found.output + found.constant + found.noise > 0.5


def test_a_process_that_knows_nothing_finds_the_same_hyper_parameters_bit_for_bit():
    for n in (10, 20, 40):
        fitted(long_data(n))
    known = fitted(long_data(54))
    tangent_evidence.answered.cache_clear()
    again = fitted(long_data(54))
    assert torch.equal(known.scales, again.scales)
    assert (known.output, known.constant, known.noise) == (again.output, again.constant, again.noise)


WIDE = Perceptron(2, 300, 1, "sine", 1.7)


def wide_evidence(noise=None, groups=(0, 1)):
    theta = WIDE.initial(torch.Generator().manual_seed(7))
    data = long_data(30)
    known = {"groups": np.array(groups), "centre": 0.6, "noise": noise}
    return WideEvidence(WIDE, theta, torch.tensor(data.X), torch.tensor(data.targets), **known)


@pytest.mark.parametrize("noise", [None, 0.02])
@pytest.mark.parametrize("groups", [(0, 1), (0, 0)])
def test_the_slopes_of_a_wide_layers_evidence_are_those_of_finite_differences(noise, groups):
    asked = wide_evidence(noise, groups)
    v = asked.middle + np.linspace(-0.3, 0.4, len(asked.middle))
    for i, slope in enumerate(asked.at(v)[1]):
        step = 1e-5 * np.eye(len(v))[i]
        assert slope == pytest.approx((asked.at(v + step)[0] - asked.at(v - step)[0]) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("noise", [None, 0.02])
def test_output_and_noise_of_a_wide_layer_are_the_likeliest_of_the_network_itself(noise):
    asked = wide_evidence(noise)
    own = Evidence(**{field: getattr(asked, field) for field in asked.__dataclass_fields__})
    v, value = asked.resized(asked.middle + 0.1)
    assert value == pytest.approx(own.at(v)[0], rel=1e-10)
    np.testing.assert_allclose(own.at(v)[1][2:], 0, atol=0.02)


def test_only_a_wide_normalised_layer_of_sines_is_fitted_in_its_limit(monkeypatch):
    class Noted(WideEvidence):
        def at(self, v):
            asked.append(self.network)
            return super().at(v)

    asked = []
    monkeypatch.setattr(tangent_evidence, "WideEvidence", Noted)
    data = long_data(9)
    for network, known in (
        (replace(WIDE, width=40), {}),
        (replace(WIDE, activation="tanh"), {}),
        (replace(WIDE, b_std=0.1), {}),
        (replace(WIDE, depth=2, width=256), {}),
        (WIDE, {"normalised": False}),
        (WIDE, {"init": "zero_last_layer"}),
    ):
        hyperparameters(network, data, (0.4,), **known)
        assert not asked
    hyperparameters(replace(WIDE, width=301), data, (0.4,))
    assert asked


def test_a_coordinate_that_does_not_matter_has_the_longer_scale():
    scales = fitted(long_data(40)).scales
    assert scales[1] > 1.5 * scales[0]


def test_the_found_hyper_parameters_cannot_be_bettered_nearby():
    asked = evidence()
    found, reached = hyperparameters(NETWORK, DATA, (0.6,))
    assert reached == pytest.approx(-evidence_of_reference().at(logarithms(found))[0], abs=1e-9)
    for i in range(4):
        for step in (-0.1, 0.1):
            moved = logarithms(found) + step * np.eye(4)[i]
            assert evidence_of_reference().at(moved)[0] > -reached
    assert asked.bounds[0][0] < logarithms(found)[0] < asked.bounds[0][1]


def test_hyper_parameters_are_those_of_the_rows_that_a_last_layer_of_zeros_leaves():
    asked = evidence_of_reference("zero_last_layer")
    found, reached = hyperparameters(NETWORK, DATA, (0.6,), init="zero_last_layer")
    others, _ = hyperparameters(NETWORK, DATA, (0.6,))
    assert reached == pytest.approx(-asked.at(logarithms(found))[0], abs=1e-9)
    assert reached > 0.01 - asked.at(logarithms(others))[0]
    fits = [
        TangentNetwork(width=12, init=init, refinements=1).fit(DATA, np.random.default_rng(0), None, no_report)
        for init in ("antisymmetric", "gaussian", "zero_last_layer")
    ]
    first, second, third = (each.metrics["log_posterior"] for each in fits)
    assert first == second != third


def evidence_of_reference(init="gaussian"):
    theta = NETWORK.initial(torch.Generator().manual_seed(tangent_evidence._REFERENCE_SEED), init)
    return Evidence(NETWORK, theta, POINTS, TARGETS, np.array([0, 1]), 0.6, None)


def logarithms(found):
    return np.log([*found.scales.tolist(), found.output, found.noise])


def test_known_noise_is_taken_over_in_target_units():
    data = long_data(20, noise_sd=0.3)
    assert fitted(data).noise == pytest.approx((0.3 / data.scaling.sd) ** 2, rel=1e-12)


def test_the_pixels_of_an_image_share_one_length_scale():
    points = RNG.uniform(-1, 1, (6, 7))
    data = Observations(points, points.sum(1), maximize=False, images=(ImageColumns(2, (2, 2)),))
    np.testing.assert_array_equal(columns(data), [0, 1, 2, 2, 2, 2, 3])


@pytest.mark.parametrize("network", [NETWORK, Perceptron(2, 1, 1, "sine")], ids=["dual", "primal"])
def test_believing_appends_what_conditioning_from_scratch_gives(network):
    small = TangentKernel(network, network.initial(torch.Generator().manual_seed(1)), FOUND.scales, 1.0, 0.4, True)
    process = TangentProcess.of(small, FOUND, DATA)
    believed = process.fantasize(Z[:2]).fantasize(Z[2:3])
    scratch = Regression.of(small.rows(torch.cat([POINTS, Z[:3]])), FOUND.noise)
    assert type(believed.regression.side) is type(scratch.side)
    torch.testing.assert_close(believed.mean_var(Z)[1], scratch.variance(small.rows(Z)), rtol=1e-8, atol=1e-12)
    y = torch.cat([TARGETS, process.mean_var(Z[:3])[0]])
    torch.testing.assert_close(believed.log_predictive(), leave_one_out(scratch.side, y), rtol=1e-8, atol=1e-10)


def test_a_point_where_all_neurons_are_dead_has_a_row_of_zeros():
    network = Perceptron(2, 3, 1, "relu")
    theta = network.initial(torch.Generator().manual_seed(1))
    theta[:9] = torch.tensor([0.0, 0.0, -1.0] * 3)
    dead = TangentKernel(network, theta, FOUND.scales, 1.7, 0.4, True)
    torch.testing.assert_close(gram(dead.rows(Z), dead.rows(Z)), torch.full((5, 5), 0.4, dtype=torch.float64))
