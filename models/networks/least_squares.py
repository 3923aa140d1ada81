"""Parts of a training of k networks on sums of squares: rows, their derivatives, schedule and state."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

PATIENCE = 10
"""Gauss-Newton steps in which a loss must fall by its schedule's share, or it has stalled."""


class Jacobian(Protocol):
    """Derivatives J (k, N, p) of k networks' rows by their weights, not necessarily as a matrix."""

    def gram(self) -> Tensor:
        """J J^T, shape (k, N, N)."""
        ...

    def along(self, directions: Tensor) -> Tensor:
        """J v for v (k, p), shape (k, N)."""
        ...

    def combined(self, weights: Tensor) -> Tensor:
        """J^T w for w (k, N), shape (k, p)."""
        ...


class LeastSquares(Protocol):
    """k losses of the form sum of rows^2 + ridge ||theta - anchor||^2, the ridge a number or one for each, shape (k,).

    ``capturable`` is True if ``slope`` is the same operations of the device at every theta, without a number from the
    host: a GPU may then replay them.
    """

    anchor: Tensor
    capturable: bool

    @property
    def ridge(self) -> float | Tensor:
        """The ridge."""
        ...

    def rows(self, theta: Tensor) -> Tensor:
        """Rows at theta (k, p), shape (k, N)."""
        ...

    def linearised(self, theta: Tensor) -> tuple[Tensor, Jacobian]:
        """Rows (k, N) and their derivatives, without a graph."""
        ...

    def slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the squared rows (k,), and half its gradient J^T r (k, p)."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Numbers of steps, and step sizes.

    Args:
        steps: Adam steps.
        rate: Adam's first step size.
        decay: Factor on the step size over the whole of Adam, exponential in the step.
        refinements: Gauss-Newton steps after Adam.
        share: Fall of a loss, relative, within ten Gauss-Newton steps; a network whose loss falls less has stalled.
        curved: Correct Gauss-Newton steps by the rows' curvature: for losses that fall along bent valleys.
        restarts: Largest number of restarts of a training that became non-finite, each at a quarter of the rate.
        report_every: Steps between two reports.
    """

    steps: int
    rate: float
    decay: float
    refinements: int
    share: float = 1e-9
    curved: bool = False
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
    non-finite once more wait at the anchor for the next round. A network whose loss has stalled takes no more steps.

    Args:
        theta: Weights, shape (k, p).
        first: Adam's running mean of the gradient, shape (k, p).
        second: Adam's running mean of its square, shape (k, p).
        damping: Gauss-Newton damping of each network, shape (k,).
        loss: Loss of each network when it was last known, shape (k,); infinite before the first step.
        failures: Number of times each network became non-finite, shape (k,).
        mark: Loss at which the count of ``stalled`` began, shape (k,).
        stalled: Gauss-Newton steps since, shape (k,).
        step: Steps done in this round, of both kinds.
        round: Number of the round, from 0.
    """

    theta: Tensor
    first: Tensor
    second: Tensor
    damping: Tensor
    loss: Tensor
    failures: Tensor
    mark: Tensor
    stalled: Tensor
    step: int = 0
    round: int = 0

    @property
    def active(self) -> Tensor:
        """True for networks of this round, shape (k,)."""
        return self.failures == self.round

    @property
    def moving(self) -> Tensor:
        """True for networks of this round whose loss has not stalled, shape (k,)."""
        return self.active & (self.stalled < PATIENCE)

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
        none = torch.zeros_like(infinite)
        return cls(theta, zero, zero, torch.ones_like(infinite), infinite, none, infinite, none)

    def some(self, rows: slice) -> "State":
        """The state of some of the networks."""
        return replace(self, **{name: getattr(self, name)[rows] for name in PARTS})

    def result(self) -> dict[str, Tensor]:
        """Weights, loss and counts as in ``tensors``: what counts once the training has ended."""
        counts = torch.tensor([self.step, self.restarts, self.round])
        return {"theta": self.theta.detach().cpu(), "loss": self.loss.detach().cpu(), "counts": counts}

    def tensors(self) -> dict[str, Tensor]:
        """The state as tensors on the CPU."""
        parts = {name: getattr(self, name).detach().cpu() for name in PARTS}
        return {**parts, "counts": torch.tensor([self.step, self.restarts, self.round])}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], like: Tensor) -> "State":
        """The state restored from ``tensors``, on the device and in the precision of ``like``.

        A checkpoint of an earlier version counts no stalled steps; the count begins where it was left.
        """
        step, _, number = (int(count) for count in tensors["counts"])
        known = {name: tensors[name].to(like) for name in PARTS if name in tensors}
        return replace(cls.begin(like), **known, step=step, round=number)


PARTS = ("theta", "first", "second", "damping", "loss", "failures", "mark", "stalled")
