"""Products of Legendre polynomials over a box, and their derivatives."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from fieldcraft.models.observations import Array

# Gauss points in a coordinate above the degree.
MORE_NODES = 4
_MOST_POLYNOMIALS = 1000
_HIGHEST_DEGREE = 30


@dataclass(frozen=True)
class Polynomials:
    """Products of Legendre polynomials up to ``degree`` in each coordinate, orthonormal for the mean over a box.

    Legendre and not Chebyshev, though they span the same space: combinations with orthonormal coefficients are then
    functions of root mean square 1, and a singular value of N is a root mean square residual.
    """

    box: Array
    degree: int

    def __post_init__(self) -> None:
        count = (self.degree + 1) ** self.box.shape[1]
        if count > _MOST_POLYNOMIALS:
            raise ValueError(
                f"degree {self.degree} in {self.box.shape[1]} variables means {count} polynomials, more than "
                f"{_MOST_POLYNOMIALS}: lower the degree, or use engine kernel or trained."
            )

    @property
    def half(self) -> Array:
        """Half lengths of the box, shape (d,)."""
        return np.asarray((self.box[1] - self.box[0]) / 2)

    @property
    def degrees(self) -> Array:
        """Degree of each polynomial in each coordinate, shape (d, P)."""
        d = self.box.shape[1]
        return np.indices((self.degree + 1,) * d).reshape(d, -1)

    def features(self, X: Tensor) -> Tensor:
        """Values at encoded X (n, d), shape (n, P), differentiable in X."""
        unit = (X - torch.from_numpy(self.box.mean(0))) / torch.from_numpy(self.half)
        columns = [torch.ones_like(unit), unit]
        for k in range(1, self.degree):
            columns.append(((2 * k + 1) * unit * columns[k] - k * columns[k - 1]) / (k + 1))
        norms = torch.arange(self.degree + 1, dtype=X.dtype).mul(2).add(1).sqrt()
        factors = torch.stack(columns[: self.degree + 1], dim=-1) * norms
        found = factors[:, 0]
        for i in range(1, X.shape[1]):
            found = (found[:, :, None] * factors[:, None, i]).flatten(1)
        return found

    def quadrature(self) -> tuple[Array, Array]:
        """Gauss points (r, d), encoded, and weights (r,) of mean 1 / r for the mean over the box."""
        nodes, weights = legendre.leggauss(self.degree + MORE_NODES)
        d = self.box.shape[1]
        grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
        mass = np.prod(np.stack(np.meshgrid(*[weights / 2] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
        return self.box.mean(0) + self.half * grid, mass

    def derivatives(self, X: Array, orders: tuple[int, ...]) -> Array:
        """The partial derivative of these orders at encoded X (n, d), shape (n, P)."""
        unit = (X - self.box.mean(0)) / self.half
        norms = np.sqrt(2 * np.arange(self.degree + 1) + 1)
        found = np.ones((len(X), 1))
        for i, order in enumerate(orders):
            basis = legendre.legder(np.eye(self.degree + 1), order, axis=0) if order else np.eye(self.degree + 1)
            values = legendre.legval(unit[:, i], basis, tensor=True).T * norms / self.half[i] ** order
            found = (found[:, :, None] * values[:, None, :]).reshape(len(X), -1)
        return found


def largest_degree(d: int) -> int:
    """The degree, from 1 to 30, whose polynomials in d variables are at most 1,000; 1 where none are so few."""
    return max((k for k in range(2, _HIGHEST_DEGREE + 1) if (k + 1) ** d <= _MOST_POLYNOMIALS), default=1)
