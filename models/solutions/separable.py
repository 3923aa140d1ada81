"""Solutions that are sums of functions of one variable each.

A linear equation whose coefficients are constant, and whose right-hand side is such a sum, has such a solution
(superposition): sum_i p_i(x_i), with an ordinary equation for each p_i.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.polynomial import chebyshev
from scipy import fft
from scipy.sparse import csc_array, diags_array, eye_array
from scipy.sparse.linalg import SuperLU, splu
from torch import Tensor

from fieldcraft.models.equations.functionals import Functionals
from fieldcraft.models.equations.residuals import LinearOperator, LinearRow, sources
from fieldcraft.models.observations import Array, Physics, Scaling
from fieldcraft.models.solutions.polynomial import enclosing_box
from fieldcraft.models.surrogate import Function

# Terms of a series: the first number that is tried, and the most. What the last may be, as a share of the largest.
_FEWEST, _MOST, _TAIL = 32, 4096, 1e-9
# Nodes of the tables for a term of the series. Lowest valleys of one variable that are looked at.
_FINER, _VALLEYS = 4, 32
# Times that each variable is moved to its best valley.
_SWEEPS = 5
# What a sum may leave of the right-hand side, as a share of it at the collocation points.
_MET = 1e-3
# Coefficients below which a term is constant, in standard deviations of the results.
_LEVEL = 1e-9


@dataclass(frozen=True, eq=False)
class SeparableSum:
    """p(x) = sum_i p_i(x_i).

    Args:
        box: Encoded box (2, d) in which it is known; beyond it each p_i keeps the value at the end.
        series: Chebyshev coefficients of each p_i over its side of the box, shape (N, d).
    """

    box: Array
    series: Array

    def __call__(self, X: Tensor) -> Tensor:
        """p at encoded X (n, d), shape (n,), differentiable: by cubics between Chebyshev nodes."""
        places, values, slopes = self._table
        unit = self._unit(X).clamp(-1.0, 1.0)
        steps = len(places) - 1
        at = (unit.detach().arccos() * (steps / math.pi)).long().clamp(max=steps - 1)
        column = torch.arange(X.shape[1])
        wide = places[at + 1] - places[at]
        t, rise = (unit - places[at]) / wide, values[at + 1, column] - values[at, column]
        left, right = wide * slopes[at, column], wide * slopes[at + 1, column]
        cubic = values[at, column] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))
        return cubic.sum(1)

    def image(self, a: Functionals) -> Tensor:
        """Each functional of p, shape (n,)."""
        unit = self._unit(a.points).numpy()
        found = a.zeroth * self(a.points)
        series = self.series
        for factors in (a.first, None if a.second is None else a.second.diagonal(dim1=1, dim2=2)):
            series = chebyshev.chebder(series, axis=0) / self._half
            if factors is not None:
                found = found + (factors * torch.from_numpy(chebyshev.chebval(unit, series, tensor=False))).sum(1)
        return found

    @cached_property
    def valleys(self) -> list[Tensor]:
        """Encoded places in [-1, 1] of the lowest minima of each p_i, ends included; lowest first."""
        places, values, _ = self._table
        X = places[:, None] * torch.from_numpy(self._half) + torch.from_numpy(self.box.mean(0))
        found = []
        for x, value in zip(X.T, values.T, strict=True):
            inside = x.abs() <= 1
            x, value = x[inside], value[inside]
            ends = torch.tensor([math.inf], dtype=value.dtype)
            around = torch.cat([ends, value, ends])
            low = (value < around[:-2]) & (value <= around[2:])
            low[0] = low[-1] = True
            order = value[low].argsort(stable=True)[:_VALLEYS]
            found.append(x[low][order])
        return found

    def _unit(self, X: Tensor) -> Tensor:
        return (X - torch.from_numpy(self.box.mean(0))) / torch.from_numpy(self._half)

    @property
    def _half(self) -> Array:
        return np.asarray((self.box[1] - self.box[0]) / 2)

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes (m,) from 1 to -1, values of each p_i there and its derivatives by that coordinate, each (m, d)."""
        steps = _FINER * len(self.series)
        nodes = np.cos(np.pi * np.arange(steps + 1) / steps)
        parts = (self.series, np.asarray(chebyshev.chebder(self.series, axis=0), dtype=np.float64))
        values, slopes = (torch.from_numpy(_at_nodes(part, steps)) for part in parts)
        return torch.from_numpy(nodes), values, slopes


def _at_nodes(series: Array, steps: int) -> Array:
    """Values of Chebyshev series (N, d) at cos(pi k / steps), shape (steps + 1, d)."""
    padded = np.zeros((steps + 1, series.shape[1]))
    padded[: len(series)] = series
    padded[1:-1] /= 2
    return np.asarray(fft.dct(padded, type=1, axis=0))


def separable_sum(physics: Physics, scaling: Scaling, rows: Sequence[LinearRow]) -> SeparableSum | None:
    """Such a sum that solves the equation for the target; None where none is found or a constant does.

    None is found where there is more than one equation or field, a coefficient varies, or the right-hand side is no
    such sum or has no value on an axis. Of all such sums it has nearly the least variance over the box.

    Args:
        physics: The equation.
        scaling: Scaling of the targets.
        rows: The equations at the collocation points.
    """
    if len(rows) > 1 or len(rows[0].blocks) > 1:
        return None
    operator, box = rows[0].blocks[0], enclosing_box(physics)
    if any(np.ptp(part, axis=0).any() for part in (operator.zeroth, operator.first, operator.second)):
        return None
    half = (box[1] - box[0]) / 2
    zeroth, first, second = operator.zeroth[0], operator.first[0] / half, np.diagonal(operator.second[0]) / half**2
    told = np.flatnonzero((first != 0) | (second != 0) | (zeroth != 0))
    try:
        middle, cuts = _cuts(physics, box)
    except ValueError:
        return None
    cuts *= scaling.sign / (scaling.sd * rows[0].scale)
    constant = scaling.sign * (middle / rows[0].scale - zeroth * scaling.mean) / scaling.sd
    cuts[0] += constant / max(len(told), 1)
    solved = _smallest([_Line.of(second[i], first[i], zeroth, cuts[:, i]) for i in told]) if len(told) else []
    series = np.zeros((len(cuts) + 2, len(half)))
    for i, each in zip(told, solved, strict=True):
        series[: len(each), i] = each
    if not np.any(np.abs(series[1:]) > _LEVEL):
        return None
    found = SeparableSum(box, series)
    missed = np.linalg.norm(rows[0].source - found.image(_functionals(physics, operator)).numpy())
    return found if missed <= _MET * np.linalg.norm(rows[0].source) else None


def _functionals(physics: Physics, operator: LinearOperator) -> Functionals:
    parts = (physics.encode(physics.points), operator.zeroth, operator.first, operator.second)
    return Functionals(*(torch.from_numpy(np.array(part)) for part in parts))


def lowest(function: Function, start: Tensor, valleys: Sequence[Tensor]) -> Tensor:
    """Point (d,), reached from a start (d,), that no move of one variable into one of its valleys lowers further."""
    x = start.clone()
    for _ in range(_SWEEPS):
        before = x.clone()
        for i, places in enumerate(valleys):
            X = x.repeat(1 + len(places), 1)
            X[1:, i] = places
            x = X[function(X).argmin()]
        if torch.equal(x, before):
            break
    return x


def _cuts(physics: Physics, box: Array) -> tuple[float, Array]:
    """The right-hand side in the middle, and Chebyshev coefficients (N, d) of what it has more along each axis.

    Raises:
        ValueError: it is not finite there.
    """
    middle, half = box.mean(0), (box[1] - box[0]) / 2
    there = float(sources(physics, physics.decode(middle[None]))[0, 0])
    terms = _FEWEST
    while True:
        # Neither the middle nor the ends, where it may have no value.
        nodes = np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
        found = np.empty((terms, len(half)))
        for i in range(len(half)):
            X = np.tile(middle, (terms, 1))
            X[:, i] += half[i] * nodes
            found[:, i] = sources(physics, physics.decode(X))[0] - there
        series = np.asarray(fft.dct(found, type=2, axis=0)) / terms
        series[0] /= 2
        if np.abs(series[-terms // 8 :]).max() <= _TAIL * np.abs(series).max() or terms >= _MOST:
            return there, series
        terms *= 2


@dataclass(frozen=True)
class _Line:
    """Solutions of a p'' + b p' + c p = g over [-1, 1], as Chebyshev coefficients.

    Args:
        one: Of one solution, shape (N,).
        steady: Of one for g = 1, shape (N,).
        free: Of the independent ones for g = 0 that are not constant, shape (N, k).
        shifted: True if constants are such solutions, too.
    """

    one: Array
    steady: Array
    free: Array
    shifted: bool

    @classmethod
    def of(cls, a: float, b: float, c: float, source: Array) -> "_Line":
        """Solutions by integration: with q the highest derivative and J q an integral of it, J^m q + a polynomial."""
        n, order = len(source), 2 if a else 1 if b else 0
        # 1 and x, of which those that do not solve it by themselves are completed.
        powers = [k for k in range(order) if c or k]
        unit = np.eye(n + order, 2)
        left = [c * unit[:n, k] + (b * unit[:n, 0] if k else 0.0) for k in powers]
        found = _highest(a, b, c, n, order).solve(np.stack([source, unit[:n, 0], *(-each for each in left)], axis=1))
        for _ in range(order):
            found = chebyshev.chebint(found, axis=0)
            found[0] = 0.0
        return cls(found[:, 0], found[:, 1], found[:, 2:] + unit[:, powers], shifted=not c)


def _highest(a: float, b: float, c: float, n: int, order: int) -> SuperLU:
    """Factor of the equation for the coefficients (n,) of the highest derivative q."""
    k, one = np.arange(1, n), eye_array(n)
    below, above = np.where(k == 1, 1.0, 0.5 / k), np.append(0.0, -0.5 / k[:-1])
    integral = diags_array([below, above], offsets=[-1, 1])
    parts = {2: (a, b, c), 1: (b, c), 0: (c,)}[order]
    powers = (one, integral, integral @ integral)
    return splu(csc_array(sum(part * power for part, power in zip(parts, powers, strict=False))))


def _smallest(lines: Sequence[_Line]) -> list[Array]:
    """One solution of each line, the least in variance: right-hand sides may differ by constants that sum to zero."""
    centred = [_centred(np.column_stack([each.one, each.steady, each.free])) for each in lines]
    constants = np.zeros(len(lines))
    if lines[0].shifted:  # else a constant right-hand side has a constant solution, of no variance
        bare = [each[:, :2] - each[:, 2:] @ _nearest(each[:, 2:], each[:, :2]) for each in centred]
        products, squares = (np.array([each[:, 1] @ each[:, k] for each in bare]) for k in (0, 1))
        constants = ((products / squares).sum() / (1 / squares).sum() - products) / squares
    found = []
    for each, values, constant in zip(lines, centred, constants, strict=True):
        least = each.one + constant * each.steady
        least -= each.free @ _nearest(values[:, 2:], values[:, :2] @ [1.0, constant])
        if each.shifted:
            ends = chebyshev.chebval([-1.0, 1.0], chebyshev.chebint(least))
            least[0] -= (ends[1] - ends[0]) / 2
        found.append(least)
    return found


def _nearest(columns: Array, values: Array) -> Array:
    """Coefficients (k, ...) of the columns (n, k) that come nearest to values (n, ...)."""
    return np.asarray(np.linalg.lstsq(columns, values)[0])


def _centred(series: Array) -> Array:
    """Values of Chebyshev series (N, m) less their means, weighted so that squares are variances, (N + 1, m)."""
    steps = len(series)
    weights = np.sin(np.pi * np.arange(steps + 1) / steps)
    weights /= weights.sum()
    values = _at_nodes(series, steps)
    return np.sqrt(weights)[:, None] * (values - weights @ values)
