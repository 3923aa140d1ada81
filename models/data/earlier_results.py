"""Results of an earlier, similar campaign, from which a new one may begin."""

from dataclasses import dataclass, replace

from fieldcraft.models.data.arrays import Array, frozen, refuse_non_finite

MOST_EARLIER = 2000
"""Results of one earlier campaign that a model learns from at most: their process is an exact one."""


@dataclass(frozen=True, eq=False)
class EarlierResults:
    """Results of a campaign on the same variables and outputs, under other conditions.

    Args:
        name: The campaign.
        X: Designs, encoded by the space of the new campaign, shape (n, d), n >= 1.
        Y: Outputs in their units, the objective first, shape (n, outputs).

    Raises:
        ValueError: shapes disagree, there is no result, or a value is not finite.
    """

    name: str
    X: Array
    Y: Array

    def __post_init__(self) -> None:
        for name in ("X", "Y"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            refuse_non_finite(getattr(self, name), f"EarlierResults.{name}", "leave such a trial out.")
        if self.X.ndim != 2 or self.Y.ndim != 2 or len(self.X) != len(self.Y) or self.X.size == 0:
            raise ValueError(
                f"X {self.X.shape} and Y {self.Y.shape} do not fit: give X (n, d) and Y (n, outputs) with at least one "
                "result."
            )

    def of_output(self, k: int) -> "EarlierResults":
        """The same results of output number k alone."""
        return replace(self, Y=self.Y[:, [k]])
