"""Choice between a new design and another result of a tried one, by the expected gain of each."""

from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from fieldcraft.models.acquisition import Score
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior, about_objective
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.maximizer import SAME, Candidates
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import Posterior
from fieldcraft.physics.space import SearchSpace


def repeating(
    found: Candidates, score: Score, posterior: Posterior, data: Observations, pending: Tensor, space: SearchSpace
) -> Candidates:
    """The batch, with tried designs in the places in which another result of one is worth more; see ``repeat``.

    Args:
        found: The batch of new designs.
        score: The score by which it was found, which also gives the value of a repeated design.
        posterior: Beliefs from the data.
        data: The observations behind them.
        pending: Encoded designs without a result, shape (k, d).
        space: The designs that may be proposed; no others are repeated.
    """
    rows = np.unique(data.X, axis=0)
    tried = torch.tensor(rows[np.abs(space.repair(rows) - rows).max(axis=1) < SAME])
    X, value = torch.tensor(found.X), np.array(found.value)
    for slot in range(len(X)):
        out = torch.cat([pending, X[:slot]])
        beliefs = posterior.fantasize(out) if len(out) else posterior
        row = repeat(beliefs, tried, X[slot : slot + 1])
        if row is not None:
            X[slot] = tried[row]
            with torch.no_grad():
                value[slot] = float(score.value(X[slot : slot + 1], slot, X[:slot])[0])
    return replace(found, X=X.numpy(), value=value)


def repeat(posterior: Posterior, tried: Tensor, new: Tensor) -> int | None:
    """The row of a tried design of which another result is worth more than one of a new design; None if none is.

    Worth is the knowledge gradient of a result over these designs (Frazier et al., 2009): by how much it is expected to
    lower the least posterior mean of all of them. Under unknown constraints only designs that are believed feasible
    count, and none is repeated instead of a new one that is not.

    Args:
        posterior: Beliefs, those about designs without a result included.
        tried: Encoded designs with results, shape (m, d).
        new: The new design, shape (1, d).

    Returns:
        The row in ``tried``; None for posteriors other than an exact Gaussian process too.
    """
    process = about_objective(posterior)
    if not isinstance(process, ExactPosterior):
        return None
    rows = torch.arange(len(tried))
    if isinstance(posterior, ConstrainedPosterior):
        if not posterior.believed_feasible(new).all():
            return None
        rows = rows[posterior.read_feasible(tried)]
    gains = expected_gains(process, torch.cat([tried[rows], new]))
    best = int(gains.argmax())
    return int(rows[best]) if best < len(rows) and gains[best] > gains[-1] else None


def expected_gains(process: ExactPosterior, X: Tensor) -> Array:
    """Expected reduction of the least posterior mean at X (n, d) by a result at each of them, in targets, shape (n,).

    A result at x_i moves the mean at x_j by C_ji / sqrt(C_ii + noise) z, z ~ N(0, 1), with C the posterior covariance.
    """
    with torch.no_grad():
        explained = process.factor.half_solve(process.kernel(process.fit.X, X))
        covariance = (process.kernel(X, X) - explained.mT @ explained).numpy()
        means = process.mean(X).numpy()
    deviations = np.sqrt(np.maximum(covariance.diagonal(), 0.0) + process.noise_variance)
    least = means.min()
    return np.array([least - expected_least(means, covariance[:, i] / sd) for i, sd in enumerate(deviations)])


def expected_least(means: Array, slopes: Array) -> float:
    """E[min_i (a_i + b_i z)], z ~ N(0, 1), of means a (n,) and slopes b (n,), exact.

    The least line is known between its corners c_k, and the expectation is the sum over its pieces of
    a (Phi(c_k+1) - Phi(c_k)) + b (phi(c_k) - phi(c_k+1)) (Frazier et al., 2009, section 3.1).
    """
    kept: list[int] = []
    corners = [-np.inf]
    for line in np.lexsort((means, -slopes)):  # the steepest first: it is the least where z goes to minus infinity
        if kept and slopes[line] == slopes[kept[-1]]:
            continue
        while kept:
            corner = (means[line] - means[kept[-1]]) / (slopes[kept[-1]] - slopes[line])
            if corner > corners[-1]:
                break
            kept.pop()
            corners.pop()
        corners = [*corners, corner] if kept else [-np.inf]
        kept.append(int(line))
    edges = np.array([*corners, np.inf])
    below, density = ndtr(edges), np.exp(-0.5 * edges**2) / np.sqrt(2 * np.pi)
    return float(means[kept] @ np.diff(below) - slopes[kept] @ np.diff(density))
