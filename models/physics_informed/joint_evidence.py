"""Hyper-parameters of the joint process by marginal likelihood, with exact gradients, under weak normal priors.

The maximised quantity is p(y | u), the likelihood of the results given the equation's rows, and not p(y, u): the
equation is a fact to condition on and not a sample of the prior. Otherwise hundreds of rows that all read exactly zero
would select the flattest prior, in which they are likeliest, whatever the few results are. But rows that are larger
than the process expects would bend it everywhere: the sum u^T S^-1 u of the r rows of equations, with S their
covariance, is r in the mean, and half of what it is above r is taken off. Shorter length scales, a larger output scale
or more slack then make them what is expected.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import JointRows
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array
from fieldcraft.models.physics_informed.joint_process import Covariance, Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Stationary
from fieldcraft.models.physics_informed.pair_evidence import PairEvidence

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

# Of a target's variance: below it a covariance of close points has no factor in float64.
LEAST_NOISE = 1e-6
_SDS = (-3.0, 4.0)
_NOISE = (math.log(LEAST_NOISE), 0.0)
_SLACK = (-16.0, 5.0)
_ITERATIONS = 40
_PARTS = ("scales", "sds", "noise", "slack")
# What L-BFGS-B is told where there is no factor: it then shortens its step.
_REFUSED = 1e12


@dataclass(frozen=True)
class Belief:
    """Normal (mean, sd) of each logarithm before any data.

    Args:
        scales: Of an input scale (``Hyper.scales``).
        sds: Of an output scale.
        noise: Of a result's noise variance, if it is not known.
        slack: Of an equation's.
        starts: Added to the mean of ``scales`` for each start of the search: of the objective, and of auxiliary fields.
        slacks: Of an equation's row, in a start of its own each.
        limits: Least and greatest logarithm of an input scale.
        odds: Logarithm of this belief's odds.
    """

    scales: tuple[float, float]
    sds: tuple[float, float] = (1.0, 1.0)
    noise: tuple[float, float] = (-6.0, 3.0)
    slack: tuple[float, float] = (-10.0, 3.0)
    starts: tuple[tuple[float, float], ...] = ((0.0, 0.0), (0.7, 0.7))
    slacks: tuple[float, ...] = (-10.0,)
    limits: tuple[float, float] = (-3.0, 3.0)
    odds: float = 0.0

    def log_density(self, hyper: Hyper) -> Tensor:
        """Log density up to a constant, shape ()."""
        parts = [(getattr(hyper, name), *getattr(self, name)) for name in _PARTS]
        terms = [((value - mean) / sd).square().sum() for value, mean, sd in parts]
        return -0.5 * torch.stack(terms).sum()

    def constant(self, scales: int) -> float:
        """Log odds, and the constant of ``log_density`` that beliefs do not share, for so many input scales."""
        return self.odds - scales * math.log(self.scales[1])

    def slope(self, hyper: Hyper) -> Hyper:
        """Derivative of ``log_density`` by each logarithm."""
        parts = {name: (getattr(hyper, name), *getattr(self, name)) for name in _PARTS}
        return Hyper(**{name: (mean - value) / sd**2 for name, (value, mean, sd) in parts.items()})


def log_evidence(process: JointProcess, rows: JointRows) -> Tensor:
    """log p(y | u) of the results given the rows of equations and known sides, less what these are too large, shape ().

    Raises:
        ValueError: the covariance is not positive definite to rounding.
    """
    factor = process.factor(rows)
    # The facts' rows lead the factor: what comes after them is already conditioned on them.
    white = factor.half_solve(rows.targets)
    squares, spread = white[rows.facts :].square(), factor.lower.diagonal()[rows.facts :]
    excess = white[: rows.equations].square().sum() - rows.equations
    return -0.5 * (excess.clamp_min(0.0) + (squares + math.log(2 * math.pi)).sum()) - spread.log().sum()


def choose_hyper(
    covariances: tuple[Covariance, ...], rows: JointRows, beliefs: Sequence[Belief], noise_variance: float | None
) -> tuple[Hyper, float]:
    """The likeliest hyper-parameters, by L-BFGS-B from the starts of each belief, and the log evidence there.

    The belief under which the log posterior is higher counts. Their priors differ in the input scales alone.

    Args:
        covariances: kappa of each field.
        rows: Equations and results.
        beliefs: Priors of the hyper-parameters.
        noise_variance: Variance of a result, in squared target units, if it is known; None to fit it.

    Raises:
        ValueError: no start has a covariance that is positive definite to rounding.
    """
    loss = _closed(covariances, rows) or partial(_loss, covariances, rows)
    found = [(belief, _likeliest(partial(loss, belief), rows, belief, noise_variance)) for belief in beliefs]
    scales = len(rows.fields) * rows.fields[0].points.shape[1]
    belief, best = min(found, key=lambda each: float(each[1].fun) - each[0].constant(scales))
    hyper = Hyper.of(torch.from_numpy(best.x), len(rows.fields))
    if best.fun >= _REFUSED:  # the process itself says what is wrong
        return hyper, float(log_evidence(JointProcess(covariances, hyper), rows))
    return hyper, -float(best.fun) - float(belief.log_density(hyper))


def _likeliest(
    loss: Callable[[Array], tuple[float, Array]], rows: JointRows, belief: Belief, noise_variance: float | None
) -> "OptimizeResult":
    """The end of the best search under one belief."""
    fields, d = len(rows.fields), rows.fields[0].points.shape[1]
    known = None if noise_variance is None else math.log(max(noise_variance, LEAST_NOISE))
    noise, noise_bounds = (belief.noise[0], _NOISE) if known is None else (known, (known, known))
    bounds = [belief.limits] * (fields * d) + [_SDS] * fields + [noise_bounds, _SLACK]
    middle, others = belief.scales[0], (fields - 1) * d
    starts = [
        np.array([middle + own] * d + [middle + other] * others + [belief.sds[0]] * fields + [noise, slack])
        for own, other in belief.starts
        for slack in belief.slacks
    ]
    options = {"maxiter": _ITERATIONS, "ftol": 1e-7}
    found = [minimize(loss, s, jac=True, method="L-BFGS-B", bounds=bounds, options=options) for s in starts]
    return min(found, key=lambda result: float(result.fun))


def _closed(
    covariances: tuple[Covariance, ...], rows: JointRows
) -> Callable[[Belief, Array], tuple[float, Array]] | None:
    """The same function as ``_loss`` with gradients in closed form, where there is one."""
    stationary = [each for each in covariances if isinstance(each, Stationary)]
    if len(stationary) < len(covariances) or not PairEvidence.suits(rows):
        return None
    evidence = PairEvidence.of(tuple(stationary), rows)

    def loss(belief: Belief, flat: Array) -> tuple[float, Array]:
        hyper = Hyper.of(torch.from_numpy(flat), len(rows.fields))
        try:
            value, slope = evidence(hyper)
        except ValueError:
            return _REFUSED, np.zeros_like(flat)
        by_belief = belief.slope(hyper)
        total = [(getattr(slope, name) + getattr(by_belief, name)).reshape(-1) for name in _PARTS]
        return -value - float(belief.log_density(hyper)), -torch.cat(total).numpy()

    return loss


def _loss(covariances: tuple[Covariance, ...], rows: JointRows, belief: Belief, flat: Array) -> tuple[float, Array]:
    """Minus the log posterior at a vector of all logarithms, and its gradient; a great number where it has none."""
    x = torch.tensor(flat, requires_grad=True)
    hyper = Hyper.of(x, len(rows.fields))
    try:
        total = -log_evidence(JointProcess(covariances, hyper), rows) - belief.log_density(hyper)
    except ValueError:
        return _REFUSED, np.zeros_like(flat)
    (slope,) = torch.autograd.grad(total, x)
    return total.item(), slope.numpy()
