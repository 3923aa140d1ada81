"""Stationary kernels of unit variance: correlations with slopes, and covariances with a gradient in closed form."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor
from torch.autograd.function import once_differentiable

from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.observations import Array


def _matern12(s: Array) -> tuple[Array, Array]:
    r = np.sqrt(s)
    k = np.exp(-r)
    # Where two points are one the slope is infinite, and nothing depends on the length scale.
    return k, np.divide(k, -2 * r, out=np.zeros_like(r), where=r > 0)


def _matern32(s: Array) -> tuple[Array, Array]:
    a = np.sqrt(3 * s)
    e = np.exp(-a)
    return (1 + a) * e, -1.5 * e


def _matern52(s: Array) -> tuple[Array, Array]:
    a = np.sqrt(5 * s)
    e = np.exp(-a)
    linear = (1 + a) * e
    return linear + (5 / 3) * s * e, (-5 / 6) * linear


def _rbf(s: Array) -> tuple[Array, Array]:
    k = np.exp(-0.5 * s)
    return k, -0.5 * k


CORRELATIONS: Mapping[Kernel, Callable[[Array], tuple[Array, Array]]] = {
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
    "rbf": _rbf,
}
"""Of squared scaled distances s, any shape: the correlation and its derivative by s."""


def scaled_squares(A: Array, B: Array) -> Array:
    """Squared distances of A (a, d) and B (b, d), coordinates divided by their length scales, shape (a, b)."""
    return np.asarray(cdist(A, B, "sqeuclidean"))


def pulled(weights: Array, A: Array, B: Array) -> Array:
    """sum_j weights_ij d s_ij / d a_i with s_ij = |a_i - b_j|^2, for weights (a, b), A (a, d) and B (b, d); (a, d)."""
    return np.asarray(2 * (A * weights.sum(axis=1)[:, None] - weights @ B))


def covariance(kernel: Kernel, A: Tensor, B: Tensor, scales: Tensor) -> Tensor:
    """k at A (a, d) and B (b, d) with length scales (d,), shape (a, b); differentiable once in A and B."""
    found: Tensor = _Covariance.apply(A / scales, B / scales, kernel)  # type: ignore[no-untyped-call]
    return found


class _Covariance(torch.autograd.Function):
    """Covariance of scaled points, whose backward pass needs no (a, b, d) array."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, kernel: Kernel) -> Tensor:
        a, b = A.detach().numpy(), B.detach().numpy()
        values, slopes = CORRELATIONS[kernel](scaled_squares(a, b))
        ctx.slopes, ctx.points = slopes, (a, b)
        return torch.from_numpy(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        a, b = ctx.points
        weights, (left, right, _) = by_value.numpy() * ctx.slopes, ctx.needs_input_grad
        return (
            torch.from_numpy(pulled(weights, a, b)) if left else None,
            torch.from_numpy(pulled(weights.T, b, a)) if right else None,
            None,
        )
