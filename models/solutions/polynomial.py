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
from torch import Tensor

from fieldcraft.models.equations.residuals import LinearOperator, linear_operator, linear_rows, system_of
from fieldcraft.models.linear.polynomials import MORE_NODES, Polynomials
from fieldcraft.models.observations import Array, Physics, Scaling

# Relative to the largest coefficient and to a function's own root mean square.
NULL = 1e-6
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


def images(polynomials: Polynomials, operator: LinearOperator, X: Array) -> Array:
    """N of every polynomial at X (n, d), shape (n, P)."""
    d = X.shape[1]
    unit = np.eye(d, dtype=int)
    found = operator.zeroth[:, None] * polynomials.derivatives(X, (0,) * d)
    for i in range(d):
        if np.any(operator.first[:, i]):
            found += operator.first[:, i, None] * polynomials.derivatives(X, tuple(unit[i]))
        for j in range(d):
            if np.any(operator.second[:, i, j]):
                found += operator.second[:, i, j, None] * polynomials.derivatives(X, tuple(unit[i] + unit[j]))
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
        basis = rows[singular <= NULL].T
        if basis.shape[1] == 0:
            raise ValueError(
                f"No polynomial of degree {polynomials.degree} solves the homogeneous equation to {NULL} (the best "
                f"leaves {singular.min():.2g}): raise `degree`, or use engine trained."
            )
        # The growth of sum_i c_i p_i is that of a power series: the norm of c_i _GROWTH^|i|, with |i| its total degree.
        _, growth, turn = np.linalg.svd(
            _GROWTH ** polynomials.degrees.sum(axis=0, dtype=np.float64)[:, None] * basis, full_matrices=False
        )
        degrees = np.log(growth[::-1]) / math.log(_GROWTH)
        return cls(polynomials, torch.from_numpy(basis @ turn[::-1].T), torch.from_numpy(degrees))

    def features(self, X: Tensor) -> Tensor:
        """Values at encoded X (n, d), shape (n, K), differentiable in X."""
        return self.polynomials.features(X) @ self.basis


def is_plain(operator: LinearOperator) -> bool:
    """True if N is a constant second-order operator of two variables with no lower terms."""
    second = operator.second
    lower = np.any(operator.zeroth) or np.any(operator.first)
    return second.shape[1] == 2 and not lower and bool(np.all(second == second[0]))


def is_harmonic(operator: LinearOperator) -> bool:
    """True if N is a constant elliptic second-order operator of two variables with no lower terms."""
    return is_plain(operator) and bool(np.linalg.det(operator.second[0]) > 0)


def predicted_doubles(physics: Physics, degree: int) -> float:
    """Largest number of float64 numbers that the solutions up to a degree need at once, predicted.

    Raises:
        ValueError: the equation is not a single linear one, or the polynomials of this degree are too many.
    """
    if is_harmonic(single(physics)):
        return 0.0
    d = len(Polynomials(enclosing_box(physics), degree).half)
    return _COPIES * float(degree + 1) ** d * float(degree + MORE_NODES) ** d


def single(physics: Physics) -> LinearOperator:
    """The operator at the collocation points; at a few more where there is only one of these.

    Raises:
        ValueError: the equation is not a single linear one.
    """
    if not system_of(physics).linear:
        raise ValueError("The equation is not linear and engine basis adds up its solutions: use engine trained.")
    points = physics.points
    if len(points) == 1:
        # A coefficient that varies cannot be told from a constant at one place: a few more are looked at.
        points = physics.decode(Polynomials(enclosing_box(physics), 1).quadrature()[0])
    return linear_operator(physics, points)


def polynomial_solutions(physics: Physics, degree: int) -> Solutions:
    """The polynomials that solve the homogeneous equation, up to a degree.

    Raises:
        ValueError: the equation is not linear, or the degree does not suit it.
    """
    box = enclosing_box(physics)
    if is_harmonic(single(physics)):
        return Harmonic.of(linear_operator(physics, physics.points[:1]), box, degree)
    polynomials = Polynomials(box, degree)
    points, mass = polynomials.quadrature()
    operator = linear_operator(physics, physics.decode(points))
    return NullSpace.of(np.sqrt(mass)[:, None] * images(polynomials, operator, points), polynomials)


def particular(physics: Physics, scaling: Scaling, degree: int) -> tuple[Polynomials, Tensor] | None:
    """Polynomials and coefficients (P,) of one solution of N[t] = g for the target; None if zero is one.

    Its degree in each variable is at most 1, 2, 4, ... or ``degree``, whichever suffices first: of all solutions, a
    smooth one. Of those of that degree it is the smallest in root mean square (least squares over the null space's
    complement).

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
    image = root[:, None] * images(polynomials, operator, points)
    for most in [*(2**k for k in range(degree.bit_length()) if 2**k < degree), degree]:
        among = polynomials.degrees.max(axis=0) <= most
        solved, *_ = np.linalg.lstsq(image[:, among], root * source, rcond=1e-10)
        missed = np.linalg.norm(image[:, among] @ solved - root * source) / np.linalg.norm(root * source)
        if missed <= NULL:
            found = np.zeros(len(among))
            found[among] = solved
            return polynomials, torch.from_numpy(found)
    raise ValueError(
        f"Polynomials of degree {degree} leave {missed:.2g} of the equation's right-hand side: raise `degree`, "
        "or use engine trained."
    )
