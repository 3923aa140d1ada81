"""Gaussian process of a tangent kernel, conditioned on results: the uncertainty of all tangent surrogates."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import erf
from torch import Tensor

from fieldcraft.models.linear.conditioning import Factor, Primal, leave_one_out
from fieldcraft.models.linear.shallow_slopes import Curves, Direction, HiddenLayer, ShallowDraw, ShallowSlopes
from fieldcraft.models.linear.wide_sine import WideProcess
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import Function
from fieldcraft.models.tangent.features import (
    ROOT_HALF,
    Activation,
    Layer,
    Passes,
    Perceptron,
    TangentFeatures,
    combine,
    explicit,
    project,
    taken,
)
from fieldcraft.models.tangent.kernel import LEAST_LENGTH, Hyperparameters, TangentKernel, column
from fieldcraft.models.tangent.weight_draws import Regression, in_blocks


@dataclass(frozen=True, eq=False)
class TangentProcess:
    """t(x) = <row(x), v>, v ~ N(0, I), given results with noise.

    ``stacked`` combines c of them into one, whose moments have an axis for them: (c, n) for X (n, d).

    Args:
        kernel: Of one network.
        regression: The results' rows on the smaller side.
        y: The results in targets, shape (n,), and the mean at points believed.
        noise: Variance of a result.
        mean_direction: Posterior mean of v, shape (p + 1,); points believed later do not change it.
    """

    kernel: TangentKernel
    regression: Regression
    y: Tensor
    noise: float | Tensor
    mean_direction: Tensor

    @classmethod
    def of(cls, kernel: TangentKernel, found: Hyperparameters, data: Observations) -> "TangentProcess":
        """Condition on data, in O(n^3) or O(n p^2 + p^3), whichever is less.

        Raises:
            ValueError: the Gram matrix has no factor at this noise.
        """
        y = torch.tensor(data.targets)
        regression = Regression.of(kernel.rows(torch.tensor(data.X)), found.noise)
        return cls(kernel, regression, y, found.noise, regression.direction(y))

    @classmethod
    def stacked(cls, parts: "Sequence[TangentProcess]") -> "TangentProcess":
        """One process for c processes of one ``form``."""
        return cls(
            kernel=TangentKernel.stacked([each.kernel for each in parts]),
            regression=Regression.stacked([each.regression for each in parts]),
            y=torch.stack([each.y for each in parts]),
            noise=column(each.noise for each in parts),
            mean_direction=torch.stack([each.mean_direction for each in parts]),
        )

    @property
    def form(self) -> Hashable:
        """Key that is equal for processes that can be ``stacked``."""
        kernel, side = self.kernel, self.regression.side
        return kernel.network, kernel.normalised, len(kernel.theta), len(self.y), type(side)

    @property
    def numbers(self) -> int:
        """Numbers that one process takes in a stack."""
        side = self.regression.side.lower.numel()
        return side + sum(each.inputs.numel() + each.sensitivities.numel() for each in self.regression.rows.layers)

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) >= 0 of the noise-free target at X (n, d)."""
        rows = self.kernel.rows(X)
        return project(rows, self.mean_direction), self.regression.variance(rows)

    def diagonal_variance(self, X: Tensor) -> Tensor:
        """noise sum_j row_j(x)^2 / U_jj, shape (n,), with U = noise I + sum_i row(x_i) row(x_i)^T (Neural-UCB)."""
        return self.diagonal_of(self.kernel.rows(X))

    def diagonal_of(self, rows: Passes) -> Tensor:
        """``diagonal_variance`` at points with known rows."""
        return self.noise * project(_squared(rows), 1 / self._diagonal)

    def deviations(self, q: int, rng: np.random.Generator, *, perturbed: bool = True) -> Tensor:
        """q draws of v less its mean, shape (q, p + 1), by Matheron's rule (methods.md section 0).

        Args:
            q: Number of draws.
            rng: The only source of randomness.
            perturbed: Draw the noise of the results too, which makes them exact; without it their covariance lacks
                noise k(x, X) (K + noise I)^-2 k(X, x').
        """
        generator = torch_generator(rng)
        n = len(self.y)
        starts, noises = [], []
        for _ in range(q):
            starts.append(torch.randn(self.kernel.size, generator=generator, dtype=torch.float64))
            noises.append(self.noise**0.5 * torch.randn(n, generator=generator, dtype=torch.float64))
        eps = torch.stack(noises) * float(perturbed)
        return self.regression.draws(torch.zeros_like(self.y), torch.stack(starts), eps)

    def function(self, direction: Tensor) -> Function:
        """x -> <row(x), v>, one pass of the network a candidate whatever n, differentiable."""
        kernel, network = self.kernel, self.kernel.network
        if not (is_shallow(network) and kernel.theta.shape == (network.size,)):
            return in_blocks(lambda X: kernel.along(X, direction))
        drawn = ShallowDraw(
            layer=_hidden(network, kernel.theta),
            scales=kernel.scales.numpy(),
            output=np.asarray(kernel.output, dtype=np.float64),
            least=LEAST_LENGTH if kernel.normalised else None,
            direction=_direction(network, direction),
            shift=float(kernel.root_constant * direction[-1]),
        )
        return _Along(kernel, direction, drawn)

    def fantasize(self, X: Tensor) -> "TangentProcess":
        """Posterior conditioned on results at X (k, d) equal to the mean, in O(k n^2).

        Raises:
            ValueError: the extended matrix has no factor at this noise.
        """
        if len(X) == 0:
            return self
        with torch.no_grad():
            rows = self.kernel.rows(X.detach())
            y = torch.cat([self.y, project(rows, self.mean_direction)])
            return replace(self, regression=self.regression.append(rows, self.noise), y=y)

    def some(self, rows: NDArray[np.intp]) -> "TangentProcess":
        """The same mean with the variance that some results leave, their numbers ``rows``; itself if that costs less.

        That is where all results are counted or the primal side, whose cost does not depend on them, is in use.
        """
        if len(rows) == len(self.y) or isinstance(self.regression.side, Primal):
            return self
        chosen = taken(self.regression.rows, torch.from_numpy(rows))
        return replace(self, regression=Regression.of(chosen, self.noise), y=self.y[rows])

    def limit(self, rows: NDArray[np.intp]) -> WideProcess | None:
        """The process of infinitely many neurons, given some of the results; None if the network has no such limit."""
        kernel, network = self.kernel, self.kernel.network
        if not (isinstance(network, Perceptron) and network.is_wide_sine and kernel.normalised):
            return None
        gain = network.gain
        with torch.no_grad():
            inputs = gain * self.regression.rows.layers[0].inputs[rows, 0, :-1]
        sizes = float(kernel.output), float(kernel.constant)
        return WideProcess.of(inputs, self.y[rows], kernel.scales / gain, gain, sizes, float(self.noise))

    def slopes(self, factor: float, trained: Tensor | None = None) -> ShallowSlopes | None:
        """Moments at points, with their gradients in closed form, the variance times factor^2.

        None if the network has more than one hidden layer or biases, or if the primal side is in use.

        Args:
            factor: Factor of the standard deviation.
            trained: Weights (theta, a) of the network that is the mean, shape (p + 1,), or (2p + 1,) for a pair; None
                for the process's own mean.
        """
        kernel, side, network = self.kernel, self.regression.side, self.kernel.network
        if not (is_shallow(network) and isinstance(side, Factor)):
            return None
        first, second, *_ = self.regression.rows.layers
        weights = self.mean_direction if trained is None else trained
        return ShallowSlopes(
            layer=_hidden(network, kernel.theta),
            scales=kernel.scales.numpy(),
            output=np.asarray(kernel.output, dtype=np.float64),
            constant=np.asarray(kernel.constant, dtype=np.float64),
            least=LEAST_LENGTH if kernel.normalised else None,
            read=(
                first.inputs[:, 0].numpy(),
                (second.inputs[:, 0] * second.sensitivities[:, 0]).numpy(),
                first.sensitivities[:, 0].numpy(),
            ),
            lower=np.ascontiguousarray(side.lower.numpy()),
            mean=_direction(network, weights) if trained is None else _hidden(network, weights[:-1]),
            shift=(kernel.root_constant * weights[-1]).numpy(),
            widening=np.asarray(factor**2),
        )

    def log_predictive(self) -> Tensor:
        """log density of each result, believed ones too, given the others at these hyper-parameters, shape (n,)."""
        return leave_one_out(self.regression.side, self.y)

    def information_gain(self) -> float:
        """1/2 log det(I + K / noise) of the results, believed ones too, in nats."""
        return 0.5 * (float(self.regression.side.logdet()) - len(self.y) * math.log(self.noise))

    @cached_property
    def _diagonal(self) -> Tensor:
        rows = _squared(self.regression.rows)
        return self.noise + combine(rows, torch.ones_like(self.y))


@dataclass(frozen=True, eq=False)
class _Along:
    """x -> <row(x), v> of one hidden layer (see ``SlopedFunction``)."""

    kernel: TangentKernel
    direction: Tensor
    drawn: ShallowDraw

    def __call__(self, X: Tensor) -> Tensor:
        return in_blocks(lambda points: self.kernel.along(points, self.direction))(X)

    @property
    def coarse(self) -> Function:
        return self.drawn.coarse

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self.drawn.value_and_grad(X)


def is_shallow(network: TangentFeatures) -> TypeGuard[Perceptron]:
    """True for a dense network of one hidden layer without biases."""
    return isinstance(network, Perceptron) and (network.depth, network.b_std) == (1, 0.0)


def _hidden(network: Perceptron, theta: Tensor) -> HiddenLayer:
    """The hidden layer of a network at theta (p,), or of both networks of a pair at (2p,)."""
    (m, columns), factors = network.shapes[0], (network.gain, network.w_std / math.sqrt(network.width))
    parts = theta.numpy().reshape(-1, network.size)
    signs = np.array([[1.0]] if len(parts) == 1 else [[ROOT_HALF], [-ROOT_HALF]])
    inner = factors[0] * parts[:, : m * columns].reshape(-1, columns)
    outer = factors[1] * (signs * parts[:, m * columns :]).ravel()
    return HiddenLayer(inner, outer, factors, _CURVES[network.activation])


def _direction(network: Perceptron, direction: Tensor) -> Direction:
    """<phi, v> for v (p + 1,), without its constant."""
    m, columns = network.shapes[0]
    inner, outer = np.split(direction.numpy()[:-1], [m * columns])
    return Direction(inner.reshape(m, columns), outer)


def _sine(z: Array) -> tuple[Array, Array, Array]:
    # torch's take less than half the time of NumPy's.
    points = torch.from_numpy(z)
    a = torch.sin(points).numpy()
    return a, torch.cos(points).numpy(), -a


def _tanh(z: Array) -> tuple[Array, Array, Array]:
    a = np.tanh(z)
    slope = 1 - a * a
    return a, slope, -2 * a * slope


def _erf(z: Array) -> tuple[Array, Array, Array]:
    slope = (2 / math.sqrt(math.pi)) * np.exp(-z * z)
    return erf(z), slope, -2 * z * slope


def _relu(z: Array) -> tuple[Array, Array, Array]:
    return np.maximum(z, 0.0), (z > 0).astype(z.dtype), np.zeros_like(z)


_CURVES: Mapping[Activation, Curves] = {"sine": _sine, "tanh": _tanh, "erf": _erf, "relu": _relu}


def _squared(rows: Passes) -> Passes:
    """Rows whose every entry is squared: layer by layer where a row is one product, else written out."""
    if all(layer.inputs.shape[-2] == 1 for layer in rows.layers):
        return Passes(
            tuple(
                Layer(layer.inputs.square(), layer.sensitivities.square(), layer.factor**2, layer.bias**2)
                for layer in rows.layers
            )
        )
    entries = explicit(rows).square()
    return Passes((Layer(entries[..., None, :], torch.ones_like(entries[..., :1, None]), 1.0),))


def normals(X: Array, seed: int) -> Array:
    """One standard normal number for each row of X (n, d), a function of the row's bits and the seed, shape (n,)."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)
    mixed = np.full(len(X), seed, dtype=np.uint64)
    for numbers in bits.T:
        mixed = _mix(mixed ^ numbers)
    first, second = _mix(mixed ^ np.uint64(1)), _mix(mixed ^ np.uint64(2))
    unit = [((number >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53 for number in (first, second)]
    return np.asarray(np.sqrt(-2 * np.log(unit[0])) * np.cos(2 * np.pi * unit[1]))


def _mix(x: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
