"""Score of a surrogate by its predictions of results that it has not seen, on one scale for all surrogates."""

import math
from dataclasses import replace

import numpy as np
import torch

from fieldcraft.models.numerics.scores import LEAST_SD
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import LeaveOneOut, Posterior, Surrogate, no_report

MOST = -math.log(LEAST_SD * math.sqrt(2 * math.pi))
"""Log density of a target that is predicted with that error; more tells no surrogate from another."""
_FEWEST = 3
# Noise variances of a target among which the one that suits held-out results best is looked for.
_NOISES = np.logspace(-8, 1, 91)


def score(
    surrogate: Surrogate, posterior: Posterior, data: Observations, folds: int, rng: np.random.Generator
) -> float:
    """Sum over the trials of log p(t_i | trials without i), each at most that of an error of ``LEAST_SD``.

    In closed form where the posterior has it (Rasmussen and Williams, 2006, section 5.4.2), else by fits without one
    fold after the other. All are densities of the standardised targets of all data, so that they can be compared.

    Args:
        surrogate: Surrogate that was fitted.
        posterior: Its posterior for data.
        data: All observations.
        folds: Number of fits where there is no closed form; no more than there are trials.
        rng: The only source of randomness.

    Raises:
        ValueError: too few trials for folds, a fit that fails, or a density that is not finite.
    """
    if isinstance(posterior, LeaveOneOut):
        densities = posterior.log_predictive().detach().numpy()
    else:
        densities = _held_out(surrogate, data, folds, rng)
    if not np.all(np.isfinite(densities)):
        bad = int(np.flatnonzero(~np.isfinite(densities))[0])
        raise ValueError(f"The predictive density of trial {bad} is {densities[bad]}: this surrogate cannot be judged.")
    return float(np.minimum(densities, MOST).sum())


def _held_out(surrogate: Surrogate, data: Observations, folds: int, rng: np.random.Generator) -> Array:
    """Log density (n,) of each target by the fit without its fold; unknown noise is chosen to suit all of them."""
    n = len(data)
    if n < _FEWEST:
        raise ValueError(f"There are {n} trials: a surrogate without a closed form is judged from {_FEWEST} on.")
    mean, variance = np.empty(n), np.empty(n)
    for fold in np.array_split(rng.permutation(n), min(folds, n)):
        kept = np.setdiff1d(np.arange(n), fold)
        part = data.among(kept)
        posterior = surrogate.fit(part, rng, None, no_report)
        with torch.no_grad():
            found = [values.numpy() for values in posterior.mean_var(torch.tensor(data.X[fold]))]
        # Constant results have no scale of their own: what is of order one to their surrogate is so here.
        scaling = replace(part.scaling, sd=data.scaling.sd) if part.constant else part.scaling
        mean[fold] = data.scaling.to_target(scaling.to_physical(found[0]))
        variance[fold] = found[1] * (scaling.sd / data.scaling.sd) ** 2
    noises = _NOISES if data.noise_variance is None else np.array([max(data.noise_variance, LEAST_SD**2)])
    total = variance + noises[:, None]
    densities = -0.5 * (np.log(2 * np.pi * total) + (data.targets - mean) ** 2 / total)
    return np.asarray(densities[densities.sum(1).argmax()])
