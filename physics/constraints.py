"""Known constraints on designs: inequalities and equalities between named numbers, in physical units."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcraft.physics.variables import Array, Continuous, Integer, SpaceError, finite


@dataclass(frozen=True)
class LinearConstraint:
    """A known constraint sum_i a_i x_i <= upper on numeric variables, in physical units.

    Args:
        coefficients: a_i by the name of the variable; at least one is not zero.
        upper: Right-hand side.

    Raises:
        SpaceError: a number that is not finite, or no coefficient that is not zero.
    """

    coefficients: Mapping[str, float]
    upper: float

    def __post_init__(self) -> None:
        _check_sum("linear constraint", self.coefficients)
        finite("The upper bound of a linear constraint", self.upper)

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), self.upper))

    def __str__(self) -> str:
        return f"{_sum_text(self.coefficients)} <= {self.upper:g}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables in it."""
        return tuple(self.coefficients)

    def terms(self, values: Mapping[str, float]) -> list[float]:
        """The terms of the left-hand side, whose sum is at most ``upper``, for values by name."""
        return [value * values[name] for name, value in self.coefficients.items()]


@dataclass(frozen=True)
class LinearEquality:
    """A known equality sum_i a_i x_i = total of numeric variables, in physical units: a mixture, a fixed total.

    Designs are sampled and searched on its plane.

    Args:
        coefficients: a_i by the name of the variable; at least one is not zero.
        total: Right-hand side.

    Raises:
        SpaceError: a number that is not finite, or no coefficient that is not zero.
    """

    coefficients: Mapping[str, float]
    total: float

    def __post_init__(self) -> None:
        _check_sum("linear equality", self.coefficients)
        finite("The total of a linear equality", self.total)

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), self.total))

    def __str__(self) -> str:
        return f"{_sum_text(self.coefficients)} = {self.total:g}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables in it."""
        return tuple(self.coefficients)

    def terms(self, values: Mapping[str, float]) -> list[float]:
        """The terms of the left-hand side, whose sum is ``total``, for values by name."""
        return [value * values[name] for name, value in self.coefficients.items()]


@dataclass(frozen=True)
class QuadraticConstraint:
    """A known constraint sum_ij q_ij x_i x_j + sum_i a_i x_i <= upper on numeric variables, in physical units.

    It need not be convex: {("x", "x"): 1, ("y", "y"): 1} with the upper bound 4 is the inside of a disc of radius 2,
    with both coefficients and the bound negated it is the outside.

    Args:
        products: q_ij by the names of both variables, each pair once in any order, a square by the same name twice; at
            least one is not zero.
        coefficients: a_i by the name of the variable; there need be none.
        upper: Right-hand side.

    Raises:
        SpaceError: a number that is not finite, an invalid or repeated pair, or no product that is not zero.
    """

    products: Mapping[tuple[str, str], float]
    coefficients: Mapping[str, float]
    upper: float

    def __post_init__(self) -> None:
        _check_pairs(self.products)
        for (one, other), value in self.products.items():
            finite(f"The coefficient of {one}*{other} in a quadratic constraint", value)
        for name, value in self.coefficients.items():
            finite(f"The coefficient of {name} in a quadratic constraint", value)
        finite("The upper bound of a quadratic constraint", self.upper)
        if not any(self.products.values()):
            raise SpaceError(
                f"A quadratic constraint has the products {dict(self.products)}: give at least one, or make it linear."
            )

    def __hash__(self) -> int:
        return hash((frozenset(self.products.items()), frozenset(self.coefficients.items()), self.upper))

    def __str__(self) -> str:
        products = {
            f"{one}^2" if one == other else f"{one}*{other}": value for (one, other), value in self.products.items()
        }
        return f"{_sum_text({**products, **self.coefficients})} <= {self.upper:g}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables in it, each once."""
        return tuple(dict.fromkeys([name for pair in self.products for name in pair] + list(self.coefficients)))

    def terms(self, values: Mapping[str, float]) -> list[float]:
        """The terms of the left-hand side, whose sum is at most ``upper``, for values by name."""
        products = [value * values[one] * values[other] for (one, other), value in self.products.items()]
        return products + [value * values[name] for name, value in self.coefficients.items()]

    def matrix(self, columns: Mapping[str, int], d: int) -> tuple[Array, Array]:
        """Q (d, d), symmetric, and a (d,) of x'Qx + a.x, where the variables stand in the columns given by name."""
        Q, a = np.zeros((d, d)), np.zeros(d)
        for (one, other), value in self.products.items():
            Q[columns[one], columns[other]] += value / 2
            Q[columns[other], columns[one]] += value / 2
        for name, value in self.coefficients.items():
            a[columns[name]] = value
        return Q, a


def require_kept(
    constraint: LinearConstraint | LinearEquality | QuadraticConstraint,
    design: Mapping[str, Any],
    numbers: Mapping[str, Continuous | Integer],
    tolerance: float,
) -> None:
    """Accept a design that keeps a constraint.

    Args:
        constraint: The constraint.
        design: Values by name.
        numbers: The variables in the constraint, by name.
        tolerance: Excess that counts as none, relative to the size of the terms.

    Raises:
        SpaceError: the design violates it; with the value of one variable that would keep an equality, if there is one.
    """
    values = {name: float(design[name]) for name in constraint.names}
    ends = {name: max(abs(numbers[name].low), abs(numbers[name].high)) for name in constraint.names}
    total, reach = sum(constraint.terms(values)), sum(map(abs, constraint.terms(ends)))
    right = constraint.total if isinstance(constraint, LinearEquality) else constraint.upper
    # The slope of a square, by which encoded constraints are scaled, is twice its coefficient.
    slack = tolerance * (abs(right) + 2 * reach)
    if isinstance(constraint, LinearEquality) and abs(total - right) > slack:
        raise SpaceError(
            f"The design {dict(design)} violates {constraint}, for its sum is {total:.12g}: "
            f"{_remedy(constraint, values, numbers, right - total)}."
        )
    if total > right + slack:
        raise SpaceError(f"The design {dict(design)} violates {constraint}, for its sum is {total:g}: change it.")


def _remedy(
    equality: LinearEquality,
    values: Mapping[str, float],
    numbers: Mapping[str, Continuous | Integer],
    missing: float,
) -> str:
    """Advice on an equality whose sum lacks ``missing``: the value of one variable alone that would satisfy it."""
    for name, coefficient in reversed(list(equality.coefficients.items())):
        variable = numbers[name]
        value = values[name] + missing / coefficient if coefficient else math.inf
        if isinstance(variable, Continuous) and variable.low <= value <= variable.high:
            return f"change it; with {name} = {value:.15g}, for one, it would be kept"
    return "change it"


def _check_sum(what: str, coefficients: Mapping[str, float]) -> None:
    for name, value in coefficients.items():
        finite(f"The coefficient of {name} in a {what}", value)
    if not any(coefficients.values()):
        raise SpaceError(f"A {what} has the coefficients {dict(coefficients)}: name at least one variable.")


def _sum_text(coefficients: Mapping[str, float]) -> str:
    """A sum as it is written by hand, such as ``x + 2 y - z``."""
    text = ""
    for name, value in coefficients.items():
        sign = "-" if value < 0 else "+"
        size = "" if abs(value) == 1 else f"{abs(value):g} "
        text += f" {sign} {size}{name}" if text else f"{'-' if value < 0 else ''}{size}{name}"
    return text


def _check_pairs(pairs: Iterable[object]) -> None:
    seen = set[tuple[str, ...]]()
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise SpaceError(f"A quadratic constraint has a product of {pair!r}: give a tuple of two names.")
        if tuple(sorted(pair)) in seen:
            raise SpaceError(f"A quadratic constraint has the product {pair[0]}*{pair[1]} twice: add them up.")
        seen.add(tuple(sorted(pair)))
