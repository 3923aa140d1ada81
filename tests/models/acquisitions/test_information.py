"""PI, MES, JES and the knowledge gradient on one dimension, where they can be computed or seen."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from fieldcraft.models.acquisitions.jes import JES
from fieldcraft.models.acquisitions.knowledge_gradient import KnowledgeGradient
from fieldcraft.models.acquisitions.mes import MES
from fieldcraft.models.acquisitions.pi import PI
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.gaussian.process import Fit
from fieldcraft.models.gaussian.process import posterior as made
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.random_forest import RandomForest

# A valley in the right half, seen at few places: its floor near 0.5 is what there is to be learnt.
SEEN = np.array([[-0.9], [-0.7], [-0.5], [-0.3], [0.1], [0.9]])
DATA = Observations(X=SEEN, y=3 * (SEEN[:, 0] - 0.5) ** 2, maximize=False, noise_sd=0.05)
POINTS = torch.linspace(-1, 1, 81, dtype=torch.float64).unsqueeze(-1)
NONE = torch.empty(0, 1, dtype=torch.float64)
ENTROPIES = [MES(), JES()]


@pytest.fixture(scope="module")
def posterior():
    return ExactGP(noise="known", restarts=0).fit(DATA, np.random.default_rng(1), None, no_report)


def values(acquisition, posterior, pending=NONE, points=POINTS):
    score = acquisition.score(posterior, DATA, pending, 1, np.random.default_rng(0))
    with torch.no_grad():
        return score.value(points, 0, NONE)


@pytest.mark.parametrize("acquisition", [*ENTROPIES, KnowledgeGradient()])
def test_the_valley_is_worth_more_than_what_is_known_to_be_high(acquisition, posterior):
    value = values(acquisition, posterior)
    assert value.max() > 0
    assert 0.15 < float(POINTS[value.argmax()]) < 0.85
    known = (POINTS[:, 0] < -0.3).nonzero()[:, 0]
    assert value[known].max() < 0.1 * value.max()


@pytest.mark.parametrize("acquisition", [*ENTROPIES, KnowledgeGradient()])
def test_what_is_pending_there_is_worth_less(acquisition, posterior):
    best = int(values(acquisition, posterior).argmax())
    before, after = values(acquisition, posterior), values(acquisition, posterior, POINTS[best : best + 1])
    assert after[best] < 0.5 * before[best]


def test_a_reading_tells_no_more_than_its_own_signal_holds(posterior):
    # I(y; f*) <= I(y; f(x)) = 1/2 log(1 + var / noise).
    variance = posterior.mean_var(POINTS)[1]
    capacity = 0.5 * (1 + variance / posterior.noise_variance).log()
    assert (values(MES(), posterior) <= capacity + 1e-3).all()


def test_the_knowledge_gradient_equals_the_expected_fall_of_the_least_mean_found_by_refitting(posterior):
    # A result y at x makes a new posterior, whose least mean is looked for on a fine grid; y is integrated out.
    x = torch.tensor([[0.45]], dtype=torch.float64)
    grid = torch.linspace(-1, 1, 2001, dtype=torch.float64).unsqueeze(-1)
    with torch.no_grad():
        variance = posterior.mean_var(x)[1]
        before = posterior.mean_var(grid)[0]
        shift = _mean_shift(posterior, x, grid)
        sd = float((variance + posterior.noise_variance).sqrt())

    def fall(z):
        return float(before.min() - (before + shift * sd * z).min()) * stats.norm.pdf(z)

    expected = integrate.quad(fall, -6, 6, limit=200)[0]
    found = float(values(KnowledgeGradient(n_points=1024, n_readings=512), posterior, points=x))
    assert found == pytest.approx(expected, rel=0.03)
    assert expected > 1e-4


def _mean_shift(posterior, x, grid):
    """How far the mean at the grid moves for each unit that the result at x lies above its mean: by conditioning."""
    fit = posterior.fit
    mean = posterior.mean_var(x)[0]
    targets = torch.cat([fit.targets, mean + 1.0])
    parts = fit.kernel, torch.cat([fit.X, x]), targets, fit.noise, fit.parameters, fit.metrics
    moved = made(Fit(*parts), posterior.scaling, posterior.sampler, {})
    return moved.mean_var(grid)[0] - posterior.mean_var(grid)[0]


@pytest.mark.parametrize("acquisition", [MES(), JES(), KnowledgeGradient()])
def test_a_posterior_without_a_joint_distribution_is_refused_with_the_alternative(acquisition):
    forest = RandomForest(trees=2).fit(DATA, np.random.default_rng(0), None, no_report)
    alternative = r"is a MembersPosterior: use the surrogate exact_gp .* or `acquisition: log_ei`"
    with pytest.raises(ValueError, match=alternative):
        acquisition.score(forest, DATA, NONE, 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("acquisition", "option", "least"),
    [(MES, "n_samples", 1), (MES, "n_points", 1), (JES, "n_starts", 1), (KnowledgeGradient, "n_readings", 2)],
)
def test_a_count_below_its_least_is_refused(acquisition, option, least):
    with pytest.raises(ValueError, match=f"{option} is {least - 1}: give {least} or more"):
        acquisition(**{option: least - 1})


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_pi_is_the_log_probability_of_an_improvement_by_the_margin(posterior, margin):
    mean, variance = (t.detach().numpy() for t in posterior.mean_var(POINTS))
    seen = posterior.mean_var(torch.tensor(SEEN))
    best = int(seen[0].argmin())
    incumbent = float(seen[0][best] - seen[1][best].sqrt()) - margin  # their noise is stated
    found = values(PI(margin=margin), posterior)
    np.testing.assert_allclose(found, stats.norm.logcdf((incumbent - mean) / np.sqrt(variance)), rtol=1e-7)


@pytest.mark.parametrize("margin", [-0.1, math.nan])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(ValueError, match=f"margin is {margin}: give a finite number >= 0"):
        PI(margin=margin)


def test_a_growing_weight_follows_the_number_of_trials_and_coordinates(posterior):
    mean, variance = posterior.mean_var(POINTS)
    expected = math.sqrt(0.2 * 1 * math.log(2 * 6)) * variance.sqrt() - mean
    torch.testing.assert_close(values(UCB(beta="growing"), posterior), expected.detach(), rtol=0, atol=1e-7)
