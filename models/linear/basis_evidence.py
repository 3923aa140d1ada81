"""Bayesian linear regression on given functions, with the prior's scale and decay chosen by marginal likelihood.

``t = sum_k a_k psi_k + noise``, ``a_k ~ N(0, s^2 q^(2 degree_k))`` (MacKay, 1992, for the evidence). All computations
use singular values: with a very small noise the normal equations would lose half the digits.
"""

import itertools
import math
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.observations import Array

# Standardised targets: a noise below this share of their variance is rounding.
_LEAST_NOISE = 1e-8
_SCALES = (math.log(1e-3), math.log(1e4))
_DECAYS = (math.log(0.05), math.log(2.0))
_NOISES = (math.log(1e-6), 0.0)
# Half a dozen results can make the evidence choose a prior that leaves no freedom towards the boundary, after which
# the same point is proposed for ever; solutions that are regular just as far as the box reaches have q = 1.
DECAY_SD = 0.2
# Few or noisy results are often likeliest as noise alone, about functions of no size. Where the functions have less
# than this share of the results' squares, their size is believed to be near 1: log s ~ N(0, 2^2).
_LOST, _SCALE_SD = 1e-3, 2.0
_SCALE_STARTS = (0.0, 2.0)
DECAY_STARTS = (-1.0, -0.3, 0.1)
_NOISE_STARTS: tuple[float, ...] = (math.log(1e-4), math.log(1e-2))


@dataclass(frozen=True)
class Prior:
    """Hyper-parameters.

    Args:
        log_scale: log s; s is in target units.
        log_decay: log q; above 0 the high degrees are the large ones.
        log_noise: log of the noise variance, in squared target units.
    """

    log_scale: float
    log_decay: float
    log_noise: float

    @property
    def noise(self) -> float:
        """Noise variance, in squared target units."""
        return math.exp(self.log_noise)

    def sizes(self, degrees: Array) -> Array:
        """Prior standard deviation of each coefficient, shape (K,)."""
        return np.asarray(np.exp(self.log_scale + self.log_decay * degrees))


def log_evidence(features: Array, degrees: Array, y: Array, prior: Prior) -> tuple[float, Array]:
    """log p(y) and its gradient (3,) by (log_scale, log_decay, log_noise).

    Args:
        features: psi_k at the data, shape (n, K); either side may be the larger.
        degrees: Shape (K,).
        y: Targets less the particular solution, shape (n,).
        prior: Hyper-parameters at which to evaluate.
    """
    (value,), (slope,) = log_evidences(features, degrees, y, np.array([[*astuple(prior)]]))
    return float(value), slope


def log_evidences(features: Array, degrees: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """``log_evidence`` at several (log_scale, log_decay, log_noise), ``at`` (s, 3): shapes (s,) and (s, 3)."""
    n, (log_scale, log_decay, log_noise) = len(y), at.T[:, :, None]
    noise = np.exp(log_noise)
    sizes = np.exp(log_scale + log_decay * degrees)
    left, singular, right = np.linalg.svd(features * sizes[:, None], full_matrices=False)
    total, spare = singular**2 + noise, n - singular.shape[1]
    seen = y @ left
    unseen = np.maximum(y @ y - (seen**2).sum(1, keepdims=True), 0.0) if spare > 0 else np.zeros_like(noise)
    fit = (seen**2 / total).sum(1, keepdims=True) + unseen / noise
    logdet = np.log(total).sum(1, keepdims=True) + spare * log_noise
    # tr(K^-1 B D B^T) and (K^-1 y)^T B D B^T (K^-1 y) for a diagonal D, coefficient by coefficient.
    known = (right**2 * (singular**2 / total)[:, :, None]).sum(1)
    gained = ((singular / total * seen)[:, None] @ right)[:, 0] ** 2 - known
    by_noise = (seen**2 / total**2 - 1 / total).sum(1, keepdims=True) + unseen / noise**2 - spare / noise
    slopes = np.hstack([gained.sum(1, keepdims=True), gained @ degrees[:, None], 0.5 * noise * by_noise])
    return -0.5 * (fit + logdet + n * math.log(2 * math.pi))[:, 0], slopes


def choose_prior(
    features: Array,
    degrees: Array,
    y: Array,
    noise_variance: float | None,
    decays: tuple[float, ...] = DECAY_STARTS,
) -> tuple[Prior, float]:
    """The hyper-parameters of largest evidence under log q ~ N(0, DECAY_SD^2), and their log evidence.

    L-BFGS-B from a fixed grid of starts, a step of all of them at once. Where that leaves the functions no size, and
    the objective would be certain, log s ~ N(0, 2^2) is believed beside.

    Args:
        features: Shape (n, K).
        degrees: Shape (K,).
        y: Shape (n,).
        noise_variance: Noise in squared target units where it is known; None to fit it.
        decays: Starts of log q; one of them is enough where all degrees are 0 and q has no effect.
    """
    from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched

    noises, noise_bounds = _NOISE_STARTS, _NOISES
    if noise_variance is not None:
        known = math.log(max(noise_variance, _LEAST_NOISE))
        noises, noise_bounds = (known,), (known, known)
    starts = np.array(list(itertools.product(_SCALE_STARTS, decays, noises)))
    bounds = (_SCALES, _DECAYS, noise_bounds)

    def likeliest(pulls: Array) -> Prior:
        def negative(at: Array) -> tuple[Array, Array]:
            values, slopes = log_evidences(features, degrees, y, at)
            pull = at * pulls
            return 0.5 * (at * pull).sum(1) - values, pull - slopes

        ends, losses, _ = fmin_l_bfgs_b_batched(negative, starts, bounds=bounds)  # type: ignore[no-untyped-call]
        return Prior(*np.asarray(ends)[np.argmin(losses)].tolist())

    prior = likeliest(np.array([0.0, 1 / DECAY_SD**2, 0.0]))
    if ((features * prior.sizes(degrees)) ** 2).sum() < _LOST * (y @ y):
        prior = likeliest(np.array([1 / _SCALE_SD**2, 1 / DECAY_SD**2, 0.0]))
    return prior, log_evidence(features, degrees, y, prior)[0]


def log_prior(prior: Prior) -> float:
    """log density of the prior's log q, up to a constant."""
    return -0.5 * (prior.log_decay / DECAY_SD) ** 2


@dataclass(frozen=True)
class Weights:
    """Posterior of white weights w, a_k = size_k w_k, w ~ N(0, I) before any data.

    Args:
        mean: Shape (K,).
        spread: F with covariance F F^T, shape (K, K).
        rows: Scaled features of everything conditioned on, shape (n, K).
        y: Results there, shape (n,).
        noise: Noise variance of a row, positive.
    """

    mean: Tensor
    spread: Tensor
    rows: Tensor
    y: Tensor
    noise: float

    @classmethod
    def of(cls, rows: Tensor, y: Tensor, noise: float) -> "Weights":
        """Condition on y (n,) = rows (n, K) w + noise."""
        left, singular, right = torch.linalg.svd(rows, full_matrices=True)
        count = len(singular)
        mean = right[:count].mT @ (singular / (singular.square() + noise) * (left[:, :count].mT @ y))
        return cls(mean, _spread(singular, right, noise), rows, y, noise)

    def fantasize(self, rows: Tensor) -> "Weights":
        """Condition on further rows (k, K), read at the mean: the mean stays and the covariance shrinks."""
        together = torch.cat([self.rows, rows])
        _, singular, right = torch.linalg.svd(together, full_matrices=True)
        read = torch.cat([self.y, rows @ self.mean])
        return Weights(self.mean, _spread(singular, right, self.noise), together, read, self.noise)

    def log_predictive(self) -> Tensor:
        """log density of each y given the others, shape (n,) (Rasmussen and Williams, 2006, section 5.4.2)."""
        left, singular, _ = torch.linalg.svd(self.rows, full_matrices=True)
        total = torch.full((len(self.y),), self.noise, dtype=left.dtype)
        total[: len(singular)] += singular.square()
        precision = (left.square() / total).sum(1)
        missed = (left @ (left.mT @ self.y / total)) / precision
        found: Tensor = 0.5 * (precision.log() - missed.square() * precision - math.log(2 * math.pi))
        return found


def _spread(singular: Tensor, right: Tensor, noise: float) -> Tensor:
    """F (K, K) with F F^T = (I + rows^T rows / noise)^-1, from the singular values and right vectors of rows."""
    shrink = torch.ones(len(right), dtype=right.dtype)
    shrink[: len(singular)] = (noise / (singular.square() + noise)).sqrt()
    return right.mT * shrink
