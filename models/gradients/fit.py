"""Hyper-parameters of a Gaussian process of values and gradients: the log posterior density and its gradient.

The rows y are the targets and, where they are known, their derivatives. With D = diag(1 or 1 / l_j) and the covariance
C of the rows D^-1 y (``models.gradients.covariance``), y ~ N(c h, D (C + N) D), with h one for a value and zero for a
derivative. The noise N of a value is v; that of a derivative by the share of its variable's interval is v times its
prior variance plus one. The first part grows where the kernel is too smooth for the function: a fixed noise of 1e-6
leaves such functions without hyper-parameters. The second keeps a derivative that is zero everywhere from making its
length scale infinite. A noise of derivatives that is fitted by itself was tried: on four functions of five it predicts
alike, and on the fifth, of inverse cubes, better, though worse than values alone. Where a mesh moves the derivatives of
the rows much more than their values (``blurred``), b joins the noise of each derivative by the share of an interval,
and is fitted with a wide prior.
Priors and search are those of ``models.gaussian.fit``.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.gaussian.fit import Found, LogPosterior, known_noise
from fieldcraft.models.gradients.covariance import PRIOR_SLOPES, joint
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import Either, LogNormal, wide_prior
from fieldcraft.models.numerics.milestones import ByDigest, beginning
from fieldcraft.models.observations import Array, Observations

MOST_ROWS = 1000
"""Values and derivatives that a process learns from at most."""

BLUR = LogNormal(location=5.0, spread=3.0, least=1e-8)
"""Prior of b, for standardised targets: log b is likeliest at -4."""


def rows_of(targets: Array, slopes: Array) -> tuple[Tensor, NDArray[np.intp]]:
    """Known values and derivatives, point after point, and their numbers among all n (1 + d).

    Args:
        targets: Shape (n,).
        slopes: Derivatives of the targets, shape (n, d); NaN where they are not known.
    """
    every = np.column_stack([targets, slopes]).ravel()
    known = np.flatnonzero(~np.isnan(every))
    return torch.from_numpy(every[known]), known


def told(data: Observations) -> Array:
    """Derivatives (n, d) of the targets by encoded coordinates that a process learns from; NaN for all others.

    Of very many, those of the best trials are taken, so that there are no more than ``MOST_ROWS`` rows.
    """
    assert data.gradients is not None  # else there is nothing to learn from
    slopes = data.scaling.sign / data.scaling.sd * data.gradients
    best = np.argsort(data.targets, kind="stable")
    counts = np.count_nonzero(~np.isnan(slopes[best]), axis=1)
    beyond = best[np.cumsum(counts) > max(0, MOST_ROWS - len(data))]
    slopes[beyond] = np.nan
    return np.asarray(slopes)


def noises(kernel: Kernel, known: NDArray[np.intp], widths: Tensor, noise: float, blur: float = 0.0) -> Tensor:
    """Noise variances of the rows D^-1 y with these numbers, shape (rows,), differentiable in the length scales.

    Args:
        kernel: Kind of correlation.
        known: Numbers of the rows among all n (1 + d).
        widths: Length scales as shares of the variables' intervals, shape (d,).
        noise: v.
        blur: b.
    """
    squares = widths.square()
    every = torch.cat([widths.new_tensor([noise]), noise * (PRIOR_SLOPES[kernel] + squares) + blur * squares])
    return every[known % len(every)]


def scaled(y: Tensor, known: NDArray[np.intp], scales: Tensor) -> Tensor:
    """D^-1 y, shape (rows,), for length scales (d,)."""
    found: Tensor = y * torch.cat([scales.new_ones(1), scales])[known % (1 + len(scales))]
    return found


@dataclass(frozen=True, eq=False)
class JointLogPosterior(LogPosterior):
    """Log posterior density of l, v and b, given values and derivatives; see ``LogPosterior``.

    Args:
        slopes: Derivatives of the targets by the coordinates of the unit cube, shape (n, d); NaN where not known.
        blurred: True if log b is the last of the parameters; else b is 0.
    """

    slopes: Array
    blurred: bool = False

    def starts(self, n: int) -> list[Array]:
        """n thetas from which to ascend, as ``LogPosterior`` has them; with all of the derivatives taken for noise.

        From a small b the ascent may end at length scales so short that they explain the noise.
        """
        most = math.log(max(float(np.nanmean(self.slopes**2)), BLUR.least))
        return [np.append(each, [most] * self.blurred) for each in super().starts(n)]

    def priors(self, size: int) -> list[tuple[LogNormal | Either, slice]]:
        """Priors of so many parameters theta, that of b last (see ``LogPosterior``)."""
        own = super().priors(size - self.blurred)
        return [*own, (BLUR, slice(size - 1, size))] if self.blurred and size > self._sizes else own

    @property
    def _sizes(self) -> int:
        return int(self.X.shape[1]) + (self.noise is None)

    def _likelihood(self, theta: Array) -> tuple[float, Array]:
        d = self.X.shape[1]
        y, known = rows_of(self.targets, self.slopes)
        logs = torch.tensor(theta[:d], requires_grad=True)
        noise = float(np.exp(theta[d])) if self.noise is None else self.noise
        blur = float(np.exp(theta[-1])) if self.blurred else 0.0
        scales = logs.exp()
        Z = torch.from_numpy(self.X) / scales
        C, r = joint(self.kernel, Z, Z)[known][:, known], scaled(y, known, scales)
        values = torch.from_numpy(known % (1 + d) == 0).to(C.dtype)
        blurs = noises(self.kernel, known, scales, 0.0, blur)
        N = noises(self.kernel, known, scales, noise) + blurs
        try:
            factor = Factor.of(C.detach(), N.detach())
        except ValueError:
            return -math.inf, np.zeros_like(theta)
        solved = factor.solve(torch.stack([r.detach(), values], dim=1))
        c = float((values @ solved[:, 0]) / (values @ solved[:, 1]))
        weights = solved[:, 0] - c * solved[:, 1]
        residual, by_row = r - c * values, -weights
        slope = 0.5 * (torch.outer(weights, weights) - torch.cholesky_inverse(factor.lower))
        counts = torch.from_numpy(np.bincount(known % (1 + d), minlength=1 + d)[1:].astype(np.float64))
        value = -0.5 * float(residual.detach() @ weights + factor.logdet() + len(y) * math.log(2 * math.pi))
        (by_logs,) = torch.autograd.grad((slope * C).sum() + slope.diagonal() @ N + by_row @ r + counts @ logs, logs)
        gradient = np.empty_like(theta)
        gradient[:d] = by_logs.numpy()
        by_blur = float(slope.diagonal() @ blurs.detach())
        gradient[d : self._sizes] = float(slope.diagonal() @ N.detach()) - by_blur
        gradient[self._sizes :] = by_blur
        return value + float(counts @ logs.detach()), gradient


@dataclass(frozen=True)
class JointQuestion:
    """Arguments that determine the hyper-parameters; see ``models.gaussian.fit.Question``.

    Args:
        kernel: Kind of correlation.
        known: True if the noise is that of the data.
        starts: Ascents at a milestone, from the priors' modes, from longer length scales and from draws.
        trials: The trials.
        blurred: True if b is fitted; else it is 0.
    """

    kernel: Kernel
    known: bool
    starts: int
    trials: ByDigest
    blurred: bool = False

    def answer(self) -> Found:
        """The hyper-parameters.

        Raises:
            ValueError: none give a finite density.
        """
        data = self.trials.data
        first = beginning(data)
        if len(first) == len(data) or first.gradients is None or np.isnan(first.gradients).all():
            return _from_priors(self)
        theta = _from_priors(replace(self, trials=ByDigest.of(first))).theta.copy()
        theta[data.X.shape[1] :] += 2 * math.log(first.scaling.sd / data.scaling.sd)
        reached, theta = self.density().maximised(theta)
        return self._found(theta, reached) if math.isfinite(reached) else _from_priors(self)

    def density(self) -> JointLogPosterior:
        """The density to maximise, in coordinates of the unit cube: the encoded ones are twice as wide."""
        data = self.trials.data
        noise = known_noise(data) if self.known else None
        slopes = 2 * told(data)
        X = (data.X + 1) / 2
        return JointLogPosterior(self.kernel, X, data.targets, noise, slopes, self.blurred, prior=wide_prior)

    def _found(self, theta: Array, reached: float) -> Found:
        return Found(theta, reached, np.arange(len(self.trials.data)))


@lru_cache(maxsize=64)
def _from_priors(question: JointQuestion) -> Found:
    density = question.density()
    starts = density.starts(question.starts)
    reached, theta = max((density.maximised(start) for start in starts), key=lambda end: end[0])
    if not math.isfinite(reached):
        raise ValueError(
            f"No hyper-parameters of the Gaussian process of values and gradients give a finite likelihood "
            f"({question.starts} starts, {len(density.targets)} trials): look for extreme results or gradients."
        )
    return question._found(theta, reached)
