"""STO-BNTS (methods.md section 4): networks that are draws, trained together as alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.networks.training import Schedule, State, train
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.tangent.features import explicit
from fieldcraft.models.tangent.training import Family, Start, TangentLoss, trained

RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (6, 2))
DATA = Observations(X, np.sin(2 * X[:, 0]) + X[:, 1], maximize=False, noise_sd=0.3)
Z = torch.tensor(RNG.uniform(-1, 1, (4, 2)))
POINTS, TARGETS = torch.tensor(X), torch.tensor(DATA.targets)


def fit(**options):
    return SampledNetwork(**{"width": 10, "networks": 3, **options}).fit(
        DATA, np.random.default_rng(5), None, no_report
    )


def family_of(posterior):
    start = Start.of(posterior.state())
    return Family(type(posterior.process.kernel)(**{**vars(posterior.process.kernel), "theta": start.theta}), start)


def test_networks_trained_together_end_where_each_ends_alone():
    posterior = fit(steps=20, refinements=10)
    family, noise = family_of(posterior), posterior.process.noise
    for i, function in enumerate(posterior.draw(3, np.random.default_rng(0))):
        alone = TangentLoss(family.member(i), POINTS, TARGETS, noise)
        state = train(alone, State.begin(alone.anchor), Schedule(20, 0.001, 1.0, 10), no_report, State.tensors)
        torch.testing.assert_close(state.theta[0], posterior.state()["theta"][i], rtol=0, atol=1e-9)
        torch.testing.assert_close(function(Z), family.member(i).values(state.theta, Z)[0], rtol=0, atol=1e-9)


def test_training_lowers_every_networks_loss_and_does_not_leave_the_draws_alike():
    posterior = fit()
    family = family_of(posterior)
    problem = TangentLoss(family, POINTS, TARGETS, posterior.process.noise)
    before = problem.rows(problem.anchor).square().sum(1)
    assert (posterior.state()["loss"] < before).all()
    values = torch.stack([f(Z) for f in posterior.draw(3, np.random.default_rng(0))])
    assert (torch.pdist(values) > 0.05).all()


def test_before_training_the_networks_are_draws_of_the_prior():
    k = 3000
    posterior = fit(networks=k, refinements=1, width=30)
    family = family_of(posterior)
    values = family.values(family.anchor, Z)
    kernels = explicit(family.kernel.rows(Z))
    expected = (kernels @ kernels.mT).mean(0)
    assert (values.mean(0).abs() / (expected.diagonal() / k).sqrt()).max() < 4
    assert ((torch.cov(values.T) - expected).abs() / expected[0, 0]).max() < 4 * math.sqrt(2 / k)


def test_targets_are_perturbed_by_the_noise_of_a_reading_unless_told_otherwise():
    assert not fit(perturb_targets=False).state()["start_perturbation"].any()
    eps = fit(networks=500, refinements=1).state()["start_perturbation"]
    assert float(eps.std()) == pytest.approx(0.3 / DATA.scaling.sd, rel=0.06)


def test_wide_networks_near_linear_draw_like_their_process():
    k = 400
    posterior = fit(networks=k, width=150, refinements=12)
    with torch.no_grad():
        values = torch.stack([f(Z) for f in posterior.draw(k, np.random.default_rng(0))])
    mean, variance = posterior.mean_var(Z)
    assert ((values.mean(0) - mean).abs() < 0.35 * (variance + posterior.process.noise).sqrt() + 0.1).all()
    assert ((values.std(0) / variance.sqrt() - 1).abs() < 0.35).all()


def test_more_draws_than_networks_are_refused():
    with pytest.raises(ValueError, match="4 draws were asked of 3 trained networks: set `networks` to the batch size"):
        fit().draw(4, np.random.default_rng(0))


def test_above_n_exact_the_draws_are_linear_ones():
    posterior = fit(n_exact=5)
    assert posterior.remarks["fallback"].startswith("random features: 6 trials > n_exact 5")
    assert len(posterior.draw(5, np.random.default_rng(0))) == 5
    assert "loss" not in posterior.metrics


def test_many_networks_together_are_refused_where_a_few_are_not():
    many = Observations(np.zeros((1000, 2)), np.arange(1000.0), maximize=False)
    surrogate = SampledNetwork(networks=100, hyperparameters="fixed", memory_gb=1.0)
    with pytest.raises(ValueError, match=r"1000 trials needs about 3.* GB and memory_gb is 1: raise memory_gb"):
        surrogate.fit(many, np.random.default_rng(0), None, no_report)


def test_no_network_is_refused():
    with pytest.raises(ValueError, match="networks is 0: give 1 or more"):
        SampledNetwork(networks=0)


def test_the_closed_form_stands_in_for_the_lost_networks_alone():
    family, noise, schedule = family_of(fit(refinements=1)), 0.1, Schedule(0, 0.001, 1.0, 3)
    broken = replace(family, start=replace(family.start, perturbation=family.start.perturbation.clone()))
    # Its targets are numbers that may not be squared: its loss is infinite at every step.
    broken.start.perturbation[1] = 1e200
    state = trained(broken, POINTS, TARGETS, noise, schedule, None, no_report)
    sound = trained(family, POINTS, TARGETS, noise, schedule, None, no_report)
    assert state.lost.tolist() == [False, True, False]
    assert (state.restarts, state.round) == (3, 3)
    assert torch.equal(state.theta[::2], sound.theta[::2])
    weights, _ = TangentLoss(broken, POINTS, TARGETS, noise).closed_form()
    assert torch.equal(state.theta[1], weights[1])


def test_the_closed_forms_of_several_outputs_have_the_noise_of_their_own():
    family, readings = family_of(fit(refinements=1)), (TARGETS, -2 * TARGETS)
    noise = torch.tensor([0.1, 0.4], dtype=torch.float64).repeat_interleave(3)
    together = TangentLoss(
        Family.joined([family, family]), POINTS, torch.stack(readings).repeat_interleave(3, 0), noise
    )
    alone = [TangentLoss(family, POINTS, y, own).closed_form() for y, own in zip(readings, (0.1, 0.4), strict=True)]
    for found, each in zip(together.closed_form(), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(each), rtol=1e-9, atol=1e-11)
