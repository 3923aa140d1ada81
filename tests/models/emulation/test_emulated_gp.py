"""Learning from cheap predictions: what the mixture believes, and how it weights its factors."""

import math
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import torch

from fieldcraft.models.emulation.slopes import STEP, emulated, with_slopes, with_slopes_ahead
from fieldcraft.models.numerics.length_scales import wide_prior
from fieldcraft.models.observations import Emulator, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (14, 3))
Z = RNG.uniform(-1, 1, (200, 3))


def wild(X):
    """A function that 14 results do not determine."""
    return 10 + 4 * np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 3 * np.cos(6 * X[:, 2])


def bias(X):
    return 0.3 * X[:, 0] - 0.2 * X[:, 1] ** 2


def noise(X):
    """Another function of no relation to the first."""
    return 5 * np.sin(7 * X[:, 1] + 3 * X[:, 2]) - 20


def data(emulator, y=None, X=X, jitter=0.0, **changes):
    known = {"maximize": False, "emulators": (Emulator(emulator, lambda: jitter),)}
    return Observations(X, wild(X) if y is None else y, **(known | changes))


def fit(data, surrogate=None):
    return (surrogate or EmulatedGP(restarts=0)).fit(data, np.random.default_rng(0), None, no_report)


def predicted(posterior, Z=Z):
    mean, variance = posterior.mean_var(torch.tensor(Z))
    return posterior.scaling.to_physical(mean.numpy()), posterior.scaling.sd * np.sqrt(variance.numpy())


def rmse(posterior, truth=wild):
    return math.sqrt(np.mean((predicted(posterior)[0] - truth(Z)) ** 2))


def factors(posterior):
    """The processes of each factor."""
    return [list(of) for _, of in groupby(posterior.multiples, lambda each: (each.rho, each.spread))]


def shares(posterior):
    return [sum(each.weight for each in of) for of in factors(posterior)]


def test_a_biased_emulator_is_corrected_and_beats_the_results_alone():
    posterior = fit(data(lambda X: wild(X) + bias(X)))
    alone = rmse(fit(data(wild), ExactGP()))
    biased = math.sqrt(np.mean(bias(Z) ** 2))
    assert rmse(posterior) < 0.4 * biased and alone > 3 * biased
    mean, sd = predicted(posterior)
    assert 0.85 < np.mean(np.abs(mean - wild(Z)) < 2 * sd) <= 1.0
    assert sum(shares(posterior)[1:]) > 0.999
    assert "on the results alone" in posterior.remarks["emulator"]


def test_the_factor_of_an_emulator_on_another_scale_is_found():
    posterior = fit(data(lambda X: 2.5 * wild(X) - 40))
    assert posterior.metrics["rho"] == pytest.approx(0.4, abs=0.02)
    assert shares(posterior)[2] > 0.999 and rmse(posterior) < 0.2


@pytest.mark.parametrize(
    ("emulator", "most"), [(noise, 0.5), (lambda X: np.full(len(X), 3.0), 0.8)], ids=["unrelated", "constant"]
)
def test_a_useless_emulator_leaves_what_the_results_say(emulator, most):
    posterior, exact = fit(data(emulator)), fit(data(emulator), ExactGP(restarts=0))
    # What is not that process has its results under other length scales: more of it where the emulator is a constant.
    apart = (predicted(posterior)[0] - predicted(exact)[0]) / predicted(posterior)[1]
    assert np.sqrt(np.mean(apart**2)) < 0.3 and np.abs(apart).max() < most
    assert rmse(posterior) < 1.02 * rmse(exact)


@pytest.mark.parametrize("unit", [1e6, 1e15, 1e200])
def test_an_emulator_in_another_unit_leaves_what_the_results_say(unit):
    known = data(lambda X: unit * wild(X))
    posterior, exact = fit(known), fit(known, ExactGP(restarts=0))
    assert "check the emulator's unit" in posterior.remarks["factor"]
    assert shares(posterior) == [1.0, 0.0] and torch.isfinite(posterior.log_predictive()).all()
    for own, other in zip(posterior.mean_var(torch.tensor(Z)), exact.mean_var(torch.tensor(Z)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-9)
    again = EmulatedGP(restarts=0).restore(known, posterior.state())
    assert torch.equal(again.mean_var(torch.tensor(Z))[0], posterior.mean_var(torch.tensor(Z))[0])


def test_an_emulator_whose_predictions_have_a_large_offset_still_counts():
    posterior = fit(data(lambda X: wild(X) + 1e9))
    assert shares(posterior)[1] > 0.999 and rmse(posterior) < 1e-3
    assert posterior.remarks["factor"].startswith("not learnt, since predictions are up to ")


def test_the_results_alone_are_believed_as_by_exact_gp_and_differences_have_the_prior_of_botorch():
    known = data(noise)
    posterior, exact = fit(known), fit(known, ExactGP(restarts=0))
    alone = replace(posterior, multiples=tuple(factors(posterior)[0]))
    for own, other in zip(alone.mean_var(torch.tensor(Z)), exact.mean_var(torch.tensor(Z)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-9)
    thetas, _ = ExactGP(restarts=0).question(data(noise, known.y - noise(X)), wide_prior).several(16)
    np.testing.assert_array_equal(posterior.state()["1.thetas"].numpy(), thetas)


def test_an_exact_emulator_leaves_a_small_doubt_everywhere():
    mean, sd = predicted(fit(data(wild)))
    np.testing.assert_allclose(mean, wild(Z), atol=1e-6)
    assert 0 < sd.max() < 0.01 * np.std(wild(Z))


def test_jitter_is_doubted_at_every_design_and_not_learnt():
    def jittery(X):
        return wild(X) + 0.3 * np.sqrt(2) * np.sin(400 * X @ [1.0, 2.0, 3.0])

    told, untold = fit(data(jittery, jitter=0.3)), fit(data(jittery))
    (mean, sd), (_, silent) = predicted(told), predicted(untold)
    assert sd.min() > 0.25 and silent.min() < 0.25
    assert 0.9 < np.mean(np.abs(mean - wild(Z)) < 2 * sd) <= 1.0
    assert rmse(told) < 1.05 * 0.3


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_few_results_are_enough(n):
    posterior = fit(data(lambda X: wild(X) + bias(X), X=X[:n]))
    assert len(factors(posterior)) == (2 if n < 4 else 3) and sum(shares(posterior)) == pytest.approx(1)
    mean, sd = predicted(posterior)
    assert np.isfinite(mean).all() and (sd > 0).all()
    assert torch.isfinite(posterior.log_predictive()).all()


@pytest.mark.parametrize(("n", "k"), [(2, 1), (8, 1), (14, 1), (14, 2)])
def test_the_variance_of_a_difference_is_the_mean_of_what_is_believed_of_it(n, k):
    """By quadrature: log s^2 ~ N(2 log 0.03, 2^2), the sum of squares / s^2 ~ chi-square(free)."""
    known = data(lambda X: wild(X) + bias(X), X=X[:n])
    predictions, free = wild(X[:n]) + bias(X[:n]), n - 1 - (k == 2)
    line = [1.0, np.polyfit(predictions, known.y, 1)[0]][k - 1]
    seen = (n - 1) * np.var(known.y - line * predictions, ddof=1) / known.scaling.sd**2
    v = np.exp(np.linspace(2 * np.log(1e-3), 25, 200_001))
    prior = -0.5 * ((np.log(v) - 2 * np.log(0.03)) / 2) ** 2
    density = np.exp(prior - (free / 2) * np.log(v) - seen / (2 * v))
    assert factors(fit(known))[k][0].unit ** 2 == pytest.approx(np.sum(v * density) / np.sum(density), rel=1e-6)


def test_moments_are_those_of_the_draws():
    posterior = fit(data(lambda X: 0.5 * wild(X) + 2 * bias(X), X=X[:6]))
    points = torch.tensor(Z[:5])
    functions = posterior.draw(4000, np.random.default_rng(1))
    values = torch.stack([function(points) for function in functions])
    mean, variance = posterior.mean_var(points)
    assert (values.mean(0) - mean).abs().max() < 4 * float(variance.max().sqrt()) / math.sqrt(4000)
    # The features of the prior leave an error of some percent.
    np.testing.assert_allclose(values.var(0), variance, rtol=0.15)
    assert min(shares(posterior)) < 0.1 < max(shares(posterior))


def test_draws_leave_the_jitter_out():
    posterior = fit(data(lambda X: wild(X) + bias(X), X=X[:6], jitter=0.5))
    points = torch.tensor(Z[:5])
    values = torch.stack([function(points) for function in posterior.draw(2000, np.random.default_rng(1))])
    jitter = sum(each.weight * each.jitter**2 for each in posterior.multiples)
    assert jitter > 0.2 * float(posterior.mean_var(points)[1].max())
    mean, variance = posterior.mean_var(points)
    assert (values.mean(0) - mean).abs().max() < 4 * float(variance.max().sqrt()) / math.sqrt(2000)
    np.testing.assert_allclose(values.var(0), variance - jitter, rtol=0.15)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("n", [3, 14])
def test_moments_have_their_gradients_in_closed_form(n, maximize):
    known = data(lambda X: 0.7 * wild(X) + bias(X), X=X[:n], maximize=maximize, jitter=0.2)
    posterior = fit(known).fantasize(torch.tensor(Z[50:52]))
    points = torch.tensor(Z[:6], requires_grad=True)
    at = posterior.moment_slopes(points)
    for values, slopes, found in zip(
        posterior.mean_var(points), (at.by_mean, at.by_variance), (at.mean, at.variance), strict=True
    ):
        np.testing.assert_allclose(found, values.detach(), rtol=1e-10, atol=1e-12)
        (gradient,) = torch.autograd.grad(values.sum(), points, retain_graph=True)
        np.testing.assert_allclose(slopes, gradient, rtol=1e-8, atol=1e-10)


def test_the_density_of_a_result_given_the_others_is_that_of_a_fit_without_it():
    """At the same hyper-parameters, by leaving out one row of each process."""
    posterior = fit(data(lambda X: wild(X) + bias(X)))
    for each in posterior.multiples[::7]:
        i, n = 5, len(X)
        others = [j for j in range(n) if j != i]
        S = each.rows.cross(torch.tensor(X)) + each.noise * torch.eye(n)
        slope = each.spread / each.unit * each.predictions
        S = (S + slope[:, None] * slope).numpy()
        r = ((each.targets - each.rho * each.predictions) / each.unit).numpy()
        solved = np.linalg.solve(S, np.stack([r, np.ones(n)], axis=1)).sum(0)
        r = r - solved[0] / solved[1]
        gain = np.linalg.solve(S[np.ix_(others, others)], S[others, i])
        mean, variance = gain @ r[others], S[i, i] - gain @ S[others, i]
        density = -0.5 * (math.log(2 * math.pi * variance) + (r[i] - mean) ** 2 / variance) - math.log(each.unit)
        assert float(each.log_predictive()[i]) == pytest.approx(density, abs=1e-6)


def test_the_mixture_is_judged_by_weights_from_the_other_results():
    posterior = fit(data(lambda X: wild(X) + bias(X), X=X[:6]))
    densities = posterior.densities.numpy()
    for i, found in enumerate(posterior.log_predictive().numpy()):
        evidence = np.exp(np.delete(posterior.evidence.numpy(), i, axis=1).sum(1))
        assert found == pytest.approx(math.log(evidence @ np.exp(densities[:, i]) / evidence.sum()), abs=1e-9)


def peaked(X):
    """A function with a narrow well, of which long length scales foresee little."""
    return 100 * np.exp(-3 * np.abs(X).sum(axis=1))


def test_what_a_prior_of_length_scales_is_worth_counts_for_no_useless_emulator():
    many = np.random.default_rng(5).uniform(-1, 1, (20, 3))
    known = data(noise, X=many, y=peaked(many))
    posterior = fit(known)
    assert float(torch.softmax(posterior.densities.sum(1), 0)[0]) < 0.05 < 0.7 < shares(posterior)[0]
    assert shares(posterior) == pytest.approx(torch.softmax(posterior.evidence.sum(1), 0).tolist())
    assert torch.equal(posterior.evidence[1:], posterior.densities[1:])
    # A constant tells nothing either: its differences are the results, with the differences' prior, but for their size.
    other = fit(data(lambda X: np.zeros(len(X)), X=many, y=peaked(many))).densities[1]
    assert np.median(np.abs(posterior.evidence[0] - other)) < 0.1
    restored = EmulatedGP(restarts=0).restore(known, posterior.state())
    assert torch.equal(restored.evidence, posterior.evidence)
    # Where the prior of the results alone is the better one, it is its own that counts.
    smooth = fit(data(noise))
    assert torch.equal(smooth.evidence, smooth.densities)


def test_auto_takes_a_good_emulator_and_leaves_a_useless_one():
    good, useless = fit(data(lambda X: wild(X) + bias(X)), Auto()), fit(data(noise), Auto())
    assert good.remarks["chosen"] == "emulated_gp" and "emulator" in good.remarks
    assert good.metrics["score.emulated_gp"] > max(
        good.metrics[f"score.{each}"] for each in ("exact_gp", "additive_gp")
    )
    # With nothing to learn from it, the mixture is exact_gp but for its cost.
    assert useless.metrics["score.emulated_gp"] < useless.metrics["score.exact_gp"] + 1.0
    without = fit(Observations(X, wild(X), maximize=False), Auto())
    assert "score.emulated_gp" not in without.metrics


def test_a_state_holds_the_predictions_so_that_another_machine_restores_it():
    known = data(lambda X: wild(X) + bias(X))
    posterior = fit(known)
    rounded = data(lambda X: (wild(X) + bias(X)) * (1 + 1e-15))
    restored = EmulatedGP(restarts=0).restore(rounded, posterior.state())
    np.testing.assert_allclose(predicted(restored)[0], predicted(posterior)[0], rtol=1e-12)


def test_few_results_leave_several_processes_in_doubt_and_many_one():
    few = fit(data(lambda X: wild(X) + bias(X), X=X[:8]))
    assert [len(of) for of in factors(few)] == [1, 16, 16]
    assert len({float(each.rows.scales[0]) for each in few.multiples}) == 33
    _, variance = few.mean_var(torch.tensor(Z))
    likeliest = replace(few, multiples=(max(few.multiples, key=lambda each: each.weight),))
    assert variance.mean() > likeliest.mean_var(torch.tensor(Z))[1].mean()
    many = np.random.default_rng(3).uniform(-1, 1, (101, 3))
    assert [len(of) for of in factors(fit(data(lambda X: wild(X) + bias(X), X=many, y=wild(many))))] == [1, 1, 1]


def test_a_state_of_before_has_one_process_for_each_factor():
    known = data(lambda X: wild(X) + bias(X), X=X[:8])
    state = {name: value for name, value in fit(known).state().items() if not name.endswith((".thetas", ".shares"))}
    foreseen = wild(X[:8]) + bias(X[:8])
    spread = foreseen - math.fsum(foreseen) / 8
    for k, line in enumerate((0.0, 1.0, math.fsum(spread * known.y) / math.fsum(spread**2))):
        left = Observations(X[:8], known.y - line * foreseen, maximize=False)
        state |= {f"{k}.{name}": value for name, value in fit(left, ExactGP()).state().items()}
    restored = EmulatedGP(restarts=0).restore(known, state)
    assert [len(of) for of in factors(restored)] == [1, 1, 1] and sum(shares(restored)) == pytest.approx(1)


def test_gradients_of_predictions_are_central_differences_within_the_box():
    asked = []

    def cubic(X):
        asked.append(X)
        return X[:, 0] ** 3 + X[:, 0] * X[:, 1]

    points = np.array([[0.5, -0.3], [1.0, -1.0]])
    values, slopes = with_slopes(cubic, points)
    np.testing.assert_allclose(values, [0.125 - 0.15, 0.0])
    np.testing.assert_allclose(slopes[0], [0.75 - 0.3, 0.5], atol=STEP**2 * 1.1)
    np.testing.assert_allclose(slopes[1], [3.0 - 1.0, 1.0], atol=4 * STEP)  # one-sided at the bounds
    assert np.abs(asked[0]).max() <= 1.0
    X = torch.tensor(points, requires_grad=True)
    (gradient,) = torch.autograd.grad(emulated(Emulator(cubic), X).sum(), X)
    np.testing.assert_array_equal(gradient.numpy(), slopes)


def test_gradients_to_one_side_have_the_error_of_the_curvature_and_stay_within_the_box():
    asked = []

    def cubic(X):
        asked.append(X)
        return np.stack([X[:, 0] ** 3 + X[:, 0] * X[:, 1], X[:, 1] ** 2], axis=1)

    values, slopes = with_slopes_ahead(cubic, np.array([[0.5, -0.3], [1.0, -1.0]]))
    np.testing.assert_allclose(values, [[0.125 - 0.15, 0.09], [0.0, 1.0]])
    error = STEP * np.array([[[1.5, 0.0], [0.0, 1.0]], [[-3.0, 0.0], [0.0, 1.0]]])  # f'' / 2, against the move
    exact = np.array([[[0.45, 0.0], [0.5, -0.6]], [[2.0, 0.0], [1.0, -2.0]]])
    np.testing.assert_allclose(slopes, exact + error, atol=STEP**2 * 1.1)
    (points,) = asked
    assert np.abs(points).max() <= 1.0 and points.shape == (6, 2)


@pytest.mark.parametrize(("slopes_of", "sides"), [(with_slopes, 2), (with_slopes_ahead, 1)])
def test_coordinates_of_whole_numbers_and_choices_are_not_moved_and_the_others_as_without_them(slopes_of, sides):
    asked = []

    def product(X):
        asked.append(X)
        return np.stack([X.prod(axis=1), X.sum(axis=1)], axis=1)

    points = RNG.uniform(-0.9, 0.9, (3, 4))
    stepped = np.array([False, True, True, False])
    values, slopes = slopes_of(product, points, stepped=stepped)
    whole_values, whole = slopes_of(product, points)
    np.testing.assert_array_equal(values, whole_values)
    np.testing.assert_array_equal(slopes[:, ~stepped], whole[:, ~stepped])
    assert not slopes[:, stepped].any() and [len(each) for each in asked] == [3 + 3 * 2 * sides, 3 + 3 * 4 * sides]
    assert {tuple(row) for row in asked[0][:, stepped]} == {tuple(row) for row in points[:, stepped]}
    none, flat = slopes_of(product, points, stepped=np.ones(4, dtype=bool))
    assert not flat.any() and none.shape == (3, 2)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (lambda: Observations(X, wild(X), maximize=False), "has no emulator and surrogate emulated_gp needs one"),
        (lambda: data(wild, X=np.zeros((5001, 2)) + np.arange(5001)[:, None] / 5001, y=np.zeros(5001)), "takes 5000"),
    ],
)
def test_data_it_cannot_learn_from_are_refused(observations, message):
    with pytest.raises(ValueError, match=message):
        fit(observations())


def test_a_negative_number_of_restarts_is_refused():
    with pytest.raises(ValueError, match="restarts is -1"):
        EmulatedGP(restarts=-1)
