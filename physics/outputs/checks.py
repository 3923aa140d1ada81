"""Checks of outputs that are computed, of a campaign file or of a problem in Python."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fieldcraft.physics.outputs.formula import written
from fieldcraft.physics.outputs.output import Output
from fieldcraft.physics.space import SearchSpace
from fieldcraft.physics.variables import Continuous, Integer, suggestion


def require_computable(outputs: Sequence[Output], space: SearchSpace) -> None:
    """Accept outputs of which the first is no plain one and every formula reads what all trials have.

    Raises:
        ValueError: the first is plain, two outputs or variables have one name where one is computed, or a formula reads
            no measured output, or what is not there.
    """
    if outputs[0].plain:
        raise ValueError(f"The output {outputs[0].name!r} is plain and the first: name the objective first.")
    if all(output.formula is None for output in outputs):
        return
    taken = [*(output.name for output in outputs), *space.names]
    if twice := next((name for name in taken if taken.count(name) > 1), None):
        raise ValueError(f"Two results or variables have the name {twice!r}: rename one.")
    measured = [output.name for output in outputs if output.formula is None]
    conditional = {one.name for one in space.only_if}
    numbers = [v.name for v in space.variables if isinstance(v, Continuous | Integer) and v.name not in conditional]
    for output in outputs:
        if output.formula is not None:
            _require_names(output.name, output.formula.names, measured, numbers)


def _require_names(output: str, read: Sequence[str], measured: Sequence[str], numbers: Sequence[str]) -> None:
    known = [*measured, *numbers]
    for name in read:
        if name not in known:
            raise ValueError(
                f"The formula of {output!r} reads {name!r}: name measured results and numeric variables that every "
                f"design has.{suggestion(name, [*map(written, known)])}"
            )
    if not set(read) & set(measured):
        raise ValueError(f"The formula of {output!r} reads no measured result: name one.")


def numbers_given(found: object, measured: Sequence[Output]) -> dict[str, float]:
    """The measured outputs in what a problem's ``evaluate`` gave, by name.

    Args:
        found: What it gave.
        measured: The measured outputs.

    Raises:
        ValueError: it is no mapping, or an output is missing or is not one real number.
    """
    names = [output.name for output in measured]
    if not isinstance(found, Mapping):
        raise ValueError(
            f"it gave {_kind(found)}: let it return a dictionary with a number for each of {', '.join(names)}"
        )
    for name in names:
        if name not in found:
            raise ValueError(f"it gave no {name!r} (it gave {', '.join(map(str, found)) or 'nothing'}): give a number")
    return {name: _number(name, found[name]) for name in names}


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} is {_kind(value)}: give one real number") from None


def _kind(value: object) -> str:
    """A value in words, for an error."""
    if value is None or isinstance(value, str | complex):
        return repr(value)
    return f"an array of the shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
