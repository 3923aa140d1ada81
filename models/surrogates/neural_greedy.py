"""Neural Greedy (Zhou et al., 2020; the baseline of Neural-BO and STO-BNTS): a trained network without uncertainty."""

import math
from dataclasses import dataclass

from fieldcraft.models.networks.ensembles import ValueNetworks


@dataclass(frozen=True)
class NeuralGreedy(ValueNetworks):
    """A network from fresh weights; its variance is 0 everywhere, and only its weights are random.

    With ``thompson`` each place of a batch minimises a network of its own; other acquisitions see the mean of all.

    Args:
        networks: Number of networks >= 1; at least the batch size.
        width: Neurons in a hidden layer.
        depth: Hidden layers.
        activation: tanh or sine.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
        steps: Adam steps.
        rate: Adam's first step size.
        refinements: Damped Gauss-Newton steps after Adam.
        noise: Standard deviation of a result, in target units, if it is not known; its square is the ridge.
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused.

    Raises:
        ValueError: a number is out of its range.
    """

    @property
    def divisor(self) -> float:
        """Infinity, so that the variance is 0."""
        return math.inf
