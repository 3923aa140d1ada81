"""An external simulator: a program of the operator's, given each design as arguments and an input file.

The campaign file names no simulator. It names a program that the operator's setting ``FIELDCRAFT_PROGRAMS`` lists, and
how it is called. It runs as ``local`` runs simulations, in a process group with a limit of time that outlives the
process that started it, and gives its output as JSON or netCDF (``docs/simulators.md``). No shell ever reads a word of
it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fieldcraft.flows.dispatchers._templates import argument, filled, written
from fieldcraft.flows.dispatchers.local import Local
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.jobs.dispatcher import Handle, Job, NotSent
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.spec.base import FILE
from fieldcraft.flows.text import quoted
from fieldcraft.physics.space import Categorical, Design

if TYPE_CHECKING:
    from fieldcraft.physics.problem import Problem

_PLACES = ("input", "output", "key", "seed")

_FileName = Annotated[str, Field(pattern=FILE)]
_ExitCode = Annotated[int, Field(ge=1, le=255)]


@dataclass(frozen=True)
class _Input:
    """The file that is written for the program before it starts.

    Args:
        file: Name of the file.
        template: Its text, with places; the design as JSON when left out.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    file: _FileName = "design.json"
    template: str | None = None


@dataclass(frozen=True)
class _Output:
    """The file that the program writes.

    Args:
        file: Name of the file.
        format: Its format.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    file: _FileName = "result.json"
    format: Literal["json", "netcdf"] = "json"


@dataclass(frozen=True)
class Command(Local):
    """Runs a program for each job.

    A template has places for the design's variables by their names, and for ``{input}`` and ``{output}`` (the files'
    names), ``{key}`` (names the attempt) and ``{seed}`` (a number from 0 to 2^31 - 1 that is the trial's own).

    Args:
        place: The campaign; a job over its wall time is killed with its process group.
        program: Base name or absolute path of a program that the operator lists.
        arguments: One template for each argument.
        input: The file that is written for the program.
        output: The file that the program writes.
        exit_codes: Kind of failure for each exit code above 0; an exit code that is not listed is ``unknown``.
        idempotent: True if a run may be repeated without harm.
        noisy: True if the same design may give another result when it is run again.

    Raises:
        ValueError: input and output have the same name.
    """

    program: str
    arguments: tuple[str, ...] = ()
    input: _Input = _Input()
    output: _Output = _Output()
    exit_codes: Mapping[_ExitCode, Literal["transient", "infeasible", "unknown"]] = field(default_factory=dict)
    idempotent: bool = False
    noisy: bool = False
    answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.input.file == self.output.file:
            raise ValueError(f"input.file and output.file are both {self.input.file!r}: give the output another name")

    @property
    def programs(self) -> Mapping[str, Path]:
        """The program by the name under which approvals cover it.

        Raises:
            InputError: the operator does not allow it now.
        """
        program = _allowed(self.program, self.place.settings.programs)
        return {f"program {program.name}": program}

    def require(self, problem: "Problem") -> None:
        """Accept a problem whose designs the templates can take, and a program that the operator allows.

        Raises:
            InputError: it is not allowed or not there, or a template or a level of a variable cannot be used.
        """
        _allowed(self.program, self.place.settings.programs)
        levels = {v.name: v.levels for v in problem.space.variables if isinstance(v, Categorical)}
        design: dict[str, float | int | str] = dict.fromkeys(problem.space.names, 0.5)
        design |= {name: levels[name][0] for name in levels}
        try:
            for each in [{**design, name: level} for name in levels for level in levels[name]] or [design]:
                self._filled(each, "key", 0)
        except ValueError as error:
            raise InputError(f"dispatcher: {_sentence(error)}") from None

    def submit(self, job: Job) -> Handle:
        """Write the request and start a child, as ``local`` does.

        Raises:
            NotSent: the operator does not allow the program now, or the design cannot be put into the templates.
        """
        request = job.request
        rng = stream(request["seed"], request["iteration"], Use.SIMULATE, request["slot"])
        try:
            program = _allowed(self.program, self.place.settings.programs)
            order = self._filled(request["design"], job.key, int(rng.integers(2**31)))
        except (InputError, ValueError) as error:
            raise NotSent(f"{job.trial}: {_sentence(error)} Mend that and run again: nothing is lost.") from None
        order["argv"].insert(0, str(program))
        return super().submit(Job(job.trial, job.key, {**request, "program": order}))

    def _filled(self, design: Design, key: str, seed: int) -> dict[str, Any]:
        """Arguments, files and exit codes of one run, as JSON data.

        Raises:
            ValueError: a template or a value that cannot be used.
        """
        if clash := sorted(set(design) & set(_PLACES)):
            raise ValueError(f"the problem's variable {clash[0]!r} bears the name of a place in templates: rename it")
        values = {**written(design), "input": self.input.file, "output": self.output.file}
        values |= {"key": key, "seed": str(seed)}
        texts = frozenset(name for name, value in design.items() if isinstance(value, str))
        template = self.input.template
        return {
            "argv": [argument(each, values, texts) for each in self.arguments],
            "input": {
                "file": self.input.file,
                "text": json.dumps(dict(design)) if template is None else filled(template, values),
            },
            "output": {"file": self.output.file, "format": self.output.format},
            "exit_codes": {str(code): kind for code, kind in self.exit_codes.items()},
        }


def _sentence(error: Exception) -> str:
    said = str(error)
    return said if said.endswith((".", "?")) else f"{said}."


def _allowed(named: str, listed: tuple[Path, ...]) -> Path:
    """The program of that base name or absolute path among those that the operator lists.

    Raises:
        InputError: there is none, or more than one, or it is no file that may be executed.
    """
    found = sorted({program for program in listed if named in (program.name, str(program))})
    if not found:
        known = ", ".join(map(str, listed)) or "none"
        raise InputError(
            f"dispatcher.program: {quoted(named)} is not among the programs that the operator allows ({known}). Ask "
            "for its absolute path to be added to FIELDCRAFT_PROGRAMS, or name one of them."
        )
    if len(found) > 1:
        raise InputError(
            f"dispatcher.program: {quoted(named)} is the name of {' and of '.join(map(str, found))}. Give the absolute "
            "path."
        )
    if not (found[0].is_file() and os.access(found[0], os.X_OK)):
        raise InputError(
            f"dispatcher.program: {found[0]}, which FIELDCRAFT_PROGRAMS lists, is no program that this account may "
            "run. Mend the path or its rights."
        )
    return found[0]
