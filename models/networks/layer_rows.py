"""Rows of a loss of k networks and their derivatives by the weights, layer by layer and never written out.

A result is a network's value at a point; an equation's residual is a function of T = 1 + d + s numbers at a point: the
value, d first derivatives and s second ones along quadratic forms C_s. They pass through the layers as streams,

    z_t = a_t W,    a = (psi(z), psi' z_i, psi' z_s + psi'' Q_s),    Q_s = sum_ij C_s,ij z_i z_j

and back as B_t, the derivatives of a row by the streams z_t of a layer. With s_l the factor on a layer's weights,

    J = (s_l sum_t B_t a_t^T)_l,    J J^T = sum_l s_l^2 sum_tt' (B_t.B'_t') (a_t.a'_t')

so that a Gram matrix of N rows costs O(N^2 T^2 m) and not O(N^2 m^2), and no reverse pass records a graph.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.networks.perceptron import Activation, Network, derivatives, stream_sums


@dataclass(frozen=True)
class _Bent:
    """Intermediates for a hidden layer's reverse pass: psi' (K, n + r, m); at the r points psi'', psi''', streams."""

    slope: Tensor
    bend: Tensor
    third: Tensor
    streams: Tensor
    sums: Tensor
    quadratic: Tensor


@dataclass(frozen=True)
class Places:
    """Places of the streams: n points with a value alone, then the T streams of r points, stream by stream.

    Args:
        entering: Streams of the networks' input and the constant coordinate, shape (n + T r, d + 1).
        twice: C_s + C_s^T, shape (s, r | 1, d, d).
        n: Number of points with a value alone.
        r: Number of points with all streams.
        diagonal: C_s + C_s^T by its diagonals, shape (s, d, r | 1, 1), if all others of its entries are zero.
    """

    entering: Tensor
    twice: Tensor
    n: int
    r: int
    diagonal: Tensor | None = None

    @classmethod
    def of(cls, X: Tensor, points: Tensor, forms: Tensor) -> "Places":
        """Values at X (n, d) and all streams at points (r, d), along forms (s, r | 1, d, d)."""
        (n, d), r = X.shape, len(points)
        slopes = torch.zeros(1 + d + len(forms), r, d + 1, dtype=X.dtype, device=X.device)
        slopes[0, :, :d], slopes[0, :, d] = points, 1.0
        for i in range(d):
            slopes[1 + i, :, i] = 1.0
        values, twice = torch.cat([X, torch.ones_like(X[:, :1])], dim=1), forms + forms.mT
        own = twice.diagonal(dim1=-2, dim2=-1)
        plain = not len(forms) or bool((own.diag_embed() == twice).all())
        diagonal = own.mT[..., None].contiguous() if plain else None
        return cls(torch.cat([values, slopes.flatten(0, 1)]), twice, n, r, diagonal)

    @classmethod
    def values(cls, X: Tensor) -> "Places":
        """Values at X (n, d) and no more."""
        return cls.of(X, X[:0], X.new_zeros(0, 1, X.shape[1], X.shape[1]))

    @property
    def count(self) -> int:
        """T."""
        return 1 + self.twice.shape[-1] + len(self.twice)

    def forwards(self, network: Network, theta: Tensor) -> "Forwards":
        """The streams of all layers for weights (K, p)."""
        weights = network.layers(theta)
        inputs, bent = [self.entering.expand(len(theta), -1, -1)], []
        for a, kept in self._hidden(network, weights):
            inputs.append(a)
            bent.append(kept)
        return Forwards(self, network, weights, inputs, bent, (inputs[-1] @ weights[-1])[..., 0])

    def outputs(self, network: Network, theta: Tensor) -> Tensor:
        """The streams of h for weights (K, p), shape (K, n + T r)."""
        weights = network.layers(theta)
        for a, _ in self._hidden(network, weights):
            last = a
        return (last @ weights[-1])[..., 0]

    def _hidden(self, network: Network, weights: list[Tensor]) -> Iterator[tuple[Tensor, _Bent]]:
        """Streams (K, n + T r, m) behind each hidden layer in turn."""
        a: Tensor | None = None
        for matrix in weights[:-1]:
            a, kept = self._bend(self._first(matrix) if a is None else a @ matrix, network.activation)
            yield a, kept

    def _first(self, matrix: Tensor) -> Tensor:
        """Streams before the first hidden layer: the same slopes at every point, and no second derivative."""
        known, d = self.n + self.r, self.twice.shape[-1]
        found = matrix.new_zeros(len(matrix), len(self.entering), matrix.shape[2])
        torch.matmul(self.entering[:known], matrix, out=found[:, :known])
        if self.r:
            torch.unflatten(found[:, known:], 1, (-1, self.r))[:, :d] = matrix[:, :d, None]
        return found

    def _bend(self, z: Tensor, kind: Activation) -> tuple[Tensor, _Bent]:
        """Streams (K, n + T r, m) behind a hidden layer."""
        n, r, d = self.n, self.r, self.twice.shape[-1]
        value, slope, bend, third = derivatives(z[:, : n + r], kind)
        bend, third = bend[:, n:], third[:, n:]
        streams = torch.unflatten(z[:, n + r :], 1, (-1, r)) if r else z[:, None, n:]
        first = streams[:, :d]
        sums, quadratic = self._forms(first) if r else (streams, streams)
        found = torch.empty_like(z)
        found[:, : n + r] = value
        if r:
            after = torch.unflatten(found[:, n + r :], 1, (-1, r))
            torch.mul(streams, slope[:, None, n:], out=after)
            after[:, d:].addcmul_(quadratic, bend[:, None])
        return found, _Bent(slope, bend, third, streams, sums, quadratic)

    def _forms(self, first: Tensor) -> tuple[Tensor, Tensor]:
        """sum_j (C_s + C_s^T)_ij z_j (K, s, d, r, m) and Q_s (K, s, r, m) of z (K, d, r, m)."""
        sums = stream_sums(first, self.twice) if self.diagonal is None else first[:, None] * self.diagonal
        quadratic = first[:, None, 0] * sums[:, :, 0]
        for i in range(1, first.shape[1]):
            quadratic.addcmul_(first[:, None, i], sums[:, :, i])
        return sums, quadratic.mul_(0.5)


@dataclass(frozen=True)
class Forwards:
    """Streams of K networks before and behind every layer.

    Args:
        places: Places of the streams.
        network: Shape of the networks.
        weights: Each layer's weights with their factors, (K, in, out).
        inputs: Streams before each layer, (K, n + T r, in).
        bent: What the reverse pass needs of each hidden layer.
        outputs: Streams of h, shape (K, n + T r).
    """

    places: Places
    network: Network
    weights: list[Tensor]
    inputs: list[Tensor]
    bent: list[_Bent]
    outputs: Tensor

    def backwards(self, leaving: Tensor, fields: int = 1) -> "LayerRows":
        """The derivatives of rows by the weights, from those by the streams of h.

        Args:
            leaving: Shape (K, n + E T r): of n values, then of E numbers a point by its T streams. What is the number
                of a training counts for each of its networks.
            fields: Number F of networks that a training consists of, K = k F.
        """
        factors = [self.network.frequency, *[1.0] * self.network.depth]
        scales = [factor / math.sqrt(shape[1]) for factor, shape in zip(factors, self.network.shapes, strict=True)]
        own, sensitivities = leaving[..., None], [leaving[..., None]]
        for number in reversed(range(self.network.depth)):
            matrix = self.weights[number + 1].mT
            own = self._unbend(own * matrix if own.shape[2] == 1 else own @ matrix, self.bent[number])
            sensitivities.append(own)
        return LayerRows(self.places, self.inputs, sensitivities[::-1], scales, fields)

    def _unbend(self, after: Tensor, bent: _Bent) -> Tensor:
        """Sensitivities (K, n + E T r, m) to streams before a hidden layer from those behind it."""
        n, r, d = self.places.n, self.places.r, self.places.twice.shape[-1]
        found = torch.empty_like(after)
        torch.mul(after[:, :n], bent.slope[:, :n], out=found[:, :n])
        if not r:
            return found
        shape = (-1, self.places.count, r)
        own, result = torch.unflatten(after[:, n:], 1, shape), torch.unflatten(found[:, n:], 1, shape)
        torch.mul(own, bent.slope[:, None, None, n:], out=result)
        second = own[:, :, d + 1 :]
        result[:, :, 0].addcmul_(_sum_product(own[:, :, 1:], bent.streams), bent.bend[:, None])
        result[:, :, 0].addcmul_(_sum_product(second, bent.quadratic), bent.third[:, None])
        weighted = second * bent.bend[:, None, None]
        for s in range(weighted.shape[2]):
            result[:, :, 1 : d + 1].addcmul_(weighted[:, :, s : s + 1], bent.sums[:, None, s])
        return found


def _sum_product(own: Tensor, others: Tensor) -> Tensor:
    """sum_t own_t others_t of (K, E, t, r, m) and (K, t, r, m), shape (K, E, r, m)."""
    found = own[:, :, 0] * others[:, None, 0]
    for t in range(1, own.shape[2]):
        found.addcmul_(own[:, :, t], others[:, None, t])
    return found


@dataclass(frozen=True)
class LayerRows:
    """J of k trainings, N = n + E r rows each, by their weights (k, F p).

    Args:
        places: Places of the streams.
        inputs: a of each layer, (K, n + T r, in), K = k F.
        sensitivities: B of each layer, (K, n + E T r, out).
        scales: s of each layer.
        fields: F.
    """

    places: Places
    inputs: list[Tensor]
    sensitivities: list[Tensor]
    scales: list[float]
    fields: int = 1

    @property
    def equations(self) -> int:
        """E."""
        n, r = self.places.n, self.places.r
        return (self.sensitivities[0].shape[1] - n) // (self.places.count * r) if r else 0

    def gram(self) -> Tensor:
        """J J^T, shape (k, N, N): the products of each stream with itself and the later ones, and their transposes."""
        n, r, T, E = self.places.n, self.places.r, self.places.count, self.equations
        each = zip(self._repeated, self.sensitivities, self.scales, strict=True)
        layers = [(scale**2 * a, a, b) for a, b, scale in each]
        first = self._stripe(layers, 0, n)
        values = torch.unflatten(first[..., n:], -1, (E, T, r)).sum(-2).flatten(-2) if r else first[..., n:]
        found = values.new_zeros(len(values), n + E * r, n + E * r)
        found[:, :n, :n] = first[..., :n]
        found[:, :n, n:] = values
        found[:, n:, :n] = values.mT
        blocks = torch.unflatten(torch.unflatten(found[:, n:, n:], 2, (E, r)), 1, (E, r)) if r else found
        for u in range(E * T):
            stripe = torch.unflatten(self._stripe(layers, n + u * r, r), -1, (-1, r))
            e, later = u // T, stripe[..., 1 : T - u % T, :].sum(-2)
            blocks[:, e, :, e] += stripe[..., 0, :] + later + later.mT
            for other in range(e + 1, E):
                begin = other * T - u
                part = stripe[..., begin : begin + T, :].sum(-2)
                blocks[:, e, :, other] += part
                blocks[:, other, :, e] += part.mT
        return found

    def _stripe(self, layers: list[tuple[Tensor, Tensor, Tensor]], begin: int, count: int) -> Tensor:
        """Products of ``count`` streams from ``begin`` with all from there on, over layers and fields."""
        total: Tensor | None = None
        for own, a, b in layers:
            b = b[:, begin:]
            inner = own[:, begin : begin + count] @ a[:, begin:].mT
            outer = b[:, :count] * b.mT if b.shape[2] == 1 else b[:, :count] @ b.mT
            total = inner.mul_(outer) if total is None else total.addcmul_(inner, outer)
        assert total is not None
        return total if self.fields == 1 else torch.unflatten(total, 0, (-1, self.fields)).sum(1)

    @property
    def _repeated(self) -> list[Tensor]:
        """a of each layer as often as there are equations, (K, n + E T r, in)."""
        n, E = self.places.n, self.equations
        return self.inputs if E <= 1 else [torch.cat([a, *[a[:, n:]] * (E - 1)], dim=1) for a in self.inputs]

    def along(self, directions: Tensor) -> Tensor:
        """J v for v (k, F p), shape (k, N)."""
        n, r, T = self.places.n, self.places.r, self.places.count
        shapes = [(b.shape[2], a.shape[2]) for a, b in zip(self.inputs, self.sensitivities, strict=True)]
        each = directions.reshape(len(self.inputs[0]), -1)
        parts = torch.split_with_sizes(each, [out * into for out, into in shapes], dim=1)
        found: Tensor | float = 0.0
        layers = zip(self._repeated, self.sensitivities, self.scales, parts, shapes, strict=True)
        for a, b, scale, part, shape in layers:
            found = found + ((a @ torch.unflatten(scale * part, 1, shape).mT) * b).sum(-1)
        assert isinstance(found, Tensor)
        if r:
            later = torch.unflatten(found[:, n:], 1, (-1, T, r)).sum(2).flatten(1)
            found = torch.cat([found[:, :n], later], dim=1)
        return torch.unflatten(found, 0, (-1, self.fields)).sum(1)

    def summed(self) -> Tensor:
        """Sum of the rows' derivatives where E is 1, shape (k, F p)."""
        layers = zip(self.inputs, self.sensitivities, self.scales, strict=True)
        parts = [scale * (b.mT @ a).flatten(1) for a, b, scale in layers]
        return torch.unflatten(torch.cat(parts, dim=1), 0, (-1, self.fields)).flatten(1)

    def combined(self, weights: Tensor) -> Tensor:
        """J^T w for w (k, N), shape (k, F p)."""
        n, r, T, E = self.places.n, self.places.r, self.places.count, self.equations
        each = weights[:, None].expand(-1, self.fields, -1).flatten(0, 1)
        spread = each
        if r:
            later = torch.unflatten(each[:, n:], 1, (E, 1, r)).expand(-1, -1, T, -1).flatten(1)
            spread = torch.cat([each[:, :n], later], dim=1)
        parts = []
        for a, b, scale in zip(self.inputs, self.sensitivities, self.scales, strict=True):
            weighted = b * spread[..., None]
            if E > 1:
                summed = torch.unflatten(weighted[:, n:], 1, (E, -1)).sum(1)
                weighted = torch.cat([weighted[:, :n], summed], dim=1)
            parts.append(scale * (weighted.mT @ a).flatten(1))
        return torch.cat(parts, dim=1).reshape(len(weights), -1)
