"""Posterior draws of a model linear in its weights as directions in weight space.

With rows Phi, noise N and prior v ~ N(0, I), one exact posterior sample is, by Matheron's rule,

    v = v_0 + Phi^T (K + N)^-1 (y - Phi v_0 - eps),    v_0 ~ N(0, I), eps ~ N(0, N)

and its value at x is the directional derivative <phi(x), v>: O(p) a candidate whatever n, differentiable in x
(methods.md section 0). With eps = 0 it is the minimiser of the ridge loss from v_0 (sample-then-optimise), whose
covariance is smaller than the posterior's by k(x, X) (K + N)^-1 N (K + N)^-1 k(X, x').
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor, Primal, smaller_side
from fieldcraft.models.surrogate import Function
from fieldcraft.models.tangent.features import Passes, combine, diagonal, explicit, gram, project, stacked

ROWS = 256
"""Points of one block: the arrays of a pass then stay in the cache."""


@dataclass(frozen=True)
class Regression:
    """The linear model theta ~ N(0, I), y = Phi theta + noise, conditioned on rows on the smaller side.

    Args:
        rows: Phi, layer by layer.
        side: Factor of K + N (n <= p), or the primal one (n > p).
    """

    rows: Passes
    side: Factor | Primal

    @classmethod
    def of(cls, rows: Passes, noise: float | Tensor) -> "Regression":
        """Condition on n rows of one network with noise variance > 0, a number or (n,).

        Raises:
            ValueError: the matrix is not positive definite.
        """
        n = rows.layers[-1].inputs.shape[-3]
        if smaller_side(n, rows.size) == "dual":
            return cls(rows, Factor.of(gram(rows, rows), noise))
        return cls(rows, Primal.of(explicit(rows), noise))

    @classmethod
    def stacked(cls, parts: "Sequence[Regression]") -> "Regression":
        """One regression for c regressions on equally many rows of networks of one shape, on the same side."""
        kind = type(parts[0].side)
        names = [field.name for field in fields(kind)]
        side = kind(**{name: torch.stack([getattr(each.side, name) for each in parts]) for name in names})
        return cls(stacked([each.rows for each in parts]), side)

    def append(self, rows: Passes, noise: float | Tensor) -> "Regression":
        """Regression with k more rows of noise variance ``noise``, on the same side, in O(k n^2) or O(k p^2 + p^3).

        Raises:
            ValueError: the extended matrix is not positive definite.
        """
        together = _joined(self.rows, rows)
        if isinstance(self.side, Primal):
            return Regression(together, self.side.append(explicit(rows), noise))
        corner = gram(rows, rows)
        corner.diagonal().add_(noise)
        return Regression(together, self.side.append(gram(rows, self.rows), corner))

    def variance(self, rows: Passes) -> Tensor:
        """Posterior variance of the noise-free value at n other rows, shape (..., n)."""
        if isinstance(self.side, Primal):
            return self.side.variance(explicit(rows))
        return self.side.variance(diagonal(rows), gram(self.rows, rows))

    def direction(self, y: Tensor) -> Tensor:
        """The posterior mean of theta, Phi^T (K + N)^-1 y, shape (p,), for y (n,)."""
        return combine(self.rows, self.side.solve(y))

    def draws(self, y: Tensor, start: Tensor, eps: Tensor) -> Tensor:
        """One posterior sample of theta for each start, shape (q, p).

        Args:
            y: Targets, shape (n,).
            start: Prior samples v_0, shape (q, p).
            eps: Samples of the noise, shape (q, n); zeros give the ridge minimiser from each start.
        """
        missed = y - project(self.rows, start) - eps
        return start + combine(self.rows, torch.stack([self.side.solve(each) for each in missed]).mT).mT


def _joined(a: Passes, b: Passes) -> Passes:
    return Passes(
        tuple(
            replace(
                x,
                inputs=torch.cat([x.inputs, y.inputs], dim=-3),
                sensitivities=torch.cat([x.sensitivities, y.sensitivities], dim=-3),
            )
            for x, y in zip(a.layers, b.layers, strict=True)
        )
    )


def in_blocks(function: Function, rows: int = ROWS) -> Function:
    """The function, evaluated for ``rows`` points at a time."""

    def whole(X: Tensor) -> Tensor:
        if len(X) <= rows:
            return function(X)
        return torch.cat([function(block) for block in torch.split(X, rows)])

    return whole
