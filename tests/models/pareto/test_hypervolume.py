"""Expected hypervolume improvement and its Thompson form, against BoTorch, Monte Carlo and finite differences."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.monte_carlo import qNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import GenericMCMultiOutputObjective
from botorch.models import ModelListGP
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning
from botorch.utils.multi_objective.hypervolume import Hypervolume, infer_reference_point
from botorch.utils.testing import MockModel, MockPosterior

from fieldcraft.models.acquisition import anchors_of
from fieldcraft.models.acquisitions.hypervolume_thompson import HypervolumeThompson
from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.coordinates.score import ScoreOfDesigns
from fieldcraft.models.gaussian.exact_results import through_results
from fieldcraft.models.gaussian.process import to_unit
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.probing import Probing
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.scoring.hypervolume import LogHypervolumeImprovement, believed_front, reference_point
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.random_forest import RandomForest
from fieldcraft.physics.problems.branin_currin import BraninCurrin
from fieldcraft.storage.pareto import non_dominated

SPACE = BraninCurrin().space
NONE = torch.empty(0, 2, dtype=torch.float64)
X = SPACE.sample(12, np.random.default_rng(4))
VALUES = BraninCurrin().values((X + 1) / 2)
# The second objective is stated to be maximised.
AIMS = (Aim(False, 60.0), Aim(True, -8.0))
DATA = Observations(X, VALUES[:, 0], maximize=False, exact=True, space=SPACE, aims=AIMS, further=-VALUES[:, 1:])
BEHIND = torch.tensor(SPACE.sample(7, np.random.default_rng(5)))


def algorithm(acquisition, surrogate=None):
    return Algorithm(Sobol(), 1, surrogate or ExactGP(), acquisition, Multistart(n_samples=64, n_starts=2))


@pytest.fixture(scope="module")
def posterior():
    return algorithm(LogEHVI()).fit(DATA, np.random.default_rng(0))


def drawn(m, p, seed):
    """A front (p', m), a reference beyond some of it, and means and standard deviations of 6 candidates (6, m)."""
    torch.manual_seed(seed)
    return (
        torch.rand(n, m, dtype=torch.float64) * scale + low
        for n, scale, low in ((p, 1, 0), (6, 1.4, -0.3), (6, 0.5, 0.05))
    )


@pytest.mark.parametrize(("m", "p"), [(2, 9), (3, 6), (2, 1)])
def test_the_closed_form_is_botorchs_and_within_the_error_of_monte_carlo(m, p):
    front, mean, sd = drawn(m, p, m)
    reference = torch.full((m,), 0.9, dtype=torch.float64)
    ours = LogHypervolumeImprovement.of(front, reference)(mean, sd).exp()
    cells = FastNondominatedPartitioning(-reference, -front)
    model = MockModel(MockPosterior(mean=-mean[:, None], variance=(sd**2)[:, None]))
    theirs = ExpectedHypervolumeImprovement(model, (-reference).tolist(), cells)(torch.zeros(6, 1, 1))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-14)
    volume = Hypervolume(-reference)
    before, draws = volume.compute(-front[(front < reference).all(1)]), 400
    noise = torch.randn(draws, m, dtype=torch.float64)
    gain = torch.tensor([volume.compute(-torch.cat([front, z[None]])) for z in mean[0] + sd[0] * noise]) - before
    assert abs(float(gain.mean() - ours[0])) < 4 * float(gain.std()) / math.sqrt(draws) + 1e-12


def test_without_a_point_within_the_reference_the_gain_is_a_product_of_improvements():
    mean, sd = torch.tensor([[0.1, 0.4]], dtype=torch.float64), torch.tensor([[0.3, 0.2]], dtype=torch.float64)
    reference = torch.ones(2, dtype=torch.float64)
    found = LogHypervolumeImprovement.of(torch.tensor([[2.0, 0.0]], dtype=torch.float64), reference)(mean, sd)
    z = (reference - mean) / sd
    density = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    one_each = sd * (density + z * torch.special.ndtr(z))
    torch.testing.assert_close(found.exp(), one_each.prod(dim=1), rtol=1e-12, atol=0)


def test_values_and_gradients_stay_finite_where_the_gain_underflows():
    front = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    improvement = LogHypervolumeImprovement.of(front, torch.full((2,), 2.0, dtype=torch.float64))
    mean = torch.tensor([[60.0, 60.0], [1e4, 1e4]], dtype=torch.float64, requires_grad=True)
    value = improvement(mean, torch.ones_like(mean))
    (gradient,) = torch.autograd.grad(value.sum(), mean)
    assert torch.isfinite(value).all() and value[0] < -1000 and value[0] > value[1]
    assert (gradient < 0).all() and torch.isfinite(gradient).all()


@pytest.mark.parametrize("exact", [False, True])
def test_gradients_by_the_chain_rule_are_the_automatic_ones(posterior, exact):
    score = LogEHVI().score(through_results(posterior, DATA) if exact else posterior, DATA, BEHIND[:1], 2, None)
    values, gradients = score.value_and_grad(BEHIND[2:], 1, BEHIND[1:2])
    again, slopes = automatic(lambda points: score.value(points, 1, BEHIND[1:2]), BEHIND[2:])
    torch.testing.assert_close(values, again, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(gradients, slopes, rtol=1e-5, atol=1e-7)


def test_without_noise_the_score_is_botorchs_noisy_improvement_within_its_monte_carlo_error(posterior):
    score = LogEHVI().score(posterior, DATA, NONE, 1, None)
    beliefs = posterior.objective
    model = ModelListGP(*(part.model for part in beliefs.parts))
    where = to_unit(BEHIND)
    ours = score.value(BEHIND, 0, NONE).exp()
    theirs = []
    for seed in range(6):
        sampler = SobolQMCNormalSampler(torch.Size([32]), seed=seed)
        theirs.append(estimate(model, -score.reference, sampler, where))
    estimates = torch.stack(theirs)
    error = estimates.std(dim=0) / math.sqrt(len(theirs))
    likely = ours > 1e-3 * ours.max()
    assert likely.sum() >= 3
    assert ((ours - estimates.mean(dim=0)).abs() < 4 * error + 0.02 * ours)[likely].all()


def estimate(model, reference, sampler, where):
    acquisition = qNoisyExpectedHypervolumeImprovement(
        model,
        reference,
        to_unit(torch.tensor(X)),
        sampler=sampler,
        objective=GenericMCMultiOutputObjective(lambda Y, X=None: -Y),
    )
    with torch.no_grad():
        return acquisition(where.unsqueeze(-2))


def test_the_front_is_of_means_in_each_sense_and_believed_points_join_it(posterior):
    front = believed_front(through_results(posterior, DATA), DATA, NONE)
    kept = non_dominated([tuple(row) for row in VALUES])
    read = torch.tensor(np.stack([DATA.objective_of(k).targets for k in range(2)], axis=1))
    assert sorted(front[:, 0].tolist()) == pytest.approx(sorted(read[kept, 0].tolist()), abs=1e-6)
    believed = posterior.objective.means(BEHIND)
    joined = believed_front(posterior, DATA, BEHIND)
    assert all((joined <= row + 1e-9).all(dim=1).any() for row in believed)


def test_the_search_begins_near_the_designs_of_the_front(posterior):
    beliefs, pending = posterior.objective, BEHIND[:2]
    score = LogEHVI().score(posterior, DATA, pending, 1, None)
    front = believed_front(posterior, DATA, pending)
    torch.testing.assert_close(beliefs.means(anchors_of(score)), front)
    rows = {tuple(row) for row in torch.cat([torch.tensor(X), pending]).tolist()}
    assert {tuple(row) for row in anchors_of(score).tolist()} <= rows
    # The rule for constraints tells of them, too, and the map to encoded points.
    limited = replace(DATA, constraints=X.sum(axis=1, keepdims=True) - 0.5)
    believing = algorithm(LogEHVI()).fit(limited, np.random.default_rng(0))
    weighted = Probing().constrained(
        LogEHVI().score(believing, limited, NONE, 1, None), "log", believing, limited, NONE, 0
    )
    assert (anchors_of(weighted).sum(dim=1) <= 0.5).all() and len(anchors_of(weighted)) > 0
    turned = ScoreOfDesigns(score, Turned())
    assert torch.equal(anchors_of(turned), -anchors_of(score))


class Turned:
    """Coordinates that are those of the points with the other sign."""

    def __call__(self, points):
        return -points

    def back(self, seen):
        return -seen


def test_a_long_front_gives_64_anchors(posterior):
    ramp = torch.linspace(-1, 1, 100, dtype=torch.float64)
    points = torch.stack([ramp, -ramp], dim=1)
    data = Observations(
        points.numpy(),
        points[:, 0].numpy(),
        maximize=False,
        aims=(Aim(False), Aim(False)),
        further=points[:, 1:].numpy(),
    )
    beliefs = algorithm(LogEHVI()).fit(data, np.random.default_rng(0))
    found = anchors_of(LogEHVI().score(beliefs, data, NONE, 1, None))
    assert found.shape == (64, 2) and float(found[0, 0]) == -1.0 and float(found[-1, 0]) == 1.0


def test_nothing_is_to_be_gained_where_a_trial_is_pending_or_a_place_was_chosen(posterior):
    before = LogEHVI().score(posterior, DATA, NONE, 2, None).value(BEHIND[:2], 0, NONE)
    after = LogEHVI().score(posterior, DATA, BEHIND[:1], 2, None).value(BEHIND[:2], 1, BEHIND[1:2])
    assert (after < before - 10).all()


def test_a_stated_reference_is_kept_and_another_one_inferred_by_botorchs_rule(posterior):
    beliefs, front = posterior.objective, believed_front(posterior, DATA, NONE)
    first, second = (part.scaling for part in beliefs.parts)
    stated = reference_point(beliefs, front)
    assert stated.tolist() == pytest.approx([float(first.to_target(60.0)), float(second.to_target(-8.0))])
    found = reference_point(replace(beliefs, aims=(AIMS[0], Aim(True))), front)
    physical = np.stack([-first.to_physical(front[:, 0]), second.to_physical(front[:, 1])], axis=1)
    inferred = infer_reference_point(torch.tensor(physical))
    assert found.tolist() == pytest.approx([stated[0].item(), float(second.to_target(float(inferred[1])))])


def test_scalarisations_average_to_the_hypervolume():
    torch.manual_seed(3)
    points, reference = torch.rand(5, 2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    score = HypervolumeThompson().score(
        algorithm(LogEHVI()).fit(DATA, np.random.default_rng(0)), DATA, NONE, 500, np.random.default_rng(1)
    )
    torch.testing.assert_close(score.weights.norm(dim=1), torch.ones(500, dtype=torch.float64))
    best = ((reference - points)[None] / score.weights[:, None]).amin(dim=2).clamp_min(0).amax(dim=1)
    sampled = math.pi / 4 * best**2  # of two objectives; the constant is pi^(m/2) / (2^m Gamma(m/2 + 1))
    volume = Hypervolume(-reference).compute(-points)
    assert abs(float(sampled.mean()) - volume) < 4 * float(sampled.std()) / math.sqrt(500)


@pytest.mark.parametrize(
    ("acquisition", "surrogate"), [(LogEHVI(), ExactGP()), (HypervolumeThompson(), RandomForest())], ids=["ehvi", "ts"]
)
def test_a_batch_with_pending_trials_and_constraints_can_be_repeated_after_its_model_was_stored(acquisition, surrogate):
    data = replace(DATA, constraints=(X.sum(axis=1, keepdims=True) - 0.5), failed=X[:1] + 0.01)
    made = algorithm(acquisition, surrogate)
    posterior = made.fit(data, np.random.default_rng(0))
    again = made.restore(data, posterior.state())
    first, second = (
        made.propose(each, data, BEHIND[:2].numpy(), SPACE, 2, np.random.default_rng(2)).X
        for each in (posterior, again)
    )
    assert np.array_equal(first, second)
    assert first.shape == (2, 2) and np.abs(first[0] - first[1]).max() > 1e-6
    assert len(posterior.objective.parts) == 2 and len(posterior.constraints) == 1
    assert {name.split(".")[0] for name in posterior.state()} >= {"objective", "objective2", "constraint1", "hidden"}


def test_observations_of_several_objectives_must_fit_and_have_a_digest_of_their_own():
    assert DATA.objective_of(1).maximize and DATA.objective_of(1).y.tolist() == (-VALUES[:, 1]).tolist()
    assert not DATA.objective.aims and DATA.objective.digest != DATA.digest
    with pytest.raises(ValueError, match=r"further \(12, 0\) and 2 aims do not fit 12 trials"):
        Observations(X, VALUES[:, 0], maximize=False, aims=AIMS)
    with pytest.raises(ValueError, match="maximize is not the sense of the first"):
        Observations(X, VALUES[:, 0], maximize=True, aims=AIMS, further=VALUES[:, 1:])


def test_beliefs_about_one_objective_are_refused():
    one = ExactGP().fit(DATA.objective, np.random.default_rng(0), None, lambda *_: None)
    for acquisition in (LogEHVI(), HypervolumeThompson()):
        with pytest.raises(ValueError, match="weighs several objectives, and the problem has one"):
            acquisition.score(one, DATA.objective, NONE, 1, np.random.default_rng(0))
