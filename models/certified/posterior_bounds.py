"""Bounds of an acquisition over boxes, from the mean and standard deviation of an exact Gaussian process together.

With A = (K + N)^-1, c = A (y - m0) and k = k(X, x): mu = m0 + c . k and sigma^2 = 1 - k^T A k, which is concave in k.
So at any reference k', with g = A k' and sigma' its standard deviation,

    sigma^2 <= sigma'^2 + 2 g . k' - 2 g . k,        sigma <= (s^2 + sigma^2) / (2 s)  for any s > 0,

and the confidence bound mu - b sigma, b >= 0, is at least a number plus one weighted sum of kernels, tight to first
order in x at the reference, here the centre of the box. Mean and variance are bounded together, so that they cancel.
From below, sigma^2 >= sigma'^2 + 2 g . k' - 2 g . k - 2 (1 - k(x, x')), because A is less than the inverse of K.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fieldcraft.models.acquisition import MomentFunction
from fieldcraft.models.certified.branch_and_bound import Bounds
from fieldcraft.models.gaussian.grouped_process import UnitProcess
from fieldcraft.models.gaussian.kernel_bounds import Boxes, Planes, Radial

# Least standard deviation that the variance is linearised at, and least variance.
_LEAST_SD, _LEAST_VARIANCE = 1e-3, 1e-12
_EPS = torch.finfo(torch.float64).eps
# Relative error of a score computed from mean and standard deviation.
_ROUNDING = 1e-12

Worth = Callable[[Tensor, Tensor], Tensor]
"""Score of means (B,) and standard deviations (B,): falls with the mean and is quasiconvex in the two."""


Slopes = tuple[Tensor, Tensor, Tensor]
"""Values (n,) and their derivatives by mean and by standard deviation, each (n,)."""


@dataclass(frozen=True, eq=False)
class Process:
    """An exact Gaussian process as matrices.

    Args:
        radial: Its kernel.
        scales: Length scales, encoded, shape (d,).
        centres: Its inputs divided by them, shape (n, d).
        root: V with V^T V = A, shape (n, n).
        weights: c, shape (n,).
        constant: m0.
        error: Largest error of a variance by rounding.
    """

    radial: Radial
    scales: Tensor
    centres: Tensor
    root: Tensor
    weights: Tensor
    constant: float
    error: float

    @classmethod
    def of(cls, posterior: UnitProcess, device: torch.device | str) -> "Process":
        """The process behind a posterior, or a term of a sum in units of its prior, on a device."""
        scales, fit, lower = posterior.length_scales, posterior.fit, posterior.factor.lower
        identity = torch.eye(len(lower), dtype=lower.dtype)
        root = posterior.factor.half_solve(identity)
        weights = posterior.factor.solve(fit.targets - posterior.constant)
        # V (K + N) V^T = I + R gives |k^T V^T V k - k^T A k| <= ||R||, for k^T A k < 1. Sums over V are rounded too.
        missed = (root @ lower) @ (root @ lower).mT - identity
        error = 4 * float(missed.norm()) + _EPS * len(lower) * (4 + float(root.norm()))
        scales, centres, root, weights = (part.to(device) for part in (scales, fit.X / scales, root, weights))
        return cls(Radial(fit.kernel), scales, centres, root, weights, posterior.constant, error)

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation at encoded X (n, d), each (n,), differentiable."""
        apart = (X / self.scales).unsqueeze(1) - self.centres
        # The root of a distance of zero has no finite slope.
        k = self.radial.value(apart.square().sum(-1) + 1e-30)
        return self.moments_of(k, k @ self.root.mT)

    def moments_and_grad(self, X: Tensor, worth: Callable[[Tensor, Tensor], Slopes]) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d), at encoded X (n, d), of a function of mean and standard deviation.

        Args:
            X: Encoded points.
            worth: From means and standard deviations (n,) to values and their derivatives by either, each (n,).
        """
        apart = (X / self.scales).unsqueeze(1) - self.centres
        q = apart.square().sum(-1) + 1e-30
        k = self.radial.value(q)
        u = k @ self.root.mT
        mean, sd = self.moments_of(k, u)
        value, by_mean, by_sd = worth(mean, sd)
        by_k = by_mean.unsqueeze(1) * self.weights - (by_sd / sd).unsqueeze(1) * (u @ self.root)
        by_q = by_k * self.radial.slope(q)
        return value, 2 * torch.bmm(by_q.unsqueeze(1), apart).squeeze(1) / self.scales

    def moments_of(self, k: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation where the kernels are k and V k is u, both (B, n); each (B,)."""
        variance = (1 - u.square().sum(1)).clamp_min(_LEAST_VARIANCE)
        return self.constant + k @ self.weights, variance.sqrt()


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """An acquisition on an exact Gaussian process, as values and as bounds over boxes.

    Args:
        process: The process, conditioned on its mean at pending trials and earlier places.
        score: Score that is maximised.
    """

    process: Process
    score: MomentFunction

    def value(self, X: Tensor) -> Tensor:
        """Score at encoded X (n, d), shape (n,), differentiable."""
        return self._worth(*self.process.moments(X))

    @torch.no_grad()
    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Score (n,) and its gradient (n, d) at encoded X (n, d)."""
        return self.process.moments_and_grad(X, self._slopes)

    @torch.no_grad()
    def bounds(self, lower: Tensor, upper: Tensor, normals: Tensor, offsets: Tensor) -> Bounds:
        """Bounds over the boxes between encoded corners (B, d) where normals (c, d) x <= offsets (c,).

        Normals and offsets may have a first axis of length B: half spaces of each box.
        """
        p = self.process
        middle = (lower + upper) / 2
        planes = Planes(normals * p.scales, offsets - (normals @ middle.unsqueeze(-1)).squeeze(-1))
        centre, half = middle / p.scales, (upper - lower) / 2 / p.scales
        size = float(torch.maximum(p.centres.abs().max(), (centre.abs() + half).max()))
        boxes = Boxes(p.radial, centre.unsqueeze(-1) - p.centres.mT, half, planes, size)
        found = _Linearised(p, boxes)
        values = self._worth(found.mean, found.sd)
        if self.score.optimism is not None:
            return Bounds(-found.confidence(torch.full_like(values, self.score.optimism)), values)
        return Bounds(self._ceiling(found), values)

    def _ceiling(self, found: "_Linearised") -> Tensor:
        """The largest score on the lower edge of the possible pairs of mean and standard deviation.

        In every box mean >= m, sd in [s, S] and mean - b sd >= L. The score falls with the mean, so that its maximum
        lies on the lower edge of this polygon, and it is quasiconvex, so that it lies at a corner of that edge.
        """
        b = self._slope(found.mean, found.sd)
        least, joint = found.least_mean(), found.confidence(b)
        most = found.most_sd()
        low = torch.minimum(found.least_sd(), most)
        kink = torch.where(b > 0, (least - joint) / b, most)
        corners = [low, torch.minimum(torch.maximum(kink, low), most), most]
        worth = [self._worth(torch.maximum(least, joint + b * sd), sd) for sd in corners]
        largest = torch.stack(worth).amax(0)
        return largest + _ROUNDING * (1 + largest.abs())

    def _slope(self, mean: Tensor, sd: Tensor) -> Tensor:
        """d mean / d sd >= 0 along the score's level lines, shape (B,)."""
        _, by_mean, by_sd = self._slopes(mean, sd)
        return (-by_sd / by_mean).nan_to_num(0.0, 0.0, 0.0).clamp_min(0.0)

    def _slopes(self, mean: Tensor, sd: Tensor) -> Slopes:
        if (b := self.score.optimism) is not None:
            return b * sd - mean, torch.full_like(mean, -1.0), torch.full_like(sd, b)
        with torch.enable_grad():
            point = mean.detach().requires_grad_(), sd.detach().requires_grad_()
            worth = self._worth(*point)
            by_mean, by_sd = torch.autograd.grad(worth.sum(), point)
        return worth.detach(), by_mean, by_sd

    def _worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        if self.score.optimism is not None:
            return self.score.optimism * sd - mean
        return self.score.worth(mean.cpu(), sd.cpu()).to(mean.device)


@dataclass(frozen=True, eq=False)
class _Linearised:
    """Mean and standard deviation over boxes, linear in the kernels about the centres."""

    process: Process
    boxes: Boxes

    @property
    def mean(self) -> Tensor:
        """Mean at the centres, shape (B,)."""
        return self._centre[0]

    @property
    def sd(self) -> Tensor:
        """Standard deviation at the centres, shape (B,)."""
        return self._centre[1]

    @cached_property
    def _centre(self) -> tuple[Tensor, Tensor]:
        return self.process.moments_of(self.boxes.k, self._u)

    @cached_property
    def _u(self) -> Tensor:
        return self.boxes.k @ self.process.root.mT

    @cached_property
    def _g(self) -> Tensor:
        """A k at the centres, shape (B, n)."""
        return self._u @ self.process.root

    @cached_property
    def _height(self) -> Tensor:
        """sigma'^2 + 2 g . k', shape (B,)."""
        return self.sd.square() + 2 * (self._g * self.boxes.k).sum(1)

    @property
    def _most(self) -> Tensor:
        return self._height + self.process.error

    def confidence(self, b: Tensor) -> Tensor:
        """A lower bound of mean - b sd, shape (B,), for b >= 0 (B,)."""
        s = self.sd.clamp_min(_LEAST_SD)
        w = self.process.weights + (b / s).unsqueeze(1) * self._g
        return self.process.constant - b * (s.square() + self._most) / (2 * s) + self.boxes.floor(w)

    def least_mean(self) -> Tensor:
        """A lower bound of the mean, shape (B,)."""
        return self.process.constant + self.boxes.floor(self.process.weights.expand_as(self._g))

    def most_sd(self) -> Tensor:
        """An upper bound of the standard deviation, shape (B,)."""
        return (self._most - self.boxes.floor(2 * self._g)).clamp(_LEAST_VARIANCE, 1.0).sqrt()

    def least_sd(self) -> Tensor:
        """A lower bound of the standard deviation, shape (B,)."""
        lost = 2 * (1 - self.process.radial.value(self.boxes.reach.square())) + self.process.error
        return (self._height + self.boxes.floor(-2 * self._g) - lost).clamp_min(_LEAST_VARIANCE).sqrt()
