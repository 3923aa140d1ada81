"""Designs of the next best models, in place of those with which the best one would only repeat itself.

A model that is sure of a wrong place repeats it, and results that agree with the model never contradict it. A design of
another model can.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.maximizer import Candidates
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.selection.contest import Chosen
from fieldcraft.models.surrogate import Posterior

NEAR = 0.01
"""Root mean square distance of encoded designs up to which one repeats the other: half a percent of their range."""
OFTEN = 2
"""Results near a design from which on another one is a repeat."""
SURE = 0.05
"""Standard deviation of a model in targets, up to which it has nothing more to learn of a design."""


def advised(
    found: Candidates,
    beliefs: Posterior,
    data: Observations,
    seen: Callable[[Array], Array],
    search: Callable[[Posterior, Array, int], Candidates],
) -> Candidates:
    """The batch, with designs of the next best models in the places where the best one would only repeat itself.

    A model repeats itself where ``OFTEN`` results are near and it is sure. The others are asked in the order of their
    scores, until each place has a design that repeats nothing; if they all repeat, the best model's stays.

    Args:
        found: The batch of the best model.
        beliefs: Beliefs from the data; unless they are chosen among models, the batch is unchanged.
        data: The observations behind them, as models see them.
        seen: Function from encoded designs (n, d) to coordinates (n, m) in which models see them.
        search: Function from another model's beliefs about the objective, the encoded designs of the batch that stay,
            shape (k, d), and a number, to so many designs of that model.
    """
    best = about_objective(beliefs)
    if not isinstance(best, Chosen):
        return found
    X, value = np.array(found.X), np.array(found.value)
    notes: list[Mapping[str, str]] = list(found.notes or ({},) * len(X))
    results = repeats(seen(X), best, data)
    others = best.next_best() if results.any() else iter(())
    for other in others:
        open_to = np.flatnonzero(results)
        their = search(other, np.delete(X, open_to, axis=0), len(open_to))
        fresh = repeats(seen(their.X), other, data) == 0
        for slot, design, worth in zip(open_to[fresh], their.X[fresh], their.value[fresh], strict=True):
            X[slot], value[slot] = design, worth
            notes[slot] = {**notes[slot], "second_model": _said(best.name, other.name, int(results[slot]))}
            results[slot] = 0
        if not results.any():
            break
    return replace(found, X=X, value=value, notes=tuple(notes))


def repeats(X: Array, posterior: Posterior, data: Observations) -> NDArray[np.intp]:
    """Number of results near each design of X (n, d) that a model would only repeat, shape (n,); 0 for others."""
    apart = np.sqrt(((X[:, None, :] - data.X[None, :, :]) ** 2).mean(axis=2))
    near = np.count_nonzero(apart <= NEAR, axis=1)
    with torch.no_grad():
        sure = posterior.mean_var(torch.tensor(X))[1].numpy() <= SURE**2
    return np.where(sure & (near >= OFTEN), near, 0)


def _said(best: str, other: str, results: int) -> str:
    return f"{other} chose this design: {best}, which predicts best, would go back to a place with {results} results"
