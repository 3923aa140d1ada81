"""Stationary covariances with a second-order linear operator applied on both sides (Särkkä, 2011; Raissi et al., 2017).

With rho = u - u' and k a function of r = |rho|, let D_j = (1/r d/dr)^j k. Then

    d_i k = D1 rho_i,   d_ij k = D1 delta_ij + D2 rho_i rho_j,
    d_ijk k = D2 (delta_ij rho_k + two more) + D3 rho_i rho_j rho_k,
    d_ijkl k = D2 (delta_ij delta_kl + two more) + D3 (delta_ij rho_k rho_l + five more) + D4 rho_i rho_j rho_k rho_l,

and a derivative by u' is minus the one by u. For functionals (c, b, A) at u and (c', b', A') at u', with
v = A rho, s = rho.v, l = tr A + b.rho on the left and w = A' rho, s' = rho.w, m = tr A' - b'.rho on the right, that is

    D0 c c' + D1 (l c' + c m - b.b') + D2 (s c' + c s' + l m + 2 (b.w - b'.v + tr A A'))
    + D3 (l s' + s m + 4 v.w) + D4 s s'.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.special import gammaincinv
from torch import Tensor

from fieldcraft.models.equations.functionals import Functionals
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.tangent.features import Passes, combine, diagonal, gram, project, scaled
from fieldcraft.models.tangent.operators import Coefficients, operator_passes, value_passes

Kernel = Literal["matern52", "rbf"]

_ROOT5 = math.sqrt(5.0)
# Below this squared distance what Matern-5/2 multiplies by a negative power of r is its limit, zero.
_SAME = 1e-24
# Of a Student t: the spectral density of Matern-5/2.
_FREEDOM = 5.0
# Cosines in a prior draw.
_WAVES = 2048


def radial(kind: Kernel, squares: Tensor) -> tuple[Tensor, ...]:
    """D_0, ..., D_4 of the unit covariance from r^2, each of its shape.

    D_3 and D_4 of Matern-5/2 grow without bound as r goes to 0, more slowly than their factors fall.
    """
    if kind == "rbf":
        bell = torch.exp(-0.5 * squares)
        return bell, -bell, bell, -bell, bell
    r = squares.clamp_min(_SAME).sqrt()
    z = _ROOT5 * r
    fall = torch.exp(-z)
    third = -25 * _ROOT5 / 3 * fall / r
    return (1 + z + z * z / 3) * fall, -5 / 3 * (1 + z) * fall, 25 / 3 * fall, third, -third * (1 + z) / (r * r)


@dataclass(frozen=True)
class Stationary:
    """The covariance k(|u - u'|) of unit variance and unit length scale, and that of a constant beside it.

    Args:
        kind: "rbf", exp(-r^2/2), or "matern52", (1 + z + z^2/3) exp(-z) with z = sqrt(5) r.
        level: Variance of the constant.
    """

    kind: Kernel
    level: float = 0.0

    def gram(self, a: Functionals, b: Functionals) -> Tensor:
        """Covariance of every functional of a (n) with every one of b (m), shape (n, m), differentiable in both."""
        around = self._around(a, b)
        return around + self.level * a.zeroth[:, None] * b.zeroth[None] if self.level else around

    def _around(self, a: Functionals, b: Functionals) -> Tensor:
        """The same without the constant."""
        if b.is_value and not a.is_value:
            return self._around(b, a).mT
        rho = a.points[:, None] - b.points[None]
        D = radial(self.kind, rho.square().sum(-1))
        c, other_c = a.zeroth[:, None], b.zeroth[None]
        if b.is_value:
            return c * other_c * D[0]
        drift, w = _contracted(b, -rho.transpose(0, 1))
        m, w = drift.mT, -w.transpose(0, 1)
        s_right = (rho * w).sum(-1)
        if a.is_value:
            return c * (other_c * D[0] + m * D[1] + s_right * D[2])
        slope, v = _contracted(a, rho)
        s = (rho * v).sum(-1)
        crossed = torch.einsum("nd,nmd->nm", a.slopes, w) - torch.einsum("md,nmd->nm", b.slopes, v)
        crossed = crossed + a.bends.flatten(1) @ b.bends.flatten(1).mT
        found = c * other_c * D[0] + (slope * other_c + c * m - a.slopes @ b.slopes.mT) * D[1]
        found = found + (s * other_c + c * s_right + slope * m + 2 * crossed) * D[2]
        return found + (slope * s_right + s * m + 4 * (v * w).sum(-1)) * D[3] + s * s_right * D[4]

    def diagonal(self, a: Functionals) -> Tensor:
        """Variance of each functional, shape (n,)."""
        D = radial(self.kind, torch.zeros(1, dtype=a.points.dtype))
        trace = a.bends.diagonal(dim1=-2, dim2=-1).sum(-1)
        found = a.zeroth.square() * D[0] + (2 * a.zeroth * trace - a.slopes.square().sum(-1)) * D[1]
        return found + (trace.square() + 2 * a.bends.square().sum((-1, -2))) * D[2] + self.level * a.zeroth.square()

    def combined(self, a: Functionals, weights: Tensor) -> "Combined":
        """x -> sum_j weights_j cov(a_j[f], f(x)), for weights (n,)."""
        return Combined(self, a, weights)

    def sample(self, dimension: int, rng: np.random.Generator) -> "Waves":
        """A function of (approximately) this covariance: a sum of random cosines (Rahimi and Recht, 2007)."""
        frequencies = rng.standard_normal((_WAVES, dimension))
        if self.kind == "matern52":
            # One in each stratum: derivatives live on the density's tail, which independent draws would hit or miss.
            strata = (np.arange(_WAVES) + rng.random(_WAVES)) / _WAVES
            frequencies *= np.sqrt(_FREEDOM / (2 * gammaincinv(_FREEDOM / 2, strata)))[:, None]
        phases = rng.uniform(0, 2 * math.pi, _WAVES)
        weights = math.sqrt(2 / _WAVES) * rng.standard_normal(_WAVES)
        step = math.sqrt(self.level) * float(rng.standard_normal()) if self.level else 0.0
        return Waves(torch.from_numpy(frequencies), torch.from_numpy(phases), torch.from_numpy(weights), step)


def _contracted(a: Functionals, rho: Tensor) -> tuple[Tensor, Tensor]:
    """tr A + b.rho, shape (n, m), and A rho, shape (n, m, d), for rho (n, m, d)."""
    trace = a.bends.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace[:, None] + torch.einsum("nd,nmd->nm", a.slopes, rho), torch.einsum("nde,nme->nmd", a.bends, rho)


@dataclass(frozen=True)
class Combined:
    """A weighted sum of covariances with given functionals.

    Args:
        covariance: Of the field.
        functionals: n of them.
        weights: Shape (n,).
    """

    covariance: Stationary
    functionals: Functionals
    weights: Tensor

    def image(self, a: Functionals) -> Tensor:
        """Each functional of it, shape (n,), differentiable in the points."""
        return self.covariance.gram(a, self.functionals) @ self.weights


@dataclass(frozen=True)
class Waves:
    """step + sum_k weight_k cos(frequency_k . u + phase_k): smooth, with derivatives in closed form.

    Args:
        frequencies: Shape (K, d).
        phases: Shape (K,).
        weights: Shape (K,).
        step: The constant.
    """

    frequencies: Tensor
    phases: Tensor
    weights: Tensor
    step: float

    def image(self, a: Functionals) -> Tensor:
        """Each functional of it, shape (n,), differentiable in the points."""
        angles = a.points @ self.frequencies.mT + self.phases
        if a.is_value:
            return a.zeroth * (torch.cos(angles) @ self.weights + self.step)
        bend = torch.einsum("nde,kd,ke->nk", a.bends, self.frequencies, self.frequencies)
        even = (a.zeroth[:, None] - bend) * torch.cos(angles)
        return (even - (a.slopes @ self.frequencies.mT) * torch.sin(angles)) @ self.weights + self.step * a.zeroth


@dataclass(frozen=True)
class Tangent:
    """k(x, x') = <phi(x), phi(x')>, phi = dh(x; theta)/dtheta (Jacot, Gabriel and Hongler, 2018).

    Args:
        network: The shape of h.
        theta: Weights at which h is linearised, shape (p,).
    """

    network: Network
    theta: Tensor

    def passes(self, a: Functionals) -> Passes:
        """The rows of n functionals, d a[h]/dtheta."""
        if a.is_value:
            return scaled(value_passes(self.network, self.theta, a.points), a.zeroth)
        coefficients = Coefficients(a.zeroth, a.slopes, a.bends)
        return operator_passes(self.network, self.theta, a.points, coefficients)

    def gram(self, a: Functionals, b: Functionals) -> Tensor:
        """Covariance of every functional of a (n) with every one of b (m), shape (n, m), differentiable in both."""
        rows = self.passes(a)
        return gram(rows, rows if b is a else self.passes(b))

    def diagonal(self, a: Functionals) -> Tensor:
        """Variance of each functional, shape (n,)."""
        return diagonal(self.passes(a))

    def combined(self, a: Functionals, weights: Tensor) -> "Direction":
        """x -> sum_j weights_j cov(a_j[f], f(x)), for weights (n,): one direction of the weights."""
        return Direction(self, combine(self.passes(a), weights))

    def sample(self, dimension: int, rng: np.random.Generator) -> "Direction":
        """An exact draw: a standard normal direction."""
        return Direction(self, torch.from_numpy(rng.standard_normal(self.network.size)))


@dataclass(frozen=True)
class Direction:
    """x -> <phi(x), direction>, the derivative of the network along a direction of its weights.

    Args:
        tangent: The network.
        direction: Shape (p,).
    """

    tangent: Tangent
    direction: Tensor

    def image(self, a: Functionals) -> Tensor:
        """Each functional of it, shape (n,), differentiable in the points."""
        return project(self.tangent.passes(a), self.direction)
