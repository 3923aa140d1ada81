"""Collocation points, at which an equation and conditions on the sides of its domain are imposed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.parametric.statement import Condition

Array = NDArray[np.float64]
Scheme = Literal["uniform", "latin_hypercube", "sobol"]

# As many times the points are drawn at most, until a mask leaves enough of them.
_MOST_DRAWS = 1024
# On a side there are as many points as the domain has along it, times this: they cost less and say more.
_DENSER = 2


@dataclass(frozen=True, eq=False)
class CollocationPoints:
    """Points of a domain of d axes, in physical units.

    Args:
        inside: Points at which the equation is imposed, shape (r, d).
        sides: Points at which each condition is imposed, in the order of the conditions, each (m, d).
    """

    inside: Array
    sides: tuple[Array, ...] = ()


def collocate(domain: Domain, n: int, scheme: Scheme, rng: np.random.Generator) -> Array:
    """Points in a domain, shape (n, d), in physical units.

    Args:
        domain: The box of d axes, or the part of it that a mask leaves.
        n: Number of points, at least 1. Sobol points are balanced only when n is a power of two.
        scheme: ``uniform``: independent points. ``latin_hypercube``: one point in each of n equal slices of every
            axis (McKay, Beckman and Conover, 1979). ``sobol``: the first n of a scrambled Sobol sequence (Owen, 1998).
            With a mask, the first n that it leaves of 2, 4, 8, ... times as many.
        rng: The only source of randomness.

    Raises:
        ValueError: n below 1, an unknown scheme, or a mask that leaves nearly nothing of the box.
    """
    if n < 1:
        raise ValueError(f"{n} collocation points are asked for: ask for at least 1.")
    if domain.mask is None:
        return _in_box(domain.bounds, n, scheme, rng)
    seed, drawn = int(rng.integers(2**63 - 1)), n
    while drawn <= _MOST_DRAWS * n:
        points = _in_box(domain.bounds, drawn, scheme, np.random.default_rng(seed))
        points = points[domain.contains(points)]
        if len(points) >= n:
            return points[:n]
        drawn *= 2
    raise ValueError(
        f"The domain's mask left {len(points)} of {drawn // 2} points of its box: state a smaller box around the "
        "domain, or correct the mask."
    )


def on_side(domain: Domain, condition: Condition, n: int, scheme: Scheme, rng: np.random.Generator) -> Array:
    """Points of the side of a domain on which a condition holds, shape (m, d), in physical units.

    Args:
        domain: The box, or the part of it that a mask leaves.
        condition: The condition, which names the side.
        n: Number of points on the side of the whole box; a mask leaves m of them. In one dimension the side is a point.
        scheme: See ``collocate``.
        rng: The only source of randomness.

    Raises:
        ValueError: no such axis, or no point of the side belongs to the domain.
    """
    if condition.axis not in domain.names:
        raise ValueError(
            f"A condition names the axis {condition.axis!r}: the domain has the axes {', '.join(domain.names)}."
        )
    axis = domain.names.index(condition.axis)
    at = domain.bounds[0 if condition.end == "low" else 1, axis]
    others = np.delete(domain.bounds, axis, axis=1)
    along = _in_box(others, n, scheme, rng) if others.shape[1] else np.empty((1, 0))
    points = np.insert(along, axis, at, axis=1)
    points = points[domain.contains(points)]
    if not len(points):
        raise ValueError(
            f"A condition holds at the {condition.end} end of {condition.axis!r}, where the domain's mask leaves "
            "nothing: leave the condition out, or correct the mask."
        )
    return points


def collocated(
    domain: Domain,
    conditions: tuple[Condition, ...],
    n: int,
    scheme: Scheme,
    stream: Callable[[int], np.random.Generator],
) -> CollocationPoints:
    """Points in a domain and on each side with a condition.

    Args:
        domain: The box, or the part of it that a mask leaves.
        conditions: Conditions on its sides.
        n: Number of points inside. On a side there are 2 n^((d - 1) / d), rounded up.
        scheme: See ``collocate``.
        stream: The generator of a slot: 0 draws the points inside, k those of the k-th condition.

    Raises:
        ValueError: see ``collocate`` and ``on_side``.
    """
    d = len(domain.axes)
    along = math.ceil(_DENSER * n ** ((d - 1) / d))
    sides = (on_side(domain, each, along, scheme, stream(k)) for k, each in enumerate(conditions, start=1))
    return CollocationPoints(collocate(domain, n, scheme, stream(0)), tuple(sides))


def _in_box(bounds: Array, n: int, scheme: Scheme, rng: np.random.Generator) -> Array:
    """Points (n, d) of a box, given by its bounds (2, d)."""
    d = bounds.shape[1]
    if scheme == "uniform":
        cube = rng.random((n, d))
    elif scheme == "latin_hypercube":
        slices = np.stack([rng.permutation(n) for _ in range(d)], axis=1)
        cube = (slices + rng.random((n, d))) / n
    elif scheme == "sobol":
        cube = _sobol(n, d, rng)
    else:
        raise ValueError(f"No collocation scheme {scheme!r}: choose uniform, latin_hypercube or sobol.")
    low, high = bounds
    return np.asarray(np.clip(low + cube * (high - low), low, high))


def _sobol(n: int, d: int, rng: np.random.Generator) -> Array:
    from scipy.stats import qmc

    engine = qmc.Sobol(d, scramble=True, rng=rng)
    # Drawn by the next power of two and cut: the first n are the same, and scipy does not warn of lost balance.
    points: Array = engine.random_base2((n - 1).bit_length())
    return points[:n]
