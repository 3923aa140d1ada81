"""What ``certified.py`` compares: acquisitions drawn from their own prior, and the ways to search for their best."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from botorch.acquisition.analytic import UpperConfidenceBound
from botorch.optim.optimize import optimize_acqf
from scipy.optimize import minimize
from scipy.stats import qmc

from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.gaussian.draws import pathwise
from fieldcraft.models.gaussian.process import ExactPosterior, Fit, build, posterior
from fieldcraft.models.maximizer import Maximizer
from fieldcraft.models.numerics.randomness import seeded
from fieldcraft.models.observations import Array, Observations, Scaling
from fieldcraft.models.rivals._botorch import RAW_SAMPLES, RESTARTS
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.physics.space import Continuous, SearchSpace

KERNEL, NOISE = "matern32", 1e-6
STARTS = 5
"""Starts of a method that has more than one: the lowest corner, which is the paper's only one, then Sobol points."""
SAMPLES, POLISHED = 10_000, 20
_TOLERANCE, _MOST_ITERATIONS = 1e-6, 1000  # the paper's, for its rivals
_ROOT = math.sqrt(3.0)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The confidence bound of a Gaussian process with given hyper-parameters on a draw from its own prior.

    Latin hypercube data on the unit cube, Matern-3/2, length scale 0.2 sqrt(d) of the cube, noise 1e-6, standardised
    results, b^2 = 0.2 d log(2 n).

    Args:
        posterior: The process.
        score: b sd - mean, to be maximised.
    """

    posterior: ExactPosterior
    score: AnalyticScore

    @classmethod
    def of(cls, d: int, n: int, seed: int) -> "Drawn":
        """Instance ``seed`` of those with d coordinates and n results, its posterior ready to be asked."""
        rng = np.random.default_rng([d, n, seed])
        X = torch.from_numpy(2 * qmc.LatinHypercube(d, rng=rng).random(n) - 1)
        lower = given(X, torch.zeros(n, dtype=X.dtype)).factor.lower
        y = lower @ torch.from_numpy(rng.standard_normal(n))
        made = given(X, (y - y.mean()) / y.std())
        data, nothing = Observations(X.numpy(), made.fit.targets.numpy(), maximize=False), X[:0]
        score = UCB(beta="growing").score(made, data, nothing, 1, rng)
        score.value(X[:1], 0, nothing)  # fills GPyTorch's caches, which belong to no search
        return cls(made, score)

    @property
    def space(self) -> SearchSpace:
        """The unit cube."""
        return SearchSpace(tuple(Continuous(f"x{i}", 0.0, 1.0) for i in range(self.posterior.dimension)))

    @cached_property
    def bound(self) -> "Bound":
        """The same function for one point at a time."""
        p = self.posterior
        scales = p.length_scales.numpy()
        root = np.linalg.inv(p.factor.lower.numpy())
        weights = root.T @ (root @ (p.fit.targets.numpy() - p.constant))
        return Bound(scales, p.fit.X.numpy() / scales, root, weights, p.constant, float(self.score.optimism or 0.0))


def given(X: torch.Tensor, targets: torch.Tensor) -> ExactPosterior:
    """The process with the benchmark's hyper-parameters on encoded X (n, d) and targets (n,)."""
    noise = torch.tensor(NOISE, dtype=torch.float64)
    model = build(KERNEL, X, targets, noise)
    model.covar_module.lengthscale = 0.2 * math.sqrt(X.shape[1])
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    return posterior(Fit(KERNEL, X, targets, noise, parameters, {}), Scaling(0.0, 1.0, 1.0), pathwise, {})


@dataclass(frozen=True, eq=False)
class Bound:
    """b sd - mean in NumPy: for one point ten times quicker than through GPyTorch, so that no rival waits for it.

    Args:
        scales: Length scales, shape (d,).
        centres: Inputs divided by them, shape (n, d).
        root: V with V^T V the inverse covariance of the results, shape (n, n).
        weights: That inverse times the results less the constant, shape (n,).
        constant: The constant mean.
        optimism: b.
    """

    scales: Array
    centres: Array
    root: Array
    weights: Array
    constant: float
    optimism: float

    def values(self, X: Array) -> Array:
        """At X (m, d), shape (m,)."""
        z = _ROOT * np.linalg.norm((X / self.scales)[:, None] - self.centres, axis=-1)
        k = (1 + z) * np.exp(-z)
        variance = 1 - np.square(k @ self.root.T).sum(axis=1)
        return self.optimism * np.sqrt(np.maximum(variance, 1e-12)) - self.constant - k @ self.weights

    def loss(self, x: Array) -> tuple[float, Array]:
        """Minus the value at x (d,), and its gradient (d,)."""
        apart = x / self.scales - self.centres
        z = _ROOT * np.sqrt(np.einsum("ij,ij->i", apart, apart))
        decay = np.exp(-z)
        k = (1 + z) * decay
        u = self.root @ k
        sd = math.sqrt(max(1 - float(u @ u), 1e-12))
        by_k = self.weights + (self.optimism / sd) * (u @ self.root)
        return self.constant + float(self.weights @ k) - self.optimism * sd, -3 * ((by_k * decay) @ apart) / self.scales


Search = Callable[[Drawn, np.random.Generator], Array]
"""From an instance to the best encoded point (d,) that was found."""


def by_scipy(method: str, starts: int = STARTS) -> Search:
    """The best end of a method of ``scipy.optimize`` from fixed starts, with gradients where it takes them."""
    by_gradient = method in ("L-BFGS-B", "SLSQP", "trust-constr")

    def search(drawn: Drawn, rng: np.random.Generator) -> Array:
        bound, d = drawn.bound, drawn.posterior.dimension
        loss = bound.loss if by_gradient else lambda x: bound.loss(x)[0]
        return best_end(bound, corner_and_sobol(d, starts), loss, method, by_gradient=by_gradient)

    return search


def corner_and_sobol(d: int, n: int) -> Array:
    """The lowest corner and the first n - 1 points of an unscrambled Sobol sequence after it, encoded, shape (n, d)."""
    return 2 * qmc.Sobol(d, scramble=False).random_base2(max(0, n - 1).bit_length())[:n] - 1


def best_end(bound: Bound, starts: Array, loss: Callable[[Array], object], method: str, *, by_gradient: bool) -> Array:
    """The best of where a method of ``scipy.optimize`` leads from starts (s, d), shape (d,)."""
    ends = [
        minimize(
            loss,
            start,
            method=method,
            jac=by_gradient or None,
            bounds=[(-1.0, 1.0)] * len(start),
            tol=_TOLERANCE,
            options={"maxiter": _MOST_ITERATIONS},
        ).x
        for start in starts
    ]
    X = np.clip(np.array(ends), -1, 1)
    return X[np.argmax(bound.values(X))]


def samples_and_gradients(drawn: Drawn, rng: np.random.Generator) -> Array:
    """The best of 10,000 samples and of L-BFGS-B from the best 20 of them."""
    bound = drawn.bound
    X = rng.uniform(-1, 1, (SAMPLES, drawn.posterior.dimension))
    values = np.concatenate([bound.values(block) for block in np.array_split(X, 40)])
    return best_end(bound, X[np.argsort(-values)[:POLISHED]], bound.loss, "L-BFGS-B", by_gradient=True)


def botorch_multistart(drawn: Drawn, rng: np.random.Generator) -> Array:
    """BoTorch's ``optimize_acqf`` as its tutorials call it, on the unit cube."""
    d, beta = drawn.posterior.dimension, float(drawn.score.optimism or 0.0) ** 2
    acquisition = UpperConfidenceBound(drawn.posterior.model, beta=beta, maximize=False)
    cube = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    with seeded(rng):
        found, _ = optimize_acqf(acquisition, cube, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES)
    return 2 * found[0].detach().numpy() - 1


RIVALS: Mapping[str, Search] = {
    "L-BFGS-B, 1 start": by_scipy("L-BFGS-B", 1),
    f"Nelder-Mead, {STARTS} starts": by_scipy("Nelder-Mead"),
    f"COBYLA, {STARTS} starts": by_scipy("COBYLA"),
    f"SLSQP, {STARTS} starts": by_scipy("SLSQP"),
    f"trust-constr, {STARTS} starts": by_scipy("trust-constr"),
    f"BoTorch, {RESTARTS} of {RAW_SAMPLES}": botorch_multistart,
    f"{SAMPLES:,} + {POLISHED} L-BFGS-B": samples_and_gradients,
}
"""The searches that prove nothing."""


@dataclass(frozen=True)
class Outcome:
    """What one search made of one instance.

    Args:
        cpu_s: Processor seconds.
        wall_s: Wall seconds.
        value: The score that was found.
        bound: What the score was proven not to exceed; None where nothing was.
        nodes: Boxes bounded, or nodes of SCIP's tree; likewise.
        status: How the search with a proof ended; likewise.
    """

    cpu_s: float
    wall_s: float
    value: float
    bound: float | None = None
    nodes: int | None = None
    status: str | None = None


def searched(search: Search, drawn: Drawn, seed: int) -> Outcome:
    """The outcome of a search that proves nothing."""
    rng, cpu, wall = np.random.default_rng([seed, 1]), time.process_time(), time.perf_counter()
    x = search(drawn, rng)
    took = time.process_time() - cpu, time.perf_counter() - wall
    return Outcome(*took, float(drawn.bound.values(x[None])[0]))


def proven(maximizer: Maximizer, drawn: Drawn, seed: int) -> Outcome:
    """The outcome of a maximizer that gives a certificate."""
    rng, cpu, wall = np.random.default_rng([seed, 1]), time.process_time(), time.perf_counter()
    found = maximizer.maximize(drawn.score, drawn.space, 1, rng)
    took = time.process_time() - cpu, time.perf_counter() - wall
    (proof,) = found.certificates or ()
    value = float(drawn.bound.values(found.X)[0])
    return Outcome(*took, value, proof.bound, proof.nodes, proof.status)
