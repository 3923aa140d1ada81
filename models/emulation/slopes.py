"""Gradients of what is computed without them, by differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.observations import Array, Emulator

STEP = 1e-4
"""Distance to a design whose value gives a derivative, in encoded coordinates."""

Computed = Callable[[Array], Array]
"""Function of encoded designs (n, d) with values (n,) or (n, r)."""


def with_slopes(computed: Computed, X: Array, reach: float = 1.0) -> tuple[Array, Array]:
    """Values at X (n, d), shape (n, ...), and their gradients by X, shape (n, d, ...), from 2 d more values each.

    The differences are central, but at the bounds.

    Coordinates beyond -reach and reach are not asked for; designs beyond known constraints are, by ``STEP`` at most.
    """
    n, d = X.shape
    moves = STEP * np.eye(d)
    ahead, behind = np.minimum(X[:, None] + moves, reach), np.maximum(X[:, None] - moves, -reach)
    found = computed(np.vstack([X, ahead.reshape(-1, d), behind.reshape(-1, d)]))
    rise = (found[n : n + n * d] - found[n + n * d :]).reshape(n, d, *found.shape[1:])
    width = np.einsum("ijj->ij", ahead - behind)
    return found[:n], rise / width.reshape(n, d, *(1 for _ in found.shape[1:]))


def with_slopes_ahead(computed: Computed, X: Array) -> tuple[Array, Array]:
    """Values at X (n, d), shape (n, ...), and their gradients by X, shape (n, d, ...), from d more values each.

    The differences are to one side, inwards at the upper bound 1: a gradient is off by the second derivative times half
    of ``STEP``. ``with_slopes`` costs twice as many values and lets a search end a little higher (docs/fields.md).
    """
    n, d = X.shape
    moves = STEP * np.where(X + STEP > 1, -1.0, 1.0)[:, None] * np.eye(d)
    moved = X[:, None] + moves
    found = computed(np.vstack([X, moved.reshape(-1, d)]))
    rise = found[n:].reshape(n, d, *found.shape[1:]) - found[:n, None]
    width = np.einsum("ijj->ij", moved - X[:, None])
    return found[:n], rise / width.reshape(n, d, *(1 for _ in found.shape[1:]))


def differentiable(computed: Computed, X: Tensor, reach: float = 1.0) -> Tensor:
    """Values at X (n, d), shape (n,) or (n, r), differentiable in X (see ``with_slopes``)."""
    if X.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Computed.apply(X, computed, reach)  # type: ignore[no-untyped-call]
        return found
    return torch.from_numpy(computed(X.detach().numpy()))


def emulated(emulator: Emulator, X: Tensor) -> Tensor:
    """Predictions at X (n, d), shape (n,), differentiable in X."""
    return differentiable(emulator.predict, X)


class _Computed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, computed: Computed, reach: float) -> Tensor:
        values, slopes = with_slopes(computed, X.detach().numpy(), reach)
        ctx.save_for_backward(torch.from_numpy(slopes))
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        by_value = gradients[0].reshape(len(slopes), 1, -1)
        return (by_value * slopes.reshape(*slopes.shape[:2], -1)).sum(-1), None, None
