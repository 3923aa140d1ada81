"""The stated derivatives of nonlinear terms, compared with central differences."""

from dataclasses import replace

import numpy as np

from fieldcraft.physics.parametric.discretisation import given_by, when
from fieldcraft.physics.parametric.grid import Array, Grid
from fieldcraft.physics.parametric.nonlinear import Nonlinear, State
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation

# Seed of the fields, step of the differences as a share of a field's size, and what may be between the two.
_SEED, _STEP, _SHARE, _ROUNDING = 11, 1e-5, 1e-4, 1e-9


def refuse_wrong_derivatives(stated: ParametricEquation, design: Numbers) -> None:
    """Accept nonlinear terms whose derivatives are those of central differences, to a ten-thousandth.

    They are compared at the coarse grid's cells, for fields between a half and one and a half of their size (that at
    the beginning of time or of Newton's start; 1 where that is 0), with slopes of both signs.

    Args:
        stated: The statement.
        design: Values of the variables, numbers.

    Raises:
        ValueError: a derivative that differs, or another number of terms or of derivatives than of fields.
    """
    if stated.nonlinear is None:
        return
    grid, names = Grid(stated.domain, stated.cells), [field.name for field in stated.fields]
    rng, terms, axes = np.random.default_rng(_SEED), stated.bound(design), stated.space.names
    sizes, points = _sizes(stated), grid.points[grid.inside]
    values = [size * rng.uniform(0.5, 1.5, len(points)) for size in sizes]
    lengths = np.ptp(stated.space.bounds, axis=0)
    slopes = [size / lengths[:, None] * rng.standard_normal((len(axes), len(points))) for size in sizes]
    states = tuple(State(value, slope.__getitem__) for value, slope in zip(values, slopes, strict=True))

    def differences(field: int, step: float, axis: int | None) -> list[Array | None]:
        """Differences of all terms by the value of a field, or by its slope along an axis."""
        found = []
        for way in (step, -step):
            moved = slopes[field].copy()
            if axis is not None:
                moved[axis] += way
            value = values[field] + (way if axis is None else 0.0)
            other = replace(states[field], value=value, slope=moved.__getitem__)
            found.append(terms(points, (*states[:field], other, *states[field + 1 :])))
        return [
            None if a is None or b is None else (a.value - b.value) / (2 * step) for a, b in zip(*found, strict=True)
        ]

    here = terms(points, states)
    for number, term in enumerate(here):
        if term is not None and (len(term.by_value) != len(names) or len(term.by_slope) not in (0, len(names))):
            raise ValueError(
                f"The nonlinear term of equation {number + 1} has {len(term.by_value)} derivatives by the fields and "
                f"{len(term.by_slope)} by their slopes, and the fields are {', '.join(names)}: give one for each."
            )
    for field, size in enumerate(sizes):
        for axis, scale in ((None, size), *enumerate(size / lengths)):
            for number, by in enumerate(differences(field, _STEP * scale, axis)):
                term = here[number]
                if term is None or by is None:
                    continue
                given = np.broadcast_to(_stated(term, field, axis), len(points))
                bound = _SHARE * np.maximum(np.abs(by), np.abs(given)) + _ROUNDING * np.abs(term.value).max() / scale
                wrong = np.flatnonzero(np.abs(by - given) > bound)
                if len(wrong):
                    way = names[field] if axis is None else f"the slope of {names[field]} along {axes[axis]}"
                    raise ValueError(
                        f"The nonlinear term of equation {number + 1} states the derivative {given[wrong[0]]:.6g} by "
                        f"{way}, where differences of its value give {by[wrong[0]]:.6g}: correct the derivative or "
                        "the value."
                    )


def _stated(term: Nonlinear, field: int, axis: int | None) -> Array | float:
    if axis is None:
        return term.by_value[field]
    return term.by_slope[field][axis] if term.by_slope else 0.0


def _sizes(stated: ParametricEquation) -> list[float]:
    """Size of each field, with its sign."""
    if stated.time is None:
        known = dict(zip((field.name for field in stated.fields), stated.start, strict=False))
    else:
        space = Grid(stated.space, stated.cells[:-1])
        points = when(space.points[space.inside], stated.domain.bounds[:1, -1])
        known = {each.field: float(np.mean(given_by(points, each) / each.value)) for each in stated.beginning}
    return [known.get(field.name) or 1.0 for field in stated.fields]
