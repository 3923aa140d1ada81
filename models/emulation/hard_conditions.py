"""Conditions that hold exactly: constant values by a factor before a network, no flux and repetition by its inputs."""

import math

import torch
from torch import Tensor

from fieldcraft.physics.parametric.statement import Condition, ParametricEquation


def constant(condition: Condition) -> float | None:
    """Right-hand side of a condition if that is a number."""
    return None if callable(condition.right) else float(condition.right)


def powers_of(stated: ParametricEquation, field: str) -> tuple[float | None, tuple[tuple[int, int], ...]]:
    """The value of a field on the sides where a power of the distance can hold it, and the power at every end."""
    own = [each for each in stated.conditions if each.field == field]
    known = [each for each in own if each.slope == 0 and constant(each) is not None]
    if not known:
        return None, ((0, 0),) * len(stated.domain.axes)
    value = float(constant(known[0]) or 0.0) / known[0].value
    powers = []
    for axis in stated.domain.names:
        ends = []
        for end in ("low", "high"):
            here = [each for each in own if (each.axis, each.end) == (axis, end)]
            held = any(e.slope == 0 and constant(e) == value * e.value for e in here)
            flat = any(e.value == 0 and constant(e) == 0 for e in here)
            ends.append((1 + flat) if held else 0)
        powers.append((ends[0], ends[1]))
    return value, tuple(powers)


def factor(s: Tensor, side: float, low: int, high: int) -> tuple[Tensor, Tensor, Tensor]:
    """s^low (1 - s)^high with its first and second derivative by the coordinate s * side."""

    def power(t: Tensor, p: int) -> tuple[Tensor, Tensor, Tensor]:
        one = torch.ones_like(t)
        return ((one, 0 * t, 0 * t), (t, one, 0 * t), (t * t, 2 * t, 2 * one))[p]

    f, df, ddf = power(s, low)
    g, dg, ddg = power(1 - s, high)
    return f * g, (df * g - f * dg) / side, (ddf * g - 2 * df * dg + f * ddg) / side**2


def columns_of(
    stated: ParametricEquation, insulated: tuple[bool, ...], where: Tensor
) -> list[tuple[int, Tensor, Tensor, Tensor]]:
    """Inputs of a network from places (n, d): the axis of each, its values and two derivatives by the axis, each (n,).

    Cosine and sine of an axis that repeats, the cosine of one across both of whose ends no flux goes, else a line.
    """
    columns: list[tuple[int, Tensor, Tensor, Tensor]] = []
    for i, (axis, free) in enumerate(zip(stated.domain.axes, insulated, strict=True)):
        low, high = stated.domain.bounds[:, i].tolist()
        repeats = axis.name in stated.periodic
        rate = math.pi * (2 if repeats else 1) / (high - low)
        c, q = torch.cos(rate * (where[:, i] - low)), torch.sin(rate * (where[:, i] - low))
        if repeats:
            columns += [(i, c, -rate * q, -(rate**2) * c), (i, q, rate * c, -(rate**2) * q)]
        elif free:
            columns.append((i, c, -rate * q, -(rate**2) * c))
        else:
            s = 2 * (where[:, i] - low) / (high - low) - 1
            columns.append((i, s, torch.full_like(s, 2 / (high - low)), torch.zeros_like(s)))
    return columns
