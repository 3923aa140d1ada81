"""Surrogate that uses the equation its objective satisfies (PINN-BO: Phan-Trong et al.; thesis chapter 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.networks.perceptron import Activation
from fieldcraft.models.numerics.digests import refuse_other_data
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.engines import Basis, Trained
from fieldcraft.models.physics_informed.joint_engines import NTK, Kernel
from fieldcraft.models.physics_informed.joint_posterior import JointPosterior
from fieldcraft.models.physics_informed.operator_kernels import Kernel as KernelName
from fieldcraft.models.physics_informed.residual_networks import NetworkPosterior
from fieldcraft.models.solutions.posterior import SolutionPosterior
from fieldcraft.models.surrogate import Report

_Engine = Trained | Basis | Kernel | NTK
_Posterior = NetworkPosterior | SolutionPosterior | JointPosterior

_ENGINES: dict[str, type[_Engine]] = {"trained": Trained, "basis": Basis, "kernel": Kernel, "ntk": NTK}


@dataclass(frozen=True)
class PhysicsInformed:
    """A surrogate that learns from the results and from N[f] = g at the collocation points.

    ``kernel`` and ``ntk`` learn from every condition on a side of the domain, ``trained`` from known values.

    Args:
        engine: ``trained``: k networks trained on both, each one draw. ``basis``: a Gaussian prior over the equation's
            exact solutions, where it is linear. ``kernel``: a Gaussian process with an ordinary covariance, conditioned
            on the equation at the collocation points, where it is linear. ``ntk``: the same with a network's tangent
            kernel.
        networks: Independent networks k of ``trained`` (1); at least the batch size. Each is one draw.
        width: Neurons in a hidden layer of ``trained`` (64) or ``ntk`` (200).
        depth: Hidden layers of ``trained`` (3) or ``ntk`` (1).
        activation: tanh or sine, of ``trained`` (sine) or ``ntk`` (sine).
        frequency: Factor on the first layer's weights of ``trained`` (3) or ``ntk`` (1); larger means rougher functions
            before any data.
        nu: Factor of the prediction nu h of ``trained`` (6), in standard deviations of the results.
        weight: Weight of one squared residual against one squared misfit in ``trained`` (0.01); the residual is divided
            by the operator's largest encoded coefficient.
        steps: Adam steps of ``trained`` (0).
        rate: Adam's first step size in ``trained`` (0.005).
        decay: Factor on the step size over all Adam steps of ``trained`` (0.1).
        refinements: Most damped Gauss-Newton steps of ``trained`` after Adam (100); they end where ten of them lower
            every loss by less than a fifth.
        exact_draw: Make a wide network of ``trained`` a posterior draw (false, as in the paper): add the second tangent
            term, the ridge and the perturbed targets. Linear equations only.
        noise: Standard deviation of a result in target units that an exact draw of ``trained`` assumes if it is not
            known (0.05).
        degree: Highest degree of the polynomials of ``basis``, and most half waves for one of first order or waves; by
            default the largest, up to 30 and 100, with at most 1,000 functions.
        kernel: "rbf" (smooth functions) or "matern52" (twice differentiable ones), of ``kernel`` ("rbf"; "matern52"
            where the domain has a mask, at whose corners a solution may be rough).
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused; every engine has
            it (4).

    An option belongs to the engines that its meaning names, with their defaults in brackets. None takes the default.

    Raises:
        ValueError: an option is out of range or does not belong to the engine.
    """

    uses_physics: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EQUATION})

    engine: Literal["trained", "basis", "kernel", "ntk"]
    networks: int | None = None
    width: int | None = None
    depth: int | None = None
    activation: Activation | None = None
    frequency: float | None = None
    nu: float | None = None
    weight: float | None = None
    steps: int | None = None
    rate: float | None = None
    decay: float | None = None
    refinements: int | None = None
    exact_draw: bool | None = None
    noise: float | None = None
    degree: int | None = None
    kernel: KernelName | None = None
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        if self.engine not in _ENGINES:
            raise ValueError(f"engine is {self.engine!r}: choose one of {', '.join(_ENGINES)}.")
        known = {f.name for f in fields(_ENGINES[self.engine])}
        foreign = [name for name in self._options() if name not in known]
        if foreign:
            raise ValueError(
                f"{', '.join(foreign)} given with engine {self.engine}, which has no such option: leave it out. "
                f"It has: {', '.join(sorted(known))}."
            )
        self._engine()

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> _Posterior:
        """The posterior for data, which must have ``physics`` (see ``Surrogate.fit``).

        Raises:
            ValueError: the data has no equation, ``start`` belongs to other data, or the engine cannot be fitted.
        """
        if start is not None:
            refuse_other_data(data, start)
        return self._engine().fit(data, _physics(data), rng, start, report)

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> _Posterior:
        """The posterior restored from ``state`` (see ``Surrogate.restore``)."""
        refuse_other_data(data, state)
        return self._engine().restore(data, _physics(data), state)

    def refuse(self, physics: Physics) -> None:
        """Accept an equation that the engine can learn from.

        Raises:
            ValueError: it is not linear, a system or too large, it has conditions or a mask, and the engine cannot use
                it.
        """
        self._engine().refuse(physics)

    @property
    def resolved(self) -> Mapping[str, Any]:
        """The options in force: those of the engine."""
        return vars(self._engine()).copy()

    def _options(self) -> dict[str, Any]:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "engine"}
        return {name: value for name, value in given.items() if value is not None}

    def _engine(self) -> _Engine:
        return _ENGINES[self.engine](**self._options())


def _physics(data: Observations) -> Physics:
    if data.physics is None:
        raise ValueError(
            "The problem states no equation for its objective and surrogate physics_informed needs one: give the "
            "problem an `equation` and a `domain`, or use surrogate exact_gp."
        )
    return data.physics
