"""Posterior of a surrogate whose members each predict: networks of an ensemble, trees of a forest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.observations import Scaling
from fieldcraft.models.surrogate import Function


@dataclass(frozen=True, eq=False)
class MembersPosterior:
    """Mean over k members, and the covariance of their deviations from it.

    With values v (k, n) of mean m, deviations D = transform^T (v - m) and the variance sum_k D^2 / divisor + within.

    Args:
        members: Function from encoded points (n, d) to each member's value, shape (k, n).
        transform: Shape (k, k), the identity before any point is believed.
        divisor: k - 1 for members that are draws, k for members of a mixture, infinite for a point estimate.
        noise: Variance of a result that is believed, in squared target units, positive.
        scaling: Map between targets and results.
        metrics: Metrics of the fit.
        kept: Its state.
        within: Variance that each point has within its members, shape (n,); None for none. Conditioning does not change
            it.
    """

    members: Function
    transform: Tensor
    divisor: float
    noise: float
    scaling: Scaling
    metrics: Mapping[str, float]
    kept: Mapping[str, Tensor]
    within: Function | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)

    def _spread(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and deviations (k, n) at X (n, d)."""
        values = self.members(X)
        mean = values.mean(0)
        return mean, self.transform.mT @ (values - mean)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) at X (n, d)."""
        mean, deviations = self._spread(X)
        variance = deviations.square().sum(0) / self.divisor
        return mean, variance if self.within is None else variance + self.within(X)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q different members, chosen at random.

        Raises:
            ValueError: there are fewer members than q.
        """
        k = len(self.transform)
        if q > k:
            raise ValueError(
                f"{q} draws were asked of {k} members: raise the surrogate's number of them to the batch size or more."
            )
        return [self._member(int(i)) for i in rng.permutation(k)[:q]]

    def _member(self, i: int) -> Function:
        def function(X: Tensor) -> Tensor:
            mean, deviations = self._spread(X)
            return mean + deviations[i]

        return function

    def fantasize(self, X: Tensor) -> Self:
        """Posterior given results at X (m, d) equal to the mean, by the ensemble transform (Bishop et al., 2001).

        With S = D(X) / sqrt(divisor) the deviations are multiplied by (I + S S^T / noise)^(-1/2), which keeps their
        mean at zero and gives the covariance of the Gaussian that the members span, conditioned.
        """
        if len(X) == 0 or math.isinf(self.divisor):
            return self
        with torch.no_grad():
            scaled = self._spread(X)[1] / math.sqrt(self.divisor * self.noise)
            values, vectors = torch.linalg.eigh(scaled @ scaled.mT)
            shrink = (vectors / (1 + values.clamp_min(0.0)).sqrt()) @ vectors.mT
        return replace(self, transform=self.transform @ shrink)

    def state(self) -> dict[str, Tensor]:
        """State from which its surrogate restores it."""
        return dict(self.kept)
