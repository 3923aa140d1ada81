"""Variables of a search space, and the conversion between physical values and encoded coordinates.

A numeric variable takes one coordinate of [-1, 1], linear in its value or in the value's logarithm; a categorical one
(``physics.structure.categories``) takes a one-hot group of {0, 1}, or one coordinate where its levels have an order. An
image (``physics.images``) takes one coordinate of [-1, 1] a pixel.
All classes have the same interface: ``width`` (number of coordinates), ``discrete``, ``box`` (2, width), ``encode``,
``decode``, ``uniform`` (n, width), ``snap`` (the nearest allowed coordinates), ``check`` and ``narrowed``.
"""

import difflib
import math
import numbers
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Integers beyond this are not all float64 numbers.
_LARGEST_INTEGER = 2**53
# Significant figures in which values are told, and those of a float64 number.
_FIGURES, _MOST_FIGURES = 6, 17
# Share of a variable's range that the last of them may hide.
_HIDDEN = 1e-4
# Half of the last figure, with what rounding adds; and the share of a range in which two values are one.
_ROUNDED, _CLOSE = 0.5 * (1 + 1e-6), 1e-9
# Half-width of an interval, relative to its ends: some hundred float64 numbers lie in one of that width.
_LEAST_SPAN = 1e-13


class SpaceError(ValueError):
    """A variable, constraint or design is invalid; the message states the value and the remedy."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the closest known one, and all of them."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return (f" Did you mean {close[0]!r}?" if close else "") + f" Known: {', '.join(known)}."


def finite(where: str, value: object) -> float:
    """The value as a float; a SpaceError that begins with ``where`` if it is not a finite number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise SpaceError(f"{where} is {value!r}, not a number: give a finite number.")
    if not math.isfinite(value):
        raise SpaceError(f"{where} is {value!r}: give a finite number.")
    return float(value)


def check_name(name: object) -> None:
    """Accept a variable's name, or raise SpaceError."""
    if not isinstance(name, str) or not name.strip():
        raise SpaceError(f"A variable is named {name!r}: give every variable a name that is not blank.")


def _check_within(variable: "Continuous | Integer", number: float) -> None:
    if not variable.low <= number <= variable.high:
        unit = f" {variable.unit}" if variable.unit else ""
        raise SpaceError(
            f"{variable.name} is {number!r}, outside [{variable.low}, {variable.high}]{unit}: "
            "give a value within the bounds."
        )


def narrowed_bounds(name: str, own: tuple[float, float], asked: tuple[float, float]) -> tuple[float, float]:
    """Bounds that a campaign states, after a check that they lie within the variable's own; else a SpaceError."""
    lower, upper = (finite(f"A bound of {name}", bound) for bound in asked)
    if lower < own[0] or upper > own[1]:
        raise SpaceError(
            f"The bounds [{asked[0]}, {asked[1]}] of {name} leave the problem's own [{own[0]}, {own[1]}]: "
            "a campaign may only narrow them."
        )
    return lower, upper


def _scale(variable: "Continuous | Integer") -> tuple[float, float]:
    """Middle and half-width of the interval of values or of their logarithms; a single value has the half-width 1."""
    low, high = float(variable.low), float(variable.high)
    if variable.log:
        low, high = math.log(low), math.log(high)
    return low / 2 + high / 2, (high / 2 - low / 2) or 1.0


def _coordinates(variable: "Continuous | Integer", values: Array) -> Array:
    middle, half = _scale(variable)
    return np.asarray(((np.log(values) if variable.log else values) - middle) / half)


def _values(variable: "Continuous | Integer", u: Array) -> Array:
    middle, half = _scale(variable)
    return np.exp(middle + half * u) if variable.log else np.asarray(middle + half * u)


def _encoded(variable: "Continuous | Integer", value: object) -> Array:
    number = finite(variable.name, value)
    if variable.log and number <= 0:
        raise SpaceError(f"{variable.name} is {value!r}, and has a logarithmic scale: give a value above 0.")
    return _coordinates(variable, np.array([number]))


def _require_logarithm(variable: "Continuous | Integer") -> None:
    if variable.log and variable.low <= 0:
        raise SpaceError(
            f"{variable.name} has the lower bound {variable.low} and a logarithmic scale: give a bound above 0, or "
            "leave log out."
        )


def _physical(variable: "Continuous | Integer", u: float) -> float:
    # The ends are taken as they are, for middle + half need not be `high` to the last digit.
    if abs(u) >= 1:
        return float(variable.low if u < 0 else variable.high)
    return min(max(float(variable.values(np.array(u))), variable.low), variable.high)


@dataclass(frozen=True)
class Continuous:
    """A real variable in [low, high].

    Args:
        name: Its name in designs, files and tables.
        low: Lower bound, in ``unit``.
        high: Upper bound, in ``unit``; above ``low``.
        unit: Physical unit; empty for a pure number.
        log: True for a variable whose effect goes with its order of magnitude (a rate from 1e-7 to 1): the coordinate
            is linear in its logarithm, and so is what is drawn, modelled and searched.
        periodic: True for an angle or a phase, whose bounds are one value (0 and 360 degrees): models see its sine and
            cosine, and searches go on beyond the ends. Narrower bounds that a campaign states end that.

    Raises:
        SpaceError: blank name, bounds that are not finite, not in order or too close together; with ``log``, a lower
            bound that is not above 0; both ``log`` and ``periodic``.
    """

    name: str
    low: float
    high: float
    unit: str = ""
    log: bool = False
    periodic: bool = False

    width: ClassVar[int] = 1
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        low, high = (finite(f"A bound of {self.name}", bound) for bound in (self.low, self.high))
        if low >= high:
            raise SpaceError(
                f"{self.name} has the bounds [{self.low}, {self.high}]: the lower must be below the upper; swap them, "
                "or take a constant out of the search space."
            )
        if high / 2 - low / 2 < max(_LEAST_SPAN * max(abs(low), abs(high)), sys.float_info.min):
            raise SpaceError(
                f"{self.name} has the bounds [{self.low}, {self.high}], so close together that designs between them "
                "cannot be told apart: widen them, or take a constant out of the search space."
            )
        _require_logarithm(self)
        if self.log and self.periodic:
            raise SpaceError(f"{self.name} is periodic and has a logarithmic scale: leave out one of them.")

    @property
    def scale(self) -> tuple[float, float]:
        """Middle and half-width, in ``unit``: the encoded coordinate is (value - middle) / half-width.

        With ``log`` both are of the natural logarithm of the value.
        """
        return _scale(self)

    @property
    def figures(self) -> int:
        """Significant figures in which a value is told: six, or more where these would hide 1e-4 of the range."""
        least = _HIDDEN * (1 + 1e-6) * 2 * self.scale[1]
        largest = 1.0 if self.log else max(abs(self.low), abs(self.high))
        return min(_MOST_FIGURES, max(_FIGURES, math.floor(math.log10(largest)) + 1 - math.floor(math.log10(least))))

    def told_alike(self, value: float, other: float) -> bool:
        """True if another value is told as this one is, or lies nearer to it than the last figure of that tells."""
        near = other - value
        if self.periodic:
            near = math.remainder(near, self.high - self.low)
        last = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - self.figures) if value else 0.0
        return abs(near) <= max(_ROUNDED * last, 0.0 if self.log else _CLOSE * (self.high - self.low))

    @property
    def box(self) -> Array:
        """Bounds of the coordinate, shape (2, 1)."""
        return np.array([[-1.0], [1.0]])

    def encode(self, value: object) -> Array:
        """Coordinate of a value, shape (1,)."""
        return self.snap(_encoded(self, value))

    def decode(self, columns: Array) -> float:
        """Value of a coordinate (1,), within the bounds."""
        return _physical(self, float(self.snap(columns)[0]))

    def coordinates(self, values: Array) -> Array:
        """Coordinates of values of any shape, above 0 with ``log``."""
        return _coordinates(self, values)

    def values(self, u: Array) -> Array:
        """Values of coordinates u of any shape, also beyond the bounds."""
        return _values(self, u)

    def at(self, columns: Array) -> Array:
        """Values of coordinates (n, 1), also beyond the bounds, shape (n, 1)."""
        return _values(self, columns)

    def slope(self, value: float) -> float:
        """Derivative of the value by its coordinate, at a value."""
        return self.scale[1] * value if self.log else self.scale[1]

    def uniform(self, n: int, rng: np.random.Generator) -> Array:
        """Coordinates of n uniform values, shape (n, 1)."""
        return rng.uniform(-1, 1, size=(n, 1))

    def snap(self, columns: Array) -> Array:
        """Coordinates (n, 1) as they are; those of a periodic variable within [-1, 1)."""
        if not self.periodic:
            return columns
        wrapped = (columns + 1) % 2 - 1
        return np.where(wrapped < 1, wrapped, -1.0)  # the remainder of -1e-17 by 2 is 2

    def check(self, value: object) -> None:
        """Accept a value within the bounds, or raise SpaceError."""
        _check_within(self, finite(self.name, value))

    def narrowed(self, low: float, high: float) -> "Continuous":
        """The variable with tighter bounds, no longer periodic if they are."""
        lower, upper = narrowed_bounds(self.name, (self.low, self.high), (low, high))
        return replace(self, low=lower, high=upper, periodic=self.periodic and (lower, upper) == (self.low, self.high))


@dataclass(frozen=True)
class Integer:
    """A whole-number variable in {low, ..., high}.

    Args:
        name: Its name in designs, files and tables.
        low: Smallest value.
        high: Largest value, not below ``low``.
        unit: Physical unit; empty for a count.
        log: True for a variable whose effect goes with its order of magnitude (a width from 8 to 4096).

    Raises:
        SpaceError: blank name, bounds that are not whole numbers, not in order or beyond 2^53; with ``log``, a smallest
            value that is not above 0.
    """

    name: str
    low: int
    high: int
    unit: str = ""
    log: bool = False

    width: ClassVar[int] = 1
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)
        for bound in (self.low, self.high):
            if not isinstance(bound, numbers.Integral) or isinstance(bound, bool):
                raise SpaceError(f"A bound of {self.name} is {bound!r}: give a whole number, or make it Continuous.")
            if abs(bound) > _LARGEST_INTEGER:
                raise SpaceError(f"A bound of {self.name} is {bound}: beyond 2^53 numbers are not exact; rescale it.")
        if self.low > self.high:
            raise SpaceError(
                f"{self.name} has the bounds [{self.low}, {self.high}], the lower above the upper: swap them."
            )
        _require_logarithm(self)

    @property
    def scale(self) -> tuple[float, float]:
        """Middle and half-width of the value, or with ``log`` of its natural logarithm (see ``Continuous.scale``)."""
        return _scale(self)

    @property
    def box(self) -> Array:
        """Bounds of the coordinate, shape (2, 1); both 0 for a single value."""
        return np.array([[-1.0], [1.0]]) if self.low < self.high else np.zeros((2, 1))

    def encode(self, value: object) -> Array:
        """Coordinate of a value, shape (1,)."""
        return _encoded(self, value)

    def coordinates(self, values: Array) -> Array:
        """Coordinates of whole values of any shape, above 0 with ``log``."""
        return _coordinates(self, values)

    def decode(self, columns: Array) -> int:
        """Whole value nearest to a coordinate (1,), within the bounds."""
        return round(_physical(self, float(columns[0])))

    def values(self, u: Array) -> Array:
        """Values of coordinates u of any shape, not rounded."""
        return _values(self, u)

    def uniform(self, n: int, rng: np.random.Generator) -> Array:
        """Coordinates of n uniform whole values, or with ``log`` of uniform coordinates rounded, shape (n, 1)."""
        if self.log:
            return self.snap(rng.uniform(-1, 1, size=(n, 1)))
        return _coordinates(self, rng.integers(self.low, self.high, size=(n, 1), endpoint=True).astype(np.float64))

    def snap(self, columns: Array) -> Array:
        """Coordinates of the nearest whole values, shape (n, 1)."""
        return _coordinates(self, self.at(columns))

    def at(self, columns: Array) -> Array:
        """Whole values nearest to coordinates (n, 1), within the bounds, shape (n, 1)."""
        return np.clip(np.rint(_values(self, columns)), self.low, self.high)

    def check(self, value: object) -> None:
        """Accept a whole number within the bounds, or raise SpaceError."""
        number = finite(self.name, value)
        if number != round(number):
            raise SpaceError(f"{self.name} is {value!r}: give a whole number.")
        _check_within(self, number)

    def narrowed(self, low: float, high: float) -> "Integer":
        """The variable with tighter bounds."""
        lower, upper = narrowed_bounds(self.name, (self.low, self.high), (low, high))
        if lower != round(lower) or upper != round(upper):
            raise SpaceError(f"The bounds [{low}, {high}] of {self.name} are not whole numbers: give whole numbers.")
        return replace(self, low=round(lower), high=round(upper))
