"""Equations that say along which lines nothing changes: functions of their first integrals, or sums of such.

Every solution of an equation of first order without a right-hand side is a function of its first integrals: of ratios
and products of powers, where the equation says that units do not count. Every one of a wave equation in two variables
is a sum of a function of each of its characteristics (d'Alembert, 1747).
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.equations.residuals import linear_operator
from fieldcraft.models.linear.polynomials import Polynomials
from fieldcraft.models.observations import Array, Physics
from fieldcraft.models.solutions.polynomial import NULL, enclosing_box, images, is_plain, single

# More variables need too many Gauss points, and leave few orders for each.
_MOST_VARIABLES = 5
_MOST_FUNCTIONS = 1000
_HIGHEST_ORDER = 100
# Of a first integral's range, on either side.
_BEYOND = 0.25


@dataclass(frozen=True)
class Coordinates:
    """Encoded variables x_i, or the logarithms of their distances from planes x_i = z_i.

    Args:
        planes: z, shape (d,).
        sides: 1 where the box lies above the plane, -1 below it; 0 where x_i is left as it is; shape (d,).
    """

    planes: Tensor
    sides: Tensor

    @classmethod
    def of(cls, physics: Physics, box: Array) -> "Coordinates":
        """Those in which the coefficients of derivatives that are linear, each in its own variable, are constant.

        A plane that comes nearer to the box than a thousandth of its width is none.
        """
        points = Polynomials(box, 2).quadrature()[0]
        (low, high), (first, last) = points[[0, -1]], linear_operator(physics, physics.decode(points)).first[[0, -1]]
        changed = first != last
        planes = low - first * (high - low) / np.where(changed, last - first, 1.0)
        apart = 1e-3 * (box[1] - box[0])
        sides = np.where(planes < box[0] - apart, 1.0, np.where(planes > box[1] + apart, -1.0, 0.0)) * changed
        return cls(torch.from_numpy(planes), torch.from_numpy(sides))

    def at(self, X: Tensor) -> Tensor:
        """The coordinates of X (n, d), differentiable."""
        return torch.where(self.sides == 0, X, self._away(X).log())

    def polynomials(self, box: Array) -> Polynomials:
        """Polynomials of degree 2 in them, over an encoded box (2, d)."""
        return Polynomials(np.sort(self.at(torch.from_numpy(box)).numpy(), axis=0), 2)

    def places(self, U: Array) -> Array:
        """X (n, d) at coordinates U (n, d)."""
        sides = self.sides.numpy()
        return np.where(sides == 0, U, self.planes.numpy() + sides * np.exp(np.where(sides == 0, 0.0, U)))

    def slopes(self, X: Array) -> Array:
        """Derivative of each coordinate by its own variable at X (n, d)."""
        found: Array = (self.sides / self._away(torch.from_numpy(X))).where(self.sides != 0, torch.ones(())).numpy()
        return found

    def _away(self, X: Tensor) -> Tensor:
        return torch.where(self.sides == 0, 1.0, self.sides * (X - self.planes))


@dataclass(frozen=True)
class FirstIntegrals:
    """Products of cosines of d - 1 first integrals: every solution of a first-order equation is a function of these.

    Of the two characteristics of a wave equation there are the cosines of each, without products. Along the lines of an
    equation with a term in the function itself, the functions grow or decay as e^mu does.

    A first integral with a centre, +-|A (x - c)|^2, enters by its root, of which the even functions are smooth there.
    The interval of each is longer than its range in the box, as in Solin and Sarkka (2020): cosines are flat at its
    ends, and solutions need not be.

    Args:
        coordinates: What the polynomials are functions of.
        polynomials: Polynomials up to degree 2 in each coordinate.
        integrals: Coefficients of the m first integrals or characteristics, shape (P, m).
        growth: Coefficients of mu, shape (P,).
        centers: Value in the centre; NaN where there is none; shape (m,).
        ends: The intervals, shape (2, m).
        orders: Number of half waves of each function in each interval, shape (K, m).
    """

    coordinates: Coordinates
    polynomials: Polynomials
    integrals: Tensor
    growth: Tensor
    centers: Tensor
    ends: Tensor
    orders: Tensor

    @classmethod
    def of(
        cls,
        coordinates: Coordinates,
        polynomials: Polynomials,
        integrals: Array,
        growth: Array,
        most: int | None,
        crossed: bool = True,
    ) -> "FirstIntegrals":
        """Cosines up to a total order; None for the highest, up to 100, with at most 1,000 functions.

        Args:
            coordinates: See the class.
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
        told = torch.from_numpy(integrals), mu, centers
        unfinished = cls(coordinates, polynomials, *told, torch.empty(0), torch.empty(0))
        levels = unfinished._levels(polynomials.features(places))
        low, high = levels.min(0).values, levels.max(0).values
        beyond = _BEYOND * (high - low)
        low = torch.where(centers.isnan(), low - beyond, (low - beyond).clamp(min=0.0))
        highest = max(k for k in range(1, _HIGHEST_ORDER + 1) if math.comb(k + m, m) <= _MOST_FUNCTIONS or not crossed)
        orders = itertools.product(range((most or highest) + 1), repeat=m)
        kept = [each for each in orders if sum(each) <= (most or highest) and (crossed or sum(each) == max(each))]
        return replace(unfinished, ends=torch.stack([low, high + beyond]), orders=torch.tensor(kept))

    def tensors(self) -> dict[str, Tensor]:
        """All that a checkpoint keeps."""
        own = {name: getattr(self, name) for name in ("integrals", "growth", "centers", "ends", "orders")}
        return {"planes": self.coordinates.planes, "sides": self.coordinates.sides, **own}

    @classmethod
    def restored(cls, box: Array, state: Mapping[str, Tensor]) -> "FirstIntegrals":
        """Those of ``tensors``, over an encoded box (2, d)."""
        coordinates = Coordinates(state["planes"], state["sides"])
        own = (state[name] for name in ("integrals", "growth", "centers", "ends", "orders"))
        return cls(coordinates, coordinates.polynomials(box), *own)

    @property
    def degrees(self) -> Tensor:
        """Length of each function's vector of orders, shape (K,)."""
        found: Tensor = torch.linalg.vector_norm(self.orders.to(torch.float64), dim=1)
        return found

    def levels(self, X: Tensor) -> Tensor:
        """The first integrals at encoded X (n, d), by their roots where they have a centre, shape (n, m)."""
        return self._levels(self.polynomials.features(self.coordinates.at(X)))

    def features(self, X: Tensor) -> Tensor:
        """Values at encoded X (n, d), shape (n, K), differentiable in X."""
        polynomials, (low, high) = self.polynomials.features(self.coordinates.at(X)), self.ends
        angles = math.pi * (self._levels(polynomials) - low) / (high - low)
        waves = torch.cos(angles[:, None] * self.orders) * torch.where(self.orders > 0, math.sqrt(2), 1.0)
        found: Tensor = waves.prod(dim=2) * (polynomials @ self.growth).exp()[:, None]
        return found

    def _levels(self, polynomials: Tensor) -> Tensor:
        values = polynomials @ self.integrals
        roots = (values - self.centers.nan_to_num()).abs().clamp(min=NULL**2).sqrt()
        return torch.where(self.centers.isnan(), values, roots)


def _center(polynomials: Polynomials, coefficients: Array) -> tuple[float, Array] | None:
    """Value and place (1, d) where a combination of degree 2 is least, or largest, on all of space; None if nowhere."""
    middle, unit = polynomials.box.mean(0)[None], np.eye(polynomials.box.shape[1], dtype=int)
    slope = np.array([polynomials.derivatives(middle, tuple(a))[0] @ coefficients for a in unit])
    bend = np.array([[polynomials.derivatives(middle, tuple(a + b))[0] @ coefficients for b in unit] for a in unit])
    curvatures = np.linalg.eigvalsh(bend)
    tiny = NULL * max(np.abs(curvatures).max(), np.abs(slope).max())
    offset = -np.linalg.pinv(bend, rcond=NULL, hermitian=True) @ slope
    saddle = curvatures[0] < -tiny and curvatures[-1] > tiny
    if saddle or np.abs(curvatures).max() <= tiny or np.abs(bend @ offset + slope).max() > tiny:
        return None
    return float(polynomials.features(torch.from_numpy(middle + offset))[0].numpy() @ coefficients), middle + offset


Found = tuple[Coordinates, Polynomials, Array, Array]
"""Coordinates, polynomials in these, and coefficients of first integrals (P, d - 1) and of the growth mu (P,)."""


def first_integrals(physics: Physics) -> Found | None:
    """The first integrals, and the growth along their lines, of an equation of first order in two to five variables.

    With N = b . grad + c they are independent polynomials up to degree 2 of b . grad psi = 0 and b . grad mu = -c, in
    the variables, or else in ``Coordinates``. None where there are no such.
    """
    box = enclosing_box(physics)
    if np.any(single(physics).second) or not 2 <= box.shape[1] <= _MOST_VARIABLES:
        return None
    if found := _integrals(physics, box, _plain(box)):
        return found
    logarithms = Coordinates.of(physics, box)
    return _integrals(physics, box, logarithms) if logarithms.sides.any() else None


def _plain(box: Array) -> Coordinates:
    return Coordinates(*torch.zeros(2, box.shape[1], dtype=torch.float64))


def _integrals(physics: Physics, box: Array, coordinates: Coordinates) -> Found | None:
    polynomials, d = coordinates.polynomials(box), box.shape[1]
    points, mass = polynomials.quadrature()
    places = coordinates.places(points)
    operator = linear_operator(physics, physics.decode(places))
    along = replace(operator, zeroth=np.zeros(len(points)), first=operator.first * coordinates.slopes(places))
    root = np.sqrt(mass)[:, None]
    values, image = root * polynomials.derivatives(points, (0,) * d), root * images(polynomials, along, points)
    totals = polynomials.degrees.sum(axis=0)
    found = np.empty((len(totals), 0))
    for degree in (1, 2):
        among = np.flatnonzero((totals <= degree) & (totals > 0))
        _, singular, rows = np.linalg.svd(image[:, among], full_matrices=False)
        null = np.zeros((len(found), int((singular <= NULL).sum())))
        null[among] = rows[singular <= NULL].T
        # What those of degree 1 and their products add up to is no further one.
        lines = values @ found
        pairs = (lines[:, :, None] * lines[:, None] / root[:, None]).reshape(len(root), found.shape[1] ** 2)
        known = np.column_stack([found, values.T @ pairs])
        known[0] = 0.0
        basis, sizes, _ = np.linalg.svd(known, full_matrices=False)
        basis = basis[:, sizes > NULL]
        left, sizes, _ = np.linalg.svd(null - basis @ (basis.T @ null), full_matrices=False)
        found = np.column_stack([found, left[:, sizes > 0.5]])[:, : d - 1]
    slopes = np.stack([polynomials.derivatives(points, tuple(a)) @ found for a in np.eye(d, dtype=int)], axis=1)
    lost, growth = -root[:, 0] * operator.zeroth, np.zeros(len(totals))
    growth[totals <= 2] = np.linalg.lstsq(image[:, totals <= 2], lost, rcond=1e-10)[0]
    grows = np.linalg.norm(image @ growth - lost) <= NULL * np.linalg.norm(lost)
    independent = np.linalg.matrix_rank(slopes, rtol=NULL).max(initial=0) == d - 1
    return (coordinates, polynomials, found, growth) if grows and independent else None


def characteristics(physics: Physics) -> Found | None:
    """The two characteristics of a wave equation with constant coefficients, which has no growth.

    They are w . x for both w with w^T second w = 0. None where N is no wave equation with constant coefficients.
    """
    operator = single(physics)
    if not is_plain(operator) or np.linalg.det(operator.second[0]) >= 0:
        return None
    box = enclosing_box(physics)
    polynomials = Polynomials(box, 2)
    sizes, axes = np.linalg.eigh(operator.second[0])
    slopes = axes @ (np.sqrt(np.abs(sizes[::-1]))[:, None] * [[1.0, 1.0], [1.0, -1.0]])
    first, second = (polynomials.degrees == np.array(each)[:, None] for each in ((1, 0), (0, 1)))
    found = np.where(first.all(axis=0)[:, None], slopes[0] * polynomials.half[0], 0.0)
    found += np.where(second.all(axis=0)[:, None], slopes[1] * polynomials.half[1], 0.0)
    return _plain(box), polynomials, found, np.zeros(len(found))


def along_lines(physics: Physics, orders: int | None) -> tuple[FirstIntegrals, ...]:
    """Functions of the first integrals of an equation of first order, or of a wave equation; none of another.

    Raises:
        ValueError: the equation is not a single linear one.
    """
    if found := first_integrals(physics):
        return (FirstIntegrals.of(*found, orders),)
    if found := characteristics(physics):
        return (FirstIntegrals.of(*found, orders, crossed=False),)
    return ()
