"""Training of k independent networks on sums of squares: Adam, then damped Gauss-Newton steps, both resumable.

A network that becomes non-finite begins again at a quarter of the rate, in a separate round after the others are done.
Each network therefore ends with the weights that it would reach alone.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fieldcraft.models.networks.least_squares import LeastSquares, Schedule, State
from fieldcraft.models.networks.steps import Steps
from fieldcraft.models.surrogate import Report


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
    """Train from ``state`` to the end of ``schedule``, or until every loss has stalled.

    Networks that no restart rescued are ``lost``, at the anchor. A training that is continued from any reported state
    gives the same weights, bit for bit, on the same device and number of threads. Between two reports the host reads
    nothing from the device.
    """
    steps = Steps(problem, schedule)
    while True:
        if state.step == schedule.total or not bool(state.moving.any()):
            if state.round == schedule.restarts or not bool(state.lost.any()):
                return state
            state = replace(state, step=0, round=state.round + 1)
        state = steps.taken(state)
        if bool(state.active.any()):
            report(state.step, _metrics(state), partial(checkpoint, state))


def _metrics(state: State) -> dict[str, float]:
    """Mean loss over the networks that have one, and number of restarts."""
    known = state.loss[torch.isfinite(state.loss)]
    return {"loss": float(known.mean()), "restarts": float(state.restarts)}
