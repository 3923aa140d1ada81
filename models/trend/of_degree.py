"""Process about a polynomial of a degree that is stated, and not chosen."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fieldcraft.models.numerics.milestones import asked
from fieldcraft.models.observations import Observations
from fieldcraft.models.trend.evidence import TrendedDensity
from fieldcraft.models.trend.process import TRENDED, Trended, TrendedPosterior

# Trials by which the hyper-parameters are found at most, evenly spaced.
_ASKED = 128


def about_polynomial(data: Observations, degree: int) -> TrendedPosterior:
    """The process with the likeliest hyper-parameters, noise among them.

    Args:
        data: The results; standard deviations that single ones state are not used.
        degree: 1 or 2.

    Raises:
        ValueError: none have a finite likelihood.
    """
    some = data.among(asked(data, _ASKED))
    density = TrendedDensity.of(some, False, degree)
    return _at(data, density.trended(density.best()).rescaled(some.scaling.sd / data.scaling.sd))


def restored(data: Observations, state: Mapping[str, Tensor]) -> TrendedPosterior:
    """The process whose state this was, of these results."""
    return _at(data, Trended.of(state[TRENDED]))


def _at(data: Observations, found: Trended) -> TrendedPosterior:
    return TrendedPosterior(found, torch.tensor(data.X), torch.tensor(data.targets), None, data.scaling, {}, {})
