"""Fields by an ensemble of networks from the design to the coefficients of their modes, and the outputs read from them.

Member m has a network c_mk(x) for each mode V_k of the fields that were seen (an operator network whose trunk is these
modes: Lu et al., 2022) and was trained on a part of the trials. Its field is F_m(x) = mean + sum_k c_mk(x) s_k V_k,
with s_k the spread of the coefficient, and its value J(F_m(x)) the output that is read there.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from fieldcraft.models.emulation.remainder import Remainder
from fieldcraft.models.emulation.slopes import differentiable
from fieldcraft.models.networks.members import MembersPosterior
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.snapshots import Snapshots

# Numbers of the fields of many designs that are alive at once.
_BLOCK = 500_000
# Share of the results left out that are to lie within two deviations, and the least deviation, in targets.
_HELD, _LEAST_SD = 0.8, 1e-3


@dataclass(frozen=True, eq=False)
class FieldMembers:
    """Members of an ensemble and the modes that their networks move.

    Args:
        snapshots: Fields that were seen, and how the output is read.
        offset: Mean field, shape (fields, cells).
        modes: Each times the spread of its coefficient, shape (K, fields, cells).
        network: Shape of the networks.
        theta: Their weights, shape (m K, p): the K of one member after those of another.
        scaling: Map between targets and results.
    """

    snapshots: Snapshots
    offset: Array
    modes: Array
    network: Network
    theta: Tensor
    scaling: Scaling

    def coefficients(self, X: Array) -> Array:
        """Coefficients of each member's modes at X (n, d), shape (n, m, K)."""
        with torch.no_grad():
            found = self.network.value(self.theta, torch.tensor(X)).numpy()
        return np.asarray(found.reshape(-1, len(self.modes), len(X)).transpose(2, 0, 1))

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation over the members of their fields at X (n, d), each (n, fields, cells)."""
        coefficients = self.coefficients(X)
        mean = coefficients.mean(axis=1, keepdims=True)
        apart = (coefficients - mean) / math.sqrt(coefficients.shape[1] - 1)
        # The variance of sum_k c_k V_k over members, with no field of a single member kept.
        squares = sum(np.tensordot(apart[:, m], self.modes, 1) ** 2 for m in range(coefficients.shape[1]))
        return self.offset + np.tensordot(mean[:, 0], self.modes, 1), np.sqrt(squares)

    def values(self, X: Array) -> Array:
        """Target of each member at X (n, d), shape (n, m); 0, the mean target, where none can be read."""
        coefficients = self.coefficients(X)
        rows, of = coefficients.reshape(-1, len(self.modes)), np.repeat(np.arange(len(X)), coefficients.shape[1])
        flat, step = self.modes.reshape(len(self.modes), -1), max(1, _BLOCK // self.offset.size)
        read = np.empty(len(rows))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            fields = self.offset + (rows[some] @ flat).reshape(-1, *self.offset.shape)
            read[some] = self.snapshots.outputs(fields, X[of[some]])
        known = np.isfinite(read)
        return np.where(known, self.scaling.to_target(np.where(known, read, 0.0)), 0.0).reshape(len(X), -1)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of results by the members that have not seen them.

    Args:
        errors: Target less the mean of these members, shape (n,).
        variances: Variance among them, shape (n,).
        noise: Variance of a result's noise, in targets.
    """

    errors: Array
    variances: Array
    noise: float

    @classmethod
    def of(cls, values: Array, seen: Array, targets: Array, noise: float) -> "LeftOut":
        """Predictions of members' values (n, m), with True for the results that each has seen (n, m)."""
        others = np.where(seen, np.nan, values)
        return cls(targets - np.nanmean(others, axis=1), np.nanvar(others, axis=1, ddof=1), noise)

    @property
    def rest(self) -> float:
        """Least variance, added to that among the members, by which four in five results lie within two deviations.

        These members have learnt from fewer trials than all, and err by more.
        """
        lacking = self.errors**2 / 4 - self.variances - self.noise
        return max(float(np.quantile(lacking, _HELD)), _LEAST_SD**2)

    @property
    def variance(self) -> Array:
        """Variance of each prediction, noise included, shape (n,)."""
        return np.asarray(self.variances + self.noise + self.rest)


@dataclass(frozen=True, eq=False)
class FieldMembersPosterior(MembersPosterior):
    """Members of ``FieldMembers``, with the density of each result given what others say.

    Args:
        densities: log density of each target by the members that have not seen it, shape (n,).
        of_fields: The members.
        rest: Variance that is added to that among the members.
        believed: Designs whose results are believed and have no noise, shape (k, d); None if results have noise.
    """

    densities: Tensor | None = None
    of_fields: FieldMembers | None = None
    rest: float = 0.0
    believed: Tensor | None = None

    @override
    def fantasize(self, X: Tensor) -> Self:
        """Posterior given results at X (m, d) equal to the mean (see ``MembersPosterior.fantasize``).

        Where results are exact, ``rest`` is not doubted beside X: else what is doubted everywhere would put a whole
        batch in one place.
        """
        later = super().fantasize(X)
        if self.believed is None or len(X) == 0:
            return later
        known = Remainder(torch.cat([self.believed, X.detach()]), np.zeros(len(self.believed) + len(X)))

        def within(points: Tensor) -> Tensor:
            return self.rest * differentiable(lambda Z: known.at(Z, 0.0)[1], points)

        return replace(later, within=within, believed=known.X)

    @property
    def snapshots(self) -> Snapshots:
        """Fields that were seen, and their grid."""
        assert self.of_fields is not None
        return self.of_fields.snapshots

    def field_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the fields at X (n, d), each (n, fields, cells), in their units."""
        assert self.of_fields is not None
        return self.of_fields.moments(X)

    def log_predictive(self) -> Tensor:
        """log density of each target by the members that have not seen it, shape (n,)."""
        assert self.densities is not None
        return self.densities


def shares(n: int, members: int, parts: int, rng: np.random.Generator) -> Array:
    """True for the trials that each of the members learns from, shape (members, n).

    Of every ``parts`` members, each leaves out another part of the trials, in an order of their own.
    """
    seen = np.ones((members, n), dtype=bool)
    for first in range(0, members, parts):
        part = rng.permutation(n) % parts
        for member in range(first, min(first + parts, members)):
            seen[member] = part != member - first
    return seen
