"""Neural-BO (methods.md section 1): the trained mean, its deviation, the theory's settings and what may go wrong."""

import math

import numpy as np
import pytest
import torch
from matrices import Written
from scipy import stats

from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.training import train
from fieldcraft.models.observations import ImageColumns, Observations
from fieldcraft.models.surrogate import LeaveOneOut, no_report
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent.features import combine, explicit, gram
from fieldcraft.models.tangent.training import Family, Start, TangentLoss

RNG = np.random.default_rng(6)
X = RNG.uniform(-1, 1, (5, 1))
DATA = Observations(X, np.sin(3 * X[:, 0]) + 2, maximize=False, noise_sd=0.2)
Z = torch.tensor([[-0.6], [0.1], [0.9]], dtype=torch.float64)


def fit(data=DATA, report=no_report, **options):
    return TangentNetwork(**{"width": 8, **options}).fit(data, np.random.default_rng(5), None, report)


def loss_of(posterior, data=DATA):
    """The training problem that a posterior came from."""
    state, process = posterior.state(), posterior.process
    start = Start.of(state)
    kernel = type(process.kernel)(**{**vars(process.kernel), "theta": start.theta})
    return TangentLoss(Family(kernel, start), torch.tensor(data.X), torch.tensor(data.targets), process.noise)


def test_the_marginals_of_twenty_thousand_coherent_draws_are_the_stated_normals():
    posterior, q = fit(nu=0.7), 20_000
    mean, variance = posterior.mean_var(Z)
    deviations = posterior.process.deviations(q, np.random.default_rng(0))
    values = mean + posterior.factor * deviations @ explicit(posterior.process.kernel.rows(Z)).T
    drawn = torch.stack([f(Z) for f in posterior.draw(2, np.random.default_rng(0))])
    first = posterior.process.deviations(2, np.random.default_rng(0))
    torch.testing.assert_close(drawn, mean + 0.7 * first @ explicit(posterior.process.kernel.rows(Z)).T)
    torch.testing.assert_close(variance, 0.49 * posterior.process.mean_var(Z)[1])
    assert ((values.mean(0) - mean) / (variance / q).sqrt()).abs().max() < 4
    assert (values.var(0) / variance - 1).abs().max() < 4 * math.sqrt(2 / q)
    for i in range(3):
        assert stats.kstest(values[:, i], "norm", (float(mean[i]), float(variance[i].sqrt()))).pvalue > 0.001


def test_an_independent_draw_has_a_value_of_its_own_at_each_point():
    posterior = fit(draw="independent")
    (function,) = posterior.draw(1, np.random.default_rng(0))
    points = torch.linspace(-1, 1, 4000, dtype=torch.float64)[:, None]
    mean, variance = posterior.mean_var(points)
    white = (function(points) - mean) / variance.sqrt()
    assert stats.kstest(white, "norm").pvalue > 0.01
    assert abs(float(torch.corrcoef(torch.stack([white[1:], white[:-1]]))[0, 1])) < 0.06
    torch.testing.assert_close(function(points[70:71]), function(points)[70:71], rtol=0, atol=1e-12)


def test_an_antisymmetric_network_is_zero_before_training_and_has_the_rows_of_one_network():
    posterior = fit()
    problem = loss_of(posterior)
    assert posterior.state()["start_theta"].shape == (1, 2 * posterior.process.kernel.network.size)
    assert problem.family.values(problem.anchor, Z).abs().max() < 1e-15
    rows = problem.linearised(problem.anchor)[1].gram()[0]
    expected = explicit(posterior.process.regression.rows)
    torch.testing.assert_close(rows, expected @ expected.T)


def test_training_on_unwritten_rows_is_training_on_written_ones():
    posterior = fit()
    problem = loss_of(posterior)

    class WrittenLoss(TangentLoss):
        def linearised(self, theta):
            rows, jacobian = super().linearised(theta)
            return rows, Written(explicit(jacobian.passes))

    written = WrittenLoss(problem.family, problem.X, torch.tensor(DATA.targets), problem.ridge)
    schedule = Schedule(0, 0.1, 1.0, 12)
    ends = [train(p, State.begin(p.anchor), schedule, no_report, State.tensors) for p in (problem, written)]
    torch.testing.assert_close(ends[0].theta, ends[1].theta, rtol=0, atol=1e-8)
    derivative = torch.func.jacrev(lambda theta: problem.rows(theta[None])[0])(problem.anchor[0])
    torch.testing.assert_close(written.linearised(problem.anchor)[1].matrix[0], derivative, rtol=1e-9, atol=1e-11)


def test_training_ends_where_the_loss_has_no_slope():
    posterior = fit(refinements=400)
    problem = loss_of(posterior)
    theta = posterior.state()["theta"].clone().requires_grad_()
    loss = problem.rows(theta).square().sum() + problem.ridge * (theta - problem.anchor).square().sum()
    (slope,) = torch.autograd.grad(loss, theta)
    assert float(loss) == pytest.approx(posterior.metrics["loss"], rel=1e-9)
    assert slope.abs().max() < 1e-5
    start = problem.rows(problem.anchor).square().sum()
    assert float(loss) < 0.5 * float(start)


def test_the_closed_form_is_the_ridge_regression_on_the_rows_and_knows_its_loss():
    problem = loss_of(fit(init="gaussian"))
    weights, loss = problem.closed_form()
    rows, jacobian = problem.linearised(problem.anchor)
    J = explicit(jacobian.passes)[0]
    moved = -torch.linalg.solve(J.T @ J + problem.ridge * torch.eye(J.shape[1], dtype=J.dtype), J.T @ rows[0])
    torch.testing.assert_close(weights[0], problem.anchor[0] + moved)
    torch.testing.assert_close(loss[0], (rows[0] + J @ moved).square().sum() + problem.ridge * moved.square().sum())


def test_a_training_that_diverges_gives_way_to_the_closed_form_and_says_so():
    seen = []
    posterior = fit(report=lambda step, metrics, _: seen.append(metrics), steps=3, rate=1e200, refinements=0)
    assert posterior.remarks["training"] == (
        "training became non-finite and began again 3 times; the linear model's closed form stands in"
    )
    assert posterior.metrics["restarts"] == 3.0
    torch.testing.assert_close(posterior.mean_var(Z)[0], posterior.process.mean_var(Z)[0], rtol=1e-7, atol=1e-8)
    assert all(math.isfinite(value) for value in seen[-1].values())


def test_the_theory_sets_the_noise_and_the_factor():
    posterior = fit(
        hyperparameters="fixed",
        normalised=False,
        bound=2.0,
        subgaussian=0.3,
        failure=0.05,
        horizon=50,
        variance="exact",
    )
    assert posterior.process.noise == pytest.approx(1.02)
    assert posterior.factor == pytest.approx(math.sqrt(2) * 2 + 0.3 / math.sqrt(1.02) * math.sqrt(2 * math.log(20)))


def papers_features(points, theta, m, depth):
    """dh/dW / sqrt(m) of h = sqrt(m) W_L relu(... relu(W_1 x)), W ~ N(0, 1/m), x with a one beside it."""
    inputs = torch.cat([points, torch.ones(len(points), 1, dtype=torch.float64)], dim=1)
    shapes = [(m, inputs.shape[1]), *[(m, m)] * (depth - 1), (1, m)]

    def value(weights):
        parts = weights.split([rows * columns for rows, columns in shapes])
        *hidden, last = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        a = inputs
        for W in hidden:
            a = torch.relu(a @ W.mT)
        return math.sqrt(m) * (a @ last.mT)[:, 0]

    return torch.autograd.functional.jacobian(value, theta / math.sqrt(m)) / math.sqrt(m)


@pytest.mark.parametrize(("d", "depth"), [(2, 1), (10, 1), (50, 1), (3, 2), (3, 3)])
def test_the_raw_relu_kernel_is_the_papers_in_every_dimension(d, depth):
    points = torch.tensor(np.random.default_rng(d).uniform(-1, 1, (4, d)))
    surrogate = TangentNetwork(hyperparameters="fixed", normalised=False, activation="relu", width=20, depth=depth)
    data = Observations(points.numpy(), np.arange(4.0), maximize=False)
    shape = surrogate.shape(data)
    theta = shape.initial(torch.Generator().manual_seed(1))
    phi = papers_features(points, theta, 20, depth)
    rows = surrogate.kernel(shape, theta, surrogate.fit_kernel(data, shape)[0]).rows(points)
    torch.testing.assert_close(gram(rows, rows), phi @ phi.mT, rtol=1e-12, atol=0)


def test_a_zero_last_layer_keeps_only_the_last_layers_rows():
    rows = explicit(fit(init="zero_last_layer").process.regression.rows)
    assert rows[:, : 2 * 8].abs().max() == 0
    assert rows[:, 2 * 8 : 3 * 8].abs().min() > 0


def test_an_image_is_learnt_by_a_convolution():
    points = RNG.uniform(-1, 1, (12, 10))
    data = Observations(points, points[:, :9].sum(1), maximize=False, images=(ImageColumns(0, (3, 3)),))
    posterior = fit(data, network="convolution", channels=4, width=6, activation="relu", refinements=10)
    assert type(posterior.process.kernel.network).__name__ == "Convolution"
    points = torch.tensor(points)
    mean, variance = posterior.mean_var(points)
    assert float(torch.corrcoef(torch.stack([mean, torch.tensor(data.targets)]))[0, 1]) > 0.9
    alone = posterior.mean_var(points[3:4])
    torch.testing.assert_close(torch.cat(alone), torch.stack([mean[3], variance[3]]))
    diagonal = posterior.process.diagonal_variance(points[:2])
    rows = explicit(posterior.process.regression.rows)
    noise = posterior.process.noise
    expected = noise * (rows[:2].square() / (noise + rows.square().sum(0))).sum(1)
    torch.testing.assert_close(diagonal, expected)
    assert combine(posterior.process.regression.rows, torch.ones(12, dtype=torch.float64)).shape == (rows.shape[1],)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nu": 0.0}, "nu is 0.0: give a positive number"),
        ({"bound": 1.0}, "bound is 1.0 and hyperparameters is fitted: the theory states its own noise"),
        ({"failure": 1.0}, "failure is 1.0: give a probability between 0 and 1"),
        ({"rate": -1.0}, "rate is -1.0: give a positive number"),
        ({"steps": 0, "refinements": 0}, "steps is 0 and refinements is 0: give numbers >= 0, not both 0"),
    ],
)
def test_an_option_out_of_range_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TangentNetwork(**options)


def test_a_checkpoint_of_other_data_is_refused():
    checkpoints = []
    fit(report=lambda step, metrics, checkpoint: checkpoints.append(checkpoint()))
    other = Observations(X, DATA.y + X[:, 0], maximize=False)
    with pytest.raises(ValueError, match="restore with the data of the fit, or fit again"):
        TangentNetwork(width=8).fit(other, np.random.default_rng(5), checkpoints[0], no_report)


def test_the_diagonal_variance_is_restored_and_no_coherent_draw_has_it():
    surrogate = TangentNetwork(width=8, variance="diagonal", nu=0.7, refinements=1)
    fitted = surrogate.fit(DATA, np.random.default_rng(5), None, no_report)
    posterior = surrogate.restore(DATA, fitted.state())
    points = Z.clone().requires_grad_()
    variance = posterior.mean_var(points)[1]
    assert torch.equal(variance, 0.7**2 * fitted.process.diagonal_variance(points))
    (slope,) = torch.autograd.grad(variance.sum(), points)
    up, down = (posterior.mean_var(Z + step)[1] for step in (1e-6, -1e-6))
    torch.testing.assert_close(slope[:, 0], (up - down) / 2e-6, rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match=r"variance is diagonal and draw is coherent: .* set draw to independent"):
        posterior.draw(1, np.random.default_rng(0))


def test_only_a_posterior_without_training_predicts_left_out_readings_in_closed_form():
    options = {"width": 8, "hyperparameters": "fixed"}
    linear = SampledLinear(**options).fit(DATA, np.random.default_rng(5), None, no_report)
    networks = SampledNetwork(**options, refinements=1).fit(DATA, np.random.default_rng(5), None, no_report)
    assert isinstance(linear, LeaveOneOut)
    assert not isinstance(networks, LeaveOneOut)
    assert not isinstance(fit(refinements=1), LeaveOneOut)


@pytest.mark.parametrize("options", [{}, {"steps": 3, "rate": 1e200, "refinements": 0}], ids=["sound", "lost"])
def test_a_finished_fit_is_restored_and_not_trained_again(options):
    posterior, steps = fit(**options), []
    again = TangentNetwork(width=8, **options).fit(
        DATA, np.random.default_rng(5), posterior.state(), lambda step, metrics, _: steps.append(step)
    )
    assert steps == []
    assert again.remarks == posterior.remarks
    assert all(torch.equal(a, b) for a, b in zip(again.mean_var(Z), posterior.mean_var(Z), strict=True))


def test_a_closed_form_without_a_factor_is_refused_with_a_remedy():
    problem = loss_of(fit())
    problem.ridge = -1e3
    with pytest.raises(ValueError, match=r"not positive definite at a noise variance of -1e.*raise the noise"):
        problem.closed_form()
