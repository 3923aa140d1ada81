"""The equation that a problem states for its objective, and the surrogates that can learn from it."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.models.capability import Capability, required
from fieldcraft.physics.collocation import CollocationPoints, collocated
from fieldcraft.physics.domain import Domain, same_axes
from fieldcraft.physics.operators import Equation, Jet, LinearEquation, System, as_system
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.space import Continuous, SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign, KnownPhysics
    from fieldcraft.models.observations import KnownSide, Physics

# Sizes of fields and derivatives for which an equation is tried.
_SIZES = (1.0, 0.6, 17.0)


def physics_at(known: "KnownPhysics", space: SearchSpace, points: CollocationPoints) -> "Physics":
    """Physics over a space of real variables, imposed at collocation points in physical units."""
    from fieldcraft.models.observations import Physics

    sides = tuple(_side(known.domain, *each) for each in zip(known.conditions, points.sides, strict=True))
    masked = known.domain.mask is not None
    return Physics(known.equation, points.inside, *_middle_and_half(space), sides=sides, masked=masked)


def _side(domain: Domain, condition: Condition, points: np.ndarray) -> "KnownSide":
    """A condition at points (m, d) of its side.

    Raises:
        ValueError: its right-hand side is not one finite number, or one for each point.
    """
    from fieldcraft.models.observations import KnownSide

    normal = np.zeros(len(domain.axes))
    normal[domain.names.index(condition.axis)] = -1.0 if condition.end == "low" else 1.0
    given = np.asarray(condition.right(points) if callable(condition.right) else condition.right)
    if given.dtype.kind not in "fiu":
        raise ValueError(
            f"The right-hand side of the condition at the {condition.end} end of {condition.axis!r} has the type "
            f"{given.dtype}: give real numbers"
        )
    right = np.asarray(given, dtype=np.float64)
    if right.shape not in ((), (len(points),)):
        raise ValueError(
            f"The right-hand side of the condition at the {condition.end} end of {condition.axis!r} has the shape "
            f"{right.shape} for {len(points)} points: it must be one number, or one for each point."
        )
    return KnownSide(points, normal, np.broadcast_to(right, (len(points),)), condition.value, condition.slope)


def _middle_and_half(space: SearchSpace) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half length of each variable's interval, each (d,), in physical units; of real variables alone."""
    middle, half = np.array([v.scale for v in space.variables if isinstance(v, Continuous)]).T
    return middle, half


def require_equation(campaign: "Campaign") -> None:
    """Accept a surrogate that needs an equation if the problem states one over its variables that it can learn from.

    Raises:
        InputError: the problem states none, its axes are not the design's variables, or the surrogate needs another
            kind of equation.
    """
    surrogate, problem = campaign.algorithm.surrogate, campaign.problem
    if Capability.EQUATION not in required(surrogate):
        return
    part = campaign.spec.algorithm
    place = (
        f"algorithm.kind: {part.named.kind!r}"
        if part.named
        else f"algorithm.surrogate: {part.surrogate and part.surrogate.kind!r}"
    )
    if problem.equation is None or problem.domain is None:
        raise InputError(
            f"{place} needs an equation and problem {campaign.spec.problem.kind!r} states none. Use auto or exact_gp, "
            "or give the problem an `equation` and a `domain`."
        )
    if not same_axes(problem.domain, campaign.space):
        raise InputError(
            f"problem {campaign.spec.problem.kind!r}: {_axes(problem.domain, campaign.space)} They must be the same, "
            "continuous, on linear scales and in the same order."
        )
    if (reason := _refusal(campaign)) is not None:
        raise InputError(f"{place} cannot learn from the problem's equation. {reason}")


def require_conditions(campaign: "Campaign") -> None:
    """Accept the conditions from which a surrogate learns if they are about the objective on sides of its domain.

    Raises:
        InputError: an axis has another unit than its variable; a condition names another field or axis, stands twice,
            or gives no values there; or a mask leaves nothing.
    """
    known, objective = campaign.known_physics, campaign.problem.outputs[0].name
    if known is None:
        return
    place = f"problem {campaign.spec.problem.kind!r}"
    for axis in known.domain.axes:
        if axis.unit and (unit := campaign.space.units[axis.name]) and unit != axis.unit:
            raise InputError(
                f"{place}: the axis {axis.name!r} of its domain is in {axis.unit!r} and the variable in {unit!r}. The "
                "equation holds over the variables: let both agree."
            )
    seen: set[tuple[str, str, float, float]] = set()
    for condition in known.conditions:
        if condition.field != objective or condition.axis not in known.domain.names:
            raise InputError(
                f"{place}: a condition names the field {condition.field!r} and the axis "
                f"{condition.axis!r}. The objective is {objective!r} and the axes are {', '.join(known.domain.names)}."
            )
        if (side := (condition.axis, condition.end, condition.value, condition.slope)) in seen:
            raise InputError(
                f"{place}: two conditions of one kind hold at the {condition.end} end of {condition.axis!r}. Remove "
                "one, or name another side."
            )
        seen.add(side)
    _imposed(campaign, known)


def _imposed(campaign: "Campaign", known: "KnownPhysics") -> "Physics":
    """The physics at points as a pass would draw them.

    Raises:
        InputError: a mask leaves nearly nothing, a condition gives no finite real values on its side, the equation
            gives none at the points, or their code fails.
    """
    settings = campaign.spec.algorithm.collocation
    address = partial(stream, campaign.spec.seed, 0, Use.COLLOCATE)
    try:
        with asked(type(campaign.problem), "state its mask and its conditions"):
            # Spread as evenly as Sobol points, without SciPy's statistics, which take 0.4 s to import.
            points = collocated(known.domain, known.conditions, settings.n, "latin_hypercube", address)
            found = physics_at(known, campaign.space, points)
        with asked(type(campaign.problem), "evaluate its equation"):
            _require_numbers(known.equation, points.inside)
        return found
    except ValueError as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error


def _require_numbers(equation: Equation | System, points: np.ndarray) -> None:
    """Accept an equation that gives one finite real number at each of the points (n, d).

    It is asked for fields and derivatives of several sizes, since it may have a pole at one of them.

    Raises:
        ValueError: it gives others, or is over another number of coordinates.
    """
    n, d = points.shape
    blocks = getattr(equation, "blocks", ((equation,),))
    for block in (block for row in blocks for block in row if isinstance(block, LinearEquation)):
        if len(block.first) != d:
            raise ValueError(
                f"The equation has coefficients of {len(block.first)} first derivatives over a domain of {d} axes: "
                "give one for each axis"
            )
    system = as_system(equation)
    jets = [Jet(np.full(n, size), np.full((n, d), size), np.full((n, d, d), size)) for size in _SIZES]
    with np.errstate(all="ignore"):
        tries = [system.operators(points, (jet,) * (1 + len(system.sizes))) for jet in jets]
        given = {"operator": tries, "source": [system.sources(points)]}
    for name, found in given.items():
        for each in zip(*found, strict=True):
            values = [np.asarray(value) for value in each]
            first, finite = values[0], [np.isfinite(value).all() for value in values if value.dtype.kind in "fiu"]
            if first.shape not in ((), (1,), (n,)) or not any(finite):
                raise ValueError(
                    f"The {name} of the equation gave an array of the shape {first.shape} and the type {first.dtype} "
                    f"for {n} points: it must be one finite real number for each, ({n},)"
                )


def told(campaign: "Campaign") -> str | None:
    """Use of a problem's conditions and mask by a campaign; None if it has none, or its equation is not used."""
    known = campaign.known_physics
    if known is None or not (known.conditions or known.domain.mask) or unused(campaign) is not None:
        return None
    sides = [f"the {condition.end} end of {condition.axis}" for condition in known.conditions]
    stated = [f"conditions at {', '.join(sides)}"] if sides else []
    stated += ["a mask of its domain"] if known.domain.mask else []
    part = campaign.spec.algorithm
    does = "learns" if Capability.EQUATION in required(campaign.algorithm.surrogate) else "may learn"
    return (
        f"problem {campaign.spec.problem.kind!r} states an equation, {' and '.join(stated)}: the surrogate "
        f"{part.surrogate and part.surrogate.kind} {does} from them."
    )


def unused(campaign: "Campaign") -> str | None:
    """Reason why a campaign does not use the equation of its problem; None where it does, or there is no equation."""
    surrogate, problem, part = campaign.algorithm.surrogate, campaign.problem, campaign.spec.algorithm
    if problem.equation is None or problem.domain is None:
        return None
    said = f"problem {campaign.spec.problem.kind!r} states an equation for its objective, and it is not used:"
    if not same_axes(problem.domain, campaign.space):
        return f"{said} {_axes(problem.domain, campaign.space)}"
    if surrogate is None:
        return f"{said} {part.in_words} does not learn from equations. auto and pinn_bo do."
    if not surrogate.uses_physics:
        kind = part.surrogate and part.surrogate.kind
        return f"{said} the surrogate {kind!r} learns from results alone. auto and pinn_bo learn from both."
    if (reason := _refusal(campaign)) is not None:
        return f"{said} {reason}"
    return None


def _axes(domain: Domain, space: SearchSpace) -> str:
    return (
        f"the equation's domain has the axes {', '.join(domain.names)} and the design the variables "
        f"{', '.join(space.names)}."
    )


def _refusal(campaign: "Campaign") -> str | None:
    """Reason why a surrogate that learns from equations cannot learn from this one; None where it can."""
    from fieldcraft.models.surrogate import TakesSomeEquations

    surrogate, known = campaign.algorithm.surrogate, campaign.known_physics
    if known is None or not isinstance(surrogate, TakesSomeEquations):
        return None
    imposed = _imposed(campaign, known)
    try:
        surrogate.refuse(imposed)
    except ValueError as error:
        return str(error)
    return None
