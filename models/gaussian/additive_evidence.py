"""Evidence of the hyper-parameters of a sum over coordinates, and its maximisation.

Each fit is determined by the first trials of a campaign alone: a milestone of them, thinned to ``FIT_ROWS``.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.spatial.distance import pdist, squareform

from fieldcraft.models.gaussian.additive_kernel import ROOT, AdditiveKernel
from fieldcraft.models.gaussian.hyperparameters import (
    NOISE_SD,
    SCALES,
    SIZES,
    Halving,
    likeliest,
    noise_prior,
)
from fieldcraft.models.numerics.length_scales import NARROW_SD, encoded_mode
from fieldcraft.models.numerics.milestones import ByDigest, asked, representative
from fieldcraft.models.observations import Array, Observations

FIT_ROWS = 256
"""Most trials that the hyper-parameters are fitted to, evenly thinned."""

# Standard deviation of the log of a part's prior variance: with 1.5, and length scales as free as BoTorch's, twenty
# trials in ten coordinates explained themselves by chance.
_SIZE_SD = 0.5
# Mean of log b^2: an interaction of a tenth of the whole.
_FULL_SIZE = math.log(0.1)
# The second start, in prior deviations: shorter scales of the single coordinates and less noise. Where the functions of
# one variable oscillate, the centre of the prior is in the basin of white noise.
_SHORT, _QUIET = -1.5, -2.0
# Iterations from each start, before the best goes on alone to this gain of a step, relative to the density.
_TRIED, _ACCURACY = 10, 1e-5
_SEED = 11


class AdditiveEvidence:
    """log p(y) plus the log prior density of the hyper-parameters, with its exact gradient.

    With P = (K + N)^-1, alpha = P y and W = alpha alpha^T - P, the derivative by a hyper-parameter is
    1/2 sum_ij W_ij dK_ij (Rasmussen and Williams, 2006, equation 5.9). Each pair of trials is computed once.
    """

    def __init__(self, X: Array, y: Array, noise_variance: float | None) -> None:
        """Take encoded points X (n, d) and targets y (n,), with known noise variance or None to fit it."""
        d = X.shape[1]
        self._distances = np.stack([*(pdist(X[:, [i]]) for i in range(d)), pdist(X)])
        self._parts, self._slopes = np.empty_like(self._distances), np.empty_like(self._distances)
        self._y = y
        noise, noises = noise_prior(noise_variance)
        sizes = [*[math.log(1 / d)] * d, _FULL_SIZE]
        scales = [*[encoded_mode(1)] * d, encoded_mode(d)]
        self.centre = np.array([*sizes, *scales, noise])
        self.spread = np.array([*[_SIZE_SD] * (d + 1), *[NARROW_SD] * (d + 1), NOISE_SD])
        self.bounds = [*[SIZES] * (d + 1), *[SCALES] * (d + 1), noises]

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Log posterior density at sizes, scales and log_noise (2 d + 3,), up to a constant, and its gradient."""
        split = (len(flat) - 1) // 2
        sizes, noise, n = np.exp(flat[:split]), math.exp(flat[-1]), len(self._y)
        for i, rate in enumerate(ROOT * np.exp(-flat[split : 2 * split])):
            _matern(rate, self._distances[i], self._parts[i], self._slopes[i])
        matrix: Array = squareform(1.0 + sizes @ self._parts, checks=False)
        np.fill_diagonal(matrix, 1.0 + sizes.sum() + noise)
        # The transpose of a symmetric matrix is in LAPACK's order of memory: nothing is copied.
        lower, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
        if failed:
            return -math.inf, np.zeros_like(flat)
        logdet = 2 * float(np.log(lower.diagonal()).sum())
        alpha, _ = dpotrs(lower, self._y, lower=1)
        outer = np.outer(alpha, alpha)
        outer -= dpotri(lower, lower=1, overwrite_c=1)[0].T
        trace, weights = float(outer.trace()), squareform(outer, checks=False)
        slope = np.empty_like(flat)
        slope[:split] = sizes * (self._parts @ weights + 0.5 * trace)
        slope[split : 2 * split] = sizes * (self._slopes @ weights)
        slope[-1] = 0.5 * noise * trace
        value = -0.5 * (float(self._y @ alpha) + logdet + n * math.log(2 * math.pi))
        pull = (flat - self.centre) / self.spread
        return value - 0.5 * float(pull @ pull), slope - pull / self.spread


def _matern(rate: float, distances: Array, part: Array, slope: Array) -> None:
    """Matern-5/2 of s = rate distances, (1 + s + s^2/3) e^-s, into ``part``, and s^2 (1 + s)/3 e^-s into ``slope``.

    The latter is the derivative by the logarithm of the length scale.
    """
    s = rate * distances
    decay = np.exp(-s)
    np.multiply(s, s, out=slope)
    slope *= 1 / 3
    s += 1
    np.add(s, slope, out=part)
    part *= decay
    slope *= s
    slope *= decay


def fit_kernel(data: Observations, known: bool, restarts: int) -> tuple[AdditiveKernel, float]:
    """Hyper-parameters for data, in its target units, and their log posterior for the trials they were fitted to.

    They depend on the first ``milestone(n)`` trials, or on all if the results of those are constant or dwarfed by later
    ones (``representative``). L-BFGS-B begins at the centre of the prior, at short scales with little noise, and at
    ``restarts`` draws from the prior; after a few iterations the best goes on.

    Args:
        data: Trials, and their noise if it is known.
        known: True to take the noise from data.
        restarts: Number of draws.

    Raises:
        ValueError: no start gave a finite density.
    """
    first = representative(data)
    flat, density = fitted(ByDigest.of(first), known, restarts)
    here, split = flat.copy(), (len(flat) - 1) // 2
    # The same physical sizes in the units of all trials.
    shift = 2 * math.log(first.scaling.sd / data.scaling.sd)
    here[:split] += shift
    here[-1] = noise_prior(data.noise_variance)[0] if known else here[-1] + shift
    return AdditiveKernel.of(here), density


@lru_cache(maxsize=64)
def fitted(trials: ByDigest, known: bool, restarts: int) -> tuple[Array, float]:
    """Sizes, scales and log_noise (2 d + 3,) of trials, by ``fit_kernel``'s search, and their log posterior."""
    data = trials.data
    rows = asked(data, FIT_ROWS)
    evidence = AdditiveEvidence(data.X[rows], data.targets[rows], data.noise_variance if known else None)
    size = len(evidence.centre)
    split = (size - 1) // 2
    short = np.zeros(size)
    short[split : 2 * split - 1], short[-1] = _SHORT, _QUIET
    drawn = 0.5 * np.random.default_rng(_SEED).standard_normal((restarts, size))
    return likeliest(evidence, np.vstack([np.zeros(size), short, drawn]), len(data), Halving(_TRIED, _ACCURACY))
