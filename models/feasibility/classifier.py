"""Classifier of hidden constraints: the probability that a design gives a result, learnt from successes and failures.

A Gaussian-process classifier with the probit likelihood, p(success at x | f) = Phi(f(x)), by Laplace's approximation
(Rasmussen and Williams, 2006, section 3.4):

    f ~ GP(m, s^2 k),  k Matern 5/2 with one length scale a coordinate,  p(success at x) = Phi(E f / sqrt(1 + Var f)).

Some dozens of trials hold little information on m, s and the length scales, one bit each at most, so the priors matter.
m = c sqrt(1 + s^2) with c ~ N(0, 1) makes the share of successes before any data, Phi(c), uniform: Laplace's rule of
succession, by which n successes and no failure do not make a failure impossible. The length scales have BoTorch's
dimension-scaled prior (Hvarfner et al., 2024), and s stays near 2 until the trials show otherwise.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.feasibility.laplace import Laplace
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.length_scales import STATIONARY_SD, encoded_mean
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array

_METRIC = "metric."
# Prior of a length scale over the unit cube: lognormal with this median times sqrt(d) and this spread.
# Prior of log s. A wider one lets a few dozen trials claim a sharp boundary, and their predictions become too sure.
_OUTPUT_MEAN, _OUTPUT_SD = math.log(2.0), 0.35
_SCALES = (math.log(0.05), math.log(100.0))
_OUTPUTS = (math.log(0.05), math.log(50.0))
_LEVELS = (-6.0, 6.0)
_ITERATIONS = 100
# What L-BFGS-B is told where the mode cannot be found: it then shortens its step.
_REFUSED = 1e12


@dataclass(frozen=True, eq=False)
class Attempts:
    """Designs that were tried, each with its success or failure, in sorted order.

    Rows are sorted, so that the result does not depend on the order of the trials, to the last bit. A design may occur
    twice, and with both outcomes.

    Args:
        X: Encoded designs, shape (n, d), n >= 1.
        succeeded: True for each that gave a result, shape (n,).

    Raises:
        ValueError: no attempt, shapes disagree, or a coordinate is not finite.
    """

    X: Array
    succeeded: NDArray[np.bool_]

    def __post_init__(self) -> None:
        X, succeeded = np.array(self.X, dtype=np.float64) + 0.0, np.array(self.succeeded, dtype=np.bool_)
        if X.ndim != 2 or X.size == 0 or succeeded.shape != (len(X),):
            raise ValueError(
                f"X {X.shape} and succeeded {succeeded.shape} do not fit: give X (n, d) and succeeded (n,) with at "
                "least one attempt."
            )
        if not np.isfinite(X).all():
            raise ValueError(
                f"X holds {X[~np.isfinite(X)][0]}: every coordinate must be finite; encode the designs with "
                "SearchSpace.encode."
            )
        order = np.lexsort((succeeded, *X.T[::-1]))
        object.__setattr__(self, "X", X[order])
        object.__setattr__(self, "succeeded", succeeded[order])

    def __len__(self) -> int:
        return len(self.succeeded)

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the designs and outcomes, whatever their order was."""
        sha = hashlib.sha256(f"fieldcraft.attempts.1{self.X.shape}".encode())
        sha.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        sha.update(self.succeeded.astype("u1").tobytes())
        return sha.hexdigest()

    def some(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows (n,) drawn at random, classes in proportion and both present; all rows if there are no more."""
        if len(self) <= n:
            return np.arange(len(self))
        good, bad = (rng.permutation(np.flatnonzero(self.succeeded == outcome)) for outcome in (True, False))
        share = round(n * len(bad) / len(self))
        n_bad = min(max(share, min(len(bad), 1)), n - min(len(good), 1))
        return np.sort(np.concatenate([bad[:n_bad], good[: n - n_bad]]))

    def tensors(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Designs (k, d) of some rows (k,), and +1 for each success and -1 for each failure (k,)."""
        return torch.tensor(self.X[rows]), torch.tensor(np.where(self.succeeded[rows], 1.0, -1.0))


@dataclass(frozen=True)
class Latent:
    """The prior of the latent function f.

    Args:
        scales: Length scales in encoded coordinates, shape (d,).
        output: s^2, prior variance of f.
        constant: m, prior mean of f.
    """

    scales: Tensor
    output: float
    constant: float

    @classmethod
    def of(cls, flat: Array) -> "Latent":
        """Prior from (log l_1, ..., log l_d, log s, c), shape (d + 2,)."""
        output = math.exp(2 * flat[-2])
        return cls(torch.tensor(flat[:-2]).exp(), output, float(flat[-1]) * math.sqrt(1 + output))

    def kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """Prior covariance of f at A (a, d) and B (b, d), shape (a, b), differentiable."""
        root = math.sqrt(5) * self._distance(A, B)
        return self.output * (1 + root + root.square() / 3) * (-root).exp()

    def kernel_slope(self, X: Tensor, weights: Tensor) -> Tensor:
        """Derivatives (d,) by log l of the sum of ``weights`` (n, n), symmetric, times kernel(X, X)."""
        root = math.sqrt(5) * self._distance(X, X)
        inner = weights * (5 / 3 * self.output) * (1 + root) * (-root).exp()
        Z = X / self.scales
        # sum_ij M_ij (z_i - z_j)^2 for a symmetric M, coordinate by coordinate.
        return 2 * (inner.sum(1) @ Z.square() - (Z * (inner @ Z)).sum(0))

    def _distance(self, A: Tensor, B: Tensor) -> Tensor:
        A, B = A / self.scales, B / self.scales
        square = A.square().sum(1)[:, None] + B.square().sum(1) - 2 * A @ B.mT
        # A square root of zero has no derivative, and Matern 5/2 has the derivative zero there.
        return square.clamp_min(1e-30).sqrt()


def log_success(mean: Tensor, variance: Tensor) -> Tensor:
    """log p(success) = log Phi(mean / sqrt(1 + variance)) of latent moments (n,), shape (n,).

    The likelihood averaged over the latent value's normal distribution, in closed form (R&W eq. 3.82).
    """
    logarithm: Tensor = torch.special.log_ndtr(mean / (1 + variance).sqrt())
    return logarithm


@dataclass(frozen=True, eq=False)
class FeasibilityPosterior:
    """Beliefs about the success of designs; immutable.

    Args:
        latent_prior: Prior of the latent function.
        X: Encoded designs it was conditioned on, shape (n, d).
        approximation: Laplace's approximation at its mode.
        metrics: Log evidence, log posterior density of the hyper-parameters, hyper-parameters.
        remarks: Notes on how it was made.
        kept: The state.
    """

    latent_prior: Latent
    X: Tensor
    approximation: Laplace
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]
    kept: Mapping[str, Tensor]

    def latent(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) >= 0 of the latent function at encoded X (n, d), differentiable.

        A success is the likelier outcome where the mean is positive.
        """
        prior = torch.full((len(X),), self.latent_prior.output, dtype=X.dtype)
        mean, variance = self.approximation.predict(prior, self.latent_prior.kernel(self.X, X))
        return self.latent_prior.constant + mean, variance

    def log_probability(self, X: Tensor) -> Tensor:
        """log p(success) at encoded X (n, d), shape (n,), differentiable."""
        return log_success(*self.latent(X))

    def state(self) -> dict[str, Tensor]:
        """Hyper-parameters, mode, metrics and the digest of the attempts."""
        return {name: value.clone() for name, value in self.kept.items()}


@dataclass(frozen=True)
class FeasibilityGP:
    """Gaussian-process classifier of success and failure.

    The hyper-parameters maximise Laplace's approximation of the marginal likelihood times weak priors. Above
    ``n_fitted`` attempts they are fitted to that many of them, and above ``n_exact`` so is the classifier itself: drawn
    at random, with successes and failures in proportion. ``remarks`` states either. Laplace's approximation
    overestimates the uncertainty: after a hundred successes and no failure it still expects one failure in sixteen.

    Args:
        restarts: Searches from hyper-parameters drawn from their priors, beside the one from the priors' middle.
        n_fitted: Attempts up to which all of them fit the hyper-parameters, at O(n^3) a step.
        n_exact: Attempts up to which the classifier uses all of them.

    Raises:
        ValueError: a number is out of its range.
    """

    restarts: int = 2
    n_fitted: int = 500
    n_exact: int = 2000

    def __post_init__(self) -> None:
        for name, least in (("restarts", 0), ("n_fitted", 2), ("n_exact", 2)):
            refuse_below(name, getattr(self, name), least)

    def fit(self, X: Array, succeeded: NDArray[np.bool_], rng: np.random.Generator) -> FeasibilityPosterior:
        """Fit to encoded designs X (n, d) and their outcomes (n,); independent of the order of the rows.

        Args:
            X: Shape (n, d), n >= 1.
            succeeded: True for each that gave a result; all of them may, or none.
            rng: The only source of randomness.

        Raises:
            ValueError: the arrays do not fit, or no hyper-parameters have a finite evidence.
        """
        tried = Attempts(X, succeeded)
        flat, log_posterior = _chosen(*tried.tensors(tried.some(self.n_fitted, rng)), self.restarts, rng)
        rows = tried.some(self.n_exact, rng)
        designs, signs = tried.tensors(rows)
        prior = Latent.of(flat)
        mode = Laplace.mode(prior.kernel(designs, designs), prior.constant, signs)
        state = {
            **stamped(tried),
            "rows": torch.tensor(rows),
            "hyperparameters": torch.tensor(flat),
            "weights": mode.weights,
            "log_posterior": torch.tensor(log_posterior, dtype=torch.float64),
        }
        return self._posterior(tried, state)

    def restore(self, X: Array, succeeded: NDArray[np.bool_], state: Mapping[str, Tensor]) -> FeasibilityPosterior:
        """The posterior whose state this was, for the attempts it was fitted to: identical to the bit.

        Raises:
            ValueError: the state belongs to other attempts.
        """
        tried = Attempts(X, succeeded)
        refuse_other_data(tried, state)
        return self._posterior(tried, state)

    def _posterior(self, tried: Attempts, state: Mapping[str, Tensor]) -> FeasibilityPosterior:
        prior = Latent.of(state["hyperparameters"].numpy())
        designs, signs = tried.tensors(state["rows"].numpy())
        covariance = prior.kernel(designs, designs)
        approximation = Laplace.at(covariance, prior.constant, signs, state["weights"])
        metrics = {
            "log_evidence": approximation.log_evidence(),
            "log_posterior": float(state["log_posterior"]),
            "output_sd": math.sqrt(prior.output),
            "constant": prior.constant,
            **{f"length_scale_{i}": float(scale) for i, scale in enumerate(prior.scales)},
        }
        return FeasibilityPosterior(prior, designs, approximation, metrics, self._remarks(len(tried)), dict(state))

    def _remarks(self, n: int) -> dict[str, str]:
        remarks = {}
        if n > self.n_fitted:
            remarks["hyperparameters"] = f"from {self.n_fitted} of {n} attempts"
        if n > self.n_exact:
            remarks["attempts"] = f"{self.n_exact} of {n} are learnt from, successes and failures in proportion"
        return remarks


def log_prior(flat: Array) -> tuple[float, Array]:
    """Log density of (log l, log s, c), up to a constant, and its gradient, both (d + 2,) long.

    As in BoTorch it is the density of the length scales, not of their logarithms, that is maximised.
    """
    d = len(flat) - 2
    away = (flat[:d] - encoded_mean(d)) / STATIONARY_SD
    output = (flat[-2] - _OUTPUT_MEAN) / _OUTPUT_SD
    value = -0.5 * (away @ away + output**2 + flat[-1] ** 2) - flat[:d].sum()
    return float(value), np.concatenate([-away / STATIONARY_SD - 1, [-output / _OUTPUT_SD, -flat[-1]]])


def log_evidence(X: Tensor, signs: Tensor, flat: Array) -> tuple[float, Array]:
    """Laplace's log marginal likelihood of the signs (n,) at X (n, d), and its gradient by (log l, log s, c).

    Args:
        X: Encoded designs.
        signs: +1 or -1 each.
        flat: Shape (d + 2,).

    Raises:
        ValueError: the mode was not found.
    """
    prior = Latent.of(flat)
    K = prior.kernel(X, X)
    mode = Laplace.mode(K, prior.constant, signs)
    by_kernel, by_constant = mode.evidence_slope(K)
    total = math.sqrt(1 + prior.output)
    by_output = 2 * float((by_kernel * K).sum()) + by_constant * float(flat[-1]) * prior.output / total
    slope = np.append(prior.kernel_slope(X, by_kernel).numpy(), [by_output, by_constant * total])
    return mode.log_evidence(), slope


def _chosen(X: Tensor, signs: Tensor, restarts: int, rng: np.random.Generator) -> tuple[Array, float]:
    """The hyper-parameters (d + 2,) of largest posterior density over the starts, and its logarithm."""
    d = X.shape[1]
    bounds = [_SCALES] * d + [_OUTPUTS, _LEVELS]

    def negative(flat: Array) -> tuple[float, Array]:
        try:
            evidence, slope = log_evidence(X, signs, flat)
        except ValueError:
            return _REFUSED, np.zeros_like(flat)
        belief, pull = log_prior(flat)
        return -evidence - belief, -slope - pull

    options = {"maxiter": _ITERATIONS, "ftol": 1e-10, "gtol": 1e-6}
    results = [
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for start in _starts(d, restarts, rng, bounds)
    ]
    best = min(results, key=lambda result: float(result.fun))
    if best.fun >= _REFUSED:
        raise ValueError(
            f"No hyper-parameters of the classifier give a finite evidence ({len(results)} starts, {len(X)} attempts): "
            "look for designs that are far outside [-1, 1]."
        )
    return np.asarray(best.x), -float(best.fun)


def _starts(d: int, restarts: int, rng: np.random.Generator, bounds: list[tuple[float, float]]) -> list[Array]:
    """Starts (d + 2,): the priors' modes, and draws from the priors within the bounds."""
    middle = np.array([encoded_mean(d)] * d + [_OUTPUT_MEAN, 0.0])
    spread = np.array([STATIONARY_SD] * d + [_OUTPUT_SD, 1.0])
    modes = middle - np.array([STATIONARY_SD**2] * d + [0.0, 0.0])
    drawn = [middle + spread * rng.standard_normal(d + 2) for _ in range(restarts)]
    low, high = np.array(bounds).T
    return [np.clip(start, low, high) for start in (modes, *drawn)]
