"""Weight of the variance in a confidence bound."""

import math
from typing import Literal

Beta = float | Literal["growing"]
"""The variance's weight beta, of which the bound uses the root; "growing": 0.2 d log(2 t), d coordinates, t trials."""


def refuse_beta(beta: Beta) -> None:
    """Accept a weight.

    Raises:
        ValueError: it is negative or not finite.
    """
    if beta != "growing" and not (math.isfinite(beta) and beta >= 0):
        raise ValueError(f'beta is {beta}: give a finite number >= 0 (4 is two standard deviations), or "growing".')


def weight_of(beta: Beta, d: int, t: int) -> float:
    """Weight beta in d encoded coordinates after t trials."""
    return 0.2 * d * math.log(2 * t) if beta == "growing" else beta
