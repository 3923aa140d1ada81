"""Fully connected networks with derivatives in the input, written out.

``h(x; theta) = W_L psi(W_{L-1} ... psi(W_1 [x, 1]))`` with every layer divided by the square root of its fan-in and
standard normal weights: outputs keep their size at any width and depth. The constant input coordinate is the bias.
``k`` networks of one shape are carried together: ``theta`` is (k, p) and every product is a batched one.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Activation = Literal["tanh", "sine"]


@dataclass(frozen=True)
class Streams:
    """A network's outputs and their derivatives by the input.

    Args:
        value: h, shape (k, n).
        gradient: First derivatives, shape (k, n, d).
        second: sum_ij C_s,ij d2h/dx_i dx_j for each quadratic form C_s, shape (k, n, s).
    """

    value: Tensor
    gradient: Tensor
    second: Tensor


def derivatives(z: Tensor, kind: Activation) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """psi and its first three derivatives at z."""
    if kind == "sine":
        sine, cosine = torch.sin(z), torch.cos(z)
        return sine, cosine, -sine, -cosine
    t = torch.tanh(z)
    slope = 1 - t * t
    bend = -2 * t * slope
    return t, slope, bend, -2 * (slope * slope + t * bend)


def hessian_forms(dimension: int, like: Tensor) -> Tensor:
    """Forms whose ``second`` are the entries (i, j), i <= j, of the Hessian row by row: shape (d (d+1)/2, 1, d, d)."""
    rows, columns = torch.triu_indices(dimension, dimension)
    forms = torch.zeros(len(rows), 1, dimension, dimension, dtype=like.dtype, device=like.device)
    forms[torch.arange(len(rows)), 0, rows, columns] = 1.0
    return forms


@dataclass(frozen=True)
class Network:
    """The shape of a network with one output.

    Args:
        inputs: Number d of input coordinates (the constant one is added here).
        width: Neurons m in each hidden layer.
        depth: Number of hidden layers.
        activation: A smooth psi: a second derivative must exist for a residual to be trained.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
    """

    inputs: int
    width: int
    depth: int
    activation: Activation = "tanh"
    frequency: float = 1.0

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (out, in) of each layer's weights."""
        hidden = [(self.width, self.width)] * (self.depth - 1)
        return [(self.width, self.inputs + 1), *hidden, (1, self.width)]

    @property
    def size(self) -> int:
        """Number p of weights."""
        return sum(rows * columns for rows, columns in self.shapes)

    def initial(self, k: int, generator: torch.Generator) -> Tensor:
        """Standard normal weights of k networks, shape (k, p), float64; network i does not depend on k."""
        return torch.stack([torch.randn(self.size, generator=generator, dtype=torch.float64) for _ in range(k)])

    def layers(self, theta: Tensor) -> list[Tensor]:
        """Each layer's weights, shape (k, in, out), with their factor, ready to be multiplied from the right."""
        parts = torch.split_with_sizes(theta, [rows * columns for rows, columns in self.shapes], dim=-1)
        factors = [self.frequency, *[1.0] * self.depth]
        return [
            part.reshape(-1, *shape).mT * (factor / math.sqrt(shape[1]))
            for part, shape, factor in zip(parts, self.shapes, factors, strict=True)
        ]

    def value(self, theta: Tensor, X: Tensor) -> Tensor:
        """h at X (n, d) for each of the k networks, shape (k, n), differentiable in X and theta."""
        *hidden, last = self.layers(theta)
        return (self._through(hidden, X) @ last)[..., 0]

    def hidden(self, theta: Tensor, X: Tensor) -> Tensor:
        """Outputs of the last hidden layer at X (n, d), shape (k, n, m), differentiable in both."""
        return self._through(self.layers(theta)[:-1], X)

    def _through(self, hidden: list[Tensor], X: Tensor) -> Tensor:
        bend = torch.sin if self.activation == "sine" else torch.tanh
        a = torch.cat([X, torch.ones_like(X[:, :1])], dim=1).expand(len(hidden[0]), -1, -1)
        for weights in hidden:
            a = bend(a @ weights)
        return a

    def streams(self, theta: Tensor, X: Tensor, forms: Tensor) -> Streams:
        """h, its gradient and its second derivatives along quadratic forms, in one pass over all points.

        Args:
            theta: Weights, shape (k, p).
            X: Points, shape (n, d).
            forms: Symmetric or triangular matrices C_s, shape (s, n, d, d), or (s, 1, d, d) where they do not change
                with the point.

        With L2 = sum_ij C_ij d_i d_j at a fixed point, L2 psi(z) = psi''(z) sum_ij C_ij z_i z_j + psi'(z) L2 z, so one
        second-order stream for each form suffices, however many second derivatives the form mixes.
        """
        n, d = X.shape
        a = torch.zeros(1 + d + len(forms), n, d + 1, dtype=X.dtype, device=X.device)
        a[0, :, :d] = X
        a[0, :, d] = 1.0
        a[torch.arange(1, d + 1), :, torch.arange(d)] = 1.0
        a = a.expand(len(theta), -1, -1, -1)
        *hidden, last = self.layers(theta)
        for matrix in hidden:
            z = (a.flatten(1, 2) @ matrix).reshape(*a.shape[:3], -1)
            a = _bend(z, forms + forms.mT, self.activation)
        rows = (a.flatten(1, 2) @ last).reshape(a.shape[:3]).mT
        return Streams(value=rows[..., 0], gradient=rows[..., 1 : d + 1], second=rows[..., d + 1 :])

    def hessian(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """h (k, n), its gradient (k, n, d) and its Hessian (k, n, d, d) at X (n, d)."""
        out = self.streams(theta, X, hessian_forms(self.inputs, X))
        rows, columns = torch.triu_indices(self.inputs, self.inputs)
        place = torch.zeros(self.inputs, self.inputs, dtype=torch.long)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows))
        return out.value, out.gradient, out.second[..., place]


def _bend(z: Tensor, twice: Tensor, kind: Activation) -> Tensor:
    """psi(z), psi' z_i and psi' L_s z + psi'' sum_ij C_s,ij z_i z_j of streams (k, 1 + d + s, n, m), by C_s + C_s^T."""
    d = twice.shape[-1]
    value, slope, bend, _ = derivatives(z[:, 0], kind)
    first = z[:, 1 : d + 1]
    quadratic = 0.5 * (first[:, None] * stream_sums(first, twice)).sum(2)
    second = slope[:, None] * z[:, d + 1 :] + bend[:, None] * quadratic
    return torch.cat([value[:, None], slope[:, None] * first, second], dim=1)


def stream_sums(first: Tensor, twice: Tensor) -> Tensor:
    """sum_j (C_s + C_s^T)_ij z_j for z (k, d, n, m) and symmetrised forms (s, n | 1, d, d): (k, s, d, n, m)."""
    if twice.shape[1] > 1:
        return torch.einsum("snij,kjnm->ksinm", twice, first)
    k, d, n, m = first.shape
    return (twice[:, 0].reshape(-1, d) @ first.reshape(k, d, -1)).reshape(k, -1, d, n, m)
