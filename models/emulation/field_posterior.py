"""Posterior of an output that is read from a field: an emulator's field plus modes with uncertain coefficients.

F(x) = rho C(x) + m + sum_k c_k(x) V_k + rest, with C the emulator's field, rho a factor for each kind of field, m the
mean of the differences F - rho C that were seen, V_k their leading modes (proper orthogonal decomposition by snapshots:
Sirovich, 1987) and c_k a Gaussian process each. The output J(F) is followed to second order in each coefficient: with
J+ and J- read one standard deviation s_k ahead and behind in c_k, a_k = (J+ - J-) / 2 and b_k = (J+ + J-) / 2 - J,

    mean = J + sum_k b_k + shift,    variance = sum_k (a_k^2 + 2 b_k^2) + rest.

It is exact where J is a sum of quadratic functions of the coefficients. Shift and rest are what the errors of the
results left out one by one ask for (``models.emulation.left_out``): what no mode represents has no coefficient. Beside
runs without noise both give way to what these know (``models.emulation.remainder``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.composite.sampled import Sampler
from fieldcraft.models.emulation.calibration import Calibrated
from fieldcraft.models.emulation.remainder import Remainder
from fieldcraft.models.emulation.slopes import differentiable, with_slopes_ahead
from fieldcraft.models.gaussian.process import ExactPosterior, ExactPosteriors
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.selection.predictive_score import MOST
from fieldcraft.models.selection.quadratics import Quadratics
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Function, MomentsWithSlopes

# Numbers of the fields of many designs, or of their covariances with the runs, that are alive at once.
_BLOCK = 500_000
# Numbers of the fields that are moved along some modes together, each way: of small fields all share one reading.
_MOVED = 200_000
# Cells of fields beyond which a first look at many designs takes their means over fewer, and over how many.
_MANY, _FEW = 8192, 2500


class Coefficient(Protocol):
    """Beliefs about the coefficient of a mode, as a function of the design."""

    @property
    def points(self) -> Tensor:
        """Encoded designs of the fields, and of those that are believed, shape (n, d)."""
        ...

    @property
    def scaling(self) -> Scaling:
        """Map between its targets and the coefficient."""
        ...

    @property
    def left_out(self) -> tuple[Array, Array]:
        """Matrix M (n, n) and variances (n,): of targets t each is foretold from the others as t - M t."""
        ...

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (m,) and variance (m,) of the target at X (m, d)."""
        ...

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions."""
        ...

    def fantasize(self, X: Tensor) -> Self:
        """Beliefs as if the mean had been read at X (k, d)."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Its state."""
        ...


@dataclass(frozen=True, eq=False)
class Basis:
    """Modes of the differences that were seen, with their uncertain coefficients.

    Args:
        factors: What the emulator's fields are multiplied by, shape (fields,); zeros where there is none.
        offset: Mean difference, shape (fields, cells).
        modes: Shape (K, fields, cells).
        processes: Posterior of each coefficient, K.
    """

    factors: Array
    offset: Array
    modes: Array
    processes: tuple[Coefficient, ...]

    def coefficients(self, X: Array) -> tuple[Array, Array]:
        """Means and standard deviations of the coefficients at X (n, d), each (n, K)."""
        if not self.processes:
            return np.empty((len(X), 0)), np.empty((len(X), 0))
        mean, variance = self._moments(X)
        scales = [each.scaling for each in self.processes]
        sds = np.sqrt(variance)
        return (
            np.stack([scale.to_physical(each) for scale, each in zip(scales, mean, strict=True)], axis=1),
            np.stack([scale.sd * each for scale, each in zip(scales, sds, strict=True)], axis=1),
        )

    def fields(self, emulated: Array, coefficients: Array) -> Array:
        """Fields (n, fields, cells) for the emulator's and coefficients (n, K)."""
        found = np.tensordot(coefficients, self.modes, 1)
        found += self.offset
        found += self.factors[:, None] * emulated
        return np.asarray(found)

    def _moments(self, X: Array) -> tuple[Array, Array]:
        """Means and variances of the targets of the coefficients at X (n, d), each (K, n)."""
        if self._exact is not None:
            return self._exact.mean_var(X)
        step = max(1, _BLOCK // len(self.processes[0].points))
        blocks = [torch.from_numpy(X[first : first + step]) for first in range(0, max(1, len(X)), step)]
        with torch.no_grad():
            told = [[torch.stack(each.mean_var(block)) for block in blocks] for each in self.processes]
        means, variances = torch.stack([torch.cat(each, dim=1) for each in told]).numpy().swapaxes(0, 1)
        return means, variances

    @cached_property
    def _exact(self) -> ExactPosteriors | None:
        """The processes where all of them are exact ones about a constant: they are asked together."""
        exact = tuple(each for each in self.processes if isinstance(each, ExactPosterior))
        return ExactPosteriors(exact) if len(exact) == len(self.processes) else None


def followed(snapshots: Snapshots, basis: Basis, X: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
    """Mean and variance (n,) of the output at X (n, d), in its unit, for coefficients of this mean and sd (n, K).

    Where it cannot be read from the field ahead or behind it goes on in a straight line; where it cannot be read from
    the mean field either, both are NaN.
    """
    told = quadratics(snapshots, basis, X, mean, sd)
    return told.mean, told.variance


def quadratics(snapshots: Snapshots, basis: Basis, X: Array, mean: Array, sd: Array) -> Quadratics:
    """The output at X (n, d), in its unit, as a function of K standard normal variables (see ``followed``)."""
    n, k = len(X), len(basis.modes)
    found = Quadratics(np.empty(n), np.empty((n, k)), np.empty((n, k)))
    step = max(1, _BLOCK // basis.offset.size)
    for first in range(0, n, step):
        some = slice(first, first + step)
        fields, spread = basis.fields(snapshots.emulated(X[some]), mean[some]), sd[some]

        def move(few: slice, room: Array, spread: Array = spread) -> None:
            np.multiply(basis.modes[few, None], spread.T[few, :, None, None], out=room)

        told = through(snapshots, X[some], fields, k, move)
        found.middle[some], found.slopes[some], found.bends[some] = told.middle, told.slopes, told.bends
    return found


def through(snapshots: Snapshots, X: Array, fields: Array, k: int, move: Callable[[slice, Array], None]) -> Quadratics:
    """The output of uncertain fields at X (n, d), in its unit; NaN as in ``followed``.

    Args:
        snapshots: How the output is read.
        X: The designs.
        fields: Mean fields, shape (n, fields, cells).
        k: Number K of modes.
        move: Writes one standard deviation along some of the modes into an array (some, n, fields, cells).
    """
    here, n = snapshots.outputs(fields, X), len(X)
    at_once = max(1, min(k, _MOVED // fields.size))
    read, room = np.empty((2, k, n)), np.empty((2 * at_once, *fields.shape))
    for first in range(0, k, at_once):
        some = slice(first, min(first + at_once, k))
        count = some.stop - first
        ahead, behind = moved = room[: 2 * count].reshape(2, -1, *fields.shape)
        move(some, ahead)
        np.subtract(fields, ahead, out=behind)
        ahead += fields
        every = np.tile(X, (2 * count, 1))
        read[:, some] = snapshots.outputs(moved.reshape(-1, *fields.shape[1:]), every).reshape(2, -1, n)
    ahead, behind = read
    ahead = np.where(np.isfinite(ahead), ahead, 2 * here - np.where(np.isfinite(behind), behind, here))
    behind = np.where(np.isfinite(behind), behind, 2 * here - ahead)
    return Quadratics(here, (ahead - behind).T / 2, (ahead + behind).T / 2 - here[:, None])


def in_targets(scaling: Scaling, mean: Array, variance: Array) -> tuple[Array, Array]:
    """These moments (n,) in targets; those of a target of which nothing is known where it cannot be read."""
    known = np.isfinite(mean) & np.isfinite(variance)
    return np.where(known, scaling.to_target(mean), 0.0), np.where(known, variance / scaling.sd**2, 1.0)


@dataclass(frozen=True, eq=False)
class FieldPosterior:
    """Beliefs about an output through the field that it is read from.

    Args:
        snapshots: Fields that were seen, the emulator's, and how the output is read.
        basis: Modes and the processes of their coefficients.
        scaling: Map between targets and results.
        shift: Mean error of the results left out, in targets.
        rest: Variance of what no mode represents, in targets, far from the runs.
        densities: log density of each target given the others, shape (n,).
        missed: Root mean square error of the results left out, in targets.
        kept: Its state.
        remainder: What the modes do not tell of the results; None where noise leaves it unknown.
        calibrated: Coefficients of the emulator that were fitted to the fields; None if it has none.
        residuals: Median share that the fields leave of the stated equation: by the stated coefficients, and by the
            fitted ones if these are others; empty where nothing tells.
        projected: Error of the outputs of fields in the modes of the others, in targets, which three in four keep
            below; None where nobody asked.
        exact: True if a result has no noise: beside a design that is believed nothing is then doubted.
    """

    snapshots: Snapshots
    basis: Basis
    scaling: Scaling
    shift: float
    rest: float
    densities: Tensor
    missed: float
    kept: Mapping[str, Tensor]
    remainder: Remainder | None = None
    calibrated: Calibrated | None = None
    residuals: tuple[float, ...] = ()
    projected: float | None = None
    exact: bool = False

    @property
    def metrics(self) -> Mapping[str, float]:
        """Modes, error of the results left out one by one, standard deviation of what no mode represents, what the
        fields leave of the equation, and the calibrated coefficients, in their units."""
        own = {"modes": float(len(self.basis.modes)), "left_out_error": self.missed, "rest_sd": math.sqrt(self.rest)}
        if self.projected is not None:
            own["projection_error"] = self.projected
        if self.residuals:
            own["equation_residual"] = self.residuals[-1]
        return own if self.calibrated is None else {**own, **self.calibrated.metrics}

    @property
    def remarks(self) -> Mapping[str, str]:
        """Number of fields and modes that the belief rests on, the calibrated coefficients, and how nearly the fields
        satisfy the equation."""
        less = "" if self.snapshots.predict is None else " less the emulator's,"
        own = {"fields": f"{len(self.snapshots.values)} fields{less} in {len(self.basis.modes)} modes"}
        if self.projected is not None:
            kept = f"three in four of them err by at most {self.projected:.2g} of the output's spread"
            own["fields"] += f"; in the modes of the others {kept}"
        if self.calibrated is not None:
            own["coefficients"] = self.calibrated.remark
        if self.residuals:
            stated, *fitted = (f"{each:.2g}" for each in self.residuals)
            own["equation"] = f"the fields leave {stated} of its largest term"
            own["equation"] += f" by the stated coefficients, and {fitted[0]} by the fitted ones" if fitted else ""
        return own

    def field_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the fields at X (n, d), each (n, fields, cells), in their units.

        The standard deviation is that of the coefficients, sqrt(sum_k s_k^2 V_k^2): it has none of what no mode holds.
        """
        mean, sd = self.basis.coefficients(X)
        fields = self.basis.fields(self.snapshots.emulated(X), mean)
        return fields, np.sqrt(np.tensordot(sd**2, self.basis.modes**2, 1))

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the target at X (n, d)."""
        both = differentiable(self._moments, X, stepped=self.snapshots.stepped)
        return both[:, 0], both[:, 1]

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, by differences to one side."""
        values, slopes = with_slopes_ahead(self._moments, X.detach().numpy(), self.snapshots.stepped)
        return MomentsWithSlopes(values[:, 0], values[:, 1], slopes[..., 0], slopes[..., 1])

    @property
    def target_sampler(self) -> Sampler | None:
        """The target as a quadratic function of the coefficients, and a variable more for what no mode represents.

        None beside an emulator, where a normal target of these moments stands for it.
        """
        return Sampler(len(self.basis.modes) + 1, self._sampled) if self.snapshots.predict is None else None

    @cached_property
    def coarse(self) -> "FieldPosterior":
        """The posterior through means of the fields over fewer cells where these are very many (see ``Screening``).

        Itself where they are not, or where the output cannot be read from fields on fewer cells.
        """
        known, processes = self.snapshots, self.basis.processes
        if known.coarser is None or known.values.shape[2] <= _MANY or not processes:
            return self
        few = replace(known.coarser(_FEW), output=known.output)
        if self.calibrated is not None and few.calibration is not None:
            few = replace(few, predict=few.calibration.predict(self.calibrated.values))
        X, weights = processes[0].points[: len(few.values)].numpy(), self.kept["weights"].numpy()
        try:
            few.outputs(few.values[:1], X[:1])
        except ValueError:
            return self
        differences = few.values - self.basis.factors[:, None] * few.emulated(X)
        offset = differences.mean(axis=0)
        basis = replace(self.basis, offset=offset, modes=np.tensordot(weights.T, differences - offset, 1))
        return replace(self, snapshots=few, basis=basis)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions: the outputs of fields whose coefficients are drawn; none has what no mode represents."""
        drawn = [each.draw(q, rng) for each in self.basis.processes]
        return [self._function([paths[i] for paths in drawn]) for i in range(q)]

    def fantasize(self, X: Tensor) -> "FieldPosterior":
        """The posterior as if fields of the mean coefficients had been seen at X (k, d).

        Where results are exact, nothing is then doubted there: else what no mode represents, which is doubted
        everywhere, would put a whole batch in one place.
        """
        processes = tuple(each.fantasize(X.detach()) for each in self.basis.processes)
        later = replace(self, basis=replace(self.basis, processes=processes))
        if self.remainder is None and not self.exact:
            return later
        known = self.remainder or Remainder(X.detach()[:0], np.empty(0))
        points = X.detach().numpy()
        told, _ = later._told(points)
        return replace(later, remainder=known.grown(X.detach(), self._moments(points)[:, 0] - told))

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, at this basis and these hyper-parameters, shape (n,)."""
        return self.densities

    def state(self) -> dict[str, Tensor]:
        """The coefficients and the weights of the modes, and the hyper-parameters of each process."""
        return dict(self.kept)

    def _moments(self, X: Array) -> Array:
        """Mean and variance in targets at X (n, d), shape (n, 2)."""
        mean, variance = self._told(X)
        remainder, left = self._remainder(X)
        return np.stack([mean + remainder, variance + left * self.rest], axis=1)

    def _sampled(self, X: Tensor, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values (s, n) of the target at X (n, d) for standard normal values (s, K + 1), its mean and variance (n,)."""
        told = differentiable(self._quadratics, X, stepped=self.snapshots.stepped, slopes=with_slopes_ahead)
        k = base.shape[1] - 1
        middle, spread, slopes, bends = told[:, 0], told[:, 1], told[:, 2 : 2 + k], told[:, 2 + k :]
        values = middle + base[:, :k] @ slopes.T + base[:, :k].square() @ bends.T + base[:, k:] * spread
        variance = (slopes.square() + 2 * bends.square()).sum(dim=1) + spread.square()
        return values, middle + bends.sum(dim=1), variance

    def _quadratics(self, X: Array) -> Array:
        """Middle, standard deviation of what no mode represents, slopes and bends in targets, (n, 2 + 2 K)."""
        told = quadratics(self.snapshots, self.basis, X, *self.basis.coefficients(X))
        told = told.scaled(self.scaling.mean, self.scaling.sign * self.scaling.sd)
        remainder, left = self._remainder(X)
        k = len(self.basis.modes)
        ends = told.middle + remainder, np.sqrt(left * self.rest)
        return np.column_stack([*ends, told.slopes[:, :k], told.bends[:, :k]])

    def _told(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance in targets at X (n, d) by the modes alone, each (n,)."""
        return in_targets(self.scaling, *followed(self.snapshots, self.basis, X, *self.basis.coefficients(X)))

    def _remainder(self, X: Array) -> tuple[Array, Array]:
        """Mean at X (n, d) of what they do not tell, in targets, and the share of its variance that is left; (n,)."""
        if self.remainder is None:
            return np.full(len(X), self.shift), np.ones(len(X))
        return self.remainder.at(X, self.shift)

    def _function(self, paths: list[Function]) -> Function:
        def at(X: Array) -> Array:
            points = torch.from_numpy(X)
            with torch.no_grad():
                drawn = [
                    each.scaling.to_physical(path(points).numpy())
                    for each, path in zip(self.basis.processes, paths, strict=True)
                ]
            coefficients = np.stack(drawn, axis=1) if drawn else np.empty((len(X), 0))
            certain = coefficients, np.zeros_like(coefficients)
            mean, _ = in_targets(self.scaling, *followed(self.snapshots, self.basis, X, *certain))
            return mean + self._remainder(X)[0]

        return lambda X: differentiable(at, X, stepped=self.snapshots.stepped)


def densities(errors: Array, variances: Array) -> Tensor:
    """log N(error; 0, variance), each (..., n), at most that of a prediction that is as good as exact."""
    found = -0.5 * (np.log(2 * np.pi * variances) + errors**2 / variances)
    return torch.from_numpy(np.minimum(found, MOST))
