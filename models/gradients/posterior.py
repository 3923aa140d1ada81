"""Posterior of a Gaussian process given values and gradients (Rasmussen and Williams, 2006, section 9.4)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.gaussian.fit import Found
from fieldcraft.models.gradients.covariance import cross, cross_slopes, joint
from fieldcraft.models.gradients.fit import noises, rows_of, scaled
from fieldcraft.models.gradients.rows import left_out_together
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import FourierFeatures, Kernel
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.surrogate import Function, MomentsWithSlopes

# Random Fourier features of the prior of a draw.
_PATH_FEATURES = 1024
_METRIC = "metric."


@dataclass(frozen=True, eq=False)
class GradientPosterior:
    """Beliefs about the target at fixed hyper-parameters, given targets and their derivatives.

    Args:
        kernel: Kind of correlation.
        X: Encoded points, shape (n, d).
        targets: Shape (n,).
        slopes: Derivatives of the targets by the encoded coordinates, shape (n, d); NaN where not known.
        scales: Length scales in encoded coordinates, shape (d,).
        noise: Variance v of a target; for that of a derivative see ``models.gradients.fit``.
        scaling: Map between targets and results.
        metrics: Metrics of the fit.
        remarks: Notes on how it was made.
        fixed: The constant mean, in targets, where it is known already; else the best one is taken.
        blur: What the noise variance of a derivative by the share of an interval has beside (``models.gradients.fit``).
    """

    kernel: Kernel
    X: Tensor
    targets: Tensor
    slopes: Tensor
    scales: Tensor
    noise: float
    scaling: Scaling
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]
    fixed: float | None = None
    blur: float = 0.0

    @classmethod
    def at(
        cls,
        kernel: Kernel,
        X: Tensor,
        targets: Tensor,
        slopes: Tensor,
        noise: float | None,
        scaling: Scaling,
        found: Found,
        remarks: Mapping[str, str],
    ) -> "GradientPosterior":
        """The posterior with the hyper-parameters that were found; ``noise`` is None if it was fitted."""
        d = X.shape[1]
        values = np.exp(found.theta)
        variance = float(values[d]) if noise is None else noise
        blur = float(values[d + (noise is None) :].sum())  # of none or one
        scales = torch.from_numpy(2 * values[:d])
        lengths = {f"length_scale_{i}": float(value) for i, value in enumerate(scales)}
        metrics = {"log_posterior": found.log_posterior, "noise_sd": math.sqrt(variance), **lengths}
        return cls(kernel, X, targets, slopes, scales, variance, scaling, metrics, remarks, blur=blur)

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: Tensor,
        targets: Tensor,
        slopes: Tensor,
        scaling: Scaling,
        state: Mapping[str, Tensor],
    ) -> "GradientPosterior":
        """The posterior whose state this was, without its remarks.

        Raises:
            ValueError: the state is of other data.
        """
        own = {"X": X, "targets": targets, "slopes": slopes}
        same = all(name in state and torch.equal(state[name].nan_to_num(), own[name].nan_to_num()) for name in own)
        if not same:
            raise ValueError(
                f"This state is not of a Gaussian process fitted to these {len(X)} trials: fit again, or restore with "
                "the data whose digest the model records."
            )
        metrics = {name: float(value) for name, value in part(state, _METRIC).items()}
        noise, blur = float(state["noise"]), float(state.get("blur", 0.0))
        return cls(kernel, X, targets, slopes, state["scales"], noise, scaling, metrics, {}, blur=blur)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        prior = self._cross(X)
        return self.constant + self._weights @ prior, self._factor.variance(torch.ones(len(X), dtype=X.dtype), prior)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone."""
        return self.constant + self._weights @ self._cross(X)

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, in closed form (see MomentsWithSlopes)."""
        with torch.no_grad():
            prior = self._cross(X)
            half = self._factor.half_solve(prior)
            solved: Tensor = torch.linalg.solve_triangular(self._factor.lower.mT, half, upper=True)
            variance = 1 - half.square().sum(0)
            by_variance = -2 * self._along(X, solved.mT)
            by_variance[variance < 0] = 0
            mean, by_mean = self.constant + self._weights @ prior, self._along(X, self._weights)
        return MomentsWithSlopes(mean.numpy(), variance.clamp_min(0).numpy(), by_mean.numpy(), by_variance.numpy())

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule, whose prior's derivatives are corrected too (Wilson et al., 2020)."""
        return [self._path(rng) for _ in range(q)]

    def fantasize(self, X: Tensor) -> "GradientPosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a result; no gradient."""
        points = X.detach()
        with torch.no_grad():
            mean = self.mean(points)
        return replace(
            self,
            X=torch.cat([self.X, points]),
            targets=torch.cat([self.targets, mean]),
            slopes=torch.cat([self.slopes, torch.full_like(points, math.nan)]),
            fixed=self.constant,
        )

    def log_predictive(self) -> Tensor:
        """log density of each target given the other trials, its own gradient left out too, shape (n,)."""
        return left_out_together(self._factor, self._scaled_rows - self.constant * self._values, self._values)

    def information_gain(self) -> float:
        """1/2 log det(I + N^-1/2 K N^-1/2) of values and derivatives, believed values with them, in nats."""
        return 0.5 * float(self._factor.logdet() - self._noises.log().sum())

    def state(self) -> dict[str, Tensor]:
        """Data, hyper-parameters and metrics."""
        metrics = {name: torch.tensor(value, dtype=torch.float64) for name, value in self.metrics.items()}
        own = {"X": self.X, "targets": self.targets, "slopes": self.slopes, "scales": self.scales}
        noises = {"noise": self.noise} | ({"blur": self.blur} if self.blur else {})
        variances = {name: torch.tensor(value, dtype=torch.float64) for name, value in noises.items()}
        return {name: value.clone() for name, value in own.items()} | variances | named(_METRIC, metrics)

    @cached_property
    def constant(self) -> float:
        """The constant mean in targets: the best one, h^T S^-1 y / h^T S^-1 h."""
        if self.fixed is not None:
            return self.fixed
        solved = self._factor.solve(torch.stack([self._scaled_rows, self._values], dim=1))
        return float((self._values @ solved[:, 0]) / (self._values @ solved[:, 1]))

    @cached_property
    def _rows(self) -> tuple[Tensor, NDArray[np.intp]]:
        return rows_of(self.targets.numpy(), self.slopes.numpy())

    @cached_property
    def _scaled_rows(self) -> Tensor:
        y, known = self._rows
        return scaled(y, known, self.scales)

    @cached_property
    def _values(self) -> Tensor:
        """One for a value, zero for a derivative, shape (rows,)."""
        return torch.from_numpy((self._rows[1] % (1 + len(self.scales)) == 0).astype(np.float64))

    @cached_property
    def _noises(self) -> Tensor:
        return noises(self.kernel, self._rows[1], self.scales / 2, self.noise, self.blur)

    @cached_property
    def _points(self) -> Tensor:
        """Encoded points divided by the length scales, shape (n, d)."""
        return self.X / self.scales

    @cached_property
    def _factor(self) -> Factor:
        known = self._rows[1]
        with torch.no_grad():
            return Factor.of(joint(self.kernel, self._points, self._points)[known][:, known], self._noises)

    @cached_property
    def _weights(self) -> Tensor:
        """S^-1 (D^-1 y - c h), shape (rows,)."""
        return self._factor.solve(self._scaled_rows - self.constant * self._values)

    def _cross(self, X: Tensor) -> Tensor:
        """Prior covariance of the rows with values at X (c, d), shape (rows, c), differentiable."""
        return cross(self.kernel, self._points, X / self.scales)[self._rows[1]]

    def _along(self, X: Tensor, weights: Tensor) -> Tensor:
        """Gradients by X (c, d) of weights (c, rows) or (rows,) times the prior covariance, shape (c, d)."""
        every = weights.new_zeros(*weights.shape[:-1], self.X.numel() + len(self.X))
        every[..., self._rows[1]] = weights
        return cross_slopes(self.kernel, self._points, X.detach() / self.scales, every) / self.scales

    def _path(self, rng: np.random.Generator) -> Function:
        phi = FourierFeatures.drawn(self.kernel, self.scales, _PATH_FEATURES, rng)
        prior = phi.combined(torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies))))
        points = self.X.clone().requires_grad_(True)
        with torch.enable_grad():
            values = prior(points)
            (slopes,) = torch.autograd.grad(values.sum(), points)
        before: Array = np.column_stack([values.detach().numpy(), (slopes * self.scales).numpy()]).ravel()
        error = self._noises.sqrt() * torch.from_numpy(rng.standard_normal(len(self._noises)))
        known = torch.from_numpy(before[self._rows[1]])
        with torch.no_grad():
            weights = self._factor.solve(self._scaled_rows - self.constant * self._values - known - error)
        return lambda X: self.constant + prior(X) + weights @ self._cross(X)
