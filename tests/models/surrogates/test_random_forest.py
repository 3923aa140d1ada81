"""The random forest against scikit-learn's own trees."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.random_forest import RandomForest

RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (60, 3))
DATA = Observations(X=X, y=np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + RNG.normal(0, 0.1, 60), maximize=False)
# Points on and beside the values at which trees split.
POINTS = np.vstack([RNG.uniform(-1.2, 1.2, (200, 3)), X, (X[:-1] + X[1:]) / 2])


@pytest.fixture(scope="module", params=[1, 3])
def both(request):
    """Our posterior and scikit-learn's forest, grown alike."""
    ours = RandomForest(trees=20, leaf=request.param).fit(DATA, np.random.default_rng(1), None, no_report)
    seed = int(np.random.default_rng(1).integers(2**31 - 1))
    theirs = RandomForestRegressor(20, min_samples_leaf=request.param, max_features=5 / 6, random_state=seed)
    return ours, theirs.fit(X, DATA.targets)


def test_mean_and_variance_follow_from_the_predictions_of_scikit_learns_trees(both):
    ours, forest = both
    means = np.stack([tree.predict(POINTS) for tree in forest.estimators_])
    within = np.stack([tree.tree_.impurity[tree.apply(POINTS)] for tree in forest.estimators_])
    mean, variance = ours.mean_var(torch.tensor(POINTS))
    np.testing.assert_allclose(mean, forest.predict(POINTS), rtol=0, atol=1e-12)
    np.testing.assert_allclose(variance, means.var(axis=0) + within.mean(axis=0), rtol=0, atol=1e-12)


def test_a_draw_is_one_of_the_trees(both):
    ours, forest = both
    means = np.stack([tree.predict(POINTS) for tree in forest.estimators_])
    for draw in ours.draw(3, np.random.default_rng(0)):
        assert np.isclose(draw(torch.tensor(POINTS)), means, rtol=0, atol=1e-12).all(axis=1).sum() == 1


def test_gradients_are_zero_and_there(both):
    points = torch.tensor(POINTS[:5], requires_grad=True)
    mean, variance = both[0].mean_var(points)
    (gradient,) = torch.autograd.grad(mean.sum() + variance.sum(), points)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"trees": 1}, "trees is 1 and leaf is 3: give at least 2 trees"),
        ({"leaf": 0}, "trees is 64 and leaf is 0: give at least 2 trees"),
        ({"share": 0.0}, "share is 0.0: give a share of the coordinates above 0"),
    ],
)
def test_an_option_out_of_range_is_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        RandomForest(**options)
