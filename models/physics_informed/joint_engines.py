"""Engines that condition a Gaussian process on results and on a linear equation's rows together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.functionals import JointRows, joint_rows
from fieldcraft.models.equations.residuals import LinearRow, linear_rows, linearised_rows, system_of
from fieldcraft.models.networks.perceptron import Activation, Network, Streams, hessian_forms
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.digests import stamped
from fieldcraft.models.numerics.length_scales import EQUATION
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Array, Observations, Physics, Scaling
from fieldcraft.models.physics_informed.engines import fact_rows
from fieldcraft.models.physics_informed.joint_evidence import Belief, choose_hyper
from fieldcraft.models.physics_informed.joint_posterior import JointPosterior, condition, information
from fieldcraft.models.physics_informed.joint_process import Covariance, Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Kernel as KernelName
from fieldcraft.models.physics_informed.operator_kernels import Stationary, Tangent
from fieldcraft.models.solutions.separable import SeparableSum, separable_sum
from fieldcraft.models.surrogate import Report

# A right-hand side is seldom a sum by chance: odds for such a solution before the results.
_SELDOM = math.log(20)
# Key of the state of a process that is the difference to a known solution.
_BESIDE = "beside"
_HYPER = ("scales", "sds", "noise", "slack")
_BELIEF = Belief(scales=EQUATION)
# Variables beyond which a process returns to its mean between the results, so that this has to be learnt: its variance,
# in those of the process.
_FEW, _LEVEL = 3, 10.0
# Matrices of the size of a field's covariance that are alive at once: a gradient keeps its intermediates.
_COPIES = 60


@dataclass(frozen=True)
class JointModel:
    """Result of an engine without the hyper-parameters.

    Args:
        rows: Equations and results.
        covariances: kappa of each field.
        beliefs: Priors of the hyper-parameters.
        scaling: Map between targets and results.
        remarks: Notes on how it was made.
        kept: Tensors the engine needs to build this again.
        solution: See ``JointPosterior``.
    """

    rows: JointRows
    covariances: tuple[Covariance, ...]
    beliefs: tuple[Belief, ...]
    scaling: Scaling
    remarks: Mapping[str, str]
    kept: Mapping[str, Tensor]
    solution: SeparableSum | None = None

    def beside(self, solution: SeparableSum) -> "JointModel":
        """The model of the difference to a known solution."""
        left = replace(self.rows, targets=self.rows.targets - solution.image(self.rows.fields[0]))
        remark = {"solution": "a sum of functions of one variable solves the equation; what differs from it is learnt"}
        kept = {**self.kept, _BESIDE: torch.ones(1, dtype=torch.uint8)}
        return replace(self, rows=left, solution=solution, remarks={**self.remarks, **remark}, kept=kept)

    def fitted(self, noise_variance: float | None) -> JointPosterior:
        """The posterior at the likeliest hyper-parameters.

        Raises:
            ValueError: none gives a covariance that is positive definite to rounding.
        """
        hyper, evidence = choose_hyper(self.covariances, self.rows, self.beliefs, noise_variance)
        metrics = {"log_evidence": evidence, **_named(hyper)}
        metrics |= information(JointProcess(self.covariances, hyper), self.rows)
        state = {f"hyper.{name}": getattr(hyper, name) for name in _HYPER}
        state |= {f"metric.{name}": torch.tensor(value, dtype=torch.float64) for name, value in metrics.items()}
        return self._posterior(hyper, metrics, {**self.kept, **state})

    def restored(self, state: Mapping[str, Tensor]) -> JointPosterior:
        """The posterior restored from ``state``, computed again in the same way: identical to the bit."""
        hyper = Hyper(**{name: state[f"hyper.{name}"] for name in _HYPER})
        metrics = {name.removeprefix("metric."): float(v) for name, v in state.items() if name.startswith("metric.")}
        return self._posterior(hyper, metrics, state)

    def _posterior(self, hyper: Hyper, metrics: Mapping[str, float], state: Mapping[str, Tensor]) -> JointPosterior:
        process = JointProcess(self.covariances, hyper)
        remarks = {**self.remarks, **_doubted(hyper)}
        return condition(process, self.rows, self.scaling, metrics, remarks, state, self.solution)


def _refuse_memory(data: Observations, physics: Physics, memory_gb: float) -> None:
    n, rows, fields = len(data), fact_rows(physics), 1 + len(system_of(physics).sizes)
    of = "the equation and its known sides" if physics.sides else "the equation"
    what = f"Conditioning on {n} trials and {rows} rows of {of}"
    remedy = "take fewer collocation points"
    refuse_memory(_COPIES * fields * (n + rows) ** 2, memory_gb, what, remedy)


def _doubted(hyper: Hyper) -> dict[str, str]:
    """Remark where the equation's rows are doubted by more than they could differ without it; else none."""
    slack_sd = float((hyper.slack / 2).exp())
    if slack_sd < 1:
        return {}
    return {
        "equation": f"counts for little beside the results: its rows are doubted by {slack_sd:.2g} of their standard "
        "deviations; check its coefficients, and the sign and unit of its right-hand side"
    }


def _named(hyper: Hyper) -> dict[str, float]:
    """The objective's hyper-parameters, in encoded coordinates and target units."""
    lengths = (-hyper.scales[0]).exp().tolist()
    named = {f"length_scale_{i}": length for i, length in enumerate(lengths)}
    noise_sd, slack_sd = float((hyper.noise / 2).exp()), float((hyper.slack / 2).exp())
    return {**named, "output_sd": float(hyper.sds[0].exp()), "noise_sd": noise_sd, "slack_sd": slack_sd}


def _rough(points: Array) -> tuple[Belief, ...]:
    """Belief in an objective as rough as the points (r, d) show in one variable; none in more variables.

    Half the box's width is a poor guess of the length scale of such a solution. It is sought from four times the
    spacing of the points, with auxiliary fields from half the width, and from rows that hardly differ. Noisy results
    of a smooth solution seldom make it 20 times as likely.
    """
    finest = math.log(len(points) / 8)
    if points.shape[1] > 1 or finest < 1:
        return ()
    half = finest / 2
    starts, limits = ((half, -half),), (-3.0, finest + 1.0)
    return (Belief(scales=(half, half), starts=starts, slacks=(-14.0,), limits=limits, odds=-math.log(20)),)


def _in_many(d: int) -> tuple[Belief, ...]:
    """Beliefs in more than three variables d: length scales about half the box's width, or grown as distances do.

    The equation may there say too little, or too much, from the start.
    """
    middle, sd = EQUATION
    slacks = (-10.0, 2.0)
    grown = Belief(scales=(middle - 0.5 * math.log(d / _FEW), sd), starts=((0.0, 0.0),), slacks=slacks)
    return (Belief(scales=EQUATION, slacks=slacks), grown)


@dataclass(frozen=True)
class Kernel:
    """An ordinary covariance with the operator applied on both sides (methods, section 3, `engine: kernel`).

    One length scale a coordinate, the output scale, the noise if it is not known and the equation's slack are
    chosen by marginal likelihood; each auxiliary field of a system has its own. In one variable the length scale may
    be far below the box's width, down to what the points show. Of more than three variables the mean is an unknown
    constant, and the length scales may have grown with the root of their number. Where a sum of functions of one
    variable solves the equation, there, the difference to it is learnt, unless the results are far likelier otherwise.

    Args:
        kernel: "rbf" (smooth functions) or "matern52" (twice differentiable ones); None for matern52 where the
            domain has a mask, at whose corners a solution may be rough, and else for rbf.
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused.
    """

    kernel: KernelName | None = None
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        refuse_non_positive("memory_gb", self.memory_gb)
        if self.kernel not in (None, "rbf", "matern52"):
            raise ValueError(f"kernel is {self.kernel!r}: choose rbf or matern52.")

    def refuse(self, physics: Physics) -> None:
        """Accept a linear equation or system.

        Raises:
            ValueError: it is not linear.
        """
        if not system_of(physics).linear:
            raise ValueError("The equation is not linear and engine kernel needs a linear one: use ntk or trained.")

    def fit(
        self,
        data: Observations,
        physics: Physics,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> JointPosterior:
        """Fit, without randomness; the only checkpoint is the finished fit.

        Raises:
            ValueError: the equation is not linear, no hyper-parameters give a finite likelihood, or the fit would need
                more than ``memory_gb``.
        """
        _refuse_memory(data, physics, self.memory_gb)
        if start is not None:
            return self.restore(data, physics, start)
        model, beside = self.models(data, physics)
        posterior = model.fitted(data.noise_variance)
        if beside is not None:
            other = beside.fitted(data.noise_variance)
            gain = other.log_predictive().sum() - posterior.log_predictive().sum()
            posterior = other if gain > -_SELDOM else posterior
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, physics: Physics, state: Mapping[str, Tensor]) -> JointPosterior:
        """The posterior restored from ``state``."""
        model, found = self._plain(data, physics)
        solution = separable_sum(physics, data.scaling, found) if _BESIDE in state else None
        return (model if solution is None else model.beside(solution)).restored(state)

    def models(self, data: Observations, physics: Physics) -> tuple[JointModel, JointModel | None]:
        """The model of the objective itself, and that of its difference to a sum that solves the equation, if any."""
        model, found = self._plain(data, physics)
        several = data.X.shape[1] > _FEW and not physics.masked
        solution = separable_sum(physics, data.scaling, found) if several else None
        return model, None if solution is None else model.beside(solution)

    def _plain(self, data: Observations, physics: Physics) -> tuple[JointModel, tuple[LinearRow, ...]]:
        """The model of the objective itself, and the equation's rows."""
        self.refuse(physics)
        found = linear_rows(physics, data.scaling, physics.points)
        rows, d = joint_rows(data, physics, found), data.X.shape[1]
        kernel = self.kernel or ("matern52" if physics.masked else "rbf")
        covariances = (Stationary(kernel, _LEVEL if d > _FEW else 0.0),) * len(rows.fields)
        beliefs = _in_many(d) if d > _FEW else (_BELIEF, *_rough(physics.points))
        return JointModel(rows, covariances, beliefs, data.scaling, {}, stamped(data)), found


@dataclass(frozen=True)
class NTK:
    """The tangent kernel of a smooth network, results and equation rows alike (methods, section 3, `engine: ntk`).

    The network's first weights are drawn afresh for each fit; its input scales, output scale and noises are chosen by
    marginal likelihood. An equation that is not linear is linearised at the network of the first weights.

    Args:
        width: Neurons in a hidden layer.
        depth: Hidden layers.
        activation: tanh or sine.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
        memory_gb: See ``Kernel``.
    """

    width: int = 200
    depth: int = 1
    activation: Activation = "sine"
    frequency: float = 1.0
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            refuse_below(name, getattr(self, name))
        for name in ("frequency", "memory_gb"):
            refuse_non_positive(name, getattr(self, name))

    def refuse(self, physics: Physics) -> None:
        """Accept any equation."""

    def fit(
        self,
        data: Observations,
        physics: Physics,
        rng: np.random.Generator,
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> JointPosterior:
        """Draw the first weights and fit; the only checkpoint is the finished fit.

        Raises:
            ValueError: no hyper-parameters give a finite likelihood, or the fit would need more than ``memory_gb``.
        """
        _refuse_memory(data, physics, self.memory_gb)
        if start is not None:
            return self.restore(data, physics, start)
        network = self._network(data)
        theta = network.initial(1 + len(system_of(physics).sizes), torch_generator(rng))
        posterior = self._model(data, physics, theta).fitted(data.noise_variance)
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, physics: Physics, state: Mapping[str, Tensor]) -> JointPosterior:
        """The posterior restored from ``state``."""
        return self._model(data, physics, state["theta"]).restored(state)

    def _network(self, data: Observations) -> Network:
        return Network(data.X.shape[1], self.width, self.depth, self.activation, self.frequency)

    def _model(self, data: Observations, physics: Physics, theta: Tensor) -> JointModel:
        network, remarks = self._network(data), {}
        if system_of(physics).linear:
            found = linear_rows(physics, data.scaling, physics.points)
        else:
            found = _at_first_weights(network, theta, data.scaling, physics)
            remarks["linearised"] = "the equation is not linear: it was linearised at the network's first weights"
        covariances = tuple(Tangent(network, row) for row in theta)
        rows = joint_rows(data, physics, found)
        kept = {**stamped(data), "theta": theta}
        return JointModel(rows, covariances, (_BELIEF,), data.scaling, remarks, kept)


def _at_first_weights(network: Network, theta: Tensor, scaling: Scaling, physics: Physics) -> tuple[LinearRow, ...]:
    """The equation linearised at h(x; theta_0) of each field, theta (F, p)."""
    Z = torch.from_numpy(physics.encode(physics.points))
    with torch.no_grad():
        streams = network.streams(theta, Z, hessian_forms(Z.shape[1], Z))
    at = Streams(*(part[None] for part in (streams.value, streams.gradient, streams.second)))
    return linearised_rows(physics, scaling, at)
