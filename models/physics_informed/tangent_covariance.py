"""The tangent kernel of a smooth network as a covariance of functionals: phi rows and omega rows alike."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.physics_informed.functionals import Functionals
from fieldcraft.models.tangent.features import Passes, combine, diagonal, gram, project, scaled
from fieldcraft.models.tangent.operators import Coefficients, operator_passes, value_passes


@dataclass(frozen=True)
class Tangent:
    """k(x, x') = <phi(x), phi(x')>, phi = dh(x; theta)/dtheta (Jacot, Gabriel and Hongler, 2018).

    Args:
        network: The shape of h.
        theta: Weights at which h is linearised, shape (p,).
    """

    network: Network
    theta: Tensor

    def passes(self, a: Functionals) -> Passes:
        """The rows of n functionals, d a[h]/dtheta."""
        if a.is_value:
            return scaled(value_passes(self.network, self.theta, a.points), a.zeroth)
        coefficients = Coefficients(a.zeroth, a.slopes, a.bends)
        return operator_passes(self.network, self.theta, a.points, coefficients)

    def gram(self, a: Functionals, b: Functionals) -> Tensor:
        """Covariance of every functional of a (n) with every one of b (m), shape (n, m), differentiable in both."""
        rows = self.passes(a)
        return gram(rows, rows if b is a else self.passes(b))

    def diagonal(self, a: Functionals) -> Tensor:
        """Variance of each functional, shape (n,)."""
        return diagonal(self.passes(a))

    def combined(self, a: Functionals, weights: Tensor) -> "Direction":
        """x -> sum_j weights_j cov(a_j[f], f(x)), for weights (n,): one direction of the weights."""
        return Direction(self, combine(self.passes(a), weights))

    def sample(self, dimension: int, rng: np.random.Generator) -> "Direction":
        """An exact draw: a standard normal direction."""
        return Direction(self, torch.from_numpy(rng.standard_normal(self.network.size)))


@dataclass(frozen=True)
class Direction:
    """x -> <phi(x), direction>, the derivative of the network along a direction of its weights.

    Args:
        tangent: The network.
        direction: Shape (p,).
    """

    tangent: Tangent
    direction: Tensor

    def image(self, a: Functionals) -> Tensor:
        """Each functional of it, shape (n,), differentiable in the points."""
        return project(self.tangent.passes(a), self.direction)
