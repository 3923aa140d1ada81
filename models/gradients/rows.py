"""Rows that a stationary Gaussian process is conditioned on: values at designs, or values and derivatives there.

A derivative here is that by z = x / l, as in ``models.gradients.covariance``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.gaussian.covariance import CORRELATIONS, covariance, pulled, scaled_squares
from fieldcraft.models.gradients.covariance import cross, cross_slopes, joint
from fieldcraft.models.gradients.fit import noises
from fieldcraft.models.linear.conditioning import Factor, leave_one_out
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Function

Pull = Callable[[Array], Array]
"""Gradients by X (c, d) of sums over the rows, of factors (rows,) or (c, rows) times the covariance, shape (c, d)."""


@dataclass(frozen=True, eq=False)
class Values:
    """Values, at designs, of a process of unit variance.

    Args:
        kernel: Kind of correlation.
        X: Encoded designs, shape (n, d).
        scales: Length scales in encoded coordinates, shape (d,).
    """

    kernel: Kernel
    X: Tensor
    scales: Tensor

    @property
    def of_values(self) -> Tensor:
        """1 for a value and 0 for a derivative, shape (rows,)."""
        return torch.ones(len(self.X), dtype=self.X.dtype)

    def covariance(self) -> Tensor:
        """Prior covariance of the rows, shape (rows, rows)."""
        return self.cross(self.X)

    def cross(self, X: Tensor) -> Tensor:
        """Prior covariance of the rows with values at X (c, d), shape (rows, c), differentiable once."""
        return covariance(self.kernel, self.X, X, self.scales)

    def pulling(self, X: Tensor) -> tuple[Array, Pull]:
        """Transpose of ``cross``, shape (c, rows), and its gradients by X."""
        scales = self.scales.numpy()
        x, trained = X.detach().numpy() / scales, self.X.numpy() / scales
        values, by_square = CORRELATIONS[self.kernel](scaled_squares(x, trained))
        return values, lambda factors: pulled(by_square * factors, x, trained) / scales

    def noises(self, variance: float) -> float | Tensor:
        """Noise variance of the rows, a number or (rows,), where that of a value is given."""
        return variance

    def read(self, function: Function) -> Tensor:
        """The rows of a function, shape (rows,)."""
        return function(self.X)

    def left_out(self, factor: Factor, y: Tensor) -> Tensor:
        """log density of each design's value given the rows of all others, shape (n,).

        Args:
            factor: Of the rows' covariance and noise.
            y: The rows less their mean, shape (rows,).
        """
        return leave_one_out(factor, y)

    def grown(self, X: Tensor) -> "Values":
        """The rows with the values at X (k, d) behind them."""
        return replace(self, X=torch.cat([self.X, X]))


@dataclass(frozen=True, eq=False)
class ValuesAndSlopes(Values):
    """Values and some derivatives, at designs, of a process of unit variance.

    Args:
        known: Numbers of the rows among the value and the d derivatives of each design, n (1 + d) in all; every value
            is among them.
        noise: Noise variance of a value that that of a derivative follows from (``models.gradients.fit``).
        blur: What the noise variance of a derivative by the share of an interval has beside.
    """

    known: NDArray[np.intp]
    noise: float
    blur: float

    @property
    def of_values(self) -> Tensor:
        """1 for a value and 0 for a derivative, shape (rows,)."""
        return torch.from_numpy((self.known % (1 + self.X.shape[1]) == 0).astype(np.float64))

    def covariance(self) -> Tensor:
        """Prior covariance of the rows, shape (rows, rows)."""
        return joint(self.kernel, self._points, self._points)[self.known][:, self.known]

    def cross(self, X: Tensor) -> Tensor:
        """Prior covariance of the rows with values at X (c, d), shape (rows, c), differentiable once."""
        return cross(self.kernel, self._points, X / self.scales)[self.known]

    def pulling(self, X: Tensor) -> tuple[Array, Pull]:
        """Transpose of ``cross``, shape (c, rows), and its gradients by X."""
        points, every = X.detach() / self.scales, self.X.numel() + len(self.X)

        def pull(factors: Array) -> Array:
            weights = torch.zeros(*factors.shape[:-1], every, dtype=self.X.dtype)
            weights[..., self.known] = torch.from_numpy(factors)
            return np.asarray((cross_slopes(self.kernel, self._points, points, weights) / self.scales).numpy())

        return self.cross(X.detach()).mT.numpy(), pull

    def noises(self, variance: float) -> Tensor:
        """Noise variances of the rows, shape (rows,), where that of a value is given."""
        every = noises(self.kernel, self.known, self.scales / 2, self.noise, self.blur)
        return torch.where(self.of_values > 0, variance, every)

    def read(self, function: Function) -> Tensor:
        """The rows of a differentiable function, shape (rows,)."""
        points = self.X.clone().requires_grad_(True)
        with torch.enable_grad():
            values = function(points)
            (slopes,) = torch.autograd.grad(values.sum(), points)
        return torch.column_stack([values.detach(), slopes * self.scales]).flatten()[self.known]

    def left_out(self, factor: Factor, y: Tensor) -> Tensor:
        """log density of each design's value given the rows of all others, shape (n,), as ``GradientPosterior`` has it.

        Args:
            factor: Of the rows' covariance and noise.
            y: The rows less their mean, shape (rows,).
        """
        return left_out_together(factor, y, self.of_values)

    def grown(self, X: Tensor) -> "ValuesAndSlopes":
        """The rows with the values at X (k, d) behind them; they have no derivatives."""
        n, each = len(self.X), 1 + self.X.shape[1]
        more = each * np.arange(n, n + len(X))
        return replace(self, X=torch.cat([self.X, X]), known=np.concatenate([self.known, more]))

    @cached_property
    def _points(self) -> Tensor:
        """Designs divided by the length scales, shape (n, d)."""
        return self.X / self.scales


def left_out_together(factor: Factor, y: Tensor, of_values: Tensor) -> Tensor:
    """log density of each design's value given the others' rows, its own derivatives left out too, shape (n,).

    With P = S^-1 and the rows R of a design, the errors of R by the other rows have the mean P_RR^-1 (P y)_R and the
    covariance P_RR^-1, of which the value's own is taken.

    Args:
        factor: Of S, the covariance of the rows with their noise.
        y: The rows less their mean, shape (rows,): the value of a design, then its derivatives.
        of_values: 1 for a value and 0 for a derivative, shape (rows,).
    """
    precision, weights = torch.cholesky_inverse(factor.lower), factor.solve(y)
    found = []
    for rows in np.split(np.arange(len(y)), np.flatnonzero(of_values.numpy())[1:]):
        covariance = torch.linalg.inv(precision[rows][:, rows])
        error, variance = covariance[0] @ weights[rows], covariance[0, 0]
        found.append(-0.5 * (error.square() / variance + variance.log() + math.log(2 * math.pi)))
    return torch.stack(found)
