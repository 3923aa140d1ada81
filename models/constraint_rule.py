"""The protocol of a rule: how what is believed of unknown constraints enters an acquisition."""

from typing import Protocol

from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.observations import Observations


class Rule(Protocol):
    """How a score keeps to unknown constraints: a frozen description.

    One that takes only scores that are positive or logarithms declares ``scaled_only: ClassVar[bool] = True``; one that
    asks each constraint's posterior for its information gain has a true ``informed_only``, and a surrogate whose
    posteriors know it declares ``informed: ClassVar[bool] = True``. Other campaigns are refused before they begin.
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
