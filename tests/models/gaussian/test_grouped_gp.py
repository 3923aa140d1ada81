"""The process that is a sum over groups: kernel, evidence, parts and groups against what can be written down."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.add_ucb import AddUCB
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.gaussian.grouped_kernel import GroupedEvidence, GroupedKernel, constant
from fieldcraft.models.gaussian.grouped_process import GroupedPosterior
from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.grouped_gp import GroupedGP
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace

KINDS = ("matern12", "matern32", "matern52", "rbf")
GROUPS = ((0, 2), (1,), (3,))
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (14, 4))
Y = np.sin(3 * X[:, 0] + X[:, 2]) + X[:, 1] ** 2 - 0.5 * X[:, 3]
Z = torch.tensor(RNG.uniform(-1, 1, (6, 4)))
FLAT = np.array([-1.0, 0.2, -0.7, -0.3, 0.4, 0.8, -1.0, math.log(0.01)])
SPACE = SearchSpace((Continuous("x", 0.0, 1.0), Categorical("gas", ("N2", "Ar", "He")), Integer("n", 1, 6)))
NOTHING = torch.empty(0, 4, dtype=torch.float64)


def given(kind="matern52", groups=GROUPS, flat=FLAT):
    """The posterior with these hyper-parameters."""
    kernel, points, targets = GroupedKernel.of(kind, groups, flat), torch.tensor(X), torch.tensor(Y)
    factor = Factor.of(kernel(points, points), kernel.noise)
    return GroupedPosterior(kernel, points, targets, factor, 0.0, Scaling(0.0, 1.0, 1.0), constant(factor, targets))


def gram(kind, group, A, B):
    """a_g^2 m(r_g) in NumPy, from FLAT."""
    scales = np.exp(FLAT[3:7][list(GROUPS[group])])
    apart = (A[:, None, list(GROUPS[group])] - B[None, :, list(GROUPS[group])]) / scales
    return math.exp(FLAT[group]) * Radial(kind).value(torch.tensor((apart**2).sum(-1))).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_those_of_explicit_matrices_and_their_means_sum_to_the_whole(kind):
    posterior = given(kind)
    at = Z.numpy()
    A = np.linalg.inv(sum(gram(kind, g, X, X) for g in range(3)) + 0.01 * np.eye(14))
    level = (A @ Y).sum() / A.sum()
    means, variances = posterior.parts(Z)
    for g in range(3):
        cross = gram(kind, g, at, X)
        np.testing.assert_allclose(means[g], cross @ A @ (Y - level), atol=1e-10)
        explained = np.einsum("ij,jk,ik->i", cross, A, cross)
        np.testing.assert_allclose(variances[g], math.exp(FLAT[g]) - explained, atol=1e-10)
    cross = sum(gram(kind, g, at, X) for g in range(3))
    mean, variance = posterior.mean_var(Z)
    np.testing.assert_allclose(mean, level + means.sum(0), atol=1e-12)
    whole = np.exp(FLAT[:3]).sum() - np.einsum("ij,jk,ik->i", cross, A, cross)
    np.testing.assert_allclose(variance, whole, atol=1e-10)
    assert (variances.sum(0) > variance).all()


def test_a_part_depends_on_its_own_coordinates_alone():
    posterior, moved = given(), Z.clone()
    moved[:, 1] += 0.1
    before, after = (torch.stack(posterior.parts(points)) for points in (Z, moved))
    changed = (before != after).any(-1)
    assert changed.tolist() == [[False, True, False], [False, True, False]]


def test_a_term_is_its_part_in_units_of_the_prior():
    posterior = given()
    score = AddUCB(beta=9.0).score(posterior, Observations(X, Y, maximize=False), NOTHING, 1, RNG)
    means, variances = posterior.parts(Z)
    for g, term in enumerate(score.terms(NOTHING)):
        value = term.value(Z[:, list(GROUPS[g])], 0, NOTHING)
        torch.testing.assert_close(value, 3 * variances[g].sqrt() - means[g], atol=1e-10, rtol=0)
    torch.testing.assert_close(score.value(Z, 0, NOTHING), (3 * variances.sqrt() - means).sum(0), atol=1e-10, rtol=0)


def test_the_bound_of_the_terms_is_never_below_that_of_the_whole():
    data = Observations(X, Y, maximize=False)
    posterior = given()
    apart = AddUCB().score(posterior, data, NOTHING, 1, RNG).value(Z, 0, NOTHING)
    whole = UCB().score(posterior, data, NOTHING, 1, RNG).value(Z, 0, NOTHING)
    assert (apart >= whole + posterior.constant).all()


def test_a_growing_weight_is_that_of_each_groups_size_and_the_number_of_trials():
    score = AddUCB(beta="growing").score(given(), Observations(X, Y, maximize=False), NOTHING, 1, RNG)
    assert score.weights == pytest.approx([math.sqrt(0.2 * d * math.log(28)) for d in (2, 1, 1)], rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [None, 0.01])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(kind, noise):
    evidence = GroupedEvidence(X, Y, kind, GROUPS, noise)
    slope = evidence(FLAT)[1]
    for i, step in enumerate(1e-6 * np.eye(len(FLAT))):
        expected = (evidence(FLAT + step)[0] - evidence(FLAT - step)[0]) / 2e-6
        assert slope[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_evidence_is_the_normal_density_at_its_likeliest_mean_times_the_prior():
    posterior, evidence = given(), GroupedEvidence(X, Y, "matern52", GROUPS, None)
    covariance = posterior.kernel(posterior.X, posterior.X) + 0.01 * torch.eye(14, dtype=torch.float64)
    pull = (FLAT - evidence.centre) / evidence.spread

    def density(level):
        mean = torch.full((14,), level, dtype=torch.float64)
        return float(torch.distributions.MultivariateNormal(mean, covariance).log_prob(posterior.targets))

    level = posterior.constant
    assert evidence(FLAT)[0] == pytest.approx(density(level) - 0.5 * float(pull @ pull), rel=1e-10)
    assert density(level) > max(density(level - 0.01), density(level + 0.01))


def test_draws_have_the_posteriors_mean_and_variance():
    posterior = given()
    mean, variance = posterior.mean_var(Z[:3])
    draws = torch.stack([f(Z[:3]) for f in posterior.draw(1000, np.random.default_rng(1))])
    # Random features miss a prior's variance by a few percent.
    assert ((draws.mean(0) - mean).abs() < 4.5 * (variance / 1000).sqrt() + 0.01).all()
    torch.testing.assert_close(draws.var(0), variance, rtol=0.25, atol=1e-3)


def test_what_a_reading_says_of_the_sum_is_predicted_without_it_as_the_conditional_normal_does():
    posterior = given()
    covariance = (posterior.kernel(posterior.X, posterior.X) + 0.01 * torch.eye(14, dtype=torch.float64)).numpy()
    left = Y - posterior.constant
    for i in (0, 9):
        rest = np.delete(np.arange(14), i)
        weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, i])
        variance = covariance[i, i] - weights @ covariance[rest, i]
        expected = -0.5 * ((left[i] - weights @ left[rest]) ** 2 / variance + math.log(2 * math.pi * variance))
        assert float(posterior.log_predictive()[i]) == pytest.approx(expected, abs=1e-9)


def fitted(surrogate, space=SPACE, n=12):
    points = space.sample(n, np.random.default_rng(1))
    data = Observations(points, np.sin(points).sum(axis=1), maximize=False, columns=space.columns)
    return surrogate.fit(data, np.random.default_rng(0), None, no_report), data


def test_each_variable_is_a_group_and_a_categorical_one_with_all_its_columns():
    assert fitted(GroupedGP(restarts=0))[0].groups == ((0,), (1, 2, 3), (4,))
    posterior, data = fitted(GroupedGP(restarts=0, groups=(("n", "x"),)))
    assert posterior.groups == ((4, 0), (1, 2, 3))
    unnamed = Observations(data.X, data.y, maximize=False)
    assert GroupedGP(restarts=0).fit(unnamed, RNG, None, no_report).groups == tuple((j,) for j in range(5))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((("x", "m"),), "groups name 'm', and the variables are x, gas, n: correct the name"),
        ((("x",), ("n", "x")), "groups name 'x' twice: a variable belongs to one group"),
        ((("x",), ()), "A group is empty: name at least one variable"),
    ],
)
def test_groups_that_are_not_of_the_variables_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        fitted(GroupedGP(groups=groups))
    with pytest.raises(ValueError, match=message):
        GroupedGP(groups=groups).columns(SPACE)


def test_the_state_of_other_groups_is_refused():
    posterior, data = fitted(GroupedGP(restarts=0))
    with pytest.raises(ValueError, match=r"not of the groups .*4, 0.*of coordinates: fit again"):
        GroupedGP(groups=(("n", "x"),)).restore(data, posterior.state())


def test_a_sum_of_narrow_functions_is_predicted_far_better_than_by_a_process_of_all_coordinates():
    def f(points):
        return np.cos(4 * points).sum(1)

    rng = np.random.default_rng(5)
    points, unseen = rng.uniform(-1, 1, (45, 5)), rng.uniform(-1, 1, (200, 5))
    data, errors = Observations(points, f(points), maximize=False), []
    for surrogate in (GroupedGP(restarts=0), ExactGP(restarts=0)):
        mean = surrogate.fit(data, rng, None, no_report).mean_var(torch.tensor(unseen))[0].detach().numpy()
        errors.append(np.sqrt(np.mean((data.scaling.to_physical(mean) - f(unseen)) ** 2)))
    assert errors[0] < 0.2 * errors[1]


def test_a_posterior_without_groups_is_refused_by_the_bound_of_terms():
    posterior, data = fitted(ExactGP(restarts=0))
    nothing = torch.empty(0, 5, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"add_ucb needs a sum .* is a ExactPosterior: use .* grouped_gp, or `acquis"):
        AddUCB().score(posterior, data, nothing, 1, RNG)


def test_too_much_memory_and_noise_that_is_not_known_are_refused():
    with pytest.raises(ValueError, match=r"12 trials in 3 groups of variables needs about .* memory_gb is 1e-06"):
        fitted(GroupedGP(memory_gb=1e-6))
    with pytest.raises(ValueError, match="observations state none"):
        fitted(GroupedGP(noise="known"))
    with pytest.raises(ValueError, match="restarts is -1"):
        GroupedGP(restarts=-1)
