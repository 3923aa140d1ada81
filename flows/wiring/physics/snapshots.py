"""The stored fields of a campaign's trials, on one grid, for a surrogate that learns from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.wiring.physics.emulators import explained
from fieldcraft.flows.wiring.physics.kept_means import MEANS, keep, loaded, place_of
from fieldcraft.flows.wiring.physics.nearest_designs import nearest
from fieldcraft.flows.wiring.physics.stated_fields import no_fields
from fieldcraft.physics.parametric.discrete import DiscreteSystem
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Fields, ParametricEquation
from fieldcraft.physics.parametric.transfer import MANY, fewer, on_cells
from fieldcraft.physics.problem import Problem, Solve, stated_fields
from fieldcraft.physics.space import SearchSpace
from fieldcraft.storage.fields import FieldDamaged, fields_at
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.snapshots import Calibration, Predict, Snapshots

# Fields that a process keeps, each on a grid of at most some thousand cells.
_KEPT = 4096
# Numbers of the emulator's fields that are solved for together.
_VALUES = 4_000_000
# Outputs read on fewer cells agree with those of the run within this share of their spread, and this share of them.
_ALIKE, _ROUNDING = 0.1, 1e-6


@dataclass(frozen=True, eq=False)
class ReadFields:
    """The stated fields and the functional of a problem, on the grid of its snapshots.

    Args:
        problem: The problem.
        stated: Its statement.
        space: Space of real variables that encodes the designs.
        names: The fields, in the order of the snapshots.
        cells: Cells along each axis. Where the domain has a mask, fields have values at those whose centres it leaves.
    """

    problem: Problem
    stated: Fields
    space: SearchSpace
    names: tuple[str, ...]
    cells: tuple[int, ...]

    @cached_property
    def _grid(self) -> Grid:
        return Grid(self.stated.domain, self.cells)

    def read(self, fields: np.ndarray, X: np.ndarray) -> np.ndarray:
        """All outputs of fields (k, fields, cells) of encoded designs X (k, d), shape (k, outputs).

        Raises:
            ValueError: ``functional`` asks for a field that is not among them, or gives another shape.
        """
        grid = self._grid
        told, centres = {name: grid.boxed(fields[:, i]) for i, name in enumerate(self.names)}, grid.centres
        try:
            with explained(self.problem, "read its outputs"), np.errstate(all="ignore"):
                found = np.asarray(self.problem.functional(told, centres, self.space.values(X)), dtype=np.float64)
        except KeyError as error:
            raise ValueError(f"The functional asks for {error}, and the fields are {', '.join(self.names)}.") from error
        expected = len(X), len(self.problem.outputs)
        if found.shape != expected:
            raise ValueError(f"The functional gave an array of the shape {found.shape}: it must be {expected}.")
        return found

    def agrees(self, fields: np.ndarray, X: np.ndarray, outputs: np.ndarray) -> bool:
        """True if the outputs (k, outputs) of the runs are those of their fields but for what other cells change.

        Raises:
            ValueError: they are, read one by one, and are not where ``functional`` reads several at once.
        """
        within = _ALIKE * np.std(outputs, axis=0) + _ROUNDING * np.abs(outputs)
        reason = "gives others"
        try:
            if np.all(np.abs(self.read(fields, X) - outputs) <= within):
                return True
        except ValueError as error:
            reason = f"fails: {error}"
        try:
            singly = [self.read(fields[i : i + 1], X[i : i + 1])[0] for i in range(len(X))]
        except ValueError:
            return False
        if len(X) > 1 and np.all(np.abs(singly - outputs) <= within):
            raise ValueError(
                f"The functional of {type(self.problem).__name__} reads the results of each design alone, and for "
                f"several at once it {reason}. Let it take arrays whose first axis is the design."
            )
        return False

    def snapshots(self, values: np.ndarray, digests: Sequence[str]) -> "Snapshots":
        """Snapshots of fields (n, fields, cells) of these digests."""
        from fieldcraft.models.snapshots import Snapshots

        def coarser(most: int) -> Snapshots:
            few = fewer(self.cells, most)
            return replace(self, cells=few).snapshots(self._on(values, few), digests)

        shape = self.cells if self.stated.domain.mask is None else ()
        grid = Grid(self.stated.domain, self.cells)
        return Snapshots(
            values,
            tuple(digests),
            None,
            self.read,
            shape=shape,
            grid=grid,
            coarser=coarser,
            names=self.names,
            stepped=self.space.discrete,
        )

    def _on(self, values: np.ndarray, cells: tuple[int, ...]) -> np.ndarray:
        """Fields (n, fields, cells) carried to so many cells along each axis."""
        whole = Grid(self.stated.domain, self.cells).boxed(values.reshape(-1, values.shape[2]))
        return self._picked(whole, cells).reshape(*values.shape[:2], -1)

    def _picked(self, whole: np.ndarray, cells: tuple[int, ...]) -> np.ndarray:
        """Fields (n, *given cells) at those of so many cells that the domain's mask leaves, shape (n, cells)."""
        carried = on_cells(self.stated.domain, whole, cells, self.stated.repeats)
        return Grid(self.stated.domain, cells).picked(carried)


@dataclass(frozen=True, eq=False)
class StatedFields(ReadFields):
    """The same for fields that satisfy a stated equation, which predicts them on a coarse grid.

    Args:
        solve: Solver of the equation on its coarse grid; finite differences where it is None.
    """

    stated: ParametricEquation
    solve: Solve | None = None

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Fields of encoded designs X (k, d) by the equation on its coarse grid, shape (k, fields, cells)."""
        at_once = max(1, _VALUES // math.prod(self.stated.cells))
        blocks = (X[first : first + at_once] for first in range(0, len(X), at_once))
        parts = [nearest(self._solved, self.space, block) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _solved(self, X: np.ndarray) -> np.ndarray:
        from fieldcraft.physics.parametric.finite_differences import solved

        with explained(self.problem, "solve its equation"):
            found = (self.solve or solved)(self.stated, self.space.values(X), self.stated.cells)
        coarse = np.stack([found[name] for name in self.names], axis=1)
        return self._picked(coarse.reshape(-1, *coarse.shape[2:]), self.cells).reshape(*coarse.shape[:2], -1)

    def calibrated(self, values: np.ndarray) -> "Predict":
        """``predict`` for values (c,) of the equation's coefficients, in their order and units."""
        return replace(self, stated=self.stated.calibrated(values.tolist())).predict

    def snapshots(self, values: np.ndarray, digests: Sequence[str]) -> "Snapshots":
        """Snapshots of fields (n, fields, cells) of these digests."""
        from fieldcraft.physics.parametric.evidence import inner_cells

        enough = min(self.cells) >= 3 and inner_cells(Grid(self.stated.domain, self.cells), self.stated.repeats).any()
        alone, judged = super().snapshots(values, digests), self.residuals if enough else None
        states = type(self.problem).discrete is not Problem.discrete
        return replace(
            alone,
            predict=self.predict,
            calibration=self._calibration(values),
            residuals=judged,
            discrete=self.discrete if states else None,
            terms=self.terms if states else None,
        )

    def discrete(self, X: np.ndarray) -> DiscreteSystem:
        """The equations that the simulator solves on these cells, of encoded designs X (k, d).

        Raises:
            ValueError: the problem states none for these cells, or of a field that is not among the snapshots'.
        """
        with explained(self.problem, "state its discrete equations"):
            found = self.problem.discrete(self.space.values(X), self.cells)
        if found is not None and not isinstance(found, DiscreteSystem):
            raise ValueError(
                f"The discrete equations of {type(self.problem).__name__} are a {type(found).__name__}: let its "
                "`discrete` return a DiscreteSystem."
            )
        if found is None or found.field not in self.names or found.free.max() >= math.prod(self.cells):
            raise ValueError(
                f"The discrete equations of {type(self.problem).__name__} are not those of a field on "
                f"{' x '.join(map(str, self.cells))} cells: let its `discrete` state them for these."
            )
        inside = Grid(self.stated.domain, self.cells).inside
        if not inside[found.free].all():
            raise ValueError(
                f"The discrete equations of {type(self.problem).__name__} have unknown cells outside the mask of the "
                "domain: leave them out of `free`."
            )
        return replace(found, free=np.cumsum(inside)[found.free] - 1)

    def terms(self, X: np.ndarray) -> np.ndarray:
        """Terms (k, Q) of the stiffness above that of the equations, of encoded designs X (k, d).

        Raises:
            ValueError: the problem states none.
        """
        above = self.discrete(X[:1]).above
        if above is None:
            raise ValueError(f"The discrete equations of {type(self.problem).__name__} state no stiffness `above`.")
        with explained(self.problem, "state its stiffness from above"):
            found = np.asarray(above.terms(self.space.values(X)), dtype=np.float64)
        expected = len(X), len(above.shapes)
        if found.shape != expected or not np.isfinite(found).all():
            raise ValueError(
                f"The terms of the stiffness above that of {type(self.problem).__name__} have the shape {found.shape} "
                f"or a number that is not finite: give finite numbers of the shape {expected}."
            )
        return found

    def residuals(self, fields: np.ndarray, X: np.ndarray, values: np.ndarray | None) -> np.ndarray:
        """Largest share that fields (k, fields, cells) of encoded designs X (k, d) leave of an equation, shape (k,).

        Args:
            fields: Means over the cells.
            X: The designs.
            values: Values of the equation's coefficients; None for the stated ones.
        """
        from fieldcraft.physics.parametric.evidence import imbalance

        stated = self.stated if values is None else self.stated.calibrated(values.tolist())
        designs, found, grid = self.space.values(X), [], Grid(self.stated.domain, self.cells)
        for number, each in enumerate(fields):
            design = {name: value[number, 0].item() for name, value in designs.items()}
            told = {name: grid.boxed(each[i]) for i, name in enumerate(self.names)}
            with explained(self.problem, "put a field into its equation"):
                found.append(imbalance(stated, design, told).max())
        return np.array(found)

    def _calibration(self, values: np.ndarray) -> "Calibration | None":
        """Coefficients to calibrate on fields (n, fields, cells), on the fewer cells along each axis."""
        from fieldcraft.models.snapshots import Calibration

        if not self.stated.coefficients or self.solve is not None:
            return None  # a network was trained for the stated values alone
        few = tuple(map(min, self.cells, self.stated.cells))
        coarse = replace(self, cells=few)
        return Calibration(self.stated.coefficients, self._on(values, few), coarse.calibrated, self.calibrated)


def uses_fields(campaign: "Campaign") -> bool:
    """True if a campaign's surrogate, that of its constraints, or its rival may learn from stored fields.

    False where noise is added to the results: fields have none of it, and would tell what the results are to hide.
    """
    from fieldcraft.models.surrogate import TakesFields

    if campaign.noise_sd:
        return False
    words = campaign.algorithm
    learners = (words.surrogate, words.constraints.surrogate if len(campaign.problem.outputs) > 1 else None, words.peer)
    return any(isinstance(each, TakesFields) and each.uses_fields for each in learners)


def snapshots_of(
    campaign: "Campaign",
    digests: Sequence[str | None],
    X: np.ndarray,
    outputs: np.ndarray,
    solve: Solve | None = None,
) -> "Snapshots | None":
    """The fields of trials, with these digests of their stored datasets, on the grid of the first of them.

    A field of very many cells is kept on fewer, as their means; fields on other grids are carried to that grid. Then no
    ``residuals`` tell of the equation: second differences of means that share cells are much larger than those of the
    field.

    Args:
        campaign: The campaign.
        digests: A digest for each of n trials; None for a trial without a field.
        X: Encoded designs, shape (n, d).
        outputs: What the trials yielded, shape (n, outputs).
        solve: Solver of the equation on its coarse grid; finite differences where it is None.

    Returns:
        None where the problem states no fields, an equation of them is not its emulator, or a trial left no field from
        which its outputs are read: none or a damaged one, one on other places or in other units, another kind of field
        than the first, or outputs that were corrected since.

    Raises:
        storage.fields.FieldError: the store does not answer.
    """
    problem, space = campaign.problem, campaign.space
    stated, known = problem.parametric or problem.fields, [each for each in digests if each is not None]
    if stated is None or no_fields(problem, space, network=solve is not None) is not None:
        return None
    if not known or len(known) < len(digests):
        return None
    places = campaign.settings.fields, campaign.settings.work / MEANS
    try:
        first = _stored(*places, known[0], problem, None)
        grid = _grid(problem, stated, space, tuple(first.fields), next(iter(first.fields.values())).shape, solve)
        read = [first, *(_stored(*places, digest, problem, grid.cells) for digest in known[1:])]
    except (ValueError, FieldDamaged):
        return None
    if any(tuple(each.fields) != grid.names for each in read):
        return None
    on = Grid(stated.domain, grid.cells)
    values = np.stack([[on.picked(field) for field in each.fields.values()] for each in read])
    if not grid.agrees(values, X, outputs):
        return None
    found = grid.snapshots(values, known)
    return found if all(each.whole for each in read) else replace(found, residuals=None)


def read_elsewhere(problem: Problem, own: "Snapshots", target: "Snapshots", X: np.ndarray) -> np.ndarray | None:
    """Outputs (n, outputs) of encoded designs X (n, d), read from their fields carried to the cells of others.

    Args:
        problem: The problem.
        own: The fields of these designs, such as those of a coarser mesh.
        target: Fields on the other cells.
        X: The designs.

    Returns:
        None where the two are other kinds of fields, or an output cannot be read.
    """
    stated = problem.parametric or problem.fields
    if stated is None or own.grid is None or target.grid is None or own.names != target.names:
        return None
    whole = own.grid.boxed(own.values.reshape(-1, own.values.shape[2]))
    try:
        there = target.grid.picked(on_cells(stated.domain, whole, target.grid.cells, stated.repeats))
        found = target.read(there.reshape(*own.values.shape[:2], -1), X)
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _grid(
    problem: Problem,
    stated: Fields,
    space: SearchSpace,
    names: tuple[str, ...],
    cells: tuple[int, ...],
    solve: Solve | None,
) -> ReadFields:
    if problem.parametric is None:
        return ReadFields(problem, stated, space, names, cells)
    return StatedFields(problem, problem.parametric, space, names, cells, solve)


@dataclass(frozen=True, eq=False)
class _Read:
    """The stated fields of one stored dataset, each (*cells), and whether they are as they were stored."""

    fields: Mapping[str, np.ndarray]
    whole: bool


@lru_cache(maxsize=_KEPT)
def _stored(place: Path | str, means: Path, digest: str, problem: Problem, cells: tuple[int, ...] | None) -> _Read:
    """Stated fields of one stored dataset on so many cells, or on its own, or on fewer if these are very many.

    Means over very many cells are kept in the folder ``means``.

    Raises:
        ValueError: its places are others, it holds none of the fields, or values that are not finite.
        storage.fields.FieldError: it is damaged or lost, or the store does not answer.
    """
    stated = problem.parametric or problem.fields
    assert stated is not None  # else nothing is read
    # A field is found by its digest alone.
    store, ref = fields_at(place), FieldRef(digest=digest, size=0)
    kept = place_of(means, digest, stated, cells)
    if kept is not None and (known := loaded(kept, stated)) is not None:
        store.names(ref)  # a field that was lost teaches no more
        return _Read(known, whole=False)
    found, _ = stated_fields(stated, store.read(ref))
    for name, values in found.items():
        if not np.isfinite(Grid(stated.domain, values.shape[1:]).picked(values)).all():
            raise ValueError(f"The stored field {digest[:12]} has values of {name!r} that are not finite.")
    fields = {
        name: on_cells(stated.domain, values, cells or fewer(values.shape[1:]), stated.repeats)[0]
        for name, values in found.items()
    }
    if kept is not None and next(iter(found.values())).size > MANY:
        keep(kept, stated, fields)
    return _Read(fields, all(found[name].shape[1:] == each.shape for name, each in fields.items()))
