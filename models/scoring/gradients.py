"""Values of scores with their gradients, in closed form where there is one."""

from collections.abc import Callable
from functools import cache
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import DifferentiableScore, Score
from fieldcraft.models.observations import Array
from fieldcraft.models.scoring.criteria import LEAST_SD, Criterion
from fieldcraft.models.surrogate import MomentsWithSlopes


def with_gradients(score: Score, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Values (n,) and gradients (n, d) of a score at X (n, d) (see Score.value)."""
    if _differentiable(score):
        return score.value_and_grad(X, slot, chosen)
    return automatic(lambda points: score.value(points, slot, chosen), X)


def _differentiable(score: Score) -> TypeGuard[DifferentiableScore]:
    return _knows_gradients(type(score))


@cache
def _knows_gradients(kind: type) -> bool:
    # Asked once: a protocol takes as long to look at an object as some scores do to be computed.
    return issubclass(kind, DifferentiableScore)


def automatic(function: Callable[[Tensor], Tensor], X: Tensor) -> tuple[Tensor, Tensor]:
    """Values (n,) of a function at X (n, d), each of its own point, and their gradients (n, d)."""
    points = X.detach().clone().requires_grad_()
    with torch.enable_grad():
        values = function(points)
        (gradients,) = torch.autograd.grad(values.sum(), points)
    return values.detach(), gradients


def chained(criterion: Criterion, at: MomentsWithSlopes, least_sd: float = LEAST_SD) -> tuple[Array, Array]:
    """Values (n,) and gradients (n, d) of a criterion at moments with their gradients; sd counts as >= ``least_sd``.

    Moments of c posteriors give (c, n) and (c, n, d).
    """
    sd = np.sqrt(np.maximum(at.variance, least_sd**2))
    values, by_mean, by_sd = criterion(at.mean, sd)
    by_variance = np.where(at.variance > least_sd**2, by_sd / (2 * sd), 0.0)
    return values, by_mean[..., None] * at.by_mean + by_variance[..., None] * at.by_variance
