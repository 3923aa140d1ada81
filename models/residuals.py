"""The residual of an equation in the units a surrogate learns in: encoded coordinates, standardised targets.

A reading is ``y = mean + sign sd t``. With ``N`` linear, ``N[y] = g`` becomes ``N[t] = sign (g - mean N[1]) / sd``, and
a derivative by a physical variable is the one by its encoded coordinate divided by ``half``. Every residual is divided
by the operator's largest encoded coefficient, so that one weight suits all equations and units.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.networks import Streams, hessian_forms
from models.observations import Array, Physics, Scaling
from physics.operators import Jet


def _probe(physics: Physics, points: Array, value: float, slot: tuple[int, ...] | None) -> Array:
    """N at points (r, d) of a jet that is zero but for one number: its value, or the derivative that ``slot`` names."""
    r, d = points.shape
    jet = Jet(value=np.zeros(r), gradient=np.zeros((r, d)), hessian=np.zeros((r, d, d)))
    if slot is None:
        jet.value[:] = value
    elif len(slot) == 1:
        jet.gradient[:, slot[0]] = value / physics.half[slot[0]]
    else:
        jet.hessian[:, slot[0], slot[1]] = value / (physics.half[slot[0]] * physics.half[slot[1]])
    return np.broadcast_to(np.asarray(physics.equation.operator(points, jet), dtype=np.float64), (r,))


def _slots(d: int) -> list[tuple[int, ...] | None]:
    return [None, *[(i,) for i in range(d)], *[(i, j) for i in range(d) for j in range(d)]]


def _source(physics: Physics, points: Array) -> Array:
    return np.broadcast_to(np.asarray(physics.equation.source(points), dtype=np.float64), points.shape[:1])


def _refuse_empty(scale: float) -> None:
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(
            f"The equation's largest coefficient over its collocation points is {scale}: it must be finite and not "
            "zero; check the operator, or leave the equation out."
        )


@dataclass(frozen=True)
class LinearOperator:
    """A linear N at r points, by encoded derivatives: N[t] = zeroth t + first . grad t + sum_ij second_ij t_ij.

    Args:
        zeroth: Shape (r,).
        first: Shape (r, d).
        second: Shape (r, d, d).
        source: g, shape (r,), in the unit of N[y].
        scale: What all four were divided by: the largest encoded coefficient.
    """

    zeroth: Array
    first: Array
    second: Array
    source: Array
    scale: float

    def target_source(self, scaling: Scaling) -> Array:
        """Right-hand side for the target, sign (g - mean N[1]) / sd, shape (r,)."""
        return np.asarray(scaling.sign * (self.source - scaling.mean * self.zeroth) / scaling.sd)


def linear_operator(physics: Physics, points: Array) -> LinearOperator:
    """Read a linear equation's coefficients at physical points (r, d) off its values on unit jets.

    Nothing but ``operator`` and ``source`` is asked of the equation, so one that a user wrote is as fast as ours.
    """
    d = points.shape[1]
    found = np.stack([_probe(physics, points, 1.0, slot) for slot in _slots(d)])
    scale = float(np.max(np.abs(found)))
    _refuse_empty(scale)
    found = found / scale
    second = found[1 + d :].T.reshape(-1, d, d)
    return LinearOperator(
        zeroth=found[0],
        first=found[1 : 1 + d].T,
        second=(second + second.transpose(0, 2, 1)) / 2,
        source=_source(physics, points) / scale,
        scale=scale,
    )


@dataclass(frozen=True)
class LinearResidual:
    """Residual of a linear equation; its second-order part is one quadratic form.

    Args:
        points: Collocation points, encoded, shape (r, d).
        forms: The second-order coefficients, shape (1, r, d, d), or (1, 1, d, d) where they are constant.
        zeroth: Shape (r,).
        first: Shape (r, d).
        source: Right-hand side for the target, shape (r,).
    """

    points: Tensor
    forms: Tensor
    zeroth: Tensor
    first: Tensor
    source: Tensor

    def rows(self, streams: Streams) -> Tensor:
        """N[t] - g of the target, shape (k, r)."""
        return self.image(streams) - self.source

    def image(self, streams: Streams) -> Tensor:
        """N[t], shape (k, r)."""
        first = torch.einsum("rd,krd->kr", self.first, streams.gradient)
        return self.zeroth * streams.value + first + streams.second[..., 0]


@dataclass(frozen=True)
class GeneralResidual:
    """Residual of any equation: the jet is taken to physical units and handed to the equation."""

    points: Tensor
    forms: Tensor
    physics: Physics
    scaling: Scaling
    scale: float

    def rows(self, streams: Streams) -> Tensor:
        """(N[y] - g) / (scale sd), shape (k, r)."""
        d = self.points.shape[1]
        half = torch.tensor(self.physics.half).to(self.points)
        physical = torch.tensor(self.physics.points).to(self.points)
        factor = self.scaling.sign * self.scaling.sd
        rows, columns = torch.triu_indices(d, d)
        place = torch.zeros(d, d, dtype=torch.long)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows))
        source = self.physics.equation.source(physical)
        found = []
        for value, gradient, second in zip(streams.value, streams.gradient, streams.second, strict=True):
            jet = Jet(
                value=self.scaling.mean + factor * value,
                gradient=factor * gradient / half,
                hessian=factor * second[:, place] / (half[:, None] * half),
            )
            found.append((self.physics.equation.operator(physical, jet) - source) / (self.scale * self.scaling.sd))
        return torch.stack(found)


def _general(physics: Physics, scaling: Scaling) -> GeneralResidual:
    d = physics.points.shape[1]
    rest = _probe(physics, physics.points, 0.0, None)
    probes = [_probe(physics, physics.points, scaling.sd, slot) - rest for slot in _slots(d)]
    scale = float(np.max(np.abs(probes))) / scaling.sd
    _refuse_empty(scale)
    points = torch.from_numpy(physics.encode(physics.points))
    return GeneralResidual(points, hessian_forms(d, points), physics, scaling, scale)


Residual = LinearResidual | GeneralResidual
"""What a network's outputs miss of an equation, at fixed collocation points."""


def residual(physics: Physics, scaling: Scaling) -> Residual:
    """The residual at the collocation points for targets of this scaling, float64 on the CPU."""
    if not physics.equation.linear:
        return _general(physics, scaling)
    operator = linear_operator(physics, physics.points)
    second = operator.second[:1] if np.all(operator.second == operator.second[:1]) else operator.second
    return LinearResidual(
        points=torch.from_numpy(physics.encode(physics.points)),
        forms=torch.from_numpy(second[None].copy()),
        zeroth=torch.from_numpy(operator.zeroth.copy()),
        first=torch.from_numpy(operator.first.copy()),
        source=torch.from_numpy(operator.target_source(scaling)),
    )
