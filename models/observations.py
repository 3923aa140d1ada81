"""Observations that a surrogate learns from: encoded designs, results, their scaling and the known physics."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.data.aim import Aim as Aim
from fieldcraft.models.data.arrays import Array as Array
from fieldcraft.models.data.arrays import digest_of, frozen, refuse_non_finite
from fieldcraft.models.data.composite import Composite
from fieldcraft.models.data.earlier_results import EarlierResults as EarlierResults
from fieldcraft.models.data.emulators import Emulator as Emulator
from fieldcraft.models.data.emulators import SparseFields as SparseFields
from fieldcraft.models.data.known_physics import KnownSide as KnownSide
from fieldcraft.models.data.known_physics import Physics as Physics
from fieldcraft.models.data.level_results import LevelResults as LevelResults
from fieldcraft.models.data.level_results import require_levels
from fieldcraft.models.data.partial_results import PartialResults as PartialResults
from fieldcraft.models.data.scaling import Scaling as Scaling
from fieldcraft.models.data.scaling import deviation
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.physics.space import ImageColumns as ImageColumns
from fieldcraft.physics.space import SearchSpace

# Noise beyond so many deviations of the results is as good as infinite; its square must remain a float64.
_MOST_NOISE = 1e100


@dataclass(frozen=True, eq=False)
class Observations:
    """The trials of a campaign that a surrogate learns from, as arrays.

    Args:
        X: Encoded designs, shape (n, d), n >= 1.
        y: Results of the objective, shape (n,), in its unit.
        maximize: True if the campaign maximises y; a surrogate only ever sees the minimised ``targets``.
        noise_sd: Known standard deviation of a result, in the objective's unit; None where it is not known.
        exact: True if a design that is read again gives the same number, so that none is read twice. The campaign
            states it and has it in its digest; it is not part of this one.
        exact_constraints: The same for results of the constraints alone.
        constraint_sds: Known standard deviations of the noise of the constraints' results, in their units, length c;
            empty where the campaign adds none. Its digest has them.
        physics: The equation that the objective satisfies, where one is known.
        images: Coordinates that are the pixels of images.
        constraints: Results of the unknown constraints, each met where it is <= 0, shape (n, c), in their units.
        failed: Encoded designs that have no result because they are infeasible themselves, shape (k, d).
        columns: The encoded coordinates of each variable, by its name; empty where each coordinate is a variable. They
            belong to the search space, which is in the campaign's digest; they are not part of this one.
        space: Search space; None for all of [-1, 1]^d. It is not part of the digest either.
        emulators: Cheap predictions of the objective and of each constraint, in this order; empty where there are none.
            They are code of the problem, which is in the campaign's digest; they are not part of this one.
        snapshots: Fields that the runs of these trials left; None where the surrogate does not ask for them, or where
            a trial has none. Their digests are part of this one.
        readings: Readings of the trials' fields at single places, which calibrate coefficients of the emulators; None
            where no trial left any, or the surrogate does not ask for them. Their digests are part of this one.
        gradients: Derivatives of y by the encoded coordinates, in the objective's unit, shape (n, d); NaN where a trial
            has none, or a coordinate. None where no trial has one, or the surrogate does not ask for them.
        aims: Senses and references of several objectives, the first of which is y; empty where y is the only one. They
            belong to the problem, which is in the campaign's digest; they are not part of this one.
        further: Results of the objectives after the first, in their units, shape (n, m - 1).
        earlier: Results of earlier campaigns at other designs of this space; they are part of the digest.
        sds: Known standard deviation of each single result, of the objectives and then the constraints, in their units,
            shape (n, m + c); NaN where a result states none. Empty where none does.
        composite: The outputs from which y is computed, where it is learnt through them; else None.
        levels: Expected cost of one run at each coarser level of the simulator, rising, as shares of the target's. X
            and y are results of the target. The costs are in the campaign's digest; they are not part of this one.
        lower: Results of those levels that have any, the cheapest first; they are part of the digest.
        partial: Results that give only some of several objectives and constraints; None where there are none. They are
            part of the digest.
        limit: True if y are results of a constraint, for which zero has a meaning.

    Raises:
        ValueError: no trial, shapes disagree, a value is not finite, the noise is negative, or an image has pixels
            beyond the last coordinate.
    """

    X: Array
    y: Array
    maximize: bool
    noise_sd: float | None = None
    physics: Physics | None = None
    exact: bool = False
    images: tuple[ImageColumns, ...] = ()
    constraints: Array = field(default_factory=lambda: np.empty((0, 0)))
    failed: Array = field(default_factory=lambda: np.empty((0, 0)))
    columns: Mapping[str, slice] = field(default_factory=dict)
    space: SearchSpace | None = None
    emulators: tuple[Emulator, ...] = ()
    snapshots: Snapshots | None = None
    gradients: Array | None = None
    readings: SparseFields | None = None
    aims: tuple[Aim, ...] = ()
    further: Array = field(default_factory=lambda: np.empty((0, 0)))
    earlier: tuple[EarlierResults, ...] = ()
    sds: Array = field(default_factory=lambda: np.empty((0, 0)))
    composite: Composite | None = None
    levels: tuple[float, ...] = ()
    lower: tuple[LevelResults, ...] = ()
    partial: PartialResults | None = None
    limit: bool = False
    exact_constraints: bool = False
    constraint_sds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", frozen(self.X))
        object.__setattr__(self, "y", frozen(self.y))
        if self.X.ndim != 2 or self.y.shape != (self.X.shape[0],) or self.X.size == 0:
            raise ValueError(
                f"X {self.X.shape} and y {self.y.shape} do not fit: give X (n, d) and y (n,) with at least one trial."
            )
        refuse_non_finite(self.X, "X", "encode the designs with SearchSpace.encode.")
        refuse_non_finite(self.y, "y", "record such a trial as failed instead.")
        if self.noise_sd is not None and not (math.isfinite(self.noise_sd) and self.noise_sd >= 0):
            raise ValueError(f"noise_sd is {self.noise_sd}: give a finite number >= 0, or None where it is not known.")
        if self.physics is not None and self.physics.points.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"Collocation points have {self.physics.points.shape[1]} coordinates and designs {self.X.shape[1]}: "
                "the equation's domain must have one axis for each encoded design variable."
            )
        if self.snapshots is not None and len(self.snapshots.values) != len(self.X):
            raise ValueError(
                f"There are the fields of {len(self.snapshots.values)} trials and the designs of {len(self.X)}: give "
                "the fields of every trial, or none."
            )
        self._check_gradients()
        self._check_constraints()
        self._check_objectives()
        self._check_sds()
        if self.composite is not None and (len(self.composite.values) != len(self.X) or self.aims):
            raise ValueError(
                f"{len(self.composite.values)} results of parts do not fit {len(self.X)} trials of "
                f"{max(len(self.aims), 1)} objectives: give the parts of every trial, of one objective."
            )
        require_levels(self.lower, len(self.levels), self.X.shape[1])
        if self.partial is not None:
            outputs = len(self.aims) + self.constraints.shape[1] if self.aims else 0
            self.partial.require_fits(self.X.shape[1], outputs, fields=self.snapshots is not None)
        for image in self.images:
            if not 0 <= image.first <= self.X.shape[1] - math.prod(image.shape):
                raise ValueError(
                    f"An image of {image.shape} pixels from coordinate {image.first} on does not fit into "
                    f"{self.X.shape[1]} coordinates: take the columns from SearchSpace.images."
                )

    def _check_gradients(self) -> None:
        if self.gradients is None:
            return
        object.__setattr__(self, "gradients", frozen(self.gradients))
        if self.gradients.shape != self.X.shape or np.isinf(self.gradients).any():
            raise ValueError(
                f"gradients {self.gradients.shape} of designs {self.X.shape} must have their shape and no infinite "
                "value: give NaN where a derivative is not known."
            )

    def _check_constraints(self) -> None:
        n, d = self.X.shape
        object.__setattr__(self, "constraints", frozen(self.constraints if np.size(self.constraints) else [[]] * n))
        object.__setattr__(self, "failed", frozen(self.failed if np.size(self.failed) else np.empty((0, d))))
        refuse_non_finite(self.constraints, "constraints", "record such a trial as failed instead.")
        refuse_non_finite(self.failed, "failed", "encode the designs with SearchSpace.encode.")
        if self.constraints.ndim != 2 or len(self.constraints) != n or self.failed.shape[1:] != (d,):
            raise ValueError(
                f"constraints {self.constraints.shape} and failed {self.failed.shape} do not fit {n} trials of {d} "
                "coordinates: give constraints (n, c) and failed (k, d)."
            )
        sds = self.constraint_sds
        if len(sds) not in (0, self.constraints.shape[1]) or not all(math.isfinite(sd) and sd >= 0 for sd in sds):
            raise ValueError(f"constraint_sds is {sds}: give a finite number >= 0 for each constraint, or none.")

    def _check_objectives(self) -> None:
        n = len(self.X)
        object.__setattr__(self, "further", frozen(self.further if np.size(self.further) else [[]] * n))
        refuse_non_finite(self.further, "further", "record such a trial as failed instead.")
        if self.further.shape != (n, max(len(self.aims) - 1, 0)) or len(self.aims) == 1:
            raise ValueError(
                f"further {self.further.shape} and {len(self.aims)} aims do not fit {n} trials: give the aims of all "
                "m >= 2 objectives and further (n, m - 1), or neither."
            )
        if self.aims and self.aims[0].maximize is not self.maximize:
            raise ValueError("maximize is not the sense of the first of the aims: give the same.")

    def _check_sds(self) -> None:
        stated = bool(np.size(self.sds)) and not np.isnan(self.sds).all()
        object.__setattr__(self, "sds", frozen(self.sds if stated else np.empty((0, 0))))
        if not stated:
            return
        outputs = max(len(self.aims), 1) + self.constraints.shape[1]
        if self.sds.shape != (len(self.X), outputs) or (self.sds < 0).any() or np.isinf(self.sds).any():
            raise ValueError(
                f"sds {self.sds.shape} of {len(self.X)} trials with {outputs} outputs must have one column for each "
                "output, and no negative or infinite value: give NaN where a result states none."
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def parted(self) -> bool:
        """True if there is more to learn than one objective, each part by a surrogate of its own."""
        return self.constrained or bool(self.aims) or self.composite is not None

    @property
    def constrained(self) -> bool:
        """True if there are constraints to learn, or designs that failed."""
        return self.constraints.shape[1] > 0 or len(self.failed) > 0

    @property
    def planes(self) -> SearchSpace | None:
        """The space, if equalities confine designs to planes; else None."""
        return self.space if self.space is not None and self.space.mixtures else None

    @property
    def objective(self) -> "Observations":
        """Observations for the objective's own surrogate; of several objectives, for that of the first."""
        if not self.parted:
            return self
        none = np.empty((0, 0))
        earlier, lower = tuple(each.of_output(0) for each in self.earlier), tuple(e.of_output(0) for e in self.lower)
        own = replace(
            self,
            constraints=none,
            constraint_sds=(),
            failed=none,
            aims=(),
            further=none,
            earlier=earlier,
            sds=self.sds[:, :1],
            composite=None,
            lower=lower,
            partial=None,
        )
        return self._joined(own, 0)

    def first(self, n: int) -> "Observations":
        """The objective's results and gradients of the first n trials, scaled by themselves; no equation."""
        gradients = None if self.gradients is None else self.gradients[:n]
        X, y, sds = self.X[:n], self.y[:n], self.sds[:n, :1]
        own = Observations(X, y, self.maximize, self.noise_sd, images=self.images, gradients=gradients, sds=sds)
        return replace(own, limit=self.limit)

    def among(self, rows: NDArray[np.intp]) -> "Observations":
        """The results and gradients of these trials, without fields or readings of them."""
        gradients = None if self.gradients is None else self.gradients[rows]
        sds = self.sds[rows] if self.sds.size else self.sds
        return replace(
            self, X=self.X[rows], y=self.y[rows], snapshots=None, readings=None, gradients=gradients, sds=sds
        )

    def constraint(self, k: int) -> "Observations":
        """Observations for the surrogate of constraint k = 0, ..., c - 1: its own scaling, no equation.

        If the noise of the objective is stated, that of the constraint is ``constraint_sds``, or none.
        """
        own = self._output(self.constraints[:, k], max(len(self.aims), 1) + k, maximize=False)
        sd = self.constraint_sds[k] if self.constraint_sds else own.noise_sd
        return replace(own, limit=True, noise_sd=sd)

    def reading(self, y: Array, sds: Array | None = None) -> "Observations":
        """The same trials with other results y (n,) of standard deviations sds (n, 1), without gradients."""
        return replace(self, y=y, gradients=None, sds=np.empty((0, 0)) if sds is None else sds)

    def objective_of(self, k: int) -> "Observations":
        """Observations for the surrogate of objective k = 0, ..., m - 1 of several.

        Those after the first have no equation and no gradients.
        """
        if k == 0:
            return self.objective
        return self._output(self.further[:, k - 1], k, maximize=self.aims[k].maximize)

    def part(self, k: int) -> "Observations":
        """Observations for the surrogate of part k of a computed objective, as it is learnt."""
        assert self.composite is not None  # there are parts
        y, sds = self.composite.learnt(k)
        return Observations(
            self.X,
            y,
            maximize=False,
            exact=self.exact,
            images=self.images,
            columns=self.columns,
            space=self.space,
            sds=sds,
        )

    def _output(self, y: Array, k: int, *, maximize: bool) -> "Observations":
        """Observations of output number k, y (n,), without equation or gradients."""
        own = Observations(
            self.X,
            y,
            maximize=maximize,
            noise_sd=None if self.noise_sd is None else 0.0,
            images=self.images,
            columns=self.columns,
            space=self.space,
            emulators=self.emulators[k : k + 1],
            snapshots=self.snapshots and replace(self.snapshots, output=k),
            readings=self.readings and replace(self.readings, output=k),
            earlier=tuple(each.of_output(k) for each in self.earlier),
            sds=self.sds[:, k : k + 1],
            levels=self.levels,
            lower=tuple(each.of_output(k) for each in self.lower),
        )
        return self._joined(own, k)

    def _joined(self, own: "Observations", k: int) -> "Observations":
        """Observations of output number k, followed by the partial results that give it."""
        if self.partial is None:
            return own
        X, y, sds = self.partial.after(own.X, own.y, own.sds, k)
        none = np.full((len(X) - len(own), X.shape[1]), np.nan)
        gradients = None if own.gradients is None else np.vstack([own.gradients, none])
        return replace(own, X=X, y=y, sds=sds, gradients=gradients)

    @cached_property
    def scaling(self) -> Scaling:
        """The scaling of these results."""
        return Scaling.of(self.y, maximize=self.maximize, limit=self.limit)

    @cached_property
    def targets(self) -> Array:
        """Standardised results to be minimised, shape (n,)."""
        return frozen(self.scaling.to_target(self.y))

    @property
    def noise_variance(self) -> float | None:
        """Known variance of a target (dimensionless); None where the noise is not known."""
        return None if self.noise_sd is None else min(self.noise_sd / self.scaling.sd, _MOST_NOISE) ** 2

    @cached_property
    def own_variances(self) -> Array | None:
        """Variance of each target that its result states, shape (n,), NaN where it states none; None if none does."""
        if not self.sds.size:
            return None
        return frozen(np.minimum(self.sds[:, 0] / self.scaling.sd, _MOST_NOISE) ** 2)

    @property
    def noise_known(self) -> bool:
        """True if every result states its standard deviation, or all have a known one."""
        return self.noise_sd is not None or bool(self.sds.size and not np.isnan(self.sds[:, 0]).any())

    @property
    def uncertain(self) -> bool:
        """True if a result is known to have noise."""
        return bool(self.noise_sd) or bool(self.sds.size and np.nansum(self.sds[:, 0]) > 0)

    @property
    def constant(self) -> bool:
        """True if all results are equal to rounding; their scale of 1 is then a convention."""
        return deviation(self.y, self.scaling.mean) == 0.0

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of every number here, in the order of the trials.

        The order matters because the last bits of a fit depend on it. The equation itself is code and is covered by the
        campaign's own digest; its collocation points are part of this one.
        """
        parts = {"X": self.X, "y": self.y, "maximize": np.array([float(self.maximize)])}
        if self.noise_sd is not None:
            parts["noise_sd"] = np.array([self.noise_sd])
        if self.physics is not None:
            parts |= {"points": self.physics.points, "center": self.physics.center, "half": self.physics.half}
            for k, side in enumerate(self.physics.sides, start=1):
                parts |= {f"side{k}": side.points, f"right{k}": side.right}
        if self.constraints.shape[1]:
            parts["constraints"] = self.constraints
        if len(self.failed):
            parts["failed"] = self.failed
        if self.images:
            parts["images"] = np.array([[image.first, *image.shape] for image in self.images], dtype=np.float64)
        if self.snapshots is not None:
            told = np.frombuffer(bytes.fromhex("".join(self.snapshots.digests)), dtype=np.uint8)
            parts["snapshots"] = told.astype(np.float64)
        if self.readings is not None:
            told = np.frombuffer(bytes.fromhex("".join(self.readings.digests)), dtype=np.uint8)
            parts["readings"] = told.astype(np.float64)
        if self.gradients is not None:
            parts["gradients"] = self.gradients
        if self.aims:
            parts["further"] = self.further
        for k, each in enumerate(self.earlier, start=1):
            parts |= {f"earlier{k}": each.X, f"outputs{k}": each.Y}
        for one in self.lower:
            parts |= {f"level{one.level}": one.X, f"results{one.level}": one.Y}
            if one.read is not None:
                parts[f"read{one.level}"] = one.read
        if self.sds.size:
            parts["sds"] = self.sds
        if self.composite is not None:
            parts |= {"parts": self.composite.values, "sds of parts": self.composite.sds}
        if self.partial is not None:
            parts |= {"partial": self.partial.X, "outputs in part": self.partial.Y, "sds in part": self.partial.sds}
        return digest_of(parts, "fieldcraft.observations.1")
