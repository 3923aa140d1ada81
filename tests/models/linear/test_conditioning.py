"""Both sides of a linear model's conditioning against the p x p formulas of the papers."""

import math

import pytest
import torch

from fieldcraft.models.linear.conditioning import (
    Factor,
    Primal,
    Watched,
    information_gain,
    interaction_information,
    leave_one_out,
    marginal_slope,
    smaller_side,
)
from fieldcraft.models.tangent.features import Perceptron, diagonal, gram

NOISE = 0.03


@pytest.fixture(scope="module")
def model():
    """Rows of 12 points and of 5 candidates by a network of m = 20, and targets."""
    generator = torch.Generator().manual_seed(3)
    network = Perceptron(3, 20, 1, "relu")
    theta = network.initial(generator)
    X, C = (2 * torch.rand(n, 3, generator=generator, dtype=torch.float64) - 1 for n in (12, 5))
    y = torch.randn(12, generator=generator, dtype=torch.float64)
    return network.passes(theta, X), network.passes(theta, C), network.features(theta, X), network.features(theta, C), y


def test_dual_variance_equals_the_formula_with_the_p_by_p_matrix(model):
    rows, others, Phi, phi, _ = model
    U = NOISE * torch.eye(Phi.shape[1], dtype=torch.float64) + Phi.T @ Phi
    expected = NOISE * (phi @ torch.linalg.inv(U) * phi).sum(1)
    found = Factor.of(gram(rows, rows), NOISE).variance(diagonal(others), gram(rows, others))
    assert torch.allclose(found, expected, rtol=1e-8, atol=0)


def test_rows_appended_one_by_one_give_the_factor_from_scratch(model):
    rows, *_ = model
    K = gram(rows, rows)
    grown = Factor.of(K[:8, :8], NOISE)
    for i in range(8, 11):
        grown = grown.append(K[i, :i], K[i, i] + NOISE)
    whole = Factor.of(K[:11, :11], NOISE)
    assert torch.allclose(grown.lower, whole.lower, rtol=1e-9, atol=1e-12)
    both = Factor.of(K[:8, :8], NOISE).append(K[8:11, :8], K[8:11, 8:11] + NOISE * torch.eye(3, dtype=torch.float64))
    assert torch.allclose(both.lower, whole.lower, rtol=1e-9, atol=1e-12)


def test_watched_candidates_keep_the_variance_of_a_factor_from_scratch(model):
    rows, others, *_ = model
    K, cross, prior = gram(rows, rows), gram(rows, others), diagonal(others)
    watched = Watched.of(Factor.of(K[:6, :6], NOISE), prior, cross[:6])
    watched = watched.append(K[6, :6], K[6, 6] + NOISE, cross[6])
    pair = K[7:9, 7:9] + NOISE * torch.eye(2, dtype=torch.float64)
    watched = watched.append(K[7:9, :7], pair, cross[7:9]).append(K[9, :9], K[9, 9] + NOISE, cross[9])
    expected = Factor.of(K[:10, :10], NOISE).variance(prior, cross[:10])
    assert torch.allclose(watched.variance, expected, rtol=1e-8, atol=0)
    assert (watched.variance < prior).all()


@pytest.mark.parametrize("spread", [NOISE, torch.linspace(0.01, 0.5, 12, dtype=torch.float64)], ids=["one", "each"])
def test_primal_side_gives_the_numbers_of_the_dual_side(model, spread):
    rows, others, Phi, phi, y = model
    dual, primal = Factor.of(gram(rows, rows), spread), Primal.of(Phi, spread)
    pairs = [
        (dual.variance(diagonal(others), gram(rows, others)), primal.variance(phi)),
        (dual.solve(y), primal.solve(y)),
        (Phi.T @ dual.solve(y), primal.direction(y)),
        (dual.logdet(), primal.logdet()),
        (dual.inverse_diagonal(), primal.inverse_diagonal()),
        (dual.log_marginal(y), primal.log_marginal(y)),
        (leave_one_out(dual, y), leave_one_out(primal, y)),
    ]
    for left, right in pairs:
        assert torch.allclose(left, right, rtol=1e-8, atol=1e-10)


def test_primal_rows_appended_equal_those_from_scratch(model):
    _, _, Phi, phi, y = model
    grown = Primal.of(Phi[:9], NOISE).append(Phi[9:], NOISE)
    whole = Primal.of(Phi, NOISE)
    assert torch.allclose(grown.variance(phi), whole.variance(phi), rtol=1e-8)
    assert torch.allclose(grown.direction(y), whole.direction(y), rtol=1e-8, atol=1e-12)


def test_leave_one_out_equals_refitting_without_each_point(model):
    rows, _, Phi, _, y = model
    found = leave_one_out(Factor.of(gram(rows, rows), NOISE), y)
    for i in range(len(y)):
        kept = [j for j in range(len(y)) if j != i]
        left = Primal.of(Phi[kept], NOISE)
        spread = left.variance(Phi[[i]]) + NOISE
        density = torch.distributions.Normal(Phi[i] @ left.direction(y[kept]), spread.sqrt()).log_prob(y[i])
        assert found[i] == pytest.approx(density.item(), rel=1e-8)


def test_log_marginal_is_the_density_of_the_targets(model):
    rows, *_, y = model
    K = gram(rows, rows)
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y), K + NOISE * torch.eye(12, dtype=torch.float64))
    assert Factor.of(K, NOISE).log_marginal(y).item() == pytest.approx(normal.log_prob(y).item(), rel=1e-10)


def test_the_slope_of_the_log_marginal_is_the_one_of_automatic_differentiation(model):
    rows, *_, y = model
    K = gram(rows, rows).requires_grad_()
    noise = torch.tensor(NOISE, dtype=torch.float64, requires_grad=True)
    value = Factor.of(K, noise).log_marginal(y)
    expected = torch.autograd.grad(value, (K, noise))
    found, slope = marginal_slope(K, noise, y)
    assert found.item() == pytest.approx(value.item(), rel=1e-12)
    assert torch.allclose(slope, (expected[0] + expected[0].T) / 2, rtol=1e-8, atol=1e-8)
    assert slope.trace().item() == pytest.approx(expected[1].item(), rel=1e-8)


def test_information_gain_equals_the_determinant_of_the_p_by_p_matrix(model):
    rows, _, Phi, *_ = model
    U = torch.eye(Phi.shape[1], dtype=torch.float64) + Phi.T @ Phi / NOISE
    assert information_gain(gram(rows, rows), NOISE).item() == pytest.approx(0.5 * torch.logdet(U).item(), rel=1e-8)


def test_interaction_information_is_what_two_sets_tell_twice(model):
    _, _, Phi, phi, _ = model
    K, cross, R = Phi @ Phi.T, Phi @ phi.T, phi @ phi.T
    found = interaction_information(K, cross, R, 0.1, 0.4)
    p = torch.eye(Phi.shape[1], dtype=torch.float64)
    u, r = Phi.T @ Phi / 0.1, phi.T @ phi / 0.4
    expected = 0.5 * (torch.logdet(p + u) + torch.logdet(p + r) - torch.logdet(p + u + r))
    assert found.item() == pytest.approx(expected.item(), rel=1e-8)
    assert found > 0.1
    assert interaction_information(K, torch.zeros_like(cross), R, 0.1, 0.4).item() == pytest.approx(0.0, abs=1e-10)


def test_factors_of_several_models_are_those_of_each(model):
    rows, _, _, _, y = model
    K = gram(rows, rows)
    both = Factor.of(torch.stack([K, 2 * K]), NOISE)
    targets = torch.stack([y, y])
    for k, each in enumerate((K, 2 * K)):
        one = Factor.of(each, NOISE)
        assert torch.allclose(both.solve(targets)[k], one.solve(y), rtol=1e-10)
        assert torch.allclose(leave_one_out(both, targets)[k], leave_one_out(one, y), rtol=1e-10)
        assert both.log_marginal(targets)[k].item() == pytest.approx(one.log_marginal(y).item(), rel=1e-10)


def test_variance_is_never_negative_where_a_rounded_prior_would_make_it_so():
    X = torch.linspace(0, 4, 5, dtype=torch.float64)
    K = torch.exp(-0.5 * (X[:, None] - X).square())
    factor, prior = Factor.of(K, 1e-13), K.diagonal() * (1 - 1e-9)
    assert (prior < factor.half_solve(K).square().sum(0)).all()
    assert factor.variance(prior, K).tolist() == [0.0] * 5
    assert Watched.of(factor, prior, K).variance.tolist() == [0.0] * 5


def test_the_smaller_matrix_is_the_one_that_is_factored():
    assert [smaller_side(5, 9), smaller_side(9, 5), smaller_side(7, 7)] == ["dual", "primal", "dual"]


def test_a_matrix_that_is_not_positive_definite_is_refused():
    K = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
    with pytest.raises(
        ValueError, match=r"2 rows is not positive definite at a noise variance of 0.5: raise the noise"
    ):
        Factor.of(K, 0.5)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 0), (2, 1), (2, 2)])
def test_a_matrix_with_a_number_that_is_not_finite_is_refused(number, place):
    K = torch.eye(3, dtype=torch.float64)
    K[place] = K[place[::-1]] = number
    with pytest.raises(ValueError, match="is not positive definite at a noise variance"):
        Factor.of(K, 1.0)
