"""Hyper-parameters of an exact Gaussian process: the log posterior, its analytic gradient, and its maximisation.

With the targets t ~ N(c 1, S), S = K + v I + diag(w), K of unit variance with one length scale l_m for each coordinate
and w the known variances of single results (zero where none is stated),

    log p(t | l, v) = -1/2 (t - c 1)^T a - 1/2 log det S - n/2 log 2 pi,   a = S^-1 (t - c 1),

whose derivative by any parameter p of S is 1/2 tr((a a^T - S^-1) dS/dp) (Rasmussen and Williams, 2006, eq. 5.9). The
constant has no prior, so that c is always the best one, 1^T S^-1 t / 1^T S^-1 1, where the derivative by it is zero.
Each parameter moves in its logarithm; its prior remains a density of the parameter itself, as in BoTorch.

A campaign fits them again at every trial. Up to 50 trials and at each growth by a tenth (``milestone``) the ascent
begins at the priors, between those at the fit to the trials up to the last milestone. They are a function of the trials
alone, so a campaign that was killed computes the same ones again, bit for bit.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.spatial.distance import pdist, squareform

from fieldcraft.models.gaussian.covariance import CORRELATIONS
from fieldcraft.models.gaussian.hyperparameters import around
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import LONGER, Either, LogNormal, ScalePrior, scale_prior
from fieldcraft.models.numerics.milestones import ByDigest, beginning
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array, Observations

# What L-BFGS-B is told where there is no finite density: it then shortens its step.
_REFUSED = 1e12
# An ascent ends when an iteration gains less, in nats a trial.
_ACCURACY = 1e-6
# Seeds of the draws from the priors and of the order in which trials are taken: a fit is a function of its data alone.
_DRAWS, _ORDER = 11, 12
# Trials up to which the ascents from all starts take all of them; of more the best start alone does.
_SMALL = 250
# Trials up to which all ascents make their steps together: of more, arithmetic takes the time, and not calls. It takes
# 0.8 of the time of one after the other at 100 trials, 1.1 at 130 (3 kernels, 2 and 10 variables, 5 data sets each).
_TOGETHER = 100


NOISE = LogNormal(location=-4.0, spread=1.0, least=1e-6)
"""BoTorch's prior of the noise variance of standardised targets, whose least value there is 1e-4: too much for optima
that lie on the edge of constraints, which are then believed known to a hundredth of their spread only."""


@dataclass(frozen=True, eq=False)
class LogPosterior:
    """Log posterior density of l and v, as a function of theta = (log l_1, ..., log l_d, and log v where unknown).

    Args:
        kernel: Kind of correlation.
        X: Points in the unit cube, shape (n, d).
        targets: Shape (n,).
        noise: v if it is known.
        readings: w, shape (n,); None where it is zero.
        prior: Function from d to the prior of the length scales.
    """

    kernel: Kernel
    X: Array
    targets: Array
    noise: float | None
    readings: Array | None = field(default=None, kw_only=True)
    prior: ScalePrior = field(default=scale_prior, kw_only=True)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The density at theta and its gradient; minus infinity and zeros where it is not finite.

        This includes a covariance without a Cholesky factor.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = self._likelihood(theta)
            for prior, part in self.priors(theta.size):
                density, slope = prior.log_density(theta[part])
                value += float(density)
                gradient[part] += slope
        if math.isfinite(value) and np.isfinite(gradient).all():
            return value, gradient
        return -math.inf, np.zeros_like(theta)

    def maximised(self, theta: Array) -> tuple[float, Array]:
        """Largest density that L-BFGS-B reaches from theta, and its theta; minus infinity if there is none."""
        n = len(self.targets)

        def mean_loss(at: Array) -> tuple[float, Array]:
            value, gradient = self(at)
            return (-value / n, -gradient / n) if math.isfinite(value) else (_REFUSED, gradient)

        bounds, options = self.bounds(theta.size), {"ftol": _ACCURACY}
        found = minimize(mean_loss, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return (-n * found.fun if found.fun < _REFUSED else -math.inf), np.asarray(found.x)

    def bounds(self, size: int) -> list[tuple[float, None]]:
        """Least value of each of so many parameters theta, and no largest."""
        least = np.empty(size)
        for prior, part in self.priors(size):
            least[part] = math.log(prior.least)
        return [(bound, None) for bound in least]

    def starts(self, n: int) -> list[Array]:
        """n thetas from which to ascend, the same every time.

        They are the priors' modes, the same with longer length scales, and draws from the priors.
        """
        d = self.X.shape[1]
        size = d + (self.noise is None)
        found = np.random.default_rng(_DRAWS).standard_normal((n, size))
        for prior, part in self.priors(size):
            found[:, part] = np.maximum(prior.location + prior.spread * found[:, part], math.log(prior.least))
            found[:2, part] = prior.mode
        found[1:2, :d] += LONGER
        return list(found)

    def likeliest(self, n: int) -> tuple[float, Array]:
        """Largest density over ascents from n starts, and its theta.

        Of many trials a part decides from which of their ends all of them ascend.

        Raises:
            ValueError: no start gives a finite density.
        """
        starts = self.starts(n)
        if n > 1 and len(self.X) > _SMALL:
            small = self.among(_spread(len(self.X), _SMALL))
            ends = [small.maximised(start)[1] for start in starts]
            starts = [max(ends, key=lambda theta: self(theta)[0])]
        if len(starts) > 1 and len(self.X) <= _TOGETHER:
            best = max(together(self, np.stack(starts)), key=lambda end: end[0])
        else:
            best = max((self.maximised(start) for start in starts), key=lambda end: end[0])
        if not math.isfinite(best[0]):
            raise ValueError(
                f"No hyper-parameters of the Gaussian process give a finite likelihood ({n} starts, {len(self.X)} "
                "trials): look for extreme results, or raise restarts."
            )
        return best

    def among(self, rows: NDArray[np.intp]) -> "LogPosterior":
        """The density given these trials alone."""
        readings = None if self.readings is None else self.readings[rows]
        return replace(self, X=self.X[rows], targets=self.targets[rows], readings=readings)

    def priors(self, size: int) -> list[tuple[LogNormal | Either, slice]]:
        """Priors of so many parameters theta, each with its place among them."""
        d = self.X.shape[1]
        return [(self.prior(d), slice(0, d)), (NOISE, slice(d, size))]

    def _covariance(self, correlations: Array, theta: Array) -> Array:
        """S, shape (n, n), of the correlations of the pairs, shape (n (n - 1) / 2,)."""
        noise = np.exp(theta[-1]) if self.noise is None else self.noise
        S: Array = squareform(correlations, checks=False)
        np.fill_diagonal(S, 1 + noise if self.readings is None else 1 + noise + self.readings)
        return S

    def _residual(self, factor: Array) -> tuple[float, Array, Array]:
        """The best constant c, t - c 1, and S^-1 (t - c 1), of the lower Cholesky factor of S."""
        sides = np.stack([self.targets, np.ones_like(self.targets)], axis=1)
        solved, _ = dpotrs(factor, sides, lower=1)
        c = solved[:, 0].sum() / solved[:, 1].sum()
        return c, self.targets - c, solved[:, 0] - c * solved[:, 1]

    def _likelihood(self, theta: Array) -> tuple[float, Array]:
        """log p(t | l, v) at the best constant, and its gradient by theta."""
        d = self.X.shape[1]
        Z = self.X / np.exp(theta[:d])
        correlations, slopes = CORRELATIONS[self.kernel](pdist(Z, "sqeuclidean"))
        explained = self.explained(self._covariance(correlations, theta))
        if explained is None:
            return -math.inf, np.zeros_like(theta)
        value, outer = explained
        # S moves with log l_m by -2 slope (z_im - z_jm)^2; the sum over pairs needs no (d, n, n) array.
        pairs = squareform(squareform(outer, checks=False) * slopes, checks=False)
        gradient = np.empty_like(theta)
        gradient[:d] = -2 * (pairs.sum(axis=0) @ Z**2 - (Z * (pairs @ Z)).sum(axis=0))
        gradient[d:] = 0.5 * np.exp(theta[d:]) * np.trace(outer)
        return value, gradient

    def explained(self, S: Array) -> tuple[float, Array] | None:
        """log p(t | S) at the best constant, and a a^T - S^-1 above the diagonal and on it; None without a factor.

        S (n, n) may be overwritten.
        """
        # The transpose of a symmetric matrix is in LAPACK's order of memory: nothing is copied.
        factor, failed = dpotrf(S.T, lower=1, overwrite_a=1)
        if failed:
            return None
        _, residual, weights = self._residual(factor)
        value = -0.5 * residual @ weights - np.log(factor.diagonal()).sum() - 0.5 * len(S) * math.log(2 * math.pi)
        outer = np.outer(weights, weights)
        outer -= dpotri(factor, lower=1, overwrite_c=1)[0].T
        return float(value), outer


def together(density: LogPosterior, starts: Array) -> list[tuple[float, Array]]:
    """``LogPosterior.maximised`` from each of the starts (s, p), to rounding, with one pass for a step of all."""
    from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched

    n, stacked = len(density.targets), Stacked.of(density)

    def mean_losses(thetas: Array) -> tuple[Array, Array]:
        values, gradients = stacked(thetas)
        known = np.isfinite(values)
        return np.where(known, -values / n, _REFUSED), np.where(known[:, None], -gradients / n, 0.0)

    bounds = density.bounds(starts.shape[1])
    thetas, losses, _ = fmin_l_bfgs_b_batched(  # type: ignore[no-untyped-call]
        mean_losses, starts, bounds=bounds, factr=None, ftol=_ACCURACY
    )
    reached = np.where(losses < _REFUSED, -n * losses, -math.inf)
    return list(zip(reached.tolist(), thetas, strict=True))


@dataclass(frozen=True, eq=False)
class Stacked:
    """A density at several thetas.

    Args:
        density: Of one theta.
        squares: Squared differences of the points by coordinate, shape (d, n (n - 1) / 2).
        pairs: Place of each pair in a flattened (n, n) matrix, above the diagonal.
    """

    density: LogPosterior
    squares: Array
    pairs: NDArray[np.intp]

    @classmethod
    def of(cls, density: LogPosterior) -> "Stacked":
        """The density, at several thetas."""
        X = density.X
        first, second = np.triu_indices(len(X), 1)
        return cls(density, np.ascontiguousarray((X[first] - X[second]).T ** 2), first * len(X) + second)

    def __call__(self, thetas: Array) -> tuple[Array, Array]:
        """The density at thetas (s, p), shape (s,), and its gradients (s, p); minus infinity where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):
            values, gradients = self._likelihoods(thetas)
            for prior, part in self.density.priors(thetas.shape[1]):
                densities, slopes = prior.log_density(thetas[:, part])
                values += densities
                gradients[:, part] += slopes
        known = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        return np.where(known, values, -math.inf), gradients

    def _likelihoods(self, thetas: Array) -> tuple[Array, Array]:
        (n, d), count = self.density.X.shape, len(thetas)
        inverse = np.exp(-2 * thetas[:, :d])
        correlations, slopes = CORRELATIONS[self.density.kernel](inverse @ self.squares)
        S, outer = np.zeros((count, n * n)), np.zeros((count, n * n))
        S[:, self.pairs] = correlations
        noise = np.exp(thetas[:, d:]) if self.density.noise is None else np.full((count, 1), self.density.noise)
        S[:, :: n + 1] = 1 + noise if self.density.readings is None else 1 + noise + self.density.readings
        values = np.full(count, -math.inf)
        for i, matrix in enumerate(S.reshape(count, n, n)):
            explained = self.density.explained(matrix)
            if explained is not None:
                values[i], outer[i] = explained[0], explained[1].ravel()
        gradients = np.empty_like(thetas)
        gradients[:, :d] = -2 * inverse * ((outer[:, self.pairs] * slopes) @ self.squares.T)
        gradients[:, d:] = (0.5 * noise * outer[:, :: n + 1].sum(axis=1, keepdims=True))[:, : thetas.shape[1] - d]
        return values, gradients


@dataclass(frozen=True)
class Found:
    """Hyper-parameters that were found.

    Args:
        theta: See ``LogPosterior``.
        log_posterior: Its log posterior density.
        rows: Numbers of the trials that they were fitted to, in order.
    """

    theta: Array
    log_posterior: float
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class Question:
    """Arguments that determine the hyper-parameters.

    Args:
        kernel: Kind of correlation.
        known: True if the noise is that of the data.
        starts: Ascents at a milestone, from the priors' modes, from longer length scales and from draws.
        most: Trials that they are fitted to at most.
        trials: The trials.
        prior: See ``LogPosterior``.
    """

    kernel: Kernel
    known: bool
    starts: int
    most: int
    trials: ByDigest
    prior: ScalePrior = scale_prior

    def answer(self) -> Found:
        """The hyper-parameters; a process keeps those at milestones.

        Raises:
            ValueError: none give a finite density.
        """
        data = self.trials.data
        first = beginning(data)
        cold = from_priors(replace(self, trials=ByDigest.of(first)))
        if len(first) == len(data):
            return cold
        theta = cold.theta.copy()
        if not self.known:
            theta[-1] += 2 * math.log(first.scaling.sd / data.scaling.sd)
        density, rows = self.density()
        reached, theta = density.maximised(theta)
        return Found(theta, reached, rows) if math.isfinite(reached) else from_priors(self)

    def several(self, count: int) -> tuple[Array, Array]:
        """So many draws of theta from its posterior, shape (count, p), and their shares of the belief, shape (count,).

        The density is that which ``answer`` maximises: of the parameters themselves, and not of their logarithms, in
        which draws are made. Small ones so count more than under the priors as they are stated.

        Raises:
            ValueError: as for ``answer``.
        """
        theta, (density, _) = self.answer().theta, self.density()
        spread, least = np.empty_like(theta), np.array([low for low, _ in density.bounds(theta.size)])
        for prior, part in density.priors(theta.size):
            spread[part] = prior.spread
        return around(density, theta, spread, least, count)

    def density(self) -> tuple[LogPosterior, NDArray[np.intp]]:
        """The density to maximise, and the numbers of the trials that it is of."""
        data = self.trials.data
        rows = _spread(len(data), self.most)
        noise, w = stated_noise(data, known=self.known)
        readings = None if w is None else w[rows]
        X, targets = (data.X[rows] + 1) / 2, data.targets[rows]
        return LogPosterior(self.kernel, X, targets, noise, readings=readings, prior=self.prior), rows


@lru_cache(maxsize=64)
def from_priors(question: Question) -> Found:
    """The best of the ascents from the priors to all trials of a question.

    Raises:
        ValueError: none give a finite density.
    """
    density, rows = question.density()
    reached, theta = density.likeliest(question.starts)
    return Found(theta, reached, rows)


def stated_noise(data: Observations, *, known: bool) -> tuple[float | None, Array | None]:
    """v where it is ``known``, else None, and w, shape (n,), or None where no result states its own.

    Where v is fitted, w is 0 for a result that states none. Where the noise is known, w is all of it: the statement of
    a result, else what is known of all.
    """
    own = data.own_variances
    if own is None:
        return (known_noise(data) if known else None), None
    if not known:
        return None, np.nan_to_num(own, nan=0.0)
    return NOISE.least, np.where(np.isnan(own), np.nan if data.noise_variance is None else data.noise_variance, own)


def known_noise(data: Observations) -> float:
    """Variance of a target whose noise the data state, at least that of a covariance with a Cholesky factor."""
    assert data.noise_variance is not None
    return max(data.noise_variance, NOISE.least)


def _spread(n: int, most: int) -> NDArray[np.intp]:
    """Numbers of at most so many of n trials, in order; with one more trial at most one of them is replaced."""
    order = np.argsort(np.random.default_rng(_ORDER).random(n), kind="stable")
    return np.asarray(np.sort(order[:most]))
