"""Networks trained on results only: the rows of their loss, and their training."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.networks.layer_rows import LayerRows, Places
from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.members import MembersPosterior
from fieldcraft.models.networks.perceptron import Activation, Network
from fieldcraft.models.networks.training import train
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.devices import device
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Report

# Exactly known results would leave the ridge at zero and the normal equations singular.
_LEAST_NOISE_SD = 1e-4
# Copies alive at once, of what the neurons give and of the Gram matrix.
_ACTIVATIONS, _GRAMS = 8, 6


class MisfitLoss:
    """sum (h(x) - y)^2 + ridge ||theta - theta_0||^2 for k networks (see ``models.networks.least_squares``)."""

    capturable = True

    def __init__(
        self,
        network: Network,
        X: Tensor,
        targets: Tensor,
        anchor: Tensor,
        ridge: float,
        seen: Tensor | None = None,
    ) -> None:
        """Take encoded X (n, d), targets (n,) or (k, n), and initial weights ``anchor`` (k, p).

        ``seen`` (k, n) is 1 for the results that a network learns from and 0 for others; None for all.
        """
        self.network, self.targets, self.anchor, self.ridge = network, targets, anchor, ridge
        self.places = Places.values(X)
        self.seen = torch.ones_like(anchor[:, :1]).expand(-1, len(X)) if seen is None else seen

    def rows(self, theta: Tensor) -> Tensor:
        """Misfits at theta (k, p), shape (k, n)."""
        return self.seen * (self.places.outputs(self.network, theta) - self.targets)

    def linearised(self, theta: Tensor) -> tuple[Tensor, LayerRows]:
        """Misfits (k, n) and their derivatives by theta."""
        passed = self.places.forwards(self.network, theta)
        return self.seen * (passed.outputs - self.targets), passed.backwards(self.seen.contiguous())

    def slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the squared misfits (k,), and half its gradient (k, p)."""
        passed = self.places.forwards(self.network, theta)
        rows = self.seen * (passed.outputs - self.targets)
        return rows.square().sum(-1), passed.backwards(rows).summed()


@dataclass(frozen=True)
class Training:
    """Options for the training of networks of one shape from fresh weights.

    Its fields are the options of ``ValueNetworks``, which says what they mean.

    Raises:
        ValueError: a number is out of its range.
    """

    networks: int
    width: int
    depth: int
    activation: Activation
    frequency: float
    steps: int
    rate: float
    refinements: int
    noise: float
    memory_gb: float

    def __post_init__(self) -> None:
        for name in ("networks", "width", "depth"):
            refuse_below(name, getattr(self, name))
        for name in ("frequency", "rate", "noise", "memory_gb"):
            refuse_non_positive(name, getattr(self, name))
        if min(self.steps, self.refinements) < 0 or self.steps + self.refinements == 0:
            raise ValueError(
                f"steps is {self.steps} and refinements is {self.refinements}: give numbers >= 0, not both 0."
            )

    def network(self, data: Observations) -> Network:
        """The shape of a network for data."""
        return Network(data.X.shape[1], self.width, self.depth, self.activation, self.frequency)

    def noise_sd(self, data: Observations) -> float:
        """Standard deviation of a result, in target units."""
        known = data.noise_variance
        return self.noise if known is None else max(math.sqrt(known), _LEAST_NOISE_SD)

    def _refuse_memory(self, n: int, weights: int) -> None:
        numbers = _ACTIVATIONS * self.width * self.depth + (_GRAMS * n if self.refinements else 0)
        what = f"Training {self.networks} networks of {weights} weights on {n} trials"
        refuse_memory(numbers * self.networks * n, self.memory_gb, what, "lower networks or width")

    def run(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> dict[str, Tensor]:
        """The last checkpoint of training on data, from fresh weights or from the checkpoint ``start``.

        Raises:
            ValueError: ``start`` is of other data, the loss became non-finite again after every restart, or the
                training would need more than ``memory_gb``.
        """
        if start is not None:
            refuse_other_data(data, start)
        network = self.network(data)
        self._refuse_memory(len(data), network.size)
        anchor = network.initial(self.networks, torch_generator(rng)) if start is None else start["anchor"]
        place = device()
        X, targets = torch.tensor(data.X).to(place), torch.tensor(data.targets).to(place)
        problem = MisfitLoss(network, X, targets, anchor.to(place), self.noise_sd(data) ** 2)
        begun = State.begin(problem.anchor) if start is None else State.of(start, problem.anchor)
        kept = {**stamped(data), "anchor": anchor}
        schedule = Schedule(self.steps, self.rate, 0.1, self.refinements)
        state = train(problem, begun, schedule, report, lambda state: {**kept, **state.tensors()})
        return {**kept, **state.tensors(), "misfit": problem.rows(state.theta).square().mean().sqrt().cpu()}


def metrics_of(state: Mapping[str, Tensor]) -> dict[str, float]:
    """Loss, root mean square misfit in target units and number of restarts, over all networks."""
    loss, misfit = float(state["loss"].mean()), float(state["misfit"])
    return {"loss": loss, "misfit": misfit, "restarts": float(state["counts"][1])}


@dataclass(frozen=True)
class ValueNetworks(ABC):
    """A surrogate whose draws are networks trained on the results, each from its own weights.

    Args:
        networks: Number k of networks.
        width: Neurons in a hidden layer.
        depth: Hidden layers.
        activation: tanh or sine.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
        steps: Adam steps.
        rate: Adam's first step size.
        refinements: Damped Gauss-Newton steps after Adam.
        noise: Standard deviation of a result, in target units, if it is not known; its square is the ridge.
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused.
    """

    uses_physics: ClassVar[bool] = False

    networks: int = 1
    width: int = 64
    depth: int = 2
    activation: Activation = "sine"
    frequency: float = 2.0
    steps: int = 0
    rate: float = 0.01
    refinements: int = 60
    noise: float = 0.1
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        self._training()

    @property
    @abstractmethod
    def divisor(self) -> float:
        """Divisor of the summed squared deviations from the networks' mean, for a variance; infinite for none."""

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> MembersPosterior:
        """Train the networks (see Surrogate.fit).

        Raises:
            ValueError: ``start`` is of other data, the loss became non-finite again after every restart, or the fit
                would need more than ``memory_gb``.
        """
        return self.restore(data, self._training().run(data, rng, start, report))

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> MembersPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        training, theta = self._training(), state["theta"]
        network = training.network(data)
        return MembersPosterior(
            members=lambda X: network.value(theta, X),
            transform=torch.eye(len(theta), dtype=theta.dtype),
            divisor=self.divisor,
            noise=training.noise_sd(data) ** 2,
            scaling=data.scaling,
            metrics=metrics_of(state),
            kept=state,
        )

    def _training(self) -> Training:
        return Training(**asdict(self))
