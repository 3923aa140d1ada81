"""Exact Gaussian process (Rasmussen and Williams, 2006, ch. 2), fitted and evaluated by BoTorch and GPyTorch."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim.utils import sample_all_priors
from botorch.sampling.pathwise import draw_matheron_paths
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from models.observations import Observations, Scaling
from models.randomness import seeded
from models.surrogate import Function, Report

Kernel = Literal["matern52", "rbf"]

# A noise-free covariance of close points has no Cholesky factor in float64: the least variance of a target.
_LEAST_NOISE = 1e-6
_PARAMETER = "parameter."
_METRIC = "metric."


@dataclass(frozen=True)
class ExactGP:
    """Gaussian process with a constant mean and one length scale for each encoded coordinate.

    The hyper-parameters maximise the marginal likelihood times BoTorch's dimension-scaled priors (Hvarfner et al.,
    2024), from several starts; the output scale is one, since the targets are standardised.

    Args:
        kernel: "matern52" (Matern, smoothness 5/2) or "rbf" (squared exponential).
        noise: "fitted" with the other hyper-parameters, or "known": taken from ``Observations.noise_sd``.
        restarts: Fits from parameters drawn from their priors, beside the one from the priors' modes.

    Raises:
        ValueError: restarts is negative.
    """

    uses_physics: ClassVar[bool] = False

    kernel: Kernel = "matern52"
    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 2

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise ValueError(f"restarts is {self.restarts}: give 0 for the one fit from the priors' modes, or more.")

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> "_ExactPosterior":
        """Fit the hyper-parameters (see Surrogate.fit). A fit takes well under a second, so ``start`` is not needed.

        Raises:
            ValueError: noise is "known" and the data state none, or no start gave a finite fit.
        """
        X, targets, noise = torch.tensor(data.X), torch.tensor(data.targets), self._noise(data)
        with seeded(rng):
            fits = [_fitted(_model(self.kernel, X, targets, noise), restart=i) for i in range(self.restarts + 1)]
        objective, model = max(fits, key=lambda fit: fit[0])
        if not math.isfinite(objective):
            raise ValueError(
                f"No hyper-parameters of the Gaussian process give a finite likelihood ({len(fits)} starts, {len(X)} "
                "trials): look for extreme readings, or raise restarts."
            )
        metrics = {"log_posterior": objective, **_hyperparameters(model)}
        posterior = _posterior(self.kernel, X, targets, noise, data.scaling, dict(model.named_parameters()), metrics)
        report(1, metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> "_ExactPosterior":
        """The posterior whose state this was (see Surrogate.restore)."""
        X, targets = torch.tensor(data.X), torch.tensor(data.targets)
        if not ("X" in state and torch.equal(state["X"], X) and torch.equal(state["targets"], targets)):
            raise ValueError(
                f"This state is not of a Gaussian process fitted to these {len(X)} trials: fit again, or restore with "
                "the data whose digest the model records."
            )
        parameters = {name.removeprefix(_PARAMETER): v for name, v in state.items() if name.startswith(_PARAMETER)}
        metrics = {name.removeprefix(_METRIC): float(v) for name, v in state.items() if name.startswith(_METRIC)}
        return _posterior(self.kernel, X, targets, state.get("noise"), data.scaling, parameters, metrics)

    def _noise(self, data: Observations) -> Tensor | None:
        if self.noise == "fitted":
            return None
        if data.noise_variance is None:
            raise ValueError(
                'noise is "known" but these observations state none: give the problem\'s noise, or "fitted".'
            )
        return torch.tensor(max(data.noise_variance, _LEAST_NOISE), dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class _ExactPosterior:
    """Posterior of an exact Gaussian process: a SingleTaskGP whose parameters are not touched again."""

    model: SingleTaskGP
    kernel: Kernel
    X: Tensor
    targets: Tensor
    noise: Tensor | None
    scaling: Scaling
    metrics: Mapping[str, float]

    @property
    def remarks(self) -> Mapping[str, str]:
        """None."""
        return {}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        # Each point is its own batch of one: marginals only, never an (n, n) covariance.
        posterior = self.model.posterior(_unit(X).unsqueeze(-2))
        return posterior.mean.reshape(len(X)), posterior.variance.clamp_min(0.0).reshape(len(X))

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule on random Fourier features (Wilson et al., 2020)."""
        with seeded(rng):
            return [_path(self.model) for _ in range(q)]

    def believe(self, X: Tensor) -> "_ExactPosterior":
        """Conditioned on X (k, d) having been read at the mean, with the noise of a reading."""
        with torch.no_grad():
            mean = self.mean_var(X)[0]
        inputs, targets = torch.cat([self.X, X.detach()]), torch.cat([self.targets, mean])
        parameters = dict(self.model.named_parameters())
        return _posterior(self.kernel, inputs, targets, self.noise, self.scaling, parameters, self.metrics)

    def state(self) -> dict[str, Tensor]:
        """Training data, known noise, hyper-parameters and metrics."""
        parameters = {_PARAMETER + name: value.detach().clone() for name, value in self.model.named_parameters()}
        metrics = {_METRIC + name: torch.tensor(value, dtype=torch.float64) for name, value in self.metrics.items()}
        noise = {} if self.noise is None else {"noise": self.noise.clone()}
        return {"X": self.X.clone(), "targets": self.targets.clone(), **noise, **parameters, **metrics}


def _unit(X: Tensor) -> Tensor:
    """Encoded [-1, 1] to [0, 1], where BoTorch's prior of the length scales is meant to live."""
    return (X + 1) / 2


def _path(model: SingleTaskGP) -> Function:
    """One function from the posterior, by torch's ambient generator."""
    path = draw_matheron_paths(model, sample_shape=torch.Size([1]))
    path.requires_grad_(False)
    return lambda X: path(_unit(X)).reshape(len(X))


def _model(kernel: Kernel, X: Tensor, targets: Tensor, noise: Tensor | None) -> SingleTaskGP:
    """A SingleTaskGP at its priors' modes, on X (n, d) and targets (n,), with known noise variance or None."""
    covariance = get_covar_module_with_dim_scaled_prior(ard_num_dims=X.shape[1], use_rbf_kernel=kernel == "rbf")
    Y = targets.unsqueeze(-1)
    with warnings.catch_warnings():
        # Few or believed targets are not exactly standardised; the scaling of all trials is the right one for them.
        warnings.simplefilter("ignore", InputDataWarning)
        return SingleTaskGP(
            _unit(X),
            Y,
            train_Yvar=None if noise is None else noise.expand_as(Y),
            covar_module=covariance,
            outcome_transform=None,
        )


def _fitted(model: SingleTaskGP, restart: int) -> tuple[float, SingleTaskGP]:
    """The model fitted from its priors' modes (restart 0) or from a draw, and the log posterior of its parameters.

    A fit that fails is worth minus infinity: the other starts decide.
    """
    if restart:
        sample_all_priors(model)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    try:
        fit_gpytorch_mll(mll)
    except ModelFittingError:
        return -math.inf, model
    model.train()
    with torch.no_grad():
        objective = float(mll(model(*model.train_inputs), model.train_targets)) * len(model.train_targets)
    model.eval()
    return (objective if math.isfinite(objective) else -math.inf), model


def _hyperparameters(model: SingleTaskGP) -> dict[str, float]:
    """Noise standard deviation of a target and length scales, in encoded coordinates."""
    scales = model.covar_module.lengthscale.detach().flatten()
    noise = float(model.likelihood.noise.detach().mean().sqrt())
    return {"noise_sd": noise} | {f"length_scale_{i}": 2 * float(value) for i, value in enumerate(scales)}


def _posterior(
    kernel: Kernel,
    X: Tensor,
    targets: Tensor,
    noise: Tensor | None,
    scaling: Scaling,
    parameters: Mapping[str, Tensor],
    metrics: Mapping[str, float],
) -> _ExactPosterior:
    """The posterior on given data at given hyper-parameters."""
    model = _model(kernel, X, targets, noise)
    expected = dict(model.named_parameters())
    if set(parameters) != set(expected) or any(parameters[name].shape != p.shape for name, p in expected.items()):
        raise ValueError(
            f"These hyper-parameters ({', '.join(sorted(parameters))}) are not those of this Gaussian process "
            f"({', '.join(sorted(expected))}): restore with the surrogate that fitted them."
        )
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(parameters[name])
    model.requires_grad_(False)
    return _ExactPosterior(model, kernel, X, targets, noise, scaling, metrics)
