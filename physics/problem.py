"""Problems, which a campaign optimises, and simulators, which compute a design's fields.

A file in ``physics/problems`` or ``physics/simulators``, or in a directory that the operator's settings list, that
holds one public frozen dataclass deriving from one of these is a new kind, named after the file.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.operators import Equation, System
from fieldcraft.physics.outputs.output import Optimum as Optimum
from fieldcraft.physics.outputs.output import Output as Output
from fieldcraft.physics.outputs.output import Sense as Sense
from fieldcraft.physics.parametric.discrete import DiscreteSystem
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, Fields, Numbers, ParametricEquation
from fieldcraft.physics.parametric.transfer import missing_field, scalar
from fieldcraft.physics.parametric.transfer import stated_fields as stated_fields
from fieldcraft.physics.space import Design, SearchSpace

if TYPE_CHECKING:
    import xarray as xr


Array = NDArray[np.float64]

Solve = Callable[[ParametricEquation, Numbers, tuple[int, ...]], Mapping[str, Array]]
"""Function from a statement, the designs' values, each (n, 1), and cells to its fields there, each (n, *cells)."""

# Values of a field that are computed together for many designs.
_VALUES = 4_000_000


class Infeasible(Exception):
    """Raised by a simulator if the design itself is the reason that there is no result; the message states why.

    The trial is not repeated, and the campaign goes on.
    """


class Transient(Exception):
    """Raised by a simulator if another try may succeed (a licence taken, a disk full); the message states why.

    The trial is repeated after a pause while its approval has attempts left.
    """


class Problem(ABC):
    """A design question: the possible designs, the outputs that count, and the known physics.

    Give ``space`` and ``outputs``; override the rest where more is known. A problem is a frozen dataclass whose fields
    are what the campaign file may set; it holds no state, and every method returns the same value each time.
    """

    @property
    @abstractmethod
    def space(self) -> SearchSpace:
        """The designs that may be proposed."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Output, ...]:
        """The numbers a trial yields: the objective first, then constraints, each met when it is <= 0, then plain ones.

        A problem with several objectives marks each of them (``Output.objective``), before the constraints. Plain
        outputs (``Output.plain``) are recorded and shown; an output with a ``formula`` is computed from measured ones.
        """

    @property
    def objectives(self) -> tuple[Output, ...]:
        """The outputs that are marked as objectives; empty where the first output is the only one."""
        return tuple(output for output in self.outputs if output.objective is not None)

    @property
    def measured(self) -> tuple[Output, ...]:
        """The outputs that an experiment yields; the others are computed from them."""
        return tuple(output for output in self.outputs if output.formula is None)

    def completed(self, values: Mapping[str, float], design: Design) -> dict[str, float]:
        """Values by name with those of the outputs that are computed from them and from the design as it was run.

        An output of which a part is not among the values is left out; one that is computed may not be finite.
        """
        known, found = {**design, **values}, dict(values)
        for output in self.outputs:
            if output.formula is not None and set(output.formula.names) <= set(known):
                found[output.name] = float(output.formula({name: known[name] for name in output.formula.names}))
        order = [output.name for output in self.outputs if output.name in found]
        return {name: found[name] for name in dict.fromkeys([*order, *found])}

    @property
    def most_hypervolume(self) -> float | None:
        """Largest hypervolume of any set of designs, by the references of several objectives; None if unknown."""
        return None

    @property
    def domain(self) -> Domain | None:
        """The box, or the part of it that its mask leaves, on which ``equation`` holds.

        Its axes bear the names of design variables. The search space remains a box with its own constraints: a design
        that the mask leaves out is refused by the simulator's gate (see ``Simulator.gate``).
        """
        return None

    @property
    def equation(self) -> Equation | System | None:
        """The differential equations that the objective satisfies as a function of the design, over ``domain``."""
        return None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Values, fluxes or combinations of both that the objective is known to have on sides of ``domain``.

        An initial profile is a value at the low end of the axis of time. The field of each condition is the objective's
        name; a side without a condition is unknown. Of a domain with a mask, a side is what belongs to the domain.
        """
        return ()

    @property
    def oracle(self) -> bool:
        """True if ``equation`` was computed from the objective itself, and so gives the answer away.

        Results that use such an equation are reported apart. False if the physics is known independently.
        """
        return False

    @property
    def parametric(self) -> ParametricEquation | None:
        """The equation of the fields of a design, of which the design is a parameter; None if none is stated.

        With ``functional`` it makes a cheap prediction of the outputs, from which surrogates learn (``emulate``).
        """
        return None

    @property
    def fields(self) -> Fields | None:
        """The fields that a simulation gives, from which ``functional`` reads the outputs; None if none are stated.

        By default those of ``parametric``. A problem whose fields satisfy no stated equation gives them here:
        surrogates then learn from the stored fields alone.
        """
        return self.parametric

    def functional(self, fields: Mapping[str, Array], axes: Mapping[str, Array], designs: Numbers) -> Array | None:
        """The outputs of n designs, computed from their fields as ``evaluate`` does; None if that is not stated.

        Args:
            fields: The stated fields at the centres of equal cells, each (n, *cells), by name. Where the domain has a
                mask they are NaN at the cells whose centres it leaves out: read with np.nanmax and its like.
            axes: Centres of the cells along each axis, in its unit, by name.
            designs: Values of the variables, each (n, 1), by name.

        Returns:
            Outputs in their units, shape (n, outputs).
        """
        return None

    def emulate(self, designs: Numbers) -> Array | None:
        """Cheap predictions of the outputs of n designs; None if there are none.

        By default from the stated equation, solved on its coarse grid. ``functional`` reads the fields on a finer one,
        to which they are interpolated: the highest place of a field may lie between coarse cells. A problem with
        another cheap model, even a poor one, overrides this: what the model says is corrected by the results.

        Args:
            designs: Values of the variables, each (n, 1), by name; whole numbers as floats, choices as text.

        Returns:
            Outputs in their units, shape (n, outputs).

        Raises:
            ValueError: the equation cannot be solved for one of the designs.
        """
        stated = self.parametric
        return None if stated is None else self._solved(stated, designs, stated.cells)

    def on_grid(self, designs: Numbers, cells: tuple[int, ...], solve: Solve | None = None) -> Array | None:
        """The outputs of n designs by the stated equation on so many cells along each axis (see ``emulate``).

        Args:
            designs: Values of the variables, each (n, 1), by name.
            cells: Cells along each axis.
            solve: Solver of the equation; finite differences by default.

        Raises:
            ValueError: no equation is stated, or it cannot be solved for one of the designs.
        """
        stated = self.parametric
        if stated is None:
            raise ValueError(f"{type(self).__name__} states no equation of its fields: give it a `parametric`.")
        return self._solved(stated, designs, cells, solve)

    def _solved(
        self, stated: ParametricEquation, designs: Numbers, cells: tuple[int, ...], solve: Solve | None = None
    ) -> Array | None:
        from fieldcraft.physics.parametric.finite_differences import solved
        from fieldcraft.physics.parametric.transfer import finer, on_cells

        read = finer(cells)
        centres = Grid(stated.domain, read).centres
        n, at_once = max(map(np.size, designs.values()), default=1), max(1, _VALUES // math.prod(read))
        found = []
        for first in range(0, n, at_once):
            some = slice(first, first + at_once)
            part = {name: np.broadcast_to(value, (n, 1))[some] for name, value in designs.items()}
            coarse = (solve or solved)(stated, part, cells)
            fields = {name: on_cells(stated.domain, values, read, stated.repeats) for name, values in coarse.items()}
            outputs = self.functional(fields, centres, part)
            if outputs is None:
                return None
            self._refuse_strange(outputs)
            if not np.isfinite(outputs).all():  # between cells where a field is positive its spline may not be so
                again = self.functional(coarse, Grid(stated.domain, cells).centres, part)
                outputs = outputs if again is None else np.where(np.isfinite(outputs), outputs, again)
            found.append(np.atleast_1d(outputs))
        return np.concatenate(found)

    def _refuse_strange(self, outputs: object) -> None:
        """Accept what ``functional`` gave if it is an array of real numbers, of any shape."""
        given = np.asarray(outputs)
        if given.dtype.kind not in "fiub":
            told = f"a {type(outputs).__name__}" if given.ndim == 0 else f"an array of the type {given.dtype}"
            raise ValueError(
                f"The functional of {type(self).__name__} gave {told}: give an array of real numbers (n, outputs), a "
                "row for each design."
            )

    @property
    def emulator(self) -> Literal["own", "equation"] | None:
        """Source of the cheap predictions: its own ``emulate``, or the stated equation; None if there are none."""
        cls = type(self)
        if cls.emulate is not Problem.emulate:
            return "own"
        stated = self.parametric is not None and cls.functional is not Problem.functional
        return "equation" if stated else None

    def discrete(self, designs: Numbers, cells: tuple[int, ...]) -> DiscreteSystem | None:
        """The equations that a simulation on so many cells solves, of n designs; None if they are not stated.

        Surrogates project them on stored fields. They must be those of the simulator itself, to rounding: what they
        prove of a design they prove of its simulation.

        Args:
            designs: Values of the variables, each (n, 1), by name; whole numbers as floats, choices as text.
            cells: Cells along each axis of ``parametric``'s domain.
        """
        return None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the objective over ``domain`` (over ``space`` where there is none), in its unit.

        None if it is unknown. Noise stated as a share of it (``of_sd``) requires it.
        """
        return None

    def optimum(self, sense: Sense) -> Optimum | None:
        """The best design for this sense; None if it is unknown."""
        return None

    def exact(self, points: Array) -> Array | None:
        """The objective without noise or mesh at the points (n, d), in physical units, shape (n,); None if unknown.

        Columns are the domain's axes where there is a domain, else the space's variables.
        """
        return None

    def exact_constraints(self, points: Array) -> Array | None:
        """The constraints without noise or mesh at the points (n, d), in their units, shape (n, c); None if unknown.

        Columns of the points as for ``exact``; one column for each constraint.
        """
        return None if len([each for each in self.outputs if not each.plain]) > 1 else np.zeros((len(points), 0))

    def cost(self, design: Design) -> float:
        """Expected cost of one experiment on the design, in the campaign's budget units; 1 by default."""
        return 1.0

    def evaluate(self, design: Design, fields: "xr.Dataset") -> dict[str, float]:
        """The measured outputs of a design, computed from a simulation's fields.

        By default each output is read from the scalar variable of its name. If there is none of them, and the problem
        states fields, ``functional`` computes the outputs from those.

        Raises:
            ValueError: such a variable or field is missing, or has other dimensions or places, or the functional gives
                no real numbers.
        """
        names = [output.name for output in self.measured]
        stated = self.fields
        if stated is None or any(name in fields for name in names):
            return {name: scalar(name, fields) for name in names}
        told, axes = stated_fields(stated, fields)
        try:
            found = self.functional(told, axes, {name: np.array([[value]]) for name, value in design.items()})
        except KeyError as error:
            raise missing_field(error.args[0], stated, fields) from None
        if found is None:
            own = type(self).functional is not Problem.functional
            lacking = "a `functional` that returned None, where it" if own else "no `functional` that"
            raise ValueError(
                f"The simulation gave none of {', '.join(names)}, and {type(self).__name__} has {lacking} reads them "
                "from the fields: give it one, or override evaluate()."
            )
        self._refuse_strange(found)
        if np.shape(found) != (1, len(names)):
            raise ValueError(
                f"The functional gave an array of the shape {np.shape(found)}: it must be (1, {len(names)}), a row for "
                "each design and a column for each output."
            )
        return dict(zip(names, (float(value) for value in found[0]), strict=True))


def _left_out(problem: Problem, design: Design) -> str | None:
    """Reason why a design has no result, if a mask leaves it out of the problem's domain; None if it does not."""
    domain = problem.domain
    if domain is None or domain.mask is None or not set(domain.names) <= set(design):
        return None
    place = np.array([[design[name] for name in domain.names]], dtype=np.float64)
    if domain.contains(place)[0]:
        return None
    where = ", ".join(f"{name} {value:g}" for name, value in zip(domain.names, place[0], strict=True))
    return f"the place {where} lies outside the problem's domain"


class Simulator(ABC):
    """A solver, a formula or a script that computes the fields of a design.

    A simulator is a frozen dataclass whose fields are what the campaign file may set. The dataset has named dimensions
    and carries ``attrs["units"]`` on every variable and coordinate; its own ``attrs`` name mesh and solver. The same
    design and generator state give the same dataset.

    Attributes:
        idempotent: True where a run may be repeated without harm. Leave it False for whatever spends material, money
            or time on an instrument: such a run is never repeated unless a person allows it.
        gate_cost: Cost of a design that ``gate`` refused, in the campaign's budget units; never charged above
            what the whole experiment was expected to cost.
        formula: True where a run costs nothing, so that designs may be tried before the campaign begins.
    """

    idempotent: ClassVar[bool] = False
    gate_cost: ClassVar[float] = 0.0
    formula: ClassVar[bool] = False

    def gate(self, problem: Problem, design: Design, rng: np.random.Generator) -> str | None:
        """Check a design cheaply before the expensive run: returns the reason not to run it, or None to go on.

        A refused design is infeasible and is not run. ``rng`` is another stream than that of ``run``. By default a
        design is refused that the mask of the problem's domain leaves out.
        """
        return _left_out(problem, design)

    @abstractmethod
    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """Simulate one design of the problem; all randomness comes from ``rng``.

        Raises:
            Infeasible: the design can have no result.
            Transient: another try may well succeed. After any other exception a person decides.
        """
