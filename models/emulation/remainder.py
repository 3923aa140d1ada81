"""Remainder of an output that is read from modes of a field: what the modes do not tell, a process that the runs know.

e(x) = shift + g(x), with g of the variance ``rest`` and the correlation r(x, x') of a Matern 5/2 kernel of the length
0.1 sqrt(d). At a run without noise the remainder is known: the result less what the modes tell there. Far from the
runs it is N(shift, rest). A remainder that is doubted as much beside a run as anywhere else would hold a search at the
runs that it knows.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.covariance import CORRELATIONS, scaled_squares
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Array, Observations

# Length of the correlation, in encoded coordinates times the square root of their number. The results left out of
# chips (24 x 16 and 12 x 8 cells) and the cantilever are likeliest at 0.1 or 0.2; 0.2 is too long for chips.
_LENGTH = 0.1
# Variance of rounding, as a share.
_NUGGET = 1e-6


def told_at_runs(data: Observations) -> bool:
    """True if a run tells the remainder of its design: results have no noise."""
    return data.exact and not data.noise_variance


@dataclass(frozen=True, eq=False)
class Remainder:
    """The remainder where runs know it.

    Args:
        X: Encoded designs of the runs, shape (n, d).
        errors: Results less what the modes tell there, in targets, shape (n,).
    """

    X: Tensor
    errors: Array

    def left_out(self, shift: float) -> tuple[Array, Array]:
        """The remainder less shift at each run, foreseen from the other runs, and the share of ``rest`` left; (n,)."""
        own = self._factor.inverse_diagonal().numpy()
        return self.errors - shift - self._weights(shift) / own, 1 / own

    def at(self, X: Array, shift: float) -> tuple[Array, Array]:
        """Mean of the remainder at X (c, d) in targets, and the share of its variance that is left, each (c,)."""
        cross = self._correlation(X)
        left = self._factor.variance(torch.ones(len(X), dtype=torch.float64), torch.from_numpy(cross))
        return shift + self._weights(shift) @ cross, left.clamp_min(_NUGGET).numpy()

    def grown(self, X: Tensor, errors: Array) -> "Remainder":
        """The same with the remainders (k,) of runs at X (k, d) known too."""
        return replace(self, X=torch.cat([self.X, X]), errors=np.append(self.errors, errors))

    def _weights(self, shift: float) -> Array:
        return np.asarray(self._factor.solve(torch.from_numpy(self.errors - shift)).numpy())

    def _correlation(self, X: Array) -> Array:
        length = _LENGTH * X.shape[1] ** 0.5
        return CORRELATIONS["matern52"](scaled_squares(self.X.numpy() / length, X / length))[0]

    @cached_property
    def _factor(self) -> Factor:
        return Factor.of(torch.from_numpy(self._correlation(self.X.numpy())), _NUGGET)
