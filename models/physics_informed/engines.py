"""Engines for an objective that satisfies an equation: networks trained on it, or a sum of its solutions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import known_values
from fieldcraft.models.equations.residuals import residual, system_of
from fieldcraft.models.linear.polynomials import largest_degree
from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.perceptron import Activation, Network
from fieldcraft.models.networks.training import train
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.devices import device
from fieldcraft.models.numerics.digests import stamped
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Observations, Physics, Scaling
from fieldcraft.models.physics_informed.residual_networks import (
    Factors,
    Fixed,
    NetworkPosterior,
    ResidualLoss,
    exact_draw,
    initial,
)
from fieldcraft.models.solutions.polynomial import predicted_doubles
from fieldcraft.models.solutions.posterior import (
    SolutionPosterior,
    fit_solutions,
    forms_of,
    restore_solutions,
)
from fieldcraft.models.surrogate import Report

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Copies alive at once, of the neurons' streams, and of the Gram matrix beside its products of one stream with all.
_ACTIVATIONS, _GRAMS = 8, 5

# Fall of the loss within ten Gauss-Newton steps, relative, below which it has stalled. Along the bent valleys of a
# residual there is always a little left: with a fifth no loss of a heat search ended above that of 100 plain steps.
_SHARE = 0.2

_Moved = TypeVar("_Moved", bound="DataclassInstance")


def _moved(parts: _Moved, device: torch.device) -> _Moved:
    tensors: dict[str, Any] = {
        f.name: v.to(device) for f in fields(parts) if isinstance(v := getattr(parts, f.name), Tensor)
    }
    return replace(parts, **tensors)


def equation_rows(physics: Physics) -> int:
    """Number E r of rows for E equations at r collocation points."""
    return len(physics.points) * len(system_of(physics).sources(physics.points))


def side_points(physics: Physics) -> int:
    """Number m of points on known sides, a row each."""
    return sum(len(side.points) for side in physics.sides)


def fact_rows(physics: Physics) -> int:
    """Number E r + m of rows of equations and known sides."""
    return equation_rows(physics) + side_points(physics)


@dataclass(frozen=True)
class Trained:
    """Networks trained on results and residual (methods, section 3, `engine: trained`).

    Args:
        networks: Independent networks k; at least the batch size. Each is one draw.
        width: Neurons in a hidden layer.
        depth: Hidden layers.
        activation: tanh or sine.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
        nu: Factor of the prediction nu h, in standard deviations of the results.
        weight: Weight of one squared residual against one squared misfit; the residual is divided by the operator's
            largest encoded coefficient.
        steps: Adam steps.
        rate: Adam's first step size.
        decay: Factor on the step size over all Adam steps.
        refinements: Most damped Gauss-Newton steps after Adam; they end where ten of them lower every loss by less than
            a fifth. With too few the network is too smooth near a sharp peak.
        exact_draw: Add the second tangent term, the ridge and the perturbed targets, which make a wide network's
            minimiser a posterior draw (linear equations only); false is the paper.
        noise: Standard deviation of a result in target units that an exact draw assumes if it is not known.
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused.
    """

    networks: int = 1
    width: int = 64
    depth: int = 3
    activation: Activation = "sine"
    frequency: float = 3.0
    nu: float = 6.0
    weight: float = 0.01
    steps: int = 0
    rate: float = 0.005
    decay: float = 0.1
    refinements: int = 100
    exact_draw: bool = False
    noise: float = 0.05
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        for name in ("networks", "width", "depth"):
            refuse_below(name, getattr(self, name))
        for name in ("frequency", "nu", "weight", "rate", "decay", "noise", "memory_gb"):
            refuse_non_positive(name, getattr(self, name))
        if min(self.steps, self.refinements) < 0 or self.steps + self.refinements == 0:
            raise ValueError(
                f"steps is {self.steps} and refinements is {self.refinements}: give numbers >= 0, not both 0."
            )

    def refuse(self, physics: Physics) -> None:
        """Accept any equation, and a linear one for an exact draw; conditions that give values.

        Raises:
            ValueError: an exact draw is requested for an equation that is not linear, or a condition has a slope.
        """
        known_values(physics, Scaling(mean=0.0, sd=1.0, sign=1.0))
        if self.exact_draw and not system_of(physics).linear:
            raise ValueError("exact_draw is true and the equation is not linear: set exact_draw to false.")

    def fit(
        self,
        data: Observations,
        physics: Physics,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> NetworkPosterior:
        """Train from fresh weights, or go on from the checkpoint ``start``.

        Raises:
            ValueError: an exact draw is requested for an equation that is not linear, or the fit would need more than
                ``memory_gb`` or became non-finite again after every restart.
        """
        self.refuse(physics)
        network = self._network(data)
        self._refuse_memory(network, len(data) + fact_rows(physics), 1 + len(system_of(physics).sizes))
        fixed = Fixed.of(start) if start is not None else self._fixed(network, data, physics, rng)
        problem = self._problem(network, data, physics, fixed)
        begun = State.begin(problem.anchor) if start is None else State.of(start, problem.anchor)
        schedule = Schedule(self.steps, self.rate, self.decay, self.refinements, _SHARE, curved=True)
        kept = {**fixed.tensors(), **stamped(data)}
        state = train(problem, begun, schedule, report, lambda state: {**kept, **state.tensors()})
        metrics = problem.metrics(state.theta)
        numbers = torch.tensor([metrics["misfit"], metrics["residual"]], dtype=torch.float64)
        return self._posterior(data, {**kept, **state.tensors(), "achieved": numbers})

    def restore(self, data: Observations, physics: Physics, state: Mapping[str, Tensor]) -> NetworkPosterior:
        """The posterior restored from ``state``."""
        return self._posterior(data, state)

    def _network(self, data: Observations) -> Network:
        return Network(data.X.shape[1], self.width, self.depth, self.activation, self.frequency)

    def _refuse_memory(self, network: Network, rows: int, fields: int) -> None:
        weights, streams = fields * network.size, 2 + network.inputs
        numbers = _ACTIVATIONS * fields * self.width * self.depth * streams
        if self.refinements:
            numbers += (_GRAMS + 3 * streams) * rows
        what = f"Training {self.networks} networks of {weights} weights on {rows} rows"
        remedy = "lower networks, width or the number of collocation points"
        refuse_memory(numbers * self.networks * rows, self.memory_gb, what, remedy)

    def _noise_sd(self, data: Observations) -> float:
        known = data.noise_variance
        # Exactly known results would leave the ridge at zero and the normal equations singular.
        return self.noise if known is None else max(math.sqrt(known), 1e-4)

    def _fixed(self, network: Network, data: Observations, physics: Physics, rng: np.random.Generator) -> Fixed:
        generator = torch_generator(rng)
        system = system_of(physics)
        anchor = initial(network, self.networks, 1 + len(system.sizes), generator)
        n, r = len(data) + side_points(physics), equation_rows(physics)
        if not self.exact_draw:
            return Fixed.plain(anchor, n, r)
        noise = self._noise_sd(data)
        return exact_draw(network, anchor, n, r, noise, noise / math.sqrt(self.weight), generator)

    def _problem(self, network: Network, data: Observations, physics: Physics, fixed: Fixed) -> ResidualLoss:
        place = device()
        # A known value is a result that was not measured.
        told = zip((data.X, data.targets), known_values(physics, data.scaling), strict=True)
        X, targets = (torch.from_numpy(np.concatenate(pair)).to(place) for pair in told)
        return ResidualLoss(
            network,
            X,
            targets,
            _moved(residual(physics, data.scaling), place),
            _moved(fixed, place),
            Factors(self.nu, self.weight, self._noise_sd(data) ** 2 if self.exact_draw else 0.0),
        )

    def _posterior(self, data: Observations, state: Mapping[str, Tensor]) -> NetworkPosterior:
        misfit, left = state["achieved"].tolist()
        loss = float(state["loss"].mean())
        restarts = int(state["counts"][1])
        metrics = {"loss": loss, "misfit": misfit, "residual": left, "restarts": float(restarts)}
        remarks = {"restarts": f"training became non-finite and began again {restarts} times"} if restarts else {}
        network, fixed = self._network(data), Fixed.of(state)
        return NetworkPosterior(network, state["theta"], fixed, self.nu, data.scaling, metrics, remarks, dict(state))


@dataclass(frozen=True)
class Basis:
    """A prior over exact solutions of a linear equation (methods, section 3, `engine: basis`).

    Args:
        degree: Highest degree of the harmonic polynomials, or of the polynomials in each variable that the numerical
            null space is made of; None for the largest, up to 30, with at most 1,000 of these: 9 in three variables.
            For an equation of first order, and a wave equation, also the most half waves; None is up to 100.
        memory_gb: See ``Trained``.
    """

    degree: int | None = None
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.degree is not None:
            refuse_below("degree", self.degree)
        refuse_non_positive("memory_gb", self.memory_gb)

    def refuse(self, physics: Physics) -> None:
        """Accept a single linear equation over a whole box whose solutions fit into the memory limit.

        Raises:
            ValueError: it is another equation, or has conditions or a mask.
        """
        if physics.sides or physics.masked:
            raise ValueError(
                "Engine basis adds up solutions over a whole box and learns from results alone, and the problem states "
                "conditions or a mask: use engine kernel."
            )
        degree = self._degree(physics)
        what = f"Engine basis with polynomials of degree {degree} in {physics.points.shape[1]} variables"
        refuse_memory(predicted_doubles(physics, degree), self.memory_gb, what, "lower the degree")

    def fit(
        self,
        data: Observations,
        physics: Physics,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> SolutionPosterior:
        """Condition the prior; there is neither randomness nor a checkpoint.

        It takes less than a second in the plane, and a few in more variables.

        Raises:
            ValueError: the equation is not a single linear one, polynomials of this degree do not solve it, or the fit
                would need more than ``memory_gb``.
        """
        self.refuse(physics)
        degree = self._degree(physics)
        forms = forms_of(physics, degree, self.degree)
        posterior = fit_solutions(data, physics, degree, forms, stamped(data)["digest"])
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, physics: Physics, state: Mapping[str, Tensor]) -> SolutionPosterior:
        """The posterior restored from ``state``."""
        return restore_solutions(data, physics, self._degree(physics), state)

    def _degree(self, physics: Physics) -> int:
        return largest_degree(physics.points.shape[1]) if self.degree is None else self.degree
