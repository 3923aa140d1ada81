"""A problem that carries its own formula, as a simulator."""

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fieldcraft.physics.gradients import gradient_units
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr


@runtime_checkable
class _Formula(Protocol):
    """A problem with a function of its design."""

    def function(self, design: Design) -> "Mapping[str, float] | xr.Dataset": ...


@dataclass(frozen=True)
class Function(Simulator):
    """Call ``problem.function(design)``, which answers with numbers by name, or with a dataset of its own.

    The function is a calculation: a run may be repeated without harm. Whatever acts on the world (an instrument, a paid
    service) is a simulator of its own, with ``idempotent = False``.
    """

    idempotent = True
    formula = True

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The numbers as scalar variables, or the dataset, with units; those of outputs and gradient are the problem's.

        Raises:
            ValueError: a problem without ``function``, an answer that is neither numbers by name nor a dataset, or a
                variable without a unit.
        """
        if not isinstance(problem, _Formula):
            raise ValueError(
                f"The simulator 'function' cannot run {type(problem).__name__}: give it a method `function(design)`, "
                "or choose another simulator."
            )
        units = {output.name: output.unit for output in problem.measured} | gradient_units(problem)
        return _with_units(_dataset(problem.function(design)), units)


def _dataset(answer: object) -> "xr.Dataset":
    import xarray as xr

    if isinstance(answer, xr.Dataset):
        return answer
    if not isinstance(answer, Mapping):
        raise ValueError(f"The problem's function gave {answer!r}: return numbers by name, or an xarray.Dataset.")
    for name, value in answer.items():
        if not _is_number(value):
            raise ValueError(f"The problem's function gave {name} = {value!r}: return a number, or an xarray.Dataset.")
    return xr.Dataset({name: ((), float(value)) for name, value in answer.items()})


def _is_number(value: Any) -> bool:
    """True for a number, an array without dimensions included."""
    return isinstance(value, numbers.Real) or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu")


def _with_units(fields: "xr.Dataset", units: Mapping[str, str]) -> "xr.Dataset":
    fields = fields.copy()
    for name, variable in fields.variables.items():
        if "units" in variable.attrs:
            continue
        if str(name) not in units:
            raise ValueError(
                f"The problem's function gave {name!r} without a unit: set its attrs['units'] ('' for a pure number), "
                "or list it among the problem's outputs."
            )
        fields[name].attrs["units"] = units[str(name)]
    return fields
