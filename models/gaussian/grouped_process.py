"""Posterior of a constant and one function of each group of coordinates, and of each of these functions.

With A = (sum_g K_g + N)^-1 over all results, the term f_g has the mean k_g^T A (y - constant) and the variance
a_g^2 - k_g^T A k_g, k_g its own covariance with the results (Kandasamy, Schneider and Poczos, 2015, section 3.1).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.gaussian.grouped_kernel import GroupedKernel, Groups
from fieldcraft.models.gaussian.process import ExactPosterior, Fit, exact_process
from fieldcraft.models.gaussian.summed_process import SummedPosterior
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True, eq=False)
class Part:
    """One term f_g given results of the sum, in the form of a process of prior variance 1.

    Its mean is that of f_g and its standard deviation that of f_g divided by a_g: k^T B r and sqrt(1 - k^T B k), with k
    the kernel of variance 1, B = a_g^2 A and r the targets less the constant of the whole.

    Args:
        fit: Kernel, coordinates of the group (n, d_g) and r (n,).
        length_scales: Shape (d_g,), encoded.
        factor: Of the inverse of B.
        size: a_g.
        noise_variance: Of a result, divided by a_g^2.
        constant: Number added to the mean: 0.
    """

    fit: Fit
    length_scales: Tensor
    factor: Factor
    size: float
    noise_variance: float
    constant: float = 0.0

    @property
    def noises(self) -> float | Tensor:
        """Variance of a result, divided by a_g^2."""
        return self.noise_variance

    @cached_property
    def weights(self) -> Tensor:
        """B r, shape (n,)."""
        return self.factor.solve(self.fit.targets)


@dataclass(frozen=True, eq=False)
class GroupedPosterior(SummedPosterior):
    """Posterior of the constant and the sum."""

    kernel: GroupedKernel

    @property
    def groups(self) -> Groups:
        """The encoded coordinates of each group."""
        return self.kernel.groups

    @property
    def metrics(self) -> Mapping[str, float]:
        """Log posterior density, noise and constant, each group's prior standard deviation, and the length scales."""
        kernel = self.kernel
        sizes = {f"size_{g}": math.exp(0.5 * value) for g, value in enumerate(kernel.sizes.tolist())}
        scales = {f"length_scale_{j}": math.exp(value) for j, value in enumerate(kernel.scales.tolist())}
        own = {"log_posterior": self.density, "noise_sd": math.sqrt(kernel.noise), "constant": self.constant}
        return own | sizes | scales

    def parts(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (g, n) and variance (g, n) of each term at X (n, d); the means and the constant sum to the whole mean.

        The variances do not sum to that of the whole, because the terms are correlated given the results.
        """
        found = [self._moments(group, X) for group in range(len(self.groups))]
        return torch.stack([mean for mean, _ in found]), torch.stack([variance for _, variance in found])

    def _moments(self, group: int, X: Tensor) -> tuple[Tensor, Tensor]:
        cross = self.kernel.part(group, self.X, X)
        prior = self.kernel.variances[group].expand(len(X))
        return self._weights @ cross, self.factor.variance(prior, cross)

    @cached_property
    def terms(self) -> tuple[Part, ...]:
        """Terms of the sum, each as a process of its own."""
        return tuple(map(self._term, range(len(self.groups))))

    def _term(self, group: int) -> Part:
        columns, size = list(self.groups[group]), math.exp(0.5 * float(self.kernel.sizes[group]))
        fit = Fit(self.kernel.kind, self.X[:, columns], self.targets - self.constant, None, {}, {})
        factor = Factor(self.factor.lower / size)
        return Part(fit, self.kernel.scales[columns].exp(), factor, size, self.kernel.noise / size**2)

    def state(self) -> dict[str, Tensor]:
        """Training data, the group of each coordinate, hyper-parameters and their log posterior density."""
        return super().state() | {"groups": membership(self.groups)}


UnitProcess = ExactPosterior | Part
"""A process of prior variance 1."""


def membership(groups: Groups) -> Tensor:
    """The group of each coordinate, shape (d,)."""
    found = torch.empty(sum(map(len, groups)), dtype=torch.float64)
    for number, columns in enumerate(groups):
        found[list(columns)] = number
    return found


def grouped_process(beliefs: Posterior, who: str, instead: str) -> GroupedPosterior:
    """The beliefs, if they are a sum over groups as ``who`` requires; else an error that suggests ``instead``.

    Under unknown constraints, these are the beliefs about the objective.

    Raises:
        ValueError: they are another posterior.
    """
    beliefs = about_objective(beliefs)
    if not isinstance(beliefs, GroupedPosterior):
        raise ValueError(
            f"The {who} needs a sum of functions of groups of variables, and the posterior is a "
            f"{type(beliefs).__name__}: use the surrogate grouped_gp, or `{instead}`, which takes any."
        )
    return beliefs


def unit_process(beliefs: Posterior, who: str, instead: str) -> UnitProcess:
    """A process of prior variance 1: a term of a sum, or what ``exact_process`` accepts.

    Raises:
        ValueError: they are another posterior.
    """
    return beliefs if isinstance(beliefs, Part) else exact_process(beliefs, who, instead)
