"""Results of a coarser level of the campaign's simulator: cheaper, and of another accuracy than the target's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fieldcraft.models.data.arrays import Array, frozen, refuse_non_finite


@dataclass(frozen=True, eq=False)
class LevelResults:
    """Results of one level of a simulator. They are no results of the campaign; a model may learn from them.

    Args:
        level: Number of the level among the campaign's, from 0 by rising cost.
        cost: Expected cost of one run, as a share of the target's, 0 < cost < 1.
        X: Designs, encoded by the space of the campaign, shape (n, d), n >= 1.
        Y: Outputs in their units, the objectives first and then the constraints, shape (n, outputs).
        read: The same outputs read from the fields of these runs on the target's mesh, shape (n, outputs); None where
            the fields do not teach.

    Raises:
        ValueError: shapes disagree, there is no result, a value is not finite, or level or cost is out of range.
    """

    level: int
    cost: float
    X: Array
    Y: Array
    read: Array | None = None

    def __post_init__(self) -> None:
        for name in ("X", "Y", "read")[: 2 if self.read is None else 3]:
            object.__setattr__(self, name, frozen(getattr(self, name)))
            refuse_non_finite(getattr(self, name), f"LevelResults.{name}", "leave such a trial out.")
        if self.X.ndim != 2 or self.Y.ndim != 2 or len(self.X) != len(self.Y) or self.X.size == 0:
            raise ValueError(
                f"X {self.X.shape} and Y {self.Y.shape} do not fit: give X (n, d) and Y (n, outputs) with at least one "
                "result."
            )
        if self.read is not None and self.read.shape != self.Y.shape:
            raise ValueError(f"read {self.read.shape} does not fit Y {self.Y.shape}: give every output of every run.")
        if self.level < 0 or not 0 < self.cost < 1:
            raise ValueError(
                f"level is {self.level} and cost {self.cost}: give a number from 0 on, and a share between 0 and 1."
            )

    def of_output(self, k: int) -> "LevelResults":
        """The same results of output number k alone."""
        return replace(self, Y=self.Y[:, [k]], read=None if self.read is None else self.read[:, [k]])


def require_levels(lower: Sequence[LevelResults], levels: int, coordinates: int) -> None:
    """Accept results of coarser levels beside those of the target.

    Args:
        lower: Results of levels.
        levels: Number of levels of the campaign.
        coordinates: Number of coordinates of a design of the target.

    Raises:
        ValueError: levels are unknown or out of order, or designs have other coordinates.
    """
    numbers, widths = [each.level for each in lower], {each.X.shape[1] for each in lower}
    if numbers != sorted(set(numbers)) or any(number >= levels for number in numbers):
        raise ValueError(f"lower has the levels {numbers} of {levels}: give each level once, in rising order.")
    if widths - {coordinates}:
        raise ValueError(
            f"Designs of the levels have {sorted(widths)} coordinates and those of the target {coordinates}: encode "
            "them with the same SearchSpace."
        )
