"""Residual of an equation in the units a surrogate learns in: encoded coordinates, standardised targets.

A result is ``y = mean + sign sd t`` and an auxiliary field ``a = sign size s``. With ``N`` linear, ``N[y] = g``
becomes ``N[t] = sign (g - mean N[1]) / sd``, and a derivative by a physical variable is the one by its encoded
coordinate divided by ``half``. Every equation is divided by its largest encoded coefficient, so that one weight suits
all equations and units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.networks.perceptron import Streams, hessian_forms
from fieldcraft.models.observations import Array, Physics, Scaling
from fieldcraft.physics.operators import Jet, System, as_system


def system_of(physics: Physics) -> System:
    """The equations that the physics states, as a system."""
    return as_system(physics.equation)


def _zero_jet(points: Array) -> Jet:
    r, d = points.shape
    return Jet(value=np.zeros(r), gradient=np.zeros((r, d)), hessian=np.zeros((r, d, d)))


def _probe(
    physics: Physics, points: Array, field: int, value: float, slots: Sequence[tuple[int, ...] | None] = (None,)
) -> Array:
    """N_1, ..., N_E at points (r, d), shape (slots, E, r), of jets that are zero but for one number of one field.

    That number is the field's value, or the derivative that a slot names.
    """
    system = system_of(physics)
    jets = tuple(_zero_jet(points) for _ in range(1 + len(system.sizes)))
    jet, found = jets[field], []
    for slot in slots:
        # One jet serves all: in many variables a Hessian is large, and there are as many slots as it has entries.
        if slot is None:
            at, size = jet.value, value
        elif len(slot) == 1:
            at, size = jet.gradient[:, slot[0]], value / physics.half[slot[0]]
        else:
            at, size = jet.hessian[:, slot[0], slot[1]], value / (physics.half[slot[0]] * physics.half[slot[1]])
        at[:] = size
        found.append(_stacked(system.operators(points, jets), len(points)))
        at[:] = 0.0
    return np.stack(found)


def _general_probe(physics: Physics, sizes: Sequence[float]) -> Array:
    """N_1, ..., N_E at the collocation points, shape (E, r), of jets with nonzero and unrelated numbers.

    An equation that only multiplies unknowns, such as f f_x = g, vanishes for jets with a single number.
    """
    r, d = physics.points.shape
    along = 1 + 1 / np.arange(2, d + 2)
    across = 1 + 1 / (1 + np.add.outer(np.arange(d), np.arange(d)))
    jets = tuple(
        Jet(
            value=np.full(r, size),
            gradient=np.tile(size * along / physics.half, (r, 1)),
            hessian=np.tile(size * across / np.outer(physics.half, physics.half), (r, 1, 1)),
        )
        for size in sizes
    )
    return _stacked(system_of(physics).operators(physics.points, jets), r)


def _stacked(values: Sequence[object], r: int) -> Array:
    return np.stack([np.broadcast_to(np.asarray(value, dtype=np.float64), (r,)) for value in values])


def _slots(d: int) -> list[tuple[int, ...] | None]:
    return [None, *[(i,) for i in range(d)], *[(i, j) for i in range(d) for j in range(d)]]


def _refuse_empty(scales: Array) -> None:
    for scale in scales:
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(
                f"The equation's largest coefficient over its collocation points is {scale}: it must be finite and not "
                "zero; check the operator, or leave the equation out."
            )


def sources(physics: Physics, points: Array) -> Array:
    """g_1, ..., g_E at physical points (r, d), shape (E, r).

    Raises:
        ValueError: one is not finite.
    """
    found = _stacked(system_of(physics).sources(points), len(points))
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        e, at = bad[0]
        raise ValueError(
            f"The equation's right-hand side is {found[e, at]} at {points[at].tolist()} ({len(bad)} such values): it "
            "must be finite; keep the problem's domain away from its poles, or leave the equation out."
        )
    return found


@dataclass(frozen=True)
class LinearOperator:
    """A linear N of one field at r points, by encoded derivatives: zeroth t + first . grad t + sum_ij second_ij t_ij.

    Args:
        zeroth: Shape (r,).
        first: Shape (r, d).
        second: Symmetric, shape (r, d, d).
    """

    zeroth: Array
    first: Array
    second: Array


@dataclass(frozen=True)
class LinearRow:
    """One linear equation at r points in the learner's units, sum_i N_i[field_i] = source.

    Args:
        blocks: N_i of the target and of each auxiliary field in its own size.
        source: Right-hand side, shape (r,).
        scale: Divisor of all of them: the largest coefficient before.
    """

    blocks: tuple[LinearOperator, ...]
    source: Array
    scale: float


def linear_rows(physics: Physics, scaling: Scaling, points: Array) -> tuple[LinearRow, ...]:
    """Coefficients of a linear system at physical points (r, d), read from its values on unit jets.

    Only operators and sources of the equation are used, so one that a user wrote is as fast as ours.

    Raises:
        ValueError: an equation's coefficients are all zero or not finite, or its right-hand side is not finite.
    """
    system = system_of(physics)
    d, units = points.shape[1], [1.0, *(size / scaling.sd for size in system.sizes)]
    found = np.stack([_probe(physics, points, field, unit, _slots(d)) for field, unit in enumerate(units)])
    (shift,) = _probe(physics, points, 0, scaling.mean)
    right = scaling.sign * (sources(physics, points) - shift) / scaling.sd
    scales = np.max(np.abs(found), axis=(0, 1, 3))
    _refuse_empty(scales)
    return tuple(
        LinearRow(tuple(_operator(block / scale) for block in found[:, :, e]), right[e] / scale, float(scale))
        for e, scale in enumerate(scales)
    )


def _operator(slots: Array) -> LinearOperator:
    """Operator from coefficients by slot (1 + d + d^2, r)."""
    d = round((len(slots) - 0.75) ** 0.5 - 0.5)
    second = slots[1 + d :].T.reshape(-1, d, d)
    return LinearOperator(slots[0], slots[1 : 1 + d].T, (second + second.transpose(0, 2, 1)) / 2)


def linear_operator(physics: Physics, points: Array) -> LinearOperator:
    """The operator of a single linear equation for the objective alone, at physical points (r, d).

    Raises:
        ValueError: the physics is a system with auxiliary fields or of several equations.
    """
    rows = linear_rows(physics, Scaling(mean=0.0, sd=1.0, sign=1.0), points)
    if len(rows) > 1 or len(rows[0].blocks) > 1:
        raise ValueError(
            f"The problem states {len(rows)} equations for {len(rows[0].blocks)} fields, and engine basis adds up "
            "solutions of one equation for the objective alone: use engine kernel or trained."
        )
    return rows[0].blocks[0]


@dataclass(frozen=True)
class LinearResidual:
    """Residuals of linear equations for F fields at r points.

    Args:
        points: Collocation points, encoded, shape (r, d).
        forms: Quadratic forms C_s along which second derivatives are propagated, shape (s, r | 1, d, d).
        zeroth: Shape (E, F, r).
        first: Shape (E, F, r, d).
        second: Factors of the derivatives along the forms, shape (E, F, r, s).
        source: Right-hand sides, shape (E, r).
    """

    points: Tensor
    forms: Tensor
    zeroth: Tensor
    first: Tensor
    second: Tensor
    source: Tensor

    @property
    def fields(self) -> int:
        """Number F of fields: the target and the auxiliary ones."""
        return self.zeroth.shape[1]

    def at(self, points: slice) -> "LinearResidual":
        """The residuals at some of the points."""
        forms = self.forms if self.forms.shape[1] == 1 else self.forms[:, points]
        zeroth, first, second = (part[:, :, points] for part in (self.zeroth, self.first, self.second))
        return LinearResidual(self.points[points], forms, zeroth, first, second, self.source[:, points])

    def rows(self, streams: Streams) -> Tensor:
        """N - g of each equation from streams (k, F, r, ...), shape (k, E, r)."""
        return self.image(streams) - self.source

    def linearised(self, streams: Streams) -> tuple[Tensor, Tensor]:
        """Rows (k, E, r), and their derivatives by the T streams of each field, (k, F, E, T, r)."""
        slopes = torch.cat([self.zeroth[..., None], self.first, self.second], dim=-1).permute(1, 0, 3, 2)
        return self.rows(streams), slopes.expand(len(streams.value), -1, -1, -1, -1)

    def image(self, streams: Streams) -> Tensor:
        """N of each equation from streams (k, F, r, ...), shape (k, E, r)."""
        value = torch.einsum("efr,kfr->ker", self.zeroth, streams.value)
        first = torch.einsum("efrd,kfrd->ker", self.first, streams.gradient)
        return value + first + torch.einsum("efrs,kfrs->ker", self.second, streams.second)


@dataclass(frozen=True)
class GeneralResidual:
    """Residuals of any equations: jets are converted to physical units and passed to the equations."""

    points: Tensor
    forms: Tensor
    physics: Physics
    scaling: Scaling
    scales: Tensor

    @property
    def fields(self) -> int:
        """Number F of fields: the target and the auxiliary ones."""
        return 1 + len(system_of(self.physics).sizes)

    def rows(self, streams: Streams) -> Tensor:
        """(N - g) / (scale sd) of each equation from streams (k, F, r, ...), shape (k, E, r)."""
        physical = torch.tensor(self.physics.points).to(self.points)
        system = system_of(self.physics)
        sources = system.sources(physical)
        found = []
        for each in zip(streams.value, streams.gradient, streams.second, strict=True):
            images = system.operators(physical, self._jets(*each))
            found.append(torch.stack([image - source for image, source in zip(images, sources, strict=True)]))
        return torch.stack(found) / (self.scales[:, None] * self.scaling.sd)

    def linearised(self, streams: Streams) -> tuple[Tensor, Tensor]:
        """Rows (k, E, r), and their derivatives by the T streams of each field, (k, F, E, T, r)."""
        with torch.enable_grad():
            parts = [part.clone().requires_grad_() for part in (streams.value, streams.gradient, streams.second)]
            rows = self.rows(Streams(*parts))
            found = []
            for row in rows.unbind(1):
                value, *others = torch.autograd.grad(row.sum(), parts, retain_graph=True, materialize_grads=True)
                found.append(torch.cat([value[..., None], *others], dim=-1).mT)
        return rows.detach(), torch.stack(found, dim=2)

    def _jets(self, values: Tensor, gradients: Tensor, seconds: Tensor) -> tuple[Jet, ...]:
        """Physical jets of one network's fields, from (F, r, ...)."""
        d = self.points.shape[1]
        half = torch.tensor(self.physics.half).to(self.points)
        rows, columns = torch.triu_indices(d, d)
        place = torch.zeros(d, d, dtype=torch.long)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows))
        sizes = [self.scaling.sd, *system_of(self.physics).sizes]
        means = [self.scaling.mean, *[0.0] * (len(sizes) - 1)]
        return tuple(
            Jet(
                value=mean + self.scaling.sign * size * value,
                gradient=self.scaling.sign * size * gradient / half,
                hessian=self.scaling.sign * size * second[:, place] / (half[:, None] * half),
            )
            for mean, size, value, gradient, second in zip(means, sizes, values, gradients, seconds, strict=True)
        )


def linearised_rows(physics: Physics, scaling: Scaling, at: Streams) -> tuple[LinearRow, ...]:
    """The equations to first order around fields f_0, N'[t] = g - N[f_0] + N'[f_0], at the collocation points.

    Args:
        physics: The equations.
        scaling: Scaling of the targets.
        at: Jets of the fields f_0 there, (1, F, r, ...), the second derivatives along ``hessian_forms``.
    """
    general, d = _general(physics, scaling), physics.points.shape[1]
    rows, slopes = general.linearised(at)
    streams = torch.cat([at.value[..., None], at.gradient, at.second], dim=-1)[0].mT
    found = []
    for row, slope, scale in zip(rows[0], slopes[0].unbind(1), general.scales.tolist(), strict=True):
        source = ((slope * streams).sum((0, 1)) - row).detach().numpy()
        parts = (part.numpy() for part in slope)
        blocks = tuple(_block(part[0], part[1 : 1 + d].T, part[1 + d :].T) for part in parts)
        found.append(LinearRow(blocks, source, scale))
    return tuple(found)


def _block(zeroth: Array, first: Array, upper: Array) -> LinearOperator:
    """Operator from coefficients of the value (r,), the gradient (r, d) and the Hessian's upper triangle (r, s)."""
    r, d = first.shape
    second = np.zeros((r, d, d))
    rows, columns = np.triu_indices(d)
    second[:, rows, columns] += upper / 2
    second[:, columns, rows] += upper / 2
    return LinearOperator(zeroth, first, second)


def _general(physics: Physics, scaling: Scaling) -> GeneralResidual:
    d = physics.points.shape[1]
    sources(physics, physics.points)
    (rest,) = _probe(physics, physics.points, 0, 0.0)
    sizes = [scaling.sd, *system_of(physics).sizes]
    probes = (
        np.concatenate([_probe(physics, physics.points, i, size, _slots(d)) for i, size in enumerate(sizes)]) - rest
    )
    largest = np.max(np.abs(probes), axis=(0, 2))
    if not largest.all():
        largest = np.where(largest > 0, largest, np.max(np.abs(_general_probe(physics, sizes) - rest), axis=1))
    scales = largest / scaling.sd
    _refuse_empty(scales)
    points = torch.from_numpy(physics.encode(physics.points))
    return GeneralResidual(points, hessian_forms(d, points), physics, scaling, torch.from_numpy(scales))


Residual = LinearResidual | GeneralResidual
"""What networks' outputs miss of equations, at fixed collocation points."""


def residual(physics: Physics, scaling: Scaling) -> Residual:
    """The residuals at the collocation points for targets of this scaling, float64 on the CPU."""
    if not system_of(physics).linear:
        return _general(physics, scaling)
    found = linear_rows(physics, scaling, physics.points)
    points = torch.from_numpy(physics.encode(physics.points))
    forms, second = _forms(found)

    def stacked(name: str) -> Tensor:
        return torch.from_numpy(np.stack([[getattr(block, name) for block in row.blocks] for row in found]))

    source = torch.from_numpy(np.stack([row.source for row in found]))
    return LinearResidual(points, forms, stacked("zeroth"), stacked("first"), second, source)


def _forms(rows: tuple[LinearRow, ...]) -> tuple[Tensor, Tensor]:
    """Forms (s, r | 1, d, d) to propagate, and each block's factors of them, (E, F, r, s).

    One equation of one field needs a single form, its own second-order part; several share the entries of the Hessian.
    """
    second = torch.from_numpy(np.stack([[block.second for block in row.blocks] for row in rows]))
    if second.shape[:2] == (1, 1):
        own = second[0]
        constant = bool((own == own[:, :1]).all())
        return own[:, :1] if constant else own, torch.ones_like(second[..., 0, :1])
    d = second.shape[-1]
    upper, lower = torch.triu_indices(d, d)
    twice = torch.where(upper == lower, 1.0, 2.0).to(second)
    return hessian_forms(d, second), second[..., upper, lower] * twice
