"""Random forest (Breiman, 2001), grown by scikit-learn, with the mean and variance of SMAC (Hutter et al., 2014)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

from fieldcraft.models.networks.members import MembersPosterior
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import Report

# Noise variance of a believed result where it is not known, in squared target units.
_NOISE = 0.01


@dataclass(frozen=True)
class RandomForest:
    """Mean over the trees; variance within their leaves plus variance between their means.

    Its functions are piecewise constant: their gradients are zero, so a maximizer's gradient steps do not move and the
    best of its samples is chosen. A draw is one tree.

    Args:
        trees: Number of trees, >= 2; at least the batch size.
        leaf: Least number of trials in a leaf, >= 1; with 1 there is no variance within leaves.
        share: Share of the coordinates, in (0, 1], among which each split chooses.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False

    trees: int = 64
    leaf: int = 3
    share: float = 5 / 6

    def __post_init__(self) -> None:
        if self.trees < 2 or self.leaf < 1:
            raise ValueError(f"trees is {self.trees} and leaf is {self.leaf}: give at least 2 trees and a leaf of 1.")
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}: give a share of the coordinates above 0 and at most 1.")

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> MembersPosterior:
        """Grow the trees (see Surrogate.fit). A fit takes a fraction of a second, so ``start`` is not needed."""
        forest = RandomForestRegressor(
            self.trees,
            min_samples_leaf=self.leaf,
            max_features=self.share,
            random_state=int(rng.integers(2**31 - 1)),
        ).fit(data.X, data.targets)
        made = self.restore(data, {**stamped(data), **_tensors([tree.tree_ for tree in forest.estimators_])})
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> MembersPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        nodes = _Nodes(*(state[name] for name in _COLUMNS))
        misfit = nodes.values(torch.tensor(data.X)).mean(0) - torch.tensor(data.targets)
        known = data.noise_variance
        return MembersPosterior(
            members=nodes.values,
            within=lambda X: nodes.variances(X).mean(0),
            transform=torch.eye(len(nodes.value), dtype=torch.float64),
            divisor=len(nodes.value),
            noise=_NOISE if known is None else max(known, 1e-6),
            scaling=data.scaling,
            metrics={"misfit": float(misfit.square().mean().sqrt()), "leaves": float((nodes.left < 0).sum(1).max())},
            kept=state,
        )


@dataclass(frozen=True, eq=False)
class _Nodes:
    """All trees as arrays, shape (trees, nodes), padded with unreachable leaves.

    Args:
        feature: Coordinate that a node splits.
        threshold: Points at most this go left.
        left: Number of the left child; -1 in a leaf.
        right: Number of the right child.
        value: Mean target of the trials in a node, as often as the tree drew them.
        variance: Their variance.
    """

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    variance: Tensor

    def values(self, X: Tensor) -> Tensor:
        """Each tree's mean at X (n, d), shape (trees, n); its gradient is zero."""
        return self.value.gather(1, self._leaves(X)) + 0.0 * X.sum(1)

    def variances(self, X: Tensor) -> Tensor:
        """Variance within each tree's leaf at X (n, d), shape (trees, n)."""
        return self.variance.gather(1, self._leaves(X))

    def _leaves(self, X: Tensor) -> Tensor:
        # The trees were grown on float32 coordinates, and a point on a threshold must go the same way here.
        coordinates = X.detach().to(torch.float32).to(torch.float64).mT
        at = torch.zeros(len(self.value), len(X), dtype=torch.long)
        columns = torch.arange(len(X)).expand_as(at)
        while bool((inner := self.left.gather(1, at) >= 0).any()):
            here = coordinates[self.feature.gather(1, at), columns]
            lower = here <= self.threshold.gather(1, at)
            child = torch.where(lower, self.left.gather(1, at), self.right.gather(1, at))
            at = torch.where(inner, child, at)
        return at


_COLUMNS = ("feature", "threshold", "left", "right", "value", "variance")


def _tensors(trees: list[Any]) -> dict[str, Tensor]:
    """The arrays of scikit-learn's trees, padded to one length."""
    size = max(tree.node_count for tree in trees)

    def padded(arrays: list[Array], fill: float) -> Tensor:
        return torch.from_numpy(np.stack([np.pad(a, (0, size - len(a)), constant_values=fill) for a in arrays]))

    return {
        "feature": padded([np.maximum(tree.feature, 0) for tree in trees], 0),
        "threshold": padded([tree.threshold for tree in trees], 0.0),
        "left": padded([tree.children_left for tree in trees], -1),
        "right": padded([tree.children_right for tree in trees], -1),
        "value": padded([tree.value[:, 0, 0] for tree in trees], 0.0),
        "variance": padded([np.maximum(tree.impurity, 0.0) for tree in trees], 0.0),
    }
