"""Small convolutional network in the tangent parametrisation, for designs that are images.

One 3 x 3 convolution with zeros at the border, one dense layer and the output, every layer's standard normal weights
scaled by w_std / sqrt(fan_in):

    c = psi(w_std/sqrt(10) W_1 (patch, 1))                  one row of channels for each pixel
    a = psi(w_std/sqrt(fan_in) W_2 (c of all pixels, x of no image, 1))
    h = w_std/sqrt(m) W_3 a

(STO-BNTS uses 64 channels and 64 neurons: Dai et al., 2022.) Pixels are the streams of the first layer's tangent rows.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fieldcraft.models.tangent.features import Activation, Layer, Passes, TangentFeatures, activate, with_constant

_PATCH = 9


@dataclass(frozen=True)
class Convolution(TangentFeatures):
    """Network over one image, with one convolution and one dense layer (see ``TangentFeatures`` for the shapes).

    Args:
        inputs: Number d of input coordinates, the image's and all others.
        first: Index of the image's first coordinate; its pixels follow row by row.
        shape: Rows and columns of the image.
        channels: Channels of the convolution.
        width: Neurons m in the dense layer.
        activation: psi.
        w_std: Factor on every layer's weights.

    Raises:
        ValueError: the image has pixels beyond the coordinates.
    """

    inputs: int
    first: int
    shape: tuple[int, int]
    channels: int = 64
    width: int = 64
    activation: Activation = "relu"
    w_std: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.inputs - self.pixels:
            raise ValueError(
                f"An image of {self.shape[0]} x {self.shape[1]} pixels from coordinate {self.first} leaves the "
                f"{self.inputs} coordinates: correct its first coordinate or its shape."
            )

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.shape[0] * self.shape[1]

    @property
    def fans(self) -> list[tuple[int, int]]:
        """Shape (out, in) of each layer's weights; the constant coordinate is counted."""
        dense = self.pixels * self.channels + self.inputs - self.pixels + 1
        return [(self.channels, _PATCH + 1), (self.width, dense), (1, self.width)]

    @property
    def sizes(self) -> list[int]:
        """Number of weights of each layer."""
        return [rows * columns for rows, columns in self.fans]

    def single_value(self, theta: Tensor, X: Tensor) -> Tensor:
        """h at X for weights (..., p), shape (..., n)."""
        weights = self._weights(theta)
        inputs, _ = self._forwards(weights, X)
        return (inputs[-1] @ weights[-1].mT)[..., 0]

    def single_valued(self, theta: Tensor, X: Tensor) -> tuple[Tensor, Passes]:
        """h and the tangent rows at X for weights (..., p)."""
        weights = self._weights(theta)
        (patches, dense, last), (bend, slope) = self._forwards(weights, X)
        second = weights[2] * slope
        spread = (second @ weights[1])[..., : self.pixels * self.channels]
        first = spread.reshape(*spread.shape[:-1], self.pixels, self.channels) * bend
        factors = [self.w_std / math.sqrt(columns) for _, columns in self.fans]
        rows = (
            Layer(patches, first, factors[0]),
            Layer(dense[..., None, :], second[..., None, :], factors[1]),
            Layer(last[..., None, :], torch.ones_like(last[..., :1, None]), factors[2]),
        )
        return (last @ weights[2].mT)[..., 0], Passes(rows)

    def _forwards(self, weights: list[Tensor], X: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Inputs of each layer, patches (..., n, pixels, 10) first, and psi' at the two hidden layers."""
        patches = self._patches(X)
        features, bend = activate(patches @ weights[0][..., None, :, :].mT, self.activation)
        others = torch.cat([X[..., : self.first], X[..., self.first + self.pixels :]], dim=-1)
        rest = with_constant(others).expand(*features.shape[:-2], -1)
        dense = torch.cat([features.flatten(-2), rest], dim=-1)
        last, slope = activate(dense @ weights[1].mT, self.activation)
        return (patches, dense, last), (bend, slope)

    def _patches(self, X: Tensor) -> Tensor:
        """The 3 x 3 surroundings of each pixel and the constant, shape (..., n, pixels, 10)."""
        rows, columns = self.shape
        image = X[..., self.first : self.first + self.pixels].reshape(*X.shape[:-1], rows, columns)
        padded = pad(image, (1, 1, 1, 1))
        shifts = [padded[..., i : i + rows, j : j + columns].flatten(-2) for i in range(3) for j in range(3)]
        return with_constant(torch.stack(shifts, dim=-1))

    def _weights(self, theta: Tensor) -> list[Tensor]:
        """Each layer's weights (..., out, in) with their factors."""
        parts = zip(torch.split_with_sizes(theta, self.sizes, dim=-1), self.fans, strict=True)
        return [
            part.reshape(*theta.shape[:-1], rows, columns) * (self.w_std / math.sqrt(columns))
            for part, (rows, columns) in parts
        ]
