"""Images are served by the convolutional tangent surrogate: it draws a digit far better than random picks do."""

import re
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithms.sto_bnts import STOBNTS
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.observations import ImageColumns, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent.convolution import Convolution
from fieldcraft.models.tangent.features import Perceptron
from fieldcraft.physics.problems.digits import Digits

N_START, N_TRIALS = 10, 25


def likeness(problem, X):
    (image,) = problem.space.variables
    return problem.likeness(np.array([image.pixels(design["image"]) for design in problem.space.decode(X)]))


def observed(problem, X):
    return Observations(X=X, y=likeness(problem, X), maximize=True, noise_sd=1e-3, images=problem.space.images)


def best_drawn(problem, seed):
    """The best likeness after each trial of a campaign without stores: a Sobol start, then proposals."""
    surrogate = SampledLinear(width=32, channels=8, hyperparameters="fixed")
    maximizer = Multistart(n_samples=64, n_starts=2, max_iterations=20)
    rng = np.random.default_rng(seed)
    X = take(sobol_points(problem.space, rng), N_START)
    while True:
        yield likeness(problem, X).max()
        data = observed(problem, X)
        posterior = surrogate.fit(data, rng, None, lambda *_: None)
        score = LogEI().score(posterior, data, torch.empty((0, X.shape[1]), dtype=torch.float64), 1, rng)
        X = np.vstack([X, maximizer.maximize(score, problem.space, 1, rng).X])


@pytest.mark.parametrize(("digit", "seed"), [(3, 0), (7, 1)])
def test_proposed_images_beat_fifty_times_as_many_random_ones(digit, seed):
    problem = Digits(digit)
    fifty_budgets = likeness(problem, problem.space.sample(50 * N_TRIALS, np.random.default_rng(seed)))
    within_budget = islice(best_drawn(problem, seed), N_TRIALS - N_START + 1)
    assert any(best > fifty_budgets.max() for best in within_budget)


def images_of(n, side):
    pixels = np.zeros((n, side * side))
    return Observations(pixels, np.arange(float(n)), maximize=False, images=(ImageColumns(0, (side, side)),))


def test_a_convolution_is_small_unless_told_otherwise():
    shape = SampledLinear().shape(images_of(2, 5))
    assert (shape.channels, shape.width) == (16, 64)
    assert SampledLinear().shape(Observations(np.zeros((2, 3)), np.arange(2.0), maximize=False)).width == 500


@pytest.mark.parametrize("options", [{"depth": 2}, {"b_std": 0.1}])
def test_what_a_convolution_does_not_have_is_refused(options):
    with pytest.raises(ValueError, match="and a convolution has one dense layer without bias: set depth to 1"):
        SampledLinear(network="convolution", **options).shape(images_of(2, 3))
    assert isinstance(SampledLinear(**options).shape(images_of(2, 3)), Perceptron)


def test_a_trained_tangent_network_reads_the_pixels_by_dense_layers_unless_told_otherwise():
    assert isinstance(TangentNetwork().shape(images_of(2, 3)), Perceptron)
    assert isinstance(TangentNetwork(network="convolution").shape(images_of(2, 3)), Convolution)


def test_the_papers_networks_of_two_layers_take_images():
    named = STOBNTS(preset="paper").words(9, 1)["surrogate"]
    surrogate = SampledNetwork(**{name: value for name, value in named.items() if name != "kind"})
    shape = surrogate.shape(images_of(2, 3))
    assert isinstance(shape, Perceptron) and (shape.width, shape.depth) == (256, 2)


@pytest.mark.parametrize(
    ("surrogate", "least"),
    # 60 trials of 64 x 64 pixels in 64 channels: 66 million numbers in a pass, thrice that for the fit's gradient.
    [(SampledLinear(hyperparameters="fixed"), 0.5), (SampledLinear(), 1.9), (SampledNetwork(networks=5), 3.9)],
    ids=["fixed", "fitted", "trained"],
)
def test_a_convolution_that_would_not_fit_the_memory_is_refused(surrogate, least):
    given = replace(surrogate, channels=64, width=8, memory_gb=0.2)
    with pytest.raises(ValueError, match="60 trials needs about") as refused:
        given.fit(images_of(60, 64), np.random.default_rng(0), None, no_report)
    assert float(re.search("about ([0-9.]+) GB", str(refused.value))[1]) >= least
