"""The joint Gaussian process of results and equation rows, with an ordinary and with a tangent covariance."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from fieldcraft.models.equations.functionals import Functionals, JointRows, joint_rows
from fieldcraft.models.equations.residuals import linear_rows
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.joint_evidence import Belief, choose_hyper, log_evidence
from fieldcraft.models.physics_informed.joint_posterior import condition, information
from fieldcraft.models.physics_informed.joint_process import Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Stationary, Tangent
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, laplace

CENTER, HALF = np.array([2.0, -1.0]), np.array([1.5, 0.5])
NETWORK = Network(2, width=12, depth=2, activation="sine")
TANGENT = Tangent(NETWORK, NETWORK.initial(1, torch.Generator().manual_seed(0))[0])
COVARIANCES = [Stationary("rbf"), Stationary("matern52"), Stationary("rbf", level=2.0), TANGENT]
NAMES = ["rbf", "matern52", "rbf about a constant", "tangent"]


def cubic(p):
    x, y = p.T
    return 5.0 + (x**3 - 3 * x * y**2) - 2 * (x**2 - y**2) + x * y


def observed(equation=None, function=cubic, n=8, r=12, seed=0, **given):
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (r, 2))
    physics = Physics(equation or laplace(2), CENTER + HALF * Z, CENTER, HALF)
    return Observations(X, function(CENTER + HALF * X), maximize=True, physics=physics, **{"noise_sd": 0.05, **given})


def rows_of(data):
    return joint_rows(data, data.physics, linear_rows(data.physics, data.scaling, data.physics.points))


def hyper(fields=1, d=2, noise=-4.0, slack=-6.0):
    flat = [*np.linspace(-0.2, 0.3, fields * d), *np.linspace(0.1, 0.4, fields), noise, slack]
    return Hyper.of(torch.tensor(flat, dtype=torch.float64), fields)


def without(rows, index):
    keep = [i for i in range(len(rows)) if i != index]
    fields = tuple(Functionals(f.points[keep], f.zeroth[keep], f.slopes[keep], f.bends[keep]) for f in rows.fields)
    return JointRows(fields, rows.targets[keep], rows.equations)


def readings_only(rows):
    r = rows.equations
    return JointRows(tuple(field.after(r) for field in rows.fields), rows.targets[r:], 0)


def points(n, seed=7):
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (n, 2)))


def functionals(n, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, 2, 2))
    parts = rng.uniform(-1, 1, (n, 2)), rng.standard_normal(n), rng.standard_normal((n, 2)), A + A.transpose(0, 2, 1)
    return Functionals(*(torch.from_numpy(part) for part in parts))


def applied(function, a, i):
    """The i-th functional of a function of one point (2,), by automatic differentiation."""
    x = a.points[i]
    slope, bend = torch.func.grad(function)(x), torch.func.hessian(function)(x)
    return a.zeroth[i] * function(x) + a.slopes[i] @ slope + (a.bends[i] * bend).sum()


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_the_operator_on_both_sides_is_that_of_automatic_differentiation(covariance):
    a, b = functionals(2, seed=0), functionals(2, seed=1)

    def k(x, z):
        return covariance.gram(Functionals.values(x[None]), Functionals.values(z[None]))[0, 0]

    for i in range(2):
        for j in range(2):
            expected = applied(lambda x, j=j: applied(lambda z: k(x, z), b, j), a, i)
            torch.testing.assert_close(covariance.gram(a, b)[i, j], expected, rtol=1e-9, atol=1e-10)
    values = Functionals.values(b.points)
    torch.testing.assert_close(covariance.gram(a, values).mT, covariance.gram(values, a), rtol=1e-12, atol=1e-12)
    expected = torch.stack([applied(lambda x: k(x, b.points[0]), a, i) for i in range(2)])
    torch.testing.assert_close(covariance.gram(a, values)[:, 0], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_the_joint_covariance_is_symmetric_and_positive_semidefinite_with_its_diagonal(covariance):
    rows = rows_of(observed()).fields[0]
    joint = covariance.gram(rows, rows)
    torch.testing.assert_close(joint, joint.mT, rtol=1e-12, atol=1e-12)
    assert float(torch.linalg.eigvalsh(joint)[0]) > -1e-10 * float(joint.diagonal().max())
    torch.testing.assert_close(joint.diagonal(), covariance.diagonal(rows), rtol=1e-10, atol=1e-10)


def test_a_symmetric_covariance_takes_each_network_pass_once():
    @dataclass(frozen=True)
    class Counting(Tangent):
        def passes(self, a):
            passed.append(a)
            return super().passes(a)

    rows, passed = rows_of(observed()), []
    process = JointProcess((Counting(NETWORK, TANGENT.theta),), hyper())
    found = process.gram(rows.fields, rows.fields)
    assert len(passed) == 1
    torch.testing.assert_close(found, process.gram(rows.fields, list(rows.fields)))
    assert len(passed) == 3


def test_omega_is_the_difference_quotient_of_the_operator_by_the_weights():
    rows = functionals(3, seed=2)

    def image(theta):
        value, gradient, hessian = NETWORK.hessian(theta[None], rows.points)
        return rows.zeroth * value[0] + (rows.slopes * gradient[0]).sum(1) + (rows.bends * hessian[0]).sum((1, 2))

    direction = torch.from_numpy(np.random.default_rng(3).standard_normal(NETWORK.size))
    step = 1e-5
    quotient = (image(TANGENT.theta + step * direction) - image(TANGENT.theta - step * direction)) / (2 * step)
    weights = torch.ones(3, dtype=torch.float64)
    assert float(TANGENT.combined(rows, weights).direction @ direction) == pytest.approx(
        float(quotient.sum()), rel=1e-6
    )


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_without_equation_rows_it_is_plain_regression(covariance):
    data = observed()
    process = JointProcess((covariance,), hyper())
    rows = readings_only(rows_of(data))
    posterior = condition(process, rows, data.scaling, {}, {}, {})
    X, Z = torch.tensor(data.X), points(5)

    def k(a, b):
        scale, sd = process.hyper.scales[0].exp(), process.hyper.sds[0].exp()
        return sd**2 * covariance.gram(Functionals.values(a * scale), Functionals.values(b * scale))

    gain = torch.linalg.solve(k(X, X) + np.exp(-4.0) * torch.eye(8, dtype=torch.float64), k(X, Z)).mT
    mean, var = posterior.mean_var(Z)
    torch.testing.assert_close(mean, gain @ torch.tensor(data.targets), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(var, (k(Z, Z) - gain @ k(X, Z)).diagonal(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_equation_rows_never_raise_the_variance_at_the_same_hyper_parameters(covariance):
    data = observed(r=30)
    process, rows = JointProcess((covariance,), hyper()), rows_of(data)
    told, untold = (condition(process, part, data.scaling, {}, {}, {}) for part in (rows, readings_only(rows)))
    variances = [posterior.mean_var(points(100))[1] for posterior in (told, untold)]
    assert bool((variances[0] <= variances[1] + 1e-9).all())
    assert float((variances[0] / variances[1]).mean()) < 0.9


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_leaving_a_reading_out_in_closed_form_is_leaving_it_out(covariance):
    data = observed()
    process, rows = JointProcess((covariance,), hyper()), rows_of(data)
    found = condition(process, rows, data.scaling, {}, {}, {}).log_predictive()
    assert found.shape == (8,)
    for i in (0, 5):
        rest = condition(process, without(rows, rows.equations + i), data.scaling, {}, {}, {})
        mean, var = (float(v) for v in rest.mean_var(torch.tensor(data.X[i : i + 1])))
        sd = (var + np.exp(-4.0)) ** 0.5
        expected = -0.5 * ((data.targets[i] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        assert float(found[i]) == pytest.approx(expected, rel=1e-7)


def test_the_evidence_is_the_density_of_the_readings_given_the_equation():
    rows, process = rows_of(observed()), JointProcess((Stationary("rbf"),), hyper())
    covariance = process.gram(rows.fields, rows.fields) + torch.diag(process.noises(rows))
    r, targets = rows.equations, rows.targets.numpy()
    joint = multivariate_normal(np.zeros(len(rows)), covariance.numpy()).logpdf(targets)
    equations = multivariate_normal(np.zeros(r), covariance[:r, :r].numpy()).logpdf(targets[:r])
    assert float(log_evidence(process, rows)) == pytest.approx(joint - equations, rel=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_the_evidence_has_the_gradient_of_a_difference_quotient(covariance):
    rows = rows_of(observed())
    at = torch.tensor([-0.2, 0.3, 0.1, -4.0, -6.0], dtype=torch.float64, requires_grad=True)

    def evidence(flat):
        return log_evidence(JointProcess((covariance,), Hyper.of(flat, 1)), rows)

    (slope,) = torch.autograd.grad(evidence(at), at)
    for i, step in enumerate(1e-5 * torch.eye(5, dtype=torch.float64)):
        quotient = float((evidence(at + step) - evidence(at - step)).detach()) / 2e-5
        assert float(slope[i]) == pytest.approx(quotient, rel=1e-5, abs=1e-6)


def test_the_chosen_hyper_parameters_are_no_worse_than_their_neighbours():
    rows, belief = rows_of(observed()), Belief(scales=(0.0, 0.5))
    covariances = (Stationary("rbf"),)
    chosen, evidence = choose_hyper(covariances, rows, (belief,), 0.01)
    assert float(chosen.noise) == pytest.approx(np.log(0.01))
    best = evidence + float(belief.log_density(chosen))
    flat = torch.cat([chosen.scales[0], chosen.sds, chosen.noise[None], chosen.slack[None]])
    for i in (0, 1, 2, 4):
        for step in (-0.1, 0.1):
            other = Hyper.of(flat + step * torch.eye(5, dtype=torch.float64)[i], 1)
            assert best >= float(log_evidence(JointProcess(covariances, other), rows) + belief.log_density(other))


def test_information_that_is_shared_is_positive_and_vanishes_where_the_equation_says_nothing():
    rows = rows_of(observed())
    told = information(JointProcess((Stationary("rbf"),), hyper()), rows)
    assert 0.5 < told["interaction"] <= told["gamma"]
    assert told["nu_t"] > 0
    deaf = information(JointProcess((Stationary("rbf"),), hyper(slack=25.0)), rows)
    assert 0 <= deaf["interaction"] < 1e-6
    assert deaf["gamma"] == pytest.approx(told["gamma"])


@pytest.mark.parametrize("covariance", COVARIANCES, ids=NAMES)
def test_coherent_draws_have_the_posterior_mean_and_variance(covariance):
    data = observed(n=4, r=6, noise_sd=1.0)
    posterior = condition(JointProcess((covariance,), hyper(noise=-2.0)), rows_of(data), data.scaling, {}, {}, {})
    Z = points(4)
    mean, var = posterior.mean_var(Z)
    draws = torch.stack([f(Z) for f in posterior.draw(250, np.random.default_rng(2))])
    # Four standard errors of a mean and of a variance of 250 normal draws.
    assert bool(((draws.mean(0) - mean).abs() < 4 * (var / 250).sqrt()).all())
    assert bool(((draws.var(0) / var - 1).abs() < 4 * (2 / 250) ** 0.5).all())


def test_believing_appends_to_the_factor_what_a_new_factor_would_hold():
    data = observed()
    posterior = condition(JointProcess((TANGENT,), hyper()), rows_of(data), data.scaling, {}, {}, {})
    believed = posterior.fantasize(points(3))
    again = condition(posterior.process, believed.rows, data.scaling, {}, {}, {})
    torch.testing.assert_close(believed.factor.lower, again.factor.lower, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(believed.weights, again.weights, rtol=1e-6, atol=1e-7)


def fit(surrogate, data, seed=1):
    return surrogate.fit(data, np.random.default_rng(seed), None, no_report)


def error(posterior, function):
    """Root mean square error relative to the function's standard deviation, over the box."""
    X = np.random.default_rng(99).uniform(-1, 1, (400, 2))
    truth = function(CENTER + HALF * X)
    found = posterior.scaling.to_physical(posterior.mean_var(torch.from_numpy(X))[0].numpy())
    return float(np.sqrt(np.mean((found - truth) ** 2)) / truth.std())


@pytest.mark.parametrize("engine", ["kernel", "ntk"])
def test_a_harmonic_polynomial_is_recovered_from_ten_readings(engine):
    data = observed(n=10, r=64, noise_sd=0.0)
    assert error(fit(PhysicsInformed(engine), data), cubic) < 0.05


@dataclass(frozen=True)
class Eikonal:
    """|grad f|^2 = 25."""

    linear: bool = False

    def operator(self, points, jet):
        return jet.gradient[:, 0] ** 2 + jet.gradient[:, 1] ** 2

    def source(self, points):
        return 25.0 + 0.0 * points[:, 0]


def test_an_equation_that_is_not_linear_is_linearised_by_ntk_with_a_remark_and_refused_by_kernel():
    data = observed(Eikonal(), lambda p: 3.0 * p[:, 0] + 4.0 * p[:, 1])
    posterior = fit(PhysicsInformed("ntk", width=16), data)
    assert "it was linearised at the network's first weights" in posterior.remarks["linearised"]
    assert fit(PhysicsInformed("ntk", width=16), observed()).remarks == {}
    with pytest.raises(ValueError, match="not linear and engine kernel needs a linear one: use ntk or trained"):
        fit(PhysicsInformed("kernel"), data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "kernel", "kernel": "cubic"}, "kernel is 'cubic': choose rbf or matern52"),
        ({"engine": "kernel", "width": 10}, "width given with engine kernel, which has no such option"),
        ({"engine": "ntk", "networks": 2}, "networks given with engine ntk"),
        ({"engine": "ntk", "width": 0}, "width is 0: give 1 or more"),
        ({"engine": "ntk", "frequency": -1.0}, "frequency is -1.0: give a positive number"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PhysicsInformed(**options)


def test_in_many_variables_the_mean_is_learnt():
    """Forty results of a bowl lie far from each other, and the rest of the box far from them: its mean tells most."""
    d, (X, Z, T) = 10, (np.random.default_rng(n).uniform(-1, 1, (many, 10)) for n, many in enumerate((40, 30, 300)))
    slopes = LinearEquation(0.0, (1.0,) * d, ((0.0,) * d,) * d, right=lambda points: 2 * points.sum(1))
    physics = Physics(slopes, Z, np.zeros(d), np.ones(d))
    data = Observations(X, (X**2).sum(axis=1), maximize=False, physics=physics)
    posterior = PhysicsInformed("kernel").fit(data, np.random.default_rng(0), None, no_report)
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(T))[0].numpy())
    truth = (T**2).sum(axis=1)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.6 * truth.std()
