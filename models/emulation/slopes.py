"""Gradients of an emulator, by central differences."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.observations import Array, Emulator

STEP = 1e-4
"""Half the distance of two designs whose predictions give a derivative, in encoded coordinates."""


def with_slopes(emulator: Emulator, X: Array) -> tuple[Array, Array]:
    """Predictions at X (n, d), shape (n,), and their gradients by X, shape (n, d), from 2 d more predictions each.

    Designs beyond -1 and 1 are not asked for; those beyond known constraints are, by ``STEP`` at most.
    """
    n, d = X.shape
    moves = STEP * np.eye(d)
    ahead, behind = np.minimum(X[:, None] + moves, 1.0), np.maximum(X[:, None] - moves, -1.0)
    found = emulator.predict(np.vstack([X, ahead.reshape(-1, d), behind.reshape(-1, d)]))
    rise = found[n : n + n * d] - found[n + n * d :]
    width = np.einsum("ijj->ij", ahead - behind)
    return found[:n], rise.reshape(n, d) / width


def emulated(emulator: Emulator, X: Tensor) -> Tensor:
    """Predictions at X (n, d), shape (n,), differentiable in X."""
    if X.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Emulated.apply(X, emulator)  # type: ignore[no-untyped-call]
        return found
    return torch.from_numpy(emulator.predict(X.detach().numpy()))


class _Emulated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, emulator: Emulator) -> Tensor:
        values, slopes = with_slopes(emulator, X.detach().numpy())
        ctx.save_for_backward(torch.from_numpy(slopes))
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slopes,) = ctx.saved_tensors
        return gradients[0][:, None] * slopes, None
