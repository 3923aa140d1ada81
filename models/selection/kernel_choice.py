"""Choice between two kinds of process by their predictions of results that they have not seen.

The leave-one-out density at the hyper-parameters of all results favours the process that can bend most, since those
results have bent it. Here each fifth of them is foretold by a fit to the others, which begins at the fit to all.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from fieldcraft.models.gaussian.draws import pathwise
from fieldcraft.models.gaussian.fit import Found, LogPosterior, Question
from fieldcraft.models.gaussian.process import Fit, posterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import ScalePrior, scale_prior, wide_prior
from fieldcraft.models.numerics.milestones import ByDigest, milestone, thinned
from fieldcraft.models.numerics.scores import LEAST_SD
from fieldcraft.models.observations import Array, Observations, Scaling
from fieldcraft.models.selection.contest import MARGIN

PRIORS: Mapping[Kernel, ScalePrior] = {"matern52": scale_prior, "rbf": wide_prior}
"""The two kinds, the usual one first, with the prior of the length scales of each; the second is BoTorch's process."""

FOLDS = 5
"""Parts of the results, each of which is foretold."""
ORDER = 14
"""Seed of the order in which results are left out: a choice is a function of the trials alone."""

# Trials from which on there is a choice, and trials that are asked at most.
_FEWEST, _MOST = 5, 128
# Ascents of a fit to all trials.
_STARTS = 2


def kind(data: Observations, known: bool) -> Kernel:
    """The smooth kind where it predicts better, by ``MARGIN``, the results up to the last growth by a tenth.

    Args:
        data: The trials.
        known: True if the noise is that of the data.
    """
    first = data.first(milestone(len(data), _FEWEST))
    if len(first) < _FEWEST or first.constant:
        return "matern52"
    return _kind(ByDigest.of(first.among(thinned(len(first), _MOST))), known)


@lru_cache(maxsize=64)
def _kind(asked: ByDigest, known: bool) -> Kernel:
    usual, smooth = (score(Question(each, known, _STARTS, _MOST, asked, prior)) for each, prior in PRIORS.items())
    return "rbf" if smooth > usual + MARGIN else "matern52"


def score(question: Question) -> float:
    """Sum over the results of log p(t_i | the results of the other folds), in nats; minus infinity if a fit fails."""
    (density, _), scaling = question.density(), question.trials.data.scaling
    try:
        theta = question.answer().theta
    except ValueError:
        return -math.inf
    order = np.random.default_rng(ORDER).permutation(len(density.targets))
    return sum(_foretold(density, theta, scaling, fold) for fold in np.array_split(order, FOLDS))


def _foretold(density: LogPosterior, theta: Array, scaling: Scaling, fold: NDArray[np.intp]) -> float:
    """Sum of the log densities of the targets of a fold by the fit to the others."""
    others = density.among(np.setdiff1d(np.arange(len(density.targets)), fold))
    reached, theta = others.maximised(theta)
    if not math.isfinite(reached):
        return -math.inf
    noise = None if others.noise is None else torch.tensor(others.noise, dtype=torch.float64)
    readings = None if others.readings is None else torch.from_numpy(others.readings)
    arrays = torch.from_numpy(2 * others.X - 1), torch.from_numpy(others.targets)
    found = Found(theta, reached, np.arange(len(others.targets)))
    fit, factor = Fit.at(others.kernel, *arrays, noise, found, readings)
    process = posterior(fit, scaling, pathwise, {}, factor)
    mean, variance = process.mean_var(torch.from_numpy(2 * density.X[fold] - 1))
    own = 0.0 if density.readings is None else density.readings[fold]
    total = variance.numpy() + float(process.base_variance) + own + LEAST_SD**2
    return float(norm.logpdf(density.targets[fold], mean.numpy(), np.sqrt(total)).sum())
