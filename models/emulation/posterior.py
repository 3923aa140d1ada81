"""Posterior of results as a multiple of an emulator's predictions plus a Gaussian process, over a few such multiples.

y(x) = rho y_c(x) + delta(x), with delta a Gaussian process (Kennedy and O'Hagan, 2000). The factor rho is one of a few
fixed ones, or uncertain, rho ~ N(m, s^2): then s^2 y_c(x) y_c(x') joins the covariance of delta. The belief is the
mixture of these. With the log density l_ki of result i under factor k given the other results, factor k has a weight in
proportion to exp(sum_i l_ki). Few results leave the length scales and the noise of delta in doubt: each factor may have
several processes, drawn from what is believed of these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.emulation.calibration import Calibrated
from fieldcraft.models.emulation.slopes import emulated, with_slopes
from fieldcraft.models.gradients.rows import Values
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import FourierFeatures
from fieldcraft.models.observations import Array, Emulator, Scaling
from fieldcraft.models.selection.predictive_score import MOST
from fieldcraft.models.surrogate import Function, MomentsWithSlopes

# Random Fourier features of the prior of a draw.
_PATH_FEATURES = 1024
# Weight below which a process is left out of the moments.
_LEAST = 1e-4
# Least log density of a result: those of two factors under which it is impossible must have a difference.
_WORST = -1e100


@dataclass(frozen=True, eq=False)
class Multiple:
    """Beliefs about the targets, given the predictions, for one factor.

    Args:
        rho: The factor, or its prior mean.
        spread: Its prior standard deviation; 0 if it is fixed.
        rows: Rows of delta, in its units: a value for each result, and the derivatives that are known beside them.
        unit: Standard deviation of delta, in targets.
        noise: Variance of a result about it, in such units.
        jitter: The part of that noise, as a standard deviation in targets, that belongs to the design: a result that is
            read without noise has it too.
        predictions: The same rows of the emulator, in targets, shape (rows,).
        targets: The same rows of the results, shape (rows,).
        weight: Share in the mixture.
    """

    rho: float
    spread: float
    rows: Values
    unit: float
    noise: float
    jitter: float
    predictions: Tensor
    targets: Tensor
    weight: float = 1.0

    def mean_var(self, X: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (c,) and variance (c,) of the target at X (c, d) with these predictions (c,)."""
        slope = self._slope(predictions)
        cross = self._cross(X, slope)
        variance = self._factor.variance(1 + slope.square(), cross)
        mean = self.rho * predictions + self.unit * (self._constant + self._weights @ cross)
        return mean, self.unit**2 * variance + self.jitter**2

    def moment_slopes(self, X: Tensor, predictions: Array, slopes: Array) -> MomentsWithSlopes:
        """Mean and variance at X (c, d) with predictions (c,) of these gradients (c, d), and their gradients by X.

        As ``ExactPosterior.moment_slopes``; with f(x) the feature of rho, the prior variance is 1 + f(x)^2 and the
        covariance with a result k(x) + f(x) f.
        """
        values, pull = self.rows.pulling(X)
        known = self._slope(self.predictions).numpy()
        here, by_here = self.spread / self.unit * predictions, self.spread / self.unit * slopes
        cross = values + here[:, None] * known
        half = self._factor.half_solve(torch.from_numpy(cross).mT)
        solved = torch.linalg.solve_triangular(self._factor.lower.mT, half, upper=True).numpy().T
        weights = self._weights.numpy()

        def along(factors: Array) -> Array:
            """Gradient of the sum over the rows of these factors (rows,) or (c, rows) times the covariance."""
            return np.asarray(pull(factors) + (factors @ known)[..., None] * by_here)

        variance = 1 + here**2 - (half.numpy() ** 2).sum(axis=0)
        by_variance = 2 * here[:, None] * by_here - 2 * along(solved)
        by_variance[variance < 0] = 0
        return MomentsWithSlopes(
            self.rho * predictions + self.unit * (self._constant + cross @ weights),
            self.unit**2 * np.maximum(variance, 0) + self.jitter**2,
            self.rho * slopes + self.unit * along(weights),
            self.unit**2 * by_variance,
        )

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,); derivatives are left out with their target."""
        own = self.rows.left_out(self._factor, self._residual) - math.log(self.unit)
        return own.detach().clamp(_WORST, MOST)

    @property
    def factored(self) -> bool:
        """False if the covariance has no Cholesky factor: predictions of an uncertain factor may be far too large."""
        try:
            return len(self._factor.lower) > 0
        except ValueError:
            return False

    @property
    def factor_mean(self) -> float:
        """Posterior mean of rho."""
        return self.rho + self.spread * float(self._slope(self.predictions) @ self._weights)

    def drawn(self, rng: np.random.Generator) -> "_Path":
        """A function drawn by Matheron's rule, as for an exact process (``models.gaussian.process.pathwise``)."""
        phi = FourierFeatures.drawn(self.rows.kernel, self.rows.scales, _PATH_FEATURES, rng)
        prior = phi.combined(torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies))))
        step = float(rng.standard_normal())
        error = self._noises.sqrt() * torch.from_numpy(rng.standard_normal(len(self._left)))
        with torch.no_grad():
            before = self.rows.read(prior) + step * self._slope(self.predictions)
            weights = self._factor.solve(self._residual - before - error)
        return _Path(self, prior, step, weights)

    def believed(self, X: Tensor, predictions: Tensor) -> "Multiple":
        """The same, had X (k, d) with these predictions (k,) been read at the mean; the weight stays."""
        with torch.no_grad():
            mean, _ = self.mean_var(X, predictions)
        return replace(
            self,
            rows=self.rows.grown(X),
            predictions=torch.cat([self.predictions, predictions]),
            targets=torch.cat([self.targets, mean]),
        )

    def _slope(self, predictions: Tensor) -> Tensor:
        """Feature of the uncertain part of rho, in units of delta, for predictions of any shape."""
        return self.spread / self.unit * predictions

    def _cross(self, X: Tensor, slope: Tensor) -> Tensor:
        """Prior covariance of the rows and X (c, d), shape (rows, c)."""
        return self.rows.cross(X) + self._slope(self.predictions)[:, None] * slope

    @cached_property
    def _left(self) -> Tensor:
        """Targets less rho times the predictions, in units of delta, shape (rows,)."""
        return (self.targets - self.rho * self.predictions) / self.unit

    @cached_property
    def _noises(self) -> Tensor:
        return torch.as_tensor(self.rows.noises(self.noise), dtype=self.targets.dtype)

    @cached_property
    def _factor(self) -> Factor:
        with torch.no_grad():
            slope = self._slope(self.predictions)
            return Factor.of(self.rows.covariance() + slope[:, None] * slope, self._noises)

    @cached_property
    def _constant(self) -> float:
        """The best constant, h^T S^-1 r / h^T S^-1 h with h = 1 for a value, in units of delta."""
        of_values = self.rows.of_values
        solved = of_values @ self._factor.solve(torch.stack([self._left, of_values], dim=1))
        return float(solved[0] / solved[1])

    @cached_property
    def _residual(self) -> Tensor:
        """Rows of delta less the constant, shape (rows,)."""
        return self._left - self._constant * self.rows.of_values

    @cached_property
    def _weights(self) -> Tensor:
        """S^-1 (r - constant h), shape (rows,)."""
        return self._factor.solve(self._residual)


@dataclass(frozen=True, eq=False)
class _Path:
    """One drawn function, of a design and its prediction."""

    of: Multiple
    prior: Function
    step: float
    weights: Tensor

    def at(self, X: Tensor, predictions: Tensor) -> Tensor:
        """Its value at X (c, d) with these predictions (c,), in targets, shape (c,)."""
        of, slope = self.of, self.of._slope(predictions)
        delta = of._constant + self.prior(X) + self.step * slope + self.weights @ of._cross(X, slope)
        return of.rho * predictions + of.unit * delta


@dataclass(frozen=True, eq=False)
class EmulatedPosterior:
    """Mixture over the factors of an emulator.

    Args:
        multiples: Beliefs for each factor and each draw of its hyper-parameters, with their weights.
        densities: log density of each target given the others, under each factor, shape (k, n).
        evidence: The same of what weighs each factor (see ``weighted``).
        emulator: The predictions, in the results' unit.
        scaling: Map between targets and results.
        kept: Its state.
        notes: Further remarks of the surrogate.
        calibrated: Coefficients of the emulator's equation that were fitted; None if none were.
    """

    multiples: tuple[Multiple, ...]
    densities: Tensor
    evidence: Tensor
    emulator: Emulator
    scaling: Scaling
    kept: Mapping[str, Tensor]
    notes: Mapping[str, str] = field(default_factory=dict)
    calibrated: Calibrated | None = None

    @property
    def metrics(self) -> Mapping[str, float]:
        """Mean factor of the mixture; size and noise of the likeliest delta, in targets, and its length scales;
        calibrated coefficients, in their units."""
        likeliest = max(self.multiples, key=lambda each: each.weight)
        return {
            "rho": sum(each.weight * each.factor_mean for each in self.multiples),
            "difference_sd": likeliest.unit,
            "noise_sd": math.sqrt(likeliest.noise) * likeliest.unit,
            **{f"length_scale_{i}": float(value) for i, value in enumerate(likeliest.rows.scales)},
            **({} if self.calibrated is None else self.calibrated.metrics),
        }

    @property
    def remarks(self) -> Mapping[str, str]:
        """Shares of the belief that rest on multiples of the emulator, and on the results alone."""
        shares = []
        for (rho, _), of in groupby(self.multiples, lambda each: (each.rho, each.spread)):
            weights, means = zip(*((each.weight, each.factor_mean) for each in of), strict=True)
            mean = np.average(means, weights=weights) if sum(weights) > 0 else np.mean(means)
            shares.append(f"{sum(weights):.2g} on {f'{mean:.3g} times it' if rho else 'the results alone'}")
        return {"emulator": ", ".join(shares), **self.notes}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d): those of the mixture."""
        predictions = self._predicted(X)
        found = [each.mean_var(X, predictions) for each in self._felt]
        weights = torch.from_numpy(self._weights)
        means, variances = (torch.stack(part) for part in zip(*found, strict=True))
        mean = weights @ means
        return mean, weights @ (variances + (means - mean).square())

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, those of the predictions by differences."""
        emulator = self.emulator
        predicted, slopes = with_slopes(emulator.predict, X.detach().numpy(), stepped=emulator.stepped)
        factor = self.scaling.sign / self.scaling.sd
        predictions, slopes = factor * (predicted - self.scaling.mean), factor * slopes
        at, weights = [each.moment_slopes(X, predictions, slopes) for each in self._felt], self._weights
        mean, by_mean = weights @ [each.mean for each in at], np.tensordot(weights, [each.by_mean for each in at], 1)
        apart = [each.mean - mean for each in at]
        variances = [each.variance + gap**2 for each, gap in zip(at, apart, strict=True)]
        by_variances = [
            each.by_variance + 2 * gap[:, None] * (each.by_mean - by_mean) for each, gap in zip(at, apart, strict=True)
        ]
        return MomentsWithSlopes(mean, weights @ variances, by_mean, np.tensordot(weights, by_variances, 1))

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, each of one factor drawn by its weight.

        None has the jitter, by whose square their variance is less than that of ``mean_var``: it changes from design to
        design without order, so that the best of many designs would be the one of the luckiest jitter.
        """
        chosen = rng.choice(len(self._felt), size=q, p=self._weights)
        return [self._function(self._felt[k].drawn(rng)) for k in chosen]

    def fantasize(self, X: Tensor) -> "EmulatedPosterior":
        """The posterior as if X (k, d) had been read at the mean, under each factor at its own; weights stay."""
        points = X.detach()
        predictions = self._predicted(points)
        return replace(self, multiples=tuple(each.believed(points, predictions) for each in self.multiples))

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), under factors weighted by the others alone."""
        others = torch.log_softmax(self.evidence.sum(1, keepdim=True) - self.evidence, dim=0)
        return torch.logsumexp(others + self.densities, dim=0)

    def state(self) -> dict[str, Tensor]:
        """The predictions at the results, and the hyper-parameters of each process."""
        return dict(self.kept)

    @cached_property
    def _felt(self) -> tuple[Multiple, ...]:
        """Those whose weight moves a mean or a variance."""
        return tuple(each for each in self.multiples if each.weight > _LEAST)

    @cached_property
    def _weights(self) -> Array:
        """Their shares of the belief."""
        weights = np.array([each.weight for each in self._felt])
        return np.asarray(weights / weights.sum())

    def _function(self, path: _Path) -> Function:
        return lambda X: path.at(X, self._predicted(X))

    def _predicted(self, X: Tensor) -> Tensor:
        """Predictions at X (n, d), in targets, shape (n,)."""
        return self.scaling.sign * (emulated(self.emulator, X) - self.scaling.mean) / self.scaling.sd


def weighted(
    factors: Sequence[Sequence[Multiple]], first: Tensor | None = None
) -> tuple[tuple[Multiple, ...], Tensor, Tensor]:
    """The beliefs, the densities of the results under each factor, and those by which they are weighted, (k, n) each.

    Args:
        factors: For each factor its processes, whose weights are their shares of what is believed under it.
        first: log densities (n,) under another process of the first factor, which weigh it where their sum is larger:
            what a prior of length scales is worth must not count for the factors that have it.
    """
    densities = torch.stack([mixed(each) for each in factors])
    evidence = densities.clone()
    if first is not None and first.sum() > densities[0].sum():
        evidence[0] = first
    pairs = zip(factors, torch.softmax(evidence.sum(1), dim=0).tolist(), strict=True)
    beliefs = tuple(replace(each, weight=weight * each.weight) for of, weight in pairs for each in of)
    return beliefs, densities, evidence


def mixed(multiples: Sequence[Multiple]) -> Tensor:
    """log density of each target given the others under several processes, shape (n,)."""
    shares = torch.tensor([each.weight for each in multiples], dtype=torch.float64)
    return torch.logsumexp(shares.log()[:, None] + torch.stack([each.log_predictive() for each in multiples]), dim=0)
