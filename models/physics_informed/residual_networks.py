"""Networks trained on results and on the residual of an equation: the rows of their loss, and their posterior."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.residuals import LinearResidual, Residual
from fieldcraft.models.networks.layer_rows import Forwards, LayerRows, Places
from fieldcraft.models.networks.perceptron import Network, Streams
from fieldcraft.models.observations import Scaling
from fieldcraft.models.surrogate import Function

_NOTHING = torch.zeros(0, dtype=torch.float64)
# Collocation points whose streams stay in a processor's cache.
_BLOCK = 256


@dataclass(frozen=True)
class Fixed:
    """Quantities that k trainings hold fixed: all their randomness.

    Args:
        anchor: Initial weights theta_0, shape (k, F p): those of each field's network, one after the other.
        tangent: The second draw theta_0', zero in the last layers, shape (k, F p); (0,) if none is added.
        data_noise: Perturbation of the targets, shape (k, n); zeros if they are not perturbed.
        residual_noise: Perturbation of the right-hand sides, shape (k, E r).
    """

    anchor: Tensor
    tangent: Tensor
    data_noise: Tensor
    residual_noise: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return {name: getattr(self, name) for name in ("anchor", "tangent", "data_noise", "residual_noise")}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Fixed":
        """The object restored from its ``tensors``."""
        return cls(**{name: tensors[name] for name in ("anchor", "tangent", "data_noise", "residual_noise")})

    @classmethod
    def plain(cls, anchor: Tensor, n: int, r: int) -> "Fixed":
        """The paper's form: fresh weights and nothing else."""
        k = len(anchor)
        return cls(anchor, _NOTHING, anchor.new_zeros(k, n), anchor.new_zeros(k, r))


@dataclass(frozen=True)
class Factors:
    """The numbers in the loss: of the prediction, of a squared residual, of ||theta - theta_0||^2."""

    nu: float
    weight: float
    ridge: float


def initial(network: Network, k: int, fields: int, generator: torch.Generator) -> Tensor:
    """Standard normal weights of k trainings of one network a field, shape (k, fields p)."""
    return network.initial(k * fields, generator).reshape(k, -1)


def exact_draw(
    network: Network, anchor: Tensor, n: int, r: int, noise_sd: float, residual_sd: float, generator: torch.Generator
) -> Fixed:
    """The randomness that makes a wide network's minimiser a draw from the joint posterior (methods, section 3)."""
    k = len(anchor)
    tangent = initial(network, k, anchor.shape[1] // network.size, generator)
    tangent.view(-1, network.size)[:, -network.width :] = 0.0
    data_noise = noise_sd * torch.randn(k, n, generator=generator, dtype=torch.float64)
    residual_noise = residual_sd * torch.randn(k, r, generator=generator, dtype=torch.float64)
    return Fixed(anchor, tangent, data_noise, residual_noise)


def tangent_value(network: Network, anchor: Tensor, tangent: Tensor, X: Tensor) -> Tensor:
    """<grad h(x; theta_0), theta_0'> at X (n, d), shape (k, n), differentiable in X."""

    def at(theta: Tensor) -> Tensor:
        return network.value(theta, X)

    found: Tensor = torch.func.jvp(at, (anchor,), (tangent,))[1]
    return found


class ResidualLoss:
    """sum (y + eps - nu F(x))^2 + weight sum (N[nu F](z) - g + eps')^2 + ridge ||theta - theta_0||^2 for k trainings.

    F is one network for each field, or these plus the tangent term of an exact draw; only the first is observed. Data
    and collocation points go through the networks together, so a step takes one pass.
    """

    def __init__(
        self, network: Network, X: Tensor, targets: Tensor, residual: Residual, fixed: Fixed, factors: Factors
    ) -> None:
        """Lay out the rows for encoded X (n, d) and standardised targets (n,), on the device of ``fixed``."""
        self.network = network
        self.residual = residual
        self.n = len(X)
        self.nu = factors.nu
        self.root = factors.weight**0.5
        self.ridge = factors.ridge
        self.capturable = isinstance(residual, LinearResidual)
        self.anchor = fixed.anchor
        self.targets = targets + fixed.data_noise
        self.shift = fixed.residual_noise
        self.places = Places.of(X, residual.points, residual.forms)
        self.offset = self._tangent_rows(fixed) if len(fixed.tangent) else None
        self._blocks = self._split_points(X, targets, fixed, factors)

    def rows(self, theta: Tensor) -> Tensor:
        """Rows at theta (k, F p), shape (k, n + E r)."""
        outputs = self.places.outputs(self.network, self._split(theta))
        return self._rows(outputs, self.residual.rows(self._streams(outputs)))

    def linearised(self, theta: Tensor) -> tuple[Tensor, LayerRows]:
        """Rows (k, n + E r) and their derivatives by theta."""
        passed = self.places.forwards(self.network, self._split(theta))
        missed, slopes = self.residual.linearised(self._streams(passed.outputs))
        return self._rows(passed.outputs, missed), self._derivatives(passed, slopes)

    def slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the squared rows (k,), and half its gradient (k, F p), block by block."""
        found = [block._own_slope(theta) for block in self._blocks]
        squares, halves = zip(*found, strict=True)
        return sum(squares[1:], start=squares[0]), sum(halves[1:], start=halves[0])

    def _own_slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        passed = self.places.forwards(self.network, self._split(theta))
        missed, slopes = self.residual.linearised(self._streams(passed.outputs))
        rows = self._rows(passed.outputs, missed)
        later = torch.unflatten(rows[:, None, self.n :], 2, (-1, 1, missed.shape[2]))
        leaving = self._leaving((later * slopes).sum(2, keepdim=True), rows[:, : self.n])
        return rows.square().sum(-1), passed.backwards(leaving, self.residual.fields).summed()

    def _split_points(self, X: Tensor, targets: Tensor, fixed: Fixed, factors: Factors) -> "list[ResidualLoss]":
        """The loss as a sum over blocks of collocation points, whose streams stay in the cache; results come first."""
        r, residual = len(self.residual.points), self.residual
        if r <= _BLOCK or X.is_cuda or not isinstance(residual, LinearResidual):
            return [self]
        found = []
        for begin in range(0, r, _BLOCK):
            points, n = slice(begin, begin + _BLOCK), 0 if begin else self.n
            noise = torch.unflatten(fixed.residual_noise, 1, (-1, r))[..., points].flatten(1)
            own = replace(fixed, data_noise=fixed.data_noise[:, :n], residual_noise=noise)
            found.append(ResidualLoss(self.network, X[:n], targets[:n], residual.at(points), own, factors))
        return found

    def metrics(self, theta: Tensor) -> dict[str, float]:
        """Root mean square of the misfit of the data (target sd) and of the residual (relative), over all trainings."""
        rows = self.rows(theta).detach()
        data, physics = rows[:, : self.n], rows[:, self.n :] / self.root
        return {"misfit": float(data.square().mean().sqrt()), "residual": float(physics.square().mean().sqrt())}

    def _split(self, theta: Tensor) -> Tensor:
        """Weights (k, F p) as those of k F networks, (k F, p)."""
        return theta.reshape(-1, self.network.size)

    def _rows(self, outputs: Tensor, missed: Tensor) -> Tensor:
        """Rows from the streams of h (k F, n + T r) and the residuals (k, E, r)."""
        data = self.nu * outputs[:: self.residual.fields, : self.n] - self.targets
        rows = torch.cat([data, self.root * (missed.flatten(1) + self.shift)], dim=1)
        return rows if self.offset is None else rows + self.offset

    def _streams(self, outputs: Tensor) -> Streams:
        """nu F and its derivatives at the collocation points, (k, F, r, ...)."""
        d, fields = self.network.inputs, self.residual.fields
        parts = torch.unflatten(
            torch.unflatten((self.nu * outputs[:, self.n :]), 1, (self.places.count, -1)), 0, (-1, fields)
        ).mT
        return Streams(value=parts[..., 0], gradient=parts[..., 1 : d + 1], second=parts[..., d + 1 :])

    def _derivatives(self, passed: Forwards, slopes: Tensor) -> LayerRows:
        """Derivatives of the rows, from those of the residuals by the streams of nu F, (k, F, E, T, r)."""
        return passed.backwards(self._leaving(slopes, torch.ones_like(self.targets)), self.residual.fields)

    def _leaving(self, slopes: Tensor, values: Tensor) -> Tensor:
        """Derivatives by the streams of h (k F, n + E T r) from those by nu F (k, n) and of the residuals."""
        found = slopes.new_zeros(len(slopes) * self.residual.fields, self.n + slopes[0, 0].numel())
        found[:: self.residual.fields, : self.n] = self.nu * values
        found[:, self.n :] = self.nu * self.root * slopes.flatten(2).flatten(0, 1)
        return found

    def _tangent_rows(self, fixed: Fixed) -> Tensor:
        """The tangent term's part of the rows; it is linear, so its N-image is J(theta_0) theta_0'."""
        assert isinstance(self.residual, LinearResidual)  # an exact draw of another is refused before any fit
        passed = self.places.forwards(self.network, self._split(fixed.anchor))
        slopes = self.residual.linearised(self._streams(passed.outputs))[1]
        return self._derivatives(passed, slopes).along(fixed.tangent)


@dataclass(frozen=True)
class NetworkPosterior:
    """k trained networks, each one draw; means and variances are over them.

    Args:
        network: Shape of the networks.
        theta: Trained weights, shape (k, F p), float64 on the CPU; the first p are the objective's.
        fixed: Quantities that their training held fixed.
        nu: Factor of the prediction.
        scaling: Map between targets and results.
        metrics: Metrics of the training.
        remarks: Restarts, if there were any.
        rest: The last checkpoint of the training, as tensors.
    """

    network: Network
    theta: Tensor
    fixed: Fixed
    nu: float
    scaling: Scaling
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]
    rest: Mapping[str, Tensor]

    def _values(self, X: Tensor, which: slice) -> Tensor:
        p = self.network.size
        values = self.network.value(self.theta[which, :p], X)
        if len(self.fixed.tangent):
            anchor, tangent = self.fixed.anchor[which, :p], self.fixed.tangent[which, :p]
            values = values + tangent_value(self.network, anchor, tangent, X)
        return self.nu * values

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over the networks at X (n, d); one network has variance 0."""
        values = self._values(X, slice(None))
        mean = values.mean(0)
        return mean, (values - mean).square().sum(0) / max(len(values) - 1, 1)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """Networks 0 to q - 1: each is an independent draw already, so rng is not used.

        Raises:
            ValueError: there are fewer networks than q.
        """
        if q > len(self.theta):
            raise ValueError(
                f"{q} draws were asked of {len(self.theta)} trained networks: set `networks` to the batch size or more."
            )
        return [self._function(i) for i in range(q)]

    def _function(self, i: int) -> Function:
        def function(X: Tensor) -> Tensor:
            return self._values(X, slice(i, i + 1))[0]

        return function

    def fantasize(self, X: Tensor) -> "NetworkPosterior":
        """The posterior itself: its draws are independent by construction, so a pending point changes none of them."""
        return self

    def state(self) -> dict[str, Tensor]:
        """The last checkpoint of the training."""
        return dict(self.rest)
