"""Exact Gaussian process regression on GPyTorch's model: its fit, its posterior and its draws."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_lognormal_prior,
)
from botorch.optim.utils import sample_all_priors
from botorch.sampling.pathwise import draw_matheron_paths
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.gaussian.fit import NOISE, LogPosterior
from fieldcraft.models.linear.conditioning import Factor, leave_one_out
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.randomness import seeded
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.surrogate import Function, Posterior

_PARAMETER = "parameter."
_METRIC = "metric."

SMOOTHNESS: Mapping[Kernel, float] = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
"""nu of the Matern kernels."""


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
    """

    kernel: Kernel
    X: Tensor
    targets: Tensor
    noise: Tensor | None
    parameters: Mapping[str, Tensor]
    metrics: Mapping[str, float]

    def state(self) -> dict[str, Tensor]:
        """Tensors by name."""
        parameters = {_PARAMETER + name: value.detach().clone() for name, value in self.parameters.items()}
        metrics = {_METRIC + name: torch.tensor(value, dtype=torch.float64) for name, value in self.metrics.items()}
        noise = {} if self.noise is None else {"noise": self.noise.clone()}
        return {"X": self.X.clone(), "targets": self.targets.clone(), **noise, **parameters, **metrics}

    @classmethod
    def of(cls, kernel: Kernel, X: Tensor, targets: Tensor, state: Mapping[str, Tensor]) -> "Fit":
        """The fit restored from ``state``, to X (n, d) and targets (n,).

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
        return cls(kernel, X, targets, state.get("noise"), parameters, metrics)


def fitted(kernel: Kernel, X: Tensor, targets: Tensor, noise: Tensor | None, starts: int) -> Fit:
    """Hyper-parameters of the largest posterior density over ``starts`` ascents.

    The first ascent starts at the priors' modes, each other one at a draw from the priors, by torch's ambient
    generator.

    Raises:
        ValueError: no start gave a finite density.
    """
    model = build(kernel, X, targets, noise)
    known = None if noise is None else float(noise)
    density = LogPosterior(kernel, model.train_inputs[0].numpy(), model.train_targets.numpy(), known)
    ends = [density.maximised(_start(model, restart=i)) for i in range(starts)]
    reached, theta = max(ends, key=lambda end: end[0])
    if not math.isfinite(reached):
        raise ValueError(
            f"No hyper-parameters of the Gaussian process give a finite likelihood ({len(ends)} starts, {len(X)} "
            "trials): look for extreme results, or raise restarts."
        )
    _set(model, theta, density.constant(theta))
    metrics = {"log_posterior": reached, **_hyperparameters(model)}
    return Fit(kernel, X, targets, noise, dict(model.named_parameters()), metrics)


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Posterior of an exact Gaussian process: a SingleTaskGP whose parameters stay fixed.

    Args:
        model: Model in the unit cube, where BoTorch works: its inputs are (X + 1) / 2.
        fit: Data and hyper-parameters.
        scaling: Map between targets and results.
        sampler: Function from this posterior, a number q and a generator to q drawn functions.
        remarks: Notes on how it was made.
    """

    model: SingleTaskGP
    fit: Fit
    scaling: Scaling
    sampler: Callable[["ExactPosterior", int, np.random.Generator], list[Function]]
    remarks: Mapping[str, str]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Log posterior density, noise and length scales."""
        return self.fit.metrics

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        # Marginals only, never an (n, n) covariance; GPyTorch's own, batch by batch of one point, take three to seven
        # times as long.
        cross = self.kernel(self.fit.X, X)
        explained = self.factor.half_solve(cross).square().sum(dim=0)
        return self.constant + self._weights @ cross, (1 - explained).clamp_min(0.0)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, drawn by the surrogate's method."""
        return self.sampler(self, q, rng)

    def fantasize(self, X: Tensor) -> "ExactPosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
        with torch.no_grad():
            mean = self.mean_var(X)[0]
        inputs, targets = torch.cat([self.fit.X, X.detach()]), torch.cat([self.fit.targets, mean])
        fit = Fit(self.fit.kernel, inputs, targets, self.fit.noise, self.fit.parameters, self.fit.metrics)
        return posterior(fit, self.scaling, self.sampler, self.remarks)

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), at these hyper-parameters."""
        return leave_one_out(self.factor, self.fit.targets - self.constant)

    def information_gain(self) -> float:
        """1/2 log det(I + K / noise) of the results, including believed ones, in nats."""
        return 0.5 * (float(self.factor.logdet()) - len(self.fit.targets) * math.log(self.noise_variance))

    def state(self) -> dict[str, Tensor]:
        """Training data, known noise, hyper-parameters and metrics."""
        return self.fit.state()

    @property
    def dimension(self) -> int:
        """Number d of encoded coordinates."""
        return self.fit.X.shape[1]

    @property
    def constant(self) -> float:
        """The constant mean, in targets."""
        return float(self.model.mean_module.constant)

    @property
    def length_scales(self) -> Tensor:
        """Length scales in encoded coordinates, shape (d,)."""
        scales: Tensor = self.model.covar_module.lengthscale.detach().flatten()
        # The model's own coordinates are half as wide as the encoded ones.
        return 2 * scales

    @property
    def noise_variance(self) -> float:
        """Variance of a result, in squared target units."""
        return float(self.model.likelihood.noise.mean())

    @cached_property
    def factor(self) -> Factor:
        """Factor of the covariance of the results, noise included."""
        with torch.no_grad():
            return Factor.of(self.kernel(self.fit.X, self.fit.X), self.noise_variance)

    @cached_property
    def _weights(self) -> Tensor:
        """(K + noise)^-1 (targets - constant), shape (n,)."""
        return self.factor.solve(self.fit.targets - self.constant)

    def kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """Prior covariance of the objective at A (a, d) and B (b, d), shape (a, b), differentiable."""
        covariance: Tensor = self.model.covar_module(to_unit(A), to_unit(B)).to_dense()
        return covariance


def posterior(
    fit: Fit,
    scaling: Scaling,
    sampler: Callable[[ExactPosterior, int, np.random.Generator], list[Function]],
    remarks: Mapping[str, str],
) -> ExactPosterior:
    """The posterior of a fit.

    Raises:
        ValueError: the hyper-parameters are of another model.
    """
    model = build(fit.kernel, fit.X, fit.targets, fit.noise)
    expected = dict(model.named_parameters())
    given = fit.parameters
    if set(given) != set(expected) or any(given[name].shape != p.shape for name, p in expected.items()):
        raise ValueError(
            f"These hyper-parameters ({', '.join(sorted(given))}) are not those of this Gaussian process "
            f"({', '.join(sorted(expected))}): restore with the surrogate that fitted them."
        )
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(given[name])
    model.requires_grad_(False)
    return ExactPosterior(model, fit, scaling, sampler, remarks)


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


def pathwise(posterior: ExactPosterior, q: int, rng: np.random.Generator) -> list[Function]:
    """q functions by Matheron's rule: a prior of random Fourier features, an exact update (Wilson et al., 2020)."""
    with seeded(rng):
        return [_path(posterior.model) for _ in range(q)]


def _path(model: SingleTaskGP) -> Function:
    """One function from the posterior, by torch's ambient generator."""
    path = draw_matheron_paths(model, sample_shape=torch.Size([1]))
    path.requires_grad_(False)
    return lambda X: path(to_unit(X)).reshape(len(X))


def build(kernel: Kernel, X: Tensor, targets: Tensor, noise: Tensor | None) -> SingleTaskGP:
    """A SingleTaskGP at its priors' modes, on X (n, d) and targets (n,), with known noise variance or None."""
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


def _start(model: SingleTaskGP, restart: int) -> Array:
    """Start of an ascent: the priors' modes, at which the model is built (restart 0), or a draw from the priors."""
    if restart:
        sample_all_priors(model)
    values: Array = parameters_to_vector(_positive(model)).detach().numpy()
    return np.log(values)


def _positive(model: SingleTaskGP) -> list[Tensor]:
    """The parameters except the constant, which BoTorch bounds and does not transform: scales, then noise."""
    unknown = [p for name, p in model.likelihood.named_parameters() if name.endswith("raw_noise")]
    return [model.covar_module.raw_lengthscale, *unknown]


def _set(model: SingleTaskGP, theta: Array, constant: float) -> None:
    """Set the model's positive parameters from their logarithms theta, and its constant."""
    with torch.no_grad():
        vector_to_parameters(torch.from_numpy(np.exp(theta)), _positive(model))
        model.mean_module.raw_constant.fill_(constant)


def _hyperparameters(model: SingleTaskGP) -> dict[str, float]:
    """Noise standard deviation of a target and length scales, in encoded coordinates."""
    scales = model.covar_module.lengthscale.detach().flatten()
    noise = float(model.likelihood.noise.detach().mean().sqrt())
    return {"noise_sd": noise} | {f"length_scale_{i}": 2 * float(value) for i, value in enumerate(scales)}
