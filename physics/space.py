"""Search spaces: designs in physical units on one side, points of [-1, 1]^d on the other.

The encoded ``dimension`` may exceed the number of variables, because a categorical variable takes a one-hot group and
an image one coordinate a pixel.
``encode`` and ``decode`` convert between the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcraft.physics.constraints import LinearConstraint, LinearEquality, QuadraticConstraint, require_kept
from fieldcraft.physics.geometry.breadth import require_breadth
from fieldcraft.physics.geometry.lines import Lines
from fieldcraft.physics.geometry.mixtures import Mixture, mixtures
from fieldcraft.physics.geometry.polytope import EmptyPolytopeError, Polytope
from fieldcraft.physics.geometry.quadrics import CurvedRegion, Quadrics
from fieldcraft.physics.images import Image, ImageColumns
from fieldcraft.physics.structure.categories import Categorical, counted
from fieldcraft.physics.structure.conditions import OnlyIf
from fieldcraft.physics.structure.folds import Folds
from fieldcraft.physics.structure.symmetries import Exchangeable
from fieldcraft.physics.structure.vectors import spread_values
from fieldcraft.physics.variables import Array, Continuous, Integer, SpaceError, suggestion

__all__ = [
    "Categorical",
    "Continuous",
    "Design",
    "Exchangeable",
    "Image",
    "ImageColumns",
    "Integer",
    "LinearConstraint",
    "LinearEquality",
    "OnlyIf",
    "QuadraticConstraint",
    "SearchSpace",
    "SpaceError",
    "Variable",
]

Variable = Continuous | Integer | Categorical | Image

Design = Mapping[str, float | int | str]
"""One design: a value in physical units for every variable's name; an image is text (``Image.text``)."""

Constraint = LinearConstraint | LinearEquality | QuadraticConstraint

# A constraint holds when it is violated by less than this, relative to the size of its terms. What is proposed keeps an
# equality to rounding (``physics.geometry.polytope.ON_PLANE``).
_TOLERANCE = 1e-9
_SAMPLE_BLOCKS = 50
_TRIED = 256


@dataclass(frozen=True)
class SearchSpace:
    """The designs that a campaign may propose: a box of variables, cut by known constraints.

    Args:
        variables: At least one, with different names. Their order is the order of the encoded coordinates.
        constraints: Linear and quadratic constraints and linear equalities that every proposed design satisfies. Two
            opposite linear constraints count as one equality.
        exchangeable: Groups of blocks of variables that may be exchanged: a design and its exchanges are one.
        only_if: Conditions of variables that exist for some levels of a category alone.

    Raises:
        SpaceError: a repeated name; a constraint on an unknown variable, a non-numeric one, or one that is periodic,
            conditional or has ``log``; blocks or conditions that do not fit the variables or the constraints;
            equalities of which one follows from the others or contradicts them; no design that satisfies all
            constraints (with quadratic ones, none that was found), a single one, or designs that have no volume within
            the equalities.
    """

    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...] = ()
    exchangeable: tuple[Exchangeable, ...] = ()
    only_if: tuple[OnlyIf, ...] = ()

    def __post_init__(self) -> None:
        if not self.variables:
            raise SpaceError("A search space has no variables: give at least one.")
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise SpaceError(f"Two variables are named {repeated[0]!r}: give each its own name.")
        for constraint in self.constraints:
            for name in constraint.names:
                self._numeric(name)
        self.folds.require(self.constraints)
        self._validate()

    def _validate(self) -> None:
        """Accept the space if it leaves a choice; programs are solved only if a few points do not settle it."""
        if not self.constraints:
            return
        X = self._snapped(self._uniform(_TRIED, np.random.default_rng(0)))
        inside = X[self._region.contains(X)]
        first = inside[:1] if len(inside) else self.repair(np.zeros((1, self.dimension)))
        require_breadth(self, self._lines, np.concatenate([first, inside]))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, in order."""
        return tuple(variable.name for variable in self.variables)

    @property
    def units(self) -> dict[str, str]:
        """The unit of each variable, by its name, in order; empty for one that has none."""
        return {v.name: "" if isinstance(v, Categorical) else v.unit for v in self.variables}

    @property
    def logarithmic(self) -> tuple[str, ...]:
        """Names of the variables with a logarithmic scale, in order."""
        return tuple(v.name for v in self.variables if isinstance(v, Continuous | Integer) and v.log)

    @cached_property
    def folds(self) -> Folds:
        """Rules by which different encoded points are one design: periods, exchangeable blocks, conditions."""
        return Folds(dict(zip(self.names, self.variables, strict=True)), self.exchangeable, self.only_if)

    @property
    def plain(self) -> bool:
        """True if each design has one encoded point: nothing is periodic, exchangeable or conditional."""
        return not self.folds.reasons

    @cached_property
    def dimension(self) -> int:
        """Number of encoded coordinates."""
        return sum(variable.width for variable in self.variables)

    @cached_property
    def bounds(self) -> Array:
        """Lower and upper bounds of the encoded coordinates, shape (2, dimension)."""
        return np.concatenate([variable.box for variable in self.variables], axis=1)

    @cached_property
    def reach(self) -> Array:
        """Bounds of searches by gradients, shape (2, dimension): ``bounds``, and none of a periodic coordinate."""
        return np.where(self.folds.around, [[-np.inf], [np.inf]], self.bounds)

    @cached_property
    def discrete(self) -> NDArray[np.bool_]:
        """True for each encoded coordinate that takes separate values only, shape (dimension,)."""
        return np.concatenate([np.full(variable.width, variable.discrete) for variable in self.variables])

    @property
    def columns(self) -> dict[str, slice]:
        """The encoded coordinates of each variable, by its name, in order."""
        return dict(zip(self.names, self._columns, strict=True))

    @cached_property
    def groups(self) -> tuple[slice, ...]:
        """The columns of each one-hot group, of a categorical variable without order."""
        pairs = zip(self._columns, self.variables, strict=True)
        return tuple(s for s, v in pairs if isinstance(v, Categorical) and not v.ordered)

    @cached_property
    def images(self) -> tuple[ImageColumns, ...]:
        """The columns of each image's pixels."""
        variables = zip(self._columns, self.variables, strict=True)
        return tuple(ImageColumns(columns.start, v.shape) for columns, v in variables if isinstance(v, Image))

    @property
    def linear(self) -> tuple[Array, Array]:
        """The linear inequalities in encoded coordinates, A u <= b: A (c, dimension) with rows of length 1, b (c,)."""
        return self._lines.A, self._lines.b

    @property
    def equalities(self) -> tuple[Array, Array]:
        """The linear equalities in encoded coordinates, E u = e: E (k, dimension) with rows of length 1, e (k,).

        Rows are linearly independent.
        """
        return self._lines.E, self._lines.e

    @cached_property
    def leaving(self) -> Array:
        """Orthonormal moves of the continuous coordinates that leave the planes of the equalities, (r, dimension)."""
        return self._polytope.leaving(~self.discrete)

    @cached_property
    def mixtures(self) -> tuple[Mixture, ...]:
        """The coordinates that equalities tie together, as functions of points of the unit cube."""
        return mixtures(*self.equalities, self.bounds, self.steps, self._lines.names)

    @cached_property
    def steps(self) -> Array:
        """Distance between neighbouring values in each coordinate, shape (dimension,); 0 where it varies."""
        numbers = map(counted, self.variables)
        spacings = (0.0 if n is None or n.log else 1 / n.scale[1] for n in numbers)
        return np.repeat(list(spacings), [v.width for v in self.variables])

    @property
    def curves(self) -> tuple[QuadraticConstraint, ...]:
        """The quadratic constraints."""
        return tuple(each for each in self.constraints if isinstance(each, QuadraticConstraint))

    @cached_property
    def quadratic(self) -> Quadrics:
        """The quadratic constraints in encoded coordinates."""
        constraints = self.curves
        columns = {name: column.start for name, column in zip(self.names, self._columns, strict=True)}
        middle, half = np.zeros(self.dimension), np.zeros(self.dimension)
        for name in {name for constraint in constraints for name in constraint.names}:
            middle[columns[name]], half[columns[name]] = self._numeric(name).scale
        Q, a = np.zeros((len(constraints), *middle.shape, *middle.shape)), np.zeros((len(constraints), *middle.shape))
        for row, constraint in enumerate(constraints):
            Q[row], a[row] = constraint.matrix(columns, self.dimension)
        b = np.array([constraint.upper for constraint in constraints]) - a @ middle - middle @ Q @ middle
        return Quadrics.scaled(half[:, None] * Q * half, half * (a + 2 * Q @ middle), b)

    def encode(self, designs: Sequence[Design]) -> Array:
        """Encoded points of the designs, shape (n, dimension).

        Variables that do not exist in a design are at their resting value, whatever it says of them. Bounds and
        constraints are not checked here (``check`` does that): a recorded design may lie outside a narrowed space.

        Raises:
            SpaceError: a missing or unknown name, a level that does not exist, a value that is not a finite number.
        """
        X = np.zeros((len(designs), self.dimension))
        for row, design in zip(X, designs, strict=True):
            self._check_names(design)
            for variable, columns in zip(self.variables, self._columns, strict=True):
                row[columns] = variable.encode(design[variable.name])
        return self.folds.at_rest(X)

    def decode(self, X: ArrayLike) -> list[dict[str, float | int | str]]:
        """Designs of the encoded points (n, dimension): bounds hold exactly, integers are ``int``.

        Raises:
            SpaceError: a wrong shape or a coordinate that is not finite.
        """
        return [
            {v.name: v.decode(row[columns]) for v, columns in zip(self.variables, self._columns, strict=True)}
            for row in self._checked(X)
        ]

    def values(self, X: Array) -> dict[str, Any]:
        """Values of encoded points (n, dimension), each (n, 1), by name.

        Those of continuous variables are not clipped; there are whole numbers, as floats, and names of levels, as text.

        Raises:
            SpaceError: a variable is an image.
        """
        return {each.name: each.at(X[:, columns]) for each, columns in zip(self.variables, self._columns, strict=True)}

    def coordinates(self, values: Mapping[str, Array]) -> Array:
        """Encoded points (n, dimension) of values by name, n each, of continuous variables alone.

        Raises:
            SpaceError: a variable is not continuous.
        """
        return np.stack([each.coordinates(np.ravel(values[each.name])) for each in self._reals], axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent feasible points, shape (n, dimension), uniform over the space.

        Equalities count as the space: points are uniform on their plane. Where the feasible set is so small that
        rejection fails, the rest of the points come from a random walk (hit and run) inside the feasible set, which is
        uniform only in the limit.
        """
        kept = np.empty((0, self.dimension))
        for _ in range(_SAMPLE_BLOCKS):
            X = self._rested(self._snapped(self._uniform(n, rng)))
            kept = np.concatenate([kept, X[self._region.contains(X)]])
            if len(kept) >= n:
                return kept[:n]
        rest = self._entered(n - len(kept), rng)
        return np.concatenate([kept, self.repair(self._region.walk(rest, ~self.discrete, rng))])

    def repair(self, X: ArrayLike) -> Array:
        """The nearest allowed points, shape (n, dimension): allowed points come back unchanged.

        Coordinates are clipped, integers rounded, one-hot groups snapped to their largest entry. A point that then
        violates a constraint is projected onto the feasible set in its continuous coordinates; where no continuous move
        suffices, the nearest feasible integers are taken first. Where a quadratic constraint leaves a set that is not
        convex, the point is the nearest of those that a search from several starts finds.

        Raises:
            SpaceError: a wrong shape or a coordinate that is not finite.
        """
        X = self._rested(self._snapped(self._checked(X)))
        for row in np.flatnonzero(~self._region.contains(X)):
            (X[row],) = self._rested(self._nearest(X[row])[None])
        return X

    def completed(self, X: ArrayLike, moving: NDArray[np.bool_]) -> Array:
        """Points X (n, dimension) moved as little as the linear constraints ask, only in the ``moving`` coordinates.

        Whole numbers among these may become fractions. Rows are NaN where no such move suffices.

        Raises:
            SpaceError: a wrong shape or a coordinate that is not finite.
        """
        X = self._checked(X)
        for row, x in enumerate(X):
            try:
                X[row] = self._polytope.project(x, moving)
            except EmptyPolytopeError:
                X[row] = np.nan
        return X

    def check(self, design: Design) -> None:
        """Accept a design of this space, or raise an error that states what is wrong with it.

        The value of a variable that does not exist in it may lie outside its bounds.

        Raises:
            SpaceError: a missing or unknown name, NaN, a value out of bounds, a fraction for a whole number, an unknown
                level, or a violated constraint.
        """
        self._check_names(design)
        existing = self.folds.existing(design)
        for variable in self.variables:
            (variable.check if variable.name in existing else variable.encode)(design[variable.name])
        for constraint in self.constraints:
            numbers = {name: self._numeric(name) for name in constraint.names}
            require_kept(constraint, design, numbers, _TOLERANCE)

    def narrowed(self, bounds: Mapping[str, tuple[float, float]]) -> "SearchSpace":
        """The space with tighter bounds, in physical units, on the named variables.

        Those of an image hold for every pixel, those of a vector's name for every component.

        Raises:
            SpaceError: an unknown or categorical name, bounds that are reversed, not finite or wider than the space's,
                of one exchangeable block alone, or of a component and of its vector.
        """
        each = spread_values(bounds, self.names)
        tighter = {name: self._variable(name).narrowed(*pair) for name, pair in each.items()}
        return replace(self, variables=tuple(tighter.get(v.name, v) for v in self.variables))

    @cached_property
    def _columns(self) -> tuple[slice, ...]:
        ends = np.cumsum([variable.width for variable in self.variables])
        return tuple(slice(int(e) - v.width, int(e)) for e, v in zip(ends, self.variables, strict=True))

    @cached_property
    def _lines(self) -> Lines:
        columns = {name: column.start for name, column in self.columns.items()}
        scales = {v.name: v.scale for v in self.variables if isinstance(v, Continuous | Integer)}
        return Lines.of(self.constraints, columns, scales, self.discrete, _TOLERANCE)

    @cached_property
    def _polytope(self) -> Polytope:
        (A, b), (E, e), (low, high) = self.linear, self.equalities, self.bounds
        return Polytope(A, b, low, high, _TOLERANCE, E, e)

    @cached_property
    def _region(self) -> Polytope | CurvedRegion:
        return CurvedRegion(self._polytope, self.quadratic) if len(self.quadratic) else self._polytope

    def _variable(self, name: str) -> Variable:
        if name not in self.names:
            raise SpaceError(f"No variable is named {name!r}.{suggestion(name, self.names)}")
        return self.variables[self.names.index(name)]

    @cached_property
    def _reals(self) -> tuple[Continuous, ...]:
        """The variables, all of them continuous."""
        found = []
        for each in self.variables:
            if not isinstance(each, Continuous):
                raise SpaceError(f"{each.name} is no continuous variable: leave it out of what asks for real numbers.")
            found.append(each)
        return tuple(found)

    def _numeric(self, name: str) -> Continuous | Integer:
        variable = self._variable(name)
        if not isinstance(variable, Continuous | Integer):
            kind = "an image" if isinstance(variable, Image) else "a categorical"
            raise SpaceError(f"A constraint holds {name}, {kind}: only numbers can be summed; leave it out.")
        if isinstance(variable, Continuous) and variable.periodic:
            raise SpaceError(
                f"A constraint holds {name}, which is periodic: a sum would tell its two ends apart; leave out the "
                "constraint, or periodic."
            )
        if name in self.folds.conditional:
            raise SpaceError(
                f"A constraint holds {name}, which does not exist in every design: leave it out of the constraint."
            )
        if variable.log:
            raise SpaceError(
                f"A constraint holds {name}, which has a logarithmic scale: sums are kept on linear scales only; leave "
                "out the constraint, or log."
            )
        return variable

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def _check_names(self, design: Design) -> None:
        if design.keys() == self._known:
            return
        for name in design:
            self._variable(name)
        missing = [name for name in self.names if name not in design]
        if missing:
            raise SpaceError(f"The design {dict(design)} has no value for {', '.join(missing)}: give one.")

    def _checked(self, X: ArrayLike) -> Array:
        X = np.array(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.dimension:
            raise SpaceError(f"Encoded points have the shape {X.shape}: give (n, {self.dimension}).")
        if not np.isfinite(X).all():
            raise SpaceError(
                f"An encoded point is {X[~np.isfinite(X).all(axis=1)][0]}: every coordinate must be finite."
            )
        return X

    def _uniform(self, n: int, rng: np.random.Generator) -> Array:
        """Points of the box, uniform except in coordinates tied by equalities, shape (n, dimension).

        Tied coordinates are on their planes, and uniform over a set that encloses the part of these inside the box.
        """
        X = np.concatenate([variable.uniform(n, rng) for variable in self.variables], axis=1)
        for mixture in self.mixtures:
            X[:, mixture.columns] = mixture.from_cube(rng.random((n, mixture.dimension)))
        return X

    def _snapped(self, X: Array) -> Array:
        """X inside the box, on integers and on one-hot corners."""
        X = np.clip(X, *self.reach)
        for variable, columns in zip(self.variables, self._columns, strict=True):
            X[:, columns] = variable.snap(X[:, columns])
        return self.folds.at_rest(X)

    def _rested(self, X: Array) -> Array:
        return self._polytope.rested(X, ~self.discrete) if self.mixtures else X

    def _entered(self, n: int, rng: np.random.Generator) -> Array:
        """n feasible points at which a random walk may begin, shape (n, dimension)."""
        X = self._snapped(self._uniform(n, rng))
        if isinstance(self._region, Polytope):
            return self.repair(X)
        X = self._region.entered(X, ~self.discrete)
        inside = X[self._region.contains(X)]
        inside = inside if len(inside) else self.repair(X[:1])
        return np.asarray(inside[rng.integers(len(inside), size=n)])

    def _nearest(self, x: Array) -> Array:
        """The nearest feasible point to a snapped one, shape (dimension,)."""
        try:
            return self._region.project(x, ~self.discrete)
        except EmptyPolytopeError:
            pass
        try:
            near = self._region.nearest_on_lattice(x, self.steps)
            return self._region.project(self._snapped(near[None])[0], ~self.discrete)
        except EmptyPolytopeError as error:
            none = "No design was found that" if len(self.quadratic) else "No design"
            raise SpaceError(
                f"{none} satisfies {'; '.join(map(str, self.constraints))} within the bounds: relax one of them."
            ) from error
