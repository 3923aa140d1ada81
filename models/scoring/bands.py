"""Expected improvement of the distance of an output from a target or a band, in closed form."""

from dataclasses import dataclass

import numpy as np

from fieldcraft.models.observations import Array
from fieldcraft.models.scoring.criteria import LogImprovement, Valued

_LEAST = 1e-4
"""Level below which an improvement counts as one of this; so the score stays one where the band is reached."""


@dataclass(frozen=True)
class LogBandImprovement:
    """log E[max(level - d(f), 0)] of the distance d(f) = max(low - f, f - high, 0), f normal.

    The distance is at most s where low - s <= f <= high + s: the expectation is the integral of the probability of
    that over s from 0 to level. With H(a) = E[max(f - a, 0)] = sd h((mean - a) / sd) it is

        H(low - level) - H(low) - H(high) + H(high + level).

    It is the same for f mirrored at the middle of the band, so the mean is taken below it: the first term is then the
    largest, and the others are added as fractions of it, so that nothing underflows. Of a target, low = high, it is the
    expected improvement of a folded normal.

    Args:
        low: Lower end of the band, in the part's targets.
        high: Upper end, >= low.
        level: Best distance so far, in the same unit; what is less than 1e-4 counts as that.
    """

    low: float
    high: float
    level: float

    def __call__(self, mean: Array, sd: Array) -> Valued:
        """Values, derivatives by the mean and by the standard deviation, (n,) each, at means and sds (n,)."""
        middle, level = self.low / 2 + self.high / 2, max(self.level, _LEAST)
        mirrored = mean > middle
        m = np.where(mirrored, 2 * middle - mean, mean)
        ends = (self.low - level, self.low, self.high, self.high + level)
        # H(a) at mean m is the improvement on the level m of a value with the mean a
        logs, at_levels, at_sds = zip(*(LogImprovement(m)(np.full_like(m, a), sd) for a in ends), strict=True)
        shares = [sign * np.exp(log - logs[0]) for sign, log in zip((1, -1, -1, 1), logs, strict=True)]
        total = np.maximum(sum(shares), np.finfo(np.float64).tiny)
        by_mean = -sum(share * at for share, at in zip(shares, at_levels, strict=True)) / total
        by_sd = sum(share * at for share, at in zip(shares, at_sds, strict=True)) / total
        return logs[0] + np.log(total), np.where(mirrored, -by_mean, by_mean), by_sd
