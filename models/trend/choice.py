"""Choice of a polynomial under a process, by predictions of results that were not seen.

As in ``kernel_choice`` each fifth of the results is foretold by a fit to the others. A polynomial is taken where it
foretells them better than the better of the processes about a constant.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from fieldcraft.models.gaussian.fit import Question
from fieldcraft.models.numerics.milestones import ByDigest, asked, milestone, representative, thinned
from fieldcraft.models.numerics.scores import LEAST_SD
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.selection.contest import MARGIN
from fieldcraft.models.selection.kernel_choice import FOLDS, ORDER, PRIORS, score
from fieldcraft.models.trend.evidence import TrendedDensity
from fieldcraft.models.trend.monomials import Monomials
from fieldcraft.models.trend.process import Trended

DEGREES = (1, 2)
# Trials from which on there is a choice, trials that are asked at most, and terms of a polynomial at most.
_FEWEST, _MOST, _TERMS = 8, 128, 300
_STARTS = 2


def trended(data: Observations, known: bool) -> Trended | None:
    """Hyper-parameters with the polynomial that foretells best; None where a constant does as well, to ``MARGIN``.

    They are those of the results up to the last growth by a tenth, or of all where later ones dwarf these.

    Args:
        data: The trials.
        known: True if the noise is that of the data.
    """
    first = data.first(milestone(len(data), _FEWEST))
    if len(first) < _FEWEST or first.constant:
        return None
    degree = _degree(ByDigest.of(first.among(thinned(len(first), _MOST))), known)
    if degree == 0:
        return None
    last = representative(data)
    some = last.among(asked(last, _MOST))
    density, theta = _fitted(ByDigest.of(some), known, degree)
    return density.trended(theta).rescaled(some.scaling.sd / data.scaling.sd)


@lru_cache(maxsize=64)
def _degree(asked: ByDigest, known: bool) -> int:
    """Degree of the polynomial; 0 for none."""
    constant = max(score(Question(each, known, _STARTS, _MOST, asked, prior)) for each, prior in PRIORS.items())
    allowed = [degree for degree in DEGREES if len(Monomials(asked.data.X.shape[1], degree)) <= _TERMS]
    scores = {degree: _score(asked, known, degree) for degree in allowed}
    best = max(scores, key=lambda degree: scores[degree], default=0)
    return best if best and scores[best] > constant + MARGIN else 0


@lru_cache(maxsize=64)
def _fitted(asked: ByDigest, known: bool, degree: int) -> tuple[TrendedDensity, Array]:
    """Density of the hyper-parameters given all of these results, in their targets, and where it is largest."""
    density = TrendedDensity.of(asked.data, known, degree)
    return density, density.best()


def _score(asked: ByDigest, known: bool, degree: int) -> float:
    """Sum over the results of log p(t_i | the results of the other folds), in nats; minus infinity if a fit fails."""
    try:
        density, theta = _fitted(asked, known, degree)
        order = np.random.default_rng(ORDER).permutation(len(density.targets))
        return sum(_foretold(density, theta, fold) for fold in np.array_split(order, FOLDS))
    except ValueError:
        return -math.inf


def _foretold(density: TrendedDensity, theta: Array, fold: NDArray[np.intp]) -> float:
    """Sum of the log densities of the targets of a fold by the fit to the others."""
    others = density.among(np.setdiff1d(np.arange(len(density.targets)), fold))
    beliefs = others.kriging(others.ascended(theta))
    means, variance = beliefs.moments(torch.from_numpy(2 * density.X[fold] - 1))
    own = 0.0 if density.readings is None else density.readings[fold]
    total = variance.numpy() + beliefs.at.noise + own + LEAST_SD**2
    return float(norm.logpdf(density.targets[fold], means[:, 0].numpy(), np.sqrt(total)).sum())
