"""Deep ensemble (Lakshminarayanan et al., 2017), each network tied to its own initial weights (Pearce et al., 2020)."""

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
class DeepEnsemble:
    """k networks from fresh weights, each minimising sum (y - h)^2 + s^2 ||theta - theta_0||^2.

    Mean and variance are over the networks, and each network is one draw: STO-BNTS without its added tangent term, so
    the draws vary less than a posterior does (methods.md section 4).

    Args:
        networks: Number k >= 2 of networks; at least the batch size.
        width: See ``models.value_networks.Training``, as for all that follow.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    needs_physics: ClassVar[bool] = False

    networks: int = 8
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
        if self.networks < 2:
            raise ValueError(f"networks is {self.networks}: an ensemble has at least 2; for one, use neural_greedy.")
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
        return members_posterior(training, data, training.run(data, rng, start, report), self.networks - 1)

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> MembersPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        return members_posterior(self._training(), data, state, self.networks - 1)

    def _training(self) -> Training:
        return Training(**asdict(self))
