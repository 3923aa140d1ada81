"""Images are served by the convolutional tangent surrogate: it draws a digit far better than random picks do."""

import numpy as np
import pytest
import torch

from models.acquisitions.log_ei import LogEI
from models.maximizers.multistart import Multistart
from models.observations import Observations
from models.sequences import sobol_points, take
from models.surrogates.sampled_linear import SampledLinear
from physics.problems.digits import Digits

N_START, N_TRIALS = 10, 25


def likeness(problem, X):
    (image,) = problem.space.variables
    return problem.likeness(np.array([image.pixels(design["image"]) for design in problem.space.decode(X)]))


def observed(problem, X):
    return Observations(X=X, y=likeness(problem, X), maximize=True, noise_sd=1e-3, images=problem.space.images)


def drawn(problem, seed):
    """The best likeness of a campaign without stores: a Sobol start, then the surrogate's proposals."""
    surrogate = SampledLinear(width=32, channels=8, hyperparameters="fixed")
    maximizer = Multistart(n_samples=64, n_starts=2, max_iterations=20)
    rng = np.random.default_rng(seed)
    X = take(sobol_points(problem.space, rng), N_START)
    while len(X) < N_TRIALS:
        data = observed(problem, X)
        posterior = surrogate.fit(data, rng, None, lambda *_: None)
        score = LogEI().score(posterior, data, torch.empty((0, X.shape[1]), dtype=torch.float64), 1, rng)
        X = np.vstack([X, maximizer.maximize(score, problem.space, 1, rng).X])
    return likeness(problem, X).max()


@pytest.mark.parametrize(("digit", "seed"), [(3, 0), (7, 1)])
def test_proposed_images_beat_fifty_times_as_many_random_ones(digit, seed):
    problem = Digits(digit)
    fifty_budgets = likeness(problem, problem.space.sample(50 * N_TRIALS, np.random.default_rng(seed)))
    assert drawn(problem, seed) > fifty_budgets.max()
