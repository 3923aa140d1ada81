"""Neural-BO: a trained mean with the variance of its tangent rows (Phan-Trong et al., 2023; methods.md section 1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.numerics.checks import refuse_non_positive
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Function, Report
from fieldcraft.models.tangent.convolution import Convolution
from fieldcraft.models.tangent.features import Init, Perceptron
from fieldcraft.models.tangent.features import TangentFeatures as Shape
from fieldcraft.models.tangent.kernel import Hyperparameters
from fieldcraft.models.tangent.mirrored import Mirrored
from fieldcraft.models.tangent.posteriors import TangentBelief, TangentPosterior, Trained, TrainedMean
from fieldcraft.models.tangent.process import TangentProcess
from fieldcraft.models.tangent.trained import Members, TrainedTangent
from fieldcraft.models.tangent.training import Family, Start, one_pass
from fieldcraft.models.tangent.weight_draws import in_blocks

_MIRRORED_WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class TangentNetwork(TrainedTangent):
    """Posterior N(h(x; theta), nu^2 sigma^2(x)), theta trained from theta_0 and sigma^2 the tangent rows' variance.

    Args:
        init: theta_0. ``antisymmetric``: h(x; theta_0) = 0 and every layer's rows are kept; ``zero_last_layer`` is the
            theory's, which keeps the last layer's rows only; ``gaussian`` is the experiments'. ``mirrored`` is
            Neural-CBO's: equal halves under a last layer of fixed signs, relu, dense, with fixed hyper-parameters.
        train: ``full``: on all results in each iteration, by ``steps`` and ``refinements``. ``one_pass``: one step of
            gradient descent of size ``rate`` for each result, in the order of the trials, on the loss (y - h)^2 / 2
            (Neural-CBO). It starts again from theta_0 in each iteration, because the results are scaled again.
        variance: ``exact``, or ``diagonal`` for Neural-UCB's and Neural-TS's approximation.
        draw: ``coherent`` functions, or normals ``independent`` at every point as in the paper.
        nu: Factor of the deviation.
        bound: B, the norm of the objective in target units. Where given, hyper-parameters must be fixed, and lambda and
            nu are the theory's: lambda = 1 + 1/T, nu = sqrt(2) B + R / sqrt(lambda) sqrt(2 log(1/alpha)).
        subgaussian: R of the results' noise, in target units (with ``bound``).
        failure: alpha, the probability with which the bound may fail (with ``bound``).
        horizon: T, the number of trials planned (with ``bound``).

    Raises:
        ValueError: an option is out of range (see ``TrainedTangent`` and ``TangentSettings`` for the others).
    """

    uses_physics: ClassVar[bool] = False
    convolves: ClassVar[bool] = False
    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.INFORMED})

    # With no perturbation to follow, the loss is then within half a percent of its end.
    refinements: int = 12
    init: Init | Literal["mirrored"] = "antisymmetric"
    train: Literal["full", "one_pass"] = "full"
    variance: Literal["exact", "diagonal"] = "exact"
    draw: Literal["coherent", "independent"] = "coherent"
    nu: float = 1.0
    bound: float | None = None
    subgaussian: float = 0.1
    failure: float = 0.1
    horizon: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("nu", "subgaussian", "horizon", *(["bound"] if self.bound is not None else [])):
            refuse_non_positive(name, getattr(self, name))
        if not 0 < self.failure < 1:
            raise ValueError(f"failure is {self.failure}: give a probability between 0 and 1.")
        if self.bound is not None and self.hyperparameters != "fixed":
            raise ValueError(
                f"bound is {self.bound} and hyperparameters is {self.hyperparameters}: the theory states its own "
                "noise; set hyperparameters to fixed, or leave bound out."
            )
        if self.train == "one_pass" and self.steps:
            raise ValueError(
                f"train is one_pass and steps is {self.steps}: one pass makes one step a result; leave steps out."
            )
        if self.init == "mirrored":
            self._check_mirrored()

    @property
    def deviation(self) -> float:
        """Factor nu, as stated or by the theory."""
        if self.bound is None:
            return self.nu
        spread = self.subgaussian * math.sqrt(2 * math.log(1 / self.failure) / self._ridge)
        return math.sqrt(2) * self.bound + spread

    @property
    def _ridge(self) -> float:
        return 1 + 1 / self.horizon

    @property
    def kernel_init(self) -> Init:
        """Initialisation as in ``TangentSettings.kernel_init``, or a zero last layer, which keeps only its own rows."""
        return "zero_last_layer" if self.init == "zero_last_layer" else super().kernel_init

    def length(self, data: Observations) -> int:
        """Number of the last step as in ``TrainedTangent.length``; one pass takes one step a result."""
        return len(data) if self.train == "one_pass" else super().length(data)

    def at_once(self, data: Observations) -> int:
        """See ``FitsTogether``; one pass takes the networks one by one."""
        return super().at_once(data) if self.train == "full" else 1

    def fit_kernel(self, data: Observations, shape: Shape) -> tuple[Hyperparameters, float]:
        """Hyper-parameters as in ``TangentSettings.fit_kernel``, with the theory's lambda if a bound is given."""
        found, reached = super().fit_kernel(data, shape)
        return (found if self.bound is None else replace(found, noise=self._ridge)), reached

    def begin(self, data: Observations, shape: Shape, noise: float, generator: torch.Generator) -> Start:
        """Start with theta_0 alone: no second draw, no perturbation."""
        theta = shape.initial(generator, "antisymmetric" if self.init == "mirrored" else self.init)[None]
        zeros = torch.zeros(1, len(data), dtype=theta.dtype)
        return Start(theta, torch.zeros_like(theta), zeros[:, 0], zeros)

    def finished(self, linear: TangentPosterior, start: Start, members: Members | None) -> TangentBelief:
        """Posterior with the trained network as the mean, or the linear model's mean."""
        mean = _mean(linear.process, members)
        own = {"factor": self.deviation, "mean": mean, "variance": self.variance, "kind": self.draw}
        return TrainedMean(**{**vars(linear), **own})

    def _shape(self, data: Observations) -> Perceptron | Convolution | Mirrored:
        if self.init == "mirrored":
            return Mirrored(data.X.shape[1], self.width or _MIRRORED_WIDTH, self.depth)
        return super()._shape(data)

    def _train(
        self,
        data: Observations,
        family: Family,
        found: Hyperparameters,
        kept: Mapping[str, Tensor],
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> dict[str, Tensor]:
        if self.train == "full":
            return super()._train(data, family, found, kept, start, report)
        trained = one_pass(
            family,
            torch.tensor(data.X),
            torch.tensor(data.targets),
            self.rate,
            start if start is not None and "counts" in start else None,
            lambda step, metrics, checkpoint: report(step, metrics, lambda: {**kept, **checkpoint()}),
        )
        return {**trained, "linear": torch.zeros(len(family.anchor))}

    def _check_mirrored(self) -> None:
        told = {
            "hyperparameters": (self.hyperparameters, "fixed"),
            "activation": (self.activation, "relu"),
            "w_std": (self.w_std, None),
            "b_std": (self.b_std, 0.0),
        }
        for name, (value, needed) in told.items():
            if value != needed:
                raise ValueError(
                    f"init is mirrored and {name} is {value}: the mirrored network has {name} {needed}; set that, or "
                    "init to antisymmetric."
                )
        if self.network == "convolution":
            raise ValueError("init is mirrored and network is convolution: the mirrored network is dense; set auto.")


def _mean(process: TangentProcess, members: Members | None) -> Function:
    """The trained network, or the linear model's mean if none was trained or if training diverged."""
    if members is None:
        return process.function(process.mean_direction)
    if members.linear[0]:
        return in_blocks(members.function(0))
    return Trained(process.kernel, members.weights[0])
