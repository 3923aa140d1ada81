"""The figures of the tangent methods, each beside its rival in the same run: ``python benchmarks/speed.py``.

Everything is on one thread and seconds are that thread's CPU seconds, so that other work on the machine counts little;
an idle one is still best. ``--only b c`` runs some lines, ``--json FILE`` keeps the figures, ``--device cuda`` runs the
lines of a GPU instead, in wall seconds, each beside one thread of the processor or the plain way on the GPU. Needs the
extra packages of the rivals for line a. Where a rival would take many minutes a part of it is timed and multiplied,
and the line says so.
"""

import argparse
import json
import math
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rivals import descend, descend_by_autodiff, double_autograd, primal_variance, qlognei, sherman_morrison
from torch import Tensor

from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.equations.residuals import LinearResidual
from fieldcraft.models.linear.conditioning import Factor, Watched
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations
from fieldcraft.models.physics_informed.residual_networks import Factors, Fixed, ResidualLoss
from fieldcraft.models.rivals.optuna_gp import OptunaGP
from fieldcraft.models.surrogate import Posterior, no_report
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.tangent.features import Passes, Perceptron, combine, diagonal, gram, project
from fieldcraft.models.tangent.weight_draws import Regression, in_blocks
from fieldcraft.physics.space import Continuous, SearchSpace

CANDIDATES = 10_000
RIDGE = 0.01


@dataclass(frozen=True)
class Figure:
    """One comparison.

    Args:
        line: Its letter.
        what: What was timed.
        seconds: Ours.
        rival: The rival's seconds; None where there is none.
        aim: The ratio to reach; None where there is none.
        note: What else was found.
    """

    line: str
    what: str
    seconds: float
    rival: float | None = None
    aim: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster than the rival."""
        return None if self.rival is None else self.rival / self.seconds


def seconds(call: Callable[[], object], times: int = 3) -> float:
    """Median CPU seconds of a call, of so many; once a GPU is used wall seconds, and its queue is waited for."""
    gpu, found = torch.cuda.is_initialized(), []
    clock = time.perf_counter if gpu else time.process_time
    for _ in range(times):
        began = clock()
        call()
        if gpu:
            torch.cuda.synchronize()
        found.append(clock() - began)
    return statistics.median(found)


def points(n: int, d: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Points of [-1, 1]^d, shape (n, d)."""
    uniform = torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (2 * uniform - 1).to(device)


def targets(X: Tensor) -> Tensor:
    """A smooth function of points (n, d), shape (n,)."""
    return torch.sin(3 * X).sum(1) + X.square().sum(1)


def readings(n: int, d: int) -> tuple[Observations, SearchSpace]:
    """Styblinski-Tang on [-5, 5]^d, read at n points with noise of a twentieth of its standard deviation."""
    X = points(n, d).numpy()
    y = 0.5 * ((5 * X) ** 4 - 16 * (5 * X) ** 2 + 25 * X).sum(axis=1)
    y = y + 0.05 * y.std() * np.random.default_rng(0).standard_normal(n)
    space = SearchSpace(tuple(Continuous(f"x{i}", -5.0, 5.0) for i in range(d)))
    return Observations(X, y, maximize=False), space


def thompson(n: int) -> tuple[float, float]:
    """Seconds of a refit of hyper-parameters, and of a whole Thompson proposal without one (10 inputs, width 500).

    As in a campaign, the process knows the fit to the first half of the trials already.
    """
    data, space = readings(n, 10)
    surrogate, acquisition, maximizer = SampledLinear(width=500), Thompson(), Multistart()

    def fit(data: Observations = data) -> Posterior:
        return surrogate.fit(data, np.random.default_rng(0), None, no_report)

    def whole() -> None:
        score = acquisition.score(fit(), data, torch.empty(0, 10), 1, np.random.default_rng(1))
        maximizer.maximize(score, space, 1, np.random.default_rng(2))

    fit(Observations(data.X[: 3 * n // 5], data.y[: 3 * n // 5], maximize=False))
    first = seconds(fit, 1)  # a process keeps the hyper-parameters that it found
    return first - seconds(fit), seconds(whole)


def proposals() -> Iterator[Figure]:
    """a: a whole exact Thompson proposal, 10 inputs, width 500, against BoTorch's qLogNEI and Optuna's GPSampler."""
    for n, aim in ((500, 40.0), (2000, 100.0)):
        refit, ours = thompson(n)
        fit, rival = qlognei(*readings(n, 10))
        note = f"without refits {ours:.3g} and {rival:.3g}; a refit {refit:.3g} and {fit:.3g}, each {n // 10} trials"
        spread = ours + refit / (0.1 * n)
        yield Figure("a", f"Thompson proposal, n = {n:,}, against qLogNEI", spread, rival + fit / (0.1 * n), aim, note)
        if n == 500:
            data, space = readings(n, 10)
            optuna = seconds(
                lambda data=data, space=space: OptunaGP().suggest(
                    data, np.empty((0, 10)), space, 1, np.random.default_rng(0)
                ),
                1,
            )
            label = "Thompson proposal, n = 500, against Optuna's GPSampler"
            yield Figure("a", label, spread, optuna, 5, "it refits each time")


def variance() -> Iterator[Figure]:
    """b: variance at 10,000 candidates, n = 1,000, 10 inputs with the constant one, one layer of 500, p = 5,500."""
    network = Perceptron(9, 500)
    theta = network.initial(torch.Generator().manual_seed(1))
    X, C = points(1001, 9), points(CANDIDATES, 9, 1)

    def watched(n: int) -> Watched:
        rows, others = network.passes(theta, X[:n]), network.passes(theta, C)
        return Watched.of(Factor.of(gram(rows, rows), RIDGE), diagonal(others), gram(rows, others))

    before, rows, others = watched(1000), network.passes(theta, X[:1000]), network.passes(theta, C)

    def added() -> Watched:
        new = network.passes(theta, X[1000:])
        return before.append(gram(new, rows), gram(new, new) + RIDGE, gram(new, others))

    features, inverse = network.features(theta, X), torch.eye(network.size, dtype=torch.float64) / RIDGE
    update = seconds(lambda: sherman_morrison(inverse, features[0]), 10)
    part = network.features(theta, C[:512])
    scan = seconds(lambda: primal_variance(inverse, part, RIDGE), 2) * CANDIDATES / 512
    note = "rival: 10 updates and 512 candidates timed, multiplied"
    label = f"variance at 10,000 candidates, n = 1,000, p = {network.size:,}"
    yield Figure("b", f"{label}, from scratch", seconds(lambda: watched(1000)), 1000 * update + scan, 15, note)
    yield Figure("b", f"{label}, one trial more", seconds(added, 5), update + scan, 500, note)


def linear_draws() -> Iterator[Figure]:
    """c: sampled_linear, 8 draws of 8 networks, n = 200, against 500 steps of gradient descent."""
    network, X, noise = Perceptron(10, 256, 2, w_std=math.sqrt(2)), points(200, 10), 0.01
    generator = torch.Generator().manual_seed(2)
    theta = torch.stack([network.initial(generator) for _ in range(8)])
    start, y = torch.randn(theta.shape, generator=generator, dtype=torch.float64), targets(X)

    def exact() -> Tensor:
        rows = network.passes(theta, X)
        factor = Factor.of(gram(rows, rows), noise)
        return start + combine(rows, factor.solve(y - project(rows, start)))

    rows, found = network.passes(theta, X), []
    ours = seconds(exact)
    algebra = seconds(lambda: found.append(descend(rows, start, y.expand(8, -1), noise, 500)), 1)
    plain = 25 * seconds(lambda: descend_by_autodiff(network, theta, X, start, y, noise, 1e-3, 20))
    best = exact()
    slope = combine(rows, project(rows, best) - y) + noise * (best - start)
    own = float(slope.norm() / (noise * best.norm()))
    away = float((found[0] - best).norm() / best.norm())
    note = f"weights from the minimiser, relative: ours at most {own:.0e}, rival {away:.0e}"
    label = "sampled_linear, 8 draws, n = 200, 2 x 256, 500 steps"
    yield Figure("c", label, ours, plain, 200, f"{note}; 20 steps of the rival timed, times 25")
    yield Figure(
        "c", f"{label}, layerwise", ours, algebra, note="rival: gradient descent by our own layerwise products"
    )


def network_draws() -> Iterator[Figure]:
    """d: sampled_network, 8 draws, n = 200, 2 x 256: Levenberg-Marquardt to the loss that 500 steps of Adam reach."""
    data, _ = readings(200, 10)
    options = {"networks": 8, "width": 256, "depth": 2, "activation": "relu", "hyperparameters": "fixed"}

    def trained(steps: int, refinements: int) -> tuple[float, float]:
        surrogate = SampledNetwork(**options, steps=steps, rate=0.01, refinements=refinements)
        began = time.process_time()
        posterior = surrogate.fit(data, np.random.default_rng(0), None, no_report)
        return time.process_time() - began, posterior.metrics["loss"]

    trained(0, 1)
    rival, goal = trained(500, 0)
    for refinements in range(1, 51):
        ours, loss = trained(0, refinements)
        if loss <= goal:
            break
    note = f"loss {loss:.4g} after {refinements} steps, Adam {goal:.4g} after 500 at rate 0.01"
    yield Figure("d", "sampled_network, 8 draws, n = 200, 2 x 256, at equal loss", ours, rival, 4, note)


def residual_loss(network: Network, theta: Tensor, X: Tensor) -> ResidualLoss:
    """sum (Laplacian h)^2 at X (r, d), as the trained engine has it."""
    (r, d), k = X.shape, len(theta)
    zeros = {"zeroth": X.new_zeros(1, 1, r), "first": X.new_zeros(1, 1, r, d), "source": X.new_zeros(1, r)}
    missed = LinearResidual(X, torch.eye(d).to(X)[None, None], second=X.new_ones(1, 1, r, 1), **zeros)
    fixed = Fixed(theta, X.new_zeros(0), X.new_zeros(k, 0), X.new_zeros(k, r))
    return ResidualLoss(network, X[:0], X.new_zeros(0), missed, fixed, Factors(1.0, 1.0, 0.0))


def compared_losses(network: Network, X: Tensor, line: str, aim: float) -> Figure:
    """Written out against double automatic differentiation; both must agree."""
    theta = network.initial(1, torch.Generator().manual_seed(3)).to(X.device)
    loss = residual_loss(network, theta, X)
    half, rival = loss.slope(theta)[1], double_autograd(network, theta, X)[1]
    torch.testing.assert_close(2 * half, rival, rtol=1e-8, atol=1e-8 * float(rival.abs().max()))
    label = f"PINN loss and gradient, {network.depth} layers of {network.width}, {len(X):,} points"
    first = seconds(lambda: loss.slope(theta), 7)
    return Figure(line, label, first, seconds(lambda: double_autograd(network, theta, X), 7), aim)


def derivatives() -> Iterator[Figure]:
    """e: PINN loss and gradient against double automatic differentiation."""
    yield compared_losses(Network(2, 200, 3), points(1000, 2), "e", 1.5)


def grown(n: int, d: int) -> tuple[float, float]:
    """Seconds and peak MiB of conditioning on n points of d coordinates, one draw and a scan of 10,000 candidates."""
    torch.set_num_threads(1)
    network = Perceptron(d, 500)
    generator = torch.Generator().manual_seed(4)
    theta = network.initial(generator)
    X, C = points(n, d), points(CANDIDATES, d, 1)
    start = torch.randn(1, network.size, generator=generator, dtype=torch.float64)
    eps = math.sqrt(RIDGE) * torch.randn(1, n, generator=generator, dtype=torch.float64)

    def along(v: Tensor) -> Tensor:
        return in_blocks(lambda Z: project(network.passes(theta, Z), v))(C)

    along(start[0])
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    model = Regression.of(network.passes(theta, X), RIDGE)
    (v,) = model.draws(targets(X), start, eps)
    along(v).argmin()
    took = time.process_time() - began
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def apart(n: int, d: int) -> tuple[float, float]:
    """``grown`` in a process of its own, so that its peak of memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(grown, (n, d))


def log_slope(x: list[int], y: list[float]) -> float:
    """Slope of log y over log x by least squares."""
    fit = statistics.linear_regression([math.log(each) for each in x], [math.log(max(each, 1e-9)) for each in y])
    return fit.slope


def growth() -> Iterator[Figure]:
    """f: time and memory of an exact draw and its scan over n and over the dimension (width 500)."""
    sizes, dimensions = [100, 316, 1000, 3162, 10_000], [2, 5, 10, 20, 50, 100]
    for name, values, found in (
        ("n", sizes, [apart(n, 10) for n in sizes]),
        ("d", dimensions, [apart(500, d) for d in dimensions]),
    ):
        times, memory = [each[0] for each in found], [each[1] for each in found]
        for value, took, peak in zip(values, times, memory, strict=True):
            yield Figure("f", f"exact draw and scan, {name} = {value:,}", took, note=f"{peak:,.0f} MiB")
        note = f"log-log slope over {name}: time {log_slope(values, times):.2f}, memory {log_slope(values, memory):.2f}"
        yield Figure("f", f"exact draw and scan, {name} from {values[0]} to {values[-1]:,}", sum(times), note=note)


def gpu_variance() -> Iterator[Figure]:
    """g: variance at 10,000 candidates, n = 5,000, on the GPU and on one thread."""

    def on(device: str) -> Callable[[], Tensor]:
        network = Perceptron(10, 500)
        theta = network.initial(torch.Generator().manual_seed(1)).to(device)
        X, C = points(5000, 10, 0, device), points(CANDIDATES, 10, 1, device)
        return lambda: whole(network.passes(theta, X), network.passes(theta, C))

    def whole(rows: Passes, others: Passes) -> Tensor:
        return Factor.of(gram(rows, rows), RIDGE).variance(diagonal(others), gram(rows, others))

    torch.testing.assert_close(on("cuda")().cpu(), on("cpu")(), rtol=1e-6, atol=1e-9)
    yield Figure("g", "variance at 10,000 candidates, n = 5,000", seconds(on("cuda")), seconds(on("cpu"), 1))


def gpu_networks() -> Iterator[Figure]:
    """h: 100 steps of Adam for 64 networks, stacked on the GPU and one after the other there."""
    network, X = Perceptron(10, 256, 2, w_std=math.sqrt(2)), points(200, 10, 0, "cuda")
    y, generator = targets(X), torch.Generator().manual_seed(5)
    start = torch.stack([network.initial(generator) for _ in range(64)]).to("cuda")

    def trained(theta: Tensor) -> Tensor:
        theta = theta.clone().requires_grad_()
        adam = torch.optim.Adam([theta], lr=0.01)
        for _ in range(100):
            adam.zero_grad()
            (network.value(theta, X) - y).square().sum().backward()
            adam.step()
        return theta.detach()

    one = seconds(lambda: trained(start[:1]))
    label = "100 Adam steps of 64 networks, 2 x 256, n = 200"
    yield Figure("h", label, seconds(lambda: trained(start)), 64 * one, note="rival: one timed, times 64")


def gpu_derivatives() -> Iterator[Figure]:
    """i: PINN loss and gradient of a large network on the GPU."""
    yield compared_losses(Network(2, 256, 4), points(100_000, 2, 0, "cuda"), "i", 1.5)


LINES = {"a": proposals, "b": variance, "c": linear_draws, "d": network_draws, "e": derivatives, "f": growth}
GPU_LINES = {"g": gpu_variance, "h": gpu_networks, "i": gpu_derivatives}


def shown(figure: Figure) -> str:
    """A line of the table."""
    rival = "" if figure.rival is None else f"{figure.rival:10.4g}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:8.1f}x"
    aim = "" if figure.aim is None else f"{figure.aim:.4g}x"
    row = f"{figure.line}  {figure.what:62} {figure.seconds:10.4g} {rival:>10} {ratio:>9} {aim:>6}  {figure.note}"
    return row.rstrip()


def main() -> None:
    """Run the lines that were asked for and print them as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file to write the figures to")
    parser.add_argument("--only", nargs="+", help="lines to run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    lines = LINES if options.device == "cpu" else GPU_LINES
    unknown = sorted(set(options.only or ()) - set(lines))
    if unknown:
        parser.error(f"no line {', '.join(unknown)} on {options.device}: there are {', '.join(lines)}")
    torch.set_num_threads(1)
    print(f"{'':2} {'':62} {'seconds':>10} {'rival':>10} {'ratio':>9} {'aim':>6}")
    figures = []
    for name in options.only or lines:
        for figure in lines[name]():
            figures.append(figure)
            print(shown(figure), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{**asdict(figure), "ratio": figure.ratio} for figure in figures], file, indent=2)


if __name__ == "__main__":
    sys.exit(main())
