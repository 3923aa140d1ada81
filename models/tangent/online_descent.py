"""One step of gradient descent for each observation, in the order of the trials (Neural-CBO: Phan-Trong, 2024, ch. 4).

W <- W + rate (y_t - a(x_t; W)) da(x_t; W)/dW,    t = 1, ..., n, from W_0
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fieldcraft.models.surrogate import Report
from fieldcraft.models.tangent.training import Family

_REPORT_EVERY = 100  # observations


def one_pass(
    family: Family, X: Tensor, y: Tensor, rate: float, start: Mapping[str, Tensor] | None, report: Report
) -> dict[str, Tensor]:
    """Train on each observation once, or go on from the checkpoint ``start``.

    Args:
        family: The networks, k of them.
        X: Encoded designs in the order of the trials, shape (n, d).
        y: Their targets, shape (n,).
        rate: Step size, > 0.
        start: A checkpoint of an interrupted pass over the same data.
        report: Called with the progress from time to time.

    Returns:
        ``theta`` (k, p + 1) with the constant last, ``loss`` (k,), the sum of squares that is left, and ``counts``, of
        which the first is the number of observations read.

    Raises:
        ValueError: the weights became non-finite.
    """
    weights = family.anchor if start is None else start["theta"]
    for t in range(0 if start is None else int(start["counts"][0]), len(y)):
        weights = _stepped(family, weights, X[t : t + 1], y[t], rate)
        if (t + 1) % _REPORT_EVERY == 0:
            state = _state(family, weights, X, y, t + 1)
            report(t + 1, {"loss": float(state["loss"].mean())}, state.copy)
    if not bool(torch.isfinite(weights).all()):
        raise ValueError(f"One pass over {len(y)} trials at the rate {rate:g} became non-finite: lower the rate.")
    return _state(family, weights, X, y, len(y))


def _stepped(family: Family, weights: Tensor, x: Tensor, y: Tensor, rate: float) -> Tensor:
    at = weights.detach().requires_grad_()
    value = family.values(at, x)[:, 0]
    (slope,) = torch.autograd.grad(value.sum(), at)
    return weights + rate * (y - value.detach())[:, None] * slope


def _state(family: Family, weights: Tensor, X: Tensor, y: Tensor, read: int) -> dict[str, Tensor]:
    with torch.no_grad():
        loss = (y - family.values(weights, X)).square().sum(-1)
    return {"theta": weights, "loss": loss, "counts": torch.tensor([read, 0, 0])}
