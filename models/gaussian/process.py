"""Exact Gaussian process regression: its hyper-parameters by GPyTorch's names, its posterior and its draws."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.gaussian.covariance import CORRELATIONS, covariance, pulled, scaled_squares
from fieldcraft.models.gaussian.fit import NOISE, Found
from fieldcraft.models.linear.conditioning import Factor, foretold, leave_one_out
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.milestones import telling
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.surrogate import Function, MomentsWithSlopes, Posterior

if TYPE_CHECKING:
    from botorch.models import SingleTaskGP

_CONSTANT, _SCALES = "mean_module.raw_constant", "covar_module.raw_lengthscale"
_NOISE = "likelihood.noise_covar.raw_noise"
_PARAMETER = "parameter."
_METRIC = "metric."
# Trials that a first look at many points uses.
_COARSE = 200
# Covariances with designs that processes asked together have alive at once.
_TOGETHER = 500_000

SMOOTHNESS: Mapping[Kernel, float] = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "rbf": math.inf}
"""nu of the kernels as Matern kernels."""
_OF_SMOOTHNESS = {smoothness: kernel for kernel, smoothness in SMOOTHNESS.items()}


@dataclass(frozen=True, eq=False)
class Fit:
    """Data and hyper-parameters that determine an exact posterior.

    Args:
        kernel: Kind of the kernel.
        X: Encoded points, shape (n, d).
        targets: Shape (n,).
        noise: Known variance of a target, a number; None if it was fitted.
        parameters: Hyper-parameters by GPyTorch's names.
        metrics: Metrics of the fit.
        readings: Known variance of each target beside that noise, shape (n,); None where there is none.
    """

    kernel: Kernel
    X: Tensor
    targets: Tensor
    noise: Tensor | None
    parameters: Mapping[str, Tensor]
    metrics: Mapping[str, float]
    readings: Tensor | None = None

    def state(self) -> dict[str, Tensor]:
        """Tensors by name."""
        parameters = {_PARAMETER + name: value.detach().clone() for name, value in self.parameters.items()}
        metrics = {_METRIC + name: torch.tensor(value, dtype=torch.float64) for name, value in self.metrics.items()}
        noise = {} if self.noise is None else {"noise": self.noise.clone()}
        noise |= {} if self.readings is None else {"readings": self.readings.clone()}
        smoothness = torch.tensor(SMOOTHNESS[self.kernel], dtype=torch.float64)
        own = {"X": self.X.clone(), "targets": self.targets.clone(), "smoothness": smoothness}
        return {**own, **noise, **parameters, **metrics}

    @classmethod
    def at(
        cls,
        kernel: Kernel,
        X: Tensor,
        targets: Tensor,
        noise: Tensor | None,
        found: Found,
        readings: Tensor | None = None,
    ) -> tuple["Fit", Factor | None]:
        """The fit with the hyper-parameters that were found and their best constant, 1^T S^-1 t / 1^T S^-1 1.

        With it the factor of S, the covariance of the results, if all of them gave the hyper-parameters.
        """
        rows, d = torch.from_numpy(found.rows), X.shape[1]
        values = torch.from_numpy(np.exp(found.theta))
        variance = values[d:] if noise is None else noise.reshape(1)
        with torch.no_grad():
            K = covariance(kernel, X[rows], X[rows], 2 * values[:d])
            factor = Factor.of(K, float(variance) if readings is None else variance + readings[rows])
        solved = factor.solve(torch.stack([targets[rows], torch.ones(len(rows), dtype=X.dtype)], dim=1)).sum(0)
        parameters = {_CONSTANT: solved[0] / solved[1], _SCALES: values[:d][None]}
        scales = {f"length_scale_{i}": 2 * float(value) for i, value in enumerate(values[:d])}
        metrics = {"log_posterior": found.log_posterior, "noise_sd": float(variance.sqrt()), **scales}
        parameters |= {_NOISE: variance} if noise is None else {}
        fit = cls(kernel, X, targets, noise, parameters, metrics, readings)
        return fit, factor if len(rows) == len(X) else None

    @classmethod
    def of(cls, kernel: Kernel, X: Tensor, targets: Tensor, state: Mapping[str, Tensor]) -> "Fit":
        """The fit restored from ``state``, to X (n, d) and targets (n,); of ``kernel`` where the state names none.

        Raises:
            ValueError: the state is of other data.
        """
        if not ("X" in state and torch.equal(state["X"], X) and torch.equal(state["targets"], targets)):
            raise ValueError(
                f"This state is not of a Gaussian process fitted to these {len(X)} trials: fit again, or restore with "
                "the data whose digest the model records."
            )
        parameters = {name.removeprefix(_PARAMETER): v for name, v in state.items() if name.startswith(_PARAMETER)}
        metrics = {name.removeprefix(_METRIC): float(v) for name, v in state.items() if name.startswith(_METRIC)}
        kernel = _OF_SMOOTHNESS[float(state["smoothness"])] if "smoothness" in state else kernel
        return cls(kernel, X, targets, state.get("noise"), parameters, metrics, state.get("readings"))


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Posterior of an exact Gaussian process at fixed hyper-parameters.

    Args:
        fit: Data and hyper-parameters.
        scaling: Map between targets and results.
        sampler: Function from this posterior, a number q and a generator to q drawn functions.
        remarks: Notes on how it was made.
        known_factor: ``factor``, where it is known already.
    """

    fit: Fit
    scaling: Scaling
    sampler: Callable[["ExactPosterior", int, np.random.Generator], list[Function]]
    remarks: Mapping[str, str]
    known_factor: Factor | None = None

    @property
    def metrics(self) -> Mapping[str, float]:
        """Log posterior density, noise and length scales."""
        return self.fit.metrics

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        # Marginals only, never an (n, n) covariance.
        cross = self.kernel(self.fit.X, X)
        return self.mean_of(cross), self.factor.variance(torch.ones(len(X), dtype=X.dtype), cross)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone, in O(n) a point."""
        return self.mean_of(self.kernel(self.fit.X, X))

    def mean_of(self, cross: Tensor) -> Tensor:
        """Mean (c,) at points whose prior covariance with the results is ``cross`` (n, c)."""
        return self.constant + self._weights @ cross

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, in closed form (see MomentsWithSlopes).

        With s_i = |(x - x_i) / l|^2, a = S^-1 (t - c) and b = S^-1 k(x): d mean = sum_i a_i k'(s_i) d s_i and
        d variance = -2 sum_i b_i k'(s_i) d s_i.
        """
        scales, weights = self.length_scales.numpy(), self._weights.numpy()
        x, cross, slopes = self._sloped(X)
        half = self.factor.half_solve(torch.from_numpy(cross).mT)
        solved: Tensor = torch.linalg.solve_triangular(self.factor.lower.mT, half, upper=True)
        variance = 1 - (half.numpy() ** 2).sum(axis=0)
        by_variance = pulled(slopes * solved.numpy().T, x, self._scaled) * (-2 / scales)
        by_variance[variance < 0] = 0
        by_mean = pulled(slopes * weights, x, self._scaled) / scales
        return MomentsWithSlopes(self.constant + cross @ weights, np.maximum(variance, 0), by_mean, by_variance)

    def kernel_slopes(self, X: Tensor, weights: Array) -> tuple[Array, Array]:
        """k(x, trials) @ weights (n,) at X (m, d), shape (m,), and its gradient (m, d)."""
        x, cross, slopes = self._sloped(X)
        return cross @ weights, pulled(slopes * weights, x, self._scaled) / self.length_scales.numpy()

    def _sloped(self, X: Tensor) -> tuple[Array, Array, Array]:
        """X (m, d) over the length scales, and k with the trials and its slope by s, each (m, n)."""
        x = X.detach().numpy() / self.length_scales.numpy()
        return x, *CORRELATIONS[self.fit.kernel](scaled_squares(x, self._scaled))

    @cached_property
    def coarse(self) -> "ExactPosterior":
        """The posterior of some of the trials, for a first look at many points."""
        rows = torch.from_numpy(telling(self.fit.targets.numpy(), _COARSE))
        if len(rows) == len(self.fit.X):
            return self
        readings = None if self.fit.readings is None else self.fit.readings[rows]
        fit = replace(self.fit, X=self.fit.X[rows], targets=self.fit.targets[rows], readings=readings)
        return replace(self, fit=fit, known_factor=None)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, drawn by the surrogate's method."""
        return self.sampler(self, q, rng)

    def fantasize(self, X: Tensor) -> "ExactPosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a further result."""
        points, (X0, targets) = X.detach(), (self.fit.X, self.fit.targets)
        with torch.no_grad():
            mean, corner = self.mean(points), self.kernel(points, points)
            corner.diagonal().add_(self.noise_variance)
            grown = self.factor.append(self.kernel(points, X0), corner)
        readings = self.fit.readings
        if readings is not None:
            readings = torch.cat(
                [readings, readings.new_full((len(points),), self.noise_variance - self.base_variance)]
            )
        fit = replace(self.fit, X=torch.cat([X0, points]), targets=torch.cat([targets, mean]), readings=readings)
        return replace(self, fit=fit, known_factor=grown)

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), at these hyper-parameters."""
        return leave_one_out(self.factor, self.fit.targets - self.constant)

    @property
    def left_out(self) -> tuple[Array, Array]:
        """Matrix M (n, n) and variances (n,): about the others' best constant each of t is foretold as t - M t."""
        solved = self.factor.solve(torch.ones(len(self.points), 1, dtype=self.points.dtype))
        errors, _ = foretold(self.factor, solved, Factor.of(solved.sum(dim=0, keepdim=True), 0.0))
        return errors, 1 / self.factor.inverse_diagonal().numpy()

    def information_gain(self) -> float:
        """1/2 log det(I + K / noise) of the results, including believed ones, in nats."""
        if self.fit.readings is None:
            return 0.5 * (float(self.factor.logdet()) - len(self.fit.targets) * math.log(self.noise_variance))
        return 0.5 * float(self.factor.logdet() - torch.as_tensor(self.noises).log().sum())

    def state(self) -> dict[str, Tensor]:
        """Training data, known noise, hyper-parameters and metrics."""
        return self.fit.state()

    @property
    def points(self) -> Tensor:
        """Encoded points, shape (n, d)."""
        return self.fit.X

    @property
    def dimension(self) -> int:
        """Number d of encoded coordinates."""
        return self.fit.X.shape[1]

    @cached_property
    def model(self) -> "SingleTaskGP":
        """BoTorch's model of it in the unit cube: its inputs are (X + 1) / 2. Its parameters stay fixed."""
        fixed = self.fit.noise if self.fit.readings is None else torch.as_tensor(self.noises)[:, None]
        model = build(self.fit.kernel, self.fit.X, self.fit.targets, fixed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.fit.parameters[name])
        model.requires_grad_(False)
        return model

    @cached_property
    def constant(self) -> float:
        """The constant mean, in targets."""
        return float(self.fit.parameters[_CONSTANT])

    @cached_property
    def length_scales(self) -> Tensor:
        """Length scales in encoded coordinates, shape (d,)."""
        # The model's own coordinates are half as wide as the encoded ones.
        return 2 * self.fit.parameters[_SCALES].detach().flatten()

    @cached_property
    def base_variance(self) -> float:
        """Variance v that every result has, in squared target units."""
        return float(self.fit.parameters[_NOISE] if self.fit.noise is None else self.fit.noise)

    @cached_property
    def noise_variance(self) -> float:
        """Variance of a further result, in squared target units: v, and the median of what results state."""
        readings = self.fit.readings
        return self.base_variance if readings is None else self.base_variance + float(readings.median())

    @cached_property
    def noises(self) -> float | Tensor:
        """Variance of a result, in squared target units: one number, or one for each, shape (n,)."""
        readings = self.fit.readings
        return self.base_variance if readings is None else self.base_variance + readings

    @cached_property
    def factor(self) -> Factor:
        """Factor of the covariance of the results, noise included."""
        if self.known_factor is not None:
            return self.known_factor
        with torch.no_grad():
            return Factor.of(self.kernel(self.fit.X, self.fit.X), self.noises)

    @cached_property
    def _weights(self) -> Tensor:
        """(K + noise)^-1 (targets - constant), shape (n,)."""
        return self.factor.solve(self.fit.targets - self.constant)

    @cached_property
    def _scaled(self) -> Array:
        """Encoded points divided by the length scales, shape (n, d)."""
        return np.asarray((self.fit.X / self.length_scales).numpy())

    def kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """Prior covariance of the objective at A (a, d) and B (b, d), shape (a, b), differentiable."""
        return covariance(self.fit.kernel, A, B, self.length_scales)


@dataclass(frozen=True, eq=False)
class ExactPosteriors:
    """Posteriors of K >= 1 exact processes with the same designs and kernel, which are asked together.

    Args:
        processes: The posteriors.
    """

    processes: tuple[ExactPosterior, ...]

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Means and variances of the noise-free targets at X (c, d), each (K, c): those of ``mean_var`` of each."""
        step = max(1, _TOGETHER // (len(self.processes) * len(self.processes[0].fit.X)))
        blocks = [self._block(X[first : first + step]) for first in range(0, max(1, len(X)), step)]
        means, variances = zip(*blocks, strict=True)
        return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)

    def _block(self, X: Array) -> tuple[Array, Array]:
        scales = [each.length_scales.numpy() for each in self.processes]
        squares = [scaled_squares(each._scaled, X / own) for each, own in zip(self.processes, scales, strict=True)]
        cross = torch.from_numpy(CORRELATIONS[self.processes[0].fit.kernel](np.stack(squares))[0])
        variance = self._factor.variance(torch.ones(cross.shape[::2], dtype=cross.dtype), cross)
        means = [each.mean_of(own) for each, own in zip(self.processes, cross, strict=True)]
        return torch.stack(means).numpy(), variance.numpy()

    @cached_property
    def _factor(self) -> Factor:
        """Factors of all covariances of the results, shape (K, n, n)."""
        return Factor(torch.stack([each.factor.lower.detach() for each in self.processes]))


def posterior(
    fit: Fit,
    scaling: Scaling,
    sampler: Callable[[ExactPosterior, int, np.random.Generator], list[Function]],
    remarks: Mapping[str, str],
    factor: Factor | None = None,
) -> ExactPosterior:
    """The posterior of a fit, with the factor of the results' covariance where that is known already.

    Raises:
        ValueError: the hyper-parameters are of another model.
    """
    expected = {_CONSTANT: (), _SCALES: (1, fit.X.shape[1])} | ({_NOISE: (1,)} if fit.noise is None else {})
    given = fit.parameters
    if {name: tuple(value.shape) for name, value in given.items()} != expected:
        raise ValueError(
            f"These hyper-parameters ({', '.join(sorted(given))}) are not those of this Gaussian process "
            f"({', '.join(sorted(expected))}): restore with the surrogate that fitted them."
        )
    return ExactPosterior(fit, scaling, sampler, remarks, factor)


def exact_process(beliefs: Posterior, who: str, instead: str) -> ExactPosterior:
    """The beliefs, if they are an exact Gaussian process as ``who`` requires; else an error that suggests ``instead``.

    Under unknown constraints, these are the beliefs about the objective.

    Raises:
        ValueError: they are another posterior.
    """
    beliefs = about_objective(beliefs)
    if not isinstance(beliefs, ExactPosterior):
        raise ValueError(
            f"The {who} needs an exact Gaussian process, and the posterior is a {type(beliefs).__name__}: use the "
            f"surrogate exact_gp with at most n_exact trials, or `{instead}`, which takes any."
        )
    return beliefs


def to_unit(X: Tensor) -> Tensor:
    """X mapped from the encoded [-1, 1] to [0, 1], for which BoTorch's prior of the length scales is made."""
    return (X + 1) / 2


def build(kernel: Kernel, X: Tensor, targets: Tensor, noise: Tensor | None) -> "SingleTaskGP":
    """A SingleTaskGP at its priors' modes, on X (n, d) and targets (n,); known noise, a number or (n, 1), or None."""
    from botorch.exceptions.warnings import InputDataWarning
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import (
        get_covar_module_with_dim_scaled_prior,
        get_gaussian_likelihood_with_lognormal_prior,
    )

    covariance = get_covar_module_with_dim_scaled_prior(ard_num_dims=X.shape[1], use_rbf_kernel=kernel == "rbf")
    if kernel != "rbf":
        covariance.nu = SMOOTHNESS[kernel]
    Y = targets.unsqueeze(-1)
    likelihood = get_gaussian_likelihood_with_lognormal_prior() if noise is None else None
    if likelihood is not None:
        likelihood.noise_covar.raw_noise_constraint.lower_bound.fill_(NOISE.least)
    with warnings.catch_warnings():
        # Few or believed targets are not exactly standardised; the scaling of all trials is the right one for them.
        warnings.simplefilter("ignore", InputDataWarning)
        return SingleTaskGP(
            to_unit(X),
            Y,
            train_Yvar=None if noise is None else noise.expand_as(Y),
            likelihood=likelihood,
            covar_module=covariance,
            outcome_transform=None,
        )
