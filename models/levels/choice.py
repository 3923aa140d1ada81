"""Choice of the level at which a design is run, by the expected improvement for the cost.

Let v be the largest expected improvement of a result of the target, and V the largest that is expected after a result
of a coarser level at x: its mean over the results that are possible there, E[max_x' EI(x' | result)] >= v. Two ways
lead to a result of the target: to run it now, which gains v at the cost 1, or to run the level first, which gains V at
the cost 1 + c. The level is run where V / (1 + c) is larger than v. A level that tells nothing of the target has V = v,
and so has one that was read there already.

Beliefs about designs at which no level was run are less certain than a model says. While the cheapest level is like the
target, the target runs therefore only designs that this level has run, if it costs a quarter at most; v and V are the
largest improvements of these, V with x.

If the beliefs do not rest on a level that is like the target, its short start is first completed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.acquisition import Score
from fieldcraft.models.coordinates.model_coordinates import among
from fieldcraft.models.coordinates.posterior import PosteriorOfDesigns
from fieldcraft.models.feasibility.constrained import LEAST_SD, ConstrainedPosterior, about_objective
from fieldcraft.models.levels.process import LevelsPosterior
from fieldcraft.models.maximizer import Candidates
from fieldcraft.models.numerics.point_sets import normal_samples, sobol_points, take
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.scoring.incumbent import incumbent
from fieldcraft.models.selection.contest import Chosen
from fieldcraft.models.surrogate import Posterior
from fieldcraft.physics.space import SearchSpace

# Designs whose improvement is looked at: of a Sobol sequence, and about each chosen one at these distances.
_SAMPLES, _ABOUT, _DISTANCES = 384, 32, (0.01, 0.05, 0.2)
# Designs that may be run at a coarser level beside the chosen one: those of the largest improvement.
_READ = 7
# Possible results of a level.
_RESULTS = 64
# Correlation from which on a level is like the target, and largest cost of one that is run at every design beforehand.
_LIKE, _CHEAP = 0.8, 0.25


def believing(posterior: Posterior, pending: Sequence[Array]) -> Posterior:
    """Beliefs as if designs without a result at coarser levels had been read there at their means.

    Args:
        posterior: Beliefs from the data.
        pending: Designs in the posterior's coordinates, shapes (k, d), by level.
    """
    if isinstance(posterior, ConstrainedPosterior):
        constraints = tuple(believing(each, pending) for each in posterior.constraints)
        return replace(posterior, objective=believing(posterior.objective, pending), constraints=constraints)
    if isinstance(posterior, Chosen):
        return replace(posterior, posterior=believing(posterior.posterior, pending))
    if isinstance(posterior, PosteriorOfDesigns):
        seen = [posterior.coordinates.array(X) for X in pending]
        return replace(posterior, beliefs=believing(posterior.beliefs, seen))
    if isinstance(posterior, LevelsPosterior):
        for level, X in enumerate(pending):
            if level in posterior.levels and len(X):
                posterior = posterior.fantasize_at(torch.tensor(X), posterior.levels.index(level))
    return posterior


def levelled(
    found: Candidates,
    posterior: Posterior,
    data: Observations,
    pending: Tensor,
    pending_lower: Sequence[Array],
    space: SearchSpace,
    score: Score,
    n_initial: int,
    rng: np.random.Generator,
) -> Candidates:
    """The batch with the level of each place, which may get another design; proof and notes are of the first alone.

    Args:
        found: The batch of designs for the target.
        posterior: Beliefs from the data, at encoded points.
        data: The observations behind them.
        pending: Encoded designs without a result of the target, shape (k, d).
        pending_lower: Encoded designs without a result at each coarser level, shapes (k, d), by level.
        space: The designs that may be proposed.
        score: The score by which the batch was found, which also gives the value of another design.
        n_initial: Number of designs that are proposed to the target without a model where there are no levels.
        rng: The only source of randomness.
    """
    out = [np.asarray(X, dtype=np.float64).reshape(-1, data.X.shape[1]) for X in pending_lower]
    out += [np.empty((0, data.X.shape[1]))] * (len(data.levels) - len(out))
    samples = _designs(found.X, data, space, rng)
    X, value, levels = found.X.copy(), found.value.copy(), list[int | None]()
    notes: list[Mapping[str, str]] = list(found.notes or ({},) * len(X))
    for slot, x in enumerate(found.X):
        waiting = torch.cat([pending, torch.tensor(X[:slot][[level is None for level in levels]])])
        beliefs = believing(posterior, out)
        place = _Place.of(beliefs.fantasize(waiting) if len(waiting) else beliefs, data, waiting, samples)
        level, design = place.best(x, data, out)
        if level is None and place.likeness < _LIKE and len(data) + len(waiting) < n_initial:
            design = _next_of_start(x, data, waiting)
        X[slot] = design
        levels.append(level)
        if level is not None:
            out[level] = np.vstack([out[level], design])
        if not np.array_equal(design, x):
            with torch.no_grad():
                value[slot] = float(score.value(torch.tensor(X[[slot]]), slot, torch.tensor(X[:slot]))[0])
            notes[slot] = {}
    proofs = found.certificates if np.array_equal(X, found.X) else None
    return replace(found, X=X, value=value, certificates=proofs, levels=tuple(levels), notes=tuple(notes))


def _next_of_start(x: Array, data: Observations, waiting: Tensor) -> Array:
    """The first design of the cheapest level that the target has not run, (d,); x if there is none."""
    left = data.lower[0].X[~among(data.lower[0].X, np.vstack([data.X, waiting.numpy()]), data.space)]
    return left[0] if len(left) else x


def _designs(X: Array, data: Observations, space: SearchSpace, rng: np.random.Generator) -> Array:
    """Designs (n, d) whose improvement is looked at, without those that the target has run."""
    near = np.repeat(X, _ABOUT, axis=0)
    steps = rng.choice(_DISTANCES, size=(len(near), 1)) * rng.standard_normal(near.shape)
    each = [X, space.repair(near + steps), *(one.X for one in data.lower), take(sobol_points(space, rng), _SAMPLES)]
    points = np.vstack(each)
    return points[~among(points, data.X, data.space)]


@dataclass(frozen=True, eq=False)
class _Part:
    """Beliefs about one output; ``process`` is that of the levels if they rest on one."""

    beliefs: Posterior
    process: LevelsPosterior | None
    told: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, beliefs: Posterior) -> "_Part":
        inner: Posterior = beliefs
        told: Callable[[Tensor], Tensor] = _unchanged
        while isinstance(inner, Chosen | PosteriorOfDesigns):
            if isinstance(inner, PosteriorOfDesigns):
                told, inner = inner.coordinates, inner.beliefs
            else:
                inner = inner.posterior
        return cls(beliefs, inner if isinstance(inner, LevelsPosterior) else None, told)

    def slopes(self, points: Tensor, X: Tensor, level: int) -> Tensor:
        """Changes of the means at points (n, d) by a result at X (k, d) that is one deviation better, (k, n)."""
        process = self.process
        if process is None or level not in process.levels:
            return points.new_zeros(len(X), len(points))
        term, seen = process.levels.index(level), self.told(X)
        _, variance = process.moments(seen, term)
        sd = (variance + process.terms[term].noise).sqrt()
        return process.covariance(seen, term, self.told(points), process.top) / sd[:, None]


def _unchanged(X: Tensor) -> Tensor:
    return X


@dataclass(frozen=True, eq=False)
class _Place:
    """Expectations of one place of a batch.

    Args:
        parts: Beliefs about the objective and each constraint.
        zeros: Values of the constraints at which they are met, shape (c, 1).
        level: Value of the objective from which an improvement is measured.
        points: Encoded designs, shape (n, d).
        free: True for those that the target may run: they do not wait for a result of it, shape (n,).
        success: Probability that each gives a result, shape (n,).
    """

    parts: tuple[_Part, ...]
    zeros: Tensor
    level: float
    points: Tensor
    free: NDArray[np.bool_]
    success: Tensor

    @classmethod
    def of(cls, beliefs: Posterior, data: Observations, waiting: Tensor, samples: Array) -> "_Place":
        points, level = torch.tensor(samples), float(incumbent(beliefs, data, waiting))
        parts, zeros, success = [_Part.of(about_objective(beliefs))], torch.empty(0), torch.ones(len(points))
        if isinstance(beliefs, ConstrainedPosterior):
            parts += [_Part.of(each) for each in beliefs.constraints]
            zeros = beliefs.zeros
            if beliefs.hidden is not None:
                success = beliefs.hidden.log_probability(points).exp()
        free = ~among(samples, waiting.numpy(), data.space)
        return cls(tuple(parts), zeros[:, None], level, points, free, success)

    def best(self, x: Array, data: Observations, out: Sequence[Array]) -> tuple[int | None, Array]:
        """Level and design (d,) of the place, if ``x`` (d,) is the best design for the target.

        Args:
            x: One of the points.
            data: The observations.
            out: Encoded designs without a result at each level, shapes (k, d).
        """
        with torch.no_grad():
            points, worth = self.points.numpy(), self._worth(*self._moments).numpy()
            tried = self._tried(data)
            first = np.flatnonzero(among(points, x[None], data.space))[:1]
            at = int(np.where(tried if tried.any() else self.free, worth, -1.0).argmax())
            moves = tried.any() or not self.free[first].all()
            best: tuple[float, int | None, Array] = (1.0, None, points[at] if moves else x)
            first = np.concatenate([first, np.argsort(-worth, kind="stable")[:_READ]])
            for each in data.lower:
                gone = np.vstack([each.X, out[each.level]])
                rows = first[~among(points[first], gone, data.space)] if data.exact else first
                if len(rows):
                    gains = self._gains(rows, each.level, tried) / (1 + each.cost)
                    top = int(gains.argmax())
                    if gains[top] > best[0]:
                        best = float(gains[top]), each.level, points[rows[top]]
        return best[1:]

    @property
    def likeness(self) -> float:
        """Correlation of the cheapest level and the target; 0 if the beliefs rest on none."""
        process = self.parts[0].process
        return 0.0 if process is None else process.likeness

    def _tried(self, data: Observations) -> NDArray[np.bool_]:
        """True for the free points that the cheapest level has run, (n,); none if it is dear or unlike the target."""
        process = self.parts[0].process
        if process is None or self.likeness < _LIKE:
            return np.zeros(len(self.points), dtype=bool)
        known = [each.X for each in data.lower if each.level == process.levels[0] and each.cost <= _CHEAP]
        return self.free & among(self.points.numpy(), np.vstack([self.points.numpy()[:0], *known]), data.space)

    def _gains(self, rows: NDArray[np.intp], level: int, tried: NDArray[np.bool_]) -> Array:
        """V / v for a result of a level at each of some points (k,), shape (k,); 1 where nothing is expected.

        Args:
            rows: Their numbers.
            level: Number of the level.
            tried: True for the points that the target may run, beside the one of the result; none for all free ones.
        """
        mean, sd = self._moments
        slopes = torch.stack([part.slopes(self.points, self.points[rows], level) for part in self.parts], dim=1)
        gains = np.ones(len(rows))
        for k, moves in enumerate(slopes):
            left = (sd.square() - moves.square()).clamp_min(LEAST_SD**2).sqrt()
            worth = self._worth(mean + _results(len(self.parts))[:, :, None] * moves, left).numpy()
            allowed = tried if tried.any() else self.free
            now = float(worth[:, allowed].mean(axis=0).max())
            after = np.maximum(worth[:, allowed].max(axis=1), worth[:, rows[k]] * self.free[rows[k]]).mean()
            if after > 0:
                gains[k] = after / now if now > 0 else np.inf
        return gains

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        """Means and standard deviations at the designs, shape (outputs, n)."""
        moments = [part.beliefs.mean_var(self.points) for part in self.parts]
        mean, variance = (torch.stack([each[i] for each in moments]) for i in (0, 1))
        return mean, variance.clamp_min(LEAST_SD**2).sqrt()

    def _worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Expected improvement times the probability of all constraints, of (..., outputs, n), shape (..., n)."""
        z = (self.level - mean[..., 0, :]) / sd[0]
        improved = sd[0] * (torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi) + z * torch.special.ndtr(z))
        met = torch.special.ndtr((self.zeros - mean[..., 1:, :]) / sd[1:]).prod(dim=-2)
        worth: Tensor = improved.clamp_min(0) * met * self.success
        return worth


@lru_cache(maxsize=16)
def _results(outputs: int) -> Tensor:
    """Standardised results of a level that are equally likely, shape (results, outputs)."""
    if outputs > 1:
        return normal_samples(_RESULTS, outputs, 0)
    found: Tensor = torch.special.ndtri((torch.arange(_RESULTS, dtype=torch.float64)[:, None] + 0.5) / _RESULTS)
    return found
