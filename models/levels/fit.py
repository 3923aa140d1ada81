"""Hyper-parameters of a joint process of levels, from level to level.

Those of a level are fitted to its results given the results of the levels before, as of a process that begins with an
earlier one (``models.earlier.fit``): log p(all results) is the sum of these conditional densities, of which each new
one has parameters of its own (Le Gratiet, 2013). An emulator is a level before the first that is known at every design.
It counts where it predicts the results of the cheapest level better, each from the others, than chance would.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.earlier.fit import Density, Priors
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.fit import NOISE, Question
from fieldcraft.models.levels.process import Foreseen, LevelsPosterior, Term
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Array, LevelResults, Observations
from fieldcraft.models.selection.contest import MARGIN

# A level differs from the one before by a tenth of the spread of the results, give or take a factor of 7, and is about
# as large; the part of the difference that depends on where the mesh lies counts as noise.
PRIORS = Priors(size=math.log(0.01), size_sd=2.0, rho=1.0, rho_sd=0.3, noise=replace(NOISE, location=-8.0, spread=2.0))
# Where the spreads of two levels differ more, the priors are stated in that of the later one's own results.
_FAR = 100.0


def fitted(kernel: Kernel, data: Observations, lower: Sequence[LevelResults], noise: float | None) -> tuple[Term, ...]:
    """Terms of these levels and the target.

    The coarser levels and the emulator share the scaling of the cheapest, so that a factor of 1 means equal results.

    Args:
        kernel: Kind of all correlations.
        data: Observations of one output.
        lower: Levels among ``data.lower`` that count, the cheapest first; without any, the target is an exact process.
        noise: Variance of a result of the target, if it is known.

    Raises:
        ValueError: a level's hyper-parameters cannot be fitted.
    """
    if not lower:
        return (_first(kernel, data, data.reading(data.y), None, noise),)
    scaling = observed(lower[0], data).scaling
    terms: tuple[Term, ...] = (_first(kernel, data, observed(lower[0], data), lower[0].level, None),)
    for each in lower[1:]:
        targets = scaling.to_target(each.Y[:, 0])
        terms = (*terms, _after(posterior(kernel, data, terms), each.X, targets, each.level, None))
    # The target's own targets have another scale.
    ratio = scaling.sd / data.scaling.sd
    known = None if noise is None else noise / ratio**2
    last = _after(posterior(kernel, data, terms), data.X, scaling.to_target(data.y), None, known)
    shift = float(data.scaling.to_target(scaling.to_physical(np.zeros(1)))[0])
    own = Term(
        None, ratio * last.rho, ratio**2 * last.size, last.scales, ratio**2 * last.noise, ratio * last.constant + shift
    )
    return (*terms, own)


def posterior(kernel: Kernel, data: Observations, terms: tuple[Term, ...]) -> LevelsPosterior:
    """The process of some terms, conditioned on all results of their levels."""
    results = {each.level: each for each in data.lower}
    each = [results[term.level] for term in terms if term.level is not None]
    scaling = observed(each[0], data).scaling if each else data.scaling
    foreseen = None
    if terms[0].rho and data.emulators:
        foreseen = Foreseen(data.emulators[0], scaling, each[0].X if each else data.X)
    X, targets = [one.X for one in each], [scaling.to_target(one.Y[:, 0]) for one in each]
    if terms[-1].level is None:
        X, targets, scaling = [*X, data.X], [*targets, data.targets], data.scaling
    return LevelsPosterior(
        kernel=kernel,
        terms=terms,
        X=torch.tensor(np.vstack(X)),
        at=torch.tensor(np.repeat(np.arange(len(X)), [len(one) for one in X])),
        targets=torch.tensor(np.concatenate(targets)),
        scaling=scaling,
        foreseen=foreseen,
    )


def observed(results: LevelResults, data: Observations) -> Observations:
    """Results of one output at one level as observations."""
    return Observations(results.X, results.Y[:, 0], data.maximize, images=data.images)


def _first(kernel: Kernel, data: Observations, own: Observations, level: int | None, noise: float | None) -> Term:
    """The cheapest level, whose results are ``own``, with the emulator or without it."""
    alone = _alone(kernel, own, level, noise)
    if not data.emulators:
        return alone
    foreseen, known = Foreseen(data.emulators[0], own.scaling, own.X), np.zeros((len(own), len(own)))
    predictions = foreseen.at(torch.tensor(own.X)).numpy()
    # Without the emulator, but with the same priors: that of the noise alone may decide.
    term, without = (_next(kernel, own.X, own.targets, m, known, level, noise) for m in (predictions, 0 * predictions))
    term = replace(term, noise=max(term.noise, term.rho**2 * foreseen.jitter))
    told, plain = (
        float(posterior(kernel, data, (each,)).log_predictive().sum()) for each in (term, replace(without, rho=0.0))
    )
    return term if told > plain + MARGIN else alone


def _alone(kernel: Kernel, own: Observations, level: int | None, known: float | None) -> Term:
    """The cheapest level as an exact process of unit variance."""
    found = Question(kernel, known is not None, 2, len(own), ByDigest.of(own)).answer()
    scales, noise = 2 * np.exp(found.theta[: own.X.shape[1]]), math.exp(found.theta[-1]) if known is None else known
    X, targets = torch.tensor(own.X), torch.tensor(own.targets)
    constant = _constant(covariance(kernel, X, X, torch.from_numpy(scales)), noise, targets)
    return Term(level, 0.0, 1.0, scales, noise, constant)


def _after(source: LevelsPosterior, X: Array, targets: Array, level: int | None, noise: float | None) -> Term:
    """A level that follows those of ``source``."""
    points = torch.tensor(X)
    with torch.no_grad():
        mean, C = source.mean(points), source.covariance(points, source.top, points, source.top)
    return _next(source.kernel, X, targets, mean.numpy(), C.numpy(), level, noise)


def _next(
    kernel: Kernel, X: Array, targets: Array, mean: Array, C: Array, level: int | None, noise: float | None
) -> Term:
    """A level of the results ``targets`` (n,) at X (n, d), after one of this mean (n,) and covariance (n, n) there."""
    unit, points = _unit(targets), torch.tensor(X)
    known = None if noise is None else noise / unit**2
    found = Density(kernel, X, targets / unit, mean / unit, C / unit**2, known, PRIORS).maximised()
    found = replace(found, size=found.size * unit**2, noise=found.noise * unit**2)
    own = found.size * covariance(kernel, points, points, torch.from_numpy(found.scales))
    left = torch.tensor(targets - found.rho * mean)
    constant = _constant(found.rho**2 * torch.from_numpy(C) + own, found.noise, left)
    return Term(level, found.rho, found.size, found.scales, found.noise, constant)


def _unit(targets: Array) -> float:
    """Standard deviation in which the priors of a level of these results (n,) are stated, in targets.

    It is one, that of the cheapest level, unless the results spread more than a hundred times as much, or as little, as
    where a coarse run that crashed returned an enormous number: the priors and their bounds would not reach them.
    """
    spread = float(np.std(targets, ddof=1)) if len(targets) > 1 else 1.0
    return 1.0 if spread == 0 or 1 / _FAR < spread < _FAR else spread


def _constant(K: Tensor, noise: float, targets: Tensor) -> float:
    """The best constant, 1^T S^-1 t / 1^T S^-1 1 with S = K + noise I."""
    solved = Factor.of(K, noise).solve(torch.stack([targets, torch.ones_like(targets)], dim=1)).sum(0)
    return float(solved[0] / solved[1])
