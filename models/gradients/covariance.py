"""Joint covariances of a function's values and of its derivatives, for stationary kernels.

With z = x / l and s = |z - z'|^2, the kernel is k(x, x') = phi(s), and with u = z - z' (Rasmussen and Williams, 2006,
section 9.4)

    Cov(f(x), df/dx'_j) = -2 phi' u_j / l_j,
    Cov(df/dx_i, df/dx'_j) = (-2 phi' delta_ij - 4 phi'' u_i u_j) / (l_i l_j).

All here are of the derivatives by z, which are l_j times those by x_j.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fieldcraft.models.linear.fourier_features import Kernel

Profile = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""phi and its first and second derivative, of squared scaled distances."""

# Least squared distance: where two points are one, what it multiplies vanishes.
_LEAST = 1e-30


def _matern32(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = (3 * s.clamp_min(_LEAST)).sqrt()
    e = (-a).exp()
    return (1 + a) * e, -1.5 * e, 2.25 * e / a


def _matern52(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = (5 * s.clamp_min(_LEAST)).sqrt()
    e = (-a).exp()
    return (1 + a + a.square() / 3) * e, (-5 / 6) * (1 + a) * e, (25 / 12) * e


def _rbf(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    e = (-0.5 * s).exp()
    return e, -0.5 * e, 0.25 * e


PROFILES: Mapping[Kernel, Profile] = {"matern32": _matern32, "matern52": _matern52, "rbf": _rbf}
"""Kernels whose functions have a gradient. That of a Matern kernel of smoothness 1/2 has none."""

PRIOR_SLOPES: Mapping[Kernel, float] = {"matern32": 3.0, "matern52": 5 / 3, "rbf": 1.0}
"""Prior variance -2 phi'(0) of a derivative by z."""


def joint(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """Covariance of values and derivatives at scaled points A (a, d) and B (b, d), shape (a (1 + d), b (1 + d)).

    The value at a point comes first, its d derivatives follow; differentiable.
    """
    (a, d), b = A.shape, len(B)
    u = A[:, None] - B
    k, first, second = PROFILES[kernel](u.square().sum(-1))
    slope = -2 * first[..., None] * u
    curved = -4 * second[..., None, None] * u[..., :, None] * u[..., None, :]
    curved = curved - 2 * first[..., None, None] * torch.eye(d, dtype=A.dtype)
    above = torch.cat([k[..., None], slope], dim=-1)[..., None, :]
    below = torch.cat([-slope[..., None], curved], dim=-1)
    return torch.cat([above, below], dim=-2).transpose(1, 2).reshape(a * (1 + d), b * (1 + d))


def cross(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """Covariance of values and derivatives at scaled A (a, d) with values at B (b, d), shape (a (1 + d), b).

    Differentiable once.
    """
    u = A[:, None] - B
    k, first, _ = PROFILES[kernel](u.square().sum(-1))
    found = torch.cat([k[:, None], (2 * first[..., None] * u).transpose(1, 2)], dim=1)
    return found.reshape(-1, len(B))


def cross_slopes(kernel: Kernel, A: Tensor, B: Tensor, weights: Tensor) -> Tensor:
    """Gradients by scaled B (b, d) of weights (b, a (1 + d)) or (a (1 + d),) times ``cross``, shape (b, d)."""
    (a, d), b = A.shape, len(B)
    u = A - B[:, None]
    _, first, second = PROFILES[kernel](u.square().sum(-1))
    by = weights.expand(b, -1).reshape(b, a, 1 + d)
    along = (by[..., 1:] * u).sum(-1)
    # d s / d b = -2 u
    outer = -2 * first * by[..., 0] - 4 * second * along
    found: Tensor = torch.einsum("bad,ba->bd", u, outer) - 2 * torch.einsum("bad,ba->bd", by[..., 1:], first)
    return found
