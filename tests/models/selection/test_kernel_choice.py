"""The choice of a kernel against predictions written out by hand, on functions whose smoothness is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from fieldcraft.models.gaussian.fit import Question
from fieldcraft.models.numerics.length_scales import wide_prior
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Observations
from fieldcraft.models.selection.kernel_choice import PRIORS, kind, score
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

CHOSEN = ExactGP(kernel="chosen")


def points(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def straight(n, d=7):
    X = points(n, d)
    return Observations(X, X @ np.arange(1.0, d + 1) + 3, maximize=False)


def rugged(n, d=2):
    X = points(n, d, 1)
    return Observations(X, np.sqrt(np.abs(X - 0.2)).sum(axis=1), maximize=True)


def fit(surrogate, data):
    return surrogate.fit(data, np.random.default_rng(0), None, no_report)


def moments(posterior, d):
    return torch.stack(posterior.mean_var(torch.tensor(points(9, d, 5))))


def hand_kernel(kernel, A, B, scales):
    r = np.sqrt((((A[:, None] - B) / scales) ** 2).sum(axis=-1))
    if kernel == "rbf":
        return np.exp(-(r**2) / 2)
    return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)


@pytest.mark.parametrize("kernel", PRIORS)
@pytest.mark.parametrize("noise", ["fitted", "known", "stated"])
def test_the_score_is_the_density_of_results_left_out(kernel, noise):
    data = rugged(17)
    if noise == "known":
        data = replace(data, noise_sd=0.2)
    if noise == "stated":
        data = replace(data, sds=np.linspace(0.1, 0.4, 17)[:, None])
    question = Question(kernel, noise == "known", 2, 100, ByDigest.of(data), PRIORS[kernel])
    density, total = question.density()[0], 0.0
    own = np.zeros(17) if density.readings is None else density.readings
    for out in np.array_split(np.random.default_rng(14).permutation(17), 5):
        rest = np.setdiff1d(np.arange(17), out)
        theta = density.among(rest).maximised(question.answer().theta)[1]
        v = math.exp(theta[-1]) if density.noise is None else density.noise
        scales, U, t = np.exp(theta[:2]), density.X, density.targets
        S = hand_kernel(kernel, U[rest], U[rest], scales) + np.diag(v + own[rest])
        ones, k = np.linalg.solve(S, np.ones(len(rest))), hand_kernel(kernel, U[out], U[rest], scales)
        c = (ones @ t[rest]) / ones.sum()
        mean = c + k @ np.linalg.solve(S, t[rest] - c)
        variance = 1 - np.einsum("ij,ji->i", k, np.linalg.solve(S, k.T)) + v + own[out] + 1e-6
        total += stats.norm.logpdf(t[out], mean, np.sqrt(variance)).sum()
    assert score(question) == pytest.approx(total, abs=1e-6)


def test_a_straight_function_gets_the_smooth_kernel_and_a_rugged_one_the_rough():
    assert kind(straight(16), known=False) == "rbf"
    assert kind(rugged(40), known=False) == "matern52"


def test_the_posterior_is_that_of_the_kind_that_was_chosen():
    smooth, rough = straight(16), rugged(40)
    chosen = fit(CHOSEN, smooth)
    assert chosen.remarks["kernel"] == "rbf"
    torch.testing.assert_close(moments(chosen, 7), moments(ExactGP(kernel="rbf").under(wide_prior, smooth), 7))
    chosen = fit(CHOSEN, rough)
    assert chosen.remarks["kernel"] == "matern52"
    torch.testing.assert_close(moments(chosen, 2), moments(fit(ExactGP(), rough), 2), rtol=0, atol=0)


@pytest.mark.parametrize("data", [straight(16), rugged(40)], ids=["smooth", "rough"])
def test_a_state_tells_the_kind(data):
    chosen, d = fit(CHOSEN, data), data.X.shape[1]
    again = CHOSEN.restore(data, chosen.state())
    assert again.remarks == chosen.remarks
    torch.testing.assert_close(moments(again, d), moments(chosen, d), rtol=0, atol=0)
    # Whatever the rule would choose today, a state remains that of its process.
    other = fit(ExactGP(kernel="matern32"), data)
    assert CHOSEN.restore(data, other.state()).remarks["kernel"] == "matern32"


def scores(data):
    return [score(Question(kernel, False, 2, 100, ByDigest.of(data), prior)) for kernel, prior in PRIORS.items()]


def test_a_lead_that_is_chance_changes_nothing():
    usual, smooth = scores(rugged(20))
    assert 0 < smooth - usual < 3
    assert kind(rugged(20), known=False) == "matern52"


def test_results_since_the_last_growth_by_a_tenth_change_no_choice():
    data = straight(45)
    jumps = replace(data, y=np.where(np.arange(45) < 41, data.y, -data.y))  # 41 is such a growth, and 46 the next
    usual, smooth = scores(jumps)
    assert smooth < usual + 3
    assert kind(jumps, known=False) == kind(data, known=False) == "rbf"


@pytest.mark.parametrize(
    "data", [straight(4), replace(straight(16), y=np.full(16, 2.0))], ids=["four results", "constant results"]
)
def test_without_a_choice_the_kernel_is_the_usual_one(data):
    assert kind(data, known=False) == "matern52"
    assert fit(CHOSEN, data).remarks["kernel"] == "matern52"


def test_of_many_trials_a_part_is_asked():
    data = straight(400, 2)
    assert kind(data, known=False) == "rbf"
    assert fit(CHOSEN, data).fit.kernel == "rbf"


def test_with_gradients_the_kernel_is_the_usual_one():
    data = straight(12, 2)
    taught = replace(data, gradients=np.tile([1.0, 2.0], (12, 1)))
    chosen, usual = fit(CHOSEN, taught), fit(ExactGP(), taught)
    assert chosen.remarks["kernel"] == "matern52"
    torch.testing.assert_close(moments(chosen, 2), moments(usual, 2), rtol=0, atol=0)
    again = CHOSEN.restore(taught, chosen.state())
    torch.testing.assert_close(moments(again, 2), moments(usual, 2), rtol=0, atol=0)
