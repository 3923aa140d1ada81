"""Fields of stated equations, in steady state and in time, by second-order central differences (``discretisation``).

Time goes by the implicit midpoint rule, of second order and stable for any step: half a step of backward Euler to the
middle of a step, where the solution is kept, and as far again in a straight line. For constant coefficients that is
Crank and Nicolson's rule. It has a quarter of the error of BDF2 for as many solves, and all its steps are alike. It
damps little what changes far faster than a step: initial values that do not fit the conditions leave ripples of some
hundredths of the jump, which BDF2 would not.

Nonlinear equations are solved by Newton's method (``newton``), each step of time from the solution of the last.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from fieldcraft.physics.operators import LinearEquation, LinearSystem
from fieldcraft.physics.parametric.discretisation import Discretisation, Term, at_step, given_by, together, when
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.newton import Balance, NotConverged, newton
from fieldcraft.physics.parametric.patterns import Array
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation, in_words

_Solve = Callable[[int, tuple[Term, ...], Array, Array], Array]
"""Solutions (n, size) at a step, of these terms with coefficients (n or 1, terms * N), right-hand sides (n, size)."""


def solved(stated: ParametricEquation, designs: Numbers, cells: tuple[int, ...]) -> dict[str, Array]:
    """Fields of n designs at the centres of so many cells along each axis, each (n, *cells), by name.

    Args:
        stated: The statement.
        designs: Values of each variable, numbers or (n, 1).
        cells: Number of cells along each axis.

    Returns:
        The fields, NaN at cells whose centres the domain's mask leaves out.

    Raises:
        ValueError: mixed derivatives, another number of equations than of fields or of coordinates, a second
            derivative by time, a coefficient that is not finite, equations without a unique solution, a design for
            which Newton's method does not converge, or a part of a mask's boundary without a condition.
    """
    n = max((len(np.atleast_2d(value)) for value in designs.values()), default=1)
    on = Discretisation.of(stated, cells)
    if stated.nonlinear is not None:
        found = np.concatenate([_nonlinear(stated, one(designs, i), on, cells) for i in range(n)])
    elif stated.time is None:
        pattern, coefficients, right = on.system(stated.of(designs))
        found = on.cells_of(pattern.solve(coefficients, right))
    else:
        found = _evolved(
            on,
            stated.of(designs),
            _begin(stated, on),
            Grid(stated.domain, cells).centres[stated.time],
            lambda step, terms, coefficients, right: on.pattern(terms).solve(coefficients, right),
        )
    whole = np.broadcast_to(found, (n, *found.shape[1:]))
    grid = Grid(stated.domain, cells)
    if stated.time is not None and np.any(grid.inside != np.repeat(on.grid.inside, cells[-1])):
        raise ValueError(
            f"The mask of the domain of {', '.join(field.name for field in stated.fields)} is another at other times: "
            f"let it not depend on {stated.time!r}."
        )
    return {field.name: grid.boxed(whole[:, i].reshape(n, -1)) for i, field in enumerate(stated.fields)}


def steady(stated: ParametricEquation, design: Numbers, cells: tuple[int, ...]) -> tuple[Balance, Array]:
    """The balance of one design's nonlinear equations in steady state, and its solution (size,).

    Raises:
        ValueError: see ``solved``.
    """
    on = Discretisation.of(stated, cells)
    terms, right = on.assembled(stated.of(design), None)
    balance = Balance(
        on, tuple(term for term, _ in terms), together(terms, 0), right[0, 0], stated.bound(design), on.points
    )
    start = np.repeat(np.array(stated.start or (0.0,) * on.fields), on.unknowns)
    with _explained(stated, design, cells, lambda: "in steady state"):
        return balance, newton(balance, start)[0]


def _nonlinear(stated: ParametricEquation, design: Numbers, on: Discretisation, cells: tuple[int, ...]) -> Array:
    """Fields of one design, shape (1, fields, N), or (1, fields, N, steps) in time."""
    if stated.time is None:
        return on.cells_of(steady(stated, design, cells)[1][None])
    times, nonlinear, begin = Grid(stated.domain, cells).centres[stated.time], stated.bound(design), _begin(stated, on)
    now, factors, at = on.with_ghosts(begin), None, 0

    def solve(step: int, terms: tuple[Term, ...], coefficients: Array, right: Array) -> Array:
        nonlocal now, factors, at
        at = step
        points = when(on.points, times[step : step + 1])
        now, factors = newton(Balance(on, terms, coefficients, right[0], nonlinear, points), now, factors)
        return now[None]

    with _explained(stated, design, cells, lambda: f"at {stated.time} = {times[at]:g}"):
        return _evolved(on, stated.of(design), begin, times, solve)


@contextmanager
def _explained(
    stated: ParametricEquation, design: Numbers, cells: tuple[int, ...], at: Callable[[], str]
) -> Iterator[None]:
    """Turn a search without end within the block into a ValueError that names the design and the moment."""
    try:
        yield
    except NotConverged as error:
        raise ValueError(
            f"The nonlinear equation of {', '.join(field.name for field in stated.fields)} is not solved {at()} on "
            f"{' x '.join(map(str, cells))} cells for {in_words(design) or 'the only design'}: {error}. Use more cells "
            "or steps, leave such designs out of the space, or state another `start` of a steady state."
        ) from error


def one(designs: Numbers, i: int) -> Numbers:
    """The i-th of some designs, numbers."""
    return {name: value[i % len(value), 0] if np.ndim(value) else value for name, value in designs.items()}


def _begin(stated: ParametricEquation, on: Discretisation) -> Array:
    """Values of the fields at the beginning of time, shape (1, fields, N)."""
    points = when(on.points, stated.domain.bounds[:1, -1])
    values = {each.field: given_by(points, each) / each.value for each in stated.beginning}
    return np.array([[values[field.name] for field in stated.fields]])


def _evolved(
    on: Discretisation, equation: LinearEquation | LinearSystem, begin: Array, times: Array, solve: _Solve
) -> Array:
    """Values of the fields at equally spaced times, shape (n, fields, N, steps); n is 1 if all designs have the same.

    Args:
        on: The discretisation in space.
        equation: The equation, of coefficients at points in space and time.
        begin: Values (1, fields, N) half a step before the first time.
        times: The middles of the steps, shape (steps,), at least two.
        solve: Solution of one step's equations.

    Raises:
        ValueError: see ``solved``.
    """
    half, last = (times[1] - times[0]) / 2, len(on.grid.cells)
    terms, right = on.assembled(equation, times)
    if any(term.axis == last and term.order > 1 for term, _ in terms):
        raise ValueError(
            "An equation has a second derivative by time: state it as a system of two equations of first order, "
            "with the rate of change as a second field."
        )
    # (u - before) / half for each du/dt
    rates = [(term, at / half) for term, at in terms if term.axis == last]
    terms = [term for term in terms if term[0].axis != last]
    terms += [(Term(term.equation, term.field, 0, 0), rate) for term, rate in rates]
    places = tuple(term for term, _ in terms)
    n = max(len(right), *(len(at) for _, at in terms))
    now = np.broadcast_to(begin, (n, *begin.shape[1:]))
    middles = np.empty((len(times), *now.shape))
    for step, middle in enumerate(middles):
        given = np.broadcast_to(right[:, step], (n, right.shape[2])).copy()
        for term, rate in rates:
            rows = slice(term.equation * on.cells, (term.equation + 1) * on.cells)
            given[:, rows] += at_step(rate, step) * now[:, term.field]
        middle[:] = on.cells_of(solve(step, places, together(terms, step), given))
        now = 2 * middle - now
    return np.moveaxis(middles, 0, -1)
