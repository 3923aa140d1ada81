"""Distance of an output from a target or a band, as an objective to be minimised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fieldcraft.physics.operators import Values
from fieldcraft.physics.outputs.formula import larger


@dataclass(frozen=True)
class Distance:
    """max(low - y, y - high, 0): how far an output y is from a band, or |y - t| from a target t = low = high.

    Args:
        of: The output.
        low: Lower end of the band, in the output's unit.
        high: Upper end; the lower one for a target.

    Raises:
        ValueError: an end is not finite, or they are not in order.
    """

    of: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"{self.of} has the ends {self.low} and {self.high}: give finite numbers.")
        if self.low > self.high:
            raise ValueError(f"{self.of} has the band [{self.low}, {self.high}]: swap its ends.")

    @property
    def names(self) -> tuple[str, ...]:
        """The output."""
        return (self.of,)

    @property
    def kept_from_zero(self) -> frozenset[str]:
        """None: nothing is divided by."""
        return frozenset()

    def __call__(self, values: Mapping[str, Values]) -> Values:
        """The distance, for the output's values by its name, in its unit."""
        y = values[self.of]
        return larger(larger(self.low - y, y - self.high), 0.0)

    def __str__(self) -> str:
        ends = [f"{end!r}".removesuffix(".0") for end in dict.fromkeys((self.low, self.high))]
        return f"distance of {self.of} from {'..'.join(ends)}"
