from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fieldcraft.models.equations.residuals import linear_operator, residual
from fieldcraft.models.linear.basis_evidence import Weights
from fieldcraft.models.linear.polynomials import Polynomials
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.residual_networks import Factors, Fixed, ResidualLoss
from fieldcraft.models.solutions.polynomial import (
    Harmonic,
    NullSpace,
    enclosing_box,
    images,
    polynomial_solutions,
)
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, advection_diffusion, helmholtz, laplace, poisson

CENTER, HALF = np.array([2.0, -1.0]), np.array([1.5, 0.5])
BASIS = PhysicsInformed("basis", degree=12)
SMOOTH = {"width": 24, "depth": 2, "activation": "tanh", "frequency": 1.0, "nu": 1.0, "refinements": 40}
TRAINED = PhysicsInformed("trained", **SMOOTH, weight=1.0)


def physical(X):
    return CENTER + HALF * X


def observed(equation, function, n=10, r=64, seed=0, **given):
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (r, 2))
    physics = Physics(equation, physical(Z), CENTER, HALF)
    given = {"maximize": True, "noise_sd": 0.0, **given}
    return Observations(X, function(physical(X)), physics=physics, **given)


def fit(surrogate, data, seed=1, start=None, report=no_report):
    return surrogate.fit(data, np.random.default_rng(seed), start, report)


def error(posterior, function):
    """Root mean square error relative to the function's standard deviation, over the box."""
    X = np.random.default_rng(99).uniform(-1, 1, (400, 2))
    truth = function(physical(X))
    found = posterior.scaling.to_physical(posterior.mean_var(torch.from_numpy(X))[0].numpy())
    return float(np.sqrt(np.mean((found - truth) ** 2)) / truth.std())


def cubic(p):
    x, y = p.T
    return 5.0 + (x**3 - 3 * x * y**2) - 2 * (x**2 - y**2) + x * y


def wave(p):
    return 1.0 + np.cos(1.2 * p[:, 0] + 1.6 * p[:, 1])


def points(n, seed=7):
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (n, 2)))


@pytest.mark.parametrize("surrogate", [BASIS, TRAINED], ids=["basis", "trained"])
@pytest.mark.parametrize("maximize", [True, False])
def test_a_harmonic_polynomial_is_recovered_from_ten_readings(surrogate, maximize):
    assert error(fit(surrogate, observed(laplace(2), cubic, maximize=maximize)), cubic) < 0.05


def test_without_the_equation_ten_readings_do_not_recover_it():
    untold = PhysicsInformed("trained", **SMOOTH, weight=1e-20)
    assert error(fit(untold, observed(laplace(2), cubic)), cubic) > 0.05


@pytest.mark.parametrize(
    ("equation", "function"),
    [
        (helmholtz(2, 2.0), lambda p: np.cos(1.2 * p[:, 0] + 1.6 * p[:, 1])),
        (advection_diffusion((2.0, 0.0), 0.5), lambda p: np.exp(4.0 * (p[:, 0] - 3.5)) + 0.5 * p[:, 1]),
        (poisson(2, 4.0), lambda p: (p**2).sum(1) + p[:, 0] * p[:, 1]),
        (helmholtz(2, 2.0), lambda p: np.cos(2.0 * p[:, 1])),
        (
            LinearEquation(0.0, (lambda p: p[:, 1], lambda p: -p[:, 0]), ((0.0, 0.0), (0.0, 0.0))),
            lambda p: (p**2).sum(1),
        ),
    ],
    ids=["plane wave", "advection", "poisson", "standing wave", "radial"],
)
def test_the_basis_engine_recovers_solutions_of_other_linear_equations(equation, function):
    assert error(fit(PhysicsInformed("basis", degree=14), observed(equation, function, n=20)), function) < 0.05


@dataclass(frozen=True)
class Eikonal:
    """|grad f|^2 = 25."""

    linear: bool = False

    def operator(self, points, jet):
        return jet.gradient[:, 0] ** 2 + jet.gradient[:, 1] ** 2

    def source(self, points):
        return 25.0 + 0.0 * points[:, 0]


def test_the_trained_engine_recovers_a_solution_of_a_nonlinear_equation():
    def plane(p):
        return 3.0 * p[:, 0] + 4.0 * p[:, 1]

    assert error(fit(TRAINED, observed(Eikonal(), plane, n=6)), plane) < 0.05


def test_harmonic_functions_satisfy_the_equation_to_rounding_in_physical_coordinates():
    space = polynomial_solutions(observed(laplace(2), cubic).physics, 15)
    assert isinstance(space, Harmonic)

    def psi(x):
        return space.features(((x - torch.from_numpy(CENTER)) / torch.from_numpy(HALF))[None])[0]

    for x in torch.from_numpy(physical(points(5).numpy())):
        bend = torch.autograd.functional.jacobian(lambda u: torch.func.jacrev(psi)(u), x)
        assert float((bend[:, 0, 0] + bend[:, 1, 1]).abs().max()) < 1e-10 * float(bend.abs().max())


def test_an_anisotropic_constant_operator_has_its_own_harmonic_functions():
    mixed = LinearEquation(0.0, (0.0, 0.0), ((-2.0, -0.5), (-0.5, -1.0)))
    space = polynomial_solutions(observed(mixed, cubic).physics, 8)
    assert isinstance(space, Harmonic)
    x = torch.tensor(physical(np.array([0.3, -0.6])))

    def psi(at):
        return space.features(((at - torch.from_numpy(CENTER)) / torch.from_numpy(HALF))[None])[0]

    bend = torch.autograd.functional.jacobian(lambda u: torch.func.jacrev(psi)(u), x)
    image = 2.0 * bend[:, 0, 0] + bend[:, 0, 1] + bend[:, 1, 1]
    assert float(image.abs().max()) < 1e-10 * float(bend.abs().max())


def test_the_numerical_null_space_of_a_helmholtz_operator_holds_a_plane_wave():
    space = polynomial_solutions(observed(helmholtz(2, 2.0), wave).physics, 16)
    assert isinstance(space, NullSpace)
    X = points(300)
    truth = torch.from_numpy(wave(physical(X.numpy())) - 1.0)
    features = space.features(X)
    assert features.shape[1] < 60  # a small space, so that holding the wave says something
    left = truth - features @ torch.linalg.lstsq(features, truth[:, None]).solution[:, 0]
    assert float(left.norm() / truth.norm()) < 1e-5


def test_polynomials_are_orthonormal_for_the_mean_over_their_box():
    polynomials = Polynomials(np.array([[-1.0, -1.2], [1.1, 1.0]]), 5)
    X, mass = polynomials.quadrature()
    features = polynomials.features(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose((mass[:, None] * features).T @ features, np.eye(36), atol=1e-12)
    np.testing.assert_allclose(polynomials.derivatives(X, (0, 0)), features, atol=1e-12)


def test_knowing_the_equation_never_raises_the_variance_at_the_same_prior():
    data = observed(laplace(2), cubic, n=8)
    polynomials = Polynomials(enclosing_box(data.physics), 8)
    places, mass = polynomials.quadrature()
    operator = linear_operator(data.physics, data.physics.decode(places))
    space = NullSpace.of(np.sqrt(mass)[:, None] * images(polynomials, operator, places), polynomials)
    # White weights on orthonormal columns are the white prior on all polynomials, conditioned on N[f] = 0.
    variances = []
    for features in (space.features, polynomials.features):
        weights = Weights.of(features(torch.tensor(data.X)), torch.tensor(data.targets), 0.01)
        variances.append((features(points(200)) @ weights.spread).square().sum(1))
    assert bool((variances[0] <= variances[1] * (1 + 1e-10)).all())
    assert float((variances[0] / variances[1]).mean()) < 0.5


def test_the_basis_posterior_is_the_dense_gaussian_process_formula():
    data = observed(laplace(2), cubic, noise_sd=0.3)
    posterior = fit(BASIS, data)
    X, Z = torch.tensor(data.X), points(6)

    def kernel(a, b):
        return (posterior.solutions.features(a) * posterior.sizes**2) @ posterior.solutions.features(b).mT

    gram = kernel(X, X) + data.noise_variance * torch.eye(len(X), dtype=torch.float64)
    gain = torch.linalg.solve(gram, kernel(X, Z)).mT
    mean, var = posterior.mean_var(Z)
    torch.testing.assert_close(mean, gain @ torch.tensor(data.targets), rtol=0, atol=1e-9)
    torch.testing.assert_close(var, (kernel(Z, Z) - gain @ kernel(X, Z)).diagonal(), rtol=0, atol=1e-9)


def test_draws_of_the_basis_posterior_have_its_mean_and_variance():
    posterior = fit(BASIS, observed(laplace(2), cubic, n=5, noise_sd=1.0))
    Z = points(4)
    mean, var = posterior.mean_var(Z)
    draws = torch.stack([f(Z) for f in posterior.draw(4000, np.random.default_rng(2))])
    # Four standard errors of a mean and of a variance of 4,000 normal draws.
    assert bool(((draws.mean(0) - mean).abs() < 4 * (var / 4000).sqrt()).all())
    assert bool(((draws.var(0) / var - 1).abs() < 4 * (2 / 4000) ** 0.5).all())


def test_believing_a_pending_point_keeps_the_mean_and_takes_the_variance_there():
    posterior = fit(BASIS, observed(laplace(2), cubic, n=5, noise_sd=0.1))
    pending, Z = points(1), points(50, seed=8)
    believed = posterior.fantasize(pending)
    assert torch.equal(posterior.mean_var(Z)[0], believed.mean_var(Z)[0])
    before, after = posterior.mean_var(Z)[1], believed.mean_var(Z)[1]
    assert bool((after <= before * (1 + 1e-9)).all())
    assert float(believed.mean_var(pending)[1]) < 0.1 * float(posterior.mean_var(pending)[1])


@pytest.mark.parametrize("surrogate", [BASIS, PhysicsInformed("trained", networks=3, width=8, depth=2, refinements=3)])
def test_means_and_variances_have_the_gradient_of_a_difference_quotient(surrogate):
    posterior = fit(surrogate, observed(laplace(2), cubic))
    X = points(3).requires_grad_()
    for part in (0, 1):
        (slope,) = torch.autograd.grad(posterior.mean_var(X)[part].sum(), X)
        for i in range(2):
            step = 1e-6 * torch.eye(2, dtype=torch.float64)[i]
            quotient = (posterior.mean_var(X + step)[part] - posterior.mean_var(X - step)[part]) / 2e-6
            torch.testing.assert_close(slope[:, i], quotient.detach(), rtol=1e-4, atol=1e-6)


RESUMABLE = {"networks": 2, "width": 8, "depth": 2, "steps": 200, "refinements": 4, "rate": 0.01}


@pytest.mark.parametrize("exact_draw", [False, True])
def test_a_fit_resumed_from_any_checkpoint_is_bit_for_bit_the_uninterrupted_one(exact_draw):
    surrogate = PhysicsInformed("trained", **RESUMABLE, exact_draw=exact_draw)
    data = observed(laplace(2), cubic, noise_sd=0.1)
    kept = {}
    whole = fit(surrogate, data, report=lambda step, metrics, checkpoint: kept.update({step: checkpoint()}))
    assert sorted(kept) == [100, 200, 201, 202, 203, 204]
    for checkpoint in kept.values():
        resumed = fit(surrogate, data, seed=12345, start=checkpoint)
        for name, tensor in whole.state().items():
            assert torch.equal(tensor, resumed.state()[name]), name


@pytest.mark.parametrize(
    ("surrogate", "equation"),
    [
        (BASIS, laplace(2)),
        (BASIS, poisson(2, 1.0)),
        (PhysicsInformed("basis", degree=14), helmholtz(2, 2.0)),
        (PhysicsInformed("trained", **RESUMABLE), laplace(2)),
        (PhysicsInformed("trained", **RESUMABLE, exact_draw=True), laplace(2)),
    ],
)
def test_a_restored_posterior_is_identical_to_the_bit(surrogate, equation):
    data = observed(equation, cubic, noise_sd=0.1)
    posterior = fit(surrogate, data)
    restored = surrogate.restore(data, posterior.state())
    Z = points(9)
    for ours, theirs in zip(posterior.mean_var(Z), restored.mean_var(Z), strict=True):
        assert torch.equal(ours, theirs)
    draws = [p.draw(2, np.random.default_rng(3))[1](Z) for p in (posterior, restored)]
    assert torch.equal(*draws)
    assert restored.metrics == posterior.metrics
    assert all(torch.equal(restored.state()[name], tensor) for name, tensor in posterior.state().items())


def test_an_exact_draw_misses_its_perturbed_rows_by_what_it_says():
    data = observed(laplace(2), cubic, noise_sd=0.5)
    options = {"width": 8, "depth": 2, "refinements": 5, "weight": 0.25, "nu": 1.7}
    posterior = fit(PhysicsInformed("trained", **options, exact_draw=True), data)
    fixed = posterior.fixed
    assert not bool(fixed.tangent[:, -8:].any())
    assert bool(fixed.tangent[:, :-8].all())
    (function,) = posterior.draw(1, np.random.default_rng(0))
    data_rows = function(torch.tensor(data.X)) - torch.tensor(data.targets) - fixed.data_noise[0]
    assert posterior.metrics["misfit"] == pytest.approx(float(data_rows.detach().square().mean().sqrt()))
    places = torch.tensor(data.physics.encode(data.physics.points))
    bends = torch.stack([torch.autograd.functional.hessian(lambda x: function(x[None])[0], x) for x in places])
    # Encoded Laplacian f_xx / 1.5^2 + f_yy / 0.5^2, divided by its largest coefficient.
    residuals = bends[:, 0, 0] / 9 + bends[:, 1, 1] + fixed.residual_noise[0]
    assert posterior.metrics["residual"] == pytest.approx(float(residuals.square().mean().sqrt()))
    noise = (data.noise_variance or 0.0) ** 0.5
    assert float(fixed.data_noise.std()) == pytest.approx(noise, rel=0.8)
    assert float(fixed.residual_noise.std()) == pytest.approx(noise / 0.5, rel=0.4)


def test_exact_draws_of_wide_networks_are_draws_from_the_joint_process():
    data = observed(laplace(2), cubic, n=3, r=3, noise_sd=1.5)
    options = {"networks": 200, "width": 80, "depth": 1, "nu": 1.0, "weight": 0.5, "refinements": 8}
    posterior = fit(PhysicsInformed("trained", **options, exact_draw=True), data)
    # The wide limit's kernel is the mean of the networks' own, and so are its rows.
    network, missed = posterior.network, residual(data.physics, data.scaling)
    plain, factors = Fixed.plain(posterior.fixed.anchor[:60], 5, 3), Factors(1.0, 1.0, 0.0)
    Z = points(2)
    together = torch.cat([torch.tensor(data.X), Z])
    loss = ResidualLoss(network, together, torch.zeros(5, dtype=torch.float64), missed, plain, factors)
    gram = loss.linearised(plain.anchor)[1].gram().mean(0)
    noise = float(data.noise_variance) * torch.tensor([1.0, 1.0, 1.0, 2.0, 2.0, 2.0], dtype=torch.float64)
    seen, wanted = [0, 1, 2, 5, 6, 7], [3, 4]
    target = torch.cat([torch.tensor(data.targets), missed.source[0]])
    gain = torch.linalg.solve(gram[seen][:, seen] + torch.diag(noise), gram[seen][:, wanted]).mT
    expected = gram[wanted][:, wanted] - gain @ gram[seen][:, wanted]
    mean, var = posterior.mean_var(Z)
    # Four standard errors of 200 draws, and what a width of 80 leaves of the limit.
    assert bool(((mean - gain @ target).abs() < 4 * (expected.diagonal() / 200).sqrt() + 0.05).all())
    assert bool(((var / expected.diagonal() - 1).abs() < 4 * (2 / 200) ** 0.5).all())


def test_a_training_that_began_again_says_so():
    data = observed(laplace(2), cubic)
    options = {"networks": 1, "width": 4, "depth": 1, "refinements": 0}
    wild = fit(PhysicsInformed("trained", **options, steps=5, rate=1e44), data)
    assert wild.remarks == {
        "restarts": f"training became non-finite and began again {int(wild.metrics['restarts'])} times"
    }
    assert fit(PhysicsInformed("trained", **options, steps=3), data).remarks == {}


def test_leaving_a_reading_out_of_the_basis_posterior_in_closed_form_is_leaving_it_out():
    data = observed(poisson(2, 1.0), cubic, n=7, noise_sd=0.3)
    posterior = fit(PhysicsInformed("basis", degree=5), data)
    found, weights = posterior.log_predictive(), posterior.weights
    assert found.shape == (7,)
    for i in (0, 4):
        keep = [j for j in range(7) if j != i]
        rest = Weights.of(weights.rows[keep], weights.y[keep], weights.noise)
        mean, var = weights.rows[i] @ rest.mean, (weights.rows[i] @ rest.spread).square().sum() + weights.noise
        expected = torch.distributions.Normal(mean, var.sqrt()).log_prob(weights.y[i])
        torch.testing.assert_close(found[i], expected, rtol=1e-8, atol=1e-8)


def test_draws_of_the_trained_engine_are_its_networks_and_no_more():
    posterior = fit(PhysicsInformed("trained", **RESUMABLE), observed(laplace(2), cubic))
    Z = points(5)
    draws = torch.stack([f(Z) for f in posterior.draw(2, np.random.default_rng(0))])
    mean, var = posterior.mean_var(Z)
    torch.testing.assert_close(draws.mean(0), mean)
    torch.testing.assert_close(draws.var(0), var)
    assert not torch.equal(draws[0], draws[1])
    assert posterior.fantasize(Z) is posterior
    with pytest.raises(ValueError, match="3 draws were asked of 2 trained networks: set `networks`"):
        posterior.draw(3, np.random.default_rng(0))


def test_data_without_an_equation_are_refused_with_a_remedy():
    data = Observations(np.zeros((1, 2)), np.zeros(1), maximize=False)
    with pytest.raises(ValueError, match=r"states no equation .* use surrogate exact_gp"):
        fit(BASIS, data)


def test_a_state_of_other_data_is_refused():
    data, other = observed(laplace(2), cubic, seed=0), observed(laplace(2), cubic, seed=1)
    with pytest.raises(ValueError, match="The state is of data with digest"):
        BASIS.restore(other, fit(BASIS, data).state())
    with pytest.raises(ValueError, match="The state is of data with digest none"):
        fit(TRAINED, data, start={})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "ntq"}, "engine is 'ntq': choose one of trained, basis, kernel, ntk"),
        ({"engine": "basis", "width": 10}, "width given with engine basis, which has no such option"),
        ({"engine": "trained", "degree": 10}, "degree given with engine trained"),
        ({"engine": "basis", "degree": 0}, "degree is 0: give 1 or more"),
        ({"engine": "trained", "networks": 0}, "networks is 0"),
        ({"engine": "basis", "memory_gb": 0.0}, "memory_gb is 0.0: give a positive number"),
        ({"engine": "kernel", "memory_gb": -1.0}, "memory_gb is -1.0: give a positive number"),
        ({"engine": "ntk", "memory_gb": 0.0}, "memory_gb is 0.0: give a positive number"),
        ({"engine": "trained", "rate": float("nan")}, "rate is nan: give a positive number"),
        ({"engine": "trained", "weight": 0.0}, "weight is 0.0: give a positive number"),
        ({"engine": "trained", "steps": 0, "refinements": 0}, "not both 0"),
        ({"engine": "trained", "steps": -1}, "steps is -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PhysicsInformed(**options)


def test_equations_that_an_engine_cannot_serve_are_refused():
    data = observed(Eikonal(), wave)
    with pytest.raises(ValueError, match="not linear and engine basis adds up its solutions: use engine trained"):
        fit(BASIS, data)
    with pytest.raises(ValueError, match="set exact_draw to false"):
        fit(PhysicsInformed("trained", exact_draw=True), data)
    with pytest.raises(ValueError, match=r"No polynomial of degree 2 solves .* raise `degree`"):
        fit(PhysicsInformed("basis", degree=2), observed(helmholtz(2, 2.0), wave))
    with pytest.raises(ValueError, match="degree 50 in 2 variables means 2601 polynomials"):
        fit(PhysicsInformed("basis", degree=50), observed(helmholtz(2, 2.0), wave))
    with pytest.raises(ValueError, match=r"Polynomials of degree 3 leave .* right-hand side"):
        fit(PhysicsInformed("basis", degree=3), observed(poisson(2, lambda p: np.exp(3 * p[:, 0])), wave))
