"""Beliefs about an objective and about which designs are feasible, each from a surrogate of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.feasibility.bilog import Bilog
from fieldcraft.models.feasibility.classifier import log_success
from fieldcraft.models.numerics.batching import Moments, jointly, jointly_sloped
from fieldcraft.models.observations import Array, Observations, Scaling
from fieldcraft.models.surrogate import Function, Posterior, Slopes, coarse, means

LEAST_SD = 1e-9
"""Standard deviations of a constraint below this, in those of its results, count as this."""


class Successes(Protocol):
    """Beliefs about which designs give a result."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the fit."""
        ...

    @property
    def remarks(self) -> Mapping[str, str]:
        """Notes on how it was made."""
        ...

    def latent(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the latent function at X (n, d): success is likelier where it is positive."""
        ...

    def log_probability(self, X: Tensor) -> Tensor:
        """log p(success) at X (n, d), shape (n,), differentiable."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Its tensors by name."""
        ...


@dataclass(frozen=True, eq=False)
class Marginals:
    """Beliefs about feasibility at n points.

    Args:
        mean: Means of the noise-free g_k, zero where g_k = 0, shape (n, c).
        sd: Their standard deviations, shape (n, c).
        latent: Mean and variance of the classifier's latent function, each (n,); None where no design has failed.
    """

    mean: Tensor
    sd: Tensor
    latent: tuple[Tensor, Tensor] | None

    def log_feasible(self) -> Tensor:
        """See ``ConstrainedPosterior.log_feasible``."""
        total = torch.as_tensor(torch.special.log_ndtr(-self.mean / self.sd)).sum(dim=1)
        return total if self.latent is None else total + log_success(*self.latent)

    def lower(self, widths: float | Sequence[float]) -> Tensor:
        """See ``ConstrainedPosterior.lower_excess``."""
        c = self.mean.shape[1]
        granted = torch.as_tensor(widths, dtype=self.mean.dtype).expand(c + (self.latent is not None))
        lower = self.mean - granted[:c] * self.sd
        if self.latent is None:
            return lower
        latent, variance = self.latent
        return torch.cat([lower, -(latent + granted[-1] * variance.sqrt())[:, None]], dim=1)


@dataclass(frozen=True, eq=False)
class ConstrainedPosterior:
    """The objective's posterior, with beliefs about where the constraints g_k(x) <= 0 hold.

    Each constraint is measured in standard deviations of its own results, so that several can be
    added. Where its results span decades they were transformed before (``bilogs``), which keeps zero and the sign.

    Args:
        objective: Beliefs about the minimised objective.
        constraints: Beliefs about each g_k.
        hidden: Beliefs about which designs give a result at all; None if none has failed.
        kept: Its state.
        bilogs: The transform under which each constraint was learnt, None for none; empty for none at all.
    """

    objective: Posterior
    constraints: tuple[Posterior, ...]
    hidden: Successes | None
    kept: Mapping[str, Tensor]
    bilogs: tuple[Bilog | None, ...] = ()

    @property
    def of_objective(self) -> Posterior:
        """The objective's posterior."""
        return self.objective

    @property
    def scaling(self) -> Scaling:
        """Map between the objective's values and physical ones."""
        return self.objective.scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the objective, and those of the others with the prefix ``constraint1.`` ... or ``hidden.``."""
        return {**self.objective.metrics, **self._others("metrics")}

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the objective, and those of the others with the prefix ``constraint1.`` ... or ``hidden.``.

        ``constraint1.scale`` tells a transform.
        """
        bent = {
            f"constraint{k}.scale": f"logarithmic beyond {bilog.scale:.3g}, since its results span decades"
            for k, bilog in enumerate(self.bilogs, start=1)
            if bilog is not None
        }
        return {**self.objective.remarks, **self._others("remarks"), **bent}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free objective at X (n, d), in targets."""
        return self.objective.mean_var(X)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) of the objective at X (n, d) alone."""
        return means(self.objective, X)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions of the objective's posterior."""
        return self.objective.draw(q, rng)

    def fantasize(self, X: Tensor) -> "ConstrainedPosterior":
        """The posterior as if objective and constraints at X (k, d) were read at their means; success is unchanged."""
        believed = tuple(posterior.fantasize(X) for posterior in self.constraints)
        return replace(self, objective=self.objective.fantasize(X), constraints=believed)

    def state(self) -> dict[str, Tensor]:
        """The states of all parts."""
        return dict(self.kept)

    def excess(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (n, c) and standard deviations (n, c) of the noise-free g_k at X (n, d), zero where g_k = 0."""
        if not self.constraints:
            return X.new_zeros(len(X), 0), X.new_zeros(len(X), 0)
        means, variances = self._moments(X)
        return means.mT - self.zeros, variances.mT.clamp_min(LEAST_SD**2).sqrt()

    def in_units(self, x: Tensor) -> list[tuple[float, float]]:
        """Mean and standard deviation of each noise-free constraint at x (1, d), in its unit."""
        found = []
        for own, bilog in zip(self.constraints, self.bilogs or (None,) * len(self.constraints), strict=True):
            with torch.no_grad():
                mean, variance = own.mean_var(x)
            physical, sd = float(own.scaling.to_physical(float(mean[0]))), own.scaling.sd * float(variance[0].sqrt())
            found.append((physical, sd) if bilog is None else bilog.moments(physical, sd))
        return found

    def marginals(self, X: Tensor) -> Marginals:
        """All beliefs about feasibility at X (n, d)."""
        return Marginals(*self.excess(X), None if self.hidden is None else self.hidden.latent(X))

    def log_feasible(self, X: Tensor) -> Tensor:
        """Logarithm of the probability that all constraints hold at X (n, d) and that there is a result, shape (n,).

        sum_k log Phi(-mean_k / sd_k) (Gardner et al., 2014), which takes the constraints as independent.
        """
        return self.marginals(X).log_feasible()

    def lower_excess(self, X: Tensor, widths: float | Sequence[float]) -> Tensor:
        """Optimistic excesses at X (n, d); a point may be feasible if all are <= 0.

        mean_k - width_k sd_k of each constraint and, where designs have failed, -(mean + width sd) of the classifier's
        latent function with the last width; shape (n, c) or (n, c + 1).

        Args:
            X: Encoded points, shape (n, d).
            widths: Standard deviations that are subtracted, or added if < 0: one number, or one for each column.
        """
        return self.marginals(X).lower(widths)

    @cached_property
    def coarse(self) -> "ConstrainedPosterior":
        """The same beliefs, those about constraints in their coarse forms where they have them."""
        return replace(self, constraints=tuple(coarse(each) for each in self.constraints))

    @cached_property
    def slopes(self) -> Slopes | None:
        """The moments of the constraints with their gradients in closed form, (c, n) and (c, n, d).

        None if there is no constraint, or if one does not know them.
        """
        return jointly_sloped(self.constraints)

    @cached_property
    def all_slopes(self) -> Slopes | None:
        """The same as ``slopes``, for the objective and then the constraints."""
        return jointly_sloped((self.objective, *self.constraints))

    @property
    def columns(self) -> int:
        """Number of ways to be infeasible: the constraints, and failing if designs have failed."""
        return len(self.constraints) + (self.hidden is not None)

    def believed_feasible(self, X: Tensor) -> Tensor:
        """True at X (n, d) where every constraint's mean is <= 0 and success is at least even; shape (n,)."""
        with torch.no_grad():
            excess = [means(posterior, X) - zero for posterior, zero in zip(self.constraints, self.zeros, strict=True)]
            if self.hidden is not None:
                excess.append(-self.hidden.latent(X)[0])
            return (torch.stack(excess) <= 0).all(dim=0) if excess else torch.ones(len(X), dtype=torch.bool)

    def read_feasible(self, X: Tensor) -> Tensor:
        """True at X (n, d), designs that did give a result, where every constraint's mean is <= 0; shape (n,)."""
        return replace(self, hidden=None).believed_feasible(X)

    def trials_feasible(self, data: Observations) -> Tensor:
        """True for each trial that meets every constraint, shape (n,): by its results, or by ``read_feasible``.

        Results of constraints that are exact are facts, whatever noise those of the objective have. The mean of a
        constraint that jumps, or stays at zero where it is met, lies on either side of zero there. A trial that states
        the standard deviation of a constraint's result is believed.
        """
        if not (data.exact or data.exact_constraints):
            return self.read_feasible(torch.tensor(data.X))
        facts = torch.from_numpy((data.constraints <= 0).all(axis=1))
        stated = data.sds[:, max(len(data.aims), 1) :] > 0
        if not stated.any():
            return facts
        return facts.where(torch.from_numpy(~stated.any(axis=1)), self.read_feasible(torch.tensor(data.X)))

    @cached_property
    def _moments(self) -> Moments:
        """Moments of the constraints, (c, n)."""
        return jointly(self.constraints)

    @cached_property
    def zeros(self) -> Tensor:
        """The target of each constraint at which it is zero, shape (c,)."""
        zeros = [float(posterior.scaling.to_target(0.0)) for posterior in self.constraints]
        return torch.tensor(zeros, dtype=torch.float64)

    def _others(self, attribute: str) -> dict[str, Any]:
        named = {f"constraint{k}": posterior for k, posterior in enumerate(self.constraints, start=1)}
        parts = named if self.hidden is None else {**named, "hidden": self.hidden}
        return {f"{part}.{name}": value for part, of in parts.items() for name, value in getattr(of, attribute).items()}


def chances(beliefs: Posterior, X: Array) -> Tensor | None:
    """Probability at X (n, d) that all unknown constraints hold and there is a result, shape (n,); None without any."""
    if not isinstance(beliefs, ConstrainedPosterior) or not beliefs.columns:
        return None
    with torch.no_grad():
        return beliefs.log_feasible(torch.as_tensor(X)).exp()


def about_objective(beliefs: Posterior) -> Posterior:
    """Beliefs about the objective, taken out of beliefs under unknown constraints; others are returned unchanged."""
    return beliefs.objective if isinstance(beliefs, ConstrainedPosterior) else beliefs
