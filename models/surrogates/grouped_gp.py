"""Gaussian process that is a sum over disjoint groups of variables (Kandasamy, Schneider and Poczos, 2015)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.grouped_kernel import GroupedKernel, Groups, by_columns, constant, fit_groups
from fieldcraft.models.gaussian.grouped_process import GroupedPosterior, membership
from fieldcraft.models.gaussian.summed_process import SummedGP, refuse_other_state
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Report
from fieldcraft.physics.space import SearchSpace

# Matrices of the covariance's size, one a coordinate or group, that are alive at once in a step of the fit.
_COPIES = 8


@dataclass(frozen=True, kw_only=True)
class GroupedGP(SummedGP):
    """Constant plus one process for each group of variables, each with its own size and length scales.

    For an objective that is a sum of functions of few variables each: n results then inform each of these functions,
    and the acquisition add_ucb is maximised group by group, whatever the number of variables. There is no interaction
    between groups; if there may be one, additive_gp learns its size.

    Args:
        kernel: "matern52" (Matern, smoothness 5/2), "matern32", "matern12" (rougher functions: 3/2 and 1/2) or "rbf"
            (squared exponential), of every group.
        groups: Groups of names of variables. A variable that is not named is a group of its own; a categorical one
            or an image is in its group with all its coordinates.

    Raises:
        ValueError: an option is out of range (see ``SummedGP`` for the others).
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.GROUPED})

    kernel: Kernel = "matern52"
    groups: tuple[tuple[str, ...], ...] = ()

    def columns(self, space: SearchSpace) -> Groups:
        """The encoded coordinates of each group in a space.

        Raises:
            ValueError: a group is empty, or names a variable that the space lacks or that is in two groups.
        """
        return by_columns(space.names, list(space.columns.values()), self.groups)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> GroupedPosterior:
        """Fit the hyper-parameters (see Surrogate.fit). A fit takes seconds at most, so ``start`` is not needed.

        Raises:
            ValueError: the groups are not of these data's variables, noise is "known" and the data state none, no
                start gave a finite fit, or the fit would need more than ``memory_gb``.
        """
        groups = self._of(data)
        n, size = len(data), len(groups) + data.X.shape[1] + 1
        what = f"A process of {n} trials in {len(groups)} groups of variables"
        refuse_memory(_COPIES * size * n**2, self.memory_gb, what, "use surrogate exact_gp")
        starts, noise = self.starts(size, rng), self.known_noise(data)
        kernel, density = fit_groups(data.X, data.targets, self.kernel, groups, noise, starts)
        posterior = _posterior(kernel, data, density)
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> GroupedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_state(state, data)
        groups = self._of(data)
        if "groups" not in state or not torch.equal(state["groups"], membership(groups)):
            raise ValueError(
                f"This state is not of the groups {list(map(list, groups))} of coordinates: fit again, or restore with "
                "the surrogate that fitted it."
            )
        kernel = GroupedKernel.of(self.kernel, groups, state["hyperparameters"].numpy())
        return _posterior(kernel, data, float(state["log_posterior"]))

    def _of(self, data: Observations) -> Groups:
        columns = data.columns or {f"x{j}": slice(j, j + 1) for j in range(data.X.shape[1])}
        return by_columns(list(columns), list(columns.values()), self.groups)


def _posterior(kernel: GroupedKernel, data: Observations, density: float) -> GroupedPosterior:
    X, targets = torch.tensor(data.X), torch.tensor(data.targets)
    factor = Factor.of(kernel(X, X), kernel.noise)
    return GroupedPosterior(kernel, X, targets, factor, density, data.scaling, constant(factor, targets))
