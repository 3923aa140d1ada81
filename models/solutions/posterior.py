"""Posterior over solutions of an equation: Gaussian in their coefficients."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.basis_evidence import Prior, Weights, choose_prior, log_prior
from fieldcraft.models.linear.polynomials import Polynomials
from fieldcraft.models.observations import Observations, Physics, Scaling
from fieldcraft.models.solutions.first_integrals import FirstIntegrals, along_lines
from fieldcraft.models.solutions.polynomial import (
    NullSpace,
    Solutions,
    enclosing_box,
    particular,
    polynomial_solutions,
)
from fieldcraft.models.surrogate import Function


@dataclass(frozen=True)
class Background:
    """A particular solution for the target: polynomials and their coefficients (P,)."""

    polynomials: Polynomials
    coefficients: Tensor

    def value(self, X: Tensor) -> Tensor:
        """Value at X (n, d), shape (n,)."""
        return self.polynomials.features(X) @ self.coefficients


@dataclass(frozen=True)
class SolutionPosterior:
    """t(x) = particular(x) + psi(x)^T (sizes * w) with Gaussian w.

    Args:
        solutions: psi.
        sizes: Prior standard deviation of each coefficient, shape (K,).
        weights: The posterior of w.
        background: The particular solution; None if it is zero.
        scaling: Map between targets and results.
        metrics: Evidence and hyper-parameters.
        digest: Digest of the data, as bytes, shape (32,).
        remarks: Notes on what was learnt.
    """

    solutions: Solutions
    sizes: Tensor
    weights: Weights
    background: Background | None
    scaling: Scaling
    metrics: Mapping[str, float]
    digest: Tensor
    remarks: Mapping[str, str] = field(default_factory=dict)

    def _rows(self, X: Tensor) -> Tensor:
        return self.solutions.features(X) * self.sizes

    def _values(self, X: Tensor, w: Tensor) -> Tensor:
        values = self._rows(X) @ w
        return values if self.background is None else values + self.background.value(X)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the noise-free target at X (n, d), each (n,)."""
        return self._values(X, self.weights.mean), (self._rows(X) @ self.weights.spread).square().sum(1)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q exact draws: each is itself a solution of the equation."""
        return [self._drawn(torch.from_numpy(rng.standard_normal(len(self.sizes)))) for _ in range(q)]

    def _drawn(self, white: Tensor) -> Function:
        w = self.weights.mean + self.weights.spread @ white

        def function(X: Tensor) -> Tensor:
            return self._values(X, w)

        return function

    def fantasize(self, X: Tensor) -> "SolutionPosterior":
        """Posterior conditioned on results at X (k, d) equal to the mean, with the noise of the data."""
        if len(X) == 0:
            return self
        return replace(self, weights=self.weights.fantasize(self._rows(X.detach())))

    def log_predictive(self) -> Tensor:
        """log density of each result given the others, shape (n,): exact for the linear model of the weights."""
        return self.weights.log_predictive()

    def state(self) -> dict[str, Tensor]:
        """Hyper-parameters, weights and, where they were computed numerically, the functions themselves."""
        state = {
            "mean": self.weights.mean,
            "spread": self.weights.spread,
            "rows": self.weights.rows,
            "sizes": self.sizes,
            "digest": self.digest,
            "metrics": torch.tensor([self.metrics[name] for name in _METRICS], dtype=torch.float64),
        }
        if isinstance(self.solutions, NullSpace):
            state |= {"basis": self.solutions.basis, "degrees": self.solutions.degrees}
        if isinstance(self.solutions, FirstIntegrals):
            state |= self.solutions.tensors()
        if self.background is not None:
            state["background"] = self.background.coefficients
        return state


_METRICS = ("log_evidence", "log_scale", "log_decay", "log_noise", "functions")


def forms_of(physics: Physics, degree: int, orders: int | None = None) -> tuple[Solutions, ...]:
    """The solutions of the homogeneous equation in the forms that there are, one of which has to be taken.

    Args:
        physics: The equation and where it holds.
        degree: Highest degree of polynomials.
        orders: See ``FirstIntegrals.of``.

    Raises:
        ValueError: the equation is not linear, or the degree does not suit it.
    """
    more = along_lines(physics, orders)
    try:
        return polynomial_solutions(physics, degree), *more
    except ValueError:
        if not more:
            raise
        return more  # what decays fast is no polynomial


def fit_solutions(
    data: Observations, physics: Physics, degree: int, forms: tuple[Solutions, ...], digest: Tensor
) -> SolutionPosterior:
    """Condition the prior over exact solutions on the results, its form and hyper-parameters chosen by evidence.

    Raises:
        ValueError: polynomials of this degree do not solve the equation with its right-hand side.
    """
    found = particular(physics, data.scaling, degree)
    background = None if found is None else Background(*found)
    left = _left(data, background)
    at = torch.from_numpy(data.X.copy())

    def chosen(space: Solutions) -> tuple[float, Solutions, Prior, float]:
        prior, evidence = choose_prior(
            space.features(at).numpy(), space.degrees.numpy(), left.numpy(), data.noise_variance
        )
        return evidence + log_prior(prior), space, prior, evidence

    _, space, prior, evidence = max(map(chosen, forms), key=itemgetter(0))
    sizes = torch.from_numpy(prior.sizes(space.degrees.numpy()))
    numbers = (evidence, prior.log_scale, prior.log_decay, prior.log_noise, float(len(sizes)))
    return SolutionPosterior(
        solutions=space,
        sizes=sizes,
        weights=Weights.of(space.features(at) * sizes, left, prior.noise),
        background=background,
        scaling=data.scaling,
        metrics=dict(zip(_METRICS, numbers, strict=True)),
        digest=digest,
        remarks={**_form(space), **_doubted(data, prior.log_noise)},
    )


def _form(space: Solutions) -> dict[str, str]:
    """Remark where not polynomials, but functions of first integrals were taken; else none."""
    if not isinstance(space, FirstIntegrals):
        return {}
    return {"solutions": "functions of what the equation keeps constant along its lines, not polynomials"}


def _doubted(data: Observations, log_noise: float) -> dict[str, str]:
    """Remark where noise that was not known is as large as it may be, that is, as the results' spread; else none.

    Results of mere noise have less: their constant is a solution of most equations, and takes a degree of freedom.
    """
    if data.noise_variance is not None or log_noise < 0:
        return {}
    return {
        "equation": "no sum of its solutions predicts the results, which are taken for noise; check its coefficients, "
        "and the sign and unit of its right-hand side"
    }


def _left(data: Observations, background: Background | None) -> Tensor:
    """Targets less the particular solution, shape (n,)."""
    y = torch.from_numpy(data.targets.copy())
    return y if background is None else y - background.value(torch.from_numpy(data.X.copy()))


def restore_solutions(
    data: Observations, physics: Physics, degree: int, state: Mapping[str, Tensor]
) -> SolutionPosterior:
    """The posterior restored from ``state``."""
    metrics = dict(zip(_METRICS, state["metrics"].tolist(), strict=True))
    box = enclosing_box(physics)
    if "basis" in state:
        space: Solutions = NullSpace(Polynomials(box, degree), state["basis"], state["degrees"])
    elif "integrals" in state:
        space = FirstIntegrals.restored(box, state)
    else:
        space = polynomial_solutions(physics, degree)
    background = Background(Polynomials(box, degree), state["background"]) if "background" in state else None
    noise = Prior(metrics["log_scale"], metrics["log_decay"], metrics["log_noise"]).noise
    weights = Weights(state["mean"], state["spread"], state["rows"], _left(data, background), noise)
    remarks = {**_form(space), **_doubted(data, metrics["log_noise"])}
    return SolutionPosterior(
        space, state["sizes"], weights, background, data.scaling, metrics, state["digest"], remarks
    )
