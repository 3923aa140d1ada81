"""The level that an improvement is measured from."""

import torch
from torch import Tensor

from models.constrained import ConstrainedPosterior
from models.observations import Observations
from models.surrogate import Posterior


def best_belief(posterior: Posterior, data: Observations) -> tuple[Tensor, Tensor]:
    """Least posterior mean among the observed points, and the doubt about it; two numbers.

    The doubt is the standard deviation there where the noise of the readings is stated, and else 0. Under unknown
    constraints only points believed feasible count, and all of them where none is.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
    """
    with torch.no_grad():
        X = torch.tensor(data.X)
        mean, variance = posterior.mean_var(X)
        if isinstance(posterior, ConstrainedPosterior):
            feasible = posterior.believed_feasible(X)
            mean = mean.where(feasible, torch.inf) if feasible.any() else mean
        best = mean.argmin()
        return mean[best], variance[best].sqrt() if data.noise_sd else torch.zeros_like(mean[best])


def incumbent(posterior: Posterior, data: Observations) -> Tensor:
    """The best belief less the doubt about it, a number.

    Under noise the best point is itself in doubt. Measured from its mean, the points beside it, in as much doubt and
    as good, promise an improvement for ever and can hold the search where it is. A mean and no reading, so that one
    lucky reading does not stop the search. Noise that is not stated counts as none.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
    """
    best, doubt = best_belief(posterior, data)
    return best - doubt
