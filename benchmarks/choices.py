"""CPU seconds of a proposal of the methods beside ``gp_ei``, each beside it in one process.

    OMP_NUM_THREADS=1 python benchmarks/choices.py [--only cost constrained many] [--n 50 200 500] [--json FILE]

``cost``: a whole proposal (fit with hyper-parameters, acquisition, maximiser) in ten dimensions with noise of 1%, by a
process that knows nothing (cold) and by one that has proposed with a trial less (warm). ``constrained``: neural_cbo
with an objective and 11 constraints. ``many``: the stand-in beyond ``n_exact`` at 5,000 trials beside the exact answer
(log predictive density of 2,000 unseen values, and the objective at the proposal), and its cost at 20,000.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.acquisition import Acquisition
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.gaussian import additive_evidence
from fieldcraft.models.gaussian import fit as gaussian_fit
from fieldcraft.models.gaussian.process import Fit
from fieldcraft.models.linear.feature_posterior import FixedFeaturePosterior
from fieldcraft.models.linear.fourier_features import FourierFeatures
from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.surrogate import Surrogate, no_report
from fieldcraft.models.surrogates import auto
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent import evidence
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang
from fieldcraft.physics.space import Continuous, SearchSpace

METHODS: dict[str, tuple[Surrogate, Acquisition]] = {
    "gp_ei": (ExactGP(), LogEI()),
    "auto": (Auto(), LogEI()),
    "sto_bnts_linear": (SampledLinear(), Thompson()),
    "gp_ts": (ExactGP(), Thompson()),
}


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one method on one set of trials."""

    data: str
    n: int
    method: str
    cold: float
    warm: float
    chosen: str


def clocked(call: Callable[..., Any], *arguments: object) -> tuple[float, Any]:
    """CPU seconds of a call, and what it returned."""
    began = time.process_time()
    found = call(*arguments)
    return time.process_time() - began, found


def forget() -> None:
    """Forget the fits that this process has kept."""
    for kept in (additive_evidence.fitted, auto.judged, gaussian_fit.from_priors, evidence.answered):
        kept.cache_clear()


def trials(problem: Any, n: int, most: int = 4000) -> tuple[Observations, SearchSpace, Callable[[Array], Array]]:
    """The first n of ``most`` random trials of a problem with noise of 1% of its deviation, and the problem itself."""
    space = problem.space
    X = space.sample(most, np.random.default_rng(0))

    def f(X: Array) -> Array:
        return problem.exact(np.array([[design[name] for name in space.names] for design in space.decode(X)]))

    y = f(X)
    y = y + 0.01 * y.std() * np.random.default_rng(1).standard_normal(most)
    return Observations(X[:n], y[:n], maximize=False), space, f


def proposal(surrogate: Surrogate, acquisition: Acquisition, data: Observations, space: SearchSpace) -> tuple:
    """The posterior and the proposal."""
    posterior = surrogate.fit(data, np.random.default_rng(0), None, no_report)
    score = acquisition.score(posterior, data, torch.empty(0, data.X.shape[1]), 1, np.random.default_rng(1))
    return posterior, Multistart().maximize(score, space, 1, np.random.default_rng(2)).X


def costs(sizes: list[int]) -> list[Cost]:
    """Each method at each number of trials."""
    found = []
    for name, problem in (("Levy-10", Levy(dimension=10)), ("Ackley-10", Ackley(dimension=10))):
        for n in sizes:
            data, space, _ = trials(problem, n)
            before, *_ = trials(problem, n - 1)
            for method, words in METHODS.items():
                forget()
                cold, (posterior, _) = clocked(proposal, *words, data, space)
                forget()
                proposal(*words, before, space)
                warm, _ = clocked(proposal, *words, data, space)
                found.append(Cost(name, n, method, round(cold, 3), round(warm, 3), posterior.remarks.get("chosen", "")))
                print(found[-1], flush=True)
    return found


def constrained() -> dict[str, float]:
    """CPU seconds of ``neural_cbo`` with 12 outputs at 45 trials in 7 dimensions, cold: fit and proposal."""
    rng = np.random.default_rng(0)
    X, W = rng.uniform(-1, 1, (45, 7)), rng.standard_normal((7, 11))
    limits = np.tanh(X @ W) + 0.3 * np.cos(3 * X @ W) - 0.8
    data = Observations(X, np.sin(2 * X[:, 0]) + (X**2).sum(1), maximize=False, constraints=limits)
    space = SearchSpace(tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(7)))
    rules = Constraints(TangentNetwork(), Probability())
    algorithm = Algorithm(Sobol(), 4, TangentNetwork(), LogEI(), Multistart(), constraints=rules)
    forget()
    fit, posterior = clocked(lambda: algorithm.fit(data, np.random.default_rng(0)))
    propose, _ = clocked(
        lambda: algorithm.propose(posterior, data, np.empty((0, 7)), space, 1, np.random.default_rng(1))
    )
    print(f"neural_cbo, 12 outputs, n = 45: fit {fit:.2f}, proposal {propose:.2f}", flush=True)
    return {"fit": round(fit, 3), "propose": round(propose, 3)}


class RandomFeatures(ExactGP):
    """The stand-in of before: regression on 1,024 random Fourier features."""

    def _induced(self, fit: Fit, data: Observations) -> FixedFeaturePosterior:
        made = super()._induced(fit, data)
        phi = FourierFeatures.drawn(self.kernel, made.features.scales, 1024, np.random.default_rng(0))
        model = LinearModel.of(phi(fit.X), float(made.metrics["noise_sd"]) ** 2)
        return FixedFeaturePosterior(phi, model, made.y, made.constant, made.scaling, made.metrics, made.kept)


def many() -> list[dict[str, object]]:
    """Stand-ins for the exact process at 5,000 trials, and the present one at 20,000."""
    problems = {
        "Hartmann-6": Hartmann(),
        "Styblinski-Tang-10": StyblinskiTang(dimension=10),
        "Ackley-10": Ackley(dimension=10),
    }
    stands = {"exact": ExactGP(), "inducing": ExactGP(n_exact=1), "random features": RandomFeatures(n_exact=1)}
    asked = [(name, 5000, stand) for name in problems for stand in stands]
    asked += [("Styblinski-Tang-10", 20_000, "inducing")]
    found = []
    for name, n, stand in asked:
        data, space, f = trials(problems[name], n, max(n, 5000))
        forget()
        seconds, (posterior, x) = clocked(proposal, stands[stand], LogEI(), data, space)
        unseen = space.sample(2000, np.random.default_rng(99))
        truth = data.scaling.to_target(f(unseen))
        with torch.no_grad():
            mean, variance = (each.numpy() for each in posterior.mean_var(torch.tensor(unseen)))
        variance = variance + 1e-4
        density = -0.5 * (np.log(2 * np.pi * variance) + (truth - mean) ** 2 / variance)
        row = {
            "problem": name,
            "n": n,
            "posterior": stand,
            "seconds": round(seconds, 2),
            "log_density": round(float(density.mean()), 3),
            "rmse": round(float(np.sqrt(np.mean((truth - mean) ** 2))), 3),
            "objective_at_proposal": round(float(data.scaling.to_target(f(x))[0]), 3),
        }
        found.append(row)
        print(row, flush=True)
    return found


def main() -> None:
    """Run what was asked for."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=["cost", "constrained", "many"])
    parser.add_argument("--n", nargs="+", type=int, default=[50, 200, 500, 1000, 2000])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, object] = {"date": datetime.now(UTC).date().isoformat(), "unit": "CPU seconds of one thread"}
    if "cost" in asked.only:
        found["cost"] = [asdict(each) for each in costs(asked.n)]
    if "constrained" in asked.only:
        found["constrained"] = constrained()
    if "many" in asked.only:
        found["many"] = many()
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
