"""The joint Gaussian process of results and of a linear equation's rows, whatever the covariance (methods, section 3).

    K = [[K_rr + l2 I, K_ru], [K_ur, K_uu + l1 I]],   K_ur = N' k,   K_rr = N N' k

with k(x, x') = sd^2 kappa(s x, s x') for a covariance kappa without parameters of its own, an input scale s for each
coordinate (the inverse length scales) and an output scale sd, for each field. Fields are independent before the data.
Conditions on known sides are further rows of the first block, with a noise of rounding alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import Functionals, JointRows
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.surrogate import Function

# Of a known side's prior variance: what keeps the covariance of close points positive definite.
EXACT = 1e-6


class Field(Protocol):
    """A function, with its derivatives."""

    def image(self, a: Functionals) -> Tensor:
        """Each functional of it, shape (n,), differentiable in the points."""
        ...


class Covariance(Protocol):
    """A covariance without free parameters."""

    def gram(self, a: Functionals, b: Functionals) -> Tensor:
        """Covariance of every functional of a (n) with every one of b (m), shape (n, m), differentiable in both."""
        ...

    def diagonal(self, a: Functionals) -> Tensor:
        """Variance of each functional, shape (n,), differentiable in the points."""
        ...

    def combined(self, a: Functionals, weights: Tensor) -> Field:
        """x -> sum_j weights_j cov(a_j[f], f(x)), for weights (n,)."""
        ...

    def sample(self, dimension: int, rng: np.random.Generator) -> Field:
        """A draw from the prior over functions of ``dimension`` coordinates."""
        ...


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters, all as logarithms.

    Args:
        scales: Of each field's input scales, shape (F, d), for encoded coordinates.
        sds: Of each field's output scale, shape (F,), in target units and in the auxiliary fields' own sizes.
        noise: Of the variance l1 of a result, in squared target units, shape ().
        slack: Of the variance l2 of an equation's row as a share of the row's mean prior variance, shape ().
    """

    scales: Tensor
    sds: Tensor
    noise: Tensor
    slack: Tensor

    @classmethod
    def of(cls, flat: Tensor, fields: int) -> "Hyper":
        """Hyper-parameters from one vector, in this order, shape (F d + F + 2,)."""
        scales, sds = flat[: -2 - fields].reshape(fields, -1), flat[-2 - fields : -2]
        return cls(scales, sds, flat[-2], flat[-1])


@dataclass(frozen=True)
class JointProcess:
    """The process at given hyper-parameters.

    Args:
        covariances: kappa of each field.
        hyper: Hyper-parameters.
    """

    covariances: tuple[Covariance, ...]
    hyper: Hyper

    def gram(self, a: Sequence[Functionals], b: Sequence[Functionals]) -> Tensor:
        """Covariance of the rows a (n) and b (m), given as functionals of each field, shape (n, m)."""
        left = self._scaled(a)
        # One object twice tells a covariance that it needs the rows of only one side.
        right = left if b is a else self._scaled(b)
        parts = zip(self.covariances, left, right, self._variances, strict=True)
        terms: list[Tensor] = [variance * covariance.gram(one, other) for covariance, one, other, variance in parts]
        return torch.stack(terms).sum(0)

    def values(self, X: Tensor, rows: JointRows) -> Tensor:
        """Covariance of the objective at X (m, d) with the rows (N), shape (N, m)."""
        scales = self.hyper.scales[0].exp()
        left, right = rows.fields[0].scaled(scales), Functionals.values(X).scaled(scales)
        return self._variances[0] * self.covariances[0].gram(left, right)

    def variance(self, X: Tensor) -> Tensor:
        """Prior variance of the objective at X (m, d), shape (m,)."""
        at = Functionals.values(X).scaled(self.hyper.scales[0].exp())
        return self._variances[0] * self.covariances[0].diagonal(at)

    def draw(self, rows: JointRows, rng: np.random.Generator) -> tuple[Function, Tensor]:
        """The objective of a prior draw, and the values of the draw in all rows (N,), noise included."""
        d = rows.fields[0].points.shape[1]
        drawn = [covariance.sample(d, rng) for covariance in self.covariances]
        parts = zip(drawn, self._scaled(rows.fields), self.hyper.sds.exp(), strict=True)
        terms = [sd * field.image(functionals) for field, functionals, sd in parts]
        error = self.noises(rows).sqrt() * torch.from_numpy(rng.standard_normal(len(rows)))
        return self._objective(drawn[0], self.hyper.sds[0].exp()), sum(terms[1:], start=terms[0]) + error

    def combined(self, rows: JointRows, weights: Tensor) -> Function:
        """x -> sum_j weights_j cov(row_j, f(x)), f the objective, for weights (N,)."""
        scaled = rows.fields[0].scaled(self.hyper.scales[0].exp())
        return self._objective(self.covariances[0].combined(scaled, weights), self._variances[0])

    def _objective(self, field: Field, factor: Tensor) -> Function:
        scales = self.hyper.scales[0].exp()

        def function(X: Tensor) -> Tensor:
            return factor * field.image(Functionals.values(X * scales))

        return function

    def noises(self, rows: JointRows) -> Tensor:
        """Noise variance of each row, shape (N,)."""
        parts = zip(self.covariances, self._scaled(rows.fields), self._variances, strict=True)
        terms = [variance * covariance.diagonal(field) for covariance, field, variance in parts]
        prior = sum(terms[1:], start=terms[0])
        slack = self.hyper.slack.exp() * prior[: rows.equations].mean().expand(rows.equations)
        facts = [slack, EXACT * prior[rows.equations : rows.facts]] if rows.known else [slack]
        return torch.cat([*facts, self.hyper.noise.exp().expand(len(rows) - rows.facts)])

    def factor(self, rows: JointRows) -> Factor:
        """Factor of K with its noise over all rows.

        Raises:
            ValueError: the matrix is not positive definite to rounding.
        """
        return Factor.of(self.gram(rows.fields, rows.fields), self.noises(rows))

    @property
    def _variances(self) -> Tensor:
        return (2 * self.hyper.sds).exp()

    def _scaled(self, fields: Sequence[Functionals]) -> list[Functionals]:
        return [field.scaled(scales.exp()) for field, scales in zip(fields, self.hyper.scales, strict=True)]
