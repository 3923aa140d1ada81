"""Predictions of the latest surrogate: over a plane of designs, and their residual in the equation.

Reads a checkpoint and so imports torch, as no other command that inspects does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.predictions.model import latest_model, predicted
from fieldcraft.flows.wiring.context import Site
from fieldcraft.physics.operators import Jet, System, as_system, residuals
from fieldcraft.physics.space import Continuous, Design, Integer, SearchSpace
from fieldcraft.storage.records import Product, Trial, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.models.observations import Physics
    from fieldcraft.models.surrogate import Posterior

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_GRID = 81  # points along an axis of the plane
_RESIDUAL_GRID = 61  # points along an axis of the residual's map
_DRAWS = 512  # designs from which the relevance of a variable is estimated
_LEAST_SHOWN = 0.05  # share of a plane that must be possible for it to be shown


@dataclass(frozen=True)
class Slice:
    """A prediction over one or two variables, all others at the best design.

    Args:
        names: The one or two variables.
        axes: Values of each, in its unit, shape (g,).
        mean: Predicted objective in its unit, shape (g,) or (g, g), by the variables in order.
        sd: Its standard deviation in the same unit and shape.
        held: The other variables, at the best design.
        tied: Variables that an equality adjusts to the shown ones; the prediction is NaN where no adjustment is
            possible.
        shares: Relevance of every numeric variable: its total effect on the prediction as a share of all, from 0 to 1.
    """

    names: tuple[str, ...]
    axes: tuple[Array, ...]
    mean: Array
    sd: Array
    held: Mapping[str, Any]
    tied: tuple[str, ...]
    shares: Mapping[str, float]


@dataclass(frozen=True)
class Missed:
    """Residual of the equation for the predicted mean, |N[mean] - g| in the unit of N.

    Args:
        names: Axes of the domain.
        axes: Values along each axis of a domain of two, in its unit, shape (g,); None elsewhere.
        values: Residual at the grid (g, g) of a domain of two, NaN where its mask leaves a place out; else at the
            collocation points (r,).
        points: The collocation points, in physical units, shape (r, d).
        at_points: Residual at the collocation points, shape (r,).
        curvature: Root mean square of all second derivatives at the points of ``values``, as the scale of a small
            residual.
    """

    names: tuple[str, ...]
    axes: tuple[Array, Array] | None
    values: Array
    points: Array
    at_points: Array
    curvature: float


@dataclass(frozen=True)
class Belief:
    """The latest surrogate's prediction.

    Args:
        product: The product of its training.
        trials: Number of trials in its training data.
        plane: The prediction over the most relevant variables; None where no variable is a number.
        missed: Its residual in the equation; None where it learns from none.
    """

    product: Product
    trials: int
    plane: Slice | None
    missed: Missed | None


def believed(site: Site, best: Trial | TrialSummary, wanted: tuple[str, ...] = ()) -> Belief | None:
    """The latest surrogate's prediction around the best trial; None while none is trained.

    Args:
        site: The campaign.
        best: Trial at whose design the variables that are not shown are held.
        wanted: The variables to show; the most relevant ones when left out.

    Raises:
        ValueError: the data have been corrected since, so that the checkpoint belongs to other data.
        storage.fields.FieldError: the field store has lost the checkpoint.
    """
    if (model := latest_model(site)) is None:
        return None
    posterior, data = model.posterior, model.data
    plane = _slice(posterior, site.campaign.space, best, wanted)
    physics = data.physics
    # Only the objective is predicted, and a system is about its auxiliary fields too.
    missing = None if physics is None or isinstance(physics.equation, System) else _missed(posterior, physics, site)
    return Belief(model.product, len(data), plane, missing)


def _columns(space: SearchSpace) -> dict[str, int]:
    """Column of the encoded coordinate of each numeric variable."""
    starts = np.cumsum([0, *(variable.width for variable in space.variables)])
    columns = zip(space.variables, starts, strict=False)
    return {v.name: int(at) for v, at in columns if isinstance(v, Continuous | Integer)}


def _relevance(posterior: "Posterior", space: SearchSpace) -> dict[str, float]:
    """Total effect of every numeric variable on the predicted mean, as a share of their sum (Jansen, 1999)."""
    rng = np.random.default_rng(0)
    base, other = space.sample(_DRAWS, rng), space.sample(_DRAWS, rng)
    at_base, effects = predicted(posterior, base)[0], {}
    for name, column in _columns(space).items():
        redrawn = base.copy()
        redrawn[:, column] = other[:, column]
        if (moving := _tied(space, [column])).any():
            redrawn = space.completed(redrawn, moving)
            redrawn = np.where(np.isnan(redrawn), base, redrawn)
        effects[name] = float(np.mean((predicted(posterior, redrawn)[0] - at_base) ** 2))
    total = sum(effects.values()) or 1.0
    return {name: effect / total for name, effect in effects.items()}


def _slice(
    posterior: "Posterior", space: SearchSpace, best: Trial | TrialSummary, wanted: tuple[str, ...]
) -> Slice | None:
    shares, columns = _relevance(posterior, space), _columns(space)
    names = wanted or tuple(sorted(shares, key=shares.__getitem__, reverse=True)[:2])
    if not names:
        return None
    along, centre = np.linspace(-1.0, 1.0, _GRID), _inside(space, best.actual)
    X, moving = _plane(space, centre, along, [columns[name] for name in names])
    if (
        len(names) == 2 and not wanted and np.isnan(X).mean() > 1 - _LEAST_SHOWN
    ):  # one of the two follows from the other
        names = names[:1]
        X, moving = _plane(space, centre, along, [columns[names[0]]])
    known = ~np.isnan(X).any(axis=1)
    mean, sd = np.full((2, len(X)), np.nan)
    mean[known], sd[known] = predicted(posterior, X[known])
    numeric = {v.name: v for v in space.variables if isinstance(v, Continuous | Integer)}
    axes = tuple(numeric[name].values(along) for name in names)
    tied = tuple(name for name, column in columns.items() if moving[column])
    held = {name: value for name, value in centre.items() if name not in (*names, *tied)}
    shape = (_GRID,) * len(names)
    return Slice(names, axes, mean.reshape(shape), sd.reshape(shape), held, tied, shares)


def _plane(space: SearchSpace, centre: Design, along: Array, columns: list[int]) -> tuple[Array, Mask]:
    """Encoded points (g^k, d) of the grid over k columns, NaN where infeasible, and a mask of the adjusted columns."""
    mesh = np.meshgrid(*[along] * len(columns), indexing="ij")
    X = np.repeat(space.encode([centre]), mesh[0].size, axis=0)
    X[:, columns] = np.stack([values.ravel() for values in mesh], axis=1)
    moving = _tied(space, columns)
    held = any(np.isin(columns, mixture.columns).any() for mixture in space.mixtures)
    return (space.completed(X, moving) if held else X), moving


def _tied(space: SearchSpace, columns: list[int]) -> Mask:
    """Mask of the other coordinates that share an equality with one of these columns, shape (d,)."""
    moving = np.zeros(space.dimension, dtype=bool)
    for mixture in space.mixtures:
        if np.isin(columns, mixture.columns).any():
            moving[mixture.columns] = True
    moving[columns] = False
    return moving


def _inside(space: SearchSpace, design: Design) -> dict[str, float | int | str]:
    """The design with its numbers clipped to the space: the design as run may lie outside it."""
    found = dict(design)
    for variable in space.variables:
        if isinstance(variable, Continuous | Integer):
            found[variable.name] = min(max(found[variable.name], variable.low), variable.high)
    return found


def _missed(posterior: "Posterior", physics: "Physics", site: Site) -> Missed:
    assert site.campaign.known_physics is not None  # the observations carry its equation
    domain = site.campaign.known_physics.domain
    at_points, curvature = _residual(posterior, physics, physics.points)
    if len(domain.names) != 2:
        return Missed(domain.names, None, at_points, physics.points, at_points, curvature)
    low, high = domain.bounds
    x, y = (np.linspace(low[i], high[i], _RESIDUAL_GRID) for i in range(2))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = domain.contains(grid)
    values = np.full(len(grid), np.nan)
    values[inside], curvature = _residual(posterior, physics, grid[inside])
    shape = (_RESIDUAL_GRID, _RESIDUAL_GRID)
    return Missed(domain.names, (x, y), values.reshape(shape), physics.points, at_points, curvature)


def _residual(posterior: "Posterior", physics: "Physics", points: Array) -> tuple[Array, float]:
    """|N[mean] - g| at physical points (n, d), shape (n,), and the root mean square of the second derivatives."""
    jet = _jet(posterior, physics, points)
    (found,) = residuals(as_system(physics.equation), points, (jet,))
    found = np.abs(np.asarray(found, dtype=np.float64))
    return np.broadcast_to(found, len(points)).copy(), float(np.sqrt(np.mean(jet.hessian**2)))


def _jet(posterior: "Posterior", physics: "Physics", points: Array) -> Jet:
    """The predicted mean and its derivatives at physical points (n, d), in physical units, by autograd."""
    import torch

    X = torch.tensor(physics.encode(points), requires_grad=True)
    mean = posterior.mean_var(X)[0]
    (gradient,) = torch.autograd.grad(mean.sum(), X, create_graph=True)
    rows = [torch.autograd.grad(part.sum(), X, retain_graph=True)[0] for part in gradient.unbind(1)]
    scaling, half = posterior.scaling, physics.half
    factor = scaling.sign * scaling.sd
    return Jet(
        value=scaling.to_physical(mean.detach().numpy()),
        gradient=factor * gradient.detach().numpy() / half,
        hessian=factor * torch.stack(rows, dim=1).numpy() / (half[:, None] * half),
    )
