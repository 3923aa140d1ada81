"""Neural-BO: a trained mean with the variance of its tangent rows (Phan-Trong et al., 2023; methods.md section 1)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from models.checks import refuse_non_positive
from models.directions import in_blocks
from models.observations import Observations
from models.tangent_kernel import Hyperparameters
from models.tangent_posteriors import TangentBelief, TangentPosterior, TrainedMean
from models.tangent_trained import Members, TrainedTangent
from models.tangent_training import Start
from models.tangents import Init
from models.tangents import TangentNetwork as Shape


@dataclass(frozen=True, kw_only=True)
class TangentNetwork(TrainedTangent):
    """Posterior N(h(x; theta), nu^2 sigma^2(x)), theta trained from theta_0 and sigma^2 the tangent rows' variance.

    Args:
        init: theta_0. ``antisymmetric``: h(x; theta_0) = 0 and every layer's rows are kept; ``zero_last_layer`` is the
            theory's, which keeps the last layer's rows only; ``gaussian`` is the experiments'.
        variance: ``exact``, or ``diagonal`` for Neural-UCB's and Neural-TS's approximation.
        draw: ``coherent`` functions, or normals ``independent`` at every point as in the paper.
        nu: Factor of the deviation.
        bound: B, the norm of the objective in target units. Where given, hyper-parameters must be fixed, and lambda and
            nu are the theory's: lambda = 1 + 1/T, nu = sqrt(2) B + R / sqrt(lambda) sqrt(2 log(1/alpha)).
        subgaussian: R of the readings' noise, in target units (with ``bound``).
        failure: alpha, the probability with which the bound may fail (with ``bound``).
        horizon: T, the number of trials planned (with ``bound``).

    Raises:
        ValueError: an option is out of range (see ``TrainedTangent`` and ``TangentSettings`` for the others).
    """

    uses_physics: ClassVar[bool] = False
    needs_physics: ClassVar[bool] = False

    init: Init = "antisymmetric"
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

    @property
    def deviation(self) -> float:
        """nu, as stated or by the theory."""
        if self.bound is None:
            return self.nu
        spread = self.subgaussian * math.sqrt(2 * math.log(1 / self.failure) / self._ridge)
        return math.sqrt(2) * self.bound + spread

    @property
    def _ridge(self) -> float:
        return 1 + 1 / self.horizon

    def fit_kernel(self, data: Observations, shape: Shape) -> tuple[Hyperparameters, float]:
        """As ``TangentSettings.fit_kernel``, with the theory's lambda where a bound is given."""
        found, reached = super().fit_kernel(data, shape)
        return (found if self.bound is None else replace(found, noise=self._ridge)), reached

    def begin(self, data: Observations, shape: Shape, noise: float, generator: torch.Generator) -> Start:
        """theta_0 alone: no second draw, no perturbation."""
        theta = shape.initial(generator, self.init)[None]
        zeros = torch.zeros(1, len(data), dtype=theta.dtype)
        return Start(theta, torch.zeros_like(theta), zeros[:, 0], zeros)

    def finished(self, linear: TangentPosterior, start: Start, members: Members | None) -> TangentBelief:
        """The trained network as the mean, or the linear model's mean."""
        process = linear.process
        mean = process.function(process.mean_direction) if members is None else in_blocks(members.function(0))
        own = {"factor": self.deviation, "mean": mean, "variance": self.variance, "kind": self.draw}
        return TrainedMean(**{**vars(linear), **own})
