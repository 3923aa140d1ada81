"""Training of k independent networks on sums of squares: Adam, then damped Gauss-Newton steps, both resumable.

Gauss-Newton is solved in the dual, over the N rows and not the p weights: with J (N, p) the rows' Jacobian, g half
the loss's gradient and D = ridge + damping, the step is -(g - J^T (J J^T + D I)^-1 J g) / D. A step that does not lower
a network's loss is not taken and raises that network's damping (Levenberg, 1944; Marquardt, 1963).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from models.surrogate import Report

_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_TINY = 1e-8
_LOWER = 1 / 3
_RAISE = 4.0
_DAMPINGS = (1e-12, 1e12)


class Jacobian(Protocol):
    """Derivatives J (k, N, p) of k networks' rows by their weights, which need not be written out."""

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
    """A Jacobian that is written out.

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


class Diverged(ValueError):
    """A training became non-finite again after every restart."""


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
    """How long and how fast.

    Args:
        steps: Adam steps.
        rate: Adam's first step size.
        decay: Factor on the step size over the whole of Adam, exponential in the step.
        refinements: Gauss-Newton steps after Adam.
        restarts: How often a training that became non-finite is begun again, each time at a quarter of the rate.
        report_every: Steps between two reports.
    """

    steps: int
    rate: float
    decay: float
    refinements: int
    restarts: int = 3
    report_every: int = 100


@dataclass(frozen=True)
class State:
    """Everything that the next step depends on.

    Args:
        theta: Weights, shape (k, p).
        first: Adam's running mean of the gradient, shape (k, p).
        second: Adam's running mean of its square, shape (k, p).
        damping: Gauss-Newton damping of each network, shape (k,).
        loss: Loss of each network when it was last known, shape (k,); infinite before the first step.
        step: Steps done, of both kinds, counted from the last restart.
        restarts: Restarts so far.
    """

    theta: Tensor
    first: Tensor
    second: Tensor
    damping: Tensor
    loss: Tensor
    step: int = 0
    restarts: int = 0

    @classmethod
    def begin(cls, theta: Tensor, restarts: int = 0) -> "State":
        """The state before the first step from theta (k, p)."""
        zero = torch.zeros_like(theta)
        infinite = torch.full(theta.shape[:1], torch.inf, dtype=theta.dtype, device=theta.device)
        return cls(theta, zero, zero, torch.ones_like(infinite), infinite, restarts=restarts)

    def tensors(self) -> dict[str, Tensor]:
        """The state as tensors on the CPU."""
        whole = torch.tensor([self.step, self.restarts])
        parts = {name: getattr(self, name).detach().cpu() for name in ("theta", "first", "second", "damping", "loss")}
        return {**parts, "counts": whole}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], like: Tensor) -> "State":
        """The state that ``tensors`` gave, on the device and in the precision of ``like``."""
        parts = {name: tensors[name].to(like) for name in ("theta", "first", "second", "damping", "loss")}
        step, restarts = (int(count) for count in tensors["counts"])
        return cls(**parts, step=step, restarts=restarts)


def _losses(problem: LeastSquares, theta: Tensor, rows: Tensor) -> Tensor:
    return rows.square().sum(-1) + problem.ridge * (theta - problem.anchor).square().sum(-1)


def _adam(problem: LeastSquares, state: State, schedule: Schedule) -> State:
    """One step of Adam (Kingma and Ba, 2015); networks are independent, so their losses are summed."""
    theta = state.theta.detach().requires_grad_()
    loss = _losses(problem, theta, problem.rows(theta))
    (slope,) = torch.autograd.grad(loss.sum(), theta)
    number = state.step + 1
    first = _FIRST_DECAY * state.first + (1 - _FIRST_DECAY) * slope
    second = _SECOND_DECAY * state.second + (1 - _SECOND_DECAY) * slope.square()
    rate = schedule.rate * 0.25**state.restarts * schedule.decay ** (state.step / schedule.steps)
    size = rate / (1 - _FIRST_DECAY**number)
    scale = (second / (1 - _SECOND_DECAY**number)).sqrt() + _TINY
    moved = theta.detach() - size * first / scale
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
    """Train from ``state`` to the end of ``schedule``.

    A state taken anywhere on the way and continued gives the same weights, bit for bit, on the same CPU and number of
    threads.

    Raises:
        Diverged: the loss became non-finite again after every restart.
    """
    total = schedule.steps + schedule.refinements
    while state.step < total:
        adam = state.step < schedule.steps
        if adam:
            state = _adam(problem, state, schedule)
        else:
            with torch.no_grad():
                state = _gauss_newton(problem, state)
        if not bool(torch.isfinite(state.loss).all() & torch.isfinite(state.theta).all()):
            state = _restart(problem, state, schedule)
        elif state.step % schedule.report_every == 0 or not adam or state.step == total:
            metrics = {"loss": float(state.loss.mean()), "restarts": float(state.restarts)}
            report(state.step, metrics, partial(checkpoint, state))
    return state


def _restart(problem: LeastSquares, state: State, schedule: Schedule) -> State:
    if state.restarts == schedule.restarts:
        raise Diverged(
            f"Training became non-finite at step {state.step}, and {state.restarts} restarts at smaller rates did too: "
            f"lower the rate ({schedule.rate}) or check the readings and the equation."
        )
    return State.begin(problem.anchor, restarts=state.restarts + 1)
