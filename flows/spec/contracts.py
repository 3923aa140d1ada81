"""Contracts of the classes of kinds: errors that people make when they write one, with file and line."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.spec.plugin_files import is_plugin, line_of
from fieldcraft.flows.text import quoted, said
from fieldcraft.physics.domain import Domain
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Output, Problem, Simulator
from fieldcraft.physics.space import SearchSpace

_BASES: dict[str, type[Any]] = {"problems": Problem, "simulators": Simulator}
_OUTPUTS = '(Output("value", "K"),)'
_SPACE = 'SearchSpace((Continuous("x", 0.0, 1.0, "m"),))'
_REMEDY = {
    "outputs": f"a property that returns a tuple, such as {_OUTPUTS}",
    "space": f"a property that returns a SearchSpace, such as {_SPACE}",
    "run": "a method run(self, problem, design, rng) that returns an xarray.Dataset",
}


def require_whole(group: str, cls: type[Any]) -> None:
    """Accept a plug-in's class that has the base and the members that its group requires.

    Raises:
        InputError: it derives from another class, lacks a member, or has a method for a property.
    """
    if not is_plugin(cls.__module__):
        return
    base = _BASES.get(group)
    if base is not None and not issubclass(cls, base):
        name, of = cls.__name__, base.__name__
        raise _fault(cls, f"{name} is no {of}: write class {name}({of}), with 'from fieldcraft import {of}'")
    for name in sorted(getattr(cls, "__abstractmethods__", ())):
        raise _fault(cls, f"{cls.__name__} has no {name!r}: give it {_REMEDY.get(name, name)}")
    for name, value in vars(base or object).items():
        own = inspect.getattr_static(cls, name, None)
        if isinstance(value, property) and inspect.isfunction(own):
            raise _fault(own, f"{name!r} is a method and must be a property: write @property in the line above it")


def require_problem(problem: Problem) -> None:
    """Accept a plug-in's problem whose properties have values of the right types.

    Raises:
        InputError: one of them raises an error or has another value.
    """
    cls = type(problem)
    if not is_plugin(cls.__module__):
        return
    space, outputs, domain, equation = (_property(problem, name) for name in ("space", "outputs", "domain", "equation"))
    if not isinstance(space, SearchSpace):
        raise _fault(_getter(cls, "space"), f"'space' gives {quoted(space)}: return a SearchSpace, such as {_SPACE}")
    if not (isinstance(outputs, tuple | list) and outputs and all(isinstance(each, Output) for each in outputs)):
        bare = f"Output({outputs.name!r}, {outputs.unit!r})" if isinstance(outputs, Output) else None
        right = f"({bare},), a tuple with its comma" if bare else f"{_OUTPUTS}, a tuple"
        raise _fault(_getter(cls, "outputs"), f"'outputs' gives {bare or quoted(outputs)}: return {right}")
    names = [output.name for output in outputs]
    if not isinstance(domain, Domain | None):
        raise _fault(_getter(cls, "domain"), f"'domain' gives {quoted(domain)}: return a Domain, or None")
    if equation is not None and (isinstance(equation, type) or not hasattr(equation, "linear")):
        raise _fault(
            _getter(cls, "equation"), f"'equation' gives {quoted(equation)}: return an equation, such as laplace(2)"
        )
    sides = _property(problem, "conditions")
    if not (isinstance(sides, tuple | list) and all(isinstance(each, Condition) for each in sides)):
        raise _fault(_getter(cls, "conditions"), f"'conditions' gives {quoted(sides)}: return a tuple of Conditions")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _fault(_getter(cls, "outputs"), f"two outputs are named {twice!r}: give each its own name")


def require_dataset(simulator: Simulator, found: object) -> None:
    """Accept what a simulator's ``run`` returns.

    Raises:
        InputError: it is not an xarray.Dataset.
    """
    import xarray as xr

    if not isinstance(found, xr.Dataset):
        told = "None" if found is None else f"a {type(found).__name__}"
        raise _fault(type(simulator).run, f"'run' gave {told}: return an xarray.Dataset")


def _property(problem: Problem, name: str) -> Any:
    with asked(type(problem), f"give its {name!r}"):
        return getattr(problem, name)


@contextmanager
def asked(cls: type[Any], what: str) -> Iterator[None]:
    """Turn an error of a plug-in's code within the block into one InputError with its file and line.

    Args:
        cls: The class of the plug-in; errors of a built-in kind are left as they are.
        what: Task of the code, for the error.

    Raises:
        InputError: the code raised an error; ValidationError and InputError pass unchanged.
    """
    try:
        yield
    except (InputError, ValidationError):
        raise
    except (Exception, SystemExit) as error:  # the outermost edge of a user's code: what it raises is one clear error
        if not is_plugin(cls.__module__):
            raise
        told = f"{type(error).__name__}: {said(str(error))}" if str(error) else type(error).__name__
        raise InputError(
            f"{line_of(error) or _line(cls)}: {cls.__name__} cannot {what}: {told.rstrip('.')}. Mend it."
        ) from error


def _getter(cls: type[Any], name: str) -> Any:
    own = inspect.getattr_static(cls, name)
    return own.fget if isinstance(own, property) and own.fget else cls


def _fault(of: Any, problem: str) -> InputError:
    return InputError(f"{_line(of)}: {problem}.")


def _line(of: Any) -> str:
    """File and line of a class or function."""
    try:
        return f"{inspect.getsourcefile(of)}, line {inspect.getsourcelines(of)[1]}"
    except (OSError, TypeError):
        return str(inspect.getfile(of))
