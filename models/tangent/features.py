"""The tangent algebra of a network: rows phi(x) = dh(x; theta)/dtheta, never built if p is large.

One pass forwards and one backwards give, for every layer l and point x, the layer's inputs A_l(x) and the output's
sensitivities B_l(x) to the layer's outputs. With the explicit factor s_l on the weights and b_std on the bias,

    phi(x) = (s_l B_l(x) A_l(x)^T, b_std B_l(x))_l
    k(x, x') = <phi(x), phi(x')> = sum_l (s_l^2 A_l(x).A_l(x') + b_std^2) (B_l(x).B_l(x'))
    <phi(x), v> = sum_l s_l B_l(x)^T V_l A_l(x) + b_std B_l(x).c_l,    v = (V_l, c_l)_l
    Phi^T w = (s_l B_l^T diag(w) A_l, b_std B_l^T w)_l

at O(n n' m), O(p) a point and O(p) a point (Jacot, Gabriel and Hongler, 2018; methods.md section 0). Where one row is a
sum over t streams, as for a convolution's positions or for an operator's derivatives, A and B carry an axis for them
and the products are summed over all pairs of streams.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Activation = Literal["relu", "tanh", "erf", "sine"]
Init = Literal["gaussian", "antisymmetric", "zero_last_layer"]

_ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sine": torch.sin,
}

# Neurons from which a kernel's error, of the order of their number to the power -1/2, moves no hyper-parameter much.
_WIDE = 256
ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Layer:
    """Contribution of one linear layer to the rows of n points.

    Args:
        inputs: A, shape (..., n, t, fan_in), for t streams.
        sensitivities: B, shape (..., n, t, fan_out).
        factor: s, the explicit factor on the layer's standard normal weights (negative in the second of a pair).
        bias: b_std, the factor on its bias weights; 0 where it has none.
    """

    inputs: Tensor
    sensitivities: Tensor
    factor: float
    bias: float = 0.0

    @property
    def size(self) -> int:
        """Number of the layer's weights, its bias counted."""
        return self.sensitivities.shape[-1] * (self.inputs.shape[-1] + (self.bias != 0))

    def times(self, number: float) -> "Layer":
        """The layer of a network multiplied by a number."""
        return Layer(self.inputs, self.sensitivities, self.factor * number, self.bias * number)

    def rows(self) -> Tensor:
        """The layer's part of phi, shape (..., n, size): weights row by row, then bias."""
        parts = [self.factor * (self.sensitivities.mT @ self.inputs).flatten(-2)]
        if self.bias:
            parts.append(self.bias * self.sensitivities.sum(-2))
        return torch.cat(parts, dim=-1)


@dataclass(frozen=True)
class Passes:
    """Rows of n points, layer by layer in the order of theta."""

    layers: tuple[Layer, ...]

    @property
    def size(self) -> int:
        """Number p of weights."""
        return sum(layer.size for layer in self.layers)


class TangentFeatures(ABC):
    """A network h(x; theta) with one output, whose tangent rows this module's functions use.

    ``theta`` is (..., p), or (..., 2p) for the antisymmetric pair (h(x; w) - h(x; w'))/sqrt(2), theta = (w, w').
    Leading axes are networks of one shape carried together, and X is (n, d) or (..., n, d). ``width`` is the number of
    neurons in a hidden layer.
    """

    width: int

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """Number of weights of each layer, the last one's last."""

    @abstractmethod
    def single_value(self, theta: Tensor, X: Tensor) -> Tensor:
        """``value`` for weights (..., p) of no pair."""

    @abstractmethod
    def single_valued(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Passes]:
        """``valued`` for weights (..., p) of no pair."""

    @property
    def size(self) -> int:
        """Number p of weights of one network."""
        return sum(self.sizes)

    def initial(self, generator: torch.Generator, init: Init = "gaussian") -> Tensor:
        """Standard normal weights to start from, float64.

        Returns:
            Shape (p,), with a zero last layer if ``init`` states it, or (2p,) with w = w', so that h = 0 everywhere
            and the kernel is that of one network.
        """
        theta = torch.randn(self.size, generator=generator, dtype=torch.float64)
        if init == "zero_last_layer":
            theta[self.size - self.sizes[-1] :] = 0.0
        return torch.cat([theta, theta]) if init == "antisymmetric" else theta

    def value(self, theta: Tensor, X: Tensor) -> Tensor:
        """h at X, shape (..., n), differentiable in both.

        Raises:
            ValueError: theta has neither p nor 2p weights.
        """
        first, *second = self._networks(theta)
        value = self.single_value(first, X)
        return ROOT_HALF * (value - self.single_value(second[0], X)) if second else value

    def passes(self, theta: Tensor, X: Tensor) -> Passes:
        """The tangent rows at X, differentiable in both (see ``value``)."""
        return self.valued(theta, X)[1]

    def valued(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Passes]:
        """``value`` and ``passes`` at X, from one pass forwards."""
        (value, rows), *second = (self.single_valued(weights, X) for weights in self._networks(theta))
        return (ROOT_HALF * (value - second[0][0]), paired(rows, second[0][1])) if second else (value, rows)

    def features(self, theta: Tensor, X: Tensor) -> Tensor:
        """phi(x) as explicit rows, shape (..., n, p)."""
        return explicit(self.passes(theta, X))

    def _networks(self, theta: Tensor) -> tuple[Tensor, ...]:
        """The weights of the one network, or of the two of a pair."""
        if theta.shape[-1] not in (self.size, 2 * self.size):
            raise ValueError(
                f"{theta.shape[-1]} weights do not fit a network of {self.size}: give that many, or twice for a pair."
            )
        return theta.chunk(theta.shape[-1] // self.size, dim=-1)


def gram(a: Passes, b: Passes) -> Tensor:
    """k(x_i, x'_j) between the points of two sets of rows of one network, shape (..., n, n').

    A layer with many streams for its size is multiplied out as explicit rows, which is then faster.
    """
    terms = [_layer_gram(left, right) for left, right in zip(a.layers, b.layers, strict=True)]
    return sum(terms[1:], start=terms[0])


def diagonal(a: Passes) -> Tensor:
    """k(x_i, x_i) = ||phi(x_i)||^2, shape (..., n)."""
    terms = [_layer_diagonal(layer) for layer in a.layers]
    return sum(terms[1:], start=terms[0])


def project(a: Passes, direction: Tensor) -> Tensor:
    """<phi(x_i), v>, shape (..., n), for v (..., p); several directions, (q, p), give (q, n)."""
    parts = torch.split_with_sizes(direction, [layer.size for layer in a.layers], dim=-1)
    terms = [_layer_project(layer, part) for layer, part in zip(a.layers, parts, strict=True)]
    return sum(terms[1:], start=terms[0])


def combine(a: Passes, weights: Tensor) -> Tensor:
    """Phi^T w layer by layer, never through (n, p): (..., p) for w (..., n), and (p, q) for w (n, q).

    Where the rows carry k networks, w is (k, n).
    """
    if weights.ndim == 2 and a.layers[-1].inputs.ndim == 3:
        return torch.cat([_layer_combine(layer, weights.mT) for layer in a.layers], dim=-1).mT
    return torch.cat([_layer_combine(layer, weights) for layer in a.layers], dim=-1)


def explicit(a: Passes) -> Tensor:
    """Phi itself, shape (..., n, p): for the primal side, where p is small, and for tests."""
    return torch.cat([layer.rows() for layer in a.layers], dim=-1)


def scaled(a: Passes, factors: Tensor) -> Passes:
    """Rows times a number each, ``factors`` (..., n); 1/sqrt(diagonal) gives the rows of the normalised kernel."""
    times = factors[..., None, None]
    return Passes(tuple(Layer(x.inputs, x.sensitivities * times, x.factor, x.bias) for x in a.layers))


def fixed(a: Passes) -> Passes:
    """The same rows without their graph.

    For a symmetric W the gradient of sum(W gram(a, a)) is that of 2 sum(W gram(a, fixed(a))), at half the work.
    """
    return Passes(tuple(Layer(x.inputs.detach(), x.sensitivities.detach(), x.factor, x.bias) for x in a.layers))


def taken(a: Passes, rows: Tensor) -> Passes:
    """The rows of some points of one network."""
    return Passes(tuple(Layer(x.inputs[rows], x.sensitivities[rows], x.factor, x.bias) for x in a.layers))


def stacked(parts: Sequence[Passes]) -> Passes:
    """Rows of c networks of one shape at equally many points, carried together: (c, n, ...)."""
    return Passes(
        tuple(
            replace(
                layers[0],
                inputs=torch.stack([layer.inputs for layer in layers]),
                sensitivities=torch.stack([layer.sensitivities for layer in layers]),
            )
            for layers in zip(*(part.layers for part in parts), strict=True)
        )
    )


def paired(first: Passes, second: Passes) -> Passes:
    """Rows of (h(x; w) - h(x; w'))/sqrt(2) by (w, w')."""
    halves = [layer.times(ROOT_HALF) for layer in first.layers], [layer.times(-ROOT_HALF) for layer in second.layers]
    return Passes((*halves[0], *halves[1]))


def _layer_gram(a: Layer, b: Layer) -> Tensor:
    t, s = a.inputs.shape[-2], b.inputs.shape[-2]
    fan_in, fan_out = a.inputs.shape[-1], a.sensitivities.shape[-1]
    if t * s * (fan_in + fan_out) > fan_in * fan_out and t * s > 1:
        return a.rows() @ b.rows().mT
    inner = a.factor * b.factor * (a.inputs.flatten(-3, -2) @ b.inputs.flatten(-3, -2).mT)
    if a.bias:
        inner = inner + a.bias * b.bias
    if fan_out > 1 or t * s > 1:
        inner = inner * (a.sensitivities.flatten(-3, -2) @ b.sensitivities.flatten(-3, -2).mT)
    else:
        inner = inner * a.sensitivities[..., 0, :] * b.sensitivities[..., 0, :].mT
    if t * s == 1:
        return inner
    n, m = a.inputs.shape[-3], b.inputs.shape[-3]
    return inner.reshape(*inner.shape[:-2], n, t, m, s).sum((-3, -1))


def _layer_diagonal(a: Layer) -> Tensor:
    if a.inputs.shape[-2] == 1:
        inner = a.factor**2 * a.inputs.square().sum((-2, -1)) + a.bias**2
        return inner * a.sensitivities.square().sum((-2, -1))
    inner = a.factor**2 * (a.inputs @ a.inputs.mT) + a.bias**2
    return (inner * (a.sensitivities @ a.sensitivities.mT)).sum((-2, -1))


def _layer_project(a: Layer, part: Tensor) -> Tensor:
    """Projection of one layer, contracted over the wider of its two sides first, which leaves the narrow one."""
    fan_in, fan_out = a.inputs.shape[-1], a.sensitivities.shape[-1]
    n, t = a.inputs.shape[-3:-1]
    matrix = part[..., : fan_in * fan_out].reshape(*part.shape[:-1], fan_out, fan_in)
    inputs, sensitivities = a.inputs.flatten(-3, -2), a.sensitivities.flatten(-3, -2)
    if fan_in < fan_out:
        rows = (sensitivities @ matrix * inputs).sum(-1) * a.factor
    else:
        rows = (inputs @ matrix.mT * sensitivities).sum(-1) * a.factor
    if a.bias:
        rows = rows + a.bias * (sensitivities @ part[..., fan_in * fan_out :, None])[..., 0]
    return rows.reshape(*rows.shape[:-1], n, t).sum(-1)


def _layer_combine(a: Layer, weights: Tensor) -> Tensor:
    weighted = (a.sensitivities * weights[..., None, None]).flatten(-3, -2)
    parts = [a.factor * (weighted.mT @ a.inputs.flatten(-3, -2)).flatten(-2)]
    if a.bias:
        parts.append(a.bias * weighted.sum(-2))
    return torch.cat(parts, dim=-1)


def activated(z: Tensor, kind: Activation) -> Tensor:
    """psi at z, differentiable in z."""
    return _ACTIVATIONS[kind](z)


def activate(z: Tensor, kind: Activation) -> tuple[Tensor, Tensor]:
    """psi and psi' at z, both differentiable in z (relu's slope is a step: its own derivative is 0)."""
    a = activated(z, kind)
    if kind == "relu":
        return a, (z > 0).to(z.dtype)
    if kind == "tanh":
        return a, 1 - a * a
    if kind == "erf":
        return a, (2 / math.sqrt(math.pi)) * torch.exp(-z * z)
    return a, torch.cos(z)


@dataclass(frozen=True)
class Perceptron(TangentFeatures):
    """A fully connected network in the tangent parametrisation (see ``TangentFeatures`` for the shapes).

    z_l = w_std / sqrt(fan_in) W_l a_{l-1} + b_std b_l, a_l = psi(z_l), a_0 = (x, 1), h = z_L, all weights standard
    normal. The constant input coordinate is always included, so that the features are zero nowhere.

    Args:
        inputs: Number d of input coordinates (the constant one is added here).
        width: Neurons m in each hidden layer.
        depth: Number of hidden layers.
        activation: psi.
        w_std: Factor on every layer's weights; sqrt(2) keeps the size of a relu network.
        b_std: Factor on the bias weights; without it there are none.
    """

    inputs: int
    width: int
    depth: int = 1
    activation: Activation = "relu"
    w_std: float = 1.0
    b_std: float = 0.0

    @property
    def is_wide_sine(self) -> bool:
        """True for one hidden layer of sines without biases, wide enough that its kernel is that of the limit."""
        return (self.depth, self.activation, self.b_std) == (1, "sine", 0.0) and self.width >= _WIDE

    @property
    def gain(self) -> float:
        """Factor w_std / sqrt(d + 1) of the first layer's inputs."""
        return self.w_std / math.sqrt(self.inputs + 1)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (out, in) of each layer's weights."""
        hidden = [(self.width, self.width)] * (self.depth - 1)
        return [(self.width, self.inputs + 1), *hidden, (1, self.width)]

    @property
    def sizes(self) -> list[int]:
        """Number of weights of each layer, its bias counted."""
        return [rows * (columns + (self.b_std > 0)) for rows, columns in self.shapes]

    def single_value(self, theta: Tensor, X: Tensor) -> Tensor:
        """h at X for weights (..., p), shape (..., n)."""
        *hidden, last = self._weights(theta)
        a = with_constant(X)
        for matrix, bias in hidden:
            a = activated(_linear(a, matrix, bias), self.activation)
        return _linear(a, *last)[..., 0]

    def single_valued(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Passes]:
        """h and the tangent rows at X for weights (..., p)."""
        weights = self._weights(theta)
        inputs, slopes = [with_constant(X)], []
        for matrix, bias in weights[:-1]:
            a, slope = activate(_linear(inputs[-1], matrix, bias), self.activation)
            inputs.append(a)
            slopes.append(slope)
        rows = Passes(self._layers(inputs, self._backwards(weights, slopes, inputs[-1])))
        return _linear(inputs[-1], *weights[-1])[..., 0], rows

    def _layers(self, inputs: Sequence[Tensor], sensitivities: Sequence[Tensor]) -> tuple[Layer, ...]:
        factors = [self.w_std / math.sqrt(columns) for _, columns in self.shapes]
        return tuple(
            Layer(a[..., :, None, :], b[..., :, None, :], factor, self.b_std)
            for a, b, factor in zip(inputs, sensitivities, factors, strict=True)
        )

    def _backwards(
        self, weights: list[tuple[Tensor, Tensor | None]], slopes: list[Tensor], last_inputs: Tensor
    ) -> list[Tensor]:
        sensitivities = [torch.ones_like(last_inputs[..., :1])]
        for (matrix, _), slope in zip(reversed(weights[1:]), reversed(slopes), strict=True):
            above = sensitivities[-1]
            sensitivities.append((matrix if above is sensitivities[0] else above @ matrix) * slope)
        return sensitivities[::-1]

    def _weights(self, theta: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """Each layer's weights (..., out, in) and bias (..., out) with their factors."""
        weights: list[tuple[Tensor, Tensor | None]] = []
        parts = torch.split_with_sizes(theta, self.sizes, dim=-1)
        for part, (rows, columns) in zip(parts, self.shapes, strict=True):
            matrix = part[..., : rows * columns].reshape(*part.shape[:-1], rows, columns)
            bias = self.b_std * part[..., rows * columns :] if self.b_std > 0 else None
            weights.append((matrix * (self.w_std / math.sqrt(columns)), bias))
        return weights


def _linear(a: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    z = a @ matrix.mT
    return z if bias is None else z + bias[..., None, :]


def with_constant(X: Tensor) -> Tensor:
    """X (..., n, d) and the constant coordinate, shape (..., n, d + 1)."""
    return torch.cat([X, X.new_ones((*X.shape[:-1], 1))], dim=-1)
