"""Gradients of what is computed without them, by differences."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.observations import Array, Emulator

STEP = 1e-4
"""Distance to a design whose value gives a derivative, in encoded coordinates."""

Mask = NDArray[np.bool_]
Computed = Callable[[Array], Array]
"""Function of encoded designs (n, d) with values (n,) or (n, r)."""
Sloped = Callable[..., tuple[Array, Array]]
"""``with_slopes`` or ``with_slopes_ahead``."""


def with_slopes(computed: Computed, X: Array, reach: float = 1.0, stepped: Mask | None = None) -> tuple[Array, Array]:
    """Values at X (n, d), shape (n, ...), and their gradients by X, shape (n, d, ...), from 2 d more values each.

    The differences are central, but at the bounds. Coordinates that are ``stepped`` (d,), those of whole numbers and
    choices, are not asked for either: their derivatives are 0.

    Coordinates beyond -reach and reach are not asked for; designs beyond known constraints are, by ``STEP`` at most.
    """
    n, d = X.shape
    moving = _moving(d, stepped)
    moves, m = STEP * np.eye(d)[moving], len(moving)
    ahead, behind = np.minimum(X[:, None] + moves, reach), np.maximum(X[:, None] - moves, -reach)
    found = computed(np.vstack([X, ahead.reshape(-1, d), behind.reshape(-1, d)]))
    rise = (found[n : n + n * m] - found[n + n * m :]).reshape(n, m, *found.shape[1:])
    return found[:n], _slopes(rise, (ahead - behind)[:, np.arange(m), moving], moving, d)


def with_slopes_ahead(computed: Computed, X: Array, stepped: Mask | None = None) -> tuple[Array, Array]:
    """Values at X (n, d), shape (n, ...), and their gradients by X, shape (n, d, ...), from d more values each.

    The differences are to one side, inwards at the upper bound 1: a gradient is off by the second derivative times half
    of ``STEP``. ``with_slopes`` costs twice as many values and lets a search end a little higher (docs/fields.md); it
    says what ``stepped`` is.
    """
    n, d = X.shape
    moving = _moving(d, stepped)
    moves, m = STEP * np.where(X + STEP > 1, -1.0, 1.0)[:, None] * np.eye(d)[moving], len(moving)
    moved = X[:, None] + moves
    found = computed(np.vstack([X, moved.reshape(-1, d)]))
    rise = found[n:].reshape(n, m, *found.shape[1:]) - found[:n, None]
    return found[:n], _slopes(rise, (moved - X[:, None])[:, np.arange(m), moving], moving, d)


def _moving(d: int, stepped: Mask | None) -> NDArray[np.intp]:
    """Numbers of the coordinates that may move a little."""
    return np.arange(d) if stepped is None else np.flatnonzero(~stepped)


def _slopes(rise: Array, width: Array, moving: NDArray[np.intp], d: int) -> Array:
    """Gradients (n, d, ...) from rises (n, m, ...) over widths (n, m) of the moving coordinates; 0 by the others."""
    slopes = np.zeros((len(rise), d, *rise.shape[2:]))
    slopes[:, moving] = rise / width.reshape(*width.shape, *(1 for _ in rise.shape[2:]))
    return slopes


def differentiable(computed: Computed, X: Tensor, stepped: Mask | None = None, slopes: Sloped = with_slopes) -> Tensor:
    """Values at X (n, d), shape (n,) or (n, r), differentiable in X by the differences of ``slopes``."""
    if X.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Computed.apply(X, partial(slopes, computed, stepped=stepped))  # type: ignore[no-untyped-call]
        return found
    return torch.from_numpy(computed(X.detach().numpy()))


def emulated(emulator: Emulator, X: Tensor) -> Tensor:
    """Predictions at X (n, d), shape (n,), differentiable in X."""
    return differentiable(emulator.predict, X, stepped=emulator.stepped)


class _Computed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, sloped: Callable[[Array], tuple[Array, Array]]) -> Tensor:
        values, slopes = sloped(X.detach().numpy())
        ctx.save_for_backward(torch.from_numpy(slopes))
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slopes,) = ctx.saved_tensors
        by_value = gradients[0].reshape(len(slopes), 1, -1)
        return (by_value * slopes.reshape(*slopes.shape[:2], -1)).sum(-1), None
