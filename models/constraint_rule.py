"""Protocol of a rule: beliefs about unknown constraints enter an acquisition by it."""

from typing import Protocol

from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.observations import Observations


class Rule(Protocol):
    """A rule by which a score keeps to unknown constraints: a frozen description.

    In ``requires`` (see ``Capability``) it may state that it takes SCALED scores only, and that the surrogate of the
    constraints must be INFORMED.
    """

    def constrained(
        self,
        score: Score,
        scale: Scale,
        posterior: ConstrainedPosterior,
        data: Observations,
        pending: Tensor,
        proposed: int,
    ) -> Score:
        """The score under the constraints.

        Args:
            score: Worth of a candidate, feasible or not.
            scale: Kind of that number.
            posterior: Beliefs about objective and constraints.
            data: The observations behind them.
            pending: Encoded points without a result, shape (k, d).
            proposed: Number of designs that were proposed before this batch, whatever became of them.

        Raises:
            ValueError: the rule cannot take a score of this scale.
        """
        ...
