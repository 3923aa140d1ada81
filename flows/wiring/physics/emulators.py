"""The emulators of a campaign: cheap predictions of its outputs, for encoded designs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.spec.contracts import asked
from fieldcraft.flows.wiring.physics.equations import middle_and_half
from fieldcraft.models.capability import Capability, required
from fieldcraft.physics.parametric.derivatives import refuse_wrong_derivatives
from fieldcraft.physics.parametric.statement import ParametricEquation
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, SearchSpace

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.observations import Emulator

# Designs whose fields are computed together.
_BLOCK = 1024
# Designs at which a mesh's jitter is measured, how far each is moved in encoded coordinates at most, and the seed.
_PROBES, _MOVE, _SEED = 256, 0.1, 5


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Predictions of all outputs; those of the last designs are kept, for one output after the other asks for them.

    Args:
        problem: The problem.
        space: Space of real variables that encodes the designs.
        cells: Cells of a grid for the stated equation; None for the problem's ``emulate``.
    """

    problem: Problem
    space: SearchSpace
    cells: tuple[int, ...] | None = None
    _last: dict[bytes, np.ndarray] = field(default_factory=dict, repr=False)

    def at(self, X: np.ndarray) -> np.ndarray:
        """All outputs at encoded designs X (n, d), shape (n, outputs)."""
        key = X.tobytes()
        if key not in self._last:
            found = np.vstack([self._some(X[first : first + _BLOCK]) for first in range(0, len(X), _BLOCK)])
            self._last.clear()
            self._last[key] = found
        return self._last[key]

    def one(self, number: int, X: np.ndarray) -> np.ndarray:
        """One output at encoded designs X (n, d), shape (n,)."""
        return self.at(X)[:, number]

    def _some(self, X: np.ndarray) -> np.ndarray:
        middle, half = self._box
        physical = X * half + middle
        designs = {name: physical[:, [i]] for i, name in enumerate(self.space.names)}
        with explained(self.problem, "predict its outputs"):
            found = self.problem.emulate(designs) if self.cells is None else self.problem.on_grid(designs, self.cells)
        values = np.empty(0) if found is None else np.asarray(found, dtype=np.float64)
        expected = (len(X), len(self.problem.outputs))
        if values.shape != expected:
            raise ValueError(
                f"The emulator of {type(self.problem).__name__} gave an array of the shape {values.shape} for {len(X)} "
                f"designs: it must be {expected}, one column for each output."
            )
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            design = ", ".join(f"{name} {float(value[row, 0]):g}" for name, value in designs.items())
            raise ValueError(
                f"The emulator of {type(self.problem).__name__} predicts {values[row, column]} for "
                f"{self.problem.outputs[column].name!r} at {design}: it must be finite for every design of the space."
            )
        return values

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        return middle_and_half(self.space)

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
        move = _MOVE * rng.choice([-1.0, 1.0], X.shape)

        def variance(v: np.ndarray) -> np.ndarray:
            three = np.vstack([X + v, X, X - v])
            ahead, here, behind = np.split(self.at(three) - finer.at(three), 3)
            return np.asarray((1.48 * np.median(np.abs(ahead - 2 * here + behind), axis=0)) ** 2 / 12)

        return np.asarray(np.sqrt(np.maximum((16 * variance(move / 2) - variance(move)) / 15, 0.0)))


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
def emulators_of(problem: Problem, space: SearchSpace) -> "tuple[Emulator, ...]":
    """Emulators of the objective and of each constraint, in this order; empty where there are none."""
    if no_emulator(problem, space) is not None:
        return ()
    from fieldcraft.models.observations import Emulator

    outputs = _Outputs(problem, space)
    meshed = problem.emulator == "equation"
    return tuple(
        Emulator(partial(outputs.one, number), partial(outputs.jitter, number) if meshed else None)
        for number in range(len(problem.outputs))
    )


def no_emulator(problem: Problem, space: SearchSpace) -> str | None:
    """Reason why a problem's outputs have no emulator; None if they have."""
    if problem.emulator is None:
        return "the problem has none (`parametric` with `functional`, or `emulate`)"
    others = [variable.name for variable in space.variables if not isinstance(variable, Continuous)]
    if others:
        return f"that of the problem takes continuous variables alone, and {', '.join(others)} are others"
    return None


def told(campaign: "Campaign") -> str | None:
    """Use of a problem's emulator by a campaign, or the reason why there is none; None if it has no emulator."""
    from fieldcraft.models.surrogate import TakesEmulator, TakesFields

    problem, words = campaign.problem, campaign.algorithm
    if problem.emulator is None:
        return None
    source, stated = "its own cheap model", problem.parametric
    if problem.emulator == "equation" and stated is not None:
        fields, cells = ", ".join(each.name for each in stated.fields), " x ".join(map(str, stated.cells))
        source = f"the equation of {fields}, solved on {cells} cells"
    said = f"problem {campaign.spec.problem.kind!r} has an emulator ({source})"
    if (reason := no_emulator(problem, campaign.space)) is not None:
        return f"{said}, and it is not used: {reason}."
    part = campaign.spec.algorithm
    users = ["the first design is the best by it"] if Capability.EMULATOR in required(words.initial) else []
    learners = {"surrogate": (part.surrogate, words.surrogate)}
    if len(problem.outputs) > 1:
        learners["constraints' surrogate"] = (part.constraints.surrogate, words.constraints.surrogate)
    for who, (named, surrogate) in learners.items():
        if named is not None and isinstance(surrogate, TakesEmulator) and surrogate.uses_emulator:
            does = "learns" if Capability.EMULATOR in required(surrogate) else "may learn"
            fields = problem.emulator == "equation" and isinstance(surrogate, TakesFields) and surrogate.uses_fields
            by_field = f", field by field{_fitted(stated, does)}" if fields and not campaign.noise_sd else ""
            users.append(f"the {who} {named.kind} {does} the difference to it{by_field}")
    if not users:
        return f"{said}, and it is not used: {part.in_words} learns from results alone. emulated and auto use it."
    return f"{said}: {'; '.join(users)}."


def _fitted(stated: ParametricEquation | None, does: str) -> str:
    """Words on the coefficients that a surrogate which ``learns`` or ``may learn`` fits to the fields."""
    if stated is None or not stated.coefficients:
        return ""
    ranges = [
        " ".join(filter(None, (f"{each.name} ({each.value:g}, from {each.low:g} to {each.high:g}", each.unit))) + ")"
        for each in stated.coefficients
    ]
    return f", and {'fits' if does == 'learns' else 'may fit'} {' and '.join(ranges)} to the fields"


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


def require_derivatives(campaign: "Campaign") -> None:
    """Accept a stated equation whose nonlinear terms have the derivatives that they state.

    Raises:
        InputError: a derivative differs from that by differences, at the middle of the space.
    """
    stated = campaign.problem.parametric
    if stated is None or stated.nonlinear is None:
        return
    (design,) = campaign.space.decode(np.zeros((1, campaign.space.dimension)))
    try:
        with explained(campaign.problem, "evaluate its nonlinear terms"):
            refuse_wrong_derivatives(stated, design)
    except ValueError as error:
        raise InputError(f"problem {campaign.spec.problem.kind!r}: {error}") from error
