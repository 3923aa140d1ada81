"""Another result of a tried design, or one of a new design: the expected gain of each, against Monte Carlo."""

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.scoring.repeats import expected_gains, expected_least, repeat
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.random_forest import RandomForest
from fieldcraft.physics.space import Continuous, SearchSpace

X = np.linspace(-0.9, 0.9, 9)[:, None]
NEW = torch.tensor([[0.37]], dtype=torch.float64)


def process(sds, y=None, **given):
    y = X[:, 0] ** 2 if y is None else y
    data = Observations(X, y, maximize=False, sds=np.broadcast_to(np.reshape(sds, (-1, 1)), (9, 1)), **given)
    return ExactGP(noise="known").fit(data, np.random.default_rng(0), None, no_report)


@pytest.mark.parametrize("seed", range(6))
def test_the_expected_least_of_lines_is_that_of_quadrature(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=7), rng.normal(size=7)
    b[3] = b[2]
    b[5:] = 0.0
    z = np.linspace(-9, 9, 200_001)
    weights = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    with np.errstate(all="raise"):
        found = expected_least(a, b)
    assert found == pytest.approx(np.trapezoid((a[:, None] + b[:, None] * z).min(0) * weights, z), abs=1e-8)


def test_the_gain_of_a_result_is_that_of_conditioning_on_drawn_results():
    found, rng = process(0.2), np.random.default_rng(3)
    points = torch.cat([torch.tensor(X), NEW])
    gains, mean = expected_gains(found, points), found.mean(points)
    for i in (3, 4, 9):
        own = points[i : i + 1]
        spread = float((found.mean_var(own)[1] + found.noise_variance).sqrt())
        believed = found.fantasize(own)  # its weights are linear in the result: two of them tell all
        rises = believed.kernel(points, believed.fit.X) @ believed.factor.solve(torch.eye(10, dtype=torch.float64)[9])
        drawn = (mean + spread * torch.from_numpy(rng.standard_normal((100_000, 1))) * rises).amin(1)
        error = float(drawn.std()) / np.sqrt(100_000)
        assert abs(float(mean.min() - drawn.mean()) - gains[i]) < 4.5 * error + 1e-12
    assert (gains >= 0).all()


def test_a_rough_best_result_is_repeated_and_a_precise_one_is_not():
    y = np.r_[X[:4, 0] ** 2, -0.15, X[5:, 0] ** 2]
    far = torch.tensor([[-0.66]], dtype=torch.float64)
    assert repeat(process(0.15, y), torch.tensor(X), far) in (3, 4, 5)
    assert repeat(process(1e-4, y), torch.tensor(X), far) is None


def test_only_designs_that_are_believed_feasible_are_repeated_or_preferred():
    y, sds = np.r_[X[:4, 0] ** 2, -0.15, X[5:, 0] ** 2], np.full((9, 2), 0.15)
    data = Observations(X, y, maximize=False, constraints=-1 - X, sds=sds)
    far = torch.tensor([[-0.66]], dtype=torch.float64)

    def under(constraint):
        given = Observations(X, y, maximize=False, constraints=constraint, sds=sds)
        return Constraints().fit(ExactGP(noise="known"), given, np.random.default_rng(0), None, no_report)

    found = repeat(under(data.constraints), torch.tensor(X), far)
    assert found in (3, 4, 5)
    assert repeat(under(2.5 * np.tanh(4 * (X + 0.3))), torch.tensor(X), far) in (0, 1, 2, None)
    assert repeat(under(-2.5 * np.tanh(4 * (X + 0.3))), torch.tensor(X), far) is None


def test_other_posteriors_repeat_nothing():
    data = Observations(X, X[:, 0] ** 2, maximize=False)
    forest = RandomForest().fit(data, np.random.default_rng(0), None, no_report)
    assert repeat(forest, torch.tensor(X), NEW) is None


@pytest.mark.parametrize(("repeats", "exact"), [(True, False), (False, False), (True, True)])
def test_an_algorithm_repeats_a_design_only_if_it_may_and_results_are_not_exact(repeats, exact):
    y, sds = np.r_[X[:4, 0] ** 2, -0.15, X[5:, 0] ** 2] + 0.1 * X[:, 0], np.full((9, 1), 0.15)
    data = Observations(X, y, maximize=False, sds=sds, exact=exact)
    words = ExactGP(noise="known"), LogEI(), Multistart()
    algorithm, space = Algorithm(Sobol(), 2, *words, repeats=repeats), SearchSpace((Continuous("x", -1, 1),))
    posterior = algorithm.fit(data, np.random.default_rng(0))
    found = algorithm.propose(posterior, data, np.empty((0, 1)), space, 1, np.random.default_rng(1))
    assert bool(np.abs(X - found.X).min() < 1e-9) == (repeats and not exact)
    assert np.isfinite(found.value).all()
