"""Newton's method for the balances of nonlinear equations on a grid, A u + F(u) = b.

Damped by the natural monotonicity test (Deuflhard, 2004, chapter 3): from u, with the factors of a Jacobian J, the
step s = -J^-1 r(u) is halved until the next simplified step, -J^-1 r(u + share s), is shorter than s by a quarter of
the share. The test does not depend on how the equations are scaled. While one step shortens the next to a tenth, the
factors are kept: in time, one factorisation then serves several steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.parametric.discretisation import Discretisation, Term, finite
from fieldcraft.physics.parametric.nonlinear import Bound, Nonlinear, State
from fieldcraft.physics.parametric.patterns import Array, Pattern

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

# A step below this share of the fields ends the search; and one that rounding alone keeps from falling, by share or in
# the fields' own units.
_DIGITS, _ROUNDING, _LEAST = 1e-10, 1e-6, 1e-12
# Steps at most, the share of the last step's length below which factors are kept, and the smallest share of a step.
_STEPS, _KEPT, _DAMPED = 50, 0.1, 2.0**-12


class NotConverged(ValueError):
    """Newton's method found no solution."""


@dataclass(frozen=True, eq=False)
class Balance:
    """Equations of one design at one moment.

    Args:
        on: Their discretisation, of ``size`` unknowns.
        terms: Linear terms.
        coefficients: Their coefficients, shape (1, terms * N).
        right: b, shape (size,).
        nonlinear: F and its derivatives.
        points: Centres of the cells, with the moment if there is time, shape (N, d).
    """

    on: Discretisation
    terms: tuple[Term, ...]
    coefficients: Array
    right: Array
    nonlinear: Bound
    points: Array

    def left(self, u: Array) -> tuple[Array, list[tuple[Term, Array]]]:
        """r = A u + F(u) - b, shape (size,), and the coefficients (N,) of the terms of dF/du; for u (size,)."""
        pattern = self.on.pattern(self.terms)
        entries = pattern.values(self.coefficients)[0] * u[pattern.columns]
        left = np.bincount(pattern.rows, entries, minlength=pattern.size) - self.right
        terms, cells = [], self.on.cells
        for equation, found in enumerate(self.nonlinear(self.points, self._states(u))):
            if found is not None:
                left[equation * cells : (equation + 1) * cells] += found.value
                terms += [(term, np.broadcast_to(at, cells)) for term, at in linearised(equation, found)]
        return left, terms

    def jacobian(self, u: Array) -> tuple[Pattern, Array]:
        """Pattern of A + dF/du at u (size,), and its coefficients (1, terms * N)."""
        slopes = self.left(u)[1]
        joint = self.on.pattern((*self.terms, *(term for term, _ in slopes)))
        return joint, finite(np.hstack([self.coefficients[0], *(at for _, at in slopes)]))[None]

    def _states(self, u: Array) -> tuple[State, ...]:
        def slope(field: Array, axis: int) -> Array:
            ahead, behind = (field[self.on.shifted(axis, by)] for by in (1, -1))
            return np.asarray((ahead - behind) / (2 * self.on.grid.spacing[axis]))

        fields = u.reshape(self.on.fields, -1)
        return tuple(State(each[: self.on.cells], lambda axis, each=each: slope(each, axis)) for each in fields)  # type: ignore[misc]


def linearised(equation: int, found: Nonlinear) -> Iterator[tuple[Term, Array | float]]:
    """Terms of the derivatives of an equation's nonlinear term, and their coefficients."""
    for field, at in enumerate(found.by_value):
        if np.ndim(at) or at:
            yield Term(equation, field, 0, 0), at
    for field, slopes in enumerate(found.by_slope):
        for axis, at in enumerate(slopes):
            if np.ndim(at) or at:
                yield Term(equation, field, axis, 1), at


def newton(balance: Balance, start: Array, factors: "SuperLU | None" = None) -> "tuple[Array, SuperLU]":
    """Solution (size,), and the factors of a Jacobian close to it.

    Args:
        balance: The equations.
        start: Values from which the search begins, shape (size,).
        factors: Factors of a Jacobian that may be close, such as those of the last step of time.

    Raises:
        NotConverged: no share of a step comes nearer, or 50 steps do not come near enough.
        ValueError: the equations or their derivatives are not finite at the start, or have no unique solution.
    """
    u, fresh = start, factors is None
    finite(balance.left(u)[0])
    lu = factors or _factored(balance, u)
    step = -lu.solve(balance.left(u)[0])
    fields, cells = balance.on.fields, balance.on.cells

    def root_mean_squares(values: Array) -> Array:
        return np.asarray(np.sqrt(np.mean(values.reshape(fields, -1)[:, :cells] ** 2, axis=1)))

    size = np.maximum(root_mean_squares(u), root_mean_squares(step))
    size[size == 0] = 1.0

    def length(values: Array) -> float:
        return float((root_mean_squares(values) / size).max())

    share = 1.0
    for _ in range(_STEPS):
        while True:
            trial = u + share * step
            with np.errstate(all="ignore"):
                left = balance.left(trial)[0]
                again = -lu.solve(left) if np.isfinite(left).all() else np.full_like(u, np.inf)
            if length(again) <= (1 - share / 4) * length(step):
                break
            if not fresh:
                lu, fresh, share = _factored(balance, u), True, 1.0
                step = -lu.solve(balance.left(u)[0])
                continue
            if share == 1.0 and (length(step) <= _ROUNDING or np.abs(step).max() <= _LEAST):
                return u, lu
            share /= 2
            if share < _DAMPED:
                raise NotConverged(
                    f"Newton's method stands still {length(step):.2g} of the fields away from a solution"
                )
        u = trial
        if length(again) <= _DIGITS:
            return u + again, lu
        if length(again) <= _KEPT * length(step):
            step, fresh = again, False
        else:
            lu, fresh = _factored(balance, u), True
            step = -lu.solve(left)
        share = min(1.0, 2 * share)
    raise NotConverged(f"after {_STEPS} of Newton's steps the next is still {length(step):.2g} of the fields")


def _factored(balance: Balance, u: Array) -> "SuperLU":
    pattern, coefficients = balance.jacobian(u)
    return pattern.factored(pattern.values(coefficients)[0])
