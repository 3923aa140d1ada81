"""Tangent rows of a linear operator of a network, omega(z) = d N[h](z; theta) / dtheta, layer by layer.

Value, d first derivatives and the operator's own second-order part pass through a layer together as T = d + 2 streams
a_t. With B_t the sensitivities of N[h](z) to the streams of the layer's output,

    omega(z) = (s_l sum_t B_t(z) a_t(z)^T)_l,   <omega(z), omega(z')> = sum_l s_l^2 sum_tt' (B_t.B'_t') (a_t.a'_t')

so that the joint Gram matrix of results and equation rows needs no p-vector (methods.md section 3). Both passes are
written out, so that everything may be differentiated once more: by the points (and so by an input scale), by the
coefficients and by theta.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.networks.perceptron import Activation, Network, derivatives
from fieldcraft.models.tangent.features import Layer, Passes, with_constant


@dataclass(frozen=True)
class Coefficients:
    """N[h] = zeroth h + first . grad h + sum_ij second_ij d2h/dx_i dx_j at n points, by the network's own inputs.

    Args:
        zeroth: Shape (n,).
        first: Shape (n, d).
        second: Symmetric, shape (n, d, d), or (1, d, d) where it does not change with the point.
    """

    zeroth: Tensor
    first: Tensor
    second: Tensor


def value_passes(network: Network, theta: Tensor, points: Tensor) -> Passes:
    """Rows phi of results at points (n, d), for weights (..., p)."""
    d = points.shape[1]
    return _passes(network, theta, with_constant(points)[:, None], points.new_zeros(1, d, d), points.new_ones(1, 1))


def operator_passes(network: Network, theta: Tensor, points: Tensor, coefficients: Coefficients) -> Passes:
    """Rows omega of a linear operator at points (n, d), for weights (..., p)."""
    n, d = points.shape
    zero = torch.zeros_like(points[:, :1])
    slopes = torch.eye(d, d + 1, dtype=points.dtype, device=points.device).expand(n, -1, -1)
    own = torch.cat([coefficients.first, zero], dim=1)
    entering = torch.cat([with_constant(points)[:, None], slopes, own[:, None]], dim=1)
    leaving = torch.cat([coefficients.zeroth[:, None], torch.zeros_like(points), zero + 1], dim=1)
    return _passes(network, theta, entering, coefficients.second, leaving)


def _matrices(network: Network, theta: Tensor) -> list[Tensor]:
    """Each layer's weights (..., 1, in, out) with their factors, to multiply streams (..., n, T, in)."""
    layers = network.layers(theta.reshape(-1, theta.shape[-1]))
    return [matrix.reshape(*theta.shape[:-1], 1, *matrix.shape[1:]) for matrix in layers]


def _passes(network: Network, theta: Tensor, entering: Tensor, second: Tensor, leaving: Tensor) -> Passes:
    """Rows of sum_t leaving_t (stream t of h).

    Args:
        network: The shape.
        theta: Weights, shape (..., p).
        entering: Streams of the input, shape (n, T, d + 1).
        second: C, shape (n | 1, d, d).
        leaving: Weights of the output's streams, shape (n | 1, T).
    """
    matrices = _matrices(network, theta)
    inputs, outputs = [entering], []
    for matrix in matrices[:-1]:
        outputs.append(inputs[-1] @ matrix)
        inputs.append(_bend(outputs[-1], second, network.activation))
    sensitivities = [leaving[..., None].expand(*inputs[-1].shape[:-1], 1)]
    for matrix, z in zip(reversed(matrices[1:]), reversed(outputs), strict=True):
        sensitivities.append(_unbend(sensitivities[-1] @ matrix.mT, z, second, network.activation))
    factors = [network.frequency, *[1.0] * network.depth]
    layers = zip(inputs, reversed(sensitivities), factors, network.shapes, strict=True)
    return Passes(tuple(Layer(a, b, factor / math.sqrt(columns)) for a, b, factor, (_, columns) in layers))


def _bend(z: Tensor, second: Tensor, kind: Activation) -> Tensor:
    """psi(z); psi' z_i; psi' Lz + psi'' sum_ij C_ij z_i z_j, of streams (..., n, T, m)."""
    value, one, two, _ = derivatives(z[..., :1, :], kind)
    if z.shape[-2] == 1:
        return value
    gradient = z[..., 1:-1, :]
    quadratic = (gradient * (second @ gradient)).sum(-2, keepdim=True)
    return torch.cat([value, one * gradient, one * z[..., -1:, :] + two * quadratic], dim=-2)


def _unbend(after: Tensor, z: Tensor, second: Tensor, kind: Activation) -> Tensor:
    """Sensitivities to z from those to the result of ``_bend``, both (..., n, T, m)."""
    _, one, two, three = derivatives(z[..., :1, :], kind)
    if z.shape[-2] == 1:
        return after * one
    gradient, own = z[..., 1:-1, :], after[..., -1:, :]
    mixed = second @ gradient
    quadratic = (gradient * mixed).sum(-2, keepdim=True)
    value = after[..., :1, :] * one + own * (two * z[..., -1:, :] + three * quadratic)
    value = value + two * (after[..., 1:-1, :] * gradient).sum(-2, keepdim=True)
    return torch.cat([value, after[..., 1:-1, :] * one + 2 * own * two * mixed, own * one], dim=-2)
