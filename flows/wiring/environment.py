"""What a campaign ran on, recorded when it is created and never compared: code, versions, machine, names of outputs."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fieldcraft.physics.problem import Problem

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
    """The environment of this process as JSON; ``outputs`` lets a campaign be read where its problem's file is missing.

    Args:
        problem: The campaign's problem.
        plugins: Directories of the user's own kinds, whose files are named with their checksums.
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
        "outputs": [{"name": output.name, "unit": output.unit} for output in problem.outputs],
        "units": problem.space.units,
    }


def _files(plugins: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The files of plug-in directories by their names in it, and by their paths where there are several."""
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
    """Commit of the checkout that this code is, with ``+`` where it was changed; None outside one."""
    here = Path(__file__).resolve().parent
    ask = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
