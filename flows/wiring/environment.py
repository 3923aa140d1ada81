"""Environment of a campaign, recorded at its creation: code, versions, machine, outputs and variables.

Of these the outputs and the units of the variables must stay what they were: results are read by them.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.text import FIGURES
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Categorical, Continuous, SearchSpace
from fieldcraft.storage.records import CampaignRecord

_DEPTHS = ("*.py", "*/*.py", "*/*/*.py")  # of kinds, and of helpers beside them
_PACKAGES = (
    "fieldcraft",
    "torch",
    "botorch",
    "gpytorch",
    "scikit-learn",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
    "py-pde",
    "prefect",
    "mlflow",
    "ax-platform",
    "baybe",
    "optuna",
)


def environment_of(problem: Problem, plugins: Sequence[Path]) -> dict[str, Any]:
    """Environment of this process as JSON data; ``outputs`` serves to read a campaign whose problem's file is missing.

    Args:
        problem: The campaign's problem.
        plugins: Directories of the user's own kinds; the checksums of their files are included.
    """
    import torch

    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "versions": {name: _version(name) for name in _PACKAGES},
        "plugins": {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in _files(plugins)},
        "outputs": outputs_of(problem),
        "units": problem.space.units,
        **_of_variables(problem.space),
    }


def _of_variables(space: SearchSpace) -> dict[str, Any]:
    """Scales, orders of levels, figures beyond six and conditions of a space, which views need beside units."""
    orders = {v.name: list(v.levels) for v in space.variables if isinstance(v, Categorical) and v.ordered}
    conditions = {each.name: {each.of: list(each.levels)} for each in space.only_if}
    figures = {v.name: v.figures for v in space.variables if isinstance(v, Continuous) and v.figures > FIGURES}
    told = {"log": list(space.logarithmic), "orders": orders, "only_if": conditions, "figures": figures}
    return {key: value for key, value in told.items() if value}


def require_recorded(campaign: CampaignRecord, problem: Problem) -> None:
    """Accept a problem whose outputs and variables are those with which the campaign was begun.

    Raises:
        InputError: an output or a variable has another name or unit, or an output another part in the campaign.
    """
    before, outputs, units = campaign.environment, outputs_of(problem), problem.space.units
    for what, was, gives in (
        ("outputs", _outputs(before.get("outputs", outputs)), _outputs(outputs)),
        ("variables", _variables(before.get("units", units)), _variables(units)),
    ):
        if was != gives:
            raise InputError(
                f"Campaign {campaign.name!r} was begun with the {what} {was}. The code of its problem now has {gives}: "
                "results of both would be mixed. Put the code back, or begin a campaign of another name."
            )


def _outputs(outputs: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(map(_output, outputs))


def _output(output: Mapping[str, Any]) -> str:
    """An output in words: name, unit, and what makes its numbers others."""
    part = output.get("objective") or ("plain" if output.get("plain") else "")
    formula = f"= {output['formula']}" if output.get("formula") else ""
    return _with_unit(output["name"], " ".join(word for word in (output["unit"], part, formula) if word))


def _variables(units: Mapping[str, str]) -> str:
    return ", ".join(_with_unit(name, units[name]) for name in sorted(units))


def _with_unit(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def outputs_of(problem: Problem) -> list[dict[str, Any]]:
    """Outputs of a problem as JSON data; sense and reference of marked objectives, and sd where it is known.

    A plain one says so, and a computed one has its formula in words.
    """
    return [
        {"name": output.name, "unit": output.unit}
        | ({"objective": output.objective, "reference": output.reference} if output.objective else {})
        | ({} if output.sd is None else {"sd": output.sd})
        | ({"plain": True} if output.plain else {})
        | ({} if output.formula is None else {"formula": str(output.formula)})
        for output in problem.outputs
    ]


def _files(plugins: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Names and files of the plug-in directories; names are relative, or paths where there are several directories."""
    for directory in plugins:
        for file in sorted(file for depth in _DEPTHS for file in directory.glob(depth)):
            yield str(file if len(plugins) > 1 else file.relative_to(directory)), file


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> str | None:
    """Commit of this code's checkout, with ``+`` where files were changed; None outside a checkout."""
    here = Path(__file__).resolve().parent
    ask = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
