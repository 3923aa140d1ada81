"""Network of Neural-CBO: zero before training, its last layer fixed (Phan-Trong, 2024, chapter 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.tangent.features import Init, Layer, Passes, TangentFeatures, activate, with_constant


@dataclass(frozen=True)
class Mirrored(TangentFeatures):
    """a(x; W) = q^T h_L(x), h_l = relu(W_l h_{l-1}) / sqrt(m), h_0 = (x, 1), with W_1, ..., W_L trained in full.

    At W_0 the two halves of a layer are equal and not connected, W_1 = (P; P) and W_l = ((P, 0), (0, P))
    for standard normal P, and q = (q', -q') is fixed, of ones and minus ones: a(x; W_0) = 0 everywhere, and every layer
    keeps its rows. The signs in q' alternate, since neurons are exchangeable. The paper has no constant coordinate and
    assumes that x is nowhere zero.

    Args:
        inputs: Number d of input coordinates (the constant one is added here).
        width: Neurons m in each hidden layer; an odd number counts as one more.
        depth: Number L of hidden layers.
    """

    inputs: int
    width: int
    depth: int = 2

    @property
    def neurons(self) -> int:
        """Number m of neurons, even."""
        return 2 * self._half

    @property
    def sizes(self) -> list[int]:
        """Number of trained weights of each layer."""
        return [self.neurons * columns for columns in self._columns]

    def initial(self, generator: torch.Generator, init: Init = "antisymmetric") -> Tensor:
        """Initial weights W_0, float64, shape (p,).

        Raises:
            ValueError: another initialisation was requested.
        """
        if init != "antisymmetric":
            raise ValueError(f"init is {init!r}: this network has its own, with equal halves; take a Perceptron.")
        m = self._half
        first = torch.randn(m, self.inputs + 1, generator=generator, dtype=torch.float64)
        layers = [torch.cat([first, first])]
        for _ in range(self.depth - 1):
            block, zero = torch.randn(m, m, generator=generator, dtype=torch.float64), torch.zeros(m, m)
            layers.append(torch.cat([torch.cat([block, zero], dim=1), torch.cat([zero, block], dim=1)]))
        return torch.cat([layer.flatten() for layer in layers])

    def single_value(self, theta: Tensor, X: Tensor) -> Tensor:
        """a at X for weights (..., p), shape (..., n)."""
        a = with_constant(X)
        for matrix in self._weights(theta):
            a = torch.relu(a @ matrix.mT)
        return self._signed(a)

    def single_valued(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Passes]:
        """a and the tangent rows at X for weights (..., p)."""
        weights = self._weights(theta)
        inputs, slopes = [with_constant(X)], []
        for matrix in weights:
            a, slope = activate(inputs[-1] @ matrix.mT, "relu")
            inputs.append(a)
            slopes.append(slope)
        return self._signed(inputs[-1]), Passes(self._layers(inputs[:-1], self._backwards(weights, slopes)))

    @property
    def _half(self) -> int:
        return (self.width + 1) // 2

    @property
    def _columns(self) -> list[int]:
        return [self.inputs + 1, *[self.neurons] * (self.depth - 1)]

    @property
    def _factor(self) -> float:
        return 1 / math.sqrt(self.neurons)

    def _signs(self, like: Tensor) -> Tensor:
        half = torch.ones(self._half, dtype=like.dtype, device=like.device)
        half[1::2] = -1
        return half

    def _signed(self, last: Tensor) -> Tensor:
        """q^T h_L; the halves are subtracted first, so that equal ones give zero but for rounding."""
        return (last[..., : self._half] - last[..., self._half :]) @ self._signs(last)

    def _weights(self, theta: Tensor) -> list[Tensor]:
        """Each layer's weights (..., m, columns) with their factor."""
        parts = torch.split_with_sizes(theta, self.sizes, dim=-1)
        shapes = [(*theta.shape[:-1], self.neurons, columns) for columns in self._columns]
        return [self._factor * part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _backwards(self, weights: Sequence[Tensor], slopes: Sequence[Tensor]) -> list[Tensor]:
        signs = self._signs(slopes[-1])
        sensitivities = [torch.cat([signs, -signs]) * slopes[-1]]
        for matrix, slope in zip(reversed(weights[1:]), reversed(slopes[:-1]), strict=True):
            sensitivities.append((sensitivities[-1] @ matrix) * slope)
        return sensitivities[::-1]

    def _layers(self, inputs: Sequence[Tensor], sensitivities: Sequence[Tensor]) -> tuple[Layer, ...]:
        return tuple(
            Layer(a[..., :, None, :], b[..., :, None, :], self._factor)
            for a, b in zip(inputs, sensitivities, strict=True)
        )
