"""STO-BNTS: each draw is a trained network (Dai et al., 2022; methods.md section 4)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.observations import Observations
from fieldcraft.models.tangent.features import TangentFeatures
from fieldcraft.models.tangent.posteriors import NetworkDraws, TangentBelief, TangentPosterior
from fieldcraft.models.tangent.trained import Members, TrainedTangent
from fieldcraft.models.tangent.training import Start


@dataclass(frozen=True, kw_only=True)
class SampledNetwork(TrainedTangent):
    """k networks f(x; theta) + <grad f(x; theta_0), theta_0'>, each trained from its own theta_0 with a ridge about it.

    Mean and variance are those of the tangent kernel's Gaussian process at the first network's theta_0.

    Args:
        networks: Number k of draws; at least the batch size.
        perturb_targets: Perturb each network's targets by the results' noise, which makes a wide network's minimiser
            a posterior draw; false is the paper.

    Raises:
        ValueError: an option is out of range (see ``TrainedTangent`` and ``TangentSettings`` for the others).
    """

    uses_physics: ClassVar[bool] = False

    networks: int = 1
    perturb_targets: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below("networks", self.networks)

    @property
    def trainings(self) -> int:
        """Number of networks, which are all trained at once."""
        return self.networks

    def begin(self, data: Observations, shape: TangentFeatures, noise: float, generator: torch.Generator) -> Start:
        """theta_0, theta_0' with a zero last layer, a_0 and the perturbed targets of every network."""
        k = self.networks
        pairs = [(shape.initial(generator), shape.initial(generator, "zero_last_layer")) for _ in range(k)]
        eps = noise**0.5 * torch.randn(k, len(data), generator=generator, dtype=torch.float64)
        return Start(
            theta=torch.stack([first for first, _ in pairs]),
            tangent=torch.stack([second for _, second in pairs]),
            constant=torch.randn(k, generator=generator, dtype=torch.float64),
            perturbation=eps * float(self.perturb_targets),
        )

    def finished(self, linear: TangentPosterior, start: Start, members: Members | None) -> TangentBelief:
        """Posterior whose draws are the networks, or linear draws."""
        if members is None:
            return linear
        return NetworkDraws(**vars(linear), members=members.function, networks=len(members))
