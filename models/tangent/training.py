"""Training of k networks about their tangent rows: Levenberg-Marquardt in the dual, the rows never written out.

    f(x; theta, a) = s(x) (h(x/l; theta) + <phi_0(x/l), theta_0'>) + sqrt(c) a,    s(x) = s_f / |phi_0(x/l)|
    loss = sum (y + eps - f)^2 + noise (||theta - theta_0||^2 + (a - a_0)^2)

with phi_0 the rows at theta_0: at the start the rows of f are exactly those of the tangent kernel, so that one undamped
step from there is the closed form of the linear model. With theta_0, theta_0' (zero in the last layer) and a_0 drawn
and eps ~ N(0, noise), a wide network's minimiser is a posterior draw (STO-BNTS: Dai et al., 2022); with theta_0' = 0,
a_0 = 0 and eps = 0 it is the posterior mean (Neural-BO: Phan-Trong et al., 2023).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.training import attempt
from fieldcraft.models.numerics.devices import device
from fieldcraft.models.surrogate import Report
from fieldcraft.models.tangent.features import Passes, combine, gram, project
from fieldcraft.models.tangent.kernel import TangentKernel

_REPORT_EVERY = 100  # observations of one pass


@dataclass(frozen=True)
class Start:
    """All the randomness of k trainings.

    Args:
        theta: theta_0, shape (k, p), or (k, 2p) for antisymmetric pairs.
        tangent: theta_0', as long.
        constant: a_0, shape (k,).
        perturbation: eps, shape (k, n).
    """

    theta: Tensor
    tangent: Tensor
    constant: Tensor
    perturbation: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return {f"start_{name}": getattr(self, name) for name in _PARTS}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Start":
        """Start restored from its ``tensors``."""
        return cls(**{name: tensors[f"start_{name}"] for name in _PARTS})

    @classmethod
    def joined(cls, parts: "Sequence[Start]") -> "Start":
        """The randomness of all trainings of several starts."""
        return cls(**{name: torch.cat([getattr(each, name) for each in parts]) for name in _PARTS})

    def some(self, rows: slice) -> "Start":
        """The randomness of some of the trainings."""
        return Start(**{name: getattr(self, name)[rows] for name in _PARTS})

    def to(self, device: torch.device) -> "Start":
        """Copy on another device."""
        return Start(**{name: getattr(self, name).to(device) for name in _PARTS})


_PARTS = ("theta", "tangent", "constant", "perturbation")


@dataclass(frozen=True, eq=False)
class Family:
    """The functions f of k networks.

    Args:
        kernel: At theta_0 of all of them, (k, p) or (k, 2p).
        start: Start of their training.
    """

    kernel: TangentKernel
    start: Start

    @classmethod
    def joined(cls, parts: "Sequence[Family]") -> "Family":
        """The networks of several families of one shape, each with the kernel of its own."""
        kernels = [replace(each.kernel, theta=theta) for each in parts for theta in each.kernel.theta]
        return cls(TangentKernel.stacked(kernels), Start.joined([each.start for each in parts]))

    @property
    def anchor(self) -> Tensor:
        """(theta_0, a_0), shape (k, p + 1)."""
        return torch.cat([self.start.theta, self.start.constant[:, None]], dim=1)

    def values(self, weights: Tensor, X: Tensor) -> Tensor:
        """f at X (n, d) for weights (theta, a) (k, p + 1), shape (k, n), differentiable in both."""
        return self.moved(weights, X, *self.fixed(X))

    def fixed(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Factors that training does not change at X: s(x) and s(x) <phi_0(x), theta_0'>, each (k, n)."""
        passes = self.kernel.passes(X)
        factors = self.kernel.factors(passes)
        if not self.start.tangent.any():
            return factors, torch.zeros_like(factors)
        return factors, factors * project(passes, self.start.tangent)

    def moved(self, weights: Tensor, X: Tensor, factors: Tensor, added: Tensor) -> Tensor:
        """Values as from ``values``, with the results of ``fixed`` already known."""
        inner = self.kernel.network.value(weights[:, :-1], X / self.kernel.scales)
        return self._outer(inner, weights, factors, added)

    def moved_with_rows(self, weights: Tensor, X: Tensor, factors: Tensor, added: Tensor) -> tuple[Tensor, Passes]:
        """``moved``, and the rows of f by its weights."""
        inner, passes = self.kernel.network.valued(weights[:, :-1], X / self.kernel.scales)
        return self._outer(inner, weights, factors, added), self.kernel.joined(passes, factors)

    def _outer(self, inner: Tensor, weights: Tensor, factors: Tensor, added: Tensor) -> Tensor:
        return factors * inner + added + self.kernel.root_constant * weights[:, -1:]

    def linear(self, weights: Tensor, X: Tensor) -> Tensor:
        """f linearised in the weights about the start, used where training diverged, shape (k, n)."""
        return self.values(self.anchor, X) + project(self.kernel.rows(X), weights - self.anchor)

    def member(self, i: int) -> "Family":
        """Network i alone."""
        rows = slice(i, i + 1)
        return Family(replace(self.kernel, theta=self.kernel.theta[rows]), self.start.some(rows))

    def to(self, device: torch.device) -> "Family":
        """Copy on another device."""
        kernel = replace(self.kernel, theta=self.kernel.theta.to(device), scales=self.kernel.scales.to(device))
        return Family(kernel, self.start.to(device))


@dataclass(frozen=True)
class _Rows:
    """Derivatives of the rows of f by its weights, layer by layer."""

    passes: Passes

    def gram(self) -> Tensor:
        return gram(self.passes, self.passes)

    def along(self, directions: Tensor) -> Tensor:
        return project(self.passes, directions)

    def combined(self, weights: Tensor) -> Tensor:
        return combine(self.passes, weights)


class TangentLoss:
    """The loss of ``Family`` over results (see ``models.networks.least_squares``).

    A step that is taken asks for the rows at its end, and the next one for their derivatives there. On the CPU both
    come from one pass, which is kept until the next question.
    """

    capturable = False  # its kernel brings numbers from the host

    def __init__(self, family: Family, X: Tensor, y: Tensor, noise: float | Tensor) -> None:
        """Lay out the rows for encoded X (n, d), targets (n,) or (k, n) and noise, a number or (k,), on one device."""
        self.family, self.X, self.ridge = family, X, noise
        self.anchor = family.anchor
        self._targets = y + family.start.perturbation
        self._factors, self._added = family.fixed(X)
        self._kept: tuple[Tensor, tuple[Tensor, Passes]] | None = None

    def rows(self, theta: Tensor) -> Tensor:
        """f - y - eps, shape (k, n)."""
        if theta.is_cuda:
            return self.family.moved(theta, self.X, self._factors, self._added) - self._targets
        passed = self._passed(theta)
        self._kept = theta, passed
        return passed[0]

    def linearised(self, theta: Tensor) -> tuple[Tensor, _Rows]:
        """Rows and their derivatives."""
        known = self._kept is not None and torch.equal(self._kept[0], theta)
        rows, passes = self._kept[1] if self._kept is not None and known else self._passed(theta)
        return rows, _Rows(passes)

    def _passed(self, theta: Tensor) -> tuple[Tensor, Passes]:
        values, passes = self.family.moved_with_rows(theta, self.X, self._factors, self._added)
        return values - self._targets, passes

    def slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the squared rows (k,), and half its gradient (k, p + 1)."""
        rows, jacobian = self.linearised(theta)
        return rows.square().sum(-1), jacobian.combined(rows)

    def closed_form(self) -> tuple[Tensor, Tensor]:
        """The linear model's minimiser (k, p + 1) and its loss (k,).

        Raises:
            ValueError: the Gram matrix has no factor at this noise.
        """
        rows, jacobian = self.linearised(self.anchor)
        ridge = self.ridge[:, None] if isinstance(self.ridge, Tensor) else self.ridge
        solved = Factor.of(jacobian.gram(), ridge).solve(rows)
        # Of the ridge regression's rows, ridge * solved is left, and the weights have moved by J^T solved.
        return self.anchor - jacobian.combined(solved), self.ridge * (rows * solved).sum(-1)


def trained(
    family: Family,
    X: Tensor,
    y: Tensor,
    noise: float | Tensor,
    schedule: Schedule,
    start: Mapping[str, Tensor] | None,
    report: Report,
) -> State:
    """Train all networks together, or go on from the checkpoint ``start``.

    Args:
        family: The networks.
        X: Where the results were read, encoded, shape (n, d).
        y: Targets, shape (n,), or (k, n) for those of each network.
        noise: Ridge, a number, or (k,) for that of each network.
        schedule: Numbers and sizes of the steps.
        start: Checkpoint of an interrupted training, or None.
        report: See Surrogate.fit.

    Returns:
        The state at the end. The weights of a network that is ``lost``, whose training diverged for good, are those of
        the closed form, which is finite.

    Raises:
        ValueError: a training diverged for good and the closed form has no factor at this noise.
    """
    place = device()
    problem = TangentLoss(
        family.to(place), X.to(place), y.to(place), noise.to(place) if isinstance(noise, Tensor) else noise
    )
    kept = family.start.tensors()
    begun = State.begin(problem.anchor) if start is None else State.of(start, problem.anchor)
    state = attempt(problem, begun, schedule, report, lambda state: {**kept, **state.tensors()})
    lost = state.lost
    if bool(lost.any()):
        weights, loss = problem.closed_form()
        theta = torch.where(lost[:, None], weights, state.theta)
        state = replace(state, theta=theta, loss=torch.where(lost, loss, state.loss))
    return state


def one_pass(
    family: Family, X: Tensor, y: Tensor, rate: float, start: Mapping[str, Tensor] | None, report: Report
) -> dict[str, Tensor]:
    """Make one step of gradient descent for each observation in order, or go on from the checkpoint ``start``.

    W <- W + rate (y_t - a(x_t; W)) da(x_t; W)/dW for t = 1, ..., n, from W_0 (Neural-CBO: Phan-Trong, 2024, ch. 4).

    Args:
        family: The networks, k of them.
        X: Encoded designs in the order of the trials, shape (n, d).
        y: Their targets, shape (n,).
        rate: Step size, > 0.
        start: A checkpoint of an interrupted pass over the same data.
        report: Called with the progress from time to time.

    Returns:
        ``theta`` (k, p + 1) with the constant last, ``loss`` (k,), the sum of squares that is left, and ``counts``, of
        which the first is the number of observations read.

    Raises:
        ValueError: the weights became non-finite.
    """
    weights = family.anchor if start is None else start["theta"]
    for t in range(0 if start is None else int(start["counts"][0]), len(y)):
        weights = _stepped(family, weights, X[t : t + 1], y[t], rate)
        if (t + 1) % _REPORT_EVERY == 0:
            state = _state(family, weights, X, y, t + 1)
            report(t + 1, {"loss": float(state["loss"].mean())}, state.copy)
    if not bool(torch.isfinite(weights).all()):
        raise ValueError(f"One pass over {len(y)} trials at the rate {rate:g} became non-finite: lower the rate.")
    return _state(family, weights, X, y, len(y))


def _stepped(family: Family, weights: Tensor, x: Tensor, y: Tensor, rate: float) -> Tensor:
    at = weights.detach().requires_grad_()
    value = family.values(at, x)[:, 0]
    (slope,) = torch.autograd.grad(value.sum(), at)
    return weights + rate * (y - value.detach())[:, None] * slope


def _state(family: Family, weights: Tensor, X: Tensor, y: Tensor, read: int) -> dict[str, Tensor]:
    with torch.no_grad():
        loss = (y - family.values(weights, X)).square().sum(-1)
    return {"theta": weights, "loss": loss, "counts": torch.tensor([read, 0, 0])}
