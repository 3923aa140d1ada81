"""Moments, with their gradients, of a process of the tangent rows of one hidden layer.

With u = (x / l, 1), z = W u, a = psi(z), b = w psi'(z) and s = s_f / |phi|, the covariance with the result at x_j is

    k(x, x_j) = s s_j (g^2 (u . u_j) (b . b_j) + h^2 (a . a_j)) + c,    |phi|^2 = g^2 |u|^2 |b|^2 + h^2 |a|^2

where g and h are the factors of the two layers (W and w contain them). With beta = (K + noise)^-1 k(X, x),
d variance = d k(x, x) - 2 sum_j beta_j d k(x, x_j): each derivative by a and b is carried back through one layer, and
nothing is as large as points times results times neurons.

Everything may have an axis in front for c processes that are carried together: (c, k, m) where one has (k, m).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

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
        weights: W, shape (..., m, d + 1).
        outer: w, shape (..., m).
        factors: g and h.
        curves: psi.
    """

    weights: Array
    outer: Array
    factors: tuple[float, float]
    curves: Curves

    def at(self, u: Array) -> tuple[Array, Array, Array]:
        """psi, psi' and psi'' of the neurons at u (..., k, d + 1), each (..., k, m)."""
        return self.curves(u @ self.weights.mT)

    def along(self, at: "Point") -> tuple[Array, Array]:
        """The network w . psi(W u) at a point's u, shape (..., k), and its gradient (..., k, d + 1)."""
        a, slope, _ = self.at(at.u)
        slope *= self.outer[..., None, :]
        return _times(a, self.outer), slope @ self.weights


@dataclass(frozen=True, eq=False)
class Point:
    """A layer at points u (..., k, d + 1): a, b and their derivatives psi' and w psi'' by z, each (..., k, m)."""

    layer: HiddenLayer
    u: Array
    a: Array
    b: Array
    by_a: Array
    by_b: Array

    @classmethod
    def of(cls, layer: HiddenLayer, u: Array) -> "Point":
        """The layer at u."""
        a, slope, bend = layer.at(u)
        outer = layer.outer[..., None, :]
        return cls(layer, u, a, outer * slope, slope, outer * bend)

    def back(self, by_u: Array, by_a: Array, by_b: Array) -> Array:
        """Gradient by u (..., k, d + 1) of a function with these derivatives by u, a and b."""
        return np.asarray(by_u + (by_a * self.by_a + by_b * self.by_b) @ self.layer.weights)

    def length(self) -> tuple[Array, Array]:
        """|phi|^2, shape (..., k), and its gradient (..., k, d + 1)."""
        g, h = self.layer.factors
        u, b = _squares(self.u), _squares(self.b)
        value = g**2 * u * b + h**2 * _squares(self.a)
        by_u, by_b = (2 * g**2 * b)[..., None] * self.u, (2 * g**2 * u)[..., None] * self.b
        return value, self.back(by_u, 2 * h**2 * self.a, by_b)


@dataclass(frozen=True, eq=False)
class Direction:
    """<phi, v> as a mean before the factor s and without its constant.

    Args:
        inner: v of the layer's weights, shape (..., m, d + 1).
        outer: v of the output's, shape (..., m).
    """

    inner: Array
    outer: Array

    def along(self, at: Point) -> tuple[Array, Array]:
        """Its value, shape (..., k), and its gradient by u (..., k, d + 1)."""
        g, h = at.layer.factors
        moved = at.u @ self.inner.mT
        value = g * _products(at.b, moved) + h * _times(at.a, self.outer)
        return value, at.back(g * at.b @ self.inner, h * self.outer[..., None, :], g * moved)


Mean = HiddenLayer | Direction


@dataclass(frozen=True, eq=False)
class ShallowSlopes:
    """Moments of the process, with another mean if one is given.

    Args:
        layer: The network at its initial weights.
        scales: l, shape (..., d).
        output: s_f^2, shape (...).
        constant: c, shape (...).
        least: Squared length of a row up to which it is divided by the root of this; None if rows are not divided.
        read: u_j, s_j a_j and s_j b_j of the results, shapes (..., n, d + 1), (..., n, m) and (..., n, m).
        lower: Cholesky factor of the results' covariance, noise included, shape (..., n, n).
        mean: The mean.
        shift: Its constant, shape (...).
        widening: Factor of the variance, shape (...).
    """

    layer: HiddenLayer
    scales: Array
    output: Array
    constant: Array
    least: float | None
    read: tuple[Array, Array, Array]
    lower: Array
    mean: Mean
    shift: Array
    widening: Array

    @classmethod
    def stacked(cls, parts: "Sequence[ShallowSlopes]") -> "ShallowSlopes":
        """One for c processes of one network's shape with equally many results; moments are (c, n) and (c, n, d)."""
        found: ShallowSlopes = _stacked(parts)
        return found

    def __call__(self, X: Tensor) -> MomentsWithSlopes:
        """Moments at X (k, d) (see ``MomentsWithSlopes``), each with the axis of the processes in front."""
        scales = self.scales[..., None, :]
        at = Point.of(self.layer, _inputs(X, self.scales))
        length, by_length = at.length()
        s, by_s = _divided(self.output, self.least, length, by_length)
        inner, by_inner = self.mean.along(at)
        by_mean = s[..., None] * by_inner + inner[..., None] * by_s
        variance, by_variance = self._variance(at, s, by_s, length, by_length)
        by_variance[variance < 0] = 0
        return MomentsWithSlopes(
            s * inner + self.shift[..., None],
            self.widening[..., None] * np.maximum(variance, 0),
            by_mean[..., :-1] / scales,
            self.widening[..., None, None] * by_variance[..., :-1] / scales,
        )

    def _variance(self, at: Point, s: Array, by_s: Array, length: Array, by_length: Array) -> tuple[Array, Array]:
        """The variance (..., k), not cut off at zero, and its gradient by u (..., k, d + 1)."""
        (g, h), (u, a, b) = self.layer.factors, self.read
        constant = self.constant[..., None]
        inputs, backs = at.u @ u.mT, at.b @ b.mT
        products = g**2 * inputs * backs + h**2 * (at.a @ a.mT)
        half, beta = _solved(self.lower, s[..., None] * products + constant[..., None])
        seen = _products(beta, products)
        by_seen = at.back(g**2 * (beta * backs) @ u, h**2 * (beta @ a), g**2 * (beta * inputs) @ b)
        variance = s**2 * length + constant - _squares(half)
        by_prior = (s**2)[..., None] * by_length + (2 * s * length)[..., None] * by_s
        return variance, by_prior - 2 * (s[..., None] * by_seen + seen[..., None] * by_s)


@dataclass(frozen=True, eq=False)
class ShallowDraw:
    """x -> s <phi(x), v> + shift, for a direction v in weight space.

    Args:
        layer: The network at its initial weights.
        scales: l, shape (d,).
        output: s_f^2, shape ().
        least: As in ``ShallowSlopes``.
        direction: v.
        shift: A constant.
    """

    layer: HiddenLayer
    scales: Array
    output: Array
    least: float | None
    direction: Direction
    shift: float

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Values (k,) and gradients (k, d) at X (k, d)."""
        at = Point.of(self.layer, _inputs(X, self.scales))
        s, by_s = _divided(self.output, self.least, *at.length())
        value, by_value = self.direction.along(at)
        gradient = s[:, None] * by_value + value[:, None] * by_s
        return torch.from_numpy(s * value + self.shift), torch.from_numpy(gradient[:, :-1] / self.scales)

    def coarse(self, X: Tensor) -> Tensor:
        """Nearly the values (k,) at X (k, d): in single precision, which takes half the time."""
        weights, outer, inner, last = self._single
        g, h = self.layer.factors
        u: Array = np.asarray(_inputs(X, self.scales), dtype=np.float32)
        a, b, _ = self.layer.curves(u @ weights.T)
        b *= outer
        value = g * _products(b, u @ inner.T) + h * (a @ last)
        length = g**2 * _squares(u) * _squares(b) + h**2 * _squares(a)
        s = _factor(self.output, self.least, length)
        return torch.from_numpy((s * value + self.shift).astype(np.float64))

    @cached_property
    def _single(self) -> tuple[Array, ...]:
        parts = self.layer.weights, self.layer.outer, self.direction.inner, self.direction.outer
        return tuple(np.asarray(each, dtype=np.float32) for each in parts)


def _inputs(X: Tensor, scales: Array) -> Array:
    """u = (x / l, 1) at X (k, d), shape (..., k, d + 1)."""
    u = np.ones((*scales.shape[:-1], len(X), scales.shape[-1] + 1))
    u[..., :-1] = X.detach().numpy() / scales[..., None, :]
    return u


def _factor(output: Array, least: float | None, length: Array) -> Array:
    """s (..., k) from |phi|^2."""
    root = np.sqrt(output)[..., None]
    return np.full_like(length, root) if least is None else root / np.sqrt(np.maximum(length, least))


def _divided(output: Array, least: float | None, length: Array, by_length: Array) -> tuple[Array, Array]:
    """s (..., k) and its gradient (..., k, d + 1), from |phi|^2 and its own."""
    s = _factor(output, least, length)
    if least is None:
        return s, np.zeros_like(by_length)
    return s, np.where(length > least, -0.5 * s / length, 0.0)[..., None] * by_length


def _solved(lower: Array, right: Array) -> tuple[Array, Array]:
    """The rows of ``right`` (..., k, n) times L^-T, and times (L L^T)^-1."""
    half, whole = np.empty_like(right), np.empty_like(right)
    parts = (each.reshape(-1, *each.shape[-2:]) for each in (lower, right, half, whole))
    for factor, rows, first, second in zip(*parts, strict=True):
        # Transposes of what lies in order of rows are in BLAS's order of memory: nothing is copied.
        solved = dtrsm(1.0, factor.T, rows.T, trans_a=1)
        first[...], second[...] = solved.T, dtrsm(1.0, factor.T, solved).T
    return half, whole


def _stacked(parts: Sequence[Any]) -> Any:
    """Components of one form as one whose arrays are stacked; what is no array is the first's."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.stack(parts)
    if isinstance(first, tuple):
        return tuple(_stacked(each) for each in zip(*parts, strict=True))
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: _stacked([getattr(each, name) for each in parts]) for name in names})
    return first


def _products(a: Array, b: Array) -> Array:
    """Products of the rows of a and b (..., k, m), shape (..., k)."""
    return np.asarray(np.einsum("...ij,...ij->...i", a, b))


def _times(a: Array, b: Array) -> Array:
    """a (..., k, m) times b (..., m), shape (..., k)."""
    return (a @ b[..., None])[..., 0]


def _squares(rows: Array) -> Array:
    """Squared lengths of rows (..., k, m), shape (..., k)."""
    return _products(rows, rows)
