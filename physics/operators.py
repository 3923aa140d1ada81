"""Differential equations as functions of a point and of the derivatives there (a jet), in physical units.

Everything here is plain arithmetic on arrays, so that one equation serves numpy arrays and torch tensors alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

Values: TypeAlias = Any
"""A numpy array or a torch tensor: only arithmetic and indexing are asked of it, which no type states for both."""

Coefficient = float | Callable[[Values], Values]
"""A constant, or a function of the points (n, d) in physical units with one value (n,) a point."""


@dataclass(frozen=True)
class Jet:
    """A scalar field and its derivatives at n points, in physical units.

    Args:
        value: f, shape (n,).
        gradient: df/dx_i, shape (n, d).
        hessian: d2f/dx_i dx_j, shape (n, d, d).
    """

    value: Values
    gradient: Values
    hessian: Values


class Equation(Protocol):
    """A partial differential equation N[f](x) = g(x).

    ``operator`` and ``source`` get numpy arrays or torch tensors, and answer with the same kind; use arithmetic and
    indexing, and the array's own methods where more is needed.
    """

    @property
    def linear(self) -> bool:
        """Whether N is linear in f; then N of a zero jet is zero."""
        ...

    def operator(self, points: Values, jet: Jet) -> Values:
        """N[f] at the points (n, d) in physical units, from f's jet there; shape (n,)."""
        ...

    def source(self, points: Values) -> Values:
        """g at the points (n, d) in physical units; shape (n,)."""
        ...


def residual(equation: Equation, points: Values, jet: Jet) -> Values:
    """N[f] - g at the points (n, d), shape (n,); zero for a solution."""
    return equation.operator(points, jet) - equation.source(points)


def _at(coefficient: Coefficient, points: Values) -> Values:
    return coefficient(points) if callable(coefficient) else coefficient


def _vanishes(coefficient: Coefficient) -> bool:
    return not callable(coefficient) and coefficient == 0


@dataclass(frozen=True)
class LinearEquation:
    """The linear equation c f + sum_i b_i f_i + sum_ij a_ij f_ij = g, with constant or varying coefficients.

    Args:
        zeroth: c.
        first: b, one for each of the d coordinates.
        second: a, d rows of d.
        right: g; 0 for the homogeneous equation.

    Raises:
        ValueError: a shape that does not fit, a constant that is not finite, or coefficients that are all zero.
    """

    zeroth: Coefficient
    first: tuple[Coefficient, ...]
    second: tuple[tuple[Coefficient, ...], ...]
    right: Coefficient = 0.0

    linear = True

    def __post_init__(self) -> None:
        d = len(self.first)
        if d == 0 or len(self.second) != d or any(len(row) != d for row in self.second):
            raise ValueError(
                f"A linear equation has {d} first-order and {[len(row) for row in self.second]} second-order "
                "coefficients: give d of the first and d rows of d of the second."
            )
        left = (self.zeroth, *self.first, *(a for row in self.second for a in row))
        for coefficient in (*left, self.right):
            if not callable(coefficient) and not np.isfinite(coefficient):
                raise ValueError(f"A coefficient of a linear equation is {coefficient}: give a finite number.")
        if all(_vanishes(coefficient) for coefficient in left):
            raise ValueError("All coefficients of a linear equation are 0: it says nothing; leave the equation out.")

    def operator(self, points: Values, jet: Jet) -> Values:
        """c f + sum_i b_i f_i + sum_ij a_ij f_ij at the points (n, d), shape (n,)."""
        terms = [(self.zeroth, jet.value)]
        terms += [(b, jet.gradient[:, i]) for i, b in enumerate(self.first)]
        terms += [(a, jet.hessian[:, i, j]) for i, row in enumerate(self.second) for j, a in enumerate(row)]
        total = 0.0
        for coefficient, derivative in terms:
            if not _vanishes(coefficient):
                total = total + _at(coefficient, points) * derivative
        return total

    def source(self, points: Values) -> Values:
        """g at the points (n, d), shape (n,)."""
        return _at(self.right, points) + 0.0 * points[:, 0]


def _diagonal(values: tuple[Coefficient, ...]) -> tuple[tuple[Coefficient, ...], ...]:
    return tuple(tuple(a if i == j else 0.0 for j in range(len(values))) for i, a in enumerate(values))


def laplace(dimension: int) -> LinearEquation:
    """Laplace's equation, sum_i f_ii = 0: steady heat, potentials (Laplace, 1785)."""
    return LinearEquation(zeroth=0.0, first=(0.0,) * dimension, second=_diagonal((1.0,) * dimension))


def poisson(dimension: int, source: Coefficient) -> LinearEquation:
    """Poisson's equation, sum_i f_ii = g (Poisson, 1813), with g in the unit of f over length squared."""
    return LinearEquation(0.0, (0.0,) * dimension, _diagonal((1.0,) * dimension), source)


def helmholtz(dimension: int, wavenumber: float) -> LinearEquation:
    """Helmholtz's equation, sum_i f_ii + k^2 f = 0, with the wavenumber k in 1/length (Helmholtz, 1860)."""
    return LinearEquation(wavenumber**2, (0.0,) * dimension, _diagonal((1.0,) * dimension))


def advection_diffusion(
    velocity: tuple[Coefficient, ...], diffusivity: float, source: Coefficient = 0.0
) -> LinearEquation:
    """Steady advection and diffusion, u . grad f - D sum_i f_ii = g.

    Args:
        velocity: u, one component a coordinate, in length/time, free of divergence.
        diffusivity: D, in length^2/time.
        source: g, in the unit of f over time.
    """
    return LinearEquation(0.0, velocity, _diagonal((-diffusivity,) * len(velocity)), source)
