"""Differential equations as functions of a point and of the derivatives there (a jet), in physical units.

Everything here is plain arithmetic on arrays, so that one equation serves numpy arrays and torch tensors alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

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
        """True if N is linear in f; then N of a zero jet is zero."""
        ...

    def operator(self, points: Values, jet: Jet) -> Values:
        """N[f] at the points (n, d) in physical units, from f's jet there; shape (n,)."""
        ...

    def source(self, points: Values) -> Values:
        """g at the points (n, d) in physical units; shape (n,)."""
        ...


@runtime_checkable
class System(Protocol):
    """Coupled equations of at most second order for the objective f and auxiliary fields a_1, ..., a_q.

    N_e[f, a_1, ..., a_q](x) = g_e(x), e = 1, ..., E: the mixed form of one equation of higher order for f, such as a
    beam's (E I w'')'' = q written as w'' = M / (E I), M'' = q. Only f is ever observed.
    """

    @property
    def linear(self) -> bool:
        """True if every N_e is linear in all fields together; then N_e of zero jets is zero."""
        ...

    @property
    def sizes(self) -> tuple[float, ...]:
        """Typical magnitude of each of the q auxiliary fields, in its own unit, positive; their scale before data."""
        ...

    def operators(self, points: Values, jets: tuple[Jet, ...]) -> tuple[Values, ...]:
        """N_1, ..., N_E at the points (n, d), from the jets of f, a_1, ..., a_q there; each of shape (n,)."""
        ...

    def sources(self, points: Values) -> tuple[Values, ...]:
        """g_1, ..., g_E at the points (n, d) in physical units; each of shape (n,)."""
        ...


def residuals(system: System, points: Values, jets: tuple[Jet, ...]) -> tuple[Values, ...]:
    """N_e - g_e at the points (n, d), one (n,) for each of the E equations; zero for a solution."""
    found = zip(system.operators(points, jets), system.sources(points), strict=True)
    return tuple(image - source for image, source in found)


@dataclass(frozen=True)
class Alone:
    """A single equation as a system without auxiliary fields.

    Args:
        equation: N[f] = g.
    """

    equation: Equation

    sizes: tuple[float, ...] = ()

    @property
    def linear(self) -> bool:
        """True if N is linear."""
        return self.equation.linear

    def operators(self, points: Values, jets: tuple[Jet, ...]) -> tuple[Values, ...]:
        """N[f], once, of shape (n,)."""
        return (self.equation.operator(points, jets[0]),)

    def sources(self, points: Values) -> tuple[Values, ...]:
        """g, once, of shape (n,)."""
        return (self.equation.source(points),)


def as_system(equation: Equation | System) -> System:
    """The system itself, or the system that consists of one equation."""
    return equation if isinstance(equation, System) else Alone(equation)


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
        ValueError: a shape that does not fit, a constant that is an array or not finite, or coefficients that are all
            zero.
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
            if not callable(coefficient) and np.ndim(coefficient):
                raise ValueError(
                    f"A coefficient of a linear equation is an array of the shape {np.shape(coefficient)}: give a "
                    "number, or a function of the points."
                )
            if not callable(coefficient) and not np.isfinite(coefficient):
                raise ValueError(f"A coefficient of a linear equation is {coefficient}: give a finite number.")
        if all(_vanishes(coefficient) for coefficient in left):
            raise ValueError("All coefficients of a linear equation are 0: it says nothing; leave the equation out.")

    def operator(self, points: Values, jet: Jet) -> Values:
        """c f + sum_i b_i f_i + sum_ij a_ij f_ij at the points (n, d), shape (n,)."""
        parts, total = (jet.value, jet.gradient, jet.hessian), 0.0
        for coefficient, by in self._terms:
            total = total + _at(coefficient, points) * parts[len(by)][(slice(None), *by)]
        return total

    @cached_property
    def _terms(self) -> tuple[tuple[Coefficient, tuple[int, ...]], ...]:
        """Coefficients that do not vanish, each with the coordinates by which f is derived."""
        terms: list[tuple[Coefficient, tuple[int, ...]]] = [(self.zeroth, ())]
        terms += [(b, (i,)) for i, b in enumerate(self.first)]
        terms += [(a, (i, j)) for i, row in enumerate(self.second) for j, a in enumerate(row)]
        return tuple(each for each in terms if not _vanishes(each[0]))

    def source(self, points: Values) -> Values:
        """g at the points (n, d), shape (n,).

        Raises:
            ValueError: its function gives another number of values.
        """
        right = _at(self.right, points)
        shape = tuple(np.shape(right))
        if shape and shape[-1] not in (1, len(points)):
            raise ValueError(
                f"The right-hand side of an equation gave an array of the shape {shape} at {len(points)} points: it "
                f"must be one number for each, ({len(points)},)."
            )
        return right + 0.0 * points[:, 0]


@dataclass(frozen=True)
class LinearSystem:
    """Linear equations for f and auxiliary fields, sum_i N_ei[field_i] = g_e, field_0 = f.

    Args:
        blocks: N_ei, one row for each equation, one entry for each field (f first); None where a field does not occur.
            g_e is the sum of the right-hand sides of its blocks.
        sizes: Typical magnitude of each auxiliary field, in its own unit, positive.

    Raises:
        ValueError: rows that do not have one entry for each field, an empty one, one for another dimension, or a
            magnitude that is not positive.

    A beam of variable stiffness, w'' = M / EI(x) and M'' = q, over one coordinate x:

        bend = LinearEquation(0.0, (0.0,), ((1.0,),))
        moment = LinearEquation(lambda x: -1 / stiffness(x), (0.0,), ((0.0,),))
        load = LinearEquation(0.0, (0.0,), ((1.0,),), right=q)
        LinearSystem(blocks=((bend, moment), (None, load)), sizes=(1.0,))
    """

    blocks: tuple[tuple[LinearEquation | None, ...], ...]
    sizes: tuple[float, ...]

    linear = True

    def __post_init__(self) -> None:
        fields = 1 + len(self.sizes)
        if not self.blocks or any(len(row) != fields or not any(row) for row in self.blocks):
            raise ValueError(
                f"A system of f and {len(self.sizes)} auxiliary fields has rows of {[len(row) for row in self.blocks]} "
                f"blocks: give every row {fields} blocks, at least one of them not None."
            )
        dimensions = {len(block.first) for row in self.blocks for block in row if block is not None}
        if len(dimensions) != 1:
            raise ValueError(f"The blocks of a system have {sorted(dimensions)} coordinates: all must have the same.")
        for size in self.sizes:
            if not (np.isfinite(size) and size > 0):
                raise ValueError(f"An auxiliary field's magnitude is {size}: give a positive number in its unit.")

    def operators(self, points: Values, jets: tuple[Jet, ...]) -> tuple[Values, ...]:
        """sum_i N_ei[field_i] of each row at the points (n, d), each of shape (n,)."""
        return tuple(
            sum(block.operator(points, jet) for block, jet in zip(row, jets, strict=True) if block is not None)
            for row in self.blocks
        )

    def sources(self, points: Values) -> tuple[Values, ...]:
        """g_e of each row at the points (n, d), each of shape (n,)."""
        return tuple(sum(block.source(points) for block in row if block is not None) for row in self.blocks)


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
