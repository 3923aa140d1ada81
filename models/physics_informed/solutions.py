"""Solutions of a linear equation: the function spaces over which the ``basis`` engine has its prior.

A target that satisfies ``N[t] = g`` is one particular solution plus a combination of solutions of ``N[psi] = 0``.
In the plane, a constant elliptic N without lower terms has the harmonic polynomials (after a linear change of
coordinates); any other linear N has the numerical null space of its action on polynomials.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from fieldcraft.models.observations import Array, Physics, Scaling
from fieldcraft.models.physics_informed.residuals import LinearOperator, linear_operator, linear_rows, system_of

# Relative to the largest coefficient and to a function's own root mean square.
_NULL = 1e-6
# Gauss points in a coordinate above the degree.
_MORE_NODES = 4
_MOST_POLYNOMIALS = 1000
_HIGHEST_DEGREE = 30
# Arrays of quadrature points x polynomials that are alive at once.
_COPIES = 8
# Enough to tell degrees apart, little enough not to blow up what is only nearly a solution.
_GROWTH = 2.0


class Solutions(Protocol):
    """K solutions of the homogeneous equation."""

    @property
    def degrees(self) -> Tensor:
        """Rate at which each grows outwards, as a polynomial degree, shape (K,)."""
        ...

    def features(self, X: Tensor) -> Tensor:
        """Their values at encoded X (n, d), shape (n, K), differentiable in X."""
        ...


def enclosing_box(physics: Physics) -> Array:
    """Encoded box, shape (2, d), that holds the search box and every collocation point."""
    points = physics.encode(physics.points)
    return np.stack([np.minimum(points.min(0), -1.0), np.maximum(points.max(0), 1.0)])


@dataclass(frozen=True)
class Harmonic:
    """Re and Im of w^k, k <= degree, with w the point in coordinates in which N is the Laplacian and |w| <= 1.

    Args:
        center: Encoded point where w = 0, shape (2,).
        transform: Matrix from encoded offsets to (Re w, Im w), shape (2, 2).
        degrees: k of each function, shape (2 degree + 1,).
    """

    center: Tensor
    transform: Tensor
    degrees: Tensor

    @classmethod
    def of(cls, operator: LinearOperator, box: Array, degree: int) -> "Harmonic":
        """The polynomials for N = sum_ij second_ij d_i d_j, second positive definite, over an encoded box (2, 2)."""
        # With second = L L^T and u = L^-1 x, sum_ij second_ij d_i d_j is the Laplacian in u.
        sign = np.sign(operator.second[0, 0, 0])
        transform = np.linalg.inv(np.linalg.cholesky(sign * operator.second[0]))
        corners = np.stack(np.meshgrid(*(box - box.mean(0)).T), axis=-1).reshape(-1, 2)
        radius = np.linalg.norm(corners @ transform.T, axis=1).max()
        degrees = np.concatenate([[0], np.repeat(np.arange(1, degree + 1), 2)]).astype(float)
        return cls(torch.from_numpy(box.mean(0)), torch.from_numpy(transform / radius), torch.from_numpy(degrees))

    def features(self, X: Tensor) -> Tensor:
        """Re w^0, Re w^1, Im w^1, Re w^2, ... at X (n, 2), shape (n, 2 degree + 1)."""
        u, v = ((X - self.center) @ self.transform.mT).unbind(1)
        real, imaginary = torch.ones_like(u), torch.zeros_like(u)
        columns = [real]
        for _ in range(len(self.degrees) // 2):
            real, imaginary = real * u - imaginary * v, real * v + imaginary * u
            columns += [real, imaginary]
        return torch.stack(columns, dim=1)


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
    def total_degrees(self) -> Array:
        """Sum of each polynomial's degrees over the coordinates, shape (P,)."""
        d = self.box.shape[1]
        return np.asarray(np.indices((self.degree + 1,) * d).reshape(d, -1).sum(0), dtype=np.float64)

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
        nodes, weights = legendre.leggauss(self.degree + _MORE_NODES)
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

    def image(self, operator: LinearOperator, X: Array) -> Array:
        """N of every polynomial at X (n, d), shape (n, P)."""
        d = X.shape[1]
        unit = np.eye(d, dtype=int)
        found = operator.zeroth[:, None] * self.derivatives(X, (0,) * d)
        for i in range(d):
            if np.any(operator.first[:, i]):
                found += operator.first[:, i, None] * self.derivatives(X, tuple(unit[i]))
            for j in range(d):
                if np.any(operator.second[:, i, j]):
                    found += operator.second[:, i, j, None] * self.derivatives(X, tuple(unit[i] + unit[j]))
        return found


@dataclass(frozen=True)
class NullSpace:
    """Combinations of polynomials whose image under N is zero to rounding.

    Args:
        polynomials: Polynomials that are combined.
        basis: Orthonormal columns, shape (P, K).
        degrees: Effective total degree of each combination, shape (K,).
    """

    polynomials: Polynomials
    basis: Tensor
    degrees: Tensor

    @classmethod
    def of(cls, image: Array, polynomials: Polynomials) -> "NullSpace":
        """The null space of N's weighted action (r, P), r >= P, smoothest functions first.

        Raises:
            ValueError: no polynomial of this degree solves the equation accurately enough.
        """
        _, singular, rows = np.linalg.svd(image, full_matrices=False)
        basis = rows[singular <= _NULL].T
        if basis.shape[1] == 0:
            raise ValueError(
                f"No polynomial of degree {polynomials.degree} solves the homogeneous equation to {_NULL} (the best "
                f"leaves {singular.min():.2g}): raise `degree`, or use engine trained."
            )
        # The growth of sum_i c_i p_i is that of a power series: the norm of c_i _GROWTH^|i|, with |i| its total degree.
        _, growth, turn = np.linalg.svd(_GROWTH ** polynomials.total_degrees[:, None] * basis, full_matrices=False)
        degrees = np.log(growth[::-1]) / math.log(_GROWTH)
        return cls(polynomials, torch.from_numpy(basis @ turn[::-1].T), torch.from_numpy(degrees))

    def features(self, X: Tensor) -> Tensor:
        """Values at encoded X (n, d), shape (n, K), differentiable in X."""
        return self.polynomials.features(X) @ self.basis


def is_harmonic(operator: LinearOperator) -> bool:
    """True if N is a constant elliptic second-order operator of two variables with no lower terms."""
    second = operator.second
    if second.shape[1] != 2 or np.any(operator.zeroth) or np.any(operator.first) or np.any(second != second[0]):
        return False
    return bool(np.linalg.det(second[0]) > 0)


def largest_degree(d: int) -> int:
    """The degree, from 1 to 30, whose polynomials in d variables are at most 1,000; 1 where none are so few."""
    return max((k for k in range(2, _HIGHEST_DEGREE + 1) if (k + 1) ** d <= _MOST_POLYNOMIALS), default=1)


def predicted_doubles(physics: Physics, degree: int) -> float:
    """Largest number of float64 numbers that the solutions up to a degree need at once, predicted.

    Raises:
        ValueError: the equation is not a single linear one, or the polynomials of this degree are too many.
    """
    if is_harmonic(_operator(physics)):
        return 0.0
    d = len(Polynomials(enclosing_box(physics), degree).half)
    return _COPIES * float(degree + 1) ** d * float(degree + _MORE_NODES) ** d


def _operator(physics: Physics) -> LinearOperator:
    if not system_of(physics).linear:
        raise ValueError("The equation is not linear and engine basis adds up its solutions: use engine trained.")
    points = physics.points
    if len(points) == 1:
        # A coefficient that varies cannot be told from a constant at one place: a few more are looked at.
        points = physics.decode(Polynomials(enclosing_box(physics), 1).quadrature()[0])
    return linear_operator(physics, points)


def solutions(physics: Physics, degree: int) -> Solutions:
    """The solutions of the homogeneous equation, up to a polynomial degree.

    Raises:
        ValueError: the equation is not linear, or the degree does not suit it.
    """
    box = enclosing_box(physics)
    if is_harmonic(_operator(physics)):
        return Harmonic.of(linear_operator(physics, physics.points[:1]), box, degree)
    polynomials = Polynomials(box, degree)
    points, mass = polynomials.quadrature()
    operator = linear_operator(physics, physics.decode(points))
    return NullSpace.of(np.sqrt(mass)[:, None] * polynomials.image(operator, points), polynomials)


def particular(physics: Physics, scaling: Scaling, degree: int) -> tuple[Polynomials, Tensor] | None:
    """Polynomials and coefficients (P,) of one solution of N[t] = g for the target; None if zero is one.

    The smallest solution in root mean square is taken (least squares over the null space's complement).

    Raises:
        ValueError: polynomials of this degree cannot solve the equation to 1e-6 of its right-hand side.
    """
    if not np.any(linear_rows(physics, scaling, physics.points)[0].source):
        return None
    polynomials = Polynomials(enclosing_box(physics), degree)
    points, mass = polynomials.quadrature()
    operator = linear_operator(physics, physics.decode(points))
    source = linear_rows(physics, scaling, physics.decode(points))[0].source
    root = np.sqrt(mass)
    image = root[:, None] * polynomials.image(operator, points)
    found, *_ = np.linalg.lstsq(image, root * source, rcond=1e-10)
    missed = np.linalg.norm(image @ found - root * source) / np.linalg.norm(root * source)
    if missed > _NULL:
        raise ValueError(
            f"Polynomials of degree {degree} leave {missed:.2g} of the equation's right-hand side: raise `degree`, "
            "or use engine trained."
        )
    return polynomials, torch.from_numpy(found)
