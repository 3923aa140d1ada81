"""Sequences of feasible points of a search space, from points of the unit cube."""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice, product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor
from torch.quasirandom import SobolEngine

from fieldcraft.models.observations import Array
from fieldcraft.physics.geometry.quadrics import Quadrics
from fieldcraft.physics.space import Categorical, Image, Integer, SearchSpace, Variable

# Size of the blocks in which points are tried; part of the sequence's definition, as is the fallback's threshold.
_BLOCK = 256
_LEAST_ACCEPTED = 4
ROUNDING = 1e-9
"""Known constraints hold to this, relative to the size of their terms."""


def take(points: Iterator[Array], n: int) -> Array:
    """The next n points of a sequence, shape (n, d)."""
    return np.array(list(islice(points, n)))


def sobol_points(space: SearchSpace, rng: np.random.Generator) -> Iterator[Array]:
    """Feasible points of a scrambled Sobol sequence (Owen, 1998), one dimension a variable or pixel, without end.

    Variables that equalities tie have one dimension less for each equality (see ``physics.geometry.mixtures``).
    """
    return _feasible_points(space, _sobol_cubes(_cube_dimension(space), int(rng.integers(2**31 - 1))), rng)


def _sobol_cubes(dimension: int, seed: int) -> Iterator[Array]:
    """Blocks of a scrambled Sobol sequence in the unit cube, without end."""
    yield _first_sobol_cube(dimension, seed)
    engine = _sobol_engine(dimension, seed)
    engine.draw(_BLOCK)
    yield from (engine.draw(_BLOCK, dtype=torch.float64).numpy() for _ in iter(int, 1))


def _sobol_engine(dimension: int, seed: int) -> SobolEngine:
    return SobolEngine(dimension, scramble=True, seed=seed)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=8)
def _first_sobol_cube(dimension: int, seed: int) -> Array:
    """First block of the sequence: a campaign asks for it at each design of its start."""
    cube: Array = _sobol_engine(dimension, seed).draw(_BLOCK, dtype=torch.float64).numpy()
    cube.flags.writeable = False
    return cube


@lru_cache(maxsize=16)
def normal_samples(n: int, k: int, seed: int) -> Tensor:
    """n standard normal values of k numbers, of a scrambled Sobol sequence, shape (n, k)."""
    cube = _sobol_engine(k, seed).draw(n, dtype=torch.float64).numpy()
    return torch.from_numpy(ndtri(np.clip(cube, 1e-12, 1 - 1e-12)))


def middle(space: SearchSpace) -> Array:
    """The point of the middle of the unit cube, encoded, shape (1, d); (0, d) if a known constraint excludes it."""
    X = _from_cube(space, np.full((1, _cube_dimension(space)), 0.5))
    return space.repair(X[is_feasible(space, X)])


def uniform_points(space: SearchSpace, rng: np.random.Generator) -> Iterator[Array]:
    """Feasible independent uniform points, without end."""
    cubes = (rng.random((_BLOCK, _cube_dimension(space))) for _ in iter(int, 1))
    return _feasible_points(space, cubes, rng)


def every_point(space: SearchSpace, limit: int) -> Array | None:
    """All feasible points of a wholly discrete space, shape (n, d); None for others and for more than ``limit``."""
    levels = [_levels(variable) for variable in space.variables]
    if any(n is None for n in levels):
        return None
    counts = [n for n in levels if n is not None]
    if math.prod(counts) > limit:
        return None
    numbers = np.array(list(product(*(range(n) for n in counts))))
    columns = zip(space.variables, counts, numbers.T, strict=True)
    X = np.concatenate([_numbered(variable, n, column) for variable, n, column in columns], axis=1)
    X = space.repair(X[is_feasible(space, X)])
    if space.plain:
        return X
    _, first = np.unique(space.folds.canonical(X).round(9), axis=0, return_index=True)  # each design once
    return X[np.sort(first)]


def is_feasible(space: SearchSpace, X: Array) -> NDArray[np.bool_]:
    """True for each encoded point of X (n, d) that is within the bounds and satisfies the known constraints, (n,)."""
    (A, b), (E, e), (low, high) = space.linear, space.equalities, space.bounds
    within = np.all(np.abs(X - np.clip(X, low, high)) <= ROUNDING, axis=1)
    straight = np.all(X @ A.T - b <= line_slack(A, b), axis=1)
    tied = np.all(np.abs(X @ E.T - e) <= line_slack(E, e), axis=1)
    curved = np.all(space.quadratic.excess(X) <= quadric_slack(space.quadratic), axis=1)
    return np.asarray(within & straight & tied & curved)


def line_slack(A: Array, b: Array) -> Array:
    """Tolerance for points in each of the rows A u = b or A u <= b, shape (c,)."""
    return np.asarray(ROUNDING * (np.abs(b) + np.abs(A).sum(axis=1) + 1))


def quadric_slack(curved: Quadrics) -> Array:
    """Tolerance for points in each quadratic constraint, shape (c,)."""
    terms = np.abs(curved.Q).sum(axis=(1, 2)) + np.abs(curved.a).sum(axis=1)
    return np.asarray(ROUNDING * (np.abs(curved.b) + terms + 1))


def _cube_dimension(space: SearchSpace) -> int:
    tied = sum(mixture.dimension for mixture in space.mixtures)
    return sum(_coordinates(variable) for variable in _untied(space)) + tied


def _untied(space: SearchSpace) -> list[Variable]:
    """The variables that no equality ties to others."""
    tied = {int(column) for mixture in space.mixtures for column in mixture.columns}
    return [v for v, at in zip(space.variables, space.columns.values(), strict=True) if at.start not in tied]


def _coordinates(variable: Variable) -> int:
    """Coordinates of the unit cube that a variable takes."""
    return variable.width if isinstance(variable, Image) else 1


def _levels(variable: Variable) -> int | None:
    """Number of values of a discrete variable; None if its values are not counted."""
    if isinstance(variable, Integer):
        return variable.high - variable.low + 1
    return len(variable.levels) if isinstance(variable, Categorical) else None


def _from_cube(space: SearchSpace, cube: Array) -> Array:
    """Encoded points (n, d) from the unit cube (n, c): uniform in every interval and over all levels.

    Coordinates that equalities tie are on their planes, and may be out of bounds.
    """
    X, first, columns = np.empty((len(cube), space.dimension)), 0, space.columns
    for variable in _untied(space):
        last = first + _coordinates(variable)
        X[:, columns[variable.name]] = _values(variable, cube[:, first:last])
        first = last
    for mixture in space.mixtures:
        X[:, mixture.columns] = mixture.from_cube(cube[:, first : first + mixture.dimension])
        first += mixture.dimension
    return X


def _values(variable: Variable, u: Array) -> Array:
    """Encoded values of a variable (n, width) from its coordinates of the unit cube."""
    levels = _levels(variable)
    if levels is None:
        return 2 * u - 1
    if isinstance(variable, Integer) and variable.log:
        return variable.snap(2 * u - 1)
    return _numbered(variable, levels, np.minimum((u[:, 0] * levels).astype(int), levels - 1))


def _numbered(variable: Variable, levels: int, numbers: NDArray[np.int64]) -> Array:
    """Encoded values (n, width) of a discrete variable, by their numbers from 0, shape (n,)."""
    if isinstance(variable, Categorical) and not variable.ordered:
        return np.asarray(np.eye(levels)[numbers])
    if isinstance(variable, Integer) and variable.log:
        return variable.coordinates((variable.low + numbers[:, None]).astype(np.float64))
    return np.asarray((2 * numbers - (levels - 1))[:, None] / max(levels - 1, 1))


def _feasible_points(space: SearchSpace, cubes: Iterator[Array], rng: np.random.Generator) -> Iterator[Array]:
    """Points of the cubes that satisfy the constraints; if too few do, points of the space's own sampler."""
    return chain.from_iterable(_feasible_block(space, cube, rng) for cube in cubes)


def _feasible_block(space: SearchSpace, cube: Array, rng: np.random.Generator) -> Array:
    X = _from_cube(space, cube)
    X = X[is_feasible(space, X)]
    return space.repair(X) if len(X) >= _LEAST_ACCEPTED else space.sample(_BLOCK, rng)
