"""Posterior of an output that is read from the Galerkin solution on the fields of the runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.emulation.galerkin import Projected, Projection
from fieldcraft.models.emulation.lower_bounds import LowerBounds
from fieldcraft.models.emulation.slopes import differentiable, with_slopes
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import FourierFeatures
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Function, Minorants, MomentsWithSlopes
from fieldcraft.physics.parametric.discrete import DiscreteSystem

# Numbers of stiffness or fields of many designs that are alive at once.
_BLOCK = 2_000_000
# Errors of designs so far apart, in encoded coordinates times the square root of their number, are little alike.
_LENGTH = 0.5
# Variance of a prediction that is exact but for rounding, in targets.
_LEAST = 1e-12
_NUGGET = 1e-8
_FEATURES = 1024


@dataclass(frozen=True, eq=False)
class GalerkinPosterior:
    """The output of the projected solution, with an error of covariance s(x) s(x') rho(x, x').

    s = kappa R for the residual R of the projected solution, and the mean error is 0. The error of a compliance is
    positive and quadratic in that of the field: its mean is mu R^2 with s = mu R^2 / 2, so that the lower bound is two
    standard deviations below the mean. rho is a Matern 5/2 correlation of fixed length, which counts for draws and
    batches alone.

    Args:
        snapshots: Fields that were seen, their equations, and how the output is read.
        projection: The projection on them.
        scaling: Map between targets and results.
        compliance: True if the output is the work of the loads.
        bias: Mean error for each unit of residual, in the output's unit; 0 but for a compliance.
        kappa: Its standard deviation for each unit of residual, in the output's unit.
        densities: log density of each target given the others, shape (n,).
        missed: Root mean square error of the results left out, in targets.
        dimension: Encoded coordinates of a design.
        best: The best result, in its unit.
        kept: Its state.
        notes: Remarks.
        unproven: Reason why nothing is proven of the best design; empty if it can be.
        believed: Encoded designs believed to have been read at the mean, shape (k, d).
    """

    snapshots: Snapshots
    projection: Projection
    scaling: Scaling
    compliance: bool
    bias: float
    kappa: float
    densities: Tensor
    missed: float
    dimension: int
    best: float
    kept: Mapping[str, Tensor]
    notes: Mapping[str, str]
    unproven: str
    believed: Tensor = field(default_factory=lambda: torch.empty((0, 0), dtype=torch.float64))

    @property
    def metrics(self) -> Mapping[str, float]:
        """Fields of the basis, error of the results left out one by one, and the error for each unit of residual."""
        return {"modes": self.projection.basis.shape[1], "left_out_error": self.missed, "kappa": self.kappa}

    @property
    def remarks(self) -> Mapping[str, str]:
        """The fields' word on the equations, and why there is no certificate if there is none."""
        return {**self.notes, **({"certificate": f"none: {self.unproven}"} if self.unproven else {})}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the target at X (n, d)."""
        both = differentiable(self._moments, X, stepped=self.snapshots.stepped)
        return both[:, 0], both[:, 1]

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, by differences."""
        values, slopes = with_slopes(self._moments, X.detach().numpy(), stepped=self.snapshots.stepped)
        return MomentsWithSlopes(values[:, 0], values[:, 1], slopes[..., 0], slopes[..., 1])

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, their errors by Matheron's rule from random Fourier features."""
        return [self._path(rng) for _ in range(q)]

    def fantasize(self, X: Tensor) -> "GalerkinPosterior":
        """The posterior as if X (k, d) had been read at the mean; the basis stays."""
        points = X.detach()
        return replace(self, believed=torch.cat([self.believed, points]) if len(self.believed) else points)

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,)."""
        return self.densities

    def state(self) -> dict[str, Tensor]:
        """The digest of the data and kappa: the basis is that of the data's fields."""
        return dict(self.kept)

    @property
    def minorants(self) -> Minorants | None:
        """Lower bounds of the compliance of any design; None where nothing is proven."""
        terms = self.snapshots.terms
        if self.unproven or terms is None:
            return None
        above = LowerBounds.of(self.projection, systems(self.snapshots, np.zeros((1, self.dimension))))
        return Minorants(
            self.best,
            lambda X: above.values(terms(X)),
            lambda X, points, kept: above.over(
                terms(X), terms(points.reshape(-1, points.shape[2])).reshape(*kept.shape, -1), kept
            ),
        )

    def _moments(self, X: Array) -> Array:
        """Mean and variance in targets at X (n, d), shape (n, 2)."""
        mean, sd = self._mean_sd(X)
        variance = sd**2 * self._left(torch.from_numpy(X))
        return np.stack([mean, np.maximum(variance, _LEAST)], axis=1)

    def _mean_sd(self, X: Array) -> tuple[Array, Array]:
        """Mean and prior standard deviation in targets at X (n, d), each (n,)."""
        residuals, outputs = self._solved(X)
        sizes = spread(residuals, self.compliance)
        mean = self.scaling.to_target(outputs + self.bias * sizes)
        return mean, np.asarray(self.kappa / self.scaling.sd * sizes)

    def _solved(self, X: Array) -> tuple[Array, Array]:
        """Residuals and outputs at X (n, d), each (n,)."""
        residuals, outputs = np.empty(len(X)), np.empty(len(X))
        step = max(1, _BLOCK // len(self.projection.strained))
        for first in range(0, len(X), step):
            some = slice(first, first + step)
            system = systems(self.snapshots, X[some])
            found = self.projection.solve(system)
            outputs[some] = predicted(self.snapshots, self.projection, system, found, X[some])
            residuals[some] = found.residuals
        return residuals, outputs

    def _left(self, X: Tensor) -> Array:
        """Share of the variance that the believed readings leave at X (n, d), shape (n,)."""
        if not len(self.believed):
            return np.ones(len(X))
        with torch.no_grad():
            half = self._factor.half_solve(self._correlation(self.believed, X))
        return np.asarray(np.maximum(1 - half.square().sum(0).numpy(), 0.0))

    def _correlation(self, A: Tensor, B: Tensor) -> Tensor:
        return covariance("matern52", A, B, self._scales(A.shape[1]))

    def _scales(self, d: int) -> Tensor:
        return torch.full((d,), _LENGTH * d**0.5, dtype=torch.float64)

    @cached_property
    def _factor(self) -> Factor:
        return Factor.of(self._correlation(self.believed, self.believed), _NUGGET)

    def _path(self, rng: np.random.Generator) -> Function:
        d = self.dimension
        phi = FourierFeatures.drawn("matern52", self._scales(d), _FEATURES, rng)
        prior = phi.combined(torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies))))
        weights = None
        if len(self.believed):
            with torch.no_grad():
                weights = self._factor.solve(prior(self.believed))

        def at(X: Array) -> Array:
            points = torch.from_numpy(X)
            mean, sd = self._mean_sd(X)
            with torch.no_grad():
                error = prior(points)
                if weights is not None:
                    error = error - weights @ self._correlation(self.believed, points)
            return np.asarray(mean + sd * error.numpy())

        return lambda X: differentiable(at, X, stepped=self.snapshots.stepped)


def systems(snapshots: Snapshots, X: Array) -> DiscreteSystem:
    """The discrete equations of encoded designs X (n, d)."""
    assert snapshots.discrete is not None  # else no basis is made
    return snapshots.discrete(X)


def spread(residuals: Array, compliance: bool) -> Array:
    """Sizes of errors but for a factor: the residuals, or for the compliance their squares."""
    return residuals**2 if compliance else residuals


def predicted(
    snapshots: Snapshots, projection: Projection, system: DiscreteSystem, found: Projected, X: Array
) -> Array:
    """The output of projected solutions of encoded designs X (n, d), in its unit, shape (n,)."""
    if system.compliance:
        return found.works
    fields = np.zeros((len(X), *snapshots.values.shape[1:]))
    fields[:, snapshots.names.index(system.field), system.free] = found.coefficients @ projection.basis.T
    return snapshots.outputs(fields, X)
