"""Neural Greedy (Zhou et al., 2020; the baseline of Neural-BO and STO-BNTS): a trained network, believed outright."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from models.members import MembersPosterior
from models.networks import Activation
from models.observations import Observations
from models.stamps import refuse_other_data
from models.surrogate import Report
from models.value_networks import Training, members_posterior


@dataclass(frozen=True)
class NeuralGreedy:
    """A network from fresh weights; its variance is 0 everywhere, and chance comes from its weights alone.

    With ``thompson`` each place of a batch minimises a network of its own; other acquisitions see the mean of all.

    Args:
        networks: Number of networks >= 1; at least the batch size.
        width: See ``models.value_networks.Training``, as for all that follow.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    needs_physics: ClassVar[bool] = False

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

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> MembersPosterior:
        """Train the networks (see Surrogate.fit).

        Raises:
            ValueError: ``start`` is of other data, the loss became non-finite again after every restart, or the fit
                would need more than ``memory_gb``.
        """
        training = self._training()
        return members_posterior(training, data, training.run(data, rng, start, report), math.inf)

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> MembersPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        return members_posterior(self._training(), data, state, math.inf)

    def _training(self) -> Training:
        return Training(**asdict(self))
