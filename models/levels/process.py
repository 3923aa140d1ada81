"""Joint Gaussian process of a simulator's levels (Kennedy and O'Hagan, 2000).

f_0 = c_0 + g_0 is the cheapest level, and each further one f_l = c_l + rho_l f_(l-1) + g_l, with independent Gaussian
processes g_i of the variance s_i and the correlation R_i. So f_l = mu_l + sum_i w_li g_i with w_li the product of the
factors rho_(i+1), ..., rho_l, and

    Cov(f_l(x), f_m(x')) = sum_i w_li w_mi s_i R_i(x, x').

Where the problem has an emulator e, the cheapest level is f_0 = c_0 + rho_0 e + g_0. So e(x) is a part of each mean,
v_l e(x) with v_l the product of the factors rho_0, ..., rho_l. What the emulator's mesh adds from design to design
without order is a part of the variance.

The results of all levels are conditioned on together, so that the process tells what a result of one level would change
at another.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.emulation.slopes import emulated, with_slopes
from fieldcraft.models.gaussian.covariance import CORRELATIONS, covariance, pulled, scaled_squares
from fieldcraft.models.linear.conditioning import Factor, leave_one_out
from fieldcraft.models.linear.fourier_features import FourierFeatures, Kernel
from fieldcraft.models.observations import Array, Emulator, Scaling
from fieldcraft.models.surrogate import Function, MomentsWithSlopes

# Random Fourier features of the prior of a draw, of each term.
_PATH_FEATURES = 1024


@dataclass(frozen=True)
class Term:
    """Hyper-parameters of one level, in its own standardised targets.

    Args:
        level: Number of the level; None for the target.
        rho: Factor of the level before; for the first that of the emulator, 0 without one.
        size: Variance s of what it adds.
        scales: Length scales of that, encoded, shape (d,).
        noise: Variance of a result.
        constant: c.
    """

    level: int | None
    rho: float
    size: float
    scales: Array
    noise: float
    constant: float

    def numbers(self) -> list[float]:
        """All of them but the level, for a state."""
        return [self.rho, self.size, self.noise, self.constant, *self.scales.tolist()]


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Predictions of an emulator in the targets of the cheapest level.

    Args:
        emulator: The emulator of the output.
        scaling: Map between these targets and results.
        seen: Encoded designs that the cheapest level has run, shape (n, d).
    """

    emulator: Emulator
    scaling: Scaling
    seen: Array

    def at(self, X: Tensor) -> Tensor:
        """Predictions at X (n, d), shape (n,), differentiable in X."""
        return self.scaling.sign * (emulated(self.emulator, X) - self.scaling.mean) / self.scaling.sd

    def with_slopes(self, X: Array) -> tuple[Array, Array]:
        """Predictions at X (n, d), shape (n,), and their gradients (n, d), by differences."""
        values, slopes = with_slopes(self.emulator.predict, X, stepped=self.emulator.stepped)
        return self.scaling.to_target(values), self.scaling.sign * slopes / self.scaling.sd

    @property
    def spread(self) -> float:
        """Their standard deviation over the designs that the cheapest level has run."""
        return float(np.std(self.emulator.predict(self.seen))) / self.scaling.sd

    @property
    def jitter(self) -> float:
        """Variance of what the emulator's mesh adds from design to design without order."""
        return (self.emulator.jitter / self.scaling.sd) ** 2


@dataclass(frozen=True, eq=False)
class LevelsPosterior:
    """The process at fixed hyper-parameters, as beliefs about its last level.

    Args:
        kernel: Kind of all correlations.
        terms: Hyper-parameters of the levels, the cheapest first; the last is the target.
        X: Encoded designs of all results, shape (n, d).
        at: Number of the term that each is a result of, shape (n,).
        targets: The results, each in its level's standardised targets, shape (n,).
        scaling: Map between the last level's targets and its results.
        foreseen: The emulator; None if the first factor is 0.
        remarks: Notes on how it was made.
        kept: Its state.
    """

    kernel: Kernel
    terms: tuple[Term, ...]
    X: Tensor
    at: Tensor
    targets: Tensor
    scaling: Scaling
    foreseen: Foreseen | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def metrics(self) -> Mapping[str, float]:
        """Factor, own size and noise of each level, in targets; those of the target have no number."""
        found = dict[str, float]()
        for term in self.terms:
            name = "" if term.level is None else f"_level{term.level}"
            found |= {f"rho{name}": term.rho, f"difference_sd{name}": math.sqrt(term.size)}
            found[f"noise_sd{name}"] = math.sqrt(term.noise)
        return found

    @property
    def levels(self) -> tuple[int | None, ...]:
        """Numbers of the levels that it joins."""
        return tuple(term.level for term in self.terms)

    @property
    def likeness(self) -> float:
        """Correlation of the cheapest level and the target over the designs of the cheapest, before any result.

        An emulator of both is a part of it.
        """
        w, shares = self._loads[[0, -1]], self._shares[[0, -1]]
        joint = (w * self._sizes) @ w.mT
        if self.foreseen is not None:
            joint = joint + self.foreseen.spread**2 * shares[:, None] * shares
        return float(joint[0, 1] / (joint[0, 0] * joint[1, 1]).sqrt())

    @property
    def top(self) -> int:
        """Number of the target's term."""
        return len(self.terms) - 1

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        return self.moments(X, self.top)

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone."""
        return self._prior_mean(X, self.top) + self._weights @ self._with_results(X, self.top)

    def moments(self, X: Tensor, term: int) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free level of a term at X (n, d), in its targets."""
        cross = self._with_results(X, term)
        prior = float(self._loads[term].square() @ self._sizes)
        variance = self._factor.variance(cross.new_tensor(prior), cross) + self._jitter(term)
        return self._prior_mean(X, term) + self._weights @ cross, variance

    def covariance(self, A: Tensor, term: int, B: Tensor, other: int) -> Tensor:
        """Covariance of one term's level at A (a, d) and another's at B (b, d), shape (a, b)."""
        left, right = (
            self._factor.half_solve(self._with_results(points, of)) for points, of in ((A, term), (B, other))
        )
        return self._prior(A, self._loads[term], B, self._loads[other]) - left.mT @ right

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (n, d) with their gradients, in closed form (see ``ExactPosterior``)."""
        x, read, top = X.detach().numpy(), self.X.numpy(), self._loads[self.top]
        parts = []
        for i, term in enumerate(self.terms):
            shares = (float(top[i]) * term.size * self._loads[self.at, i]).numpy()
            here, there = x / term.scales, read / term.scales
            values, slopes = CORRELATIONS[self.kernel](scaled_squares(here, there))
            parts.append((shares * values, shares * slopes, here, there, term.scales))
        cross, weights = sum(part[0] for part in parts), self._weights.numpy()
        half = self._factor.half_solve(torch.from_numpy(cross).mT)
        solved = torch.linalg.solve_triangular(self._factor.lower.mT, half, upper=True).numpy().T
        variance = float(top.square() @ self._sizes) - (half.numpy() ** 2).sum(axis=0)
        by_mean, by_variance = np.zeros_like(x), np.zeros_like(x)
        for _, slopes, here, there, scales in parts:
            by_mean += pulled(slopes * weights, here, there) / scales
            by_variance += pulled(slopes * solved, here, there) * (-2 / scales)
        by_variance[variance < 0] = 0
        mean = float(self._means[self.top]) + cross @ weights
        if self.foreseen is not None:
            share, (predicted, slopes) = float(self._shares[self.top]), self.foreseen.with_slopes(x)
            mean, by_mean = mean + share * predicted, by_mean + share * slopes
        return MomentsWithSlopes(mean, np.maximum(variance, 0) + self._jitter(self.top), by_mean, by_variance)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule: priors of random Fourier features, an exact update (Wilson et al., 2020).

        None has the jitter of an emulator (see ``EmulatedPosterior.draw``).
        """
        return [self._path(rng) for _ in range(q)]

    def fantasize(self, X: Tensor) -> "LevelsPosterior":
        """The posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
        return self.fantasize_at(X, self.top)

    def fantasize_at(self, X: Tensor, term: int) -> "LevelsPosterior":
        """The posterior conditioned on X (k, d) having been read at the mean of a term's level."""
        points = X.detach()
        with torch.no_grad():
            mean, _ = self.moments(points, term)
        return replace(
            self,
            X=torch.cat([self.X, points]),
            at=torch.cat([self.at, self.at.new_full((len(points),), term)]),
            targets=torch.cat([self.targets, mean]),
        )

    def log_predictive(self) -> Tensor:
        """log density of each of the target's results given all others, shape (n,), at these hyper-parameters."""
        return leave_one_out(self._factor, self._residual)[self.at == self.top]

    def state(self) -> dict[str, Tensor]:
        """The hyper-parameters."""
        return dict(self.kept)

    def _path(self, rng: np.random.Generator) -> Function:
        waves = []
        for term in self.terms:
            phi = FourierFeatures.drawn(self.kernel, torch.from_numpy(term.scales), _PATH_FEATURES, rng)
            drawn = torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies)))
            waves.append(phi.combined(math.sqrt(term.size) * drawn))
        error = self._noises.sqrt() * torch.from_numpy(rng.standard_normal(len(self.X)))
        with torch.no_grad():
            prior = torch.stack([wave(self.X) for wave in waves], dim=1)
            known = (self._loads[self.at] * prior).sum(dim=1)
            weights = self._factor.solve(self._residual - known - error)
        loads = self._loads[self.top]

        def drawn_at(X: Tensor) -> Tensor:
            first = torch.stack([wave(X) for wave in waves], dim=1) @ loads
            return self._prior_mean(X, self.top) + first + weights @ self._with_results(X, self.top)

        return drawn_at

    def _with_results(self, X: Tensor, term: int) -> Tensor:
        """Prior covariance of the results and a term's level at X (c, d), shape (n, c)."""
        return self._prior(self.X, self._loads[self.at], X, self._loads[term])

    def _prior_mean(self, X: Tensor, term: int) -> Tensor:
        """Prior mean of a term's level at X (c, d), shape (c,)."""
        mean = self._means[term].expand(len(X))
        return mean if self.foreseen is None else mean + self._shares[term] * self.foreseen.at(X)

    def _jitter(self, term: int) -> float:
        """Variance of a term's level by the jitter of the emulator."""
        return 0.0 if self.foreseen is None else float(self._shares[term]) ** 2 * self.foreseen.jitter

    def _prior(self, A: Tensor, of_a: Tensor, B: Tensor, of_b: Tensor) -> Tensor:
        """Prior covariance (a, b) at A (a, d) and B (b, d) of levels with loads (a or 1, terms) and (b or 1, terms)."""
        total: Tensor | None = None
        for i, term in enumerate(self.terms):
            left, right = of_a.reshape(-1, len(self.terms))[:, i], of_b.reshape(-1, len(self.terms))[:, i]
            scales = torch.from_numpy(term.scales)
            part = term.size * left[:, None] * right * covariance(self.kernel, A, B, scales)
            total = part if total is None else total + part
        assert total is not None  # there is a term
        return total

    @cached_property
    def _loads(self) -> Tensor:
        """w, shape (terms, terms), lower triangular."""
        loads = torch.eye(len(self.terms), dtype=torch.float64)
        for number, term in enumerate(self.terms[1:], start=1):
            loads[number, :number] = term.rho * loads[number - 1, :number]
        return loads

    @cached_property
    def _means(self) -> Tensor:
        """mu without the emulator, c_l + rho_l mu_(l-1), shape (terms,)."""
        found: list[float] = []
        for term in self.terms:
            found.append(term.constant + term.rho * (found[-1] if found else 0.0))
        return torch.tensor(found, dtype=torch.float64)

    @cached_property
    def _shares(self) -> Tensor:
        """v, shape (terms,)."""
        return torch.tensor([term.rho for term in self.terms], dtype=torch.float64).cumprod(0)

    @cached_property
    def _sizes(self) -> Tensor:
        return torch.tensor([term.size for term in self.terms], dtype=torch.float64)

    @cached_property
    def _noises(self) -> Tensor:
        """Noise variance of each result, shape (n,)."""
        return torch.tensor([term.noise for term in self.terms], dtype=torch.float64)[self.at]

    @cached_property
    def _factor(self) -> Factor:
        with torch.no_grad():
            loads = self._loads[self.at]
            return Factor.of(self._prior(self.X, loads, self.X, loads), self._noises)

    @cached_property
    def _residual(self) -> Tensor:
        left = self.targets - self._means[self.at]
        return left if self.foreseen is None else left - self._shares[self.at] * self.foreseen.at(self.X)

    @cached_property
    def _weights(self) -> Tensor:
        return self._factor.solve(self._residual)
