"""The protocol of a rule: how what is believed of unknown constraints enters an acquisition."""

from typing import Protocol

from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.observations import Observations


class Rule(Protocol):
    """How a score keeps to unknown constraints: a frozen description.

    It may say by ``requires`` (see ``Capability``) that it takes SCALED scores alone, and that the surrogate of the
    constraints must be INFORMED.
    """

    def constrained(
        self, score: Score, scale: Scale, posterior: ConstrainedPosterior, data: Observations, pending: Tensor
    ) -> Score:
        """The score under the constraints.

        Args:
            score: What a candidate is worth, feasible or not.
            scale: What kind of number that is.
            posterior: Beliefs about objective and constraints.
            data: The observations behind them.
            pending: Encoded points without a result, shape (k, d).

        Raises:
            ValueError: the rule cannot take a score of this scale.
        """
        ...
