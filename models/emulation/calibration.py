"""Coefficients of an equation from the fields of runs, or from readings of them at single places, by output error.

    min over theta of sum_i |restrict(u_i) - u_c(d_i; theta)|^2,   theta within its ranges,

with u_i the field of run i on the grid of the emulator's fields u_c, and each kind of field in units of its own spread
(Beck and Arnold, 1977); readings at single places count in units of the standard deviations of their noise. The
trust-region method of Branch, Coleman and Li (1999) begins at the stated values; a range that is positive is searched
by its logarithm. The standard errors take the runs for independent, and not the cells of one: with the residuals r_i of
a run and their Jacobian J_i, the covariance is n / (n - k) H^-1 G H^-1, where H = sum_i J_i^T J_i and
G = sum_i J_i^T r_i r_i^T J_i (Liang and Zeger, 1986). They do not know what all runs have in common, such as the error
of the coarse grid.

The stated values stand unless others leave less than half of the squares that these leave. Where the stated ones are
right, values that absorb the coarse grid's own error leave 0.75 on chips (on 24 x 16 cells as on 12 x 8), 0.74 on the
cantilever and 0.9 on the tidal channel; where one is 20% off, the best leave 0.001, 0.07 and 0.4.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fieldcraft.models.numerics.milestones import thinned
from fieldcraft.models.observations import Array
from fieldcraft.models.snapshots import Calibration
from fieldcraft.physics.parametric.statement import UncertainCoefficient

# Trials whose fields are fitted at most.
TRIALS = 64
# Solutions of their equations beside those for the Jacobian.
_SOLUTIONS = 40
# A spread below this share of a field's largest value is rounding.
_FLAT = 1e-6
# Coefficients whose normal matrix has an eigenvalue below this share of its largest are not told apart.
_SINGULAR = 1e-10
# Share of the squares that the stated values leave; others that leave more do not replace them.
_GAIN = 0.5
# A value so close to its bound, as a share of the range or of its logarithm, is at it.
_AT_BOUND = 1e-4


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Coefficients for which an emulator's fields are nearest to those of the runs.

    Args:
        coefficients: The coefficients as they are stated, k.
        values: Their calibrated values, in their units, shape (k,); the stated ones where these fit nearly as well.
        errors: Standard errors of these, shape (k,); NaN at a bound, where the runs tell none, where the search did not
            come to its end, and of stated values.
    """

    coefficients: tuple[UncertainCoefficient, ...]
    values: Array
    errors: Array

    @property
    def stand(self) -> bool:
        """True if these are the stated values."""
        return bool(np.array_equal(self.values, [each.value for each in self.coefficients]))

    @property
    def metrics(self) -> Mapping[str, float]:
        """Each value, in its unit, as ``coefficient.NAME``."""
        return {
            f"coefficient.{each.name}": float(value) for each, value in zip(self.coefficients, self.values, strict=True)
        }

    @property
    def remark(self) -> str:
        """The values in words, each with the stated value, and with its standard error or the bound that it is at."""
        if self.stand:
            told = ", ".join(
                " ".join(filter(None, (each.name, f"{each.value:.4g}", each.unit))) for each in self.coefficients
            )
            return f"{told}, as stated: no other values fit the fields much better"
        rows = zip(self.coefficients, self.values, self.errors, strict=True)
        return ", ".join(_in_words(each, float(value), float(error)) for each, value, error in rows)


def calibrated(known: Calibration, X: Array) -> Calibrated:
    """Fit the coefficients to the fields of the runs at the encoded designs X (n, d).

    Of more than 64 runs, so many evenly spaced ones are fitted.

    Raises:
        ValueError: the equation cannot be solved for coefficients within their ranges.
    """
    kept = thinned(len(X), TRIALS)
    designs, told = X[kept], np.nan_to_num(known.values[kept])
    scales = [Scale(each) for each in known.coefficients]
    weights = _spread_weights(told) if known.noise is None else _noise_weights(known.noise[kept])

    def values(shares: Array) -> Array:
        return np.array([scale.value(share) for scale, share in zip(scales, shares, strict=True)])

    def residuals(shares: Array) -> Array:
        return np.asarray(((known.solve(values(shares))(designs) - told) * weights).ravel())

    # Imported here: it takes a third of a second, for which only who calibrates should wait.
    from scipy.optimize import least_squares

    begin = [scale.share(each.value) for scale, each in zip(scales, known.coefficients, strict=True)]
    found = least_squares(residuals, begin, jac="3-point", bounds=(0.0, 1.0), max_nfev=_SOLUTIONS)
    if np.sum(found.fun**2) >= _GAIN * np.sum(residuals(np.array(begin)) ** 2):
        stated = np.array([each.value for each in known.coefficients])
        return Calibrated(known.coefficients, stated, np.full(len(stated), np.nan))
    shares = _at_bounds(np.asarray(found.x), float(np.sum(found.fun**2)), residuals)
    free, each_run = (shares > 0) & (shares < 1), (len(told), -1)
    errors = np.full(len(scales), np.nan)
    if found.success:
        errors[free] = _errors(found.fun.reshape(each_run), found.jac.reshape(*each_run, len(scales))[:, :, free])
    slopes = np.array([scale.slope(share) for scale, share in zip(scales, shares, strict=True)])
    return Calibrated(known.coefficients, values(shares), errors * slopes)


def _at_bounds(shares: Array, least: float, residuals: Callable[[Array], Array]) -> Array:
    """Shares (k,), at a bound where they are close to it and it fits no worse: in a wide range that may be far away.

    Args:
        shares: Shares of the ranges, from 0 to 1.
        least: Sum of their squared residuals.
        residuals: Function from shares to residuals.
    """
    for number in np.flatnonzero((shares < _AT_BOUND) | (shares > 1 - _AT_BOUND)):
        moved = shares.copy()
        moved[number] = np.rint(shares[number])
        try:
            sum_there = float(np.sum(residuals(moved) ** 2))
        except ValueError:  # an equation may have no solution at the end of a range, such as one without a conductance
            continue
        if sum_there <= least:
            shares, least = moved, sum_there
    return shares


def _spread_weights(told: Array) -> Array:
    """Weights of fields (n, fields, cells), each kind by its own spread, shape (1, fields, 1)."""
    largest = np.abs(told).max(axis=(0, 2), keepdims=True)
    sizes = np.maximum(told.std(axis=(0, 2), keepdims=True), _FLAT * largest)
    return np.asarray(1 / (np.where(sizes > 0, sizes, 1.0) * np.sqrt(told.size)))


def _noise_weights(noise: Array) -> Array:
    """Weights of readings with noise of these standard deviations, of the same shape; 0 where there is none."""
    counts = np.isfinite(noise)
    return np.asarray(np.divide(1 / np.sqrt(counts.sum()), noise, out=np.zeros_like(noise), where=counts))


@dataclass(frozen=True)
class Scale:
    """Map of [0, 1] to a coefficient's range: logarithmic if the range is positive, else linear.

    Args:
        of: The coefficient.
    """

    of: UncertainCoefficient

    def value(self, share: float) -> float:
        """The value at a share; exactly a bound at 0 and 1."""
        low, high = self.of.low, self.of.high
        if share in (0.0, 1.0):
            return high if share else low
        found = low * (high / low) ** share if low > 0 else low + share * (high - low)
        return min(max(float(found), low), high)

    def share(self, value: float) -> float:
        """The share of a value."""
        low, high = self.of.low, self.of.high
        found = math.log(value / low) / math.log(high / low) if low > 0 else (value - low) / (high - low)
        return min(max(found, 0.0), 1.0)

    def slope(self, share: float) -> float:
        """Derivative of the value by the share."""
        low, high = self.of.low, self.of.high
        return self.value(share) * math.log(high / low) if low > 0 else high - low


def _errors(residuals: Array, jacobian: Array) -> Array:
    """Standard errors (k,) by the residuals (n, cells) of n runs and their Jacobian (n, cells, k); NaN if n <= k."""
    n, _, k = jacobian.shape
    normal = np.tensordot(jacobian, jacobian, ((0, 1), (0, 1)))
    if not n > k > 0 or np.linalg.matrix_rank(normal, rtol=_SINGULAR, hermitian=True) < k:
        return np.full(k, np.nan)
    inverse = np.linalg.inv(normal)
    slopes = np.einsum("nck,nc->nk", jacobian, residuals)
    return np.asarray(np.sqrt(n / (n - k) * np.diag(inverse @ (slopes.T @ slopes) @ inverse)))


def _in_words(stated: UncertainCoefficient, value: float, error: float) -> str:
    unit = f" {stated.unit}" if stated.unit else ""
    if value in (stated.low, stated.high):
        doubt = f"the {'lower' if value == stated.low else 'upper'} end of its range"
    else:
        doubt = f"standard error {f'{error:.2g}' if np.isfinite(error) else 'unknown'}"
    return f"{stated.name} {value:.4g}{unit} (stated {stated.value:.4g}, {doubt})"
