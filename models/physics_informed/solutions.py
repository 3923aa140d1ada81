"""Solutions of a linear equation: the function spaces over which the ``basis`` engine has its prior.

A target that satisfies ``N[t] = g`` is one particular solution plus a combination of solutions of ``N[psi] = 0``.
In the plane, a constant elliptic N without lower terms has the harmonic polynomials (after a linear change of
coordinates); any other linear N has the numerical null space of its action on polynomials. One of first order that says
along which lines nothing changes has the functions of its first integrals besides, and a wave equation of two variables
the sums of a function of each of its two characteristics (d'Alembert, 1747).
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.polynomials import MORE_NODES, Polynomials
from fieldcraft.models.observations import Array, Physics, Scaling
from fieldcraft.models.physics_informed.residuals import LinearOperator, linear_operator, linear_rows, system_of

# Relative to the largest coefficient and to a function's own root mean square.
_NULL = 1e-6
# First integrals of quadratic polynomials: more variables need too many Gauss points, and leave few orders for each.
_MOST_VARIABLES = 5
_MOST_FUNCTIONS = 1000
_HIGHEST_ORDER = 100
# Of a first integral's range, on either side.
_BEYOND = 0.25
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
        basis = rows[singular <= _NULL].T
        if basis.shape[1] == 0:
            raise ValueError(
                f"No polynomial of degree {polynomials.degree} solves the homogeneous equation to {_NULL} (the best "
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


@dataclass(frozen=True)
class FirstIntegrals:
    """Products of cosines of d - 1 first integrals: every solution of a first-order equation is a function of these.

    Of the two characteristics of a wave equation there are the cosines of each, without products. Along the lines of an
    equation with a term in the function itself, the functions grow or decay as e^mu does.

    A first integral with a centre, +-|A (x - c)|^2, enters by its root, of which the even functions are smooth there.
    The interval of each is longer than its range in the box, as in Solin and Sarkka (2020): cosines are flat at its
    ends, and solutions need not be.

    Args:
        polynomials: Polynomials up to degree 2 in each coordinate.
        integrals: Coefficients of the m first integrals or characteristics, shape (P, m).
        growth: Coefficients of mu, shape (P,).
        centers: Value in the centre; NaN where there is none; shape (m,).
        ends: The intervals, shape (2, m).
        orders: Number of half waves of each function in each interval, shape (K, m).
    """

    polynomials: Polynomials
    integrals: Tensor
    growth: Tensor
    centers: Tensor
    ends: Tensor
    orders: Tensor

    @classmethod
    def of(
        cls, polynomials: Polynomials, integrals: Array, growth: Array, most: int | None, crossed: bool = True
    ) -> "FirstIntegrals":
        """Cosines up to a total order; None for the highest, up to 100, with at most 1,000 functions.

        Args:
            polynomials: See the class.
            integrals: See the class.
            growth: See the class.
            most: The total order.
            crossed: With the products of cosines of several.
        """
        m, found = integrals.shape[1], [_center(polynomials, column) for column in integrals.T]
        centers = torch.tensor([math.nan if each is None else each[0] for each in found], dtype=torch.float64)
        inside = [np.clip(each[1], *polynomials.box) for each in found if each is not None]
        corners = np.stack(np.meshgrid(*polynomials.box.T), axis=-1).reshape(-1, polynomials.box.shape[1])
        places = torch.from_numpy(np.vstack([polynomials.quadrature()[0], corners, *inside]))
        mu = torch.from_numpy(growth.copy())
        mu[0] -= (polynomials.features(places) @ mu).max()  # the first polynomial is 1
        unfinished = cls(polynomials, torch.from_numpy(integrals), mu, centers, torch.empty(0), torch.empty(0))
        levels = unfinished.levels(places)
        low, high = levels.min(0).values, levels.max(0).values
        beyond = _BEYOND * (high - low)
        low = torch.where(centers.isnan(), low - beyond, (low - beyond).clamp(min=0.0))
        highest = max(k for k in range(1, _HIGHEST_ORDER + 1) if math.comb(k + m, m) <= _MOST_FUNCTIONS or not crossed)
        orders = itertools.product(range((most or highest) + 1), repeat=m)
        kept = [each for each in orders if sum(each) <= (most or highest) and (crossed or sum(each) == max(each))]
        return replace(unfinished, ends=torch.stack([low, high + beyond]), orders=torch.tensor(kept))

    @property
    def degrees(self) -> Tensor:
        """Length of each function's vector of orders, shape (K,)."""
        found: Tensor = torch.linalg.vector_norm(self.orders.to(torch.float64), dim=1)
        return found

    def levels(self, X: Tensor) -> Tensor:
        """The first integrals at encoded X (n, d), by their roots where they have a centre, shape (n, m)."""
        values = self.polynomials.features(X) @ self.integrals
        roots = (values - self.centers.nan_to_num()).abs().clamp(min=_NULL**2).sqrt()
        return torch.where(self.centers.isnan(), values, roots)

    def features(self, X: Tensor) -> Tensor:
        """Values at encoded X (n, d), shape (n, K), differentiable in X."""
        low, high = self.ends
        angles = math.pi * (self.levels(X) - low) / (high - low)
        waves = torch.cos(angles[:, None] * self.orders) * torch.where(self.orders > 0, math.sqrt(2), 1.0)
        found: Tensor = waves.prod(dim=2) * (self.polynomials.features(X) @ self.growth).exp()[:, None]
        return found


def _center(polynomials: Polynomials, coefficients: Array) -> tuple[float, Array] | None:
    """Value and place (1, d) where a combination of degree 2 is least, or largest, on all of space; None if nowhere."""
    middle, unit = polynomials.box.mean(0)[None], np.eye(polynomials.box.shape[1], dtype=int)
    slope = np.array([polynomials.derivatives(middle, tuple(a))[0] @ coefficients for a in unit])
    bend = np.array([[polynomials.derivatives(middle, tuple(a + b))[0] @ coefficients for b in unit] for a in unit])
    curvatures = np.linalg.eigvalsh(bend)
    tiny = _NULL * max(np.abs(curvatures).max(), np.abs(slope).max())
    offset = -np.linalg.pinv(bend, rcond=_NULL, hermitian=True) @ slope
    saddle = curvatures[0] < -tiny and curvatures[-1] > tiny
    if saddle or np.abs(curvatures).max() <= tiny or np.abs(bend @ offset + slope).max() > tiny:
        return None
    return float(polynomials.features(torch.from_numpy(middle + offset))[0].numpy() @ coefficients), middle + offset


def first_integrals(physics: Physics) -> tuple[Polynomials, Array, Array] | None:
    """Polynomials, and coefficients of first integrals (P, d - 1) and of the growth mu along their lines (P,).

    With N = b . grad + c these are independent polynomials up to degree 2 of b . grad psi = 0 and b . grad mu = -c.
    None where there are no such, where N is not of first order, and in one variable or more than five.
    """
    box = enclosing_box(physics)
    d = box.shape[1]
    if not 2 <= d <= _MOST_VARIABLES:
        return None
    polynomials = Polynomials(box, 2)
    points, mass = polynomials.quadrature()
    operator = linear_operator(physics, physics.decode(points))
    if np.any(operator.second):
        return None
    root, along = np.sqrt(mass)[:, None], replace(operator, zeroth=np.zeros(len(points)))
    values, image = root * polynomials.derivatives(points, (0,) * d), root * images(polynomials, along, points)
    totals = polynomials.degrees.sum(axis=0)
    found = np.empty((len(totals), 0))
    for degree in (1, 2):
        among = np.flatnonzero((totals <= degree) & (totals > 0))
        _, singular, rows = np.linalg.svd(image[:, among], full_matrices=False)
        null = np.zeros((len(found), int((singular <= _NULL).sum())))
        null[among] = rows[singular <= _NULL].T
        # What those of degree 1 and their products add up to is no further one.
        lines = values @ found
        pairs = (lines[:, :, None] * lines[:, None] / root[:, None]).reshape(len(root), found.shape[1] ** 2)
        known = np.column_stack([found, values.T @ pairs])
        known[0] = 0.0
        basis, sizes, _ = np.linalg.svd(known, full_matrices=False)
        basis = basis[:, sizes > _NULL]
        left, sizes, _ = np.linalg.svd(null - basis @ (basis.T @ null), full_matrices=False)
        found = np.column_stack([found, left[:, sizes > 0.5]])[:, : d - 1]
    slopes = np.stack([polynomials.derivatives(points, tuple(a)) @ found for a in np.eye(d, dtype=int)], axis=1)
    lost, growth = -root[:, 0] * operator.zeroth, np.zeros(len(totals))
    growth[totals <= 2] = np.linalg.lstsq(image[:, totals <= 2], lost, rcond=1e-10)[0]
    grows = np.linalg.norm(image @ growth - lost) <= _NULL * np.linalg.norm(lost)
    independent = np.linalg.matrix_rank(slopes, rtol=_NULL).max(initial=0) == d - 1
    return (polynomials, found, growth) if grows and independent else None


def characteristics(physics: Physics) -> tuple[Polynomials, Array, Array] | None:
    """Polynomials, and coefficients of the characteristics (P, 2) of a wave equation, which has no growth (P,).

    They are w . x for both w with w^T second w = 0. None where N is no wave equation with constant coefficients.
    """
    operator = _operator(physics)
    if not _is_plain(operator) or np.linalg.det(operator.second[0]) >= 0:
        return None
    polynomials = Polynomials(enclosing_box(physics), 2)
    sizes, axes = np.linalg.eigh(operator.second[0])
    slopes = axes @ (np.sqrt(np.abs(sizes[::-1]))[:, None] * [[1.0, 1.0], [1.0, -1.0]])
    first, second = (polynomials.degrees == np.array(each)[:, None] for each in ((1, 0), (0, 1)))
    found = np.where(first.all(axis=0)[:, None], slopes[0] * polynomials.half[0], 0.0)
    found += np.where(second.all(axis=0)[:, None], slopes[1] * polynomials.half[1], 0.0)
    return polynomials, found, np.zeros(len(found))


def _is_plain(operator: LinearOperator) -> bool:
    """True if N is a constant second-order operator of two variables with no lower terms."""
    second = operator.second
    lower = np.any(operator.zeroth) or np.any(operator.first)
    return second.shape[1] == 2 and not lower and bool(np.all(second == second[0]))


def is_harmonic(operator: LinearOperator) -> bool:
    """True if N is a constant elliptic second-order operator of two variables with no lower terms."""
    return _is_plain(operator) and bool(np.linalg.det(operator.second[0]) > 0)


def predicted_doubles(physics: Physics, degree: int) -> float:
    """Largest number of float64 numbers that the solutions up to a degree need at once, predicted.

    Raises:
        ValueError: the equation is not a single linear one, or the polynomials of this degree are too many.
    """
    if is_harmonic(_operator(physics)):
        return 0.0
    d = len(Polynomials(enclosing_box(physics), degree).half)
    return _COPIES * float(degree + 1) ** d * float(degree + MORE_NODES) ** d


def _operator(physics: Physics) -> LinearOperator:
    if not system_of(physics).linear:
        raise ValueError("The equation is not linear and engine basis adds up its solutions: use engine trained.")
    points = physics.points
    if len(points) == 1:
        # A coefficient that varies cannot be told from a constant at one place: a few more are looked at.
        points = physics.decode(Polynomials(enclosing_box(physics), 1).quadrature()[0])
    return linear_operator(physics, points)


def solutions(physics: Physics, degree: int, orders: int | None = None) -> tuple[Solutions, ...]:
    """The solutions of the homogeneous equation in the forms that there are, one of which has to be taken.

    Args:
        physics: The equation and where it holds.
        degree: Highest degree of polynomials.
        orders: See ``FirstIntegrals.of``.

    Raises:
        ValueError: the equation is not linear, or the degree does not suit it.
    """
    box = enclosing_box(physics)
    if is_harmonic(_operator(physics)):
        return (Harmonic.of(linear_operator(physics, physics.points[:1]), box, degree),)
    more: tuple[Solutions, ...] = ()
    if found := first_integrals(physics):
        more = (FirstIntegrals.of(*found, orders),)
    elif found := characteristics(physics):
        more = (FirstIntegrals.of(*found, orders, crossed=False),)
    polynomials = Polynomials(box, degree)
    points, mass = polynomials.quadrature()
    operator = linear_operator(physics, physics.decode(points))
    try:
        return NullSpace.of(np.sqrt(mass)[:, None] * images(polynomials, operator, points), polynomials), *more
    except ValueError:
        if not more:
            raise
        return more  # what decays fast is no polynomial


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
        if missed <= _NULL:
            found = np.zeros(len(among))
            found[among] = solved
            return polynomials, torch.from_numpy(found)
    raise ValueError(
        f"Polynomials of degree {degree} leave {missed:.2g} of the equation's right-hand side: raise `degree`, "
        "or use engine trained."
    )
