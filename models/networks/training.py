"""Training of k independent networks on sums of squares: Adam, then damped Gauss-Newton steps, both resumable.

Gauss-Newton is solved in the dual, over the N rows and not the p weights: with J (N, p) the rows' Jacobian, g half
the loss's gradient and D = ridge + damping, the step is -(g - J^T (J J^T + D I)^-1 J g) / D. A step that does not lower
a network's loss is not taken and raises that network's damping (Levenberg, 1944; Marquardt, 1963).

A network that becomes non-finite begins again at a quarter of the rate, in a separate round after the others are done.
Each network therefore ends with the weights that it would reach alone.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from fieldcraft.models.surrogate import Report

_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_TINY = 1e-8
_LOWER = 1 / 3
_RAISE = 4.0
_DAMPINGS = (1e-12, 1e12)


class Jacobian(Protocol):
    """Derivatives J (k, N, p) of k networks' rows by their weights, not necessarily as a matrix."""

    def gram(self) -> Tensor:
        """J J^T, shape (k, N, N), a fresh tensor."""
        ...

    def along(self, directions: Tensor) -> Tensor:
        """J v for columns v (k, p, 1), shape (k, N, 1)."""
        ...

    def combined(self, weights: Tensor) -> Tensor:
        """J^T w for columns w (k, N, 1), shape (k, p, 1)."""
        ...

    def slope(self, rows: Tensor) -> Tensor:
        """J^T r, half the gradient of sum r^2, shape (k, p), for the rows r (k, N) themselves."""
        ...


@dataclass(frozen=True)
class Written:
    """A Jacobian stored as a matrix.

    Args:
        matrix: J, shape (k, N, p).
    """

    matrix: Tensor

    def gram(self) -> Tensor:
        """J J^T."""
        return self.matrix @ self.matrix.mT

    def along(self, directions: Tensor) -> Tensor:
        """J v."""
        return self.matrix @ directions

    def combined(self, weights: Tensor) -> Tensor:
        """J^T w."""
        return self.matrix.mT @ weights

    def slope(self, rows: Tensor) -> Tensor:
        """J^T r, as the product from the left."""
        return (rows[:, None] @ self.matrix)[:, 0]


class LeastSquares(Protocol):
    """k losses of the form sum of rows^2 + ridge ||theta - anchor||^2."""

    ridge: float
    anchor: Tensor

    def rows(self, theta: Tensor) -> Tensor:
        """Rows at theta (k, p), shape (k, N), differentiable."""
        ...

    def linearised(self, theta: Tensor) -> tuple[Tensor, Tensor | Jacobian]:
        """Rows (k, N) and their Jacobian, a tensor (k, N, p) or a way to multiply by it, without a graph."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Numbers of steps, and step sizes.

    Args:
        steps: Adam steps.
        rate: Adam's first step size.
        decay: Factor on the step size over the whole of Adam, exponential in the step.
        refinements: Gauss-Newton steps after Adam.
        restarts: Largest number of restarts of a training that became non-finite, each at a quarter of the rate.
        report_every: Steps between two reports.
    """

    steps: int
    rate: float
    decay: float
    refinements: int
    restarts: int = 3
    report_every: int = 100

    @property
    def total(self) -> int:
        """Steps of both kinds."""
        return self.steps + self.refinements


@dataclass(frozen=True)
class State:
    """State of a training, on which the next step depends.

    In round r the networks that became non-finite r times take steps, so all of them in round 0. Those that become
    non-finite once more wait at the anchor for the next round.

    Args:
        theta: Weights, shape (k, p).
        first: Adam's running mean of the gradient, shape (k, p).
        second: Adam's running mean of its square, shape (k, p).
        damping: Gauss-Newton damping of each network, shape (k,).
        loss: Loss of each network when it was last known, shape (k,); infinite before the first step.
        failures: Number of times each network became non-finite, shape (k,).
        step: Steps done in this round, of both kinds.
        round: Number of the round, from 0.
    """

    theta: Tensor
    first: Tensor
    second: Tensor
    damping: Tensor
    loss: Tensor
    failures: Tensor
    step: int = 0
    round: int = 0

    @property
    def active(self) -> Tensor:
        """True for networks of this round, shape (k,)."""
        return self.failures == self.round

    @property
    def lost(self) -> Tensor:
        """True for networks that wait for another round, shape (k,); after the last round, those given up."""
        return self.failures > self.round

    @property
    def restarts(self) -> int:
        """Number of restarts over all networks."""
        return int(self.failures.clamp_max(self.round).sum())

    @classmethod
    def begin(cls, theta: Tensor) -> "State":
        """The state before the first step from theta (k, p)."""
        zero = torch.zeros_like(theta)
        infinite = torch.full(theta.shape[:1], torch.inf, dtype=theta.dtype, device=theta.device)
        return cls(theta, zero, zero, torch.ones_like(infinite), infinite, torch.zeros_like(infinite))

    def tensors(self) -> dict[str, Tensor]:
        """The state as tensors on the CPU."""
        parts = {name: getattr(self, name).detach().cpu() for name in _PARTS}
        return {**parts, "counts": torch.tensor([self.step, self.restarts, self.round])}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], like: Tensor) -> "State":
        """The state restored from ``tensors``, on the device and in the precision of ``like``."""
        step, _, number = (int(count) for count in tensors["counts"])
        return cls(**{name: tensors[name].to(like) for name in _PARTS}, step=step, round=number)


_PARTS = ("theta", "first", "second", "damping", "loss", "failures")


def _losses(problem: LeastSquares, theta: Tensor, rows: Tensor) -> Tensor:
    return rows.square().sum(-1) + problem.ridge * (theta - problem.anchor).square().sum(-1)


def _adam(problem: LeastSquares, state: State, schedule: Schedule) -> State:
    """One step of Adam (Kingma and Ba, 2015); networks are independent, so their losses are summed.

    The loss is that before the step; after the last step of the schedule it is that of the final weights.
    """
    theta = state.theta.detach().requires_grad_()
    loss = _losses(problem, theta, problem.rows(theta))
    (slope,) = torch.autograd.grad(loss.sum(), theta)
    number = state.step + 1
    first = _FIRST_DECAY * state.first + (1 - _FIRST_DECAY) * slope
    second = _SECOND_DECAY * state.second + (1 - _SECOND_DECAY) * slope.square()
    rate = schedule.rate * 0.25**state.round * schedule.decay ** (state.step / schedule.steps)
    size = rate / (1 - _FIRST_DECAY**number)
    scale = (second / (1 - _SECOND_DECAY**number)).sqrt() + _TINY
    moved = theta.detach() - size * first / scale
    if number == schedule.total:
        with torch.no_grad():
            loss = _losses(problem, moved, problem.rows(moved))
    return replace(state, theta=moved, first=first, second=second, loss=loss.detach(), step=number)


def _gauss_newton(problem: LeastSquares, state: State) -> State:
    """One damped step of each network, taken where it lowers that network's loss."""
    theta = state.theta.detach()
    rows, derivatives = problem.linearised(theta)
    jacobian = Written(derivatives) if isinstance(derivatives, Tensor) else derivatives
    loss = _losses(problem, theta, rows)
    slope = jacobian.slope(rows) + problem.ridge * (theta - problem.anchor)
    total = problem.ridge + state.damping
    gram = jacobian.gram()
    gram.diagonal(dim1=-2, dim2=-1).add_(total[:, None])
    factor, failed = torch.linalg.cholesky_ex(gram)
    inner = torch.cholesky_solve(jacobian.along(slope[..., None]), factor)
    move = (slope - jacobian.combined(inner)[..., 0]) / total[:, None]
    trial = theta - move
    trial_loss = _losses(problem, trial, problem.rows(trial))
    better = (trial_loss < loss) & (failed == 0)
    damping = torch.where(better, state.damping * _LOWER, state.damping * _RAISE).clamp(*_DAMPINGS)
    return replace(
        state,
        theta=torch.where(better[:, None], trial, theta),
        loss=torch.where(better, trial_loss, loss),
        damping=damping,
        step=state.step + 1,
    )


def train(
    problem: LeastSquares,
    state: State,
    schedule: Schedule,
    report: Report,
    checkpoint: Callable[[State], dict[str, Tensor]],
) -> State:
    """Train from ``state`` to the end of ``schedule`` (see ``attempt``).

    Raises:
        ValueError: the loss of a network became non-finite again after every restart.
    """
    state = attempt(problem, state, schedule, report, checkpoint)
    if lost := int(state.lost.sum()):
        raise ValueError(
            f"Training of {lost} of {len(state.loss)} networks became non-finite, and {schedule.restarts} restarts at "
            f"smaller rates did too: lower the rate ({schedule.rate}) or check the results and the equation."
        )
    return state


def attempt(
    problem: LeastSquares,
    state: State,
    schedule: Schedule,
    report: Report,
    checkpoint: Callable[[State], dict[str, Tensor]],
) -> State:
    """Train from ``state`` to the end of ``schedule``; networks that no restart rescued are ``lost``, at the anchor.

    A training that is continued from any intermediate state gives the same weights, bit for bit, on the same CPU and
    number of threads.
    """
    while True:
        if state.step == schedule.total or not bool(state.active.any()):
            if state.round == schedule.restarts or not bool(state.lost.any()):
                return state
            state = replace(state, step=0, round=state.round + 1)
        adam = state.step < schedule.steps
        with nullcontext() if adam else torch.no_grad():
            stepped = _adam(problem, state, schedule) if adam else _gauss_newton(problem, state)
        state = _settled(problem, state, stepped)
        due = state.step % schedule.report_every == 0 or not adam or state.step == schedule.total
        if due and bool(state.active.any()):
            report(state.step, _metrics(state), partial(checkpoint, state))


def _settled(problem: LeastSquares, before: State, after: State) -> State:
    """The step of the networks of this round; those that became non-finite wait at the anchor, others are unchanged."""
    sound = torch.isfinite(after.loss) & torch.isfinite(after.theta).all(-1)
    if bool((sound & before.active).all()):
        return after
    begun, parts = State.begin(problem.anchor), {}
    for name in _PARTS:
        was, now, fresh = (getattr(state, name) for state in (before, after, begun))
        axes = (-1, *[1] * (was.ndim - 1))
        parts[name] = torch.where(before.active.reshape(axes), torch.where(sound.reshape(axes), now, fresh), was)
    parts["failures"] = before.failures + (before.active & ~sound)
    return State(**parts, step=after.step, round=after.round)


def _metrics(state: State) -> dict[str, float]:
    """Mean loss over the networks that have one, and number of restarts."""
    known = state.loss[torch.isfinite(state.loss)]
    return {"loss": float(known.mean()), "restarts": float(state.restarts)}
