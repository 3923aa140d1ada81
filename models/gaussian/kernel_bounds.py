"""Lower bounds of weighted sums of stationary kernels over boxes: many boxes and weights as one tensor batch.

    f(x) = sum_i w_i k(r_i(x)),    r_i(x) = ||x - x_i||, coordinates already divided by their length scales

Every kernel here falls with q = r^2 and is convex in it, and q_i(x) is a sum over the coordinates. Where w_i > 0 a
tangent in q bounds k_i from below, where w_i < 0 a chord bounds it from above: the bound is a separable quadratic of x,
and its least value over a box is known in closed form. In a small box the Taylor polynomial of second order about the
centre, less a third-order remainder, is better: its mixed terms are bounded by squares.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fieldcraft.models.linear.fourier_features import Kernel

# Least q and width that are divided by.
_TINY = 1e-40
# A third-order remainder beyond this many prior variances is coarse: tangents and chords are tried too.
_COARSE = 1.0
# Where a kernel is touched by its tangent in q: not below this share of the largest q in the box. Measured in eight
# coordinates, where it halves the gap left; little depends on it in fewer.
_OUTWARD = 0.6
# Steps in which the multiplier of a plane is found.
_BISECTIONS = 16
_EPS = torch.finfo(torch.float64).eps
# sqrt(2 nu), by the kernel: r is multiplied by it.
_ROOTS: dict[Kernel, float] = {"matern12": 1.0, "matern32": math.sqrt(3.0), "matern52": math.sqrt(5.0), "rbf": 1.0}
# Where the bound of the third derivative in any direction has its local maxima, in z = sqrt(2 nu) r.
_PEAKS: dict[Kernel, tuple[float, ...]] = {
    "matern12": (),
    "matern32": (),
    "matern52": ((5 - math.sqrt(13)) / 2, (5 + math.sqrt(13)) / 2),
    "rbf": (math.sqrt(3 - math.sqrt(6)), math.sqrt(3 + math.sqrt(6))),
}


@dataclass(frozen=True)
class Radial:
    """A stationary kernel of variance 1 as a function of q = r^2.

    Args:
        kind: The kernel. With z = sqrt(2 nu) r: matern12 exp(-z), matern32 (1 + z) exp(-z), matern52
            (1 + z + z^2/3) exp(-z); rbf exp(-q/2).
    """

    kind: Kernel

    def value(self, q: Tensor) -> Tensor:
        """k(q)."""
        if self.kind == "rbf":
            return (-0.5 * q).exp()
        z = _ROOTS[self.kind] * q.sqrt()
        decay = (-z).exp()
        if self.kind == "matern12":
            return decay
        return decay * (1 + z) if self.kind == "matern32" else decay * (1 + z + z.square() / 3)

    def slope(self, q: Tensor) -> Tensor:
        """dk/dq, negative and rising, for q > 0."""
        if self.kind == "rbf":
            return -0.5 * (-0.5 * q).exp()
        z = _ROOTS[self.kind] * q.sqrt()
        decay = (-z).exp()
        if self.kind == "matern12":
            return -0.5 * decay / z
        return -1.5 * decay if self.kind == "matern32" else -5 / 6 * (1 + z) * decay

    def bend(self, q: Tensor) -> Tensor:
        """d^2 k/dq^2, positive, for q > 0."""
        if self.kind == "rbf":
            return 0.25 * (-0.5 * q).exp()
        z = _ROOTS[self.kind] * q.sqrt()
        decay = (-z).exp()
        if self.kind == "matern12":
            return 0.25 * decay * (1 + z) / z**3
        return 2.25 * decay / z if self.kind == "matern32" else 25 / 12 * decay

    def third(self, q: Tensor) -> Tensor:
        """The largest third derivative in any direction at any r^2 >= q.

        With c the cosine between direction and radius it is at r, up to its sign,

            matern12: e^-z |3 p c - (1 + 3 p) c^3|, p = (1 + z) / z^2       matern32: 3^1.5 e^-z |3 c - (1 + z) c^3|
            matern52: 5^1.5/3 e^-z |3 z c - (z c)^2 c|                      rbf: e^(-z^2/2) |3 z c - (z c)^3|

        whose largest value over c is at a stationary point or at c = 1; as a function of z it falls but for ``_PEAKS``.
        """
        z = _ROOTS[self.kind] * q.clamp_min(_TINY).sqrt()
        least = self._steepest(z)
        for peak in _PEAKS[self.kind]:
            least = torch.maximum(least, self._steepest(z.clamp_min(peak)))
        return least

    def _steepest(self, z: Tensor) -> Tensor:
        """The largest third derivative in any direction at z."""
        if self.kind == "rbf":
            inner = torch.where(z < 1, 3 * z - z**3, torch.full_like(z, 2.0))
            return (-0.5 * z.square()).exp() * torch.maximum(inner, z**3 - 3 * z)
        decay = (-z).exp()
        if self.kind == "matern12":
            p = (1 + z) / z.square()
            return decay * (2 * p * (p / (1 + 3 * p)).sqrt()).clamp_min(1.0)
        if self.kind == "matern32":
            return 3**1.5 * decay * torch.maximum(2 / (1 + z).sqrt(), z - 2)
        inner = torch.where(z < 1, 3 - z, 2 / z.sqrt())
        return 5**1.5 / 3 * decay * z * torch.maximum(inner, z - 3)


@dataclass(frozen=True, eq=False)
class Planes:
    """Half spaces a . d <= slack about the centres of B boxes.

    Args:
        normals: a, shape (c, d); (B, c, d) where every box has its own.
        slack: Slack of each at each centre, shape (B, c); negative where the centre lies outside.
    """

    normals: Tensor
    slack: Tensor

    def __getitem__(self, rows: Tensor) -> "Planes":
        return Planes(self.normals[rows] if self.normals.ndim == 3 else self.normals, self.slack[rows])


@dataclass(frozen=True, eq=False)
class Quadratics:
    """base + linear . d + square . d^2 about the centres of B boxes, lower bounds of a function.

    Args:
        base: Shape (B,).
        linear: Shape (B, d).
        square: Shape (B, d), of any sign.
    """

    base: Tensor
    linear: Tensor
    square: Tensor

    def least(self, half: Tensor, planes: Planes) -> Tensor:
        """Least value over |d_j| <= half_j, shape (B,), or a lower bound of it where planes cut the box.

        Planes enter with a multiplier >= 0 each. Any multiplier gives a bound; the best is sought one plane after the
        other by bisection of the slope of the dual function.
        """
        linear, base = self.linear, self.base
        normals = planes.normals.expand(len(half), -1, -1)
        for normal, slack in zip(normals.unbind(1), planes.slack.unbind(1), strict=True):
            multiplier = self._multiplier(linear, half, normal, slack)
            linear = linear + multiplier.unsqueeze(1) * normal
            base = base - multiplier * slack
        at = self._where(linear, half)
        return base + (linear * at + self.square * at.square()).sum(1)

    def _where(self, linear: Tensor, half: Tensor) -> Tensor:
        """Minimiser over the box, shape (B, d)."""
        inside = torch.minimum(torch.maximum(-0.5 * linear / self.square, -half), half)
        return torch.where(self.square > 0, inside, torch.where(linear > 0, -half, half))

    def _multiplier(self, linear: Tensor, half: Tensor, normal: Tensor, slack: Tensor) -> Tensor:
        """The multiplier of one plane, shape (B,); 0 where the plane does not cut the minimiser off."""
        steep = (linear.abs() + 2 * self.square.abs() * half) / normal.abs()
        low, high = torch.zeros_like(slack), steep.nan_to_num(0, 0, 0).amax(1)
        outside = (self._where(linear, half) * normal).sum(1) > slack
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            beyond = (self._where(linear + middle.unsqueeze(1) * normal, half) * normal).sum(1) > slack
            low, high = torch.where(beyond, middle, low), torch.where(beyond, high, middle)
        # The dual function is concave and still rises here, so that it lies above its value at 0.
        return torch.where(outside, low, torch.zeros_like(low))


@dataclass(frozen=True, eq=False)
class Boxes:
    """B boxes about the centres x_i of n kernels in d coordinates, and the quantities of all bounds over them.

    Args:
        radial: The kernel.
        apart: Box centre minus x_i, shape (B, d, n).
        half: Half widths, shape (B, d), >= 0.
        planes: Half spaces that cut the boxes.
        size: Largest absolute coordinate, for the allowance for rounding.
    """

    radial: Radial
    apart: Tensor
    half: Tensor
    planes: Planes
    size: float

    def __getitem__(self, rows: Tensor) -> "Boxes":
        return Boxes(self.radial, self.apart[rows], self.half[rows], self.planes[rows], self.size)

    @cached_property
    def q(self) -> Tensor:
        """r_i^2 at the box centre, shape (B, n)."""
        return self.apart.square().sum(1)

    @cached_property
    def k(self) -> Tensor:
        """k_i at the box centre, shape (B, n)."""
        return self.radial.value(self.q)

    @cached_property
    def reach(self) -> Tensor:
        """Distance from the centre to a corner, shape (B,)."""
        length: Tensor = torch.linalg.vector_norm(self.half, dim=1)
        return length

    @cached_property
    def _nearest(self) -> Tensor:
        """The least r_i^2 in the box, shape (B, n)."""
        return (self.apart.abs() - self.half.unsqueeze(-1)).clamp_min_(0).square_().sum(1)

    @cached_property
    def _farthest(self) -> Tensor:
        """The largest r_i^2 in the box, shape (B, n)."""
        return (self.apart.abs() + self.half.unsqueeze(-1)).square_().sum(1)

    def floor(self, w: Tensor) -> Tensor:
        """Lower bound of sum_i w_i k_i(x) in each box, shape (B,), for weights w (B, n)."""
        remainder = self._remainder(w)
        found = self._taylor(w, remainder)
        coarse = torch.nonzero(remainder > _COARSE).squeeze(1)
        if len(coarse):
            found[coarse] = torch.maximum(found[coarse], self[coarse]._lines(w[coarse]))
        return found

    def _lines(self, w: Tensor) -> Tensor:
        """The floor by tangents and chords in q, shape (B,)."""
        # Any tangent is a bound; one at the centre of a box about x_i would be too steep.
        at = torch.maximum(self.q, _OUTWARD * self._farthest).clamp_min(_TINY)
        tangent = self.radial.slope(at)
        below = self.radial.value(at) + tangent * (self.q - at)
        most, least = self.radial.value(self._nearest), self.radial.value(self._farthest)
        chord = (least - most) / (self._farthest - self._nearest).clamp_min(_TINY)
        above = most + chord * (self.q - self._nearest)
        rising = w > 0
        v = w * torch.where(rising, tangent, chord)
        linear = 2 * torch.bmm(self.apart, v.unsqueeze(-1)).squeeze(-1)
        base = (w * torch.where(rising, below, above)).sum(1)
        rounding = self._rounding * (w.abs().sum(1) + (v.abs() * self._farthest).sum(1))
        lines = Quadratics(base - rounding, linear, v.sum(1, keepdim=True).expand_as(linear))
        return lines.least(self.half, self.planes)

    def _taylor(self, w: Tensor, remainder: Tensor) -> Tensor:
        """The floor by the second-order polynomial about the centre, shape (B,).

        The Hessian is 2 sum_i w_i k'(q_i) I + 4 sum_i w_i k''(q_i) a_i a_i^T with a_i the centre minus x_i, and
        H_jl d_j d_l >= -|H_jl| (d_j^2 h_l / h_j + d_l^2 h_j / h_l) / 2 for half widths h.
        """
        slopes, bends = self._derivatives
        v = w * slopes
        linear = 2 * torch.bmm(self.apart, v.unsqueeze(-1)).squeeze(-1)
        mixed = 4 * torch.bmm(self.apart * (w * bends).unsqueeze(1), self.apart.mT)
        own = mixed.diagonal(dim1=1, dim2=2)
        others = torch.bmm(mixed.abs(), self.half.unsqueeze(-1)).squeeze(-1) - own.abs() * self.half
        square = (own + 2 * v.sum(1, keepdim=True) - others / self.half.clamp_min(_TINY)) / 2
        rounding = self._rounding * w.abs().sum(1) * (1 + self.reach) ** 2
        base = (w * self.k).sum(1) - remainder - rounding
        return Quadratics(base, linear, square).least(self.half, self.planes)

    def _remainder(self, w: Tensor) -> Tensor:
        """Largest error of the second-order polynomial, shape (B,)."""
        return (w.abs() * self._third).sum(1) * self.reach**3 / 6

    @cached_property
    def _third(self) -> Tensor:
        return self.radial.third(self._nearest)

    @cached_property
    def _derivatives(self) -> tuple[Tensor, Tensor]:
        at = self.q.clamp_min(_TINY)
        return self.radial.slope(at), self.radial.bend(at)

    @property
    def _rounding(self) -> float:
        """Relative error of a sum over the kernels, and of coordinates."""
        return 8 * _EPS * (self.apart.shape[2] + self.size)
