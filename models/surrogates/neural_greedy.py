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

    Raises:
        ValueError: a number is out of its range.
    """

    @property
    def divisor(self) -> float:
        """Infinity, so that the variance is 0."""
        return math.inf
