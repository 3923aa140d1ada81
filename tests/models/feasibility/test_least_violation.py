"""The least summed violation, at its kinks: minima of |x - y| + (x - 0.3)^2 + 0.1 that can be written down."""

import numpy as np
import pytest
import torch

from fieldcraft.models.feasibility.least_violation import least_violation
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.physics.space import Continuous, Integer, SearchSpace


def excesses(X):
    x, y = X[:, 0], X[:, 1]
    return torch.stack([x - y, y - x, (x - 0.3) ** 2 + 0.1], 1)


class Kinked:
    """Minus the violation, and 1 - x^2 - y^2 where there is none; counts how often it was asked for slopes."""

    def __init__(self, shift=0.0):
        self.shift, self.asked = shift, 0

    def violations(self, X, slot, chosen):
        self.asked += X.requires_grad
        return excesses(X) - self.shift

    def value(self, X, slot, chosen):
        violation = self.violations(X, slot, chosen).clamp_min(0).sum(1)
        return torch.where(violation > 0, -violation, (2 - X.square().sum(1)).exp())


def room(point):
    at = torch.tensor(point)
    slopes = torch.autograd.functional.jacobian(lambda x: -excesses(x[None])[0], at)
    return -excesses(at[None])[0].numpy(), slopes.numpy()


@pytest.mark.parametrize(("most", "x", "y"), [(1.0, 0.3, 0.3), (0.2, 0.2, 0.2), (-0.5, -0.2, -0.5)])
def test_the_least_violation_is_found_at_its_kink(most, x, y):
    bounds = np.array([[-1.0, 1.0], [-1.0, most]])
    found = least_violation(room, np.array([-0.9, -0.6]), bounds, 100)
    np.testing.assert_allclose(found, [x, y], atol=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_multistart_reaches_the_kink_by_few_slopes(whole):
    second = Integer("y", -5, 5) if whole else Continuous("y", -1.0, 1.0)
    score = Kinked()
    found = Multistart(n_samples=128, n_starts=4).maximize(
        score, SearchSpace((Continuous("x", -1.0, 1.0), second)), 1, np.random.default_rng(3)
    )
    least = 0.1 + 0.1**2 if whole else 0.1  # y is 0.2 or 0.4
    assert found.value[0] == pytest.approx(-least, abs=1e-8)
    assert score.asked < 150


def test_where_the_violation_can_be_zero_the_search_goes_on_within():
    found = Multistart(n_samples=16, n_starts=2).maximize(
        Kinked(0.2), SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0))), 1, np.random.default_rng(3)
    )
    # |x - y| <= 0.2 and (x - 0.3)^2 <= 0.1 hold at the origin, where the score is largest.
    np.testing.assert_allclose(found.X[0], [0.0, 0.0], atol=1e-4)
