"""Local searches of SciPy, which is imported by the first of them: checking a campaign makes none."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


def minimize(function: Callable[..., Any], start: ArrayLike, **options: Any) -> "OptimizeResult":
    """Result of ``scipy.optimize.minimize`` with these arguments."""
    from scipy import optimize

    return optimize.minimize(function, start, **options)
