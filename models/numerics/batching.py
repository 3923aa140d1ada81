"""Batching of posteriors of one form: one pass through the algebra for all of them instead of one for each."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, Self, cast, runtime_checkable

import torch
from torch import Tensor

from fieldcraft.models.surrogate import Posterior

Moments = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Means (c, n) and variances (c, n) of c noise-free functions at X (n, d), differentiable in X."""

# Points, times posteriors, that a stack is asked about at once: the arrays of a pass then stay in the cache.
_ROWS = 704


@runtime_checkable
class Stackable(Protocol):
    """A posterior that can be evaluated together with others of its form."""

    @property
    def form(self) -> Hashable:
        """Key that is equal for posteriors that can be stacked; None for one that is better evaluated alone."""
        ...

    def together(self, others: Sequence[Self]) -> Moments:
        """Moments of this posterior and of others of its form, in this order; equal to ``mean_var`` to rounding."""
        ...


def jointly(posteriors: Sequence[Posterior]) -> Moments:
    """Function for the moments of all posteriors, in their order; those of one form are stacked, only once."""
    forms = defaultdict[Hashable, list[int]](list)
    for i, each in enumerate(posteriors):
        form = each.form if isinstance(each, Stackable) else None
        forms[i if form is None else (type(each), form)].append(i)
    groups = [_moments([posteriors[i] for i in group]) for group in forms.values()]
    order = [i for group in forms.values() for i in group]
    places = torch.tensor(order).argsort()

    def moments(X: Tensor) -> tuple[Tensor, Tensor]:
        means, variances = zip(*(group(X) for group in groups), strict=True)
        return torch.cat(means)[places], torch.cat(variances)[places]

    return moments


def _moments(posteriors: Sequence[Posterior]) -> Moments:
    """Moments of posteriors of one form."""
    first, *others = posteriors
    if others and isinstance(first, Stackable):
        alike = cast("list[Any]", others)
        return _in_blocks(first.together(alike), max(1, _ROWS // len(posteriors)))

    def alone(X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = first.mean_var(X)
        return mean[None], variance[None]

    return alone


def _in_blocks(moments: Moments, rows: int) -> Moments:
    """The moments, evaluated for ``rows`` points at a time."""

    def whole(X: Tensor) -> tuple[Tensor, Tensor]:
        if len(X) <= rows:
            return moments(X)
        means, variances = zip(*(moments(block) for block in torch.split(X, rows)), strict=True)
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    return whole
