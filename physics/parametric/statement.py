"""Statement of a problem's physics: the equation of its fields over a domain, with the design as a parameter."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Literal

import numpy as np

from fieldcraft.physics.domain import Domain, refuse_bare
from fieldcraft.physics.operators import Coefficient, LinearEquation, LinearSystem, Values
from fieldcraft.physics.parametric.edges import AtTime, Edge, refuse_edge, refuse_nothing
from fieldcraft.physics.parametric.nonlinear import Array, Bound, Nonlinear, State

Numbers = Mapping[str, Values]
"""Values of a design's variables, in physical units, by name: one of each for one design, and (n, 1) for n designs.

They are numbers, and text for a choice: compare it (``design["metal"] == "steel"``). An equation finds the values of
its uncertain coefficients among them, one number each always."""


def in_words(design: Numbers) -> str:
    """One design in words, for an error."""
    return ", ".join(
        f"{name} {value}" if isinstance(value, str) else f"{name} {float(value):g}" for name, value in design.items()
    )


@dataclass(frozen=True)
class Field:
    """A physical quantity over the domain.

    Args:
        name: Its name, also that of the variable in a simulation's dataset.
        unit: Physical unit; empty for a pure number.
    """

    name: str
    unit: str = ""


@dataclass(frozen=True)
class Condition:
    """The condition a u + b du/dn = g on one side of the domain, with the outward normal n.

    A value is a = 1, b = 0 (the default); a flux is a = 0, b = 1; both together are Robin's condition.

    Args:
        field: Name of the field u.
        axis: Name of the axis that crosses the side.
        end: The side: the axis's lower or upper end.
        right: g, in the unit that a and b give it: a number, or a function of the points (n, d) of the side.
        value: a.
        slope: b; a derivative is by the axis in its own unit.

    Raises:
        ValueError: an end that is neither "low" nor "high", a number that is not finite, or a = b = 0.
    """

    field: str
    axis: str
    end: Literal["low", "high"]
    right: Coefficient = 0.0
    value: float = 1.0
    slope: float = 0.0

    def __post_init__(self) -> None:
        if self.end not in ("low", "high"):
            raise ValueError(
                f"The condition on {self.field!r} is at the end {self.end!r} of the axis {self.axis!r}: give 'low' or "
                "'high', its lower or its upper end."
            )
        place = f"at the {self.end} end of {self.axis!r}"
        refuse_nothing(self.field, place, self.right, self.value, self.slope)


@dataclass(frozen=True)
class UncertainCoefficient:
    """A number in an equation that is known to lie in a range, and that the fields of runs may calibrate.

    Args:
        name: Its name, by which the equation finds its value among those of the design's variables.
        low: Least value, in ``unit``.
        high: Largest value.
        unit: Physical unit; empty for a pure number.
        value: The stated value, within the range: it holds where nothing calibrates the coefficient.

    Raises:
        ValueError: a blank name, bounds that are not finite or not in order, or a value that is not between them; each
            of them is a number.
    """

    name: str
    low: float
    high: float
    unit: str = ""
    _: KW_ONLY
    value: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"A coefficient is named {self.name!r}: give every coefficient a name that is not blank.")
        for number in (self.low, self.high, self.value):
            if not isinstance(number, Real) or isinstance(number, bool):
                raise ValueError(
                    f"The coefficient {self.name} has {number!r} for a bound or its value: give a number for each."
                )
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"The coefficient {self.name} ranges from {self.low} to {self.high}: give finite bounds, the lower "
                "first."
            )
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"The coefficient {self.name} has the value {self.value}, which is not from {self.low:g} to "
                f"{self.high:g}: state one within its range, or widen the range."
            )


def no_flux(field: str, domain: Domain) -> tuple[Condition, ...]:
    """du/dn = 0 on every side of a domain: no flux of a field across its boundary."""
    ends: tuple[Literal["low", "high"], ...] = ("low", "high")
    return tuple(Condition(field, axis, end, value=0.0, slope=1.0) for axis in domain.names for end in ends)


@dataclass(frozen=True)
class Fields:
    """Fields that a simulation of a design gives, at the centres of equal cells over a domain.

    Args:
        domain: The box over which the fields live, time with it. With a mask, fields are NaN at the cells whose
            centres it leaves out.
        fields: The fields.

    Raises:
        ValueError: no field, or a name that occurs twice.
    """

    domain: Domain
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        refuse_bare("fields", self.fields)
        names = [field.name for field in self.fields]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"A design has the fields {names}: give at least one, and each its own name.")

    @property
    def repeats(self) -> tuple[bool, ...]:
        """Flags of the domain's axes: True for one along which the fields repeat."""
        return (False,) * len(self.domain.axes)


@dataclass(frozen=True)
class ParametricEquation(Fields):
    """Equations of the fields of a design, in steady state or in time: linear ones, and nonlinear terms beside them.

    Args:
        domain: The box over which the fields live, time with it, or what a mask leaves of it, the same at all times.
            Let a mask be one function, not a new one each time: its cells are then found once.
        fields: The fields, in the order in which a ``LinearSystem`` has them.
        equation: Function from a design to its equation. It is asked for one design, of numbers, and for n designs at
            once, of (n, 1); a coefficient or right-hand side then gives (n, p) at p points. What depends on the design
            is a function of the points; a number is the same for all designs. Where ``coefficients`` are stated, the
            design has a number for each of them too.
        conditions: Conditions on the boundary. Along each axis of space that is not periodic there are two for each
            field, on one side or on both; at the beginning of time there is one for each, its value. With a mask there
            is one for each field at either end, or none where the mask leaves nothing of it.
        cells: Cells of a coarse grid along each axis, on which a solution is cheap and its outputs still tell good
            designs from bad ones. Those of time are its steps.
        periodic: Axes along which the fields repeat: what leaves at one end enters at the other.
        time: Name of the last axis if that is time; None in steady state. The equation then holds at points of space
            and time, where du/dt is the first derivative by this axis, and all its coefficients may vary in time.
        coefficients: Numbers in the equation that stored fields may calibrate; conditions do not depend on them.
        singular: Function from a design and points (p, d) to the part of each field, by its name, that changes too
            sharply for a network, in the field's unit, shape (p,). Points are torch tensors, and the design has (p,) of
            each variable and the coefficients' numbers. A network learns the rest (``emulator: {kind: pinn}``), so the
            part need not satisfy the equation. On sides of known constant values it is 0, and where no flux crosses a
            side none of it does.
        nonlinear: Terms F(x, u, grad u) on the left side of the equations, beside the linear ones: a function of points
            (p, d), the fields there and one design, of numbers, to one term for each equation, None where there is
            none. A reaction, an advection u u_x or a radiation is one; a conductivity that depends on u is not. Its
            derivatives are compared with differences when a campaign is checked.
        start: Value of each field from which Newton's method begins in steady state; empty for 0 everywhere. Where an
            equation has several solutions, it is the nearest of them that is found, as a rule.
        edge: Conditions along the edge of the domain's mask, one for each field at every point of it.

    Raises:
        ValueError: cells that are no whole numbers from 2 on, one for each axis; a start of another number of fields, a
            name that occurs twice or is unknown, a wrong number of conditions along an axis or along a mask's edge,
            time that is not the last of several axes, or a condition there that is not a value at its beginning.
    """

    equation: Callable[[Numbers], LinearEquation | LinearSystem]
    conditions: tuple[Condition, ...]
    cells: tuple[int, ...]
    periodic: tuple[str, ...] = ()
    time: str | None = None
    coefficients: tuple[UncertainCoefficient, ...] = ()
    singular: Callable[[Numbers, Values], Mapping[str, Values]] | None = None
    nonlinear: Callable[[Array, tuple[State, ...], Numbers], tuple[Nonlinear | None, ...]] | None = None
    start: tuple[float, ...] = ()
    edge: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("conditions", "coefficients", "edge"):
            refuse_bare(name, getattr(self, name))
        self._refuse_cells()
        names = [field.name for field in self.fields]
        if self.start and (len(self.start) != len(names) or not np.isfinite(self.start).all()):
            raise ValueError(
                f"Newton's method is to start from {list(self.start)}: give one finite value for each of the fields "
                f"{', '.join(names)}, or none."
            )
        if len(set(self.values)) < len(self.coefficients):
            told = ", ".join(each.name for each in self.coefficients)
            raise ValueError(f"An equation has the coefficients {told}: give each its own name.")
        for condition in self.conditions:
            if condition.field not in names or condition.axis not in self.domain.names:
                raise ValueError(
                    f"A condition names the field {condition.field!r} and the axis {condition.axis!r}: the fields are "
                    f"{', '.join(names)} and the axes {', '.join(self.domain.names)}."
                )
        for axis in self.periodic:
            if axis not in self.space.names:
                raise ValueError(
                    f"The fields repeat along {axis!r}, which is no axis of space: those are "
                    f"{', '.join(self.space.names)}."
                )
        masked = self.domain.mask is not None
        refuse_edge(self.edge, names, masked=masked)
        given = Counter(condition.axis for condition in self.conditions)
        ends = Counter((condition.axis, condition.end) for condition in self.conditions)
        for axis in self.space.names:
            due = 0 if axis in self.periodic else 2 * len(names)
            for end in ("low", "high") if masked else ():
                if ends[axis, end] not in (0, due // 2):
                    raise ValueError(
                        f"At the {end} end of {axis!r} there are {ends[axis, end]} conditions for the fields "
                        f"{', '.join(names)}: in a domain with a mask give {due // 2}, or none where it leaves nothing."
                    )
            if given[axis] != due and not masked:
                remedy = f"give {due}, two for each field" if due else "fields that repeat along it have none"
                raise ValueError(
                    f"Across the axis {axis!r} there are {given[axis]} conditions for the fields {', '.join(names)}: "
                    f"{remedy}."
                )
        begin = sorted(each.field for each in self.beginning if each.end == "low" and each.slope == 0)
        if self.time is not None and (begin != sorted(names) or given[self.time] != len(names)):
            raise ValueError(
                f"At the beginning of {self.time!r} there are values of {', '.join(begin) or 'no field'} in "
                f"{given[self.time]} conditions: give one for each of the fields {', '.join(names)}, at the low end."
            )

    def _refuse_cells(self) -> None:
        axes, cells = self.domain.names, self.cells
        whole = isinstance(cells, tuple) and all(isinstance(n, Integral) and n >= 2 for n in cells)
        if not whole or len(cells) != len(axes):
            raise ValueError(
                f"The coarse grid over {', '.join(axes)} has the cells {cells!r}: give a tuple of whole numbers, one "
                f"for each axis, each at least 2, such as {(8,) * len(axes)}."
            )

    @property
    def values(self) -> Mapping[str, float]:
        """Values of the coefficients, in their units, by name."""
        return {each.name: each.value for each in self.coefficients}

    def of(self, designs: Numbers) -> LinearEquation | LinearSystem:
        """The equation of one design or of n, for the values of the coefficients.

        Raises:
            ValueError: a coefficient has the name of a variable, or the function gives no linear equation.
        """
        self.refuse_names(designs)
        found = self.equation({**designs, **self.values})
        if not isinstance(found, LinearEquation | LinearSystem):
            raise ValueError(
                f"The equation of a design is {'None' if found is None else f'a {type(found).__name__}'}: let the "
                "function return a LinearEquation or a LinearSystem."
            )
        return found

    def bound(self, design: Numbers) -> Bound:
        """The nonlinear terms of one design, for the values of the coefficients; none where none are stated.

        Raises:
            ValueError: as they are asked for, another number of terms than of fields.
        """
        stated, values = self.nonlinear, {**design, **self.values}

        def terms(points: Array, fields: tuple[State, ...]) -> tuple[Nonlinear | None, ...]:
            found = () if stated is None else stated(points, fields, values)
            if stated is not None and len(found) != len(fields):
                raise ValueError(
                    f"There are {len(found)} nonlinear terms for {len(fields)} fields: give one for each equation, or "
                    "None where an equation has none."
                )
            return found

        return terms

    def refuse_names(self, variables: Iterable[str]) -> None:
        """Accept names of variables that no coefficient has.

        Raises:
            ValueError: a coefficient has one of them.
        """
        for name in variables:
            if name in self.values:
                raise ValueError(
                    f"{name!r} is the name of a coefficient of the equation and of a variable of the design: give the "
                    "coefficient another name."
                )

    def calibrated(self, values: Sequence[float]) -> "ParametricEquation":
        """The same statement with these values of its coefficients, in their order and units.

        Raises:
            ValueError: another number of values, or one beyond its coefficient's range.
        """
        both = zip(self.coefficients, values, strict=True)
        return replace(self, coefficients=tuple(replace(each, value=float(value)) for each, value in both))

    @cached_property
    def space(self) -> Domain:
        """The domain without time."""
        if self.time is None:
            return self.domain
        *axes, last = self.domain.axes
        if last.name != self.time or not axes:
            raise ValueError(
                f"Time is {self.time!r} among the axes {', '.join(self.domain.names)}: it must be the last, after at "
                "least one axis of space."
            )
        mask = self.domain.mask
        return Domain(tuple(axes), None if mask is None else AtTime(mask, last.low))

    @property
    def repeats(self) -> tuple[bool, ...]:
        """Flags of the domain's axes: True for one along which the fields repeat."""
        return tuple(axis in self.periodic for axis in self.domain.names)

    @property
    def beginning(self) -> tuple[Condition, ...]:
        """Conditions at the beginning of time; none in steady state."""
        return tuple(condition for condition in self.conditions if condition.axis == self.time)
