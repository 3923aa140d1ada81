"""The emulators of a campaign: cheap predictions of its outputs, for encoded designs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.flows.wiring.physics.nearest_designs import middle, nearest
from fieldcraft.models.capability import Capability, provided, required
from fieldcraft.physics.images import Image
from fieldcraft.physics.parametric.derivatives import refuse_wrong_derivatives
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Fields, Numbers, ParametricEquation, in_words
from fieldcraft.physics.problem import Problem, Solve
from fieldcraft.physics.space import SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import Emulator

# Designs whose fields are computed together.
_BLOCK = 1024
# Largest size of a prediction: its square is still a number.
_LARGEST = 1e100
# Designs at which a mesh's jitter is measured, how far each is moved in encoded coordinates at most, and the seed.
_PROBES, _MOVE, _SEED = 256, 0.1, 5


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Predictions of all outputs; those of the last designs are kept, for one output after the other asks for them.

    Args:
        problem: The problem.
        space: Space of real variables that encodes the designs.
        cells: Cells of a grid for the stated equation; None for the problem's ``emulate``.
        solve: Solver of the stated equation on these cells; finite differences where it is None.
    """

    problem: Problem
    space: SearchSpace
    cells: tuple[int, ...] | None = None
    solve: Solve | None = None
    _last: dict[bytes, np.ndarray] = field(default_factory=dict, repr=False)

    def at(self, X: np.ndarray) -> np.ndarray:
        """All outputs at encoded designs X (n, d), shape (n, outputs)."""
        key = X.tobytes()
        if key not in self._last:
            blocks = (X[first : first + _BLOCK] for first in range(0, len(X), _BLOCK))
            found = np.vstack([nearest(self._some, self.space, block) for block in blocks])
            self._last.clear()
            self._last[key] = found
        return self._last[key]

    def one(self, number: int, X: np.ndarray) -> np.ndarray:
        """One output at encoded designs X (n, d), shape (n,)."""
        return self.at(X)[:, number]

    def _some(self, X: np.ndarray) -> np.ndarray:
        designs = self.space.values(X)
        with explained(self.problem, "predict its outputs"):
            if self.cells is None:
                found = self.problem.emulate(designs)
            else:
                found = self.problem.on_grid(designs, self.cells, self.solve)
        if found is not None and np.iscomplexobj(found):
            raise ValueError(f"The emulator of {type(self.problem).__name__} gave complex values: give real ones.")
        try:
            values = np.empty(0) if found is None else np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"The emulator of {type(self.problem).__name__} gave a {type(found).__name__}: give an array of "
                "numbers (n, outputs)."
            ) from None
        expected = (len(X), len(self.problem.outputs))
        if values.shape != expected:
            raise ValueError(
                f"The emulator of {type(self.problem).__name__} gave an array of the shape {values.shape} for {len(X)} "
                f"designs: it must be {expected}, one column for each output."
            )
        bad = np.argwhere(~(np.abs(values) <= _LARGEST))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            design = in_words({name: value[row, 0] for name, value in designs.items()})
            raise ValueError(
                f"The emulator of {type(self.problem).__name__} predicts {values[row, column]} for "
                f"{self.problem.outputs[column].name!r} at {design}: it must be finite for every design of the space"
                f"{', and at most 1e100 in size' if np.isfinite(values[row, column]) else ''}."
            )
        return values

    def jitter(self, number: int) -> float:
        """Standard deviation of what a mesh adds to one output from design to design without order."""
        return float(self._jitters[number])

    @cached_property
    def _jitters(self) -> np.ndarray:
        """Jitter (outputs,) of the stated equation on its coarse grid.

        The difference D of two meshes that hardly differ has the jitter j of both, and a smooth part. So the variance
        of D(x + v) - 2 D(x) + D(x - v) is 12 j^2 and a part that grows with v^4, which two sizes of v tell apart. The
        median of its size, times 1.48, stands for its standard deviation, since a few designs may be extreme.
        """
        assert self.problem.parametric is not None  # else there is no mesh
        finer = replace(self, cells=tuple(n + 1 for n in self.problem.parametric.cells), _last={})
        rng = np.random.default_rng(_SEED)
        X = np.clip(self.space.sample(_PROBES, rng), -1 + _MOVE, 1 - _MOVE)
        move = _MOVE * rng.choice([-1.0, 1.0], X.shape) * ~self.space.discrete

        def variance(v: np.ndarray) -> np.ndarray:
            three = np.vstack([X + v, X, X - v])
            ahead, here, behind = np.split(self.at(three) - finer.at(three), 3)
            return np.asarray((1.48 * np.median(np.abs(ahead - 2 * here + behind), axis=0)) ** 2 / 12)

        return np.asarray(np.sqrt(np.maximum((16 * variance(move / 2) - variance(move)) / 15, 0.0)))


@dataclass(frozen=True)
class CalibratedSolve:
    """Finite differences of a stated equation with calibrated coefficients, as ``physics.problem.Solve``.

    Args:
        values: Values of its coefficients, in their order and units.
    """

    values: tuple[float, ...]

    def __call__(
        self, stated: ParametricEquation, designs: Numbers, cells: tuple[int, ...]
    ) -> Mapping[str, np.ndarray]:
        """Fields of the designs, whose variables are each (n, 1), on so many cells along each axis."""
        from fieldcraft.physics.parametric.finite_differences import solved

        return solved(stated.calibrated(self.values), designs, cells)


@contextmanager
def explained(problem: Problem, what: str) -> Iterator[None]:
    """Turn an error of a plug-in's code within the block into a ValueError with its file and line.

    Args:
        problem: The problem whose code it is; errors of a built-in kind are left as they are.
        what: Task of the code, for the error.
    """
    try:
        with asked(type(problem), what):
            yield
    except InputError as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=8)
def emulators_of(problem: Problem, space: SearchSpace, solve: Solve | None = None) -> "tuple[Emulator, ...]":
    """Emulators of the objective and of each constraint, in this order; empty where there are none.

    Args:
        problem: The problem.
        space: Space of real variables that encodes the designs.
        solve: Solver of the stated equation instead of the problem's emulator: of calibrated coefficients, or a
            network, which has no mesh.
    """
    if no_emulator(problem, space) is not None:
        return ()
    from fieldcraft.models.observations import Emulator

    stated = problem.parametric
    outputs = _Outputs(problem, space, None if solve is None or stated is None else stated.cells, solve)
    meshed = problem.emulator == "equation" and (solve is None or isinstance(solve, CalibratedSolve))
    return tuple(
        Emulator(partial(outputs.one, number), partial(outputs.jitter, number) if meshed else None, space.discrete)
        for number in range(len(problem.outputs))
    )


def no_emulator(problem: Problem, space: SearchSpace) -> str | None:
    """Reason why a problem's outputs have no emulator; None if they have."""
    if problem.emulator is None:
        return "the problem has none (`parametric` with `functional`, or `emulate`)"
    if images := [variable.name for variable in space.variables if isinstance(variable, Image)]:
        return f"that of the problem takes one value of each variable, which images have not: {', '.join(images)}"
    if reasons := space.folds.reasons:
        return f"that of the problem takes each encoded point for a design of its own, and {'; '.join(reasons)}"
    return None


def told(campaign: "Campaign") -> str | None:
    """Use of a problem's emulator by a campaign, or the reason why there is none; None if it has no emulator."""
    from fieldcraft.models.surrogate import TakesFields

    problem = campaign.problem
    if problem.emulator is None:
        return None
    source, stated = "its own cheap model", problem.parametric
    network = campaign.spec.emulator
    if stated is not None and (network is not None or problem.emulator == "equation"):
        fields, cells = ", ".join(each.name for each in stated.fields), " x ".join(map(str, stated.cells))
        if stated.domain.mask is not None:
            inside = Grid(stated.domain, stated.cells).inside
            cells = f"the {np.count_nonzero(inside)} of {cells} cells that the mask leaves"
        else:
            cells += " cells"
        source = f"the equation of {fields}, solved on {cells}"
        if network is not None:
            source = (
                f"the equation of {fields}, by a network trained on {network.points} points for {network.steps} steps"
            )
    said = f"problem {campaign.spec.problem.kind!r} has an emulator ({source})"
    if (reason := no_emulator(problem, campaign.space)) is not None:
        return f"{said}, and it is not used: {reason}."
    users = users_of(campaign)
    if not users:
        words = campaign.spec.algorithm.in_words
        source = "the stored fields" if isinstance(campaign.algorithm.peer, TakesFields) else "results"
        return f"{said}, and it is not used: {words} learns from {source} alone. emulated and auto use it."
    if network is not None and stated is not None and stated.coefficients:
        names = " and ".join(each.name for each in stated.coefficients)
        users.append(f"no fields calibrate {names}, for a network knows the stated values alone")
    return f"{said}: {'; '.join(users)}."


def users_of(campaign: "Campaign") -> list[str]:
    """Words on each part of a campaign's algorithm that uses an emulator."""
    from fieldcraft.models.surrogate import TakesEmulator, TakesFields

    problem, words, part = campaign.problem, campaign.algorithm, campaign.spec.algorithm
    network, stated = campaign.spec.emulator is not None, problem.parametric
    by_equation = network or problem.emulator == "equation"
    users = ["the first design is the best by it"] if Capability.EMULATOR in required(words.initial) else []
    learners = {"surrogate": (part.surrogate, words.surrogate)}
    if len(problem.outputs) > 1:
        learners["constraints' surrogate"] = (part.constraints.surrogate, words.constraints.surrogate)
    for who, (named, surrogate) in learners.items():
        if named is not None and isinstance(surrogate, TakesEmulator) and surrogate.uses_emulator:
            if Capability.LEVELS in required(surrogate):
                users.append(f"the {who} {named.kind} may learn the difference of the cheapest level to it")
                continue
            does = "learns" if Capability.EMULATOR in required(surrogate) else "may learn"
            fields = by_equation and isinstance(surrogate, TakesFields) and surrogate.uses_fields
            fitted = "" if network else _fitted(stated, does)
            by_field = f", field by field{fitted}" if fields and not campaign.noise_sd else ""
            users.append(f"the {who} {named.kind} {does} the difference to it{by_field}")
            if fields and not campaign.noise_sd and _projects(problem, surrogate):
                verb = "projects" if does == "learns" else "may project"
                users.append(f"it {verb} the simulator's own discrete equations on the stored fields")
    return users


def _projects(problem: Problem, surrogate: object) -> bool:
    return type(problem).discrete is not Problem.discrete and Capability.BOUNDS_REGRET in provided(surrogate)


def _fitted(stated: ParametricEquation | None, does: str) -> str:
    """Words on the coefficients that a surrogate which ``learns`` or ``may learn`` fits to the fields."""
    if stated is None or not stated.coefficients:
        return ""
    ranges = [
        " ".join(filter(None, (f"{each.name} ({each.value:g}, from {each.low:g} to {each.high:g}", each.unit))) + ")"
        for each in stated.coefficients
    ]
    return f", and {'fits' if does == 'learns' else 'may fit'} {' and '.join(ranges)} to the fields"


def require_regret(campaign: "Campaign") -> None:
    """Accept the stop rule ``certified_regret`` if surrogate and problem can prove a bound of the regret.

    Raises:
        InputError: they cannot; states what is missing.
    """
    share = campaign.spec.stop.certified_regret
    if share is None:
        return
    from fieldcraft.models.certified.regret import unbounded

    problem, shape = campaign.problem, unbounded(campaign.space)
    lacking = {
        "the surrogate proves none: use reduced_basis, or auto": Capability.BOUNDS_REGRET
        not in provided(campaign.algorithm.surrogate),
        "the problem states no discrete equations (`discrete`)": type(problem).discrete is Problem.discrete,
        "its discrete equations state no stiffness `above`, by which a bound is found": _no_majorant(campaign),
        "a lower bound says nothing of the largest value": campaign.objective.maximize,
        "results must satisfy constraints": len(problem.outputs) > 1,
        "noise is added to the results, and fields have none": campaign.noise_sd > 0,
        shape: bool(shape),
    }
    if reasons := [reason for reason, holds in lacking.items() if holds]:
        raise InputError(
            f"stop.certified_regret: {share:g} is to be proven by the problem's equations, and {'; '.join(reasons)}. "
            "Stop by no_improvement, which needs no proof."
        )


def _no_majorant(campaign: "Campaign") -> bool:
    """True if the problem's discrete equations of a design, on the equation's own cells, state no ``above``."""
    problem, space = campaign.problem, campaign.space
    with asked(type(problem), "state its discrete equations"):
        if problem.parametric is None or any(space.discrete):
            return False
        found = problem.discrete(space.values(space.sample(1, np.random.default_rng(_SEED))), problem.parametric.cells)
    return found is not None and found.above is None


def require_stated(problem: Problem) -> None:
    """Accept a problem whose equation and fields can be asked for.

    Raises:
        InputError: the code of a plug-in that states them raises an error, or gives something else.
    """
    with asked(type(problem), "state its equation and its fields"):
        for statement, kind in (("parametric", ParametricEquation), ("fields", Fields)):
            found = getattr(problem, statement)
            if found is not None and not isinstance(found, kind):
                raise ValueError(f"{statement!r} gives a {type(found).__name__}: return a {kind.__name__}, or None")


def require_own_names(campaign: "Campaign") -> None:
    """Accept a stated equation whose coefficients and variables have different names.

    Raises:
        InputError: a coefficient has the name of a variable.
    """
    stated = campaign.problem.parametric
    try:
        if stated is not None:
            stated.refuse_names(campaign.space.names)
    except ValueError as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error


def require_mask(campaign: "Campaign") -> None:
    """Accept fields in a domain with a mask that leaves some of the coarse grid, with conditions all around it.

    Raises:
        InputError: it leaves no cell, changes in time, or a part of its boundary has too few conditions or too many.
    """
    from fieldcraft.physics.parametric.finite_differences import solved

    stated = campaign.problem.parametric
    if stated is None or stated.domain.mask is None:
        return
    (design,) = campaign.space.decode(middle(campaign.space))
    try:
        with explained(campaign.problem, "solve its equation"):
            solved(stated, design, stated.cells)
    except ValueError as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error


def require_predictions(campaign: "Campaign") -> None:
    """Accept an emulator, where the campaign needs one, that predicts two designs: the space's middle and another one.

    Raises:
        InputError: it cannot, or its predictions are no finite real numbers.
    """
    space, words = campaign.space, campaign.algorithm
    needing = {Capability.EMULATOR in required(part) for part in (words.initial, words.surrogate)}
    if campaign.spec.emulator is not None or no_emulator(campaign.problem, space) is not None or True not in needing:
        return
    X = np.vstack([middle(space), space.sample(1, np.random.default_rng(_SEED))])
    try:
        emulators_of(campaign.problem, space)[0].predict(X)
    except (ValueError, ArithmeticError) as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error


def require_derivatives(campaign: "Campaign") -> None:
    """Accept a stated equation whose nonlinear terms have the derivatives that they state.

    Raises:
        InputError: a derivative differs from that by differences, at the middle of the space.
    """
    stated = campaign.problem.parametric
    if stated is None or stated.nonlinear is None:
        return
    (design,) = campaign.space.decode(middle(campaign.space))
    try:
        with explained(campaign.problem, "evaluate its nonlinear terms"):
            refuse_wrong_derivatives(stated, design)
    except ValueError as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error
