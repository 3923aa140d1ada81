"""Objectives that are computed from several outputs: moments, scores, draws and states against other ways to them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.composite.posterior import CompositePosterior
from fieldcraft.models.data.composite import Composite
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.outputs.formula import Formula
from fieldcraft.physics.space import Continuous, SearchSpace

SPACE = SearchSpace((Continuous("x", 0.0, 2.0), Continuous("r", 0.1, 10.0, log=True)))
ALGORITHM = Algorithm(Sobol(), 4, ExactGP(), LogEI(), Multistart(n_samples=64, n_starts=2))
NONE = torch.empty((0, 2), dtype=torch.float64)
PLACES = torch.tensor([[0.1, -0.3], [-0.8, 0.9], [0.7, 0.2]], dtype=torch.float64)
MANY = torch.as_tensor(np.random.default_rng(9).uniform(-1, 1, (40, 2)))
RATIO, TARGET, BAND = Formula("a / b"), Distance("a", 3.6, 3.6), Distance("a", 3.5, 3.7)


def given(formula, maximize=False, **further):
    X = SPACE.encode(SPACE.decode(np.random.default_rng(0).uniform(-1, 1, (9, 2))))
    values = {"a": 2 + np.sin(2 * X[:, 0]) + X[:, 1], "b": 0.2 + X[:, 0] ** 2 + (X[:, 1] - 0.3) ** 2}
    known = values | {"x": 1 + X[:, 0], "r": 10.0 ** X[:, 1]}
    names = tuple(name for name in formula.names if name in values)
    composite = Composite(
        names,
        np.stack([values[name] for name in names], axis=1),
        formula,
        (formula.low, formula.high) if isinstance(formula, Distance) else None,
        {v.name: v for v in SPACE.variables if v.name in formula.names},
    )
    y = np.asarray(formula(known))
    return Observations(
        X, y, maximize=maximize, exact=True, composite=composite, columns=SPACE.columns, space=SPACE, **further
    )


def fitted(data):
    posterior = ALGORITHM.fit(data, np.random.default_rng(1))
    assert isinstance(posterior.objective, CompositePosterior)
    return posterior


def drawn(beliefs, X, n=100_000):
    """Values of the objective at X (m, d), (n, m), for independent normal values of the parts."""
    rng, parts = np.random.default_rng(2), []
    for part, log in zip(beliefs.parts, beliefs.composite.logarithmic, strict=True):
        mean, variance = (each.detach().numpy() for each in part.mean_var(X))
        values = part.scaling.to_physical(mean + np.sqrt(variance) * rng.standard_normal((n, len(X))))
        parts.append(np.exp(values) if log else values)
    known = dict(zip(beliefs.composite.names, parts, strict=True))
    known |= {"x": 1 + X[:, 0].numpy(), "r": 10.0 ** X[:, 1].numpy()}
    return beliefs.scaling.to_target(beliefs.composite.formula(known))


@pytest.mark.parametrize(
    ("formula", "maximize", "known"),
    [(RATIO, True, False), (TARGET, False, True), (BAND, False, True), (Formula("x * a - log10(r) + b"), False, False)],
    ids=["ratio", "target", "band", "of variables"],
)
def test_moments_and_scores_are_those_of_many_draws_of_the_parts(formula, maximize, known):
    """A closed form within the error of the draws; a mean of few quasi-random values within that of so many draws."""
    data = given(formula, maximize)
    posterior = fitted(data)
    values = drawn(posterior.objective, MANY)
    mean, variance = posterior.mean_var(MANY)
    n = len(values) if known else 256
    assert (np.abs(mean.numpy() - values.mean(axis=0)) <= 4.5 * values.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(variance.sqrt().numpy(), values.std(axis=0), rtol=0.02 if known else 0.2)
    score = LogEI().score(posterior, data, NONE, 1, np.random.default_rng(3))
    level = float(posterior.objective.at_means(torch.tensor(data.X)).min())
    gains = np.maximum(level - values, 0)
    n = len(values) if known else 512
    found = np.exp(score.value(MANY, 0, NONE).detach().numpy()) * _unit(posterior, known)
    often = gains.mean(axis=0) > 1e-3
    assert (np.abs(found - gains.mean(axis=0)) <= 4.5 * gains.std(axis=0) / np.sqrt(n))[often].all()
    assert often.any() and (found[~often] < 3e-3).all()


def _unit(posterior, known):
    """The score of a distance is in deviations of its part."""
    return posterior.objective.parts[0].scaling.sd / posterior.scaling.sd if known else 1.0


def test_the_closed_form_of_a_target_is_the_score_by_draws_of_the_same_formula():
    distance, formula = given(TARGET), given(Formula("abs(a - 3.6)"))
    np.testing.assert_array_equal(distance.y, formula.y)
    scores = [LogEI().score(fitted(data), data, NONE, 1, np.random.default_rng(3)) for data in (distance, formula)]
    first, second = (score.value(MANY, 0, NONE).detach().numpy() for score in scores)
    beliefs = fitted(distance).objective
    first += np.log(beliefs.parts[0].scaling.sd / beliefs.scaling.sd)
    likely = first > -6
    np.testing.assert_allclose(first[likely], second[likely], rtol=0.05, atol=0.05)
    assert likely.any()


@pytest.mark.parametrize("formula", [RATIO, BAND], ids=["ratio", "band"])
def test_the_gradient_of_the_score_is_its_slope_and_pending_points_lower_it(formula):
    data = given(formula, maximize=formula is RATIO)
    score = LogEI().score(fitted(data), data, NONE, 1, np.random.default_rng(3))
    X = PLACES.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(score.value(X, 0, NONE).sum(), X)
    for i in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[i] = 1e-5
        slope = (score.value(PLACES + step, 0, NONE) - score.value(PLACES - step, 0, NONE)) / 2e-5
        torch.testing.assert_close(gradient[:, i], slope, rtol=1e-3, atol=1e-4)
    best = PLACES[score.value(PLACES, 0, NONE).argmax()][None]
    assert float(score.value(best, 1, best)) < float(score.value(best, 0, NONE)) - 0.5


def test_a_divisor_is_learnt_by_its_logarithm_while_it_is_above_zero():
    data = given(RATIO)
    assert data.composite.logarithmic == (False, True)
    np.testing.assert_allclose(np.exp(data.part(1).y), data.composite.values[:, 1])
    turned = replace(data.composite, values=data.composite.values - 0.5, sds=np.full((9, 2), 0.1))
    assert turned.logarithmic == (False, False)
    stated = replace(data.composite, sds=np.full((9, 2), 0.1))
    np.testing.assert_allclose(stated.learnt(1)[1][:, 0], 0.1 / data.composite.values[:, 1])


def test_values_that_are_not_finite_count_as_the_worst_and_have_no_gradient():
    data = given(Formula("sqrt(a - b + 3)"))
    beliefs = fitted(data).objective
    values = (torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([6.0, 1.0], dtype=torch.float64))
    targets = [
        torch.as_tensor(part.scaling.to_target(each)).requires_grad_()
        for part, each in zip(beliefs.parts, values, strict=True)
    ]
    found = beliefs.of(targets, PLACES[:2])
    assert found.tolist() == [data.targets.max(), pytest.approx(float(data.scaling.to_target(2.0)))]
    for gradient in torch.autograd.grad(found.sum(), targets):
        assert float(gradient[0]) == 0.0 and np.isfinite(float(gradient[1])) and float(gradient[1]) != 0.0


def test_a_draw_is_computed_from_one_draw_of_each_part():
    data = given(RATIO)
    beliefs = fitted(data).objective
    (function,) = beliefs.draw(1, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    own = [part.draw(1, rng)[0](PLACES) for part in beliefs.parts]
    torch.testing.assert_close(function(PLACES), beliefs.of(own, PLACES))
    assert Thompson().score(beliefs, data, NONE, 2, rng).value(PLACES, 1, NONE).shape == (3,)


def test_a_restored_model_is_the_same_and_one_of_other_parts_is_refused():
    data = given(RATIO, constraints=np.linspace(-1, 1, 9)[:, None], failed=np.array([[0.9, 0.9]]))
    posterior = fitted(data)
    again = ALGORITHM.restore(data, posterior.state())
    for one, other in zip(posterior.mean_var(PLACES), again.mean_var(PLACES), strict=True):
        assert torch.equal(one, other)
    chosen = [
        ALGORITHM.propose(each, data, NONE.numpy(), SPACE, 2, np.random.default_rng(7)).X for each in (posterior, again)
    ]
    np.testing.assert_array_equal(*chosen)
    other = replace(data, composite=replace(data.composite, values=data.composite.values * 1.01))
    assert other.digest != data.digest
    with pytest.raises(ValueError, match="state"):
        ALGORITHM.restore(other, posterior.state())


def test_a_part_is_told_in_its_unit():
    beliefs = fitted(given(RATIO)).objective
    (a, _), (b, sd) = beliefs.in_units(PLACES[:1].numpy())
    mean, variance = beliefs.parts[1].mean_var(PLACES[:1])
    scale = beliefs.parts[1].scaling
    draws = np.random.default_rng(0).normal(scale.to_physical(float(mean)), scale.sd * float(variance.sqrt()), 400_000)
    draws = np.exp(draws)
    assert (b, sd) == pytest.approx((draws.mean(), draws.std()), rel=0.02)
    assert 0 < a < 5


def test_a_part_over_a_hundred_decades_has_moments_that_are_numbers():
    X = np.linspace(-0.9, 0.9, 5)[:, None] * [1.0, -1.0]
    values = np.stack([np.ones(5), [1e-50, 1e50, 1e-30, 1.0, 1e-50]], axis=1)
    data = Observations(X, 1 / values[:, 1], maximize=False, composite=Composite(("a", "b"), values, RATIO))
    _, (mean, sd) = fitted(data).objective.in_units(np.array([[0.5, 0.9]]))
    assert 1e-60 < mean <= sd < np.inf
