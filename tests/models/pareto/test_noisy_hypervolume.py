"""Noisy expected hypervolume improvement against BoTorch's, its parts against laws of probability."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition.multi_objective.monte_carlo import qNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import GenericMCMultiOutputObjective
from botorch.models import ModelListGP
from botorch.sampling.normal import SobolQMCNormalSampler

from fieldcraft.models.acquisition import anchors_of
from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.acquisitions.log_nehvi import LogNEHVI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.gaussian.draws import DrawnValues
from fieldcraft.models.gaussian.exact_results import through_results
from fieldcraft.models.gaussian.process import to_unit
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.scoring.hypervolume import counted
from fieldcraft.models.scoring.noisy_hypervolume import NoisyHypervolumeScore
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.random_forest import RandomForest
from fieldcraft.models.surrogates.trend_gp import TrendGP
from fieldcraft.models.trend.process import TrendedPosterior
from fieldcraft.physics.problems.branin_currin import BraninCurrin
from fieldcraft.storage.pareto import non_dominated

SPACE = BraninCurrin().space
NONE = torch.empty(0, 2, dtype=torch.float64)
X = SPACE.sample(14, np.random.default_rng(4))
AIMS = (Aim(False, 60.0), Aim(False, 13.0))
ELSEWHERE = torch.tensor(SPACE.sample(9, np.random.default_rng(5)))


def observed(noise, **further):
    values = BraninCurrin().values((X + 1) / 2)
    values = values + noise * values.std(axis=0) * np.random.default_rng(6).standard_normal(values.shape)
    return Observations(X, values[:, 0], maximize=False, space=SPACE, aims=AIMS, further=values[:, 1:], **further)


def fitted(data, surrogate=None):
    made = Algorithm(Sobol(), 1, surrogate or ExactGP(restarts=0), LogNEHVI(), Multistart(n_samples=64, n_starts=2))
    return made, made.fit(data, np.random.default_rng(0))


@pytest.fixture(scope="module")
def noisy():
    data = observed(0.3)
    return data, fitted(data)[1]


def scored(acquisition, posterior, data, pending=NONE, q=1):
    return acquisition.score(posterior, data, pending, q, np.random.default_rng(3))


def test_it_is_botorchs_improvement_within_the_error_of_both(noisy):
    data, posterior = noisy
    model = ModelListGP(*(part.model for part in posterior.objective.parts))
    reference = scored(LogNEHVI(), posterior, data).reference
    found = []
    for seed in range(12):
        score = LogNEHVI(64).score(posterior, data, NONE, 1, np.random.default_rng(seed))
        acquisition = qNoisyExpectedHypervolumeImprovement(
            model,
            -reference,
            to_unit(torch.tensor(X)),
            sampler=SobolQMCNormalSampler(torch.Size([128]), seed=seed),
            objective=GenericMCMultiOutputObjective(lambda Y, X=None: -Y),
        )
        with torch.no_grad():
            theirs = acquisition(to_unit(ELSEWHERE).unsqueeze(-2))
        found.append(torch.stack([score.value(ELSEWHERE, 0, NONE).exp(), theirs]))
    estimates = torch.stack(found)
    (ours, theirs), errors = estimates.mean(dim=0), estimates.std(dim=0) / math.sqrt(len(found))
    likely = ours > 1e-3 * ours.max()
    assert likely.sum() >= 3
    assert ((ours - theirs).abs() < 4 * errors.norm(dim=0) + 0.02 * ours)[likely].all()


def test_draws_have_the_posteriors_moments_and_share_out_its_variance(noisy):
    process = noisy[1].objective.parts[0]
    points, draws = torch.tensor(X), 4000
    drawn = DrawnValues(process, points, torch.from_numpy(np.random.default_rng(1).standard_normal((len(X), draws))))
    mean, variance = process.mean_var(points)
    error = variance.sqrt() / math.sqrt(draws)
    assert ((drawn.values.mean(dim=0) - mean).abs() < 4 * error).all()
    assert ((drawn.values.var(dim=0) / variance - 1).abs() < 5 * math.sqrt(2 / draws)).all()
    # Var f(x) = E Var(f(x) | v) + Var E(f(x) | v), and E f(x) = E E(f(x) | v).
    means, left = drawn.moments(ELSEWHERE)
    mean, variance = process.mean_var(ELSEWHERE)
    torch.testing.assert_close(means.var(dim=0) + left, variance, rtol=0.1, atol=1e-4)
    assert ((means.mean(dim=0) - mean).abs() < 4 * means.std(dim=0) / math.sqrt(draws) + 1e-9).all()
    # At the points themselves each draw is known.
    at, none = drawn.moments(points)
    assert (at - drawn.values).abs().max() < 1e-2 and none.max() < 2e-6


@pytest.mark.parametrize("trend", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_gradients_in_closed_form_are_the_automatic_ones(noisy, exact, trend):
    data, posterior = noisy
    if trend:
        data = replace(data, y=3 + X @ [1.0, -2.0], further=(X[:, :1] - X[:, 1:]) ** 2)
        posterior = fitted(data, TrendGP())[1]
        assert all(isinstance(part, TrendedPosterior) for part in posterior.objective.parts)
    score = scored(LogNEHVI(6), through_results(posterior, data) if exact else posterior, data, ELSEWHERE[:1], 2)
    assert isinstance(score, NoisyHypervolumeScore)
    values, gradients = score.value_and_grad(ELSEWHERE[2:], 1, ELSEWHERE[1:2])
    again, slopes = automatic(lambda points: score.value(points, 1, ELSEWHERE[1:2]), ELSEWHERE[2:])
    torch.testing.assert_close(values, again, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(gradients, slopes, rtol=1e-5, atol=1e-6)


def test_a_design_that_was_read_promises_nothing_however_noisy(noisy):
    data, posterior = noisy
    read = torch.tensor(X)
    known, means = (scored(each, posterior, data).value(read, 0, NONE) for each in (LogNEHVI(), LogEHVI()))
    best = float(scored(LogNEHVI(), posterior, data).value(ELSEWHERE, 0, NONE).max())
    assert known.max() < best - 4 and known.max() < means.max() - 4


def test_without_noise_it_is_the_improvement_on_the_front_of_means():
    data = observed(0.0)
    posterior = fitted(replace(data, noise_sd=1e-6), ExactGP(restarts=0, noise="known"))[1]
    ours, means = (scored(each, posterior, data).value(ELSEWHERE, 0, NONE) for each in (LogNEHVI(), LogEHVI()))
    likely = means > means.max() - 5
    assert likely.sum() >= 2
    torch.testing.assert_close(ours[likely], means[likely], rtol=0, atol=0.05)


def test_pending_trials_and_earlier_places_are_drawn_with_what_was_read(noisy):
    data, posterior = noisy
    before = scored(LogNEHVI(), posterior, data).value(ELSEWHERE, 0, NONE)
    first, second = ELSEWHERE[before.argsort(descending=True)[:2]].split(1)
    score = scored(LogNEHVI(), posterior, data, first, 2)
    few, many = score.drawn(NONE), score.drawn(second)
    for before_it, with_it in zip(few.objectives, many.objectives, strict=True):
        assert before_it.points.equal(torch.cat([torch.tensor(X), first]))
        assert with_it.points.equal(torch.cat([before_it.points, second]))
        torch.testing.assert_close(with_it.values[:, :-1], before_it.values, rtol=0, atol=1e-7)
    assert (score.value(torch.cat([first, second]), 1, second) < before.sort().values[-2:].min() - 3).all()


def test_draws_come_in_pairs_about_the_mean(noisy):
    data, posterior = noisy
    for part, drawn in zip(
        posterior.objective.parts, scored(LogNEHVI(), posterior, data).drawn(NONE).objectives, strict=True
    ):
        torch.testing.assert_close(drawn.values.mean(dim=0), part.mean(torch.tensor(X)), rtol=0, atol=1e-10)
        assert drawn.values.shape == (4, len(X)) and drawn.values.std(dim=0).min() > 1e-3
    assert len(scored(LogNEHVI(3), posterior, data).drawn(NONE).improvements) == 3


def test_the_search_begins_near_the_front_of_means(noisy):
    data, posterior = noisy
    assert torch.equal(*(anchors_of(scored(each, posterior, data)) for each in (LogNEHVI(), LogEHVI())))


def test_infeasible_results_and_pending_designs_are_on_no_front():
    values = observed(0.1)
    best = np.isin(np.arange(len(X)), non_dominated(list(zip(values.y, values.further[:, 0], strict=True))))
    data = replace(values, constraints=np.where(best, 0.5, -0.5)[:, None])
    score = scored(LogNEHVI(), fitted(data)[1], data)
    (improvement, *_), first = score.drawn(NONE).improvements, score.drawn(NONE).objectives[0]
    levels = improvement.levels[0][1:-1]
    assert len(levels) and all((first.values[0, ~best] - level).abs().min() < 1e-12 for level in levels)
    ruled = replace(values, constraints=X.sum(axis=1, keepdims=True) - 0.3)
    pending = torch.tensor([[0.9, 0.9], [-0.9, -0.9]], dtype=torch.float64)
    points, feasible = counted(fitted(ruled)[1], ruled, pending)
    assert points[-2:].equal(pending) and feasible[-2:].tolist() == [False, True]


def test_other_surrogates_have_the_front_of_their_means():
    data = observed(0.1)
    score = scored(LogNEHVI(), fitted(data, RandomForest())[1], data)
    assert not isinstance(score, NoisyHypervolumeScore)


def test_a_proposal_is_a_function_of_the_stored_model_and_the_stream():
    data = replace(observed(0.1), constraints=X.sum(axis=1, keepdims=True) - 0.3, failed=X[:1] + 0.01)
    made, posterior = fitted(data)
    again = made.restore(data, posterior.state())
    first, second = (
        made.propose(each, data, ELSEWHERE[:2].numpy(), SPACE, 2, np.random.default_rng(2)).X
        for each in (posterior, again)
    )
    assert np.array_equal(first, second) and np.abs(first[0] - first[1]).max() > 1e-6


def test_at_least_one_front_is_drawn():
    with pytest.raises(ValueError, match="draws"):
        LogNEHVI(0)
