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
"""Results near a design from which on another one is a repeat, where the model is sure."""
SURE = 0.05
"""Standard deviation of a model in targets, up to which it has nothing more to learn of a design."""
ENOUGH = 5
"""Results near a design from which on another one is a repeat, however unsure noise leaves the model."""


def advised(
    found: Candidates,
    beliefs: Posterior,
    data: Observations,
    seen: Callable[[Array], Array],
    search: Callable[[Posterior, Array, int], Candidates],
) -> Candidates:
    """The batch, with designs of the next best models in the places where the best one would only repeat itself.

    A model repeats itself where ``OFTEN`` results are near and it is sure, or ``ENOUGH`` are near. The others are asked
    in the order of their scores, until each place has a design that repeats nothing; if they all repeat, the best
    model's stays. Proofs of a batch that has changed are left out.

    Args:
        found: The batch of the best model.
        beliefs: Beliefs from the data; unless they are chosen among models, the batch is unchanged.
        data: The observations behind them, as models see them.
        seen: Function from encoded designs (n, d) to coordinates (n, m) in which models see them.
        search: Function from another model's beliefs about the objective, the encoded designs of the other places,
            shape (q - 1, d), and the number of the place, to that model's design for it.
    """
    best = about_objective(beliefs)
    if not isinstance(best, Chosen):
        return found
    X, value = np.array(found.X), np.array(found.value)
    notes: list[Mapping[str, str]] = list(found.notes or ({},) * len(X))
    results = repeats(seen(X), best, data)
    others = best.next_best() if results.any() else iter(())
    for other in others:
        for slot in np.flatnonzero(results):
            theirs = search(other, np.delete(X, slot, axis=0), int(slot))
            if repeats(seen(theirs.X), other, data).any():
                continue
            X[slot], value[slot] = theirs.X[0], theirs.value[0]
            own = theirs.notes[0] if theirs.notes else {}
            notes[slot] = {**own, "second_model": _said(best, other.name, int(results[slot]))}
            results[slot] = 0
        if not results.any():
            break
    proofs = found.certificates if np.array_equal(X, found.X) else None
    return replace(found, X=X, value=value, certificates=proofs, notes=tuple(notes))


def repeats(X: Array, posterior: Posterior, data: Observations) -> NDArray[np.intp]:
    """Number of results near each design of X (n, d) that a model would only repeat, shape (n,); 0 for others."""
    apart = np.sqrt(((X[:, None, :] - data.X[None, :, :]) ** 2).mean(axis=2))
    near = np.count_nonzero(apart <= NEAR, axis=1)
    with torch.no_grad():
        sure = posterior.mean_var(torch.tensor(X))[1].numpy() <= SURE**2
    return np.where((sure & (near >= OFTEN)) | (near >= ENOUGH), near, 0)


def _said(best: Chosen, other: str, results: int) -> str:
    first = f"{best.name}, {'which has its turn' if best.instead_of else 'which predicts best'},"
    return f"{other} chose this design: {first} would go back to a place with {results} results"
