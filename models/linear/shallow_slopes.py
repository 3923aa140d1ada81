"""Moments, with their gradients, of a process of the tangent rows of one hidden layer.

With u = (x / l, 1), z = W u, a = psi(z), b = w psi'(z) and s = s_f / |phi|, the covariance with the result at x_j is

    k(x, x_j) = s s_j (g^2 (u . u_j) (b . b_j) + h^2 (a . a_j)) + c,    |phi|^2 = g^2 |u|^2 |b|^2 + h^2 |a|^2

where g and h are the factors of the two layers (W and w contain them). With beta = (K + noise)^-1 k(X, x),
d variance = d k(x, x) - 2 sum_j beta_j d k(x, x_j): each derivative by a and b is carried back through one layer, and
nothing is as large as points times results times neurons.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.linalg.blas import dtrsm
from torch import Tensor

from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import MomentsWithSlopes

Curves = Callable[[Array], tuple[Array, Array, Array]]
"""psi, psi' and psi'' at z."""


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """A hidden layer of m neurons under an output.

    Args:
        weights: W, shape (m, d + 1).
        outer: w, shape (m,).
        factors: g and h.
        curves: psi.
    """

    weights: Array
    outer: Array
    factors: tuple[float, float]
    curves: Curves

    def value(self, u: Array) -> tuple[Array, Array]:
        """The network w . psi(W u) at u (k, d + 1), shape (k,), and its gradient (k, d + 1)."""
        a, slope, _ = self.curves(u @ self.weights.T)
        slope *= self.outer
        return a @ self.outer, slope @ self.weights


@dataclass(frozen=True, eq=False)
class Point:
    """A layer at points u (k, d + 1): a, b and their derivatives psi' and w psi'' by z, each (k, m)."""

    layer: HiddenLayer
    u: Array
    a: Array
    b: Array
    by_a: Array
    by_b: Array

    @classmethod
    def of(cls, layer: HiddenLayer, u: Array) -> "Point":
        """The layer at u."""
        a, slope, bend = layer.curves(u @ layer.weights.T)
        return cls(layer, u, a, layer.outer * slope, slope, layer.outer * bend)

    def back(self, by_u: Array, by_a: Array, by_b: Array) -> Array:
        """Gradient by u (k, d + 1) of a function with these derivatives by u, a and b."""
        return np.asarray(by_u + (by_a * self.by_a + by_b * self.by_b) @ self.layer.weights)

    def length(self) -> tuple[Array, Array]:
        """|phi|^2, shape (k,), and its gradient (k, d + 1)."""
        g, h = self.layer.factors
        u, b = _squares(self.u), _squares(self.b)
        value = g**2 * u * b + h**2 * _squares(self.a)
        by_u, by_b = (2 * g**2 * b)[:, None] * self.u, (2 * g**2 * u)[:, None] * self.b
        return value, self.back(by_u, 2 * h**2 * self.a, by_b)

    def along(self, inner: Array, outer: Array) -> tuple[Array, Array]:
        """<phi, (inner, outer)>, shape (k,), with its gradient, for a direction (m, d + 1) and (m,)."""
        g, h = self.layer.factors
        moved = self.u @ inner.T
        value = g * np.einsum("ij,ij->i", self.b, moved) + h * (self.a @ outer)
        return value, self.back(g * self.b @ inner, h * outer, g * moved)


Mean = Callable[[Point], tuple[Array, Array]]
"""A mean before the factor s and without its constant, shape (k,), and its gradient by u (k, d + 1)."""


@dataclass(frozen=True, eq=False)
class ShallowSlopes:
    """Moments of the process, with another mean if one is given.

    Args:
        layer: The network at its initial weights.
        scales: l, shape (d,).
        output: s_f^2.
        constant: c.
        least: Squared length of a row up to which it is divided by the root of this; None if rows are not divided.
        read: u_j, s_j a_j and s_j b_j of the results, shapes (n, d + 1), (n, m) and (n, m).
        lower: Cholesky factor of the results' covariance, noise included, shape (n, n).
        mean: The mean.
        shift: Its constant.
        widening: Factor of the variance.
    """

    layer: HiddenLayer
    scales: Array
    output: float
    constant: float
    least: float | None
    read: tuple[Array, Array, Array]
    lower: Array
    mean: Mean
    shift: float
    widening: float

    def __call__(self, X: Tensor) -> MomentsWithSlopes:
        """Moments at X (k, d) (see ``MomentsWithSlopes``)."""
        at = Point.of(self.layer, _inputs(X, self.scales))
        length, by_length = at.length()
        s, by_s = _divided(self.output, self.least, length, by_length)
        inner, by_inner = self.mean(at)
        by_mean = s[:, None] * by_inner + inner[:, None] * by_s
        variance, by_variance = self._variance(at, s, by_s, length, by_length)
        by_variance[variance < 0] = 0
        return MomentsWithSlopes(
            s * inner + self.shift,
            self.widening * np.maximum(variance, 0),
            by_mean[:, :-1] / self.scales,
            self.widening * by_variance[:, :-1] / self.scales,
        )

    def _variance(self, at: Point, s: Array, by_s: Array, length: Array, by_length: Array) -> tuple[Array, Array]:
        """The variance (k,), not cut off at zero, and its gradient by u (k, d + 1)."""
        (g, h), (u, a, b) = self.layer.factors, self.read
        inputs, backs = at.u @ u.T, at.b @ b.T
        products = g**2 * inputs * backs + h**2 * (at.a @ a.T)
        # Transposes of what lies in order of rows are in BLAS's order of memory: nothing is copied.
        half = dtrsm(1.0, self.lower.T, (s[:, None] * products + self.constant).T, trans_a=1)
        beta = dtrsm(1.0, self.lower.T, half).T
        seen = np.einsum("ij,ij->i", beta, products)
        by_seen = at.back(g**2 * (beta * backs) @ u, h**2 * (beta @ a), g**2 * (beta * inputs) @ b)
        variance = s**2 * length + self.constant - _squares(half.T)
        by_prior = (s**2)[:, None] * by_length + (2 * s * length)[:, None] * by_s
        return variance, by_prior - 2 * (s[:, None] * by_seen + seen[:, None] * by_s)


@dataclass(frozen=True, eq=False)
class ShallowDraw:
    """x -> s <phi(x), v> + shift, for a direction v = (V, v') in weight space.

    Args:
        layer: The network at its initial weights.
        scales: l, shape (d,).
        output: s_f^2.
        least: As in ``ShallowSlopes``.
        direction: V and v', shapes (m, d + 1) and (m,).
        shift: A constant.
    """

    layer: HiddenLayer
    scales: Array
    output: float
    least: float | None
    direction: tuple[Array, Array]
    shift: float

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Values (k,) and gradients (k, d) at X (k, d)."""
        at = Point.of(self.layer, _inputs(X, self.scales))
        s, by_s = _divided(self.output, self.least, *at.length())
        value, by_value = at.along(*self.direction)
        gradient = s[:, None] * by_value + value[:, None] * by_s
        return torch.from_numpy(s * value + self.shift), torch.from_numpy(gradient[:, :-1] / self.scales)

    def coarse(self, X: Tensor) -> Tensor:
        """Nearly the values (k,) at X (k, d): in single precision, which takes half the time."""
        weights, outer, inner, last = self._single
        g, h = self.layer.factors
        u: Array = np.asarray(_inputs(X, self.scales), dtype=np.float32)
        a, b, _ = self.layer.curves(u @ weights.T)
        b *= outer
        value = g * np.einsum("ij,ij->i", b, u @ inner.T) + h * (a @ last)
        length = g**2 * _squares(u) * _squares(b) + h**2 * _squares(a)
        s = _factor(self.output, self.least, length)
        return torch.from_numpy((s * value + self.shift).astype(np.float64))

    @cached_property
    def _single(self) -> tuple[Array, ...]:
        parts = self.layer.weights, self.layer.outer, *self.direction
        return tuple(np.asarray(each, dtype=np.float32) for each in parts)


def _inputs(X: Tensor, scales: Array) -> Array:
    """u = (x / l, 1) at X (k, d), shape (k, d + 1)."""
    u = np.ones((len(X), len(scales) + 1))
    u[:, :-1] = X.detach().numpy() / scales
    return u


def _factor(output: float, least: float | None, length: Array) -> Array:
    """s (k,) from |phi|^2."""
    root = output**0.5
    return np.full_like(length, root) if least is None else root / np.sqrt(np.maximum(length, least))


def _divided(output: float, least: float | None, length: Array, by_length: Array) -> tuple[Array, Array]:
    """s (k,) and its gradient (k, d + 1), from |phi|^2 and its own."""
    s = _factor(output, least, length)
    if least is None:
        return s, np.zeros_like(by_length)
    return s, np.where(length > least, -0.5 * s / length, 0.0)[:, None] * by_length


def _squares(rows: Array) -> Array:
    """Squared lengths of rows (k, m), shape (k,)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
