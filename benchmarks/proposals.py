"""CPU seconds of a whole proposal in ten variables, each method beside its rivals in one run.

``python benchmarks/proposals.py --json FILE``; ``--trials 50 200`` and ``--methods gp_ei cei`` run some rows.

A proposal is what a campaign pays for one: the hyper-parameters fitted again, the model stored and restored, and the
next design found. Each number of trials stands for the growth by a tenth in which it lies. ``milestone`` is the
proposal at its first number, where fits begin at their priors; ``between`` the mean of three later ones; ``mean`` what
a proposal costs on average while a campaign grows through it. Up to 50 trials every proposal is one at a milestone. A
rival has no such milestones: all of its proposals count alike (from 1,000 trials on one of them is timed). Trials have
noise of 1%: those of Styblinski-Tang are spread over the box; of Ackley a third are, and the rest lie about the best
point, as campaigns leave them. Everything is on one thread.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.milestones import EVERY_TRIAL_TO, milestone
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rivals.botorch_log_ei import BotorchLogEI
from fieldcraft.models.rivals.optuna_gp import OptunaGP
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.physics.space import Continuous, SearchSpace

D = 10
SPACE = SearchSpace(tuple(Continuous(f"x{i}", -5.0, 5.0) for i in range(D)))
NONE = np.empty((0, D))


def made(surrogate: object, acquisition: object, constraints: Constraints | None = None) -> Algorithm:
    """An algorithm with the usual maximizer."""
    return Algorithm(Sobol(), 2 * D, surrogate, acquisition, Multistart(), constraints=constraints or Constraints())


METHODS: dict[str, Callable[[], Algorithm]] = {
    "gp_ei": lambda: made(ExactGP(), LogEI()),
    "cei": lambda: made(ExactGP(), LogEI(), Constraints(ExactGP(), Probability())),
    "gp_ts": lambda: made(ExactGP(), Thompson()),
    "auto": lambda: made(Auto(), LogEI()),
    "sto_bnts_linear": lambda: made(SampledLinear(), Thompson()),
    "botorch_log_ei": lambda: Algorithm(Sobol(), 2 * D, peer=BotorchLogEI()),
    "botorch_log_cei": lambda: Algorithm(Sobol(), 2 * D, peer=BotorchLogEI()),
    "optuna_gp": lambda: Algorithm(Sobol(), 2 * D, peer=OptunaGP()),
    "optuna_gp_constrained": lambda: Algorithm(Sobol(), 2 * D, peer=OptunaGP()),
}
CONSTRAINED = {"cei", "botorch_log_cei", "optuna_gp_constrained"}


def styblinski_tang(X: np.ndarray) -> np.ndarray:
    """Sum over the coordinates of points (n, d), shape (n,)."""
    return 0.5 * ((5 * X) ** 4 - 16 * (5 * X) ** 2 + 25 * X).sum(axis=1)


def ackley(X: np.ndarray) -> np.ndarray:
    """Ackley's function of points (n, d), its optimum off the centre, shape (n,)."""
    x = 16 * X + 8
    return 20 - 20 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=1))) - np.exp(np.cos(2 * np.pi * x).mean(axis=1))


FUNCTIONS = {"styblinski_tang": (styblinski_tang, None), "ackley": (ackley, -0.5)}


def trials(function: str, n: int, *, constrained: bool) -> Observations:
    """The first n trials of a campaign on a function, under two constraints if asked."""
    objective, best = FUNCTIONS[function]
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (2500, D))
    if best is not None:
        near = np.clip(best + 0.3 * rng.standard_normal((2500, D)), -1, 1)
        X = np.where((np.arange(2500) % 3 == 0)[:, None], X, near)
    y = objective(X)
    y = y + 0.01 * y.std() * rng.standard_normal(2500)
    excess = np.stack([np.abs(X).sum(axis=1) - 0.6 * D, X[:, 0] - X[:, 1] - 0.5], axis=1)[:n]
    kept = excess if constrained else np.empty((0, 0))
    return Observations(X[:n], y[:n], maximize=False, constraints=kept, space=SPACE)


def seconds(algorithm: Algorithm, data: Observations) -> float:
    """CPU seconds of one proposal."""
    fitting, choosing = np.random.default_rng([1, len(data)]), np.random.default_rng([2, len(data)])
    began = time.process_time()
    if algorithm.peer is not None:
        algorithm.suggest(data, NONE, SPACE, 1, choosing)
    else:
        posterior = algorithm.restore(data, algorithm.fit(data, fitting).state())
        algorithm.propose(posterior, data, NONE, SPACE, 1, choosing)
    return time.process_time() - began


@dataclass(frozen=True)
class Row:
    """CPU seconds of a proposal of one method, means over the functions.

    Args:
        method: Its name.
        trials: Their number.
        milestone: Of the proposal at the milestone; of any proposal for a rival.
        between: Of those after it; None where there are none.
        mean: Of all until the next milestone.
    """

    method: str
    trials: int
    milestone: float
    between: float | None
    mean: float


def timed(method: str, n: int) -> Row:
    """A method at about n trials."""
    first = milestone(n)
    after = next(m for m in range(first + 1, 2 * first + 2) if milestone(m) == m)
    found = [_timed(METHODS[method](), method in CONSTRAINED, name, first, after) for name in FUNCTIONS]
    at, later = (statistics.mean(each) for each in zip(*found, strict=True))
    if METHODS[method]().peer is not None or first <= EVERY_TRIAL_TO:
        return Row(method, n, later, None, later)
    return Row(method, n, at, later, (at + (after - first - 1) * later) / (after - first))


def _timed(algorithm: Algorithm, constrained: bool, function: str, first: int, after: int) -> tuple[float, float]:
    if first <= EVERY_TRIAL_TO:
        each = [seconds(algorithm, trials(function, n, constrained=constrained)) for n in (first - 2, first - 1, first)]
        return statistics.mean(each), statistics.mean(each)
    if algorithm.peer is None:
        # As in a campaign, the process knows the fit to the first half of the trials already.
        algorithm.fit(
            trials(function, 1 << (first - 1).bit_length() - 1, constrained=constrained), np.random.default_rng(0)
        )
        at = seconds(algorithm, trials(function, first, constrained=constrained))
    quarters = (2,) if algorithm.peer is not None and first > 900 else (1, 2, 3)
    places = [first + (after - first) * quarter // 4 for quarter in quarters]
    later = [seconds(algorithm, trials(function, n, constrained=constrained)) for n in places]
    return (at if algorithm.peer is None else statistics.mean(later)), statistics.mean(later)


def main() -> None:
    """Time the rows that were asked for, and print them as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[50, 200, 500, 1000, 2000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, help="file of the figures; rows of other runs in it are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    for method in options.methods:  # first calls load code
        seconds(METHODS[method](), trials("ackley", 25, constrained=method in CONSTRAINED))
    print(f"{'method':22} {'trials':>7} {'milestone':>10} {'between':>10} {'mean':>10}")
    for n in options.trials:
        for method in options.methods:
            row = timed(method, n)
            between = "" if row.between is None else f"{row.between:10.3f}"
            print(f"{method:22} {n:7,} {row.milestone:10.3f} {between:>10} {row.mean:10.3f}", flush=True)
            kept = [one for one in kept if (one["method"], one["trials"]) != (method, n)]
            kept.append({**asdict(row), "date": datetime.date.today().isoformat()})
            if options.json:
                head = {"what": "CPU seconds of a proposal, 10 variables, one thread", "columns": Row.__doc__}
                options.json.write_text(json.dumps({**head, "rows": kept}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
