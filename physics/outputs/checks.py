"""Checks of outputs that are computed, of a campaign file or of a problem in Python."""

from collections.abc import Sequence

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
