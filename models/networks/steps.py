"""Steps of k networks down their losses: Adam, and damped Gauss-Newton with a second-order correction where asked for.

Gauss-Newton is solved in the dual, over the N rows r and not the p weights: with K = J J^T, u = theta - anchor and
D = ridge + damping, the step is -(J^T x + (ridge / D) u), x = (K + D I)^-1 (r - (ridge / D) J u). The rows' curvature
along it, r'', from one more evaluation of the rows, adds -J^T (K + D I)^-1 r'' / 2, where that is short: a loss that
falls along a bent valley needs a quarter of the steps (Transtrum and Sethna, 2012). A step that does not lower a
network's loss is not taken and raises that network's damping (Levenberg, 1944; Marquardt, 1963).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fieldcraft.models.networks.least_squares import PARTS, PATIENCE, Jacobian, LeastSquares, Schedule, State

_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_TINY = 1e-8
_LOWER = 1 / 3
_RAISE = 4.0
_DAMPINGS = (1e-12, 1e12)
# Length at which the curvature is taken, relative to the step, and the correction's largest length.
_PROBE, _MOST_TURN = 0.1, 0.375
# Root mean square of the rows, in standard deviations of the results, below which nothing is left to learn.
_NOTHING = 1e-12
# Gauss-Newton steps on a GPU between two looks of the host.
_UNSEEN = 10
# Steps before a graph is captured, as CUDA asks for.
_WARM_UP = 3


@dataclass(frozen=True)
class _Model:
    """The losses (k,) to second order about weights theta: rows, J, J J^T and J (theta - anchor)."""

    theta: Tensor
    rows: Tensor
    jacobian: Jacobian
    gram: Tensor
    away: Tensor
    image: Tensor
    loss: Tensor

    @classmethod
    def at(cls, problem: LeastSquares, theta: Tensor) -> "_Model":
        rows, jacobian = problem.linearised(theta)
        away = theta - problem.anchor
        ridged = isinstance(problem.ridge, Tensor) or problem.ridge > 0
        image = jacobian.along(away) if ridged else torch.zeros_like(rows)
        return cls(theta, rows, jacobian, jacobian.gram(), away, image, _losses(problem, theta, rows))


def _losses(problem: LeastSquares, theta: Tensor, rows: Tensor) -> Tensor:
    return rows.square().sum(-1) + problem.ridge * (theta - problem.anchor).square().sum(-1)


class Steps:
    """Steps of one training, and what may be kept from one to the next to save time: no number depends on it."""

    def __init__(self, problem: LeastSquares, schedule: Schedule) -> None:
        """Take the losses, and the numbers and sizes of the steps."""
        self.problem, self.schedule = problem, schedule
        self._fresh = State.begin(problem.anchor)
        self._on_cpu = problem.anchor.device.type == "cpu"
        ridge = torch.as_tensor(problem.ridge, dtype=problem.anchor.dtype, device=problem.anchor.device)
        self._ridges = ridge.expand(len(problem.anchor))[:, None]
        self._model: _Model | None = None
        self._replay: _Replay | None = None

    def taken(self, state: State) -> State:
        """The state at the next report: some steps on, and without a look at it on the way."""
        if state.step < self.schedule.steps:
            every = self.schedule.report_every
            return self._descended(state, min(self.schedule.steps, (state.step // every + 1) * every))
        refined = state.step - self.schedule.steps
        until = refined + 1 if self._on_cpu else (refined // _UNSEEN + 1) * _UNSEEN
        for _ in range(refined, min(until, self.schedule.refinements)):
            state = self.refined(state)
        return state

    def _descended(self, state: State, until: int) -> State:
        """Adam's steps up to number ``until``."""
        sizes = self._sizes(state, until)
        if self.problem.anchor.is_cuda and self.problem.capturable:
            if self._replay is None or self._replay.round != state.round:
                self._replay = _Replay(self, state, sizes[0])
            state = self._replay.after(state, sizes)
        else:
            for size in sizes:
                state = self.adam(state, size)
        if until == self.schedule.total:
            loss = _losses(self.problem, state.theta, self.problem.rows(state.theta))
            state = self._settled(state, replace(state, loss=loss))
        return state

    def _sizes(self, state: State, until: int) -> Tensor:
        """Factors of mean gradient and mean square in the steps up to ``until``, shape (steps, 2)."""
        plan, rows = self.schedule, []
        for step in range(state.step, until):
            rate = plan.rate * 0.25**state.round * plan.decay ** (step / plan.steps)
            rows.append((rate / (1 - _FIRST_DECAY ** (step + 1)), 1 / (1 - _SECOND_DECAY ** (step + 1))))
        return torch.tensor(rows, dtype=torch.float64).to(state.theta)

    def adam(self, state: State, size: Tensor) -> State:
        """One step of Adam (Kingma and Ba, 2015); the loss is that before it."""
        problem, theta = self.problem, state.theta
        squares, half = problem.slope(theta)
        away = theta - problem.anchor
        slope = 2 * (half + self._ridges * away)
        first = _FIRST_DECAY * state.first + (1 - _FIRST_DECAY) * slope
        second = _SECOND_DECAY * state.second + (1 - _SECOND_DECAY) * slope.square()
        moved = theta - size[0] * first / ((size[1] * second).sqrt() + _TINY)
        loss = squares + problem.ridge * away.square().sum(-1)
        after = replace(state, theta=moved, first=first, second=second, loss=loss, step=state.step + 1)
        return self._settled(state, after)

    def refined(self, state: State) -> State:
        """One damped Gauss-Newton step of each network, taken where it lowers that network's loss."""
        problem, theta = self.problem, state.theta
        model = self._model if self._model is not None and self._model.theta is theta else _Model.at(problem, theta)
        total = self._ridges + state.damping[:, None]
        share = self._ridges / total
        gram = model.gram.clone()
        gram.diagonal(dim1=-2, dim2=-1).add_(total)
        factor, failed = torch.linalg.cholesky_ex(gram)
        inner = _solved(factor, model.rows - share * model.image)
        move = model.jacobian.combined(inner) + share * model.away
        if self.schedule.curved:
            # The rows' slope along -move is total * inner - rows, by the equation that inner solves.
            change = (problem.rows(theta - _PROBE * move) - model.rows) / _PROBE
            curvature = (2 / _PROBE) * (change - (total * inner - model.rows))
            turn = 0.5 * model.jacobian.combined(_solved(factor, curvature))
            short = turn.norm(dim=-1) <= _MOST_TURN * move.norm(dim=-1)
            move = move + torch.where(short[:, None], turn, 0.0)
        trial = theta - move
        rows = problem.rows(trial)
        trial_loss = _losses(problem, trial, rows)
        better = (trial_loss < model.loss) & (failed == 0)
        loss = torch.where(better, trial_loss, model.loss)
        lower = loss < (1 - self.schedule.share) * state.mark
        stalled = torch.where(lower, 0.0, state.stalled + 1)
        after = replace(
            state,
            theta=torch.where(better[:, None], trial, theta),
            loss=loss,
            damping=torch.where(better, state.damping * _LOWER, state.damping * _RAISE).clamp(*_DAMPINGS),
            mark=torch.where(lower, loss, state.mark),
            stalled=torch.where(loss <= rows.shape[1] * _NOTHING**2, float(PATIENCE), stalled),
            step=state.step + 1,
        )
        settled = self._settled(state, after)
        # A refused step leaves the weights, and so the model, as they were. To ask a GPU would take longer.
        same = self._on_cpu and torch.equal(settled.theta, theta)
        self._model = replace(model, theta=settled.theta) if same else None
        return settled

    def _settled(self, before: State, after: State) -> State:
        """The step of the moving networks; those that became non-finite wait at the anchor, others are unchanged."""
        sound = torch.isfinite(after.loss) & torch.isfinite(after.theta).all(-1)
        moving, parts = before.moving, {}
        for name in PARTS:
            was, now, fresh = (getattr(state, name) for state in (before, after, self._fresh))
            if now is was and not self.schedule.steps:  # Adam's means, which stay at zero
                parts[name] = was
                continue
            axes = (-1, *[1] * (was.ndim - 1))
            parts[name] = torch.where(moving.reshape(axes), torch.where(sound.reshape(axes), now, fresh), was)
        parts["failures"] = before.failures + (moving & ~sound)
        return State(**parts, step=after.step, round=after.round)


def _solved(factor: Tensor, rows: Tensor) -> Tensor:
    return torch.cholesky_solve(rows[..., None], factor)[..., 0]


class _Replay:
    """Adam's step as one graph of the GPU, replayed without its launches one by one."""

    def __init__(self, steps: Steps, like: State, size: Tensor) -> None:
        """Capture the step of the round of ``like``."""
        self.round = like.round
        self._state = replace(like, **{name: getattr(like, name).clone() for name in PARTS})
        self._size = size.clone()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP):
                steps.adam(self._state, self._size)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._hold(steps.adam(self._state, self._size))

    def after(self, state: State, sizes: Tensor) -> State:
        """The state after a step of each size."""
        self._hold(state)
        for size in sizes:
            self._size.copy_(size)
            self._graph.replay()
        parts = {name: getattr(self._state, name).clone() for name in PARTS}
        return replace(state, **parts, step=state.step + len(sizes))

    def _hold(self, state: State) -> None:
        for name in PARTS:
            getattr(self._state, name).copy_(getattr(state, name))
