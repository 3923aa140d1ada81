"""Posterior of the joint process, conditioned on results and a linear equation's rows together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import JointRows
from fieldcraft.models.linear.conditioning import Factor, information_gain, interaction_information, leave_one_out
from fieldcraft.models.observations import Scaling
from fieldcraft.models.physics_informed.joint_process import JointProcess
from fieldcraft.models.solutions.separable import SeparableSum, lowest
from fieldcraft.models.surrogate import Function

# One minus the probability with which the confidence bound of PINN-BO is to hold.
_DELTA = 0.1


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """t(x) given the equations' rows and the results.

    Args:
        process: The prior at its chosen hyper-parameters.
        rows: All rows conditioned on.
        factor: Of their covariance, noise included.
        weights: Its inverse times the rows' targets, shape (N,).
        scaling: Map between targets and results.
        metrics: Evidence, hyper-parameters and information gains.
        remarks: Notes on how it was made.
        kept: The state.
        solution: A known solution of the equation's right-hand side, of which the process is the difference; None for
            none. The rows are those of the difference.
    """

    process: JointProcess
    rows: JointRows
    factor: Factor
    weights: Tensor
    scaling: Scaling
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]
    kept: Mapping[str, Tensor]
    solution: SeparableSum | None = None

    @cached_property
    def likely_best(self) -> Tensor | None:
        """Designs (2, d) in the lowest valleys of the mean that are found variable by variable; None if none is sought.

        The search begins in the lowest valley of each term of the known solution, and at the result of the least mean.
        """
        if self.solution is None:
            return None
        X = self.rows.fields[0].points[self.rows.facts :].detach()
        with torch.no_grad():
            starts = (torch.stack([each[0] for each in self.solution.valleys]), X[self._mean(X).argmin()])
            return torch.stack([lowest(self._mean, start, self.solution.valleys) for start in starts])

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the noise-free target at X (n, d), each (n,)."""
        cross = self.process.values(X, self.rows)
        return self._known(X) + cross.mT @ self.weights, self.factor.variance(self.process.variance(X), cross)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q draws by Matheron's rule: a prior draw, corrected by the residual of its rows to the targets."""
        return [self._drawn(rng) for _ in range(q)]

    def _drawn(self, rng: np.random.Generator) -> Function:
        with torch.no_grad():
            prior, read = self.process.draw(self.rows, rng)
            correction = self.process.combined(self.rows, self.factor.solve(self.rows.targets - read))

        def function(X: Tensor) -> Tensor:
            return self._known(X) + prior(X) + correction(X)

        return function

    def _mean(self, X: Tensor) -> Tensor:
        return self._known(X) + self.process.values(X, self.rows).mT @ self.weights

    def _known(self, X: Tensor) -> Tensor | float:
        return 0.0 if self.solution is None else self.solution(X)

    def fantasize(self, X: Tensor) -> "JointPosterior":
        """Posterior conditioned on results at X (k, d) equal to the mean, with the noise of the data: k rows more."""
        if len(X) == 0:
            return self
        with torch.no_grad():
            rows = self.rows.with_values(X.detach(), self._mean(X.detach()) - self._known(X.detach()))
            more = [field.after(len(self.rows)) for field in rows.fields]
            cross = self.process.gram(more, self.rows.fields)
            corner = self.process.gram(more, more) + torch.diag(self.process.noises(rows)[len(self.rows) :])
            factor = self.factor.append(cross, corner)
        # Results at the mean pull it nowhere.
        return replace(self, rows=rows, factor=factor, weights=torch.cat([self.weights, torch.zeros(len(X)).double()]))

    def log_predictive(self) -> Tensor:
        """log density of each result given the other rows of both kinds, shape (n,)."""
        return leave_one_out(self.factor, self.rows.targets)[self.rows.facts :]

    def state(self) -> dict[str, Tensor]:
        """Hyper-parameters, metrics and further tensors that the engine needs besides the data."""
        return dict(self.kept)


def condition(
    process: JointProcess,
    rows: JointRows,
    scaling: Scaling,
    metrics: Mapping[str, float],
    remarks: Mapping[str, str],
    kept: Mapping[str, Tensor],
    solution: SeparableSum | None = None,
) -> JointPosterior:
    """The posterior on rows.

    Raises:
        ValueError: their covariance is not positive definite to rounding.
    """
    with torch.no_grad():
        factor = process.factor(rows)
        weights = factor.solve(rows.targets)
    return JointPosterior(process, rows, factor, weights, scaling, metrics, remarks, kept, solution)


def information(process: JointProcess, rows: JointRows) -> dict[str, float]:
    """``gamma``, ``interaction`` and ``nu_t`` of PINN-BO (methods, section 3), the first two in nats.

    nu_t = B + R sqrt(2 gamma_t - 2 I + log(1/delta)), R^2 = R1^2/l1 + R2^2/l2, with the norm of the posterior mean for
    the unknown bound B of the objective's, the fitted noises for R1 and R2 (so R^2 = 2), and delta = 0.1.
    """
    with torch.no_grad():
        joint, noises, r = process.gram(rows.fields, rows.fields), process.noises(rows), rows.facts
        l1, l2 = float(noises[-1]), float(noises[0])
        # A row of a known side, and its noise with it, is written so that its noise is that of an equation's row.
        even = (l2 / noises[:r]).sqrt()
        shared = interaction_information(
            joint[r:, r:], joint[r:, :r] * even, joint[:r, :r] * even * even[:, None], l1, l2
        )
        gamma = information_gain(joint[r:, r:], l1)
        weights = Factor.of(joint, noises).solve(rows.targets)
        norm = (weights @ joint @ weights).clamp_min(0.0).sqrt()
    shared = shared.clamp_min(0.0)
    nu = norm + math.sqrt(2.0) * (2 * (gamma - shared).clamp_min(0.0) + math.log(1 / _DELTA)).sqrt()
    return {"gamma": float(gamma), "interaction": float(shared), "nu_t": float(nu)}
